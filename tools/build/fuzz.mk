# SPDX-License-Identifier: Apache-2.0
# Fuzzers: each tests/fuzz/fuzz_NAME.c is a program, with any NAME_*.c beside it, fuzz.c, files.c. With FLAVOUR=fuzz
# libFuzzer is their main(), else replay.c, which runs the files of a folder.

FUZZERS := $(sort $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c)))
FUZZ_OBJS := $(patsubst %.c,$(OBJ)/%.o,$(wildcard tests/fuzz/*.c))
FUZZ_MAIN := $(if $(filter fuzz,$(FLAVOUR)),-fsanitize=fuzzer,$(OBJ)/tests/fuzz/replay.o)
# Functions that files.c and, for libFuzzer, arena.c replace; the fuzzers in FUZZ_ON_DISK use real files.
FUZZ_ON_DISK := tree
FUZZ_FILES := root_open root_close file_open file_exists file_read file_replace file_temp_open file_temp_commit file_temp_abort fd_write_all file_remove file_sweep file_lstat \
	dir_make dir_list lock_take close fstat pread pwrite ftruncate fdatasync
FUZZ_MEMORY := $(if $(filter fuzz,$(FLAVOUR)),malloc calloc realloc free malloc_usable_size LLVMFuzzerTestOneInput)
fuzz_wrap = $(FUZZ_MEMORY) $(if $(filter $(1),$(FUZZ_ON_DISK)),,$(FUZZ_FILES))
# T and SECONDS are read only from make's command line: check.mk sets T to the unit tests, and a shell may export SECONDS.
fuzz_said = $(if $(filter command%,$(origin $(1))),$($(1)))

.PHONY: fuzz fuzzers
## fuzz: run each fuzzer for RUNS=10000000 inputs or SECONDS= (T=json: only this one); inputs that fail stay in build/fuzz
fuzz:
	$(with_make) B='$(B)' RUNS='$(RUNS)' LIMIT='$(call fuzz_said,SECONDS)' \
		tools/fuzz $(or $(call fuzz_said,T),$(FUZZERS))

# Builds the fuzzers; tools/fuzz and tools/check run them.
fuzzers: $(patsubst %,$(OBJ)/fuzz/%,$(or $(call fuzz_said,T),$(FUZZERS)))

$(OBJ)/tests/fuzz/%.o: tests/fuzz/%.c $(OBJ)/flags
	$(call say,CC,$<) $(call compile,$<,,-Itests/fuzz)

define fuzz_program
$(OBJ)/fuzz/$(1): $(patsubst %.c,$(OBJ)/%.o,$(wildcard tests/fuzz/fuzz_$(1).c tests/fuzz/$(1)_*.c) tests/fuzz/fuzz.c \
	$(if $(filter $(1),$(FUZZ_ON_DISK)),,tests/fuzz/files.c) $(if $(filter fuzz,$(FLAVOUR)),tests/fuzz/arena.c)) \
	$(filter %.o,$(FUZZ_MAIN)) $(LIB)
endef
$(foreach f,$(FUZZERS),$(eval $(call fuzz_program,$(f))))
$(FUZZERS:%=$(OBJ)/fuzz/%):
	$(call say,LD,$@) mkdir -p $(@D) && \
		$(CC) $(CFLAGS) $(LDFLAGS) $(patsubst %,-Wl$(comma)--wrap=%,$(call fuzz_wrap,$(@F))) $(filter -%,$(FUZZ_MAIN)) $^ $(VENDOR_LIBS) $(into)
-include $(FUZZ_OBJS:=.d)
