#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `unirail doctor` on a node with many faults; its snapshot, checked with --root, has the same findings.
# shellcheck source=tests/vm/lib.sh
. /tests/lib.sh

found=''
# finds CHECK LOCATION MESSAGE: a finding of CHECK at LOCATION must contain MESSAGE
finds() {
	echo "$found" | jq -e --arg c "$1" --arg w "$2" --arg t "$3" \
		'.findings | any(.check == $c and .subject == $w and (.what + ": " + .remedy | contains($t)))' >/dev/null ||
		fail "no finding of check $1 at $2 contains '$3'"
}
problems() {
	echo "$found" | jq '[.findings[] | select(.level == "problem")] | length'
}

found=$(unirail doctor -o json) || fail "doctor failed on a node without faults: $found"
same "problems of a node without faults" "$(problems)" 0

pf=$(nth_igb 1)
nic=$(ls "/sys/bus/pci/devices/$pf/net")
ip link add ra type veth peer name rb
ip link set ra up
ip link set rb up
ip address add 172.16.1.1/24 dev ra
ip address add 172.16.1.2/24 dev rb
rdma link add rxea type rxe netdev ra
rdma link add rxeb type rxe netdev rb
ip link set rb down
insmod /lib/fakeib.ko ib=1
fake=$(rdma -j dev | jq -r '.[].ifname | select(startswith("fib"))')
echo 2 >"/sys/bus/pci/devices/$pf/sriov_numvfs"
vf=$(basename "$(readlink "/sys/bus/pci/devices/$pf/virtfn1")")
bound() {
	[ -e "/sys/bus/pci/devices/$vf/driver" ]
}
until_true bound
echo "$vf" >/sys/bus/pci/drivers/igbvf/unbind
in_pod=$(basename "$(readlink "/sys/bus/pci/devices/$pf/virtfn0")")
has_netdev() {
	in_pod_nic=$(ls "/sys/bus/pci/devices/$in_pod/net")
}
until_true has_netdev
ip netns add pod
ip link set "$in_pod_nic" netns pod name net9
ip -n pod link set net9 mtu 1400
ip link add link ra name net1 type macvlan mode bridge
ip link set net1 group 1918986604
mkdir -p /opt/cni/bin /etc/cni/net.d /etc/unirail/pools
ln -s unirail /opt/cni/bin/macvlan
cat >/etc/cni/net.d/10-net.conflist <<END
{"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "ptp", "apiToken": "hunter2", "ipam": {"type": "static"}},
	{"type": "rdma"}]}
END
echo '{' >/etc/cni/net.d/20-broken.conf
printf 'apiVersion: v1\ntoken: hunter2\n' >/etc/cni/net.d/x.kubeconfig
printf '[pool rail0]\nsubnet = 172.16.1.0/24\ngateway = 172.16.9.1\n' >/etc/unirail/pools/rails.conf
ports_seen() {
	rdma link show rxeb/1 | grep -q DOWN
}
until_true ports_seen

! found=$(unirail doctor -o json) || fail "doctor succeeded on a node with faults"
unirail doctor || true
finds rdma-verbs "$fake" "libibverbs cannot use the device"
finds rdma-ports "rxeb port 1" "its interface 'rb' is down: 'ip link set rb up'"
finds rdma-mode /etc/cni/net.d/10-net.conflist "plugin 'rdma' moves RDMA devices into pods, but network namespaces of this host share"
finds rail-mtu ra "MTU 1500 is less than the 4192"
finds rail-subnets ra "172.16.1.1/24 is in the same subnet as 'rb'"
finds vf-drivers "$vf" "no driver is bound to this VF of '$pf'"
finds vf-pfs "$nic" "the PF is down, so its 2 VFs have no link"
finds mtu-pods "'net9' of /run/netns/pod" "MTU 1400 of this VF is not the 1500 of its PF '$nic'"
finds cni-links /opt/cni/bin/macvlan "leads to 'unirail', which does not exist"
finds cni-conf /etc/cni/net.d/10-net.conflist "plugin 'ptp' is not in '/opt/cni/bin'"
finds cni-conf /etc/cni/net.d/10-net.conflist "plugin 'static' is not in"
finds cni-conf /etc/cni/net.d/20-broken.conf "unexpected end of JSON input: correct or remove the file"
finds pools /etc/unirail/pools "rails.conf:"
finds leftover-links net1 "'ip link del net1'"

# The snapshot stays in the logs of the run: tests/hosts/vm_ailing.tree is a copy.
tree=${case_log%.log}.tree
unirail doctor --snapshot "$tree"
! grep -q hunter2 "$tree" || fail "the snapshot contains a secret"
# `doctor --root` reports the same findings from the snapshot while this node has the faults and, at the end, after they are removed.
! there=$(unirail doctor --root "$tree" -o json) || fail "doctor succeeded on the snapshot of a node with faults"
# A file that cannot be parsed is not in the snapshot, since it may contain secrets.
without='del(.findings[] | select(.subject | endswith("20-broken.conf")))'
same "the snapshot's findings" "$(echo "$there" | jq -c .)" "$(echo "$found" | jq -c "$without")"

ip netns del pod
ip link del net1
rmmod fakeib
rdma link del rxea
rdma link del rxeb
ip link del ra
echo 0 >"/sys/bus/pci/devices/$pf/sriov_numvfs"
rm -r /opt/cni /etc/cni /etc/unirail
later=$(unirail doctor --root "$tree" -o json) || true
same "the snapshot's findings on a node without faults" "$later" "$there"
found=$(unirail doctor -o json) || fail "doctor failed after all faults were removed: $found"
