#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# ib-sriov moves virtual functions of an HCA into two pods and restores them, with GUIDs and traffic, also after a failed or killed ADD.
# shellcheck source=tests/vm/lib.sh
. /tests/lib.sh

state_dir=/var/lib/cni/ib-sriov
rdma system set netns exclusive
hcas_on 0
pf=$(for path in /sys/bus/pci/drivers/fakeib/0000:*; do echo "${path##*/}"; done | head -n 1)
pf_nic=$(ls "/sys/bus/pci/devices/$pf/net")
ip link set "$pf_nic" up
echo 2 >"/sys/bus/pci/devices/$pf/sriov_numvfs"
vf=$(basename "$(readlink -f "/sys/bus/pci/devices/$pf/virtfn0")")
vf2=$(basename "$(readlink -f "/sys/bus/pci/devices/$pf/virtfn1")")
there() {
	[ -n "$(ls "/sys/bus/pci/devices/$vf/net" 2>/dev/null)" ] && [ -n "$(ls "/sys/bus/pci/devices/$vf2/net" 2>/dev/null)" ]
}
until_true there
nic=$(ls "/sys/bus/pci/devices/$vf/net")
dev=$(ls "/sys/bus/pci/devices/$vf/infiniband")
echo "PF $pf $pf_nic, VFs $vf $vf2, $nic $dev"
all=$(rdma -j dev | jq -r '[.[].ifname] | sort | join(" ")')

on_pf() {
	ip -d link show "$pf_nic" | sed -n "s/.*vf $1 .*PORT_GUID \([0-9a-f:]*\),.*/\1/p"
}
state_of() {
	ip -d link show "$pf_nic" | sed -n "s/.*vf $1 .*link-state \([a-z]*\),.*/\1/p"
}

# conf VF ADDRESS JSON: prints a configuration of ib-sriov with the members of JSON
conf() {
	jq -nc --arg vf "$1" --arg address "$2" --argjson more "$3" '{cniVersion: "1.0.0", name: "ib", type: "ib-sriov",
		deviceID: $vf, ipam: {type: "static", addresses: [{address: $address}]}} + $more'
}

# is_over GUID: after DEL, all RDMA devices and the VF's interface must be on the node under their names, the PF must report GUID and link
# state auto for the VF, and no alias or record may be left
is_over() {
	same "RDMA devices on the node" "$(rdma -j dev | jq -r '[.[].ifname] | sort | join(" ")')" "$all"
	same "netdev of the VF" "$(ls "/sys/bus/pci/devices/$vf/net")" "$nic"
	same "RDMA device of the VF" "$(ls "/sys/bus/pci/devices/$vf/infiniband")" "$dev"
	same "GUID of the VF" "$(on_pf 0)" "$1"
	same "link state of the VF" "$(state_of 0)" auto
	same "alias of the VF" "$(ip -j link show "$nic" | jq -r '.[0].ifalias // ""')" ""
	same "record files" "$(ls $state_dir)" ""
}
none=ff:ff:ff:ff:ff:ff:ff:ff
pings() {
	ip netns exec "$1" ping -c 1 -W 1 "$2" >/dev/null
}
ip netns add pod
ip netns add other

echo "--- requested GUIDs are set, each pod has its own RDMA device, and pods reach each other"
mine=$(conf "$vf" 172.16.1.20/24 '{"rdmaIsolation": true, "link_state": "enable", "pkey": "0x8001",
	"runtimeConfig": {"infinibandGUID": "02:00:00:00:00:00:00:01"}}')
theirs=$(conf "$vf2" 172.16.1.21/24 '{"args": {"cni": {"guid": "02:00:00:00:00:00:00:02"}}}')
add ib-sriov other net1 "$theirs"
add ib-sriov pod net1 "$mine"
echo "$result"
cat $state_dir/*pod*
same "GUID on the PF" "$(on_pf 0)" 02:00:00:00:00:00:00:01
same "link state" "$(state_of 0)" enable
link pod net1 .address | grep -q '02:00:00:00:00:00:00:01$' || fail "the hardware address of net1 does not have the requested GUID"
same "RDMA devices of the pod" "$(ip netns exec pod rdma -j dev | jq -r '[.[].ifname] | join(" ")')" "$dev"
same "RDMA devices of the other pod" "$(ip netns exec other rdma -j dev | jq -r '[.[].ifname] | join(" ")')" ""
same "RDMA device of the result" "$(echo "$result" | jq -r '.interfaces[0].rdma.device')" "$dev"
until_true pings pod 172.16.1.21
until_true pings other 172.16.1.20
check ib-sriov pod net1 "$mine"
cni ADD ib-sriov other net2 "$mine" | grep -q "already allocated.*'team/pod'" ||
	fail "ADD of a VF in use did not fail with the name of its pod"
delete ib-sriov other net1 "$theirs"
delete ib-sriov pod net1 "$mine"
is_over $none
delete ib-sriov pod net1 "$mine"
same "links of the pod" "$(links pod)" lo

echo "--- without a requested GUID the VF gets the same derived GUID each time, or one of the pool"
plain=$(conf "$vf" 172.16.1.20/24 '{}')
add ib-sriov pod net1 "$plain"
first=$(on_pf 0)
delete ib-sriov pod net1 "$plain"
is_over $none
add ib-sriov pod net1 "$plain"
same "GUID of the VF" "$(on_pf 0)" "$first"
delete ib-sriov pod net1 "$plain"
pool=$(conf "$vf" 172.16.1.20/24 '{"guidPool": "02:00:00:00:00:00:0a:00-02:00:00:00:00:00:0a:0f"}')
add ib-sriov pod net1 "$pool"
same "GUID of the VF" "$(on_pf 0)" 02:00:00:00:00:00:0a:00
delete ib-sriov pod net1 "$pool"
is_over $none

echo "--- DEL restores the VF after the namespace was deleted"
add ib-sriov pod net1 "$mine"
ip netns exec pod rdma dev set "$dev" name inside
ip netns del pod
delete ib-sriov pod net1 "$mine"
is_over $none
ip netns add pod

echo "--- DEL without CNI_NETNS restores the VF"
add ib-sriov pod net1 "$mine"
printf '%s' "$mine" | env CNI_COMMAND=DEL CNI_CONTAINERID=vm-pod-0123456789ab CNI_NETNS="" CNI_IFNAME=net1 CNI_PATH=/plugins \
	/plugins/ib-sriov || fail "DEL without CNI_NETNS failed"
is_over $none
same "links of the pod" "$(links pod)" lo

echo "--- DEL restores the VF without a record, and with a record of the original"
add ib-sriov pod net1 "$mine"
cp $state_dir/vm-pod-0123456789ab-net1 /tmp/record
rm $state_dir/*
delete ib-sriov pod net1 "$mine"
same "netdev of the VF" "$(ls "/sys/bus/pci/devices/$vf/net")" "$nic"
same "RDMA device of the VF" "$(ls "/sys/bus/pci/devices/$vf/infiniband")" "$dev"
jq -c 'del(.unirail)' /tmp/record >$state_dir/vm-pod-0123456789ab-net1
delete ib-sriov pod net1 "$mine"
is_over $none

echo "--- a failed ADD restores the VF"
! cni ADD ib-sriov pod net1 "$(echo "$mine" | jq -c '.ipam.addresses[0].address = "172.16.1.20/24" | .ipam.routes = [{"dst": "10.0.0.0/8", "gw": "192.0.2.1"}]')" ||
	fail "ADD with an unreachable gateway succeeded"
is_over $none
same "links of the pod" "$(links pod)" lo

echo "--- after a killed ADD the VF is restored by DEL, by the next ADD and by GC"
printf '%s' "$mine" >/tmp/conf
for _ in 1 2; do
	env CNI_COMMAND=ADD CNI_CONTAINERID=vm-pod-0123456789ab CNI_NETNS=/run/netns/pod CNI_IFNAME=net1 \
		CNI_PATH=/plugins /plugins/ib-sriov </tmp/conf >/dev/null &
	while [ ! -e $state_dir/vm-pod-0123456789ab-net1 ]; do :; done
	kill -9 $!
	wait $! || true
	echo "killed: GUID $(on_pf 0), node $(rdma -j dev | jq -c '[.[].ifname]'), pod $(links pod)"
	delete ib-sriov pod net1 "$mine"
	is_over $none
done
add ib-sriov pod net1 "$mine"
ip netns del pod
add ib-sriov other net1 "$(echo "$mine" | jq -c '.name = "later"')"
same "record files" "$(ls $state_dir)" vm-other-0123456789ab-net1
printf '%s' "$mine" | jq -c '.name = "later" | .cniVersion = "1.1.0" | . + {"cni.dev/valid-attachments": []}' |
	env CNI_COMMAND=GC CNI_PATH=/plugins /plugins/ib-sriov || fail "GC of ib-sriov failed"
is_over $none
ip netns add pod

echo "--- a VF attached by ib-sriov is refused by sriov and host-device, and the reverse"
ether=$(echo "$plain" | jq -c '.type = "sriov"')
add ib-sriov pod net1 "$mine"
cni ADD sriov other net1 "$ether" | grep -q "already allocated.*'team/pod'" ||
	fail "ADD of sriov did not fail with the name of the VF's pod"
cni ADD host-device other net1 "$(echo "$plain" | jq -c '.type = "host-device" | .runtimeConfig = {deviceID}')" |
	grep -q "already allocated.*'team/pod'" || fail "ADD of host-device did not fail with the name of the VF's pod"
delete sriov other net1 "$ether"
delete sriov pod net2 "$ether"
check ib-sriov pod net1 "$mine"
delete ib-sriov pod net1 "$mine"
is_over $none
add sriov pod net1 "$ether"
cni ADD ib-sriov other net1 "$mine" | grep -q "already allocated.*'team/pod'" ||
	fail "ADD of ib-sriov did not fail with the name of the VF's pod"
delete ib-sriov other net1 "$mine"
delete ib-sriov pod net2 "$mine"
check sriov pod net1 "$ether"
delete sriov pod net1 "$ether"
is_over $none
echo "--- a VF of a deleted pod is restored by the next ADD, by ib-sriov or by sriov"
add ib-sriov pod net1 "$mine"
ip netns del pod
add sriov other net1 "$ether"
same "GUID on the PF after the pod was deleted" "$(on_pf 0)" $none
same "record files" "$(ls $state_dir)" ""
ip netns del other
ip netns add pod
add ib-sriov pod net1 "$mine"
same "records of sriov" "$(find /var/lib/cni/sriov -type f ! -name '*.lock')" ""
delete ib-sriov pod net1 "$mine"
is_over $none
ip netns add other

echo "--- DEL removes the MTU and the alternative names that the pod set"
add ib-sriov pod net1 "$plain"
ip -n pod link set net1 mtu 1900
ip -n pod link property add dev net1 altname of-the-pod
delete ib-sriov pod net1 "$plain"
is_over $none
# The VF has the MTU of the fabric, which it gets when the link joins the broadcast group.
[ "$(cat "/sys/class/net/$nic/mtu")" -ge 2044 ] || fail "the VF has the MTU of the pod after DEL"
same "alternative names" "$(ip -j link show "$nic" | jq -r '[.[0].altnames // [] | .[] | select(. == "of-the-pod")] | length')" 0

echo "--- the GUID of a VF with vfio-pci is set and restored through its PF"
ip link set "$pf_nic" vf 1 node_guid 02:00:00:00:00:00:00:66
ip link set "$pf_nic" vf 1 port_guid 02:00:00:00:00:00:00:66
rebind "$vf2" vfio-pci
dpdk=$(conf "$vf2" 172.16.1.21/24 '{"runtimeConfig": {"infinibandGUID": "02:00:00:00:00:00:00:07"}, "link_state": "disable"}')
add ib-sriov other net1 "$dpdk"
same "GUID on the PF" "$(on_pf 1)" 02:00:00:00:00:00:00:07
same "link state" "$(state_of 1)" disable
same "links of the pod" "$(links other)" lo
same "address" "$(echo "$result" | jq -r '.ips[0].address')" 172.16.1.21/24
check ib-sriov other net1 "$dpdk"
cni ADD ib-sriov pod net1 "$dpdk" | grep -q "already allocated.*'team/other'" ||
	fail "ADD of a VF in use did not fail with the name of its pod"
delete ib-sriov other net1 "$dpdk"
same "GUID on the PF" "$(on_pf 1)" 02:00:00:00:00:00:00:66
same "link state" "$(state_of 1)" auto
rebind "$vf2"
until_true there
is_over $none

echo "--- invalid input is refused and changes nothing"
# refused MESSAGE JSON: ADD with the members of JSON must fail with MESSAGE and change nothing
refused() {
	said=$(cni ADD ib-sriov pod net1 "$(conf "$vf" 172.16.1.20/24 "$2")") && fail "ADD succeeded, expected an error: $2"
	echo "$said" | grep -q "$1" || fail "the error does not contain '$1': $said"
	is_over $none
}
refused 'invalid guid 00:00:00:00:00:00:00:00' '{"args": {"cni": {"guid": "00:00:00:00:00:00:00:00"}}}'
refused 'deviceID is required' '{"deviceID": ""}'
refused "PF device $pf requires vfioPciMode" '{"deviceID": "'"$pf"'"}'
refused 'not bound to vfio-pci' '{"vfioPciMode": true}'
pools='{"ipam": {"type": "spiderpool", "default_ipv4_ippool": ["p"], "match_master_subnet": true}}'
mkdir -p /etc/unirail/pools
printf '[pool p]\nsubnet = 172.16.9.0/24\nips = 172.16.9.10-172.16.9.20\n' >/etc/unirail/pools/p.conf
refused "master .*$pf_nic.*no address" "$pools"
echo "$vf" >/sys/bus/pci/drivers/fakeib/unbind
cni ADD ib-sriov pod net1 "$plain" | grep -q "has no IPoIB interface (its driver is 'none'" ||
	fail "ADD of a VF without a driver did not name the missing driver"
echo "$vf" >/sys/bus/pci/drivers/fakeib/bind
until_true there
netdev=$(ls "/sys/bus/pci/devices/$vf/net")
[ "$netdev" = "$nic" ] || ip link set "$netdev" name "$nic"
refused 'please check mellanox ib-kubernetes' '{"ibKubernetesEnabled": true}'
ip netns del pod
ip netns del other
shared() {
	rdma system set netns shared
}
until_true shared
ip netns add pod
refused 'rdma system set netns exclusive' '{"rdmaIsolation": true}'
add ib-sriov pod net1 "$plain"
same "RDMA device of the result" "$(echo "$result" | jq -r '.interfaces[0].rdma.device')" "$dev"
delete ib-sriov pod net1 "$plain"
is_over $none
ip netns del pod
echo 0 >"/sys/bus/pci/devices/$pf/sriov_numvfs"
hcas_off
