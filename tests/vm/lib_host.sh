# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Functions of the cases of `unirail host`. Each case defines observed(), which prints the kernel's state that the steps of the case change.

# The cases need the directory of host.conf and a machine ID of the guest.
mkdir -p /etc/unirail
echo 0123456789abcdef0123456789abcdef >/etc/machine-id

# its_files: lists the files, with their checksums, in the directories to which the steps of these cases write
its_files() {
	for file in /etc/modprobe.d/* /etc/modules-load.d/* /etc/sysctl.d/* /etc/unirail/host.d/* /etc/systemd/system/*; do
		[ ! -f "$file" ] || echo "file $file $(md5sum <"$file")"
	done
}

everything() {
	observed
	its_files
}

# applied ARG...: runs `unirail host ARG...`; a second run must have nothing to do and change nothing
applied() {
	unirail host "$@" >/run/applied 2>&1 || fail "unirail host $* failed: $(tail -n 1 /run/applied)"
	cat /run/applied
	everything >/run/wanted
	same "the second 'unirail host $*'" "$(unirail host "$@" 2>/run/notes)" "nothing to do"
	everything >/run/twice
	cmp -s /run/wanted /run/twice || fail "a second apply changed the state: $(diff /run/wanted /run/twice | tail -n 1)"
}

# undo_is_free: runs `unirail host undo`. Returns 1 only while another 'unirail host', or a program that it started, changes this host.
# Any other failure returns 0 and writes its reason to /run/undo_failed.
undo_is_free() {
	: >/run/undo_failed
	unirail host undo >/run/undone 2>&1 && return 0
	! grep -q "another 'unirail host' is changing this host" /run/undone || return 1
	tail -n 1 /run/undone >/run/undo_failed
}

# undone WHAT: runs `unirail host undo`, again while another 'unirail host' changes this host; then the state must equal /run/at_first. WHAT
# names the change in messages
undone() {
	# A program that the killed process started may still run.
	until_true undo_is_free
	[ ! -s /run/undo_failed ] || fail "unirail host undo failed: $(cat /run/undo_failed)"
	everything >/run/restored
	cmp -s /run/at_first /run/restored || {
		diff /run/at_first /run/restored
		fail "undo after $1 left a difference: $(diff /run/at_first /run/restored | grep -m 1 '^[<>]')"
	}
	[ ! -s /var/lib/unirail/host/journal ] || fail "the journal has records after $1 and undo: $(cat /var/lib/unirail/host/journal)"
}

# killed_at CALLS EACH ARG...: for n = 1, 1 + EACH, 1 + 2 * EACH and so on, kills `unirail host ARG...` at the n-th call of one of the
# system calls CALLS, then runs undo. After every third kill a second `unirail host ARG...` completes the change before the undo.
killed_at() {
	calls=$1 each=$2
	shift 2
	n=$((1 - each))
	kills=0
	while :; do
		n=$((n + each))
		status=0
		strace -qq -o /dev/null -e trace="$calls" -e inject="$calls:signal=KILL:when=$n" unirail host "$@" >/run/killed 2>&1 ||
			status=$?
		[ "$status" = 0 ] || [ "$status" = 137 ] ||
			fail "unirail host $*, to be killed at $calls $n, failed: $(tail -n 1 /run/killed)"
		[ "$status" = 0 ] || kills=$((kills + 1))
		if [ "$status" != 0 ] && [ $((kills % 3)) = 0 ]; then
			unirail host "$@" >/run/completed 2>&1 ||
				fail "the apply after a kill at $calls $n failed: $(tail -n 1 /run/completed)"
			everything | cmp -s - /run/wanted || fail "the apply after a kill at $calls $n led to another state"
		fi
		undone "a kill at $calls $n"
		[ "$status" != 0 ] || break
	done
	[ "$kills" -gt 0 ] || fail "unirail host made no system call $calls"
	say "$1: undone after $kills kills at $calls"
}

# step ARG...: runs `unirail host ARG...` and undo; then kills `unirail host ARG...` at each fsync() (of the journal and of other files) and
# at every $each-th (default: third) request to the kernel. $requests names the system calls that are such requests (default:
# sendto,sendmsg).
step() {
	everything >/run/at_first
	applied "$@"
	cmp -s /run/at_first /run/wanted && fail "unirail host $* changed nothing"
	undone "apply"
	killed_at fsync 1 "$@"
	killed_at "${requests:-sendto,sendmsg}" "${each:-3}" "$@"
}
