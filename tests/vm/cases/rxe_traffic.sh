#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Shared mode: pods whose macvlan or ipvlan rails are on the same HCA or on two HCAs exchange RDMA traffic, each pod by its own GID index.
# shellcheck source=tests/vm/lib.sh
. /tests/lib.sh

pods_rxe
ip link add rail0 type veth peer name rail1
for i in 0 1; do
	ip link set rail$i up
	rdma link add rxe$i type rxe netdev rail$i
done
for pod in a b c; do
	ip netns add $pod
done

# conf TYPE NIC ADDRESS: prints a configuration of the plugin TYPE with the master NIC
conf() {
	jq -nc --arg type "$1" --arg nic "$2" --arg ip "$3/24" '{cniVersion: "1.0.0", name: "rail", type: $type, master: $nic,
		ipam: {type: "static", addresses: [{address: $ip}]}}'
}

# perftest PROGRAM CLIENT DEVICE ADDRESS SERVER DEVICE ADDRESS: runs PROGRAM with its options between the pods CLIENT and SERVER; DEVICE and
# ADDRESS are those of the pod before them
perftest() {
	# shellcheck disable=SC2086 # a program and its options
	perftest_serve "$5" "$6" "$7" $1
	# shellcheck disable=SC2086
	perftest_client "$2" "$3" "$4" "$7" $1
	wait "$server" || fail "the server of $1 failed: $(tail -n 1 /run/served)"
}

# cm_ping CLIENT SERVER ADDRESS: runs rping from the pod CLIENT to SERVER's ADDRESS, by which the RDMA connection manager finds device and
# GID
cm_ping() {
	ip netns exec "$2" timeout 120 rping -s -a "$3" -C 3 >/run/served 2>&1 &
	server=$!
	pings() {
		ip netns exec "$1" timeout 20 rping -c -a "$2" -C 3 -v >/run/asked 2>&1
	}
	until_true pings "$1" "$3"
	same "answers to rping" "$(grep -c '^ping data: rdma-ping' /run/asked)" 3
	wait "$server" || true
}

for type in macvlan ipvlan; do
	add $type a net1 "$(conf $type rail0 10.0.0.1)"
	add $type b net1 "$(conf $type rail1 10.0.0.2)"
	add $type c net1 "$(conf $type rail0 10.0.0.3)"
	until_true has_gid rxe0 10.0.0.1
	until_true has_gid rxe1 10.0.0.2
	until_true has_gid rxe0 10.0.0.3
	has_no_gid rxe0 10.0.0.2 || fail "rxe0 has the GID of another NIC's pod"
	[ "$(gid_index rxe0 10.0.0.1)" != "$(gid_index rxe0 10.0.0.3)" ] || fail "two pods have the same GID index"
	perftest 'ib_write_bw -s 4096 -n 20 -t 8' a rxe0 10.0.0.1 b rxe1 10.0.0.2
	perftest 'ib_send_lat -s 64 -n 20' c rxe0 10.0.0.3 a rxe0 10.0.0.1
	cm_ping a b 10.0.0.2
	delete $type a net1 "$(conf $type rail0 10.0.0.1)"
	delete $type b net1 "$(conf $type rail1 10.0.0.2)"
	delete $type c net1 "$(conf $type rail0 10.0.0.3)"
	until_true has_no_gid rxe0 10.0.0.1
	until_true has_no_gid rxe1 10.0.0.2
	until_true has_no_gid rxe0 10.0.0.3
	# The neighbour entries are removed, since in the next round links with other MACs have the same addresses.
	for pod in a b c; do
		ip -n $pod neigh flush all
	done
done
rdma link del rxe0
rdma link del rxe1
ip link del rail0
