# SPDX-License-Identifier: Apache-2.0
# unirail: one statically linked binary. `make help` lists what can be made; vendor/ holds the libraries' recipes.

FLAVOUR ?= release
ARCH ?= $(shell uname -m)
override ARCH := $(patsubst arm64,aarch64,$(patsubst amd64,x86_64,$(ARCH)))
native := $(shell uname -m)
DEB_ARCH := $(patsubst aarch64,arm64,$(patsubst x86_64,amd64,$(ARCH)))

# Runs a script that calls make. With '+' that make shares the jobs of this one. With -n there is no '+', so the script is printed and not
# run. A line of a recipe that contains $(MAKE) itself would be run even with -n.
dry := $(findstring n,$(filter-out -%,$(firstword $(MAKEFLAGS))))
with_make = $(if $(dry),,+)@exec env MAKE='$(MAKE)'

ifeq ($(MAKELEVEL)$(filter -j%,$(MAKEFLAGS)),0)
MAKEFLAGS += -j$(shell nproc)
endif
MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

# ---- directories of the build -------------------------------------------------------------------------------------
B ?= build
variant := $(FLAVOUR)$(if $(filter-out $(native),$(ARCH)),-$(ARCH))
OBJ := $(B)/obj/$(variant)
ifeq ($(variant),release)
OUT := $(B)
else
OUT := $(B)/$(patsubst release-$(ARCH),$(DEB_ARCH),$(variant))
endif
GEN := $(B)/gen
BIN := $(OUT)/unirail

# ---- the compiler and the libraries -------------------------------------------------------------------------------
LIBC := $(or $(filter asan fuzz,$(FLAVOUR)),musl)
CROSS := $(if $(filter-out $(native),$(ARCH)),$(ARCH)-linux-gnu-)

# These goals build nothing, so the packages that a build needs are neither checked nor installed.
idle := help clean distclean
ifneq ($(filter-out $(idle),$(or $(MAKECMDGOALS),all)),)
needed := $(if $(dry),yes,$(shell tools/need build $(if $(CROSS),$(DEB_ARCH)) $(filter fuzz,$(FLAVOUR)) && echo yes))
ifneq ($(needed),yes)
$(error what the build needs is missing, see above)
endif
include vendor/flags.mk
# The path depends on PROVIDERS, which the command sets itself: make before 4.4 exports no variable to $(shell).
LIBDIR := $(shell PROVIDERS='$(PROVIDERS)' vendor/build --path $(ARCH) $(LIBC))
CC := $(LIBDIR)/bin/cc
endif

# ---- flags --------------------------------------------------------------------------------------------------------
WARN := -Wall -Wextra -Wshadow -Wformat=2 -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wundef
# Each compiler has other warnings. A warning is an error only with Debian 12's compilers, which CI uses; others just print it.
compiler := $(if $(filter fuzz,$(FLAVOUR)),clang,$(CROSS)gcc)
ifneq ($(filter gcc-12 clang-14,$(subst $(CROSS),,$(compiler))-$(firstword $(subst ., ,$(shell $(compiler) -dumpversion 2>/dev/null)))),)
WARN += -Werror
endif
# Neither -fcf-protection nor -mbranch-protection: their code would cost bytes, and nothing would enforce it. Linux has no IBT for programs.
# The C library enables a shadow stack, and musl does not. BTI requires a mark in the binary (readelf -n), which the linker writes only if
# every object has the mark; no object of musl 1.2.5 has it, since musl's assembly has no landing pads.
HARDEN := -fPIE -fstack-protector-strong -fstack-clash-protection
ifeq ($(FLAVOUR),release)
# On x86-64 gcc places each larger variable at a multiple of 32 bytes unless -malign-data=abi asks for the ABI's alignment.
OPT := -Os -g $(if $(filter x86_64,$(ARCH)),-malign-data=abi) -ffunction-sections -fdata-sections -fno-asynchronous-unwind-tables -fno-unwind-tables
else ifeq ($(FLAVOUR),debug)
OPT := -Og -g
else ifeq ($(FLAVOUR),count)
# tests/growth counts the basic blocks that run: each calls a counter.
OPT := -O1 -g -ffunction-sections -fdata-sections -fsanitize-coverage=trace-pc
WARN += -Wno-maybe-uninitialized -Wno-format-truncation -Wno-stringop-truncation
else ifeq ($(FLAVOUR),asan)
OPT := -Og -g -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
# gcc analyses instrumented code less precisely, so these warnings would be false.
WARN += -Wno-format-truncation -Wno-maybe-uninitialized -Wno-stringop-truncation
else ifeq ($(FLAVOUR),fuzz)
# no-trace-cmp: a call at every comparison would take half of the time. tests/fuzz/*.dict have the words that these calls would find.
OPT := -O2 -g -fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-coverage=trace-cmp \
	-fno-sanitize-recover=undefined -fno-omit-frame-pointer
# clang warns about idioms that gcc accepts.
WARN += -Wno-string-plus-int -Wno-format-nonliteral
else
$(error FLAVOUR is '$(FLAVOUR)', expected release, debug, asan, fuzz or count)
endif
# The fuzzers replace pread() and other functions, so that files are in memory. Ubuntu's compiler would call checked variants instead.
ifneq ($(FLAVOUR),release)
OPT += -U_FORTIFY_SOURCE
endif
# The binary contains neither this directory's path nor the cache's, so that builds in two directories are equal byte for byte.
CFLAGS = -std=gnu11 -D_GNU_SOURCE $(OPT) $(HARDEN) $(WARN) -ffile-prefix-map=$(CURDIR)=. \
	-ffile-prefix-map=$(abspath $(LIBDIR)/../..)=/cache -Isrc -I$(GEN) $(VENDOR_CFLAGS)
LINK_MODE := $(if $(filter musl,$(LIBC)),-static-pie,-pie)
# Stores a pointer to relocate as a bit instead of 24 bytes, which saves a twentieth of the binary. musl reads this format since 1.2.4;
# GNU ld writes it for arm64 only since 2.43.
PACK := $(if $(filter musl-x86_64,$(LIBC)-$(ARCH)),-Wl$(comma)-z$(comma)pack-relative-relocs)
LDFLAGS = $(LINK_MODE) -Wl,--gc-sections,-O1,-z,relro,-z,now,-z,noexecstack,-z,separate-code,--build-id=sha1 $(PACK)

# The compiler writes a temporary file, which is then renamed, so that two makes in one directory do not damage each other's objects.
say = @printf '  %-5s %s\n' $(1) $(2);
into = -o $@.$$$$ && mv -f $@.$$$$ $@
compile = mkdir -p $(@D) && $(CC) $(CFLAGS) $(3) -MMD -MP -MT $@ -MF $@.d -c $(1) $(into)

# ---- sources ------------------------------------------------------------------------------------------------------
SRC := $(sort $(shell find src -name '*.c'))
HDR := $(sort $(shell find src -name '*.h'))
OBJS := $(SRC:%.c=$(OBJ)/%.o)
LIB := $(OBJ)/libunirail.a

.PHONY: all libs objs headers clean distclean help FORCE
all: $(BIN)

## libs: build only the libraries that unirail links (kept in the cache: a second run does nothing)
libs: $(LIBDIR)
	@echo $(LIBDIR)
ifdef LIBDIR
$(LIBDIR):
	@vendor/build $(ARCH) $(LIBC) >/dev/null
endif

# All objects are compiled again after a change of a flag or of a library.
$(OBJ)/flags: FORCE | $(LIBDIR)
	@mkdir -p $(@D)
	@printf '%s\n' '$(subst ','\'',$(CC) $(CFLAGS))' | cmp -s - $@ || printf '%s\n' '$(subst ','\'',$(CC) $(CFLAGS))' >$@

## objs: compile everything under src, without linking (one file: make obj/src/base/err.o)
objs: $(OBJS)
obj/%.o: $(OBJ)/%.o ;

$(OBJ)/src/%.o: src/%.c $(OBJ)/flags
	$(call say,CC,$<) $(call compile,$<)

# ---- version: set by `tools/release VERSION`, here and in other files; only cli/version.o contains it -------------
VERSION ?= 0.1.0
COMMIT ?= $(or $(shell git rev-parse --short=12 HEAD 2>/dev/null),unknown)
version_flags = -DUNIRAIL_VERSION='"$(VERSION)"' -DUNIRAIL_COMMIT='"$(COMMIT)"'

$(OBJ)/src/cli/version.o: src/cli/version.c $(OBJ)/flags $(GEN)/version $(GEN)/vendor_versions.h
	$(call say,CC,$<) $(call compile,$<,,$(version_flags))
$(GEN)/version: FORCE
	@mkdir -p $(@D)
	@echo '$(VERSION) $(COMMIT)' | cmp -s - $@ || echo '$(VERSION) $(COMMIT)' >$@
$(GEN)/vendor_versions.h: vendor/manifest
	@mkdir -p $(@D)
	@awk '!/^#/ && $$2 == "link" { gsub(/\+/, " ", $$7); printf "{ \"%s\", \"%s\", \"%s\" },\n", $$1, $$3, $$7 }' $< >$@

# ---- the manifests in the binary ----------------------------------------------------------------------------------
EMBEDDED := ../rules.yaml crd.yaml agent.yaml controller.yaml tls/provided.yaml tls/certmanager.yaml \
	$(patsubst deploy/%,%,$(sort $(wildcard deploy/crds/*.yaml deploy/policies/*.yaml deploy/monitor/*.yaml))) host/host.yaml ../../uninstall/node.yaml
$(OBJ)/src/cli/manifests/embedded.o: $(GEN)/embedded_files.h
$(GEN)/embedded_files.h: tools/embed $(EMBEDDED:%=deploy/chart/files/%)
	@mkdir -p $(@D)
	$(call say,EMBED,$@) tools/embed deploy/chart/files $(EMBEDDED) >$@.$$$$ && mv -f $@.$$$$ $@

# ---- linking ------------------------------------------------------------------------------------------------------
$(LIB): $(filter-out $(OBJ)/src/main.o,$(OBJS))
	$(call say,AR,$@) rm -f $@.$$$$ && $(CROSS)gcc-ar rcsD $@.$$$$ $^ && mv -f $@.$$$$ $@

$(OUT)/unirail.dbg: $(OBJS)
	@[ -e src/main.c ] || { echo "src/main.c is missing: nothing to link (make objs compiles)" >&2; exit 1; }
	$(call say,LD,$@) mkdir -p $(@D) && $(CC) $(CFLAGS) $(LDFLAGS) -Wl,-Map=$(OUT)/unirail.map $(OBJS) $(VENDOR_LIBS) $(into)

ifeq ($(FLAVOUR),release)
$(BIN): $(OUT)/unirail.dbg
	$(call say,STRIP,$@) $(CROSS)strip -s $< $(into)
	@tools/static $(CROSS)readelf $@ || { rm -f $@; exit 1; }
else
$(BIN): $(OUT)/unirail.dbg
	@ln -f $< $@
endif

## clean: remove build/ (the libraries stay in the cache)
clean:
	rm -rf $(B)

## distclean: remove build/ and this user's whole cache of sources and libraries
distclean: clean
	rm -rf "$${UNIRAIL_CACHE:-$${XDG_CACHE_HOME:-$$HOME/.cache}/unirail}"

help:
	@echo "make                build the binary, build/unirail (FLAVOUR=release, debug"
	@echo "                    or asan; ARCH=x86_64 or arm64; PROVIDERS=...)"
	@sed -n 's/^## \([a-z-]*\): /\1 /p' $(MAKEFILE_LIST) | sort -u | while read -r name what; do \
		echo "$$what" | fold -s -w 60 | sed "s/ *$$//; 1s/^/$$(printf 'make %-14s ' "$$name")/; 2,\$$s/^/                    /"; done

include $(wildcard tools/build/*.mk)
-include $(OBJS:=.d)
