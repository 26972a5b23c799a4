#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The cgroup controller rdma with soft-RoCE: limits of a pod's group, and whether a pod has a queue pair.
# shellcheck source=tests/vm/lib.sh
. /tests/lib.sh

uid=1f0c2a34-0000-4000-8000-000000000001
slice=/sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice
group=$slice/kubepods-burstable-pod$(echo $uid | tr - _).slice

# in_pod COMMAND...: runs COMMAND in the container's control group
in_pod() {
	sh -c 'echo $$ >"$1/cri-containerd-c.scope/cgroup.procs"; shift; exec "$@"' sh "$group" "$@"
}

# finds PATTERN: succeeds if the output of rdma-use about the pod's queue pairs matches PATTERN
finds() {
	found=$(rdma-use queue-pair $uid rxe0) || fail "rdma-use queue-pair failed"
	echo "$found"
	# shellcheck disable=SC2254 # a pattern
	case $found in
	$1) ;;
	*) return 1 ;;
	esac
}

has_handles() {
	grep -q "rxe0 hca_handle=$1 " "$group/rdma.current"
}

leave() {
	kill "$server" "$client" 2>/dev/null || true
	# $server is the shell that started ib_write_bw.
	echo 1 >"$group/cri-containerd-c.scope/cgroup.kill"
	wait
	until_true rmdir "$group/cri-containerd-c.scope"
	rmdir "$group" "$slice" "${slice%/*}"
	umount /sys/fs/cgroup
	rdma link delete rxe0
	ip link delete rail0
}

ip link add rail0 type veth peer name sw0
ip link set rail0 up
ip link set sw0 up
ip addr add 172.16.1.10/24 dev rail0
rdma link add rxe0 type rxe netdev rail0
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p "$group/cri-containerd-c.scope"
client='' server=''

echo "--- limits are set although no parent group has enabled the controller"
[ ! -e "$group/rdma.max" ] || fail "the controller rdma is enabled in the pod's group before the test"
rdma-use limit $uid rxe0 1 1000
same "limits" "$(cat "$group/rdma.max")" "rxe0 hca_handle=1 hca_object=1000 "
rdma-use limit $uid rxe0 2 2147483647
same "limits" "$(cat "$group/rdma.max")" "rxe0 hca_handle=2 hca_object=max "
rdma-use limit $uid rxe0 1 1000
! rdma-use limit $uid mlx5_7 1 1 || fail "rdma-use set a limit of a device that does not exist"

echo "--- a pod whose processes have opened no RDMA device is reported"
finds "none: no process of the container has opened an RDMA device*" || fail "the result does not report that no process has opened a device"

echo "--- a pod that has opened its device without creating a queue pair is reported"
in_pod ib_write_bw -d rxe0 -x "$(gid_index rxe0 172.16.1.10)" -D 600 >/run/served 2>&1 &
server=$!
until_true has_handles 1
until_true finds "none: the container has opened an RDMA device but has created no queue pair*"
! in_pod ibv_devinfo -d rxe0 || fail "the pod opened a second device handle beyond its limit"
ibv_devinfo -d rxe0 >/dev/null || fail "a process outside the pod is limited as well"

echo "--- a pod with queue pairs is reported as such"
ib_write_bw -d rxe0 -x "$(gid_index rxe0 172.16.1.10)" -D 600 172.16.1.10 >/run/asked 2>&1 &
client=$!
until_true finds present
rdma res show qp
echo "--- unirail rdma prints counters of memory regions and queue pairs as iproute2 does"
mr=$(unirail rdma statistic mr)
echo "$mr" | grep -q "^dev rxe0 mrn " || fail "rdma statistic mr does not list a memory region of rxe0: $mr"
same "rdma statistic mr" "$mr" "$(rdma statistic mr)"
same "rdma -j statistic show mr" "$(unirail rdma -j statistic show mr)" "$(rdma -j statistic show mr)"
same "rdma statistic qp" "$(unirail rdma statistic qp)" "$(rdma statistic qp)"
leave
