# SPDX-License-Identifier: Apache-2.0
# make test-vm: the binary in a distribution's kernel, under QEMU. No part of `make test`.

RDMA_USE := $(OBJ)/tests/vm/use
$(OBJ)/tests/vm/%.o: tests/vm/%.c $(OBJ)/flags
	$(call say,CC,$<) $(call compile,$<)
$(RDMA_USE): $(RDMA_USE).o $(LIB)
	$(call say,LD,$@) $(CC) $(CFLAGS) $(LDFLAGS) $^ $(VENDOR_LIBS) $(into)
-include $(RDMA_USE).o.d

VM_KUBELET := $(OBJ)/tests/vm/kubelet
$(VM_KUBELET): $(VM_KUBELET).o
	$(call say,LD,$@) $(CC) $(CFLAGS) $(LDFLAGS) $^ $(into)
-include $(VM_KUBELET).o.d

.PHONY: test-vm
## test-vm: run cases in a Debian kernel under QEMU (some minutes; CASES="rdma links": only these; EVERY=1: all points of kill_vf and kill_rdma instead of a sample)
test-vm: $(BIN) $(OBJ)/fault/drive $(RDMA_USE) $(VM_KUBELET)
	@tools/need vm
	@EVERY='$(EVERY)' tests/vm/run $(BIN) $(OBJ)/fault/drive $(RDMA_USE) $(VM_KUBELET) $(CASES)
