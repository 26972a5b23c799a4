#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `unirail host modules` and `unirail host rdma-mode`: applied, undone, and killed at system calls.
# shellcheck source=tests/vm/lib.sh
. /tests/lib.sh
# shellcheck source=tests/vm/lib_host.sh
. /tests/lib_host.sh

loaded() {
	sed 's/ .*//' /proc/modules | sort
}

observed() {
	loaded | sed 's/^/module /'
	rdma system | sed 's/ copy.*//'
}

# Unloads the modules that `unirail host modules` loads below, and the modules that only they need.
rmmod rdma_ucm
rmmod ib_umad
rmmod rdma_cm
rmmod iw_cm

# step also kills unirail while modprobe runs: at each poll() that waits for modprobe's output.
requests=ppoll,poll each=1 step modules ib_umad,rdma_ucm
grep -qx rdma_ucm /proc/modules 2>/dev/null && fail "rdma_ucm is loaded after undo"
applied modules ib_umad,rdma_ucm
for module in ib_umad rdma_ucm rdma_cm iw_cm; do
	[ -e /sys/module/$module ] || fail "$module is not loaded"
done
same "modules-load.d" "$(grep -v '^#' /etc/modules-load.d/unirail.conf | tr '\n' ' ')" "ib_umad rdma_ucm "
# If another program unloads a module, the next apply loads it again, and undo still unloads it.
rmmod rdma_ucm
unirail host apply
[ -e /sys/module/rdma_ucm ] || fail "apply did not load rdma_ucm again"
# While the module is in use, undo fails with that reason; later it succeeds.
exec 3</dev/infiniband/rdma_cm
! unirail host undo >/run/busy 2>&1 || fail "undo succeeded although rdma_ucm is in use: $(cat /run/busy)"
grep -q "unload module 'rdma_ucm': .*EBUSY.*it is in use" /run/busy ||
	fail "the error of undo does not name rdma_ucm and EBUSY: $(cat /run/busy)"
exec 3<&-
undone "a module in use"
said=$(unirail host modules no_such_module 2>&1) && fail "unirail host modules succeeded with a module that does not exist: $said"
echo "$said" | grep -q "this kernel has no module 'no_such_module'" || fail "the error does not name the missing module: $said"
unirail host undo >/dev/null

step rdma-mode exclusive
applied rdma-mode exclusive
rdma system | grep -q 'netns exclusive' || fail "the RDMA mode is not exclusive: $(rdma system)"
same "modprobe.d" "$(grep -v '^#' /etc/modprobe.d/unirail-rdma.conf)" "options ib_core netns_mode=0"
# The mode cannot change while another network namespace exists: the error names a process in it.
unirail host undo
ip netns add pod
ip netns exec pod sleep 1000 &
holder=$!
until_true grep -q sleep "/proc/$holder/comm"
said=$(unirail host rdma-mode exclusive 2>&1) && fail "rdma-mode exclusive succeeded although another network namespace exists: $said"
echo "$said" | grep -q "1 other network namespaces exist (pid $holder (sleep))" ||
	fail "the error does not name the process of the other network namespace: $said"
kill "$holder"
ip netns del pod
unirail host undo

modprobe rdma_ucm
modprobe ib_umad
