#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# host-device and sriov are killed at system calls, or their system calls fail, while they move a virtual function: DEL restores the
# function on the node. The case tests a sample of these system calls, with EVERY=1 all of them, with EVERY=kill all kills at them.
# shellcheck source=tests/vm/lib.sh
. /tests/lib.sh

pf_on 1
vf=$(vf_of 1 0)
has_netdev() {
	[ -n "$(ls "/sys/bus/pci/devices/$1/net" 2>/dev/null)" ]
}
until_true has_netdev "$vf"
pf_nic=$(ls "/sys/bus/pci/devices/$(nth_igb 1)/net")
vf_nic=$(ls "/sys/bus/pci/devices/$vf/net")
ip link set "$pf_nic" name pf0
ip link set "$vf_nic" name vf0

same "the VF that the scene names" "$vf" 0000:01:10.0
faults host-device-vf
faults sriov

home() {
	[ -e /sys/class/net/pf0 ] && [ -e /sys/class/net/vf0 ]
}
until_true home
ip link set pf0 down
ip link set pf0 name "$pf_nic"
pf_off 1
