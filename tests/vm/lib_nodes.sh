# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Functions of the cases of nodes/. Two guests run the same case at the same time; $node is 1 in the first guest and 2 in the second. For
# eth0 and for each rail, one separate link connects the interface of the first guest with the same interface of the second guest.
# shellcheck source=tests/vm/lib.sh
. /tests/lib.sh

other=$((3 - ${node:?}))

# send WHAT WORD...: sends a message to the other node
send() {
	what=$1
	shift
	echo "$*" >"/host/sync/${case_name:?}.$what.$node.new"
	mv "/host/sync/$case_name.$what.$node.new" "/host/sync/$case_name.$what.$node"
}

# hear WHAT: waits for the other node's message WHAT and stores its arguments in $heard
hear() {
	for _ in $(seq 1500); do
		if [ -e "/host/sync/$case_name.$1.$other" ]; then
			heard=$(cat "/host/sync/$case_name.$1.$other")
			return
		fi
		[ ! -e "/host/sync/$case_name.failed.$other" ] || fail "the other node failed"
		sleep 0.2
	done
	fail "the other node did not reach '$1'"
}

# both WHAT: waits until both nodes have reached this point
both() {
	send "$1" x
	hear "$1"
}

# rails_on: names the NICs of the rails rail0 and rail1, as configs/ expects, and adds a soft-RoCE device to each
rails_on() {
	pods_rxe
	ip link set eth0 up
	for i in 0 1; do
		ip link set eth$((i + 1)) name rail$i
		ip link set rail$i up
		rdma link add rxe$i type rxe netdev rail$i
	done
}

rails_off() {
	for i in 0 1; do
		rdma link del rxe$i
		ip link set rail$i down
		ip address flush dev rail$i
		ip link set rail$i name eth$((i + 1))
	done
	ip address flush dev eth0
}

# fabric ADDRESS...: starts a router on the first node's NICs; ADDRESS is the last byte and the prefix length of an address that the router
# has on each rail
fabric() {
	[ "$node" = 1 ] || return 0
	ip netns add fabric
	ip netns exec fabric sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.send_redirects=0 \
		net.ipv4.conf.default.send_redirects=0
	for nic in eth0 rail0 rail1; do
		ip link add link $nic name to-$nic netns fabric type macvlan mode bridge
		ip -n fabric link set to-$nic up
	done
	ip -n fabric address add 172.16.0.1/24 dev to-eth0
	for last in "$@"; do
		ip -n fabric address add "172.16.1.$last" dev to-rail0
		ip -n fabric address add "172.16.2.$last" dev to-rail1
	done
}

# attach PLAN: adds a pod with the files of configs/PLAN: eth0 and the first two rails; then the nodes exchange the addresses of their pods.
# The detection of address conflicts has long limits, since the guest is emulated.
attach() {
	mkdir -p /etc/unirail
	cp -r "/tests/configs/$1/pools" /etc/unirail/pools
	# Each node records only its own allocations, so the key `node` of the pools divides each shared subnet between node1 and node2.
	echo "node$node" >/proc/sys/kernel/hostname
	conf=$(jq -c '.plugins[0] + {cniVersion, name} | .networks |= .[0:3] |
		.networks[].plugins[0].ipam += {detect: {tries: 3, interval_ms: 1000, total_ms: 30000}}' \
		"/tests/configs/$1/10-unirail.conflist")
	ip netns add pod
	add unirail-cni pod eth0 "$conf"
	mine=$(echo "$result" | jq -r '[.ips[].address | sub("/.*"; "")] | join(" ")')
	same "addresses in the pod" "$(for i in eth0 net1 net2; do addresses pod $i; done | sed 's,/.*,,' | xargs)" "$mine"
	send addresses "$mine"
	hear addresses
	theirs=$heard
	echo "this pod has $mine, the other $theirs"
}

detach() {
	both traffic
	delete unirail-cni pod eth0 "$conf"
	same "links after DEL" "$(links pod)" lo
}

# nth N WORD...: prints the N-th word
nth() {
	shift "$1"
	echo "$1"
}

# ping_all: pings from each interface of the pod to the same interface of the other pod
ping_all() {
	for i in 1 2 3; do
		# shellcheck disable=SC2086 # three addresses each
		from=$(nth $i $mine) to=$(nth $i $theirs)
		until_true ip netns exec pod ping -c 1 -W 5 -I "$from" "$to"
	done
}

# rdma_write: on each rail, the second node's pod writes into the memory of the first node's pod; ib_write_bw exchanges the addresses of
# the memory by TCP over eth0
rdma_write() {
	for i in 0 1; do
		# shellcheck disable=SC2086
		from=$(nth $((i + 2)) $mine) to=$(nth 1 $theirs)
		until_true has_gid rxe$i "$from"
		if [ "$node" = 1 ]; then
			perftest_serve pod rxe$i "$from" ib_write_bw -s 4096 -n 20 -t 8
			send write$i served
			wait "$server" || fail "the server of ib_write_bw failed: $(tail -n 1 /run/served)"
			send wrote$i x
		else
			hear write$i
			perftest_client pod rxe$i "$from" "$to" ib_write_bw -s 4096 -n 20 -t 8
			hear wrote$i
		fi
		[ "$(sent_packets rxe$i)" -gt 0 ] || fail "rxe$i sent no packets"
	done
}

# verify_rails: `unirail verify` from the second node's pod to the first's, all rails; the receiver compares the data
verify_rails() {
	if [ "$node" = 1 ]; then
		ip netns exec pod unirail verify --listen -o json >/run/served 2>/run/serving &
		server=$!
		until_true grep -q listening /run/serving
		send verify listens
		hear verified
		kill "$server"
		wait "$server" || fail "the exit status of the server of verify is $?: $(cat /run/serving)"
		same "number of rails that the server tested" "$(grep -c checkedBytes /run/served)" 2
		return
	fi
	hear verify
	sent="$(sent_packets rxe0) $(sent_packets rxe1)"
	# shellcheck disable=SC2086
	got=$(ip netns exec pod unirail verify "$(nth 2 $theirs)" --all --write --size 4096 --count 20 -o json) ||
		fail "unirail verify failed: $got"
	for i in 0 1; do
		# shellcheck disable=SC2086
		from=$(nth $((i + 2)) $mine) to=$(nth $((i + 2)) $theirs)
		rail=$(echo "$got" | jq -c ".rails[$i]")
		same "rail $i" "$(echo "$rail" | jq -c '[.here.interface, .here.device, .here.gidIndex, .peer.device]')" \
			"[\"net$((i + 1))\",\"rxe$i\",$(gid_index rxe$i "$from"),\"rxe$i\"]"
		same "addresses of rail $i" "$(echo "$rail" | jq -r '.here.address + " " + .peer.address' | sed 's,/[0-9]*,,g')" \
			"$from $to"
		[ "$(echo "$rail" | jq .checkedBytes)" -gt 0 ] || fail "rail $i: no data was checked: $rail"
		# shellcheck disable=SC2086
		[ $(($(sent_packets rxe$i) - $(nth $((i + 1)) $sent))) -ge 20 ] || fail "rxe$i sent less than 20 packets of the test"
	done
	say "verify --all --write across nodes: $(echo "$got" | jq -r '[.rails[] | "\(.latencyNs.median / 1000 | floor) us, \(
		.bytesPerSecond / 1000 | floor) kB/s"] | join("; ")')"
	send verified x
}

# cm_ping: rping from the first node's pod to the second's, by the RDMA connection manager
cm_ping() {
	# shellcheck disable=SC2086
	from=$(nth 2 $mine) to=$(nth 2 $theirs)
	if [ "$node" = 2 ]; then
		ip netns exec pod timeout 200 rping -s -a "$from" -C 3 >/run/served 2>&1 &
		server=$!
		send rping served
		hear rpinged
		kill "$server" 2>/dev/null || true
	else
		hear rping
		until_true ip netns exec pod timeout 20 rping -c -I "$from" -a "$to" -C 3 -v
		send rpinged x
	fi
}
