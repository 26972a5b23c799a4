# SPDX-License-Identifier: Apache-2.0
# Targets that use the binary: install, pack, measure its size, check that its build is reproducible.

PREFIX ?= /usr/local
DESTDIR ?=
# Runs the binary of another architecture under qemu.
RUN := $(if $(CROSS),qemu-$(ARCH)-static)
# The directories of examples and manifests that the tree has.
CONFIGS := $(wildcard configs deploy)

.PHONY: install dist size reproducible demo bench bench-device check-run
.PHONY: image image-part
## install: install binary, man pages, completions and examples below DESTDIR and PREFIX (/usr/local)
install: $(BIN)
	@tools/stage '$(BIN)' '$(DESTDIR)$(PREFIX)' '$(CONFIGS)' '$(RUN)'

## dist: write one reproducible archive: all of install, licences, what an LGPL relink needs, an SPDX list of parts
dist: $(BIN) $(GEN)/vendor_versions.h
	@VERSION='$(VERSION)' COMMIT='$(COMMIT)' CROSS='$(CROSS)' RUN='$(RUN)' CONFIGS='$(CONFIGS)' PACK='$(PACK)' \
		tools/dist '$(BIN)' '$(LIBDIR)' '$(ARCH)' '$(OBJ)' '$(VENDOR_LIBS)'

## image: write OCI archives of amd64, of arm64 and of both, with SPDX documents, without a container engine or root: build/image
image:
	$(with_make) VERSION='$(VERSION)' COMMIT='$(COMMIT)' tools/image '$(B)/image'

# The program and its SPDX document for one architecture, named as an image names it.
image-part: $(BIN)
	@mkdir -p '$(PART)'
	@SOURCE_DATE_EPOCH='$(SOURCE_DATE_EPOCH)' VERSION='$(VERSION)' tools/sbom '$(BIN)' '$(ARCH)' "$$($(CROSS)gcc -dumpfullversion)" \
		>'$(PART)/sbom.spdx.json'
	@cp '$(BIN)' '$(PART)/unirail'

## bundle: write one file with images, manifests, definitions and checksums for clusters without a network: deploy/bundle
bundle: image
	@VERSION='$(VERSION)' COMMIT='$(COMMIT)' tools/bundle '$(B)/image' '$(B)'
.PHONY: bundle

# If empty, the maintainer is "DEBFULLNAME <DEBEMAIL>" of the environment, or git's user.
MAINTAINER ?=
## deb: write the Debian package of this architecture (MAINTAINER='Name <address>': who builds it): deploy/debian
deb: $(BIN)
	@VERSION='$(VERSION)' COMMIT='$(COMMIT)' CROSS='$(CROSS)' RUN='$(RUN)' CONFIGS='$(CONFIGS)' MAINTAINER='$(MAINTAINER)' \
		tools/deb '$(BIN)' '$(LIBDIR)' '$(ARCH)' '$(B)'
.PHONY: deb

## size: print the size of each library and each folder of src in the binary; fail if the binary exceeds its budget (tools/size has the budget and its reason)
size: $(BIN)
	@tools/size $(BIN) $(OUT)/unirail.map

## reproducible: build in two directories and compare the binaries byte for byte (LIBS=1: build the libraries again as well)
reproducible:
	$(with_make) VERSION='$(VERSION)' COMMIT='$(COMMIT)' tools/reproducible $(LIBS)

## test-delivery: test images, packages and bundle with containerd, skopeo and Debian's tools (K=image: only these tests)
test-delivery: $(BIN)
	@tools/need test delivery
	@tools/pytest tests/delivery $(if $(K),-k '$(K)')
.PHONY: test-delivery

## demo: attach two pods to eight rails on this machine, without a cluster
demo: $(BIN)
	@$(BIN) demo

## bench: measure ADD and DEL, compared with the programs that unirail replaces
bench: $(BIN) $(OBJ)/tests/bench/tls $(OBJ)/tests/bench/raw_netlink
	@tools/need test
	@UNIRAIL_RAW_NETLINK=$(abspath $(OBJ)/tests/bench/raw_netlink) tests/bench/run
	@$(OBJ)/tests/bench/tls

## bench-device: measure the device plugins on a node with 1,000 VFs: memory, Allocate by clients in C, Go and Python, a link that goes down
bench-device: $(BIN) $(OBJ)/tests/bench/device_client $(OBJ)/tests/bench/device_go
	@tools/need test
	@UNIRAIL_DEVICE_CLIENT=$(OBJ)/tests/bench/device_client UNIRAIL_DEVICE_CLIENT_GO=$(OBJ)/tests/bench/device_go tests/bench/device

# A client with the kubelet's gRPC library, built from Go modules; tests/bench/device_go has their versions and checksums.
GO_PATH := $(PATH):/usr/local/go/bin
$(OBJ)/tests/bench/device_go: $(wildcard tests/bench/device_go/*)
	@PATH='$(GO_PATH)' command -v go >/dev/null || { echo "make bench-device: no Go: put Go 1.26 or later into PATH" >&2; exit 1; }
	$(call say,GO,$@) mkdir -p $(@D) && cd tests/bench/device_go && PATH='$(GO_PATH)' GOTOOLCHAIN=local CGO_ENABLED=0 \
		GOFLAGS='-mod=readonly -buildvcs=false' go build -trimpath -ldflags '-s -w' -o '$(abspath $@)' .

## check-run: run the binary of another architecture under qemu (make ARCH=arm64 check-run)
check-run: $(BIN)
	@$(if $(RUN),tools/need emulate)
	$(RUN) $(BIN) version
