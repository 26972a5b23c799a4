# SPDX-License-Identifier: Apache-2.0
# tests/fault: the driver that kills and fails the binary at every system call, and the model of the address store.
# drive.c and model.c are programs: model*.c and trace*.c make the model, everything but model*.c the driver.

FAULT_DRIVE := $(patsubst %.c,$(OBJ)/%.o,$(filter-out tests/fault/model%,$(wildcard tests/fault/*.c)))
FAULT_MODEL := $(patsubst %.c,$(OBJ)/%.o,$(wildcard tests/fault/model*.c tests/fault/trace*.c))

.PHONY: test-fault fault
## test-fault: kill and fail the binary at every system call, compare the address store with a model (QUICK=1: a sample)
test-fault: $(BIN) fault
	$(OBJ)/fault/model $(if $(QUICK),--runs 500 --first 1); held=$$?; \
		$(OBJ)/fault/drive --binary '$(BIN)' $(if $(QUICK),--quick) && exit $$held

# Builds the driver and the model.
fault: $(OBJ)/fault/drive $(OBJ)/fault/model

$(OBJ)/tests/fault/%.o: tests/fault/%.c $(OBJ)/flags
	$(call say,CC,$<) $(call compile,$<,,-Itests/fault)
$(OBJ)/fault/drive: $(FAULT_DRIVE) $(LIB)
	$(call say,LD,$@) mkdir -p $(@D) && $(CC) $(CFLAGS) $(LDFLAGS) $^ $(VENDOR_LIBS) $(into)
$(OBJ)/fault/model: $(FAULT_MODEL) $(LIB)
	$(call say,LD,$@) mkdir -p $(@D) && $(CC) $(CFLAGS) $(LDFLAGS) $^ $(VENDOR_LIBS) $(into)
-include $(FAULT_DRIVE:=.d) $(FAULT_MODEL:=.d)
