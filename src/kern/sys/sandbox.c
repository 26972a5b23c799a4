/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/landlock.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#include "base/alloc.h"
#include "base/log.h"
#include "kern/sys/sandbox.h"

/* The system calls of each mode, and the filter that allows them. */

/* Sets of modes, for the member `modes` of struct call. */
enum {
	S = 1 << SANDBOX_IPAM_SERVE,
	A = 1 << SANDBOX_AGENT,
	C = 1 << SANDBOX_CONTROLLER,
	AC = A | C,
	SA = S | A,
	SAC = S | A | C,
};

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#else
#error "the audit architecture of this processor is unknown: add its line here"
#endif

enum { VALUES_MAX = 6, NAMESPACES = 0x7e020000, X32 = 0x40000000 };

/* A system call, and the modes that may make it: with any arguments (ANY), or under a condition
 * on argument number `arg`, of which only the low 32 bits are compared. */
struct call {
	const char *name;
	int nr, modes;
	enum { ANY, ONE_OF, WITHOUT } rule;
	int arg;
	size_t n;
	/* ONE_OF: the allowed values; WITHOUT: values[0] has the bits that must not be set */
	uint32_t values[VALUES_MAX];
};

#define CALL(name, modes)                                                                          \
	{                                                                                          \
#name, SYS_##name, modes, ANY, 0, 0,                                               \
		{                                                                                  \
			0                                                                          \
		}                                                                                  \
	}
#define WITHOUT_BITS(name, modes, arg, bits)                                                       \
	{                                                                                          \
#name, SYS_##name, modes, WITHOUT, arg, 1,                                         \
		{                                                                                  \
			bits                                                                       \
		}                                                                                  \
	}
#define ONLY(name, modes, arg, ...)                                                                \
	{                                                                                          \
#name, SYS_##name, modes, ONE_OF, arg,                                             \
			sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t),                      \
		{                                                                                  \
			__VA_ARGS__                                                                \
		}                                                                                  \
	}

/*
 * The system calls that were seen in the tests of each mode, and those that musl makes instead on
 * other kernels or processors (without vDSO: clock_gettime; x86_64: open, stat ...). The most
 * frequent calls come first. System calls that a mode makes only at its start (capset; listen
 * except in the agent) are missing, because the filter is installed after them.
 */
static const struct call calls[] = {
	/* calls of the event loop and of connections */
	CALL(epoll_pwait, SAC),
	CALL(read, SAC),
	CALL(write, SAC),
	CALL(recvfrom, SAC),
	CALL(sendto, SAC),
	CALL(recvmsg, SAC),
	CALL(sendmsg, SAC),
	CALL(readv, SAC),
	CALL(writev, SAC),
	CALL(epoll_ctl, SAC),
	CALL(close, SAC),
	CALL(accept4, SAC),
	CALL(accept, SAC),
	CALL(shutdown, SAC),
	CALL(getsockopt, SAC),
	CALL(setsockopt, SAC),
	CALL(getsockname, SAC),
	CALL(getpeername, SAC),
	CALL(ppoll, SAC),
	CALL(clock_gettime, SAC),
	CALL(gettimeofday, SAC),
	CALL(clock_nanosleep, SAC),
	CALL(nanosleep, SAC),
	CALL(getrandom, SAC),
	/* Sockets to the API server, the kubelet and a name server; no packet sockets. Netlink:
	 * each scan of the node's devices reads devlink and the RDMA mode; without CAP_NET_ADMIN
	 * the agent cannot change anything by netlink. */
	ONLY(socket, A, 0, AF_UNIX, AF_INET, AF_INET6, AF_NETLINK),
	ONLY(socket, C, 0, AF_UNIX, AF_INET, AF_INET6),
	CALL(connect, AC),
	CALL(bind, AC),	 /* musl: the socket of name server queries; sockets of device plugins */
	CALL(listen, A), /* sockets of device plugins, when the kubelet restarts */
	/* memory */
	CALL(brk, SAC),
	WITHOUT_BITS(mmap, SAC, 2, PROT_EXEC),
	WITHOUT_BITS(mprotect, SAC, 2, PROT_EXEC),
	CALL(munmap, SAC),
	CALL(mremap, SAC),
	CALL(madvise, SAC),
	/* calls on files; Landlock decides which files */
	CALL(openat, SAC),
	CALL(openat2, SAC),
	CALL(fstat, SAC),
	CALL(newfstatat, SAC),
	CALL(statx, SAC),
	CALL(faccessat, SAC),
	CALL(faccessat2, SAC),
	CALL(readlinkat, SAC),
	CALL(getdents64, SAC),
	CALL(lseek, SAC),
	CALL(fcntl, SAC),
	CALL(pread64, SAC),
	CALL(dup, SAC),
	CALL(unlinkat, SAC), /* the pid file */
	CALL(pwrite64, SA),
	CALL(ftruncate, SA),
	CALL(fallocate, SA),
	CALL(fsync, SA),
	CALL(fdatasync, SA),
	CALL(flock, SA),
	CALL(mkdirat, SA),
	CALL(renameat, SA),
	CALL(renameat2, SA),
	CALL(fchmod, SA),
	CALL(umask, SA),
	CALL(inotify_add_watch, A), /* the CNI configuration directory, when it is recreated */
	ONLY(ioctl, S | C, 1, FIONBIO, FIONREAD, TIOCGWINSZ),
	/* Verbs: for an HCA that was opened before the sandbox was installed (device/serve/port_events.h); Landlock
	 * denies the opening of others. */
	ONLY(ioctl, A, 1, FIONBIO, FIONREAD, TIOCGWINSZ, RDMA_VERBS_IOCTL),
	/* calls about the process itself */
	CALL(futex, SAC),
	CALL(rt_sigaction, SAC),
	CALL(rt_sigprocmask, SAC),
	CALL(rt_sigreturn, SAC),
	CALL(restart_syscall, SAC),
	CALL(sched_yield, SAC),
	CALL(getpid, SAC),
	CALL(gettid, SAC),
	CALL(getuid, SAC),
	CALL(geteuid, SAC),
	CALL(getgid, SAC),
	CALL(getegid, SAC),
	CALL(getcwd, SAC),
	CALL(uname, SAC),
	CALL(getrusage, SAC),
	ONLY(prlimit64, SAC, 0, 0), /* pid 0: only the limits of the process itself */
	CALL(tkill, SAC),	    /* abort() */
	CALL(tgkill, SAC),
	CALL(exit, SAC),
	CALL(exit_group, SAC),
	/* a child that resolves a name, or executes a call that may block (base/child.h) */
	WITHOUT_BITS(clone, AC, 0, NAMESPACES),
	CALL(set_tid_address, AC),
	CALL(set_robust_list, AC),
	CALL(pipe2, AC),
	CALL(dup3, AC),
	CALL(pidfd_open, AC),
	CALL(wait4, AC),
	CALL(kill, AC),
	CALL(setitimer, C),
	ONLY(prctl, AC, 0, PR_SET_PDEATHSIG, PR_SET_DUMPABLE),
#ifdef SYS_open /* musl uses these calls on x86_64; on arm64 only the newer ones exist */
	CALL(open, SAC),
	CALL(stat, SAC),
	CALL(lstat, SAC),
	CALL(access, SAC),
	CALL(readlink, SAC),
	CALL(epoll_wait, SAC),
	CALL(poll, SAC),
	CALL(time, SAC),
	CALL(getrlimit, SAC),
	CALL(unlink, SAC),
	CALL(fork, AC),
	CALL(dup2, AC),
#endif
};

/* Names, for the log, of system calls that can be refused: calls that no mode may make, and calls
 * that calls[] allows only in some modes or with some arguments. */
static const struct {
	const char *name;
	int nr;
} others[] = {
#define OTHER(name) {#name, SYS_##name},
	OTHER(execve) OTHER(execveat) OTHER(ptrace) OTHER(mount) OTHER(umount2) OTHER(bpf) OTHER(keyctl) OTHER(
		add_key) OTHER(request_key) OTHER(setns) OTHER(unshare) OTHER(clone3) OTHER(socket) OTHER(socketpair)
		OTHER(listen) OTHER(bind) OTHER(connect) OTHER(mmap) OTHER(mprotect) OTHER(prctl) OTHER(
			ioctl) OTHER(clone) OTHER(kill) OTHER(init_module) OTHER(finit_module) OTHER(delete_module) OTHER(kexec_load)
			OTHER(reboot) OTHER(perf_event_open) OTHER(process_vm_readv) OTHER(process_vm_writev) OTHER(
				userfaultfd) OTHER(io_uring_setup) OTHER(pidfd_getfd) OTHER(chroot) OTHER(pivot_root)
				OTHER(setuid) OTHER(setgid) OTHER(setgroups) OTHER(setresuid) OTHER(capset) OTHER(
					seccomp) OTHER(linkat) OTHER(symlinkat) OTHER(mknodat) OTHER(fchmodat)
					OTHER(fchown) OTHER(fchownat) OTHER(utimensat) OTHER(
						memfd_create) OTHER(eventfd2) OTHER(timerfd_create) OTHER(signalfd4)
						OTHER(inotify_init1) OTHER(sysinfo) OTHER(statfs) OTHER(fstatfs) OTHER(
							getdents64) OTHER(sched_getaffinity) OTHER(name_to_handle_at)
							OTHER(open_by_handle_at) OTHER(quotactl) OTHER(
								sethostname) OTHER(clock_settime) OTHER(settimeofday)
								OTHER(personality) OTHER(syslog) OTHER(
									mkdirat) OTHER(renameat) OTHER(renameat2)
									OTHER(flock) OTHER(fsync) OTHER(
										ftruncate) OTHER(fchmod)
										OTHER(copy_file_range) OTHER(
											sendfile) OTHER(splice)
											OTHER(wait4) OTHER(
												waitid)
												OTHER(pipe2) OTHER(
													setitimer)
													OTHER(sched_setaffinity)
#undef OTHER
};

/* System calls that, if the mode's list refuses them, fail with EPERM instead of SIGSYS: musl
 * blocks all signals around them, so SIGSYS would end the process without a line in the log. */
static const int silent[] = {
	SYS_clone,     SYS_setuid,    SYS_setgid,   SYS_setgroups,
	SYS_setresuid, SYS_setresgid, SYS_setreuid, SYS_setregid,
#ifdef SYS_fork
	SYS_fork,      SYS_vfork,
#endif
};

/* --- log of refused system calls --- */

enum { CALLS_MAX = 1024 };

static const char *name_of(int nr)
{
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		if (others[i].nr == nr)
			return others[i].name;
	for (size_t i = 0; i < ARRAY_LEN(calls); i++)
		if (calls[i].nr == nr)
			return calls[i].name;
	return "unknown";
}

/* SIGSYS handler. The kernel has not executed the call: the handler sets the result of the call. A
 * signal handler may use log_write(), which allocates nothing and makes only allowed system
 * calls. */
static void on_refused(int signal, siginfo_t *info, void *context)
{
	static unsigned char seen[CALLS_MAX / 8];
	ucontext_t *u = context;
	int nr = info->si_syscall;
	unsigned int at = (unsigned int)nr % CALLS_MAX;

	(void)signal;
#if defined(__x86_64__)
	u->uc_mcontext.gregs[REG_RAX] = -EPERM;
#else
	u->uc_mcontext.regs[0] = (unsigned long)-EPERM;
#endif
	if (seen[at / 8] & 1 << at % 8)
		return;
	seen[at / 8] |= (unsigned char)(1 << at % 8);
	log_error("the sandbox refused a system call that this mode does not need; if a function "
		  "fails because of that, set sandbox = off and report the system call",
		  LOG_S("call", name_of(nr)), LOG_I("number", nr));
}

static int listen_to_refusals(struct err *e)
{
	struct sigaction a = {.sa_sigaction = on_refused, .sa_flags = SA_SIGINFO | SA_RESTART};
	sigset_t set;

	if (sigaction(SIGSYS, &a, NULL) < 0)
		return err_sys(e, -errno, "seccomp: handle SIGSYS");
	sigemptyset(&set);
	sigaddset(&set, SIGSYS);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	return 0;
}

/* --- the seccomp filter --- */

#define LOAD(member)	   BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(member))
#define RETURN(what)	   BPF_STMT(BPF_RET | BPF_K, (uint32_t)(what))
#define IF(op, k, yes, no) BPF_JUMP(BPF_JMP | (op) | BPF_K, (uint32_t)(k), yes, no)

enum { HEAD_MAX = 8, ROW_MAX = 4 + 2 * VALUES_MAX };

/* Appends the instructions that follow the comparison of the call's number: they allow the call
 * (ANY), or test the condition on its argument. */
static size_t put_rule(struct sock_filter *f, const struct call *c, uint32_t refuse)
{
	size_t n = 0;

	if (c->rule == ANY) {
		f[n++] = (struct sock_filter)RETURN(SECCOMP_RET_ALLOW);
		return n;
	}
	/* x86_64 and arm64 are little-endian: the low 32 bits of an argument come first */
	f[n++] = (struct sock_filter)LOAD(offsetof(struct seccomp_data, args) +
					  sizeof(uint64_t) * (size_t)c->arg);
	for (size_t i = 0; i < c->n; i++) {
		if (c->rule == ONE_OF)
			f[n++] = (struct sock_filter)IF(BPF_JEQ, c->values[i], 0, 1);
		else
			f[n++] = (struct sock_filter)IF(BPF_JSET, c->values[i], 1, 0);
		f[n++] = (struct sock_filter)RETURN(SECCOMP_RET_ALLOW);
	}
	f[n++] = (struct sock_filter)RETURN(refuse);
	return n;
}

static size_t put_head(struct sock_filter *f)
{
	size_t n = 0;

	f[n++] = (struct sock_filter)LOAD(offsetof(struct seccomp_data, arch));
	f[n++] = (struct sock_filter)IF(BPF_JEQ, ARCH, 1, 0);
	f[n++] = (struct sock_filter)RETURN(SECCOMP_RET_KILL_PROCESS);
	f[n++] = (struct sock_filter)LOAD(offsetof(struct seccomp_data, nr));
#ifdef __x86_64__
	f[n++] = (struct sock_filter)IF(BPF_JGE, X32, 0, 1);
	f[n++] = (struct sock_filter)RETURN(SECCOMP_RET_KILL_PROCESS);
#endif
	return n;
}

static size_t put_filter(struct sock_filter *f, enum sandbox_mode mode, uint32_t refuse)
{
	size_t n = put_head(f);

	for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
		size_t body;

		if (!(calls[i].modes & 1 << mode))
			continue;
		body = put_rule(f + n + 1, &calls[i], refuse);
		f[n] = (struct sock_filter)IF(BPF_JEQ, calls[i].nr, 0, (uint8_t)body);
		n += body + 1;
	}
	for (size_t i = 0; i < ARRAY_LEN(silent) && refuse == SECCOMP_RET_TRAP; i++) {
		f[n++] = (struct sock_filter)IF(BPF_JEQ, silent[i], 0, 1);
		f[n++] = (struct sock_filter)RETURN(SECCOMP_RET_ERRNO | EPERM);
	}
	f[n++] = (struct sock_filter)RETURN(refuse);
	return n;
}

static bool can_log(void)
{
	uint32_t action = SECCOMP_RET_LOG;

	return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

int sandbox_calls(enum sandbox_mode mode, bool log_only, struct err *e)
{
	struct sock_filter f[HEAD_MAX + ARRAY_LEN(calls) * ROW_MAX + ARRAY_LEN(silent) * 2 + 1];
	struct sock_fprog prog = {.filter = f};
	int r;

#ifdef __SANITIZE_ADDRESS__
	return err_set(e, -EOPNOTSUPP, "seccomp: not available in a build with AddressSanitizer");
#endif
	if (log_only && !can_log())
		return err_set(e, -EOPNOTSUPP,
			       "the kernel cannot log system calls that a "
			       "seccomp filter refuses");
	r = log_only ? 0 : listen_to_refusals(e);
	if (r < 0)
		return r;
	prog.len =
		(unsigned short)put_filter(f, mode, log_only ? SECCOMP_RET_LOG : SECCOMP_RET_TRAP);
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) == 0)
		return 0;
	if (errno == ENOSYS || errno == EINVAL)
		return err_set(e, -EOPNOTSUPP, "the kernel has no seccomp filters");
	return err_sys(e, -errno, "seccomp: install the filter");
}

/* --- Landlock --- */

/* Constants that the headers of the build lack. */
enum { FS_TRUNCATE = 1 << 14, FS_IOCTL_DEV = 1 << 15, NET_BIND_TCP = 1, SCOPE_ALL = 3 };

/* struct landlock_ruleset_attr of ABI 6 */
struct ruleset {
	uint64_t fs, net, scoped;
};

enum {
	READ = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR,
	WRITE = READ | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_FILE |
		LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
		LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_REFER | FS_TRUNCATE,
	/* those rights of WRITE that the kernel accepts for a path that is not a directory */
	OF_FILES = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | FS_TRUNCATE,
};

static const uint64_t rights[] = {
	[SANDBOX_READ] = READ,
	[SANDBOX_WRITE] = WRITE,
	[SANDBOX_SOCKETS] = WRITE | LANDLOCK_ACCESS_FS_MAKE_SOCK,
	[SANDBOX_REMOVE] = LANDLOCK_ACCESS_FS_REMOVE_FILE,
};

static struct ruleset handled(int abi)
{
	struct ruleset s = {.fs = LANDLOCK_ACCESS_FS_REFER - 1};

	if (abi >= 2)
		s.fs |= LANDLOCK_ACCESS_FS_REFER;
	if (abi >= 3)
		s.fs |= FS_TRUNCATE;
	if (abi >= 4)
		s.net = NET_BIND_TCP;
	if (abi >= 5)
		s.fs |= FS_IOCTL_DEV;
	if (abi >= 6)
		s.scoped = SCOPE_ALL;
	return s;
}

static int new_set(const struct ruleset *s, int abi)
{
	size_t size = abi >= 6	 ? sizeof(*s)
		      : abi >= 4 ? offsetof(struct ruleset, scoped)
				 : offsetof(struct ruleset, net);

	return (int)syscall(SYS_landlock_create_ruleset, s, size, 0);
}

static int add_path(int set, const struct ruleset *s, const struct sandbox_path *p, struct err *e)
{
	auto_fd int fd = open(p->path, O_PATH | O_CLOEXEC);
	struct landlock_path_beneath_attr rule = {.allowed_access = rights[p->right] & s->fs,
						  .parent_fd = fd};
	struct stat st;

	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR || errno == EACCES
			       ? 0
			       : err_sys(e, -errno, "open '%s'", p->path);
	if (fstat(fd, &st) == 0 && !S_ISDIR(st.st_mode))
		rule.allowed_access &= OF_FILES;
	if (rule.allowed_access == 0)
		return 0;
	if (syscall(SYS_landlock_add_rule, set, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
		return err_sys(e, -errno, "Landlock: allow '%s'", p->path);
	return 0;
}

int sandbox_paths(const struct sandbox_path *v, size_t n, int *abi, struct err *e)
{
	auto_fd int set = -1;
	struct ruleset s;
	int version, r = 0;

#ifdef __SANITIZE_ADDRESS__
	return err_set(e, -EOPNOTSUPP, "Landlock: not available in a build with AddressSanitizer");
#endif
	version =
		(int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	if (version < 1)
		return err_set(e, -EOPNOTSUPP,
			       "the kernel has no Landlock, or the container "
			       "runtime's seccomp profile refuses it");
	s = handled(version);
	set = new_set(&s, version);
	if (set < 0)
		return err_sys(e, -errno, "Landlock: create a ruleset");
	for (size_t i = 0; i < n && r == 0; i++)
		r = add_path(set, &s, &v[i], e);
	if (r == 0 && syscall(SYS_landlock_restrict_self, set, 0) < 0)
		r = err_sys(e, -errno, "Landlock: restrict this process");
	if (r == 0)
		*abi = version;
	return r;
}
