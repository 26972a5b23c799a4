#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `unirail device list` agrees with ip, rdma, devlink and ibv_devinfo: PFs and VFs as Ethernet, RoCE and InfiniBand functions.
# shellcheck source=tests/vm/lib.sh
. /tests/lib.sh
# shellcheck source=tests/vm/lib_sriov.sh
. /tests/lib_sriov.sh

# inspect: stores the JSON output in $listed, and also runs the text output
inspect() {
	unirail device list
	listed=$(unirail device list -o json) || fail "unirail device list failed"
}

# of BDF FILTER: prints what the jq filter FILTER selects from the function BDF in $listed
of() {
	echo "$listed" | jq -r ".[] | select(.address == \"$1\") | $2"
}

# links_agree: compares the netdevs of all functions with the links that have a PCI parent in the output of ip
links_agree() {
	same "netdevs" "$(echo "$listed" | jq -c '[.[] | .address as $a | .netdevs[] | [$a, .name, .mac, .mtu, .up]] | sort')" \
		"$(ip -j -d link | jq -c '[.[] | select(.parentbus == "pci") |
			[.parentdev, .ifname, .address, .mtu, (.flags | index("UP") != null)]] | sort')"
}

# vfs_agree PF BDF: compares the index and the settings of each VF of PF, whose PCI address is BDF, with the output of ip, and the index
# also with the links virtfnN in /sys
vfs_agree() {
	same "VFs of $1" "$(echo "$listed" | jq -c --arg pf "$2" '[.[] | select(.pf == $pf) | [.vf, .settings.mac // "00:00:00:00:00:00",
			.settings.vlan, .settings.vlanQoS, .settings.minTxRate, .settings.maxTxRate, .settings.spoofchk,
			.settings.trust, .settings.linkState]] | sort')" \
		"$(ip -j link show "$1" | jq -c '[.[0].vfinfo_list[] | [.vf, .address, .vlan_list[0].vlan // 0,
			.vlan_list[0].qos // 0, .rate.min_tx // 0, .rate.max_tx // 0, .spoofchk, .trust, .link_state]] | sort')"
	for path in /sys/bus/pci/devices/"$2"/virtfn*; do
		bdf=$(basename "$(readlink -f "$path")")
		same "number of $bdf" "$(of "$bdf" .vf)" "${path##*virtfn}"
	done
}

# rdma_agrees: compares the RDMA devices of functions (GUIDs, states, link layers, number of GIDs) with the outputs of rdma and ibv_devinfo
rdma_agrees() {
	same "RDMA ports" "$(echo "$listed" | jq -c '[.[] | .rdma[] | .name as $n | .ports[] | [$n, .port, .state]] | sort')" \
		"$(rdma -j link | jq -c 'map([.ifname, .port, .state]) | sort')"
	same "RDMA devices" "$(echo "$listed" | jq -c '[.[] | .rdma[] | [.name, .nodeGuid]] | sort')" \
		"$(rdma -j dev | jq -c 'map([.ifname, .node_guid]) | sort')"
	for device in $(echo "$listed" | jq -r '.[].rdma[].name'); do
		theirs=$(ibv_devinfo -d "$device" -v) || fail "ibv_devinfo does not know $device"
		mine=$(echo "$listed" | jq -c ".[].rdma[] | select(.name == \"$device\")")
		same "GUID of $device" "$(echo "$mine" | jq -r .nodeGuid)" "$(echo "$theirs" | sed -n 's/.*node_guid:[[:space:]]*//p')"
		same "state of $device" "$(echo "$mine" | jq -r '.ports[0].state')" \
			"$(echo "$theirs" | sed -n 's/.*[^_]state:[[:space:]]*PORT_\([A-Z]*\).*/\1/p')"
		same "link of $device" "$(echo "$mine" | jq -r '.ports[0].link')" \
			"$(echo "$theirs" | sed -n 's/.*link_layer:[[:space:]]*//p')"
		same "GIDs of $device" "$(echo "$mine" | jq '.ports[0].gids | length')" "$(echo "$theirs" | grep -c 'GID\[')"
	done
}

echo "--- Ethernet: settings of PFs and VFs equal those of iproute2"
ip link set "$pf1" vf 0 vlan 7 qos 3
ip link set "$pf1" vf 0 trust on
ip link set "$pf1" vf 1 spoofchk off
ip link set "$pf1" vf 1 max_tx_rate 100
ip link set "$pf2" vf 0 mac 02:00:00:00:07:09
inspect
links_agree
vfs_agree "$pf1" "$pci1"
vfs_agree "$pf2" "$pci2"
same "VFs" "$(of "$pci1" '"\(.numVfs) of \(.totalVfs), \(.role)"')" \
	"4 of $(cat "/sys/bus/pci/devices/$pci1/sriov_totalvfs"), pf"
same "drivers" "$(of "$pci1" .driver) $(of "$a" .driver)" "igb igbvf"
# igb has no devlink, so there is no eswitch.
same "devices of devlink" "$(devlink -j dev | jq -c '.dev // {} | keys')" "[]"
same "eswitch of the PF" "$(of "$pci1" .eswitch)" null
ip link set "$pf1" vf 0 vlan 0
ip link set "$pf1" vf 0 trust off
ip link set "$pf1" vf 1 spoofchk on
ip link set "$pf1" vf 1 max_tx_rate 0

echo "--- a VF in a pod is listed with its pod"
add sriov pod net1 "$plain"
inspect
same "VF in the pod" "$(of "$a" '"\(.inOtherNetns) \(.pod) \(.netns) \(.netdevs | length)"')" "true team/pod /run/netns/pod 0"
unirail device list | grep "$a" | grep -q team/pod || fail "the table does not name the pod of VF $a"
delete sriov pod net1 "$plain"
inspect
same "VF after DEL" "$(of "$a" '"\(.inOtherNetns) \(.pod)"')" "false null"
links_agree

echo "--- RoCE: RDMA devices equal those of rdma and ibv_devinfo"
# With the driver number of soft-RoCE, libibverbs opens the device.
insmod /lib/fakeib.ko roce=1 driver_id=14
inspect
rdma_agrees
same "RDMA device of the PF" "$(of "$pci1" '.rdma[0].name')" "$(ls "/sys/bus/pci/devices/$pci1/infiniband")"
rmmod fakeib
echo 0 >"/sys/bus/pci/devices/$pci1/sriov_numvfs"
echo 0 >"/sys/bus/pci/devices/$pci2/sriov_numvfs"
ip link set "$pf1" down
ip link set "$pf2" down

echo "--- InfiniBand: RDMA devices and GUIDs of VFs equal those of rdma and ip"
hcas_on 14
pf=$(for path in /sys/bus/pci/drivers/fakeib/0000:*; do echo "${path##*/}"; done | head -n 1)
echo 2 >"/sys/bus/pci/devices/$pf/sriov_numvfs"
b=$(basename "$(readlink -f "/sys/bus/pci/devices/$pf/virtfn1")")
until_true netdev "$b"
pf_nic=$(netdev "$pf")
ip link set "$pf_nic" vf 1 node_guid 02:00:00:00:00:00:00:01
ip link set "$pf_nic" vf 1 port_guid 02:00:00:00:00:00:00:02
ip link set "$pf_nic" vf 1 state disable
inspect
links_agree
rdma_agrees
told=$(ip -d link show "$pf_nic" | sed -n 's/.*vf 1 //p')
same "GUIDs" "$(of "$b" '"\(.settings.nodeGuid) \(.settings.portGuid)"')" \
	"$(echo "$told" | sed 's/.*NODE_GUID \([0-9a-f:]*\),.*PORT_GUID \([0-9a-f:]*\),.*/\1 \2/')"
same "GUIDs" "$(of "$b" .settings.portGuid)" 02:00:00:00:00:00:00:02
same "link state" "$(of "$b" .settings.linkState)" disable
echo 0 >"/sys/bus/pci/devices/$pf/sriov_numvfs"
hcas_off
