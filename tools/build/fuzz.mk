# SPDX-License-Identifier: Apache-2.0
# Fuzzers: tests/fuzz/fuzz_*.c are programs; any other .c beside them but replay.c is linked into all of those. With
# FLAVOUR=fuzz libFuzzer is their main(), else replay.c, which runs the files of a folder.

FUZZERS := $(sort $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c)))
FUZZ_COMMON := $(patsubst %.c,$(OBJ)/%.o,$(filter-out tests/fuzz/fuzz_% tests/fuzz/replay.c,$(wildcard tests/fuzz/*.c)))
FUZZ_MAIN := $(if $(filter fuzz,$(FLAVOUR)),-fsanitize=fuzzer,$(OBJ)/tests/fuzz/replay.o)
# T and SECONDS only as said on the command line: T has a default of its own elsewhere, a shell may export SECONDS.
fuzz_said = $(if $(filter command%,$(origin $(1))),$($(1)))

.PHONY: fuzz fuzzers
## fuzz: run the fuzzers for RUNS=10000000 or SECONDS= each, one with T=json; finds go to build/fuzz
fuzz:
	+@MAKE='$(MAKE)' B='$(B)' RUNS='$(RUNS)' LIMIT='$(if $(filter command%,$(origin SECONDS)),$(SECONDS))' \
		tools/fuzz $(or $(call fuzz_said,T),$(FUZZERS))

# Only builds; tools/fuzz and tools/check run them.
fuzzers: $(patsubst %,$(OBJ)/fuzz/%,$(or $(call fuzz_said,T),$(FUZZERS)))

$(OBJ)/tests/fuzz/%.o: tests/fuzz/%.c $(OBJ)/flags
	$(call say,CC,$<) $(call compile,$<,,-Itests/fuzz)
$(OBJ)/fuzz/%: $(OBJ)/tests/fuzz/fuzz_%.o $(FUZZ_COMMON) $(filter %.o,$(FUZZ_MAIN)) $(LIB)
	$(call say,LD,$@) mkdir -p $(@D) && \
		$(CC) $(CFLAGS) $(LDFLAGS) $(filter -%,$(FUZZ_MAIN)) $^ $(VENDOR_LIBS) $(into)
.SECONDARY: $(FUZZERS:%=$(OBJ)/tests/fuzz/fuzz_%.o) $(FUZZ_COMMON) $(OBJ)/tests/fuzz/replay.o
-include $(FUZZERS:%=$(OBJ)/tests/fuzz/fuzz_%.o.d) $(FUZZ_COMMON:=.d) $(OBJ)/tests/fuzz/replay.o.d
