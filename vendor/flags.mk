# SPDX-License-Identifier: Apache-2.0
# How our code compiles and links against what vendor/build made. Wants LIBDIR; sets VENDOR_CFLAGS and VENDOR_LIBS.

# The NICs that libibverbs drives: any of rdma-core's providers, e.g. make PROVIDERS="mlx5 rxe erdma mana".
PROVIDERS ?= mlx5 mlx4 rxe siw irdma bnxt_re efa hns
export PROVIDERS
empty :=
comma := ,
words_to_list = $(subst $(empty) $(empty),$(comma),$(strip $(1)))

# Before <infiniband/verbs.h> in whatever calls ibv_get_device_list: the macro rewrites that call.
VENDOR_CFLAGS = -isystem $(LIBDIR)/include \
	-DRDMA_STATIC_PROVIDERS=$(call words_to_list,$(PROVIDERS)) \
	-DMBEDTLS_CONFIG_FILE='"mbedtls/unirail_config.h"' -DNGHTTP2_STATICLIB \
	-DPB_ENABLE_MALLOC=1 -DPB_NO_ERRMSG=1 -DPB_FIELD_32BIT=1

provider_lib = $(if $(filter mlx5 mlx4 efa hns mana,$(1)),-l$(1),-l$(1)-rdmav34)
VENDOR_LIBS = -L$(LIBDIR)/lib \
	-Wl,--start-group $(foreach p,$(PROVIDERS),$(call provider_lib,$(p))) -libverbs -lrdma_util -lccan -Wl,--end-group \
	-lmbedtls -lnghttp2 -lyyjson -lnanopb -lpicohttpparser -linih -lnl
