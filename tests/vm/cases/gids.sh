#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# GID indexes of rails: the result and the pod's file have the index that the device has; DEL removes the pod's files.
# shellcheck source=tests/vm/lib.sh
. /tests/lib.sh

for i in 0 1; do
	ip link add rail$i type veth peer name sw$i
	ip link set rail$i up
	ip link set sw$i up
	rdma link add rxe$i type rxe netdev rail$i
done
ip netns add pod
ip netns add other

# is_right RESULT IFNAME DEVICE ADDRESS: the result must have, for IFNAME, the index of the RoCE v2 GID of ADDRESS on DEVICE
is_right() {
	told=$(echo "$1" | jq -c --arg ifname "$2" '.interfaces[] | select(.name == $ifname) | .rdma')
	echo "$2: $told"
	same "device" "$(echo "$told" | jq -r .device)" "$3"
	same "GID" "$(echo "$told" | jq -r .gid)" "::ffff:$4"
	index=$(echo "$told" | jq -r .gidIndex)
	port=/sys/class/infiniband/$3/ports/1
	same "the device's GID" "$(cat "$port/gids/$index")" \
		"$(echo "$4" | awk -F. '{ printf "0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x", $1, $2, $3, $4 }')"
	same "type of the device's GID" "$(cat "$port/gid_attrs/types/$index")" "RoCE v2"
	same "netdev of the device's GID" "$(cat "$port/gid_attrs/ndevs/$index")" "$2"
}

# rail NUMBER MAIN-JSON: prints a network of unirail-cni
rail() {
	jq -nc --argjson i "$1" --argjson main "$2" '{name: "rail\($i)", ifname: "net\($i)", plugins: [$main + {ipam: {type: "static",
		addresses: [{address: "172.16.\($i).20/24"}]}}]}'
}

# alone MASTER TYPE ADDRESS: prints the configuration of the single plugin TYPE on MASTER with the static ADDRESS
alone() {
	jq -nc --arg m "$1" --arg t "$2" --arg a "$3" '{cniVersion: "1.0.0", name: "n-\($t)", type: $t, master: $m, ipam: {type: "static",
		addresses: [{address: $a}]}} + (if $t == "vlan" then {vlanId: 5} else {} end)'
}

echo "--- single plugins, two pods: result and file of a pod have the GID indexes of its own rails"
files=/run/unirail/pods/uid-pod
one=$(alone rail0 macvlan 172.16.1.20/24)
two=$(alone rail1 vlan 172.16.2.20/24)
three=$(alone rail1 ipvlan 172.16.2.21/24)
add macvlan pod net1 "$one"
is_right "$result" net1 rxe0 172.16.1.20
first=$index
check macvlan pod net1 "$one"
cat $files/rails.env
same "NCCL's index" "$(sed -n 's/^NCCL_IB_GID_INDEX=//p' $files/rails.env)" "$first"
add vlan pod net2 "$two"
is_right "$result" net2 rxe1 172.16.2.20
add ipvlan other net1 "$three"
is_right "$result" net1 rxe1 172.16.2.21
same "rails of the file" "$(jq -c '[.version, (.rails | map([.ifname, .device, .network]))]' $files/rails.json)" \
	'[1,[["net1","rxe0","n-macvlan"],["net2","rxe1","n-vlan"]]]'
same "modes of the pod's files" "$(stat -c %a $files $files/rails.json $files/rails.env | tr '\n' ' ')" "755 644 644 "
. $files/rails.env
# shellcheck disable=SC2154 # rails.env sets them
same "variables of rails.env" "$NCCL_IB_HCA $UNIRAIL_GID_INDEX_net1" "=rxe0:1,rxe1:1 $first"
delete vlan pod net2 "$two"
same "rails of the file" "$(jq -c '.rails | map(.ifname)' $files/rails.json)" '["net1"]'
delete macvlan pod net1 "$one"
[ ! -e $files ] || fail "the files of the pod exist after DEL"
[ -e /run/unirail/pods/uid-other/rails.json ] || fail "DEL removed the files of another pod"
printf '%s' "$three" | jq -c '.cniVersion = "1.1.0" | . + {"cni.dev/valid-attachments": []}' |
	env CNI_COMMAND=GC CNI_PATH=/plugins /plugins/ipvlan || fail "GC of ipvlan failed"
[ ! -e /run/unirail/pods/uid-other ] || fail "GC left the files of a pod that the runtime does not list"
delete ipvlan other net1 "$three"

echo "--- unirail-cni: the result has GID indexes except for a rail without RDMA"
conf=$(jq -nc --argjson a "$(rail 1 '{"type": "macvlan", "master": "rail0"}')" \
	--argjson b "$(rail 2 '{"type": "macvlan", "master": "rail1"}')" --argjson c "$(rail 3 '{"type": "macvlan", "master": "eth0"}')" \
	'{cniVersion: "1.1.0", name: "rails", type: "unirail-cni", networks: [$a, $b, $c]}')
ip link set eth0 up
add unirail-cni pod net1 "$conf"
is_right "$result" net1 rxe0 172.16.1.20
is_right "$result" net2 rxe1 172.16.2.20
same "RDMA of net3 in the result" "$(echo "$result" | jq -c '.interfaces[] | select(.name == "net3") | .rdma')" null
same "rails of the file" "$(jq -c '.rails | map(.ifname)' $files/rails.json)" '["net1","net2"]'
check unirail-cni pod net1 "$conf"
delete unirail-cni pod net1 "$conf"
[ ! -e $files ] || fail "the files of the pod exist after DEL"
ip link set eth0 down
for i in 0 1; do
	rdma link del rxe$i
	ip link del rail$i
done

echo "--- a VF in shared and in exclusive mode: the result has the GID of its RDMA device"
insmod /lib/fakeib.ko roce=1
pf=$(nth_igb 1)
ip link set "$(ls "/sys/bus/pci/devices/$pf/net")" up
echo 1 >"/sys/bus/pci/devices/$pf/sriov_numvfs"
vf=$(basename "$(readlink -f "/sys/bus/pci/devices/$pf/virtfn0")")
has_rdma() {
	[ -n "$(ls "/sys/bus/pci/devices/$vf/infiniband" 2>/dev/null)" ]
}
until_true has_rdma
dev=$(ls "/sys/bus/pci/devices/$vf/infiniband")
conf=$(jq -nc --arg vf "$vf" '{cniVersion: "1.0.0", name: "hd", type: "host-device", pciBusID: $vf,
	ipam: {type: "static", addresses: [{address: "172.16.5.20/24"}]}}')
add host-device pod net1 "$conf"
is_right "$result" net1 "$dev" 172.16.5.20
delete host-device pod net1 "$conf"
ip netns del pod
ip netns del other
exclusive() {
	rdma system set netns exclusive
}
until_true exclusive
ip netns add pod
conf=$(jq -nc --arg vf "$vf" '{cniVersion: "1.0.0", name: "rails", type: "unirail-cni", networks: [
	{name: "rail0", ifname: "net1", plugins: [{type: "host-device", pciBusID: $vf,
	ipam: {type: "static", addresses: [{address: "172.16.5.20/24"}]}}, {type: "rdma", deviceID: $vf}]}]}')
add unirail-cni pod net1 "$conf"
same "GID" "$(echo "$result" | jq -r '.interfaces[0].rdma.gid')" "::ffff:172.16.5.20"
same "device" "$(echo "$result" | jq -r '.interfaces[0].rdma.device')" "$dev"
[ -z "$(ls "/sys/bus/pci/devices/$vf/infiniband" 2>/dev/null)" ] || fail "the RDMA device is still on the node"
delete unirail-cni pod net1 "$conf"
alone=$(echo "$conf" | jq -c 'del(.networks[0].plugins[1])')
add unirail-cni pod net1 "$alone" 2>/tmp/said
grep "the RDMA device stays on the node" /tmp/said | grep -q "no plugin 'rdma' later in the chain" ||
	fail "ADD did not warn of an RDMA device that stays on the node: $(cat /tmp/said)"
delete unirail-cni pod net1 "$alone"

echo "--- exclusive mode without plugin rdma: ADD, STATUS and doctor warn that the pod has no RDMA"
pf_nic=$(ls "/sys/bus/pci/devices/$pf/net")
conf=$(jq -nc --arg nic "$pf_nic" '{cniVersion: "1.1.0", name: "m", type: "macvlan", master: $nic,
	ipam: {type: "static", addresses: [{address: "172.16.5.20/24"}]}}')
warned() {
	grep "no RDMA for the pod: the RDMA device stays on the node" /tmp/said | grep -q 'rdma system set netns shared' ||
		fail "$1 did not warn that the pod has no RDMA: $(cat /tmp/said)"
}
add macvlan pod net1 "$conf" 2>/tmp/said
warned ADD
same "RDMA in the result" "$(echo "$result" | jq -c '.interfaces[0].rdma')" null
delete macvlan pod net1 "$conf"
cni STATUS macvlan pod net1 "$conf" 2>/tmp/said || fail "STATUS of macvlan failed"
warned STATUS
mkdir -p /etc/cni/net.d
echo "$conf" >/etc/cni/net.d/10-m.conf
unirail doctor | grep -q 'which exclusive mode hides from pods' ||
	fail "doctor did not report that exclusive mode hides the RDMA device from pods"
rm -r /etc/cni/net.d
ip netns del pod
shared() {
	rdma system set netns shared
}
until_true shared
until_true has_rdma
ip netns add pod
add macvlan pod net1 "$conf" 2>/tmp/said
! grep "no RDMA" /tmp/said || fail "ADD warned of missing RDMA in shared mode"
delete macvlan pod net1 "$conf"
ip netns del pod
rmmod fakeib
echo 0 >"/sys/bus/pci/devices/$pf/sriov_numvfs"
ip link set "$(ls "/sys/bus/pci/devices/$pf/net")" down
