# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # sourced by vendor/build
# The fuzz flavour (glibc, clang) uses this compiler and these flags instead of gcc and the flags of recipe.sh. The
# libraries are built without libFuzzer's coverage counters, so that only new coverage in unirail's own code makes an
# input interesting; the libraries have their own fuzzers. A change of this file rebuilds only this flavour's libraries.

HOSTCC=clang

# fuzz_flags: sets CFLAGS. Undefined behaviour inside a library is reported, and the fuzzer continues; in our own code
# it ends the fuzzer.
fuzz_flags() {
	CFLAGS=(-O2 -g1 -fPIE "-fsanitize=address,undefined" -fno-omit-frame-pointer
		-w "-ffile-prefix-map=$CACHE=/vendor" "-ffile-prefix-map=$WORK=/vendor/$NAME")
}
