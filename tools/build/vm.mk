# SPDX-License-Identifier: Apache-2.0
# make test-vm: the binary in a distribution's kernel, under QEMU. No part of `make test`.

.PHONY: test-vm
## test-vm: cases in a Debian kernel under QEMU (minutes; some with CASES="rdma links")
test-vm: $(BIN)
	@tools/need vm
	@tests/vm/run $(BIN) $(CASES)
