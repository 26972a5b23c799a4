#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# ipoib: children of the IPoIB devices of two HCAs, each child in its own pod, with traffic in several partitions; RDMA is in shared mode.
# shellcheck source=tests/vm/lib.sh
. /tests/lib.sh

insmod /lib/fakeib.ko ib=2
ib0=ib0 ib1=ib1
ip link set $ib0 up
ip link set $ib1 up
ip netns add pod
ip netns add other

# conf MASTER ADDRESS JSON: prints a configuration of ipoib with the members of JSON
conf() {
	jq -nc --arg master "$1" --arg address "$2" --argjson more "$3" '{cniVersion: "1.0.0", name: "net", type: "ipoib",
		master: $master, ipam: {type: "static", addresses: [{address: $address}]}} + $more'
}

pings() {
	ip netns exec "$1" ping -c 1 -W 1 "$2" >/dev/null
}

for more in '{}' '{"pkey": "0x8001"}' '{"pkey": 2, "mode": "connected"}' '{"pkey": "0x0003", "mtu": 1500}'; do
	echo "--- $more"
	here=$(conf $ib0 172.16.1.20/24 "$more")
	there=$(conf $ib1 172.16.1.21/24 "$more")
	add ipoib other net1 "$there"
	add ipoib pod net1 "$here"
	same "MAC" "$(echo "$result" | jq -r '.interfaces[0].mac')" "$(link pod net1 .address)"
	same "length of the MAC" "$(echo "$result" | jq -r '.interfaces[0].mac | length')" 59
	want=$(echo "$more" | jq -r '.pkey // "0xffff"')
	[ "$want" != 2 ] || want=0x8002
	[ "$want" != 0x0003 ] || want=0x8003
	ip -n pod -d link show net1 | grep -q "ipoib pkey $want .*umcast 0001" ||
		fail "net1 has another pkey or umcast: $(ip -n pod -d link show net1)"
	same "proxy_arp" "$(ip netns exec pod cat /proc/sys/net/ipv4/conf/net1/proxy_arp)" 1
	case $more in
	*mtu*) same "MTU" "$(link pod net1 .mtu)" 1500 ;;
	*connected*) same "mode" "$(link pod net1 .linkinfo.info_data.mode)" connected ;;
	esac
	check ipoib pod net1 "$here"
	# Connected mode needs QPs that fakeib does not have.
	case $more in *connected*) ;; *) until_true pings pod 172.16.1.21 ;; esac
	delete ipoib pod net1 "$here"
	delete ipoib pod net1 "$here"
	delete ipoib other net1 "$there"
	same "links after DEL" "$(links pod)" lo
done

echo "--- pods of different partitions do not reach each other"
add ipoib other net1 "$(conf $ib1 172.16.1.21/24 '{"pkey": "0x8002"}')"
mine=$(conf $ib0 172.16.1.20/24 '{"pkey": "0x8001"}')
add ipoib pod net1 "$mine"
! pings pod 172.16.1.21 || fail "the pod reaches a pod of another partition"
! cni CHECK ipoib pod net1 "$(echo "$mine" | jq -c --argjson prev "$result" '. + {pkey: 2, prevResult: $prev}')" ||
	fail "CHECK succeeded with another partition"

echo "--- DEL and GC delete links that the kernel moved to the node with the deleted namespace"
ip netns del pod
ip netns del other
strays() {
	[ "$(ip -j -d link | jq '[.[] | select(.linkinfo.info_kind == "ipoib" and .link != null)] | length')" = "$1" ]
}
until_true strays 2
delete ipoib pod net1 "$mine"
strays 0 || fail "DEL left IPoIB links on the node"
ip netns add pod
printf '%s' "$mine" | env CNI_COMMAND=DEL CNI_CONTAINERID=vm-pod CNI_NETNS="" CNI_IFNAME=net1 CNI_PATH=/plugins \
	/plugins/ipoib || fail "DEL without CNI_NETNS failed"
add ipoib pod net1 "$mine"
ip netns del pod
until_true strays 1
printf '%s' "$mine" | jq -c '.cniVersion = "1.1.0" | . + {"cni.dev/valid-attachments": []}' |
	env CNI_COMMAND=GC CNI_PATH=/plugins /plugins/ipoib || fail "GC of ipoib failed"
strays 0 || fail "GC left IPoIB links on the node"

echo "--- invalid input is refused and changes nothing"
ip netns add pod
# refused JSON MESSAGE: ADD with the members of JSON must fail with MESSAGE and leave no link in the pod
refused() {
	cni ADD ipoib pod net1 "$(conf $ib0 172.16.1.20/24 "$1")" | grep -q "$2" || fail "ADD did not fail with '$2': $1"
	same "links" "$(links pod)" lo
}
refused '{"master": "eth0"}' 'master device is (device) not of type ipoib'
refused '{"mtu": 9000}' 'invalid MTU 9000, must be \[0, master MTU(2044)\]'
refused '{"pkey": "0x8000"}' 'conf.pkey is'
refused '{"master": ""}' 'host master interface is missing'
rmmod fakeib
