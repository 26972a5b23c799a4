# SPDX-License-Identifier: Apache-2.0
# tests/growth: the work for lists that users send, counted in basic blocks (FLAVOUR=count) and in bytes that libc reads.

GROWTH_OBJS := $(patsubst %.c,$(OBJ)/%.o,$(wildcard tests/growth/*.c))
# The files of the netconf fuzzer that parse and check configurations.
GROWTH_OBJS += $(patsubst %,$(OBJ)/tests/fuzz/%.o,fuzz $(basename $(notdir $(wildcard tests/fuzz/netconf_*.c))))
GROWTH_WRAP := memcpy memmove memset memcmp memchr strlen strchr strstr strspn strpbrk strcmp strncmp
GROWTH_SCHEMAS = $(sort $(wildcard deploy/crd.yaml deploy/crds/*.yaml tests/growth/schemas/*.yaml))

.PHONY: growth growth-run
## growth: check that the work for a list of n entries that users send grows at most as n log n (counted, so equal in every run; GROWTH_EVERY=7: a sample)
growth:
	+@$(MAKE) --no-print-directory FLAVOUR=count growth-run
growth-run: $(OBJ)/growth
	@printf '%s\n' crowds $(abspath $(GROWTH_SCHEMAS)) | xargs -n 1 -P "$$(nproc)" $<

$(OBJ)/tests/growth/%.o: tests/growth/%.c $(OBJ)/flags
	$(call say,CC,$<) $(call compile,$<,,-Itests/growth -Itests/fuzz)
$(OBJ)/growth: $(GROWTH_OBJS) $(LIB)
	$(call say,LD,$@) $(CC) $(CFLAGS) $(LDFLAGS) $(GROWTH_WRAP:%=-Wl$(comma)--wrap=%) $^ $(VENDOR_LIBS) $(into)
-include $(GROWTH_OBJS:=.d)
