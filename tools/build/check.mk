# SPDX-License-Identifier: Apache-2.0
# make check and its parts.

# Each test_NAME.c below tests/unit is a program, linked with tests/lib and with the .c files of its directory that are not tests.
TEST_SRC := $(sort $(shell find tests/unit -name '*.c'))
TEST_MAIN := $(foreach f,$(TEST_SRC),$(if $(filter test_%,$(notdir $f)),$f))
TEST_LIB := $(patsubst %.c,$(OBJ)/%.o,$(wildcard tests/lib/*.c))
TESTS := $(sort $(basename $(notdir $(TEST_MAIN))))
T ?= $(TESTS)
# T accepts a name with or without test_.
test_names = $(patsubst test_test_%,test_%,$(T:%=test_%))

.PHONY: check unit units headers layering words format
## check: run unit tests and fuzzers' corpora (static musl, and glibc with ASan and UBSan), each 7th case of growth, and the checks of size, layers, words, cleanups, versions, headers, shell scripts and format
check:
	@tools/need check
	$(with_make) tools/check

## unit: run unit tests under both libcs (T="buf file": only these)
unit:
	$(with_make) tools/check units $(test_names)

# Builds the unit test programs; tools/check runs them.
units: $(test_names:%=$(OBJ)/tests/%)

TEST_FLAGS := -Itests/lib -DHAVE_UINTPTR_T -DTEST_DATA='"tests/"'
$(OBJ)/tests/unit/%.o: tests/unit/%.c $(OBJ)/flags
	$(call say,CC,$<) $(call compile,$<,,$(TEST_FLAGS))
$(OBJ)/tests/lib/%.o: tests/lib/%.c $(OBJ)/flags
	$(call say,CC,$<) $(call compile,$<,,$(TEST_FLAGS))

# $(1): the source of a program
define test_program
$(OBJ)/tests/$(basename $(notdir $(1))): $(patsubst %.c,$(OBJ)/%.o,$(1) \
	$(filter-out $(TEST_MAIN),$(wildcard $(dir $(1))*.c))) $(TEST_LIB) $(LIB)
endef
$(foreach f,$(TEST_MAIN),$(eval $(call test_program,$f)))
$(TESTS:%=$(OBJ)/tests/%):
	$(call say,LD,$@) $(CC) $(CFLAGS) $(LDFLAGS) $^ $(VENDOR_LIBS) -lcmocka $(into)

## headers: check that each header compiles by itself
headers: $(HDR:%=$(OBJ)/%.alone)
$(OBJ)/%.h.alone: %.h $(OBJ)/flags
	@mkdir -p $(@D)
	@echo '#include "$(patsubst src/%,%,$<)"' | \
		$(CC) $(CFLAGS) -x c -fsyntax-only -MMD -MP -MT $@ -MF $@.d - || { echo "$<: does not compile by itself" >&2; exit 1; }
	@touch $@
-include $(HDR:%=$(OBJ)/%.alone.d) $(TEST_SRC:%.c=$(OBJ)/%.o.d) $(TEST_LIB:=.d)

## layering: check that calls and includes under src follow the levels of tools/folders
layering: $(OBJS)
	@tools/layering $(OBJ)/src
	@tools/map --check

## words: find words in names and sentences for which tools/words lists the field's term
words:
	@tools/words

# Versions of clang-format format differently, so all use this one (Debian 12, Ubuntu 22.04 and 24.04 have it; Debian 13 does not).
CLANG_FORMAT := clang-format-14
# Generated protobuf code keeps its generator's style.
F ?= $(filter-out %.pb.c %.pb.h,$(SRC) $(HDR) $(shell find tests/unit -name '*.[ch]') \
	$(wildcard tests/lib/*.[ch] tests/fuzz/*.[ch] tests/growth/*.[ch] tests/fault/*.[ch] tests/cluster/*.c))
have_clang_format = command -v $(CLANG_FORMAT) >/dev/null || \
	{ echo "$(CLANG_FORMAT) is missing, and other versions format differently: install it, or use Debian 12, Ubuntu 22.04 or 24.04" >&2; exit 1; }
.PHONY: format-check
## format: rewrite C files as .clang-format says (F="src/base/err.c ...": only these)
format:
	@tools/need check
	@$(have_clang_format)
	$(CLANG_FORMAT) -i $(F)
format-check:
	@$(have_clang_format)
	@$(CLANG_FORMAT) --dry-run -Werror $(F) 2>&1 | sed -n 's/^\([^:]*\):[0-9].*error:.*/\1/p' | sort | uniq -c | \
		awk '{ print $$2 ": " $$1 " places; make format F=" $$2 } END { exit NR > 0 }'

## test: run make all, make check, tests/netns, tests/hostile/netns and a sample of test-fault: all tests that need only this machine's kernel
test:
	@tools/need check test
	+@$(MAKE) all
	$(with_make) tools/test
.PHONY: test
