#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# host-device with a virtual function of a PCI NIC: by name, by PCI address and by MAC; it is restored under its name.
# shellcheck source=tests/vm/lib.sh
. /tests/lib.sh

pci=$(nth_igb 1)
pf=$(ls "/sys/bus/pci/devices/$pci/net")
ip link set "$pf" up
echo 2 >"/sys/bus/pci/devices/$pci/sriov_numvfs"
vf=$(basename "$(readlink -f "/sys/bus/pci/devices/$pci/virtfn0")")
has_netdev() {
	[ -n "$(ls "/sys/bus/pci/devices/$vf/net" 2>/dev/null)" ]
}
until_true has_netdev
nic=$(ls "/sys/bus/pci/devices/$vf/net")
mac=$(cat "/sys/class/net/$nic/address")
echo "PF $pf $pci, VF $nic $vf $mac"
ip netns add pod

for by in '{"device": "'$nic'"}' '{"pciBusID": "'$vf'"}' '{"hwaddr": "'$mac'"}'; do
	conf=$(jq -nc --argjson by "$by" '{cniVersion: "1.0.0", name: "hd", type: "host-device",
		ipam: {type: "static", addresses: [{address: "172.16.1.20/24"}]}} + $by')
	echo "$conf"
	add host-device pod net1 "$conf"
	same "MAC in the pod" "$(link pod net1 .address)" "$mac"
	same "address" "$(addresses pod net1)" 172.16.1.20/24
	[ ! -e "/sys/class/net/$nic" ] || fail "$nic is still on the node"
	check host-device pod net1 "$conf"
	delete host-device pod net1 "$conf"
	same "links after DEL" "$(links pod)" lo
	same "MAC on the node after DEL" "$(cat "/sys/class/net/$nic/address")" "$mac"
done

echo "--- an alternative name that is in use as interface name of the pod is restored, also after the namespace was deleted"
# altnames: prints the VF's alternative names on the node that contain "net1", as the one that this case adds does
altnames() {
	ip -j link show "$nic" | jq -r '[.[0].altnames // [] | .[] | select(test("net1"))] | join(" ")'
}
ip link property add dev "$nic" altname net1
add host-device pod net1 "$conf"
delete host-device pod net1 "$conf"
same "alternative names" "$(altnames)" net1
conf=$(jq -nc --arg vf "$vf" '{cniVersion: "1.0.0", name: "hd", type: "host-device", runtimeConfig: {deviceID: $vf}}')
add host-device pod net1 "$conf"
ip netns del pod
came_home() {
	[ -n "$(ls "/sys/bus/pci/devices/$vf/net" 2>/dev/null)" ]
}
until_true came_home
delete host-device pod net1 "$conf"
same "alternative names" "$(altnames)" net1
echo 0 >"/sys/bus/pci/devices/$pci/sriov_numvfs"
