# SPDX-License-Identifier: Apache-2.0
# Flags to compile and link with the libraries of vendor/build. Requires LIBDIR; sets VENDOR_CFLAGS and VENDOR_LIBS.

# The providers of rdma-core (drivers of NICs) in libibverbs: for example, make PROVIDERS="mlx5 rxe erdma mana".
PROVIDERS ?= mlx5 mlx4 rxe siw irdma bnxt_re efa hns
export PROVIDERS
empty :=
comma := ,
words_to_list = $(subst $(empty) $(empty),$(comma),$(strip $(1)))

# RDMA_STATIC_PROVIDERS must be defined before <infiniband/verbs.h>: the macro rewrites calls of ibv_get_device_list().
VENDOR_CFLAGS = -isystem $(LIBDIR)/include \
	-DRDMA_STATIC_PROVIDERS=$(call words_to_list,$(PROVIDERS)) \
	-DMBEDTLS_CONFIG_FILE='"mbedtls/unirail_config.h"' -DNGHTTP2_STATICLIB \
	-DPB_ENABLE_MALLOC=1 -DPB_NO_ERRMSG=1 -DPB_FIELD_32BIT=1

provider_lib = $(if $(filter mlx5 mlx4 efa hns mana,$(1)),-l$(1),-l$(1)-rdmav34)
VENDOR_LIBS = -L$(LIBDIR)/lib \
	-Wl,--start-group $(foreach p,$(PROVIDERS),$(call provider_lib,$(p))) -libverbs -lrdma_util -lccan -Wl,--end-group \
	-lmbedtls -lnghttp2 -lyyjson -lnanopb -lpicohttpparser -linih -lnl
