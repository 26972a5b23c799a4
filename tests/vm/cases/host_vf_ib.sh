#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `unirail host vf`: number, GUIDs, MTU and driver of InfiniBand VFs and the mode of the PF's switch: applied, the same after the VFs are
# created again, undone, and killed at system calls; refused while a pod has a VF.
# shellcheck source=tests/vm/lib.sh
. /tests/lib.sh
# shellcheck source=tests/vm/lib_host.sh
. /tests/lib_host.sh
# shellcheck source=tests/vm/lib_host_vf.sh
. /tests/lib_host_vf.sh

hcas_on 0
# shellcheck disable=SC2034 # observed() reads it
switch=1
pf1=$(netdev "$pci1")
ip link set "$pf1" up

guid_of() {
	cat "/sys/bus/pci/devices/$1/infiniband"/*/node_guid
}

number() {
	echo "$1" >"/sys/bus/pci/devices/$pci1/sriov_numvfs"
}

has_netdev() {
	[ -n "$(netdev "$1")" ]
}

# guids: prints the GUIDs of both VFs; PF, RDMA device and interface must agree on each
guids() {
	for i in 0 1; do
		vf=$(vf_at "$pci1" $i)
		until_true has_netdev "$vf"
		guid=$(guid_of "$vf" | tr -d :)
		case $guid in
		02??????????????) ;;
		*) fail "GUID $guid of VF $i does not begin with 02, as GUIDs derived by unirail do" ;;
		esac
		ip -d link show "$pf1" | tr -d : | grep -q "vf $i .*NODE_GUID $guid, PORT_GUID $guid" ||
			fail "the PF does not report GUID $guid for VF $i: $(ip -d link show "$pf1" | grep "vf $i ")"
		same "GUID of the interface of VF $i" "$(hardware_address "$(netdev "$vf")" | tr -d :)" "$guid"
		echo "$guid"
	done
}

step vf "$pf1" --num-vfs 2 --mtu 1400
applied vf "$pf1" --num-vfs 2 --mtu 1400
same "VFs" "$(cat "/sys/bus/pci/devices/$pci1/sriov_numvfs")" 2
same "VFs of the other PF" "$(cat "/sys/bus/pci/devices/$pci2/sriov_numvfs")" 0
first=$(guids) || exit 1
same "number of different GUIDs" "$(echo "$first" | sort -u | wc -l)" 2
for i in 0 1; do
	same "MTU of VF $i" "$(cat "/sys/class/net/$(netdev "$(vf_at "$pci1" $i)")/mtu")" 1400
done
# After the VFs are destroyed, as at each boot, apply creates them with the same GUIDs.
number 0
unirail host apply
again=$(guids) || exit 1
same "GUIDs of VFs created again" "$again" "$first"

# A pod has a VF: in exclusive mode the VF's RDMA device is in the pod's network namespace, and the number of VFs is not changed.
vf=$(vf_at "$pci1" 1)
exclusive() {
	rdma system set netns exclusive
}
until_true exclusive
ip netns add pod
rdma dev set "$(ls "/sys/bus/pci/devices/$vf/infiniband")" netns pod
said=$(unirail host vf "$pf1" --num-vfs 4 2>&1) && fail "unirail host vf succeeded although a pod has a VF: $said"
echo "$said" | grep -q "VF '$vf' is in another network namespace" || fail "the error does not name the VF: $said"
same "number of VFs while a pod has a VF" "$(cat "/sys/bus/pci/devices/$pci1/sriov_numvfs")" 2
ip netns del pod
until_true has_netdev "$vf"
shared() {
	rdma system set netns shared
}
until_true shared
unirail host undo

# VFs that another program created have no GUID. Apply sets GUIDs, and undo removes them.
number 2
for i in 0 1; do
	until_true has_netdev "$(vf_at "$pci1" $i)"
	same "GUID of VF $i at first" "$(guid_of "$(vf_at "$pci1" $i)")" 0000:0000:0000:0000
done
each=6 step vf "$pf1" --num-vfs 2
number 0

echo "--- mode switchdev and driver vfio-pci are applied and undone"
each=6 step vf "$pf1" --num-vfs 1 --eswitch-mode switchdev
applied vf "$pf1" --num-vfs 1 --driver vfio-pci --eswitch-mode switchdev
same "driver" "$(basename "$(readlink "/sys/bus/pci/devices/$(vf_at "$pci1" 0)/driver")")" vfio-pci
devlink dev eswitch show "pci/$pci1" | grep -q 'mode switchdev' || fail "the mode is not switchdev: $(devlink dev eswitch show "pci/$pci1")"
everything >/run/changed
unirail host undo
everything >/run/at_last
cmp -s /run/at_first /run/at_last || fail "undo left a difference: $(diff /run/at_first /run/at_last | grep -m 1 '^[<>]')"

ip link set "$pf1" down
hcas_off
rm -f /etc/machine-id
