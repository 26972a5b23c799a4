# SPDX-License-Identifier: Apache-2.0
# make test-cluster: the binary against a real etcd and kube-apiserver. No part of `make test`.

CLIENT := $(OBJ)/tests/cluster/client
$(OBJ)/tests/cluster/%.o: tests/cluster/%.c $(OBJ)/flags
	$(call say,CC,$<) $(call compile,$<)
$(CLIENT): $(CLIENT).o $(LIB)
	$(call say,LD,$@) $(CC) $(CFLAGS) $(LDFLAGS) $^ $(VENDOR_LIBS) $(into)
-include $(CLIENT).o.d

RDMA_NETLINK := $(OBJ)/tests/cluster/rdma_netlink
$(RDMA_NETLINK): $(RDMA_NETLINK).o
	$(call say,LD,$@) $(CC) $(CFLAGS) $(LDFLAGS) $^ $(into)
-include $(RDMA_NETLINK).o.d

FLEET := $(OBJ)/tests/bench/fleet
FLEET_OBJS := $(addprefix $(OBJ)/tests/bench/,fleet.o fleet_node.o fleet_shared.o)
$(OBJ)/tests/bench/%.o: tests/bench/%.c $(OBJ)/flags
	$(call say,CC,$<) $(call compile,$<)
$(FLEET): $(FLEET_OBJS) $(LIB)
	$(call say,LD,$@) $(CC) $(CFLAGS) $(LDFLAGS) $^ $(VENDOR_LIBS) $(into)
-include $(FLEET_OBJS:=.d)

BENCH_SINGLE := $(addprefix $(OBJ)/tests/bench/,tls admission device_client)
$(BENCH_SINGLE): %: %.o $(LIB)
	$(call say,LD,$@) $(CC) $(CFLAGS) $(LDFLAGS) $^ $(VENDOR_LIBS) $(into)
-include $(BENCH_SINGLE:=.o.d)

CNI_TIME := $(OBJ)/tests/bench/cni_time
RAW_NETLINK := $(OBJ)/tests/bench/raw_netlink
$(CNI_TIME) $(RAW_NETLINK): %: %.o
	$(call say,LD,$@) $(CC) $(CFLAGS) $(LDFLAGS) $^ $(into)
-include $(CNI_TIME).o.d $(RAW_NETLINK).o.d

.PHONY: test-cluster bench-admission bench-burst bench-cluster bench-fleet bench-policies
## test-cluster: run tests on a real etcd and kube-apiserver (some minutes, the first time ten more; K=lease: only these tests; KUBE=1.34: that server instead of 1.20; POLICIES=1: agents under deploy/policies)
test-cluster: $(BIN) $(CLIENT) $(RDMA_NETLINK) $(FLEET)
	@tools/need test cluster
	@UNIRAIL_KUBE=$(or $(KUBE),1.20) UNIRAIL_POLICIES=$(POLICIES) UNIRAIL_CLIENT=$(CLIENT) UNIRAIL_RDMA_NETLINK=$(RDMA_NETLINK) UNIRAIL_FLEET=$(FLEET) tools/pytest tests/cluster tests/hostile/cluster $(if $(K),-k '$(K)')

## bench-admission: measure the processor time of reviews of hostile sizes, without a cluster
bench-admission: $(OBJ)/tests/bench/admission
	@$<

## bench-burst: measure 100 pods of eight rails at once on two real nodes, beside pods without rails: CPU of the CNI plugin, time to Running, API requests
bench-burst: $(BIN) $(CNI_TIME)
	@tools/need test cluster
	@UNIRAIL_KUBE=$(or $(KUBE),1.20) UNIRAIL_CNI_TIME=$(abspath $(CNI_TIME)) tests/bench/burst $(if $(N),--pods $(N))

## bench-cluster: measure memory of the agent, memory and API requests of the controller in a cluster of 1,000 nodes; the memory of each watch alone
bench-cluster: $(BIN)
	@tools/need test cluster
	@tests/bench/informers
	@tests/bench/controller

## bench-fleet: measure N nodes (200) that share one pool per rail, compared with one object per pool that all nodes rewrite
bench-fleet: $(BIN) $(FLEET)
	@tools/need test cluster
	@UNIRAIL_FLEET=$(FLEET) tests/bench/fleet $(if $(N),--nodes $(N))

## bench-policies: measure the time that deploy/policies add to an agent's writes on Kubernetes 1.34, and show whether the API server accepts the largest objects
bench-policies: $(BIN)
	@tools/need test cluster
	@tests/bench/policies
