#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Measures ADD and DEL of a pod with one VF and with eight VFs, by unirail and by `ip -batch` with the same settings, in turns, and prints
# medians. It asserts no time, since the machine is emulated.
# shellcheck source=tests/vm/lib.sh
. /tests/lib.sh

runs=5
for i in 1 2; do
	pci=$(nth_igb $i)
	ip link set "$(ls "/sys/bus/pci/devices/$pci/net")" up
	pf_on $i 4
done
has_netdev() {
	[ -n "$(ls "/sys/bus/pci/devices/$1/net" 2>/dev/null)" ]
}
# /run/vfs gets eight lines "NUMBER PF VF-OF-PF PCI NETDEV".
for i in 1 2 3 4 5 6 7 8; do
	port=$(((i + 3) / 4)) vf=$(((i + 3) % 4))
	pci=$(vf_of $port $vf)
	until_true has_netdev "$pci"
	echo "$i $(ls "/sys/bus/pci/devices/$(nth_igb $port)/net") $vf $pci $(ls "/sys/bus/pci/devices/$pci/net")"
done >/run/vfs
cat /run/vfs
ip netns add pod

# rails N: prints the netconf of a pod with N VFs
rails() {
	head -n "$1" /run/vfs | jq -Rnc '{cniVersion: "1.1.0", name: "rails", type: "unirail-cni", networks: [inputs | split(" ") |
		{name: "rail\(.[0])", ifname: "net\(.[0])", plugins: [{type: "sriov", deviceID: .[3], vlan: 7, vlanQoS: 3,
			mac: "02:00:00:00:07:0\(.[0])", max_tx_rate: 100, spoofchk: "off", trust: "on",
			ipam: {type: "static", addresses: [{address: "172.16.\(.[0]).20/24"}]}}]}]}'
}

# floor N: writes the files of `ip -batch` that attach N VFs to the pod and return them to the node
floor() {
	rm -f /run/floor-*
	head -n "$1" /run/vfs | while read -r i pf vf _ nic; do
		mac=02:00:00:00:07:0$i
		was=$(cat "/sys/class/net/$nic/address")
		echo "link set $pf vf $vf mac $mac vlan 7 qos 3 spoofchk off trust on max_tx_rate 100" >>/run/floor-node-add
		echo "link set $nic netns pod name net$i" >>/run/floor-node-add
		printf '%s\n' "link set net$i address $mac" "address add 172.16.$i.20/24 dev net$i" "link set net$i up" >>/run/floor-pod-add
		printf '%s\n' "link set net$i down" "link set net$i address $was" "link set net$i netns 1 name $nic" >>/run/floor-pod-del
		echo "link set $pf vf $vf vlan 0 spoofchk on trust off max_tx_rate 0 mac $was" >>/run/floor-node-del
	done
}

floor_add() {
	ip -batch /run/floor-node-add
	ip -n pod -batch /run/floor-pod-add
}

floor_del() {
	ip -n pod -batch /run/floor-pod-del
	ip -batch /run/floor-node-del
}

export CNI_CONTAINERID=vm-pod-0123456789ab CNI_NETNS=/run/netns/pod CNI_IFNAME=net1 CNI_PATH=/plugins
export CNI_ARGS='K8S_POD_NAMESPACE=team;K8S_POD_NAME=pod;K8S_POD_UID=uid-pod'
unirail_add() {
	CNI_COMMAND=ADD /plugins/unirail-cni </run/conf >/run/result || fail "ADD: $(cat /run/result)"
}

unirail_del() {
	CNI_COMMAND=DEL /plugins/unirail-cni </run/conf >/run/result || fail "DEL: $(cat /run/result)"
}

# cost COMMAND: runs COMMAND and appends a line "CPU WALL" to /run/cost-COMMAND: the CPU time of COMMAND and its children, and the wall
# time, in ms
cost() {
	read -r begin _ </proc/uptime
	times >/run/times-before
	"$1"
	times >/run/times-after
	read -r end _ </proc/uptime
	cat /run/times-before /run/times-after | tr 'ms' '  ' | awk -v wall="$begin $end" '
		{ t[NR] = ($1 * 60 + $2 + $3 * 60 + $4) * 1000 }
		END { split(wall, w, " "); printf "%d %d\n", t[3] + t[4] - t[1] - t[2], (w[2] - w[1]) * 1000 }' >>"/run/cost-$1"
}

# median COLUMN COMMAND: prints the median of a column (1: CPU, 2: wall time) of /run/cost-COMMAND
median() {
	cut -d ' ' -f "$1" "/run/cost-$2" | sort -n | sed -n "$(((runs + 1) / 2))p"
}

# ratio A B
ratio() {
	awk -v a="$1" -v b="$2" 'BEGIN { printf "%.1fx", b ? a / b : 0 }'
}

# compare N
compare() {
	rails "$1" >/run/conf
	floor "$1"
	# One run without measuring, which creates files, fills caches and initialises drivers.
	for what in floor_add floor_del unirail_add unirail_del; do
		$what
	done
	same "links in the pod" "$(links pod)" lo
	rm -f /run/cost-*
	for _ in $(seq $runs); do
		for what in floor_add floor_del unirail_add unirail_del; do
			cost $what
		done
	done
	for verb in add del; do
		say "$1 VFs, $verb: unirail $(median 1 unirail_$verb) ms of CPU, $(median 2 unirail_$verb) ms; ip" \
			"$(median 1 floor_$verb), $(median 2 floor_$verb): $(ratio "$(median 1 unirail_$verb)" "$(median 1 floor_$verb)")" \
			"CPU, $(ratio "$(median 2 unirail_$verb)" "$(median 2 floor_$verb)") wall"
	done
}
compare 1
compare 8
pf_off 1
pf_off 2
