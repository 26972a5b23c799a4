#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The rdma plugin: a virtual function's RDMA device is moved into the pod and restored, also after failures in between.
# shellcheck source=tests/vm/lib.sh
. /tests/lib.sh

state_dir=/var/lib/cni/rdma
rdma system set netns exclusive
insmod /lib/fakeib.ko roce=1
pf=$(nth_igb 1)
echo 1 >"/sys/bus/pci/devices/$pf/sriov_numvfs"
vf=$(basename "$(readlink -f "/sys/bus/pci/devices/$pf/virtfn0")")
has_rdma() {
	[ -n "$(ls "/sys/bus/pci/devices/$vf/infiniband" 2>/dev/null)" ]
}
until_true has_rdma
dev=$(ls "/sys/bus/pci/devices/$vf/infiniband")
echo "PF $pf, VF $vf, RDMA device $dev"

# where NS: prints the RDMA devices of a namespace ("": of the node)
where() {
	${1:+ip netns exec "$1"} rdma -j dev | jq -r '[.[].ifname] | sort | join(" ")'
}

all=$(where "")
home() {
	[ "$(where "")" = "$all" ]
}
is_over() {
	same "RDMA devices on the node" "$(where "")" "$all"
	same "state files" "$(ls $state_dir)" ""
}

# conf JSON: prints the configuration of the rdma plugin, which follows a plugin that created net1
conf() {
	jq -nc --argjson more "$1" '{cniVersion: "1.0.0", name: "net", type: "rdma", prevResult: {cniVersion: "1.0.0",
		interfaces: [{name: "net1", sandbox: "/run/netns/pod", mac: "02:00:00:00:00:77"}]}} + $more'
}

# without_netns COMMAND CONF: calls the rdma plugin with an empty CNI_NETNS
without_netns() {
	printf '%s' "$2" | env CNI_COMMAND="$1" CNI_CONTAINERID=vm-pod-0123456789ab CNI_NETNS="" CNI_IFNAME=net1 \
		CNI_PATH=/plugins /plugins/rdma || fail "$1 without CNI_NETNS failed"
}

ip netns add pod
plain=$(conf '{"deviceID": "'"$vf"'"}')
echo "--- the RDMA device is moved into the pod by ADD and restored by DEL"
add rdma pod net1 "$plain"
same "interfaces of the result" "$(echo "$result" | jq -c '.interfaces | map(.name)')" '["net1"]'
same "RDMA devices of the pod" "$(where pod)" "$dev"
echo "$(where "") " | grep -qv "$dev " || fail "$dev is still on the node"
cat $state_dir/*
same "content of the state file" \
	"$(jq -c '[.version, .deviceID, .sandboxRdmaDevName, .containerRdmaDevName]' $state_dir/net-vm-pod-0123456789ab-net1)" \
	'["1.0","'"$vf"'","'"$dev"'","'"$dev"'"]'
same "mode of the state file" "$(stat -c %a $state_dir/net-vm-pod-0123456789ab-net1)" 600
check rdma pod net1 "$plain"
! cni ADD rdma pod net2 "$plain" || fail "ADD of a device in use succeeded"
cni ADD rdma pod net2 "$plain" | grep -q "'$dev' is in another network namespace.*container 'vm-pod-0123456789ab', interface 'net1'" ||
	fail "the error does not name the device's container"
delete rdma pod net1 "$plain"
is_over
delete rdma pod net1 "$plain"
! cni CHECK rdma pod net1 "$plain" || fail "CHECK succeeded without the RDMA device"

echo "--- DEL restores a device that was renamed in the pod"
add rdma pod net1 "$plain"
ip netns exec pod rdma dev set "$dev" name inside
check rdma pod net1 "$plain"
delete rdma pod net1 "$plain"
is_over

echo "--- DEL restores the device after the namespace was deleted"
add rdma pod net1 "$plain"
ip netns exec pod rdma dev set "$dev" name inside
ip netns del pod
delete rdma pod net1 "$plain"
is_over
ip netns add pod

echo "--- DEL without CNI_NETNS restores the device"
add rdma pod net1 "$plain"
without_netns DEL "$plain"
is_over
same "RDMA devices of the pod" "$(where pod)" ""

echo "--- DEL without a state file restores the device, with deviceID and without"
add rdma pod net1 "$plain"
rm $state_dir/*
delete rdma pod net1 "$plain"
is_over
add host-device pod net1 '{"cniVersion": "1.0.0", "name": "net", "type": "host-device", "pciBusID": "'"$vf"'"}'
add rdma pod net1 "$plain"
rm $state_dir/*
delete rdma pod net1 "$(conf '{}')"
is_over
cni DEL host-device pod net1 '{"cniVersion": "1.0.0", "name": "net", "type": "host-device", "pciBusID": "'"$vf"'"}'

echo "--- DEL restores the device with a state file of the original"
add rdma pod net1 "$plain"
printf '{"version":"1.0","deviceID":"%s","sandboxRdmaDevName":"%s","containerRdmaDevName":"%s"}' "$vf" "$dev" "$dev" \
	>$state_dir/net-vm-pod-0123456789ab-net1
delete rdma pod net1 "$plain"
is_over

echo "--- without deviceID the VF is found by its administrative MAC"
pf_nic=$(ls "/sys/bus/pci/devices/$pf/net")
ip link set "$pf_nic" vf 0 mac 02:00:00:00:00:77
add rdma pod net1 "$(conf '{}')"
same "RDMA devices of the pod" "$(where pod)" "$dev"
delete rdma pod net1 "$(conf '{}')"
is_over
other=$(conf '{}' | sed 's/:77"/:78"/')
cni ADD rdma pod net1 "$other" | grep -q 'could not find VF PCI device' || fail "ADD with the MAC of no VF did not fail"
is_over

echo "--- GC restores devices of unlisted pods only"
add rdma pod net1 "$plain"
valid='{"cniVersion": "1.1.0", "name": "net", "type": "rdma", "deviceID": "'"$vf"'", "cni.dev/valid-attachments": '
printf '%s' "${valid}[{\"containerID\": \"vm-pod-0123456789ab\", \"ifname\": \"net1\"}]}" |
	env CNI_COMMAND=GC CNI_PATH=/plugins /plugins/rdma
same "RDMA devices of the pod" "$(where pod)" "$dev"
ip netns exec pod rdma dev set "$dev" name inside
printf '%s' "${valid}[]}" | env CNI_COMMAND=GC CNI_PATH=/plugins /plugins/rdma
is_over

echo "--- DEL succeeds with a state file of a device that was not moved"
add rdma pod net1 "$plain"
cp $state_dir/net-vm-pod-0123456789ab-net1 /tmp/state
delete rdma pod net1 "$plain"
mv /tmp/state $state_dir/net-vm-pod-0123456789ab-net1
delete rdma pod net1 "$plain"
is_over

echo "--- DEL restores the device after an ADD killed before or during the move"
printf '%s' "$plain" >/tmp/conf
for _ in 1 2 3; do
	env CNI_COMMAND=ADD CNI_CONTAINERID=vm-pod-0123456789ab CNI_NETNS=/run/netns/pod CNI_IFNAME=net1 \
		CNI_PATH=/plugins /plugins/rdma </tmp/conf >/dev/null &
	while [ ! -e $state_dir/net-vm-pod-0123456789ab-net1 ]; do :; done
	kill -9 $!
	wait $! || true
	echo "killed: node '$(where "")', pod '$(where pod)', state '$(ls $state_dir)'"
	delete rdma pod net1 "$plain"
	until_true home
	is_over
done

echo "--- unirail-cni moves the device, and restores it if a later plugin fails"
one() {
	jq -nc --arg vf "$vf" --argjson last "$1" '{cniVersion: "1.0.0", name: "rails", type: "unirail-cni", networks: [
		{name: "rail0", ifname: "net1", plugins: ([{type: "host-device", pciBusID: $vf,
		ipam: {type: "static", addresses: [{address: "172.16.1.20/24"}]}}, {type: "rdma", deviceID: $vf}] + $last)}]}'
}
add unirail-cni pod net1 "$(one '[]')"
same "RDMA devices of the pod" "$(where pod)" "$dev"
same "state files" "$(ls $state_dir)" rail0-vm-pod-0123456789ab-net1
ip netns exec pod rdma -j link
check unirail-cni pod net1 "$(one '[]')"
delete unirail-cni pod net1 "$(one '[]')"
is_over
same "links of the pod" "$(links pod)" lo
! cni ADD unirail-cni pod net1 "$(one '[{"type": "tuning", "mtu": 99999}]')" || fail "ADD with an invalid MTU succeeded"
is_over

echo "--- STATUS reports the mode, and invalid input is refused"
status() {
	printf '%s' "$1" | env CNI_COMMAND=STATUS CNI_PATH=/plugins /plugins/rdma
}
status '{"cniVersion": "1.1.0", "name": "net", "type": "rdma"}' || fail "STATUS failed in exclusive mode"
twice=$(ls "/sys/bus/pci/devices/$vf/net")
rdma link add second type fakeib netdev "$twice"
cni ADD rdma pod net1 "$plain" | grep -q 'more than one RDMA device \['"$dev"' second\]' ||
	fail "ADD of a VF with two RDMA devices did not name both"
rdma link del second
virtio=$(basename "$(readlink -f /sys/class/net/eth0/device/..)")
cni ADD rdma pod net1 "$(conf '{"deviceID": "'"$virtio"'"}')" | grep -q 'no RDMA devices found' ||
	fail "ADD of a PCI device without RDMA did not report that"
cni ADD rdma pod net1 "$(conf '{"deviceID": "0000:ff:1f.7"}')" | grep -q 'does not exist' ||
	fail "ADD of a PCI device that does not exist did not report that"
is_over
ip netns del pod
ns_is_removed() {
	rdma system set netns shared
}
until_true ns_is_removed
ip netns add pod
! status '{"cniVersion": "1.1.0", "name": "net", "type": "rdma"}' || fail "STATUS succeeded in shared mode"
cni ADD rdma pod net1 "$plain" | grep -q 'rdma system set netns exclusive' || fail "ADD in shared mode did not name the remedy"
delete rdma pod net1 "$plain"
same "state files" "$(ls $state_dir)" ""
ip netns del pod
rmmod fakeib
echo 0 >"/sys/bus/pci/devices/$pf/sriov_numvfs"
