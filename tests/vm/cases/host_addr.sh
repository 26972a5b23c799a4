#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `unirail host addr` of a bond: created, its ports joined, address and policy route; undone, and killed at system calls.
# shellcheck source=tests/vm/lib.sh
. /tests/lib.sh
# shellcheck source=tests/vm/lib_host.sh
. /tests/lib_host.sh

observed() {
	# The comparison leaves out the MAC, since the kernel chooses the MAC of a bond without ports.
	ip -j -d link show | jq -c '.[] | select(.ifname | test("^(eth[01]|bond)")) | [.ifname, .mtu, .master,
		(.flags | index("UP") != null), .linkinfo.info_data.mode, .linkinfo.info_data.xmit_hash_policy]' | sort
	ip -o -4 address | sed 's/^[0-9]*: //'
	ip rule
	# The comparison leaves out IPv6, since a port that left its bond gets its link-local address and routes only some time later.
	ip -4 route show table all | sed '/^\(broadcast\|local\)/d'
}

# Before the apply one port is up, the other one down.
ip link set eth0 up
set -- addr bond7 --bond-ports eth0,eth1 --bond-mode active-backup --ipv4-ip 172.16.1.10/24 --ipv4-gateway 172.16.1.1 \
	--policy-route --mtu 4200 --persist none
step "$@"
applied "$@"
same "mode" "$(ip -j -d link show bond7 | jq -r '.[0].linkinfo.info_data.mode')" active-backup
for port in eth0 eth1; do
	same "master of $port" "$(ip -j link show $port | jq -r '.[0].master')" bond7
	same "MTU of $port" "$(ip -j link show $port | jq '.[0].mtu')" 4200
done
ip rule | grep -q 'from 172.16.1.10 lookup 151' || fail "the policy rule is missing: $(ip rule)"
# If another program removes a port from the bond, the next apply adds it again.
ip link set eth1 nomaster
unirail host apply
same "master of eth1" "$(ip -j link show eth1 | jq -r '.[0].master')" bond7
undone "a repair"

# refuse MESSAGE ARG...: `unirail host ARG...` must fail with an error that contains MESSAGE
refuse() {
	words=$1
	shift
	said=$(unirail host "$@" 2>&1) && fail "unirail host $* succeeded, expected an error: $said"
	echo "$said" | grep -qF -- "$words" || fail "the error does not contain '$words': $said"
}
ip address add 172.16.9.9/24 dev eth1
refuse "interface 'eth1' has address 172.16.9.9/24, which a port of a bond cannot use" addr bond7 --bond-ports eth0,eth1
ip address flush dev eth1
refuse "interface 'eth9' does not exist" addr bond7 --bond-ports eth0,eth9
refuse "interface 'eth1' exists and is not a bond" addr eth1 --bond-ports eth0
# bond0 is as the module bonding creates it: without ports, and not in the requested mode.
ip link add bond0 type bond mode balance-rr
everything >/run/at_first
applied addr bond0 --bond-ports eth0 --bond-mode 802.3ad --persist none
same "mode of bond0" "$(ip -j -d link show bond0 | jq -r '.[0].linkinfo.info_data.mode')" 802.3ad
refuse "bond 'bond0' has mode 802.3ad, which can change to active-backup only while the bond is down" addr bond0 --bond-ports eth0 \
	--bond-mode active-backup
undone "a change of mode"
ip link del bond0
ip link set eth0 down
rm -f /etc/machine-id
