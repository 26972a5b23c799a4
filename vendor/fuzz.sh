# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # sourced by vendor/build
# What the fuzz flavour (glibc, clang) has instead of gcc and recipe.sh's flags. Without libFuzzer's counters: inputs
# are to be new to our code, and the libraries have fuzzers of their own. A file of its own: a change here rebuilds
# these libraries only.

HOSTCC=clang

# fuzz_flags: sets CFLAGS. Undefined behaviour inside a library is told and the run goes on; in our own code it ends it.
fuzz_flags() {
	CFLAGS=(-O2 -g1 -fPIE "-fsanitize=address,undefined" -fno-omit-frame-pointer
		-w "-ffile-prefix-map=$CACHE=/vendor" "-ffile-prefix-map=$WORK=/vendor/$NAME")
}
