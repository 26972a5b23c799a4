#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A node prepared by `unirail host apply` has the same state after a reboot, at which only modules-load.d, modprobe.d and the unit's
# command act. Then undo restores the state from before the first apply.
# shellcheck source=tests/vm/lib.sh
. /tests/lib.sh
# shellcheck source=tests/vm/lib_host.sh
. /tests/lib_host.sh

disk=/host/disks/boots/host

netdev() {
	ls "/sys/bus/pci/devices/$1/net"
}

observed() {
	for module in ib_umad rdma_ucm; do
		echo "$module $([ ! -e /sys/module/$module ] || echo loaded)"
	done
	rdma system | sed 's/ copy.*//'
	for pci in $(nth_igb 1) $(nth_igb 2); do
		nic=$(netdev "$pci")
		echo "$pci $(cat "/sys/bus/pci/devices/$pci/sriov_numvfs")"
		ip -j link show "$nic" | jq -c '.[0] | [.mtu, [.vfinfo_list[]?.address]]'
		for what in dcbx ets pfc app; do
			dcb $what show dev "$nic"
		done
	done
	ip -j -4 address show eth0 | jq -c '.[0] | [.mtu, [.addr_info[]? | [.local, .prefixlen]]]'
	ip rule
	ip -4 route show table all | sed '/^\(broadcast\|local\)/d'
	echo "tcp_ecn $(cat /proc/sys/net/ipv4/tcp_ecn)"
}

# power_on: loads the modules as a boot does, with the options of modprobe.d
power_on() {
	for module in rdma_rxe ib_ipoib rdma_ucm rdma_cm iw_cm ib_umad ib_cm ib_uverbs ib_core; do
		rmmod $module
	done
	/sbin/modprobe ib_core
	for file in /etc/modules-load.d/*.conf; do
		[ ! -e "$file" ] || grep -v '^#' "$file" | while read -r module; do
			/sbin/modprobe "$module"
		done
	done
	insmod_ib
}

insmod_ib() {
	/sbin/modprobe ib_cm
	/sbin/modprobe ib_uverbs
	insmod /lib/fakeib.ko roce=1 name=mlx5_%d
	insmod /lib/fakedcb.ko
	ip link set eth0 up
}

# shellcheck disable=SC2154 # init sets $boot
case $boot in
1)
	power_on
	pf=$(netdev "$(nth_igb 1)")
	mkdir -p /usr/local/bin
	cp /bin/unirail /usr/local/bin/unirail
	cat >/etc/unirail/host.conf <<-END
		[modules]
		load = ib_umad,rdma_ucm
		[rdma]
		mode = exclusive
		[vf $pf]
		num-vfs = 2
		[qos]
		priority = 3
		[sysctl]
		net.ipv4.tcp_ecn = 1
		[interface eth0]
		ipv4-ip = 172.16.1.10/24
		ipv4-gateway = 172.16.1.1
		policy-route = yes
		mtu = 1400
		persist = none
		[rule]
		cidr = 172.16.0.0/16
		[boot]
	END
	observed >"$disk/at_first"
	unirail host apply || fail "unirail host apply failed"
	same "a second apply" "$(unirail host apply 2>/run/notes)" "nothing to do"
	observed >"$disk/wanted"
	mkdir -p "$disk/etc" "$disk/var"
	cp -a /etc/. "$disk/etc/"
	cp -a /var/lib/unirail "$disk/var/"
	;;
2)
	cp -a "$disk/etc/." /etc/
	mkdir -p /var/lib /usr/local/bin
	cp -a "$disk/var/unirail" /var/lib/
	cp /bin/unirail /usr/local/bin/unirail
	power_on
	rdma system | grep -q 'netns exclusive' || fail "modprobe.d does not set the mode: $(rdma system)"
	command=$(sed -n 's/^ExecStart=//p' /etc/systemd/system/unirail-host.service)
	same "the unit is enabled" "$(readlink /etc/systemd/system/multi-user.target.wants/unirail-host.service)" "../unirail-host.service"
	$command || [ $? = 3 ] || fail "the unit's command '$command' failed"
	observed >/run/now
	cmp -s "$disk/wanted" /run/now || {
		diff "$disk/wanted" /run/now
		fail "the state after the reboot differs: $(diff "$disk/wanted" /run/now | grep -m 1 '^[<>]')"
	}
	same "an apply after the boot" "$(unirail host apply 2>/run/notes)" "nothing to do"
	unirail host undo || fail "unirail host undo failed"
	observed >/run/now
	cmp -s "$disk/at_first" /run/now || {
		diff "$disk/at_first" /run/now
		fail "undo left a difference: $(diff "$disk/at_first" /run/now | grep -m 1 '^[<>]')"
	}
	same "the mode of the next boot" "$(ls /etc/modprobe.d /etc/modules-load.d)" "$(printf '/etc/modprobe.d:\n\n/etc/modules-load.d:')"
	;;
esac
# The guest is switched off next, but init compares the guest's state before and after a case, so all changes are undone here.
unirail host undo >/dev/null || fail "the last unirail host undo failed"
ip link set eth0 down
rmmod fakedcb
rmmod fakeib
rm -rf /usr/local/bin /etc/machine-id
/sbin/modprobe -a ib_umad rdma_ucm rdma_rxe ib_ipoib
