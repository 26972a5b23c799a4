# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Functions of the cases of `unirail host vf`.

netdev() {
	ls "/sys/bus/pci/devices/$1/net" 2>/dev/null || true
}

vfs_of() {
	for path in "/sys/bus/pci/devices/$1"/virtfn*; do
		[ ! -e "$path" ] || basename "$(readlink -f "$path")"
	done
}

# Prints a netdev's address; of an InfiniBand address only the GUID, since the QP number before it differs each time.
hardware_address() {
	sed 's/.*\(.\{23\}\)$/\1/' "/sys/class/net/$1/address"
}

observed() {
	for pci in $pfs; do
		echo "$pci $(cat "/sys/bus/pci/devices/$pci/sriov_numvfs") mtu $(cat "/sys/class/net/$(netdev "$pci")/mtu")"
		[ -z "$switch" ] || devlink dev eswitch show "pci/$pci" | sed 's/ *$//'
		for vf in $(vfs_of "$pci"); do
			nic=$(netdev "$vf")
			echo "$vf $(basename "$(readlink "/sys/bus/pci/devices/$vf/driver")") $(cat "/sys/bus/pci/devices/$vf/driver_override")" \
				"${nic:+$(hardware_address "$nic") mtu $(cat "/sys/class/net/$nic/mtu")}" \
				"$(cat "/sys/bus/pci/devices/$vf/infiniband"/*/node_guid 2>/dev/null)"
		done
	done
}

# identity PCI N FILTER: prints what the jq filter FILTER selects from the PF's settings for its VF N, from 0
identity() {
	ip -j link show "$(netdev "$1")" | jq -r ".[0].vfinfo_list[$2]$3"
}

# vf_at PCI N: prints the PCI address of the PF's VF N, from 0
vf_at() {
	basename "$(readlink -f "/sys/bus/pci/devices/$1/virtfn$2")"
}

pfs="$(nth_igb 1) $(nth_igb 2)" switch=''
# shellcheck disable=SC2034 # for the cases
pci1=${pfs% *} pci2=${pfs#* }
