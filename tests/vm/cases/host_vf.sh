#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `unirail host vf`: number, MAC, MTU and driver of igb's VFs, which have RoCE devices: applied, undone, and killed at system calls; refused
# while a pod has a VF.
# shellcheck source=tests/vm/lib.sh
. /tests/lib.sh
# shellcheck source=tests/vm/lib_host.sh
. /tests/lib_host.sh
# shellcheck source=tests/vm/lib_host_vf.sh
. /tests/lib_host_vf.sh

insmod /lib/fakeib.ko roce=1 vfio=1 name=mlx5_%d
pf1=$(netdev "$pci1")
# igb's VFs take the MACs that are set through the PF only after the PF is up.
ip link set "$pf1" up

step vf "$pf1" --num-vfs 2 --mtu 1400
applied vf "$pf1" --num-vfs 2 --mtu 1400
same "VFs" "$(cat "/sys/bus/pci/devices/$pci1/sriov_numvfs")" 2
same "VFs of the other PF" "$(cat "/sys/bus/pci/devices/$pci2/sriov_numvfs")" 0
for i in 0 1; do
	vf=$(vf_of 1 $i)
	mac=$(cat "/sys/class/net/$(netdev "$vf")/address")
	same "MAC of VF $i" "$mac" "$(identity "$pci1" $i .address)"
	[ "${mac%%:*}" = 02 ] || fail "MAC $mac of VF $i is not locally administered"
	same "MTU of VF $i" "$(cat "/sys/class/net/$(netdev "$vf")/mtu")" 1400
done
macs=$(identity "$pci1" 0 .address)$(identity "$pci1" 1 .address)
# After the VFs are destroyed, as at each boot, apply creates them with the same MACs.
pf_off 1
unirail host apply
same "MACs of VFs created again" "$(identity "$pci1" 0 .address)$(identity "$pci1" 1 .address)" "$macs"

# While a pod has a VF, the number of its PF's VFs is not changed.
ip netns add pod
vf=$(vf_of 1 1)
rdma system set netns shared
ip link set "$(netdev "$vf")" netns pod
rdma dev show >/dev/null
mkdir -p /var/lib/kubelet/device-plugins
jq -n --arg vf "$vf" '{Data: {PodDeviceEntries: [{PodUID: "3c9f", ContainerName: "c", ResourceName: "r", DeviceIDs: {"-1": [$vf]}}],
	RegisteredDevices: {}}, Checksum: 0}' >/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint
before=$(cat "/sys/bus/pci/devices/$pci1/sriov_numvfs")
said=$(unirail host vf "$pf1" --num-vfs 4 2>&1) && fail "unirail host vf succeeded although a pod has a VF: $said"
echo "$said" | grep -q "VF '$vf' is in the pod with UID '3c9f'" || fail "the error does not name the VF and its pod: $said"
same "number of VFs while a pod has a VF" "$(cat "/sys/bus/pci/devices/$pci1/sriov_numvfs")" "$before"
rm -r /var/lib/kubelet
ip netns del pod
has_netdev() {
	[ -n "$(netdev "$1")" ]
}
until_true has_netdev "$vf"
unirail host undo

# vfio-pci
everything >/run/at_first
applied vf "$pf1" --num-vfs 1 --driver vfio-pci
same "driver" "$(basename "$(readlink "/sys/bus/pci/devices/$(vf_of 1 0)/driver")")" vfio-pci
undone "vfio-pci"

said=$(unirail host vf "$pf1" --num-vfs 9 2>&1) && fail "unirail host vf succeeded with 9 VFs of a PF that supports 7: $said"
echo "$said" | grep -q "can have 7 (sriov_totalvfs)" || fail "the error does not name sriov_totalvfs: $said"
# If another program sets a VF's MAC, the next apply restores it.
unirail host vf "$pf1" --num-vfs 1
ip link set "$pf1" vf 0 mac 02:00:00:00:00:99
unirail host plan | grep -q 'MAC 02:' || fail "the plan has no step for a MAC that another program set: $(unirail host plan)"
unirail host apply
[ "$(identity "$pci1" 0 .address)" != 02:00:00:00:00:99 ] || fail "apply left the MAC that another program set"
unirail host undo
ip link set "$pf1" down
rmmod fakeib
rm -f /etc/machine-id
