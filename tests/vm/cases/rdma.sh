#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `unirail rdma` agrees with rdma and ibv_devinfo, its layout is iproute2's: soft-RoCE and fakeib, in both modes.
# shellcheck source=tests/vm/lib.sh
. /tests/lib.sh

# alike ARGUMENTS: `unirail rdma` and iproute2's `rdma` must print the same text, in the namespace of the last call of agree
alike() {
	same "rdma $*" "$($in_ns unirail rdma "$@")" "$($in_ns rdma "$@")"
}

# layout: compares the output of `unirail rdma` and `rdma` for dev, link and system, in the namespace of the last call of agree
layout() {
	for options in "" -d -j -jd; do
		# shellcheck disable=SC2086 # empty options are no argument
		for view in dev link; do
			alike $options $view
			alike $view show $options
		done
	done
	for dev in $($in_ns rdma -j dev | jq -r '.[].ifname'); do
		alike dev show "$dev"
		alike -jd link show "$dev/1"
		same "rdma -jp link show $dev" "$($in_ns unirail rdma -jp link show "$dev/1" | jq -c .)" \
			"$($in_ns rdma -jp link show "$dev/1" | jq -c .)"
	done
	alike system
	alike sys show
	same "rdma -j system" "$($in_ns unirail rdma -j system | jq -r '.[] | "netns \(.netns) copy-on-fork \(if ."copy-on-fork" then "on" else "off" end)"')" \
		"$($in_ns rdma system)"
}

# counters DEVICE
counters() {
	alike statistic show link "$1"
	alike -j statistic show link "$1/1"
	alike -p stat show link "$1/1"
	$in_ns unirail rdma statistic show link "$1/1" | grep -q " sent_pkts " || fail "unirail rdma does not print counters of $1"
}

# agree [NS]: compares `unirail rdma` with `rdma` and ibv_devinfo in the namespace NS (default: the node's)
agree() {
	in_ns=${1:+ip netns exec $1}
	listed=$($in_ns unirail rdma list -o json)
	$in_ns unirail rdma list
	theirs=$($in_ns rdma -j dev)
	same "devices" "$(echo "$listed" | jq -c 'map([.name, .index, .nodeGuid]) | sort')" \
		"$(echo "$theirs" | jq -c 'map([.ifname, .ifindex, .node_guid]) | sort')"
	same "ports" "$(echo "$listed" | jq -c '[.[] | .name as $n | .ports[] | [$n, .port, .state, .netdev // ""]] | sort')" \
		"$($in_ns rdma -j link | jq -c 'map([.ifname, .port, .state, .netdev // ""]) | sort')"
	for dev in $(echo "$listed" | jq -r '.[] | select(.inVerbs) | .name'); do
		ibv=$($in_ns ibv_devinfo -d "$dev") || fail "ibv_devinfo does not know $dev"
		guid=$(echo "$ibv" | sed -n 's/.*node_guid:[[:space:]]*//p')
		same "GUID of $dev" "$(echo "$listed" | jq -r ".[] | select(.name == \"$dev\") | .nodeGuid")" "$guid"
		state=$(echo "$ibv" | sed -n 's/.*state:[[:space:]]*PORT_\([A-Z]*\).*/\1/p')
		same "state of $dev" "$(echo "$listed" | jq -r ".[] | select(.name == \"$dev\") | .ports[0].state")" "$state"
	done
	# iproute2's `rdma` prints the mode only as text, not as JSON.
	mode=$(rdma system | sed -n 's/.*netns \([a-z]*\).*/\1/p')
	same "mode" "$($in_ns unirail rdma mode -o json | jq -r .mode)" "$mode"
}

count() {
	$1 unirail rdma list -o json | jq length
}

same "number of RDMA devices at first" "$(count "")" 0
agree
ip link add rail0 type veth peer name sw0
ip link set rail0 up
ip link set sw0 up
rdma link add rxe0 type rxe netdev rail0
in_ns=
alike statistic
alike stat show
alike -j statistic
counters rxe0
# The kernel counts single queue pairs only if a client requests it, which soft-RoCE does not support.
for of in "qp" "qp show" "qp show link rxe0/1" "qp mode" "qp mode link rxe0" "mr" "show mr"; do
	# shellcheck disable=SC2086 # several arguments
	alike statistic $of
	# shellcheck disable=SC2086
	alike -j statistic $of
done
insmod /lib/fakeib.ko ib=2
counters rxe0
same "devices without counters" "$(unirail rdma statistic)" "$(rdma statistic show link rxe0)"
none=$(rdma -j dev | jq -r '[.[].ifname | select(startswith("fib"))][0]')
! unirail rdma statistic show link "$none" 2>/tmp/said || fail "unirail rdma printed counters of $none, which has none"
grep -q "RDMA device '$none' port 1: its driver has no hardware counters" /tmp/said ||
	fail "the error does not name the device without counters: $(cat /tmp/said)"
ip netns add pod
agree
layout
same "inVerbs of rxe0" "$(unirail rdma list -o json | jq '.[] | select(.name == "rxe0").inVerbs')" true
same "number of RDMA devices in the pod in shared mode" "$(count "ip netns exec pod")" 3
agree pod
ip netns del pod
rmmod fakeib
rdma link del rxe0

rdma system set netns exclusive
ip netns add pod
rdma link add rxe0 type rxe netdev rail0
insmod /lib/fakeib.ko ib=2
agree
same "devices in the pod" "$(count "ip netns exec pod")" 0
moved=$(rdma -j dev | jq -r '[.[].ifname | select(startswith("fib"))][0]')
rdma dev set "$moved" netns pod
agree
agree pod
layout
same "devices in the pod" "$(ip netns exec pod unirail rdma list -o json | jq -r 'map(.name) | join(" ")')" "$moved"
ip netns del pod
home() {
	[ "$(count "")" = 3 ]
}
until_true home
agree
rmmod fakeib
rdma link del rxe0
ip link del rail0
rdma system set netns shared
