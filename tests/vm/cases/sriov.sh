#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sriov moves virtual functions of two igb ports into pods and restores them with their former settings.
# shellcheck source=tests/vm/lib.sh
. /tests/lib.sh
# shellcheck source=tests/vm/lib_sriov.sh
. /tests/lib_sriov.sh

echo "--- a VF without requested attributes is moved into the pod and restored"
before=$(seen "$pf1" "$pci1" 0)
add sriov pod net1 "$plain"
same "address" "$(addresses pod net1)" 172.16.1.20/24
same "device in the pod" "$(link pod net1 .parentdev)" "$a"
same "MAC of the result" "$(echo "$result" | jq -r '.interfaces[0].mac')" "$(link pod net1 .address)"
same "MTU of the result" "$(echo "$result" | jq -r '.interfaces[0].mtu')" 1500
same "record files" "$(files)" "./pci/$a ./vm-pod-0123456789ab-net1 "
same "record" "$(jq -r '.OrigVfState.HostIFName' $records/vm-pod-0123456789ab-net1)" "$nic"
same "owner" "$(cat "$records/pci/$a")" /run/netns/pod
check sriov pod net1 "$plain"
delete sriov pod net1 "$plain"
same "the VF" "$(seen "$pf1" "$pci1" 0)" "$before"
nothing_left
delete sriov pod net1 "$plain"

echo "--- every attribute that igb supports, alias and alternative names are set and restored"
ip link set "$nic" alias "uplink one"
ip link property add dev "$nic" altname net1
ip link property add dev "$nic" altname enp1s0v0
ip link set "$nic" mtu 1400
before=$(seen "$pf1" "$pci1" 0)
add sriov pod net1 "$full"
of_vf "$pf1" 0 ''
same "vlan" "$(of_vf "$pf1" 0 .vlan_list[0].vlan)" 7
same "qos" "$(of_vf "$pf1" 0 .vlan_list[0].qos)" 3
same "mac" "$(of_vf "$pf1" 0 .address)" 02:00:00:00:07:01
same "rate" "$(of_vf "$pf1" 0 .rate.max_tx)" 100
same "spoofchk" "$(of_vf "$pf1" 0 .spoofchk)" false
same "trust" "$(of_vf "$pf1" 0 .trust)" true
same "MAC in the pod" "$(link pod net1 .address)" 02:00:00:00:07:01
same "MTU in the pod" "$(link pod net1 .mtu)" 1450
check sriov pod net1 "$full"
ip link set "$pf1" vf 0 vlan 8
! said=$(cni CHECK sriov pod net1 "$whole") || fail "CHECK succeeded with another VLAN"
echo "$said" | grep -q 'conf.vlan' || fail "the error of CHECK does not name conf.vlan: $said"
ip link set "$pf1" vf 0 vlan 7 qos 3
delete sriov pod net1 "$full"
same "the VF" "$(seen "$pf1" "$pci1" 0)" "$before"
nothing_left

echo "--- an ADD that fails at an attribute or at its input restores the VF"
refused 'SRIOV-CNI failed to configure VF' sriov pod net1 "$(conf "$a" '{"vlan": 9, "mac": "02:00:00:00:07:01", "trust": "on",
	"link_state": "enable"}' 172.16.1.20/24)"
refused 'invalid MTU 9000, must be [0, PF MTU(1500)]' sriov pod net1 "$(conf "$a" '{"mtu": 9000}' 172.16.1.20/24)"
refused 'is not a VF' sriov pod net1 "$(conf "$pci1" '{}' 172.16.1.20/24)"
refused 'does not exist' sriov pod net1 "$(conf 0000:7f:00.0 '{}' 172.16.1.20/24)"

refused "more than the link's rate" sriov pod net1 "$(conf "$a" '{"max_tx_rate": 2000000}' 172.16.1.20/24)"
driven=$(basename "$(readlink -f "/sys/bus/pci/devices/$b/driver")")
echo "$b" >"/sys/bus/pci/drivers/$driven/unbind"
refused "its driver is 'none'" sriov pod net1 "$(conf "$b" '{}' 172.16.1.20/24)"
echo "$b" >"/sys/bus/pci/drivers/$driven/bind"
until_true netdev "$b"

echo "--- a VF with vfio-pci gets attributes and addresses, and is restored"
insmod /lib/fakeib.ko vfio=1
rebind "$b" vfio-pci
same "driver" "$(basename "$(readlink -f "/sys/bus/pci/devices/$b/driver")")" vfio-pci
was=$(of_vf "$pf1" 1 '')
dpdk=$(conf "$b" '{"vlan": 9, "vlanQoS": 2, "mac": "02:00:00:00:07:05", "max_tx_rate": 100, "spoofchk": "off", "trust": "on"}' 172.16.1.20/24)
add sriov pod net1 "$dpdk"
same "links" "$(links pod)" lo
same "result" "$(echo "$result" | jq -c '[.interfaces[0].mac, .ips[0].address]')" '["02:00:00:00:07:05","172.16.1.20/24"]'
same "attributes" "$(of_vf "$pf1" 1 '' | jq -c '[.vlan_list[0].vlan, .address, .rate.max_tx, .spoofchk, .trust]')" \
	'[9,"02:00:00:00:07:05",100,false,true]'
check sriov pod net1 "$dpdk"
cni ADD sriov pod2 net1 "$dpdk" | grep -q "already allocated.*'team/pod'" || fail "ADD of a VF in use did not fail with the name of its pod"
delete sriov pod net1 "$dpdk"
# If no MAC was set through the PF before ADD, PF and VF have after DEL the MAC that the VF's driver chooses when it binds next.
same "attributes" "$(of_vf "$pf1" 1 '' | jq -c 'del(.address)')" "$(echo "$was" | jq -c 'del(.address)')"
[ "$(of_vf "$pf1" 1 .address)" != 02:00:00:00:07:05 ] || fail "the VF has the MAC of the pod after DEL"
nothing_left
rebind "$b"
until_true netdev "$b"
rmmod fakeib

echo "--- a VF in use is refused for a second pod"
add sriov pod net1 "$full"
! said=$(cni ADD sriov pod2 net1 "$full") || fail "ADD of a VF in use succeeded"
echo "$said" | grep -q "pci address $a is already allocated.*pod 'team/pod'" || fail "the error does not name the VF's pod: $said"
same "error code" "$(echo "$said" | jq .code)" 11
delete sriov pod2 net1 "$full"
same "MAC in the pod" "$(link pod net1 .address)" 02:00:00:00:07:01
check sriov pod net1 "$full"
delete sriov pod net1 "$full"
same "the VF" "$(seen "$pf1" "$pci1" 0)" "$before"

echo "--- two pods get their VFs concurrently"
one=$(conf "$a" '{"vlan": 7}' 172.16.1.20/24)
two=$(conf "$b" '{"vlan": 8}' 172.16.1.21/24)
(cni ADD sriov pod net1 "$one" >/tmp/one) &
(cni ADD sriov pod2 net1 "$two" >/tmp/two) &
wait
same "device in the first pod" "$(link pod net1 .parentdev)" "$a"
same "device in the second pod" "$(link pod2 net1 .parentdev)" "$b"
same "vlans" "$(of_vf "$pf1" 0 .vlan_list[0].vlan) $(of_vf "$pf1" 1 .vlan_list[0].vlan)" "7 8"
(cni DEL sriov pod net1 "$one") &
(cni DEL sriov pod2 net1 "$two") &
wait
same "the VF" "$(seen "$pf1" "$pci1" 0)" "$before"
nothing_left

echo "--- a VF of a PF that is down is attached and restored"
ip link set "$pf1" down
add sriov pod net1 "$(conf "$a" '{"vlan": 7, "mac": "02:00:00:00:07:01"}' 172.16.1.20/24)"
delete sriov pod net1 "$plain"
same "the VF" "$(seen "$pf1" "$pci1" 0)" "$before"
ip link set "$pf1" up
until_true has_carrier "$pf1"

echo "--- DEL restores settings that tuning changed in the chain"
add sriov pod net1 "$full"
chained() {
	echo "$full" | jq -c --argjson prev "$result" --argjson more "$1" '{cniVersion, name, prevResult: $prev} + $more'
}
add tuning pod net1 "$(chained '{"type": "tuning", "mac": "02:00:00:00:07:02", "mtu": 1300}')"
same "MTU in the pod" "$(link pod net1 .mtu)" 1300
delete sriov pod net1 "$full"
same "the VF" "$(seen "$pf1" "$pci1" 0)" "$before"

echo "--- a pool is selected by the addresses of the PF"
mkdir -p /etc/unirail/pools
printf '[pool p]\nsubnet = 172.16.9.0/24\nips = 172.16.9.10-172.16.9.20\n' >/etc/unirail/pools/p.conf
pooled=$(conf "$a" '{"ipam": {"type": "spiderpool", "default_ipv4_ippool": ["p"], "match_master_subnet": true,
	"enable_gateway_detection": false, "enable_ip_conflict_detection": false}}' 172.16.1.20/24)
! said=$(cni ADD sriov pod net1 "$pooled") || fail "ADD succeeded although the PF has no address"
echo "$said" | grep -q "master .*$pf1.*no address" || fail "the error does not name the PF without address: $said"
same "the VF" "$(seen "$pf1" "$pci1" 0)" "$before"
ip address add 172.16.9.1/24 dev "$pf1"
add sriov pod net1 "$pooled"
same "address" "$(addresses pod net1)" 172.16.9.10/24
delete sriov pod net1 "$pooled"
ip address del 172.16.9.1/24 dev "$pf1"

echo "--- host-device moves a VF that deviceID names, and restores it"
moved=$(jq -nc --arg vf "$a" '{cniVersion: "1.0.0", name: "hd", type: "host-device", runtimeConfig: {deviceID: $vf}}')
add host-device pod net5 "$moved"
same "device in the pod" "$(link pod net5 .parentdev)" "$a"
delete host-device pod net5 "$moved"
nothing_left
same "the VF" "$(seen "$pf1" "$pci1" 0)" "$before"

echo "--- unirail-cni attaches four VFs of two PFs and restores them"
all=$(jq -nc --arg a "$a" --arg b "$b" --arg c "$c" --arg d "$(vf "$pci2" 1)" '
	def rail($i; $vf; $more): {name: "rail\($i)", ifname: "net\($i)", plugins: [{type: "sriov", deviceID: $vf,
		ipam: {type: "static", addresses: [{address: "172.16.\($i).20/24"}]}} + $more, {type: "tuning", sysctl: {}}]};
	{cniVersion: "1.1.0", name: "rails", type: "unirail-cni", networks: [
		rail(1; $b; {vlan: 7}), rail(2; $a; {mac: "02:00:00:00:07:01"}), rail(3; $c; {trust: "on"}), rail(4; $d; {mtu: 1400})]}')
before="$before $(seen "$pf1" "$pci1" 1) $(seen "$pf2" "$pci2" 0) $(seen "$pf2" "$pci2" 1)"
now_all() {
	echo "$(seen "$pf1" "$pci1" 0) $(seen "$pf1" "$pci1" 1) $(seen "$pf2" "$pci2" 0) $(seen "$pf2" "$pci2" 1)"
}
add unirail-cni pod net1 "$all"
same "links" "$(links pod)" "lo net1 net2 net3 net4"
for i in 1 2 3 4; do
	same "address" "$(addresses pod net$i)" 172.16.$i.20/24
done
check unirail-cni pod net1 "$all"
delete unirail-cni pod net1 "$all"
same "all VFs" "$(now_all)" "$before"
nothing_left
echo "--- a failing VF restores all VFs of the pod"
! said=$(cni ADD unirail-cni pod net1 "$(echo "$all" | jq -c '.networks[3].plugins[0].link_state = "enable"')") ||
	fail "ADD succeeded with an attribute that igb does not support"
echo "$said" | grep -q "rail 'net4'" || fail "the error does not name rail net4: $said"
same "all VFs" "$(now_all)" "$before"
same "links" "$(links pod)" lo
nothing_left

echo "--- coordinator in the chain works on a VF that is the pod's first interface"
add sriov pod eth0 "$full"
co=$(chained '{"type": "coordinator", "mode": "underlay", "hijackCIDR": ["10.96.0.0/12"]}')
add coordinator pod eth0 "$co"
same "links" "$(links pod)" "eth0 lo veth0"
delete coordinator pod eth0 "$co"
delete sriov pod eth0 "$full"
same "all VFs" "$(now_all)" "$before"
nothing_left
echo 0 >"/sys/bus/pci/devices/$pci1/sriov_numvfs"
echo 0 >"/sys/bus/pci/devices/$pci2/sriov_numvfs"
