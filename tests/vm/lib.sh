# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Functions of all cases. If a case fails, the links and RDMA devices of the guest are printed into the case's log.
set -eu

on_exit() {
	status=$?
	# init reports the last line of the log as the reason, so this line is printed again after the state.
	reason=$(tail -n 1 "${case_log:?}")
	if [ "$status" != 0 ]; then
		[ -z "$node" ] || : >"/host/sync/${case_name:?}.failed.$node"
		echo "--- state after the failure"
		unirail doctor --snapshot "${case_log%.log}.tree" || true
		ip -d address
		rdma link
		for ns in $(ip netns list | cut -d ' ' -f 1); do
			echo "--- in $ns"
			ip -n "$ns" -d address
		done
		echo "$reason"
	fi
	for ns in $(ip netns list | cut -d ' ' -f 1); do
		ip netns del "$ns"
	done
	exit "$status"
}
trap on_exit EXIT

# say WORD...: prints a line that the run shows even if the case passes
say() {
	printf '\n@@SAY %s\n' "$*" >/dev/console
}

fail() {
	echo "FAILED: $*"
	exit 1
}

# same WHAT GOT WANTED: fails unless GOT equals WANTED; WHAT names the value in the message
same() {
	[ "$2" = "$3" ] || fail "$1 is '$2', expected '$3'"
}

# until_true COMMAND...: repeats COMMAND until it succeeds, with pauses of 0.2 s; after 150 attempts (30 s of pauses, and the time of the
# attempts) the case fails.
until_true() {
	for _ in $(seq 150); do
		! "$@" || return 0
		sleep 0.2
	done
	fail "not true within 30 s: $*"
}

# result: result of the last add; whole: configuration of the last check; server: process ID of the last server started in the background.
export result='' whole='' server=''

# nth_igb N: prints the PCI address of the N-th NIC that can have virtual functions
nth_igb() {
	for path in /sys/bus/pci/drivers/igb/0000:*; do
		echo "${path##*/}"
	done | sed -n "$1p"
}

# hcas_on DRIVER: turns the NICs that can have virtual functions into InfiniBand HCAs: netdevs ib0 and ib1 (with ib_ipoib), RDMA devices
# mlx5_0 and mlx5_1. DRIVER is the driver number by which libibverbs finds a provider (0: none).
hcas_on() {
	rmmod igbvf
	rmmod igb
	insmod /lib/fakeib.ko pci_ib=1 vfio=1 name=mlx5_%d driver_id="$1"
}

# rebind BDF [DRIVER]: binds the PCI function BDF to DRIVER; without DRIVER, to the driver that the kernel chooses
rebind() {
	echo "${2:-}" >"/sys/bus/pci/devices/$1/driver_override"
	[ ! -e "/sys/bus/pci/devices/$1/driver" ] || echo "$1" >"/sys/bus/pci/devices/$1/driver/unbind"
	echo "$1" >/sys/bus/pci/drivers_probe
}

# pf_on N [COUNT]: creates COUNT virtual functions (default: 1) of the N-th NIC that supports them
pf_on() {
	echo "${2:-1}" >"/sys/bus/pci/devices/$(nth_igb "$1")/sriov_numvfs"
}

pf_off() {
	echo 0 >"/sys/bus/pci/devices/$(nth_igb "$1")/sriov_numvfs"
}

# vf_of N I: prints the PCI address of the virtual function I, from 0, of the N-th NIC that supports them
vf_of() {
	basename "$(readlink -f "/sys/bus/pci/devices/$(nth_igb "$1")/virtfn$2")"
}

# argument NAME: prints the value of the argument vm.NAME of the kernel's command line
argument() {
	sed -n "s/.* vm\.$1=\([^ ]*\).*/\1/p" /proc/cmdline
}

# Loads the patched soft-RoCE, which carries the traffic of pods, instead of Debian's.
pods_rxe() {
	rmmod rdma_rxe
	insmod /lib/rdma_rxe.ko
}

# Loads the patched IPoIB, which creates netdevs in the namespace of their RDMA device as Linux 6.17 does, instead of Debian's.
pods_ipoib() {
	rmmod ib_ipoib
	insmod /lib/ib_ipoib.ko
}

hcas_off() {
	rmmod fakeib
	insmod /lib/modules/igb.ko
	insmod /lib/modules/igbvf.ko
}

# faults SCENE [FEWER]: runs fault-drive of tests/fault for every N-th point of SCENE at which it can inject a fault, N = EVERY * FEWER;
# EVERY is the variable of tests/vm/run, FEWER is 1 by default. With EVERY=1 it runs all points, with EVERY=kill all kills.
faults() {
	every=$(argument every)
	case $every in
	kill) points=--kills ;;
	1) points="--every 1" ;;
	*) points="--every $((every * ${2:-1}))" ;;
	esac
	# shellcheck disable=SC2086
	fault-drive --binary /bin/unirail --scene "$1" -j 1 $points >"/host/driven-$1" 2>&1 ||
		fail "scene $1 of tests/fault failed: $(cat "/host/driven-$1")"
	cat "/host/driven-$1"
	say "$1: $(tail -n 1 "/host/driven-$1")"
}

now() {
	cut -d ' ' -f 1 /proc/uptime
}

# cni COMMAND PLUGIN POD IFNAME CONF: calls the plugin, whose stdout is printed.
cni() {
	printf '%s' "$5" | env CNI_COMMAND="$1" CNI_CONTAINERID="vm-$3-0123456789ab" CNI_NETNS="/run/netns/$3" \
		CNI_IFNAME="$4" CNI_PATH=/plugins \
		CNI_ARGS="IgnoreUnknown=1;K8S_POD_NAMESPACE=team;K8S_POD_NAME=$3;K8S_POD_UID=uid-$3" "/plugins/$2"
}

# add PLUGIN POD IFNAME CONF: stores the result in $result.
add() {
	begin=$(now)
	result=$(cni ADD "$@") || fail "ADD $1: $result"
	echo "ADD $1 from $begin to $(now)"
}

# check PLUGIN POD IFNAME CONF: runs CHECK with $result as prevResult.
check() {
	whole=$(printf '%s' "$4" | jq -c --argjson prev "$result" '. + {prevResult: $prev}')
	said=$(cni CHECK "$1" "$2" "$3" "$whole") || fail "CHECK $1: $said"
}

delete() {
	begin=$(now)
	said=$(cni DEL "$@") || fail "DEL $1: $said"
	echo "DEL $1 from $begin to $(now)"
	same "output of DEL of $1" "$said" ""
}

# link NS NAME FILTER: prints what the jq filter FILTER selects from the link's output of `ip -j -d`.
link() {
	ip -n "$1" -j -d link show "$2" | jq -r ".[0]$3"
}

addresses() {
	ip -n "$1" -j -4 address show "$2" | jq -r '[.[0].addr_info[] | "\(.local)/\(.prefixlen)"] | join(" ")'
}

links() {
	ip -n "$1" -j link | jq -r '[.[].ifname] | sort | join(" ")'
}

# gid_index DEVICE ADDRESS: prints the index of the RoCE v2 GID of an IPv4 address
gid_index() {
	# shellcheck disable=SC2046,SC2183 # four arguments
	gid=$(printf '0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x' $(echo "$2" | tr . ' '))
	grep -l "$gid" /sys/class/infiniband/"$1"/ports/1/gids/* 2>/dev/null | while read -r file; do
		index=${file##*/}
		! grep -q 'RoCE v2' "/sys/class/infiniband/$1/ports/1/gid_attrs/types/$index" || echo "$index"
	done
}

has_gid() {
	[ -n "$(gid_index "$1" "$2")" ]
}

has_no_gid() {
	! has_gid "$1" "$2"
}

sent_packets() {
	cat "/sys/class/infiniband/$1/ports/1/hw_counters/sent_pkts"
}

# listens NS: succeeds if a server listens on perftest's port
listens() {
	ip netns exec "$1" cat /proc/net/tcp | grep -qi ':4853 00000000:0000 0A'
}

# perftest_serve NS DEVICE ADDRESS PROGRAM OPTION...: starts a server of perftest in the background, stores its process ID in $server and
# waits until it listens
perftest_serve() {
	ns=$1 device=$2 address=$3
	shift 3
	ip netns exec "$ns" timeout 120 "$@" -d "$device" -x "$(gid_index "$device" "$address")" >/run/served 2>&1 &
	server=$!
	until_true listens "$ns"
}

# perftest_client NS DEVICE ADDRESS SERVER PROGRAM OPTION...: runs a client of perftest; fails unless DEVICE counts 10 sent packets or more
perftest_client() {
	ns=$1 device=$2 address=$3 to=$4
	shift 4
	before=$(sent_packets "$device")
	ip netns exec "$ns" timeout 120 "$@" -d "$device" -x "$(gid_index "$device" "$address")" "$to" >/run/asked 2>&1 ||
		fail "$1 from $address to $to failed: $(tail -n 1 /run/asked)"
	after=$(sent_packets "$device")
	[ $((after - before)) -ge 10 ] || fail "$1 from $address to $to: $device sent $((after - before)) packets, expected 10 or more"
	echo "$1 from $address to $to: $device sent $((after - before)) packets"
}
