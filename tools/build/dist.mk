# SPDX-License-Identifier: Apache-2.0
# Past the binary: installing it, packing it, weighing it, holding that it comes out the same.

PREFIX ?= /usr/local
DESTDIR ?=
# A foreign binary describes itself under qemu.
RUN := $(if $(CROSS),qemu-$(ARCH)-static)
# Examples and manifests, as far as the tree has them.
CONFIGS := $(wildcard configs deploy)

.PHONY: install dist size reproducible demo bench check-run
## install: binary, man pages, completions and examples below DESTDIR and PREFIX (/usr/local)
install: $(BIN)
	@tools/stage '$(BIN)' '$(DESTDIR)$(PREFIX)' '$(CONFIGS)' '$(RUN)'

## dist: one reproducible archive: all of install, licences, what an LGPL relink needs, an SPDX list of parts
dist: $(BIN) $(GEN)/vendor_versions.h
	@VERSION='$(VERSION)' COMMIT='$(COMMIT)' CROSS='$(CROSS)' RUN='$(RUN)' CONFIGS='$(CONFIGS)' PACK='$(PACK)' \
		tools/dist '$(BIN)' '$(LIBDIR)' '$(ARCH)' '$(OBJ)' '$(VENDOR_LIBS)'

## size: what each library and each folder of src costs in the binary; fails past a budget (tools/size says why so much)
size: $(BIN)
	@tools/size $(BIN) $(OUT)/unirail.map

## reproducible: build in two folders and compare byte for byte (LIBS=1: the libraries too)
reproducible:
	+@MAKE='$(MAKE)' VERSION='$(VERSION)' COMMIT='$(COMMIT)' tools/reproducible $(LIBS)

## demo: eight rails for two pods on this machine, no cluster needed
demo: $(BIN)
	@$(BIN) demo

## bench: compare with the programs that unirail replaces
bench: $(BIN) $(OBJ)/tests/bench/tls
	@tools/need test
	@tests/bench/run
	@$(OBJ)/tests/bench/tls

## check-run: run the binary of another machine under qemu (make ARCH=arm64 check-run)
check-run: $(BIN)
	@$(if $(RUN),tools/need run-arm64)
	$(RUN) $(BIN) version
