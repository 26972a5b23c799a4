#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `unirail verify` between pods with macvlan rails in shared mode, as a user calls it: by the rail's address, and all rails.
# shellcheck source=tests/vm/lib.sh
. /tests/lib.sh

pods_rxe
for i in 1 2; do
	ip link add rail$i type veth peer name far$i
	ip link set rail$i up
	ip link set far$i up
	rdma link add rxe$i type rxe netdev rail$i
	rdma link add fxe$i type rxe netdev far$i
done

# conf NIC ADDRESS: prints a configuration of macvlan with the master NIC
conf() {
	jq -nc --arg nic "$1" --arg ip "$2/24" '{cniVersion: "1.0.0", name: "rail", type: "macvlan", master: $nic,
		ipam: {type: "static", addresses: [{address: $ip}]}}'
}
# rails COMMAND: calls COMMAND for pod a with one NIC of each rail, and for pod b with the other NIC
rails() {
	for i in 1 2; do
		"$1" macvlan a net$i "$(conf rail$i 10.0.$i.1)"
		"$1" macvlan b net$i "$(conf far$i 10.0.$i.2)"
	done
}
ip netns add a
ip netns add b
rails add
for i in 1 2; do
	until_true has_gid rxe$i 10.0.$i.1
	until_true has_gid fxe$i 10.0.$i.2
done
# Another pod uses rxe1 too, so rxe1 has GIDs of that pod and of pod a.
ip netns add other
ip link add link rail1 name net1 netns other type macvlan mode bridge
ip -n other address add 10.0.1.9/24 dev net1
ip -n other link set net1 up
until_true has_gid rxe1 10.0.1.9

ip netns exec b unirail verify --listen -o json >/run/served 2>/run/serving &
server=$!
until_true grep -q listening /run/serving
for op in write send read; do
	got=$(ip netns exec a unirail verify 10.0.1.2 --size 4096 --count 100 --$op -o json) || fail "unirail verify --$op failed: $got"
	same "$op" "$(echo "$got" | jq -c '.rails[0] | [.here.interface, .here.device, .here.gidIndex, .peer.device,
		.peer.gidIndex, .checkedBytes, .bytes]')" \
		"[\"net1\",\"rxe1\",$(gid_index rxe1 10.0.1.1),\"fxe1\",$(gid_index fxe1 10.0.1.2),1310720,409600]"
	say "verify --$op between pods: $(echo "$got" | jq -r '.rails[0] |
		"\(.latencyNs.median / 1000 | floor) us, \(.bytesPerSecond / 1000 | floor) kB/s"')"
done

ip netns exec a unirail verify 10.0.1.2 --all --size 4096 --count 100 >/run/table || fail "unirail verify --all failed: $(cat /run/table)"
cat /run/table
same "number of rails without errors" "$(grep -c ' right ' /run/table)" 2
! grep "MTU.*peer" /run/table || fail "the table has a note about MTUs although they are equal"
# An RDMA connection uses the smaller of both MTUs; the side with the smaller MTU drops larger packets of sockets.
ip -n b link set net1 mtu 1400
got=$(ip netns exec a unirail verify 10.0.1.2 --size 4096 --count 100 -o json) || fail "unirail verify with different MTUs failed: $got"
same "MTUs" "$(echo "$got" | jq -c '.rails[0] | [.here.interfaceMtu, .peer.interfaceMtu, .mtu]')" "[1500,1400,1024]"
ip netns exec a unirail verify 10.0.1.2 --all --size 4096 --count 100 >/run/table || fail "unirail verify --all failed: $(cat /run/table)"
grep -q "^net1 10.0.1.1: MTU 1500 of 'net1' here differs from 1400 of 'net1' at the peer: set 1500 on both" /run/table ||
	fail "the table has no note about the different MTUs: $(cat /run/table)"
same "number of rails with a note" "$(grep -c 'at the peer' /run/table)" 1
ip -n b link set net1 mtu 1500
# net2 of pod b is down: `unirail verify --all` still tests the other rail.
ip -n b link set net2 down
! ip netns exec a unirail verify 10.0.1.2 --all --size 4096 --count 100 >/run/table ||
	fail "unirail verify --all succeeded although a rail is down"
cat /run/table
same "number of rails without errors" "$(grep -c ' right ' /run/table)" 1
grep -q '^net2 10.0.2.1: ' /run/table || fail "the table does not name net2"
same "the last line of the table" "$(tail -n 1 /run/table)" "1 of 2 rails failed"
kill $server
wait $server || fail "the server's exit status is $?: $(cat /run/serving)"

ip -n b link set net2 up
rails delete
for i in 1 2; do
	rdma link del rxe$i
	rdma link del fxe$i
done
ip netns del other
for i in 1 2; do
	ip link del rail$i
done
