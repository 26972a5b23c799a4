#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The chain of sriov and rdma, and ib-sriov, are killed at system calls, or their system calls fail, while they move RDMA devices in
# exclusive mode. After DEL or GC no VF, GUID, RDMA device or link is stranded. The case tests only a sample of these system calls, since a
# test of one takes seconds. EVERY of tests/vm/run changes that: with EVERY=1 the case tests all of them, with EVERY=kill all kills.
# shellcheck source=tests/vm/lib.sh
. /tests/lib.sh

until_true rdma system set netns exclusive
devices="/sys/bus/pci/devices"
pf=$(nth_igb 1)
vf=0000:01:10.0
has() {
	[ -n "$(ls "$devices/$vf/$1" 2>/dev/null)" ]
}
# names: gives the interfaces of PF and VF the names that the scenes of tests/fault use
names() {
	until_true has net
	until_true has infiniband
	pf_nic=$(ls "$devices/$pf/net")
	ip link set "$pf_nic" down
	ip link set "$pf_nic" name pf0
	ip link set "$(ls "$devices/$vf/net")" name vf0
}

# set_dad ACCEPT_DAD ADDR_GEN_MODE: sets both sysctls; with 0 1 no link-local addresses appear during the case
set_dad() {
	for conf in default "$(ls "$devices/$pf/net")"; do
		echo "$1" >"/proc/sys/net/ipv6/conf/$conf/accept_dad"
		echo "$2" >"/proc/sys/net/ipv6/conf/$conf/addr_gen_mode"
	done
}
set_dad 0 1

insmod /lib/fakeib.ko roce=1
pf_on 1
names
ip link set pf0 up
until_true grep -q 1 /sys/class/net/pf0/carrier
faults sriov-rdma 3
ip link set pf0 down
ip link set pf0 name "$pf_nic"
pf_off 1
rmmod fakeib

hcas_on 0
echo 1 >"$devices/$pf/sriov_numvfs"
names
# An initial GUID, which must be restored.
for what in node_guid port_guid; do
	ip link set pf0 vf 0 $what 02:00:00:00:00:00:00:55
done
echo $vf >/sys/bus/pci/drivers/fakeib/unbind
echo $vf >/sys/bus/pci/drivers/fakeib/bind
rename_vf() {
	ip link set "$(ls "$devices/$vf/net")" name vf0
}
until_true has net
rename_vf
faults ib-sriov 3
echo 0 >"$devices/$pf/sriov_numvfs"
hcas_off
until_true rdma system set netns shared
set_dad 1 0
