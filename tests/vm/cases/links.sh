#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# macvlan, ipvlan and vlan in every mode: ADD, the kernel's state, CHECK, DEL.
# shellcheck source=tests/vm/lib.sh
. /tests/lib.sh

master=eth0
ip link set $master up
ip netns add pod

# try PLUGIN CONF FILTER WANTED: attaches a pod; FILTER, applied to the link's kind-specific data, must print WANTED
try() {
	conf=$(jq -nc --arg type "$1" --arg master $master --argjson more "$2" '{cniVersion: "1.0.0", name: "net",
		type: $type, master: $master, ipam: {type: "static", addresses: [{address: "172.16.1.20/24"}]}} + $more')
	echo "$conf"
	add "$1" pod net1 "$conf"
	same "kind" "$(link pod net1 .linkinfo.info_kind)" "$1"
	same "$3" "$(link pod net1 ".linkinfo.info_data$3")" "$4"
	same "address" "$(addresses pod net1)" 172.16.1.20/24
	same "address of the result" "$(echo "$result" | jq -r '.ips[0].address')" 172.16.1.20/24
	same "MAC" "$(echo "$result" | jq -r '.interfaces[0].mac')" "$(link pod net1 .address)"
	link pod net1 '.flags | join(" ")' | grep -qw UP || fail "net1 is not up"
	check "$1" pod net1 "$conf"
	ip -n pod address flush dev net1
	! cni CHECK "$1" pod net1 "$whole" || fail "CHECK succeeded after the address was removed"
	delete "$1" pod net1 "$conf"
	delete "$1" pod net1 "$conf"
	same "links after DEL" "$(links pod)" lo
}

for mode in bridge private vepa passthru; do
	try macvlan '{"mode": "'$mode'"}' .mode $mode
done
for mode in l2 l3 l3s; do
	try ipvlan '{"mode": "'$mode'"}' .mode $mode
done
try ipvlan '{}' .mode l2
try vlan '{"vlanId": 7}' .id 7
try vlan '{"vlanId": 4094, "mtu": 1400}' .id 4094
