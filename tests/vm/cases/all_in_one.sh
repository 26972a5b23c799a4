#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# unirail-cni: macvlan, ipvlan, vlan and a virtual function as rails of one pod.
# shellcheck source=tests/vm/lib.sh
. /tests/lib.sh

pci=$(nth_igb 2)
echo 1 >"/sys/bus/pci/devices/$pci/sriov_numvfs"
vf=$(basename "$(readlink -f "/sys/bus/pci/devices/$pci/virtfn0")")
has_netdev() {
	[ -n "$(ls "/sys/bus/pci/devices/$vf/net" 2>/dev/null)" ]
}
until_true has_netdev
for nic in eth0 eth1 eth2 eth3; do
	ip link set $nic up
done
ip netns add pod
conf=$(jq -nc --arg vf "$vf" '
	def rail($i; $main): {name: "rail\($i)", ifname: "net\($i)", plugins: [$main + {ipam: {type: "static",
		addresses: [{address: "172.16.\($i).20/24"}]}}]};
	{cniVersion: "1.1.0", name: "rails", type: "unirail-cni", networks: [
		rail(1; {type: "macvlan", master: "eth0", mode: "bridge"}),
		rail(2; {type: "ipvlan", master: "eth1", mode: "l2"}),
		rail(3; {type: "vlan", master: "eth2", vlanId: 33}),
		rail(4; {type: "host-device", pciBusID: $vf})]}')
add unirail-cni pod net1 "$conf"
same "links" "$(links pod)" "lo net1 net2 net3 net4"
same "kinds" "$(ip -n pod -j -d link | jq -r '[.[] | .linkinfo.info_kind // "none"] | sort | join(" ")')" \
	"ipvlan macvlan none none vlan"
for i in 1 2 3 4; do
	same "address" "$(addresses pod net$i)" 172.16.$i.20/24
done
check unirail-cni pod net1 "$conf"
delete unirail-cni pod net1 "$conf"
same "links after DEL" "$(links pod)" lo
has_netdev || fail "the virtual function is not on the node after DEL"
echo 0 >"/sys/bus/pci/devices/$pci/sriov_numvfs"
