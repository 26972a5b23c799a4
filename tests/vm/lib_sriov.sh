# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Virtual functions of two igb ports, for the sriov cases.
# shellcheck disable=SC2034 # for the cases
pci1=$(nth_igb 1)
pci2=$(nth_igb 2)
pf1=$(ls "/sys/bus/pci/devices/$pci1/net")
pf2=$(ls "/sys/bus/pci/devices/$pci2/net")
records=/var/lib/cni/sriov

# vf PCI N: prints the PCI address of the PF's VF N, from 0
vf() {
	basename "$(readlink -f "/sys/bus/pci/devices/$1/virtfn$2")"
}

netdev() {
	ls "/sys/bus/pci/devices/$1/net" 2>/dev/null
}

has_carrier() {
	grep -q 1 "/sys/class/net/$1/carrier"
}

# knows_mac PCI N: succeeds if the driver of the PF's VF N, from 0, has reported the VF's MAC to the PF
knows_mac() {
	[ "$(of_vf "$(netdev "$1")" "$2" .address)" = "$(cat "/sys/class/net/$(netdev "$(vf "$1" "$2")")/address")" ]
}

# make_vfs PCI N: creates N VFs and waits for their netdevs. While VFs are created, igb restarts a PF that is up; without a carrier, igb
# refuses rate limits of VFs. If the PF restarts after the start of a VF's driver, the PF does not know the VF's MAC until the VF's link is
# set up.
make_vfs() {
	echo "$2" >"/sys/bus/pci/devices/$1/sriov_numvfs"
	until_true has_carrier "$(netdev "$1")"
	for i in $(seq 0 $(($2 - 1))); do
		until_true netdev "$(vf "$1" "$i")"
		ip link set "$(netdev "$(vf "$1" "$i")")" up
		until_true knows_mac "$1" "$i"
		ip link set "$(netdev "$(vf "$1" "$i")")" down
	done
}

# seen PF PCI N: prints all settings of VF N, from 0, of netdev PF with address PCI that a pod could have changed
seen() {
	ip -j link show "$1" | jq -Sc ".[0].vfinfo_list[$3]"
	ip -j -d link show "$(netdev "$(vf "$2" "$3")")" | jq -Sc '.[0] | {ifname, address, mtu, ifalias,
		altnames: (.altnames // [] | sort), up: (.flags | index("UP") != null)}'
}

# of_vf PF N FILTER: prints what the jq filter FILTER selects from the settings of VF N, from 0, of netdev PF
of_vf() {
	ip -j link show "$1" | jq -r ".[0].vfinfo_list[$2]$3"
}

# conf BDF MORE ADDRESS: prints a configuration of plugin sriov for the VF BDF with ADDRESS and the members of the JSON object MORE
conf() {
	jq -nc --arg vf "$1" --arg ip "$3" --argjson more "$2" '{cniVersion: "1.0.0", name: "rail0", type: "sriov",
		deviceID: $vf, ipam: {type: "static", addresses: [{address: $ip}]}} + $more'
}

files() {
	(cd $records 2>/dev/null && find . -type f ! -name '*.lock' | sort | tr '\n' ' ')
}

nothing_left() {
	same "record files" "$(files)" ""
}

# refused MESSAGE PLUGIN POD IFNAME CONF: ADD must fail with an error that contains MESSAGE, leave no record file and not change VF 0 of
# $pf1
refused() {
	words=$1
	shift
	was=$(seen "$pf1" "$pci1" 0)
	! said=$(cni ADD "$@") || fail "ADD succeeded, expected an error: $said"
	echo "$said" | grep -qF -- "$words" || fail "the error of ADD does not contain '$words': $said"
	same "the VF after a refused ADD" "$(seen "$pf1" "$pci1" 0)" "$was"
	nothing_left
}

ip link set "$pf1" up
ip link set "$pf2" up
make_vfs "$pci1" 4
make_vfs "$pci2" 2
a=$(vf "$pci1" 0) b=$(vf "$pci1" 1) c=$(vf "$pci2" 0)
nic=$(netdev "$a")
ip netns add pod
ip netns add pod2
echo "PF $pf1 $pci1, $pf2 $pci2; VFs $a $b $c"

plain=$(conf "$a" '{}' 172.16.1.20/24)
full=$(conf "$a" '{"vlan": 7, "vlanQoS": 3, "mac": "02:00:00:00:07:01", "max_tx_rate": 100, "spoofchk": "off", "trust": "on",
	"mtu": 1450}' 172.16.1.20/24)
