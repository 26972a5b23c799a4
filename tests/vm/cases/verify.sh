#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `unirail verify`: RDMA over a link between processes of two pods that share the node's devices, and the errors of `unirail verify`.
# shellcheck source=tests/vm/lib.sh
. /tests/lib.sh

# Two NICs of one node that are connected to each other. soft-RoCE of this kernel sends and receives in the initial namespace only. The
# rules below send packets between ra and rb over the link; by default, the kernel delivers packets between local addresses without using
# the link.
ip link add ra type veth peer name rb
for nic in all ra rb; do
	echo 1 >/proc/sys/net/ipv4/conf/$nic/accept_local
	echo 0 >/proc/sys/net/ipv4/conf/$nic/rp_filter
done
ip address add 172.16.1.1/24 dev ra
ip address add 172.16.1.2/24 dev rb
ip link set ra up
ip link set rb up
ip rule add pref 10 lookup local
ip rule add pref 1 oif ra to 172.16.1.2 lookup 101
ip rule add pref 1 oif rb to 172.16.1.1 lookup 102
ip rule del pref 0
ip route add 172.16.1.2 dev ra src 172.16.1.1 table 101
ip route add 172.16.1.1 dev rb src 172.16.1.2 table 102
rdma link add rxea type rxe netdev ra
rdma link add rxeb type rxe netdev rb

ip netns add a
ip netns add b
ip link add v0 netns a type veth peer name v0 netns b
ip -n a address add 10.0.0.1/24 dev v0
ip -n b address add 10.0.0.2/24 dev v0
ip -n a link set v0 up
ip -n b link set v0 up

# gid DEVICE ADDRESS-IN-HEX: prints the index of the GID
gid() {
	for index in $(seq 0 15); do
		[ "$(cat "/sys/class/infiniband/$1/ports/1/gids/$index")" != "0000:0000:0000:0000:0000:ffff:$2" ] || echo "$index"
	done | head -n 1
}
has_gids() {
	[ -n "$(gid rxea ac10:0101)" ] && [ -n "$(gid rxeb ac10:0102)" ]
}
until_true has_gids

server=''
# serve [NS [OPTION...]]: starts `unirail verify --listen` for one test
serve() {
	ns=${1:-}
	[ $# = 0 ] || shift
	${ns:+ip netns exec "$ns"} unirail verify --listen --once "$@" >/tmp/served 2>/tmp/serving &
	server=$!
	until_true grep -q listening /tmp/serving
}
served() {
	wait "$server" || fail "the server's exit status is $?: $(cat /tmp/serving)"
}
not_served() {
	! wait "$server" || fail "the server succeeded, expected an error"
	cat /tmp/serving
}
value() {
	echo "$got" | jq -c "$1"
}
bytes_to_rb() {
	cat /sys/class/net/rb/statistics/rx_bytes
}

for op in write send read; do
	before=$(bytes_to_rb)
	serve b --device rxeb --gid-index "$(gid rxeb ac10:0102)" -o json
	got=$(ip netns exec a unirail verify 10.0.0.2 --device rxea --gid-index "$(gid rxea ac10:0101)" --size 4096 \
		--count 200 --$op -o json) || fail "unirail verify --$op failed: $got"
	served
	echo "$op: $(value '.rails[0] | {latencyNs, bytesPerSecond}')"
	same "$op" "$(value '[.ok, (.rails[0] | .link, .operation, .mtu, .checkedBytes, .bytes)]')" \
		"[true,\"Ethernet\",\"$op\",1024,1310720,819200]"
	same "$op: latencies are in order" \
		"$(value '.rails[0].latencyNs | .min > 0 and .min <= .median and .median <= .p99')" true
	same "$op: result of the server" "$(jq -c '[.ok, .rails[0].here.device, .rails[0].peer.device]' /tmp/served)" \
		'[true,"rxeb","rxea"]'
	[ $op = read ] || [ $(($(bytes_to_rb) - before)) -gt 819200 ] || fail "$op: interface rb received less than 819200 bytes"
done

# With only an address given, verify finds the device and the GID.
serve
got=$(unirail verify 172.16.1.2 --size 1000 --count 70) || fail "unirail verify with an address only failed: $got"
served
echo "$got"
echo "$got" | grep -q "^172.16.1.2 (rb, rxeb port 1, GID $(gid rxeb ac10:0102))" ||
	fail "unirail verify with an address only did not use rxeb"
unirail verify --listen >/dev/null 2>/tmp/serving &
server=$!
until_true grep -q listening /tmp/serving
unirail verify 127.0.0.1 --all --size 256 --count 10 || fail "unirail verify --all failed"
kill $server
served

# not_sent MESSAGE CODE: while no data of ra reaches rb, the client must fail with MESSAGE, and the server must report the peer's CODE
not_sent() {
	serve b --device rxeb --gid-index "$(gid rxeb ac10:0102)"
	! said=$(ip netns exec a unirail verify 10.0.0.2 -d rxea -x "$(gid rxea ac10:0101)" 2>&1) ||
		fail "unirail verify succeeded although no data reached the peer"
	not_served
	echo "$said"
	echo "$said" | grep -q "$1" || fail "the error does not contain '$1'"
	grep -q "on the peer: .*$2" /tmp/serving || fail "the server does not report '$2' of the peer"
}
# The first rule drops RDMA packets, as a firewall may; the second drops all IP packets, as a switch that forwards nothing does.
ip rule add pref 0 iif rb ipproto 17 dport 4791 blackhole
not_sent 'check data by RDMA write: .*RETRY_EXC_ERR.*UDP port 4791' RETRY_EXC_ERR
ip rule del pref 0
ip rule add pref 0 iif rb blackhole
ip neigh flush dev ra
not_sent "no route to the peer's address from this GID" ETIMEDOUT
ip rule del pref 0

# Rails of two pods: each pod must find its own GID among the GIDs that rxea has for all pods. `unirail verify` may fail afterwards, since
# this soft-RoCE cannot use GIDs of pods.
for pod in a b; do
	ip link add link ra name net1 netns $pod type macvlan mode bridge
	ip -n $pod link set net1 up
done
ip -n a address add 172.16.1.10/24 dev net1
ip -n b address add 172.16.1.11/24 dev net1
pods_have_gids() {
	[ -n "$(gid rxea ac10:010a)" ] && [ -n "$(gid rxea ac10:010b)" ]
}
until_true pods_have_gids
serve b -o json
got=$(ip netns exec a unirail verify 172.16.1.11 --size 256 --count 10 -o json) || true
wait "$server" || true
same "the pods' GIDs" "$(value '.rails[0] | [.here.interface, .here.gidIndex, .peer.interface, .peer.gidIndex]')" \
	"[\"net1\",$(gid rxea ac10:010a),\"net1\",$(gid rxea ac10:010b)]"

# wrong MESSAGE COMMAND...: the command must fail with this message.
wrong() {
	words=$1
	shift
	! said=$("$@" 2>&1) || fail "$* succeeded, expected an error"
	echo "$said"
	echo "$said" | grep -q "$words" || fail "the error of $* does not contain '$words'"
}
unirail verify --listen >/dev/null 2>/tmp/serving &
server=$!
until_true grep -q listening /tmp/serving
insmod /lib/fakeib.ko ib=1
fake=$(rdma -j dev | jq -r '.[].ifname | select(startswith("fib"))')
echo 'user:x:1000:1000:user:/:/bin/sh' >>/etc/passwd
wrong "no usable RDMA device 'mlx5_9'; usable are: rxea, rxeb" unirail verify 172.16.1.1 -d mlx5_9
wrong "not usable: $fake: libibverbs does not list the device (linked providers: mlx5," unirail verify 172.16.1.1 -d "$fake"
wrong "no GID with index 77 on port 1; it has: 0 fe80::" unirail verify 172.16.1.1 -x 77
wrong "no port 3; it has 1" unirail verify 172.16.1.1 -d rxea -i 3
wrong "no RDMA device has a port for address 127.0.0.1 (with --port: the port of that number); addresses with an RDMA device: 172.16.1.1 (ra, rxea), 172.16.1.2 (rb, rxeb)" \
	unirail verify 127.0.0.1
wrong "port 9.*is 'unirail verify --listen' running there" unirail verify 172.16.1.1:9
wrong "may lock 64 KiB (RLIMIT_MEMLOCK)" su user -c 'ulimit -l 64; unirail verify 172.16.1.1'
chmod 600 /dev/infiniband/uverbs*
wrong "open /dev/infiniband/uverbs.*EACCES" su user -c 'unirail verify 172.16.1.1'
kill $server
served
rmmod fakeib

rdma link del rxea
rdma link del rxeb
ip link del ra
ip rule add pref 0 lookup local
ip rule del pref 10
ip rule del pref 1
ip rule del pref 1
