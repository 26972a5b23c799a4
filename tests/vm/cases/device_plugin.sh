#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `unirail device-plugin` on this kernel serves and allocates devices (RoCE on igb and its VFs, soft-RoCE, InfiniBand without IPoIB) and
# reports a lost link (of Ethernet, soft-RoCE, InfiniBand) as Unhealthy to the kubelet within 100 ms. Three more cases: a driver reports an
# error while it holds devlink's lock; devices are read while a driver holds this lock; an open HCA is unbound and then bound again.
# shellcheck source=tests/vm/lib.sh
. /tests/lib.sh
# shellcheck source=tests/vm/lib_sriov.sh
. /tests/lib_sriov.sh

plugins=/run/plugins registry=/run/registry log=/run/plugin.log plugin=
limit=100

# serve CONFIG: starts the plugin in the background
serve() {
	mkdir -p "$plugins" "$registry"
	echo "$1" >/run/devices.json
	unirail device-plugin --plugins-dir "$plugins" --registry-dir "$registry" --pod-resources '' /run/devices.json >"$log" 2>&1 &
	plugin=$!
}

stop() {
	kill "$plugin"
	wait "$plugin" || fail "unirail device-plugin failed: $(cat "$log")"
	cat "$log"
	rm -r "$plugins" "$registry"
}

# socket RESOURCE: prints the path of the resource's socket; fails until the socket exists
socket() {
	find "$registry" "$plugins" -name "*$1*.sock" | grep .
}

# call RESOURCE WORD...: calls the plugin as the kubelet does; retries while the plugin opens a new socket, which it does after each closed
# connection
call() {
	resource=$1
	shift
	for _ in 1 2 3 4 5; do
		status=1
		! path=$(socket "$resource") || { kubelet "$path" "$@" && return 0 || status=$?; }
		[ "$status" = 1 ] || return 1
		sleep 0.2
	done
	return 1
}

# within RESOURCE until HEALTH FILE TEXT: after a write of TEXT to FILE the plugin must report HEALTH within $limit ms, not counting the
# kernel's time for the write
within() {
	took=$(call "$@") || fail "no device of resource '$1' became $3: $(cat "$log")"
	total=${took% *} write=${took#* }
	# If the write has not returned yet, the driver delays it, and all of the time counts.
	[ "$write" != - ] || write=0
	delay=$((total - write))
	say "$1: $3 after $total ms: $write ms in the kernel's write, $delay ms from its end to the kubelet"
	[ "$delay" -le "$limit" ] || fail "$1: $3 after $total ms, of which the kernel took $write; expected at most $limit more"
}

# all_are RESOURCE HEALTH: succeeds if the resource has devices and all of them have this health
all_are() {
	listed=$(call "$1" list) || return 1
	echo "$listed" | grep -q . || return 1
	! echo "$listed" | grep -qv " $2\$"
}

# is_not_served RESOURCE: the resource has no socket, or no device
is_not_served() {
	! call "$1" list | grep -q .
}

# now_ms: prints the milliseconds since the guest's start, in steps of 10
now_ms() {
	echo "$(now | tr -d .)0"
}

# allocate_ib: allocates the first listed device of the resource ib; $longest is the longest time in ms that a call of this function has
# taken
allocate_ib() {
	began=$(now_ms)
	call ib allocate "$(call ib list | head -n 1 | cut -d ' ' -f 1)" >/dev/null || fail "Allocate failed: $(cat "$log")"
	took=$(($(now_ms) - began))
	[ "$took" -le "$longest" ] || longest=$took
}

# has WHAT TEXT WANTED: fails unless a line of TEXT, the answer of WHAT, equals WANTED
has() {
	echo "$2" | grep -qxF -- "$3" || fail "the answer of $1 does not contain '$3': $2"
}

echo "--- RoCE: a shared HCA and VFs are served and allocated"
insmod /lib/fakeib.ko roce=1 driver_id=14
until_true test -e "/sys/bus/pci/devices/$a/infiniband"
serve '{"configList": [{"resourceName": "roce", "resourcePrefix": "rdma", "rdmaHcaMax": 3, "selectors": {"ifNames": ["'"$pf1"'"]}}],
	"resourceList": [{"resourceName": "vfs", "resourcePrefix": "rail", "selectors": {"pfNames": ["'"$pf1"'"], "isRdma": true}}]}'
until_true all_are roce Healthy
until_true all_are vfs Healthy
same "VFs" "$(call vfs list | cut -d ' ' -f 1 | sort | tr '\n' ' ')" "$(for i in 0 1 2 3; do vf "$pci1" $i; done | sort | tr '\n' ' ')"
same "shares of the HCA" "$(call roce list | wc -l)" 3
answer=$(call vfs allocate "$a") || fail "Allocate failed: $(cat "$log")"
has "Allocate" "$answer" "/dev/infiniband/$(ls "/sys/bus/pci/devices/$a/infiniband_verbs")"
has "Allocate" "$answer" PCIDEVICE_RAIL_VFS
has "Allocate" "$answer" "$a"
answer=$(call roce allocate "$(call roce list | head -n 1 | cut -d ' ' -f 1)") || fail "Allocate failed: $(cat "$log")"
has "Allocate" "$answer" "/dev/infiniband/$(ls "/sys/bus/pci/devices/$pci1/infiniband_verbs")"
stop
# fakeib's RoCE devices are lost when their PF is set down and up: the links are tested without them.
rmmod fakeib
echo 0 >"/sys/bus/pci/devices/$pci1/sriov_numvfs"
echo 0 >"/sys/bus/pci/devices/$pci2/sriov_numvfs"

echo "--- Ethernet: a VF that is created is served, and a PF whose link goes down is unhealthy"
until_true has_carrier "$pf1"
serve '{"resourceList": [{"resourceName": "pf", "resourcePrefix": "rail", "selectors": {"pciAddresses": ["'"$pci1"'"]}},
	{"resourceName": "vfs", "resourcePrefix": "rail", "selectors": {"pfNames": ["'"$pf2"'"]}}]}'
until_true all_are pf Healthy
make_vfs "$pci2" 1
until_true all_are vfs Healthy
same "VF" "$(call vfs list | cut -d ' ' -f 1)" "$(vf "$pci2" 0)"
echo 0 >"/sys/bus/pci/devices/$pci2/sriov_numvfs"
until_true is_not_served vfs
within pf until Unhealthy "/sys/class/net/$pf1/flags" 0x1002
ip link set "$pf1" up
until_true all_are pf Healthy
stop
ip link set "$pf1" down
ip link set "$pf2" down

echo "--- soft-RoCE: a shared resource that names the netdev is served"
ip link add rail0 type veth peer name sw0
ip link set rail0 up
ip link set sw0 up
rdma link add rxe0 type rxe netdev rail0
serve '{"configList": [{"resourceName": "soft", "resourcePrefix": "rdma", "rdmaHcaMax": 2, "selectors": {"ifNames": ["rail0"]}},
	{"resourceName": "any", "resourcePrefix": "rdma", "rdmaHcaMax": 2, "selectors": {"linkTypes": ["ether"]}}]}'
until_true all_are soft Healthy
same "shares of the soft-RoCE device" "$(call soft list | wc -l)" 2
uverbs=$(basename "$(dirname "$(grep -lx rxe0 /sys/class/infiniband_verbs/*/ibdev)")")
answer=$(call soft allocate "$(call soft list | head -n 1 | cut -d ' ' -f 1)") || fail "Allocate failed: $(cat "$log")"
has "Allocate" "$answer" "/dev/infiniband/$uverbs"
has "Allocate" "$answer" /dev/infiniband/rdma_cm
[ -c "/dev/infiniband/$uverbs" ] || fail "device node /dev/infiniband/$uverbs does not exist"
is_not_served any || fail "a resource without ifNames has the soft-RoCE device"
within soft until Unhealthy /sys/class/net/rail0/flags 0x1002
ip link set rail0 up
until_true all_are soft Healthy
rdma link delete rxe0
until_true is_not_served soft
rdma link add rxe0 type rxe netdev rail0
until_true all_are soft Healthy
stop
rdma link delete rxe0
ip link delete rail0

echo "--- InfiniBand without IPoIB: a port that goes down makes its device unhealthy"
rmmod ib_ipoib
hcas_on 14
pf=$(basename "$(readlink -f /sys/class/infiniband/mlx5_0/device)")
serve '{"resourceList": [{"resourceName": "ib", "resourcePrefix": "rdma", "selectors": {"pciAddresses": ["'"$pf"'"], "isRdma": true}}]}'
until_true all_are ib Healthy
! grep "polled" "$log" || fail "the log reports that ports are polled, although their driver sends events"
within ib until Unhealthy /sys/module/fakeib/parameters/port "mlx5_0 down"
echo "mlx5_0 up" >/sys/module/fakeib/parameters/port
until_true all_are ib Healthy

echo "--- a driver reports an error and holds its lock: its device is unhealthy and Allocate is answered"
within ib until Unhealthy /sys/module/fakeib/parameters/hang 3000
answer=$(call ib allocate "$(call ib list | head -n 1 | cut -d ' ' -f 1)") || fail "Allocate failed: $(cat "$log")"
has "Allocate" "$answer" /dev/infiniband/uverbs0
sleep 4
echo 0 >/sys/module/fakeib/parameters/hang
until_true all_are ib Healthy

echo "--- a driver holds devlink's lock while devices are read again: the kubelet's calls are answered"
# For Intel's functions each read of the devices requests the DDP profile by devlink. A new netdev causes such a read.
longest=0
for _ in 1 2 3 4 5 6 7 8; do
	allocate_ib
done
unlocked=$longest longest=0 answers=0
{
	echo 12000 >/sys/module/fakeib/parameters/hang
	touch /run/unlocked
} &
sleep 0.5
ip link add x0 type veth peer name x1
until [ -e /run/unlocked ]; do
	allocate_ib
	answers=$((answers + 1))
done
rm /run/unlocked
ip link delete x0
grep "a driver does not answer devlink's requests" "$log" || fail "no request to devlink was blocked: $(cat "$log")"
say "a driver holds devlink's lock for 12 s: ListAndWatch and Allocate answer $answers times, within $longest ms; without the lock $unlocked ms"
[ "$answers" -ge 4 ] || fail "ListAndWatch and Allocate answered $answers times while a driver held devlink's lock for 12 s"
[ "$longest" -le 5000 ] || fail "ListAndWatch and Allocate took $longest ms while a driver held devlink's lock"
echo 0 >/sys/module/fakeib/parameters/hang
until_true all_are ib Healthy

echo "--- an HCA that is unbound while it is open is served again once it is bound"
echo "$pf" >/sys/bus/pci/drivers/fakeib/unbind
until_true grep -q "is gone or has failed" "$log"
echo "$pf" >/sys/bus/pci/drivers/fakeib/bind
until_true all_are ib Healthy
stop
hcas_off
insmod /lib/modules/ib_ipoib.ko
