#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# ifacer: a bond of two NICs and a VLAN on it; a second ADD changes nothing.
# shellcheck source=tests/vm/lib.sh
. /tests/lib.sh

ip netns add pod
node() {
	ip -j -d link show "$1" | jq -r ".[0]$2"
}
conf='{"cniVersion": "1.0.0", "name": "net", "type": "ifacer", "interfaces": ["eth2", "eth3"], "vlanID": 9,
	"bond": {"name": "bond7", "mode": 1, "options": "miimon=120"}}'
add ifacer pod net1 "$conf"
first=$(node bond7 .ifindex)
same "mode" "$(node bond7 .linkinfo.info_data.mode)" active-backup
same "miimon" "$(node bond7 .linkinfo.info_data.miimon)" 120
same "master of eth2" "$(node eth2 .master)" bond7
same "master of eth3" "$(node eth3 .master)" bond7
same "kind" "$(node bond7.9 .linkinfo.info_kind)" vlan
same "id" "$(node bond7.9 .linkinfo.info_data.id)" 9
same "parent" "$(node bond7.9 .link)" bond7
node bond7.9 '.flags | join(" ")' | grep -qw UP || fail "bond7.9 is not up"
cni CHECK ifacer pod net1 "$conf"
add ifacer pod net1 "$conf"
same "the bond" "$(node bond7 .ifindex)" "$first"
delete ifacer pod net1 "$conf"
ip link del bond7.9
ip link del bond7

single='{"cniVersion": "1.0.0", "name": "net", "type": "ifacer", "interfaces": ["eth2"], "vlanID": 5}'
add ifacer pod net1 "$single"
same "id" "$(node eth2.5 .linkinfo.info_data.id)" 5
ip link del eth2.5
