#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `unirail host qos`, compared with iproute2's `dcb`: applied, undone, killed at system calls; apply and undo write each port's PFC once.
# shellcheck source=tests/vm/lib.sh
. /tests/lib.sh
# shellcheck source=tests/vm/lib_host.sh
. /tests/lib_host.sh

netdev() {
	ls "/sys/bus/pci/devices/$1/net"
}

cm() {
	mkdir "/sys/kernel/config/rdma_cm/$1"
	echo "$1 $(cat "/sys/kernel/config/rdma_cm/$1/ports/1/default_roce_mode") $(cat "/sys/kernel/config/rdma_cm/$1/ports/1/default_roce_tos")"
	rmdir "/sys/kernel/config/rdma_cm/$1"
}

observed() {
	for nic in $pf1 $pf2; do
		for what in dcbx ets pfc app buffer; do
			echo "$nic $what"
			dcb $what show dev "$nic"
		done
	done
	cm mlx5_0
	cm mlx5_1
	echo "tcp_ecn $(cat /proc/sys/net/ipv4/tcp_ecn)"
}

writes() {
	cat /sys/module/fakedcb/parameters/pfc_writes
}

mount -t configfs config /sys/kernel/config
insmod /lib/fakeib.ko roce=1 name=mlx5_%d
insmod /lib/fakedcb.ko
pf1=$(netdev "$(nth_igb 1)") pf2=$(netdev "$(nth_igb 2)")

set -- qos --priority 3 --cnp-priority 6 --ets 0,0,0,50,0,0,0,50 --priority-buffer 0,0,0,1,0,0,0,0 \
	--buffer-size 131008,131008,0,0,0,0,0,0 --cable-length 5
everything >/run/at_first
applied "$@"
same "writes of PFC on two ports" "$(writes)" 2
for nic in $pf1 $pf2; do
	dcb -j pfc show dev "$nic" prio-pfc | jq -e '.prio_pfc | [.[]] == [false, false, false, true, false, false, false, false]' \
		>/dev/null || fail "PFC of $nic is not on for priority 3 only: $(dcb -j pfc show dev "$nic" prio-pfc)"
	same "cable's length" "$(dcb -j pfc show dev "$nic" delay | jq .delay)" 5
	same "DSCPs" "$(dcb -N -j app show dev "$nic" dscp-prio | jq -c '[.dscp_prio[] | select(.[1] == 3) | .[0]]')" "[24,25,26,27,28,29,30,31]"
	same "bandwidth" "$(dcb -j ets show dev "$nic" tc-bw | jq -c '[.tc_bw[]]')" "[0,0,0,50,0,0,0,50]"
	same "buffer of priority 3" "$(dcb -j buffer show dev "$nic" prio-buffer | jq '.prio_buffer[3]')" 1
done
cm mlx5_0 | grep -q 'RoCE v2 96' || fail "the RDMA-CM default of mlx5_0 is not 'RoCE v2 96': $(cm mlx5_0)"
undone "apply"
same "writes of PFC after undo" "$(writes)" 4
killed_at fsync 1 "$@"
killed_at sendto,sendmsg 5 "$@"

# If another program changed one port, only that port is written again.
applied "$@"
before=$(writes)
dcb pfc set dev "$pf2" prio-pfc 3:off
unirail host apply
same "writes of PFC: dcb and the repair" "$(writes)" $((before + 2))
undone "a repair"

# If the driver acknowledges a change and ignores it, the step fails.
echo 1 >/sys/module/fakedcb/parameters/ignore
said=$(unirail host qos --priority-buffer 0,0,0,0,0,1,0,0 --buffer-size 131008,131008,0,0,0,0,0,0 2>&1) &&
	fail "unirail host qos succeeded although the driver ignored the change: $said"
echo "$said" | grep -q 'the kernel accepted the value, but reports another one' || fail "the error does not name the ignored change: $said"
echo 0 >/sys/module/fakedcb/parameters/ignore
undone "an ignored setting"

# The variables of rdma-qos.sh set the values. The script documents GPU_CNP_QOS but reads GPU_NIC_QOS.
GPU_RDMA_PRIORITY=4 GPU_CNP_PRIORITY=5 GPU_NIC_QOS=41 unirail host qos --dry-run >/run/dry || [ $? = 3 ] ||
	fail "the dry run failed: $(cat /run/dry)"
grep -q 'PFC on priority 4' /run/dry || fail "no step sets PFC on priority 4: $(cat /run/dry)"

# The documented call of rdma-qos.sh sets its variables to their defaults. The script runs mlnx_qos --trust=dscp --pfc, cma_roce_mode,
# cma_roce_tos and sysctl; below, dcb, configfs and /proc make the same settings.
lossless() {
	for nic in $pf1 $pf2; do
		dcb pfc show dev "$nic" prio-pfc
		dcb -N app show dev "$nic" dscp-prio
	done
	cm mlx5_0
	cm mlx5_1
	echo "tcp_ecn $(cat /proc/sys/net/ipv4/tcp_ecn)"
}
everything >/run/at_first
GPU_RDMA_PRIORITY=5 GPU_CNP_PRIORITY=6 unirail host qos >/run/applied 2>&1 || fail "unirail host qos failed: $(tail -n 1 /run/applied)"
lossless >/run/ours
undone "the documented invocation"
tcp_ecn=$(cat /proc/sys/net/ipv4/tcp_ecn)
dscps=$(for i in $(seq 0 63); do echo "$i:$((i / 8))"; done)
for nic in $pf1 $pf2; do
	dcb dcbx set dev "$nic" host ieee
	# shellcheck disable=SC2086 # a list
	dcb app add dev "$nic" dscp-prio $dscps
	dcb pfc set dev "$nic" prio-pfc 5:on
done
for dev in mlx5_0 mlx5_1; do
	mkdir "/sys/kernel/config/rdma_cm/$dev"
	echo "RoCE v2" >"/sys/kernel/config/rdma_cm/$dev/ports/1/default_roce_mode"
	echo 160 >"/sys/kernel/config/rdma_cm/$dev/ports/1/default_roce_tos"
	rmdir "/sys/kernel/config/rdma_cm/$dev"
done
echo 1 >/proc/sys/net/ipv4/tcp_ecn
lossless >/run/theirs
echo "$tcp_ecn" >/proc/sys/net/ipv4/tcp_ecn
cmp -s /run/theirs /run/ours || {
	diff /run/theirs /run/ours
	fail "the state differs from that of rdma-qos.sh: $(diff /run/theirs /run/ours | grep -m 1 '^[<>]')"
}
rmmod fakedcb
rmmod fakeib
umount /sys/kernel/config
