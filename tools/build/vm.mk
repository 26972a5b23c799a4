# SPDX-License-Identifier: Apache-2.0
# make test-vm: the binary in a distribution's kernel, under QEMU. No part of `make test`.

.PHONY: test-vm
## test-vm: cases in a Debian kernel under QEMU (minutes; some with CASES="rdma links"; EVERY=1: kill at each call)
test-vm: $(BIN) $(OBJ)/fault/drive
	@tools/need vm
	@EVERY='$(EVERY)' tests/vm/run $(BIN) $(OBJ)/fault/drive $(CASES)
