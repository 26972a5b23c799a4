#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sriov restores virtual functions after the pod's namespace or the record was deleted, and after ADD was killed; DEL also succeeds if the
# function itself was destroyed.
# shellcheck source=tests/vm/lib.sh
. /tests/lib.sh
# shellcheck source=tests/vm/lib_sriov.sh
. /tests/lib_sriov.sh

echo "--- DEL restores the VF after the namespace was deleted"
ip link set "$nic" alias "uplink one"
ip link property add dev "$nic" altname net1
ip link property add dev "$nic" altname enp1s0v0
ip link set "$nic" mtu 1400
before=$(seen "$pf1" "$pci1" 0)
add sriov pod net1 "$full"
ip netns del pod
delete sriov pod net1 "$full"
same "the VF" "$(seen "$pf1" "$pci1" 0)" "$before"
nothing_left
ip netns add pod
echo "--- the VF of a deleted pod is restored for the next pod, and a late DEL does not change it"
add sriov pod net1 "$full"
ip netns del pod
add sriov pod2 net1 "$plain"
same "MAC in the pod" "$(link pod2 net1 .address)" "$(echo "$before" | tail -n 1 | jq -r .address)"
same "vlan" "$(of_vf "$pf1" 0 .vlan_list[0].vlan)" "null"
delete sriov pod net1 "$full"
same "device in the pod" "$(link pod2 net1 .parentdev)" "$a"
delete sriov pod2 net1 "$plain"
same "the VF" "$(seen "$pf1" "$pci1" 0)" "$before"
nothing_left
ip netns add pod

echo "--- DEL restores the VF without CNI_NETNS, without a record, and without both"
add sriov pod net1 "$full"
printf '%s' "$full" | CNI_COMMAND=DEL CNI_CONTAINERID=vm-pod-0123456789ab CNI_IFNAME=net1 CNI_PATH=/plugins /plugins/sriov
same "the VF" "$(seen "$pf1" "$pci1" 0)" "$before"
nothing_left
ip link set "$nic" alias ''
ip link property del dev "$nic" altname net1 altname enp1s0v0
ip link set "$nic" mtu 1500
before=$(seen "$pf1" "$pci1" 0)
lose() {
	add sriov pod net1 "$full"
	eval "$1"
	delete sriov pod net1 "$full"
	nothing_left
}
record=$records/vm-pod-0123456789ab-net1
for lost in "rm $record" "rm -r $records" "echo { >$record"; do
	lose "$lost"
	same "the VF after '$lost'" "$(seen "$pf1" "$pci1" 0)" "$before"
done
# Without record and namespace, DEL reads the permanent MAC from the driver. igbvf reports as permanent MAC the one that the PF set last,
# which is the pod's. DEL sets a random MAC instead.
lose "rm -r $records; ip netns del pod"
ip netns add pod
mac=$(of_vf "$pf1" 0 .address)
[ "$mac" != 02:00:00:00:07:01 ] || fail "the VF has the MAC of the pod after DEL"
same "MAC" "$(cat "/sys/class/net/$nic/address")" "$mac"
same "the VF except for its MAC" "$(seen "$pf1" "$pci1" 0 | jq -c 'del(.address)')" "$(echo "$before" | jq -c 'del(.address)')"
before=$(seen "$pf1" "$pci1" 0)

echo "--- GC restores VFs of unlisted pods only"
add sriov pod net1 "$full"
gc=$(echo "$full" | jq -c '. + {cniVersion: "1.1.0", "cni.dev/valid-attachments": [{containerID: "vm-pod-0123456789ab", ifname: "net1"}]}')
cni GC sriov pod net1 "$gc"
same "device in the pod" "$(link pod net1 .parentdev)" "$a"
cni GC sriov pod net1 "$(echo "$gc" | jq -c '."cni.dev/valid-attachments" = []')"
same "the VF" "$(seen "$pf1" "$pci1" 0)" "$before"
nothing_left

echo "--- DEL restores the VF after a killed ADD"
for point in $(seq 1 9); do
	printf '%s' "$full" >/tmp/conf
	CNI_COMMAND=ADD CNI_CONTAINERID=vm-pod-0123456789ab CNI_NETNS=/run/netns/pod CNI_IFNAME=net1 CNI_PATH=/plugins \
		/plugins/sriov </tmp/conf >/dev/null &
	victim=$!
	sleep "0.$((point * 7))"
	kill -9 $victim 2>/dev/null || true
	wait $victim || true
	delete sriov pod net1 "$full"
	same "the VF" "$(seen "$pf1" "$pci1" 0)" "$before"
	nothing_left
done

echo "--- DEL succeeds after VFs were destroyed or recreated while a pod had them"
add sriov pod net1 "$full"
echo 0 >"/sys/bus/pci/devices/$pci1/sriov_numvfs"
delete sriov pod net1 "$full"
nothing_left
make_vfs "$pci1" 2
add sriov pod net1 "$full"
echo 0 >"/sys/bus/pci/devices/$pci1/sriov_numvfs"
make_vfs "$pci1" 2
new=$(seen "$pf1" "$pci1" 0)
delete sriov pod net1 "$full"
same "the recreated VF" "$(seen "$pf1" "$pci1" 0)" "$new"
nothing_left
add sriov pod net1 "$full"
delete sriov pod net1 "$full"
same "the recreated VF" "$(seen "$pf1" "$pci1" 0)" "$new"
nothing_left
status=$(cni STATUS sriov pod net1 '{"cniVersion": "1.1.0", "name": "rail0", "type": "sriov"}') || fail "STATUS failed: $status"
echo 0 >"/sys/bus/pci/devices/$pci1/sriov_numvfs"
echo 0 >"/sys/bus/pci/devices/$pci2/sriov_numvfs"
! status=$(cni STATUS sriov pod net1 '{"cniVersion": "1.1.0", "name": "rail0", "type": "sriov"}') ||
	fail "STATUS succeeded on a node without VFs"
echo "$status" | grep -q 'the node has no VF' || fail "the error of STATUS does not report that the node has no VF: $status"
