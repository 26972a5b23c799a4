# SPDX-License-Identifier: Apache-2.0
# make test-cluster: the binary against a real etcd and kube-apiserver. No part of `make test`.

.PHONY: test-cluster bench-cluster
## test-cluster: tests on a real etcd and kube-apiserver (some minutes; the first time ten more; some with K=lease)
test-cluster: $(BIN)
	@tools/need test cluster
	@tools/pytest tests/cluster $(if $(K),-k '$(K)')

## bench-cluster: what a process holds that watches 1,000 nodes, 5,000 pods, 500 pools
bench-cluster: $(BIN)
	@tools/need test cluster
	@tests/bench/informers
