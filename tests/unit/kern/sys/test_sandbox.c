/* SPDX-License-Identifier: Apache-2.0 */
/* The sandbox of each mode: calls that the mode needs succeed, other calls fail. */
#include "testlib.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "kern/sys/caps.h"
#include "kern/sys/sandbox.h"

/* Used in the child: if fn returns the result of a failed T_NEED() (its line % 255 + 1), the
 * caller returns it too, and it becomes the exit status. */
#define PASS(fn)                                                                                   \
	do {                                                                                       \
		int line = (fn);                                                                   \
                                                                                                   \
		if (line)                                                                          \
			return line;                                                               \
	} while (0)
#define REFUSED(x) T_NEED((x) < 0 && errno == EPERM)

struct place {
	char dir[T_DIR_MAX], in[80], out[80];
	struct root root;
};

static void place_make(struct place *p)
{
	t_dir_make(p->dir, &p->root);
	snprintf(p->in, sizeof(p->in), "%s/in", p->dir);
	snprintf(p->out, sizeof(p->out), "%s/out", p->dir);
	ASSERT_EQ(mkdir(p->in, 0755), 0);
	ASSERT_EQ(mkdir(p->out, 0755), 0);
}

static void place_drop(struct place *p)
{
	t_dir_remove(p->dir, &p->root);
}

static int in_child(int (*fn)(const struct place *p), struct place *p, char *said, size_t size)
{
	int status, out[2];
	size_t n = 0;
	ssize_t got;
	pid_t pid;

	ASSERT_EQ(pipe(out), 0);
	pid = fork();
	if (pid == 0) {
		dup2(out[1], STDERR_FILENO);
		_exit(fn(p));
	}
	close(out[1]);
	while ((got = read(out[0], said + n, size - 1 - n)) > 0)
		n += (size_t)got;
	said[n] = '\0';
	close(out[0]);
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	return status;
}

#ifdef __SANITIZE_ADDRESS__

static void test_sandbox_is_unsupported_with_sanitizers(void **state)
{
	struct err e = ERR_INIT;
	int abi;

	(void)state;
	(void)in_child;
	(void)place_make;
	(void)place_drop;
	ASSERT_EQ(sandbox_calls(SANDBOX_AGENT, false, &e), -EOPNOTSUPP);
	ASSERT_EQ(sandbox_paths(NULL, 0, &abi, &e), -EOPNOTSUPP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sandbox_is_unsupported_with_sanitizers)};

	return T_RUN(tests, NULL, NULL);
}

#else

/* --- system calls --- */

/* Tests system calls that no mode needs: they must be refused. */
static int refused_in_all_modes(void)
{
	char *const argv[] = {"/bin/true", NULL};
	void *p;

	REFUSED(ptrace(PTRACE_TRACEME, 0, 0, 0));
	REFUSED(mount("none", "/mnt", "tmpfs", 0, NULL));
	REFUSED(umount2("/mnt", 0));
	REFUSED(syscall(SYS_bpf, 0, NULL, 0));
	REFUSED(syscall(SYS_keyctl, 0, 0, 0, 0, 0));
	REFUSED(syscall(SYS_add_key, "user", "x", "x", 1, -1));
	REFUSED(socket(AF_PACKET, SOCK_RAW, 0));
	REFUSED(socket(AF_VSOCK, SOCK_STREAM, 0));
	REFUSED(execve(argv[0], argv, NULL));
	REFUSED(syscall(SYS_execveat, AT_FDCWD, argv[0], argv, NULL, 0));
	REFUSED(unshare(CLONE_NEWUSER));
	REFUSED(setns(0, 0));
	REFUSED(chroot("/"));
	REFUSED(syscall(SYS_io_uring_setup, 1, NULL));
	REFUSED(syscall(SYS_userfaultfd, 0));
	REFUSED(syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0));
	REFUSED(syscall(SYS_init_module, NULL, 0, ""));
	REFUSED(syscall(SYS_process_vm_readv, getpid(), NULL, 0, NULL, 0, 0));
	REFUSED(syscall(SYS_open_by_handle_at, 0, NULL, 0));
	REFUSED(syscall(SYS_clone, (long)(CLONE_NEWNET | SIGCHLD), 0L, 0L, 0L, 0L));
	REFUSED(syscall(SYS_prlimit64, 1, RLIMIT_CORE, NULL, NULL));
	T_NEED(prctl(PR_SET_NAME, "x") != 0);
	REFUSED(ioctl(0, SIOCGIFINDEX, (void *)NULL));
	REFUSED(syscall(SYS_capset, NULL, NULL));
	REFUSED(setuid(0));
	p = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	T_NEED(p == MAP_FAILED); /* musl reports ENOMEM instead of EPERM here */
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	T_NEED(p != MAP_FAILED);
	REFUSED(mprotect(p, 4096, PROT_READ | PROT_EXEC));
	T_NEED(mprotect(p, 4096, PROT_READ) == 0 && munmap(p, 4096) == 0);
	return 0;
}

/* Tests system calls that each mode needs: they must succeed. */
static int allowed_in_all_modes(void)
{
	struct timespec ts = {0, 1};
	auto_fd int ep = epoll_create1(EPOLL_CLOEXEC), fd = -1;
	char text[16], *big;

	/* refused, because a daemon creates its event loop before it enters the sandbox */
	T_NEED(ep < 0 && errno == EPERM);
	T_NEED(clock_gettime(CLOCK_REALTIME, &ts) == 0 &&
	       syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &ts) == 0);
	fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	T_NEED(fd >= 0 && write(fd, "x", 1) == 1 && read(fd, text, 1) == 0);
	big = malloc(8 << 20);
	T_NEED(big);
	big[0] = big[(8 << 20) - 1] = 1;
	big = realloc(big, 16 << 20);
	T_NEED(big && big[0] == 1);
	free(big);
	T_NEED(getpid() > 0);
	return 0;
}

static bool can_fork(void)
{
	pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(7);
	return pid > 0 && waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 7;
}

static int enter(enum sandbox_mode mode)
{
	T_NEED(caps_files_only(NULL) == 0);
	T_NEED(sandbox_calls(mode, false, NULL) == 0);
	PASS(refused_in_all_modes());
	PASS(allowed_in_all_modes());
	return 0;
}

static int as_ipam_serve(const struct place *p)
{
	PASS(enter(SANDBOX_IPAM_SERVE));
	REFUSED(socket(AF_INET, SOCK_STREAM, 0));
	REFUSED(socket(AF_UNIX, SOCK_STREAM, 0));
	REFUSED(socket(AF_NETLINK, SOCK_RAW, 0));
	T_NEED(!can_fork() && errno == EPERM);
	REFUSED(chdir(p->in));
	return 0;
}

static int with_cluster(enum sandbox_mode mode)
{
	int fd;

	PASS(enter(mode));
	fd = socket(AF_INET6, SOCK_STREAM, 0);
	T_NEED(fd >= 0);
	/*
	 * An agent opens sockets of device plugins again when the kubelet restarts, and reads
	 * devices by netlink.
	 */
	if (mode == SANDBOX_AGENT) {
		T_NEED(listen(fd, 1) == 0);
		close(fd);
		fd = socket(AF_NETLINK, SOCK_RAW, 0);
		T_NEED(fd >= 0);
	} else {
		REFUSED(listen(fd, 1));
		REFUSED(socket(AF_NETLINK, SOCK_RAW, 0));
	}
	close(fd);
	T_NEED(can_fork());
	return 0;
}

static int as_agent(const struct place *p)
{
	auto_free char *file = xasprintf("%s/file", p->in), *to = xasprintf("%s/to", p->in);
	int fd;

	PASS(with_cluster(SANDBOX_AGENT));
	fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	T_NEED(fd >= 0 && fsync(fd) == 0 && flock(fd, LOCK_EX) == 0 && ftruncate(fd, 0) == 0);
	T_NEED(renameat(AT_FDCWD, file, AT_FDCWD, to) == 0);
	return 0;
}

static int as_controller(const struct place *p)
{
	auto_free char *to = xasprintf("%s/to", p->in);

	PASS(with_cluster(SANDBOX_CONTROLLER));
	REFUSED(renameat(AT_FDCWD, p->in, AT_FDCWD, to));
	REFUSED(mkdirat(AT_FDCWD, to, 0755));
	return 0;
}

static void test_system_calls_that_a_mode_does_not_need_are_refused(void **state)
{
	int (*const modes[])(const struct place *p) = {as_ipam_serve, as_agent, as_controller};
	static char said[64 << 10];
	struct place p;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
		const char *first;

		place_make(&p);
		ASSERT_EQ_MSG(in_child(modes[i], &p, said, sizeof(said)), 0, "modes[%zu]", i);
		/* A call that is refused several times, here socket(), is logged once, with its
		 * name. */
		first = strstr(said, "call=socket ");
		assert_non_null(first);
		assert_null(strstr(first + 1, "call=socket "));
		assert_non_null(strstr(said, "call=ptrace number="));
		assert_non_null(strstr(said, "level=error"));
		place_drop(&p);
	}
}

#ifdef __x86_64__
/* Calls getpid(2) of i386 by the i386 system call gate. */
static int by_another_gate(const struct place *p)
{
	long r;

	(void)p;
	T_NEED(caps_files_only(NULL) == 0 && sandbox_calls(SANDBOX_AGENT, false, NULL) == 0);
	__asm__ volatile("int $0x80" : "=a"(r) : "a"(20L) : "memory");
	return 1;
}

static int by_x32(const struct place *p)
{
	(void)p;
	T_NEED(caps_files_only(NULL) == 0 && sandbox_calls(SANDBOX_AGENT, false, NULL) == 0);
	syscall(0x40000000 | SYS_getpid);
	return 1;
}

static void test_system_call_of_another_architecture_kills_the_process(void **state)
{
	char said[4096];
	struct place p;
	int status;

	(void)state;
	place_make(&p);
	status = in_child(by_x32, &p, said, sizeof(said));
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
	/* SIGSEGV on a kernel without the i386 gate */
	status = in_child(by_another_gate, &p, said, sizeof(said));
	assert_true(WIFSIGNALED(status) &&
		    (WTERMSIG(status) == SIGSYS || WTERMSIG(status) == SIGSEGV));
	place_drop(&p);
}
#endif

static int only_logs(const struct place *p)
{
	(void)p;
	T_NEED(caps_files_only(NULL) == 0 && sandbox_calls(SANDBOX_AGENT, true, NULL) == 0);
	T_NEED(prctl(PR_SET_NAME, "x") == 0);
	return 0;
}

static void test_sandbox_in_log_mode_refuses_nothing(void **state)
{
	char said[4096];
	struct place p;

	(void)state;
	place_make(&p);
	ASSERT_EQ(in_child(only_logs, &p, said, sizeof(said)), 0);
	ASSERT_STR_EQ(said, "");
	place_drop(&p);
}

/* --- paths --- */

static int confined(const struct place *p)
{
	auto_free char *inside = xasprintf("%s/x", p->in), *outside = xasprintf("%s/x", p->out);
	auto_free char *to = xasprintf("%s/sub/y", p->in), *sub = xasprintf("%s/sub", p->in);
	auto_free char *read_only = xasprintf("%s/read", p->dir);
	const struct sandbox_path v[] = {
		{p->in, SANDBOX_WRITE},
		{read_only, SANDBOX_READ},
		{"/no/such/folder", SANDBOX_WRITE},
		{"/dev/null", SANDBOX_WRITE},
	};
	auto_fd int fd = -1, other = -1;
	struct root root;
	int abi = 0;

	T_NEED(mkdir(read_only, 0755) == 0);
	T_NEED(root_open(&root, NULL, NULL) == 0);
	T_NEED(caps_files_only(NULL) == 0);
	T_NEED(sandbox_paths(v, ARRAY_LEN(v), &abi, NULL) == 0 && abi >= 1);
	T_NEED(file_replace(&root, inside, span_of("x"), 0600, NULL) == 0);
	T_NEED(mkdir(sub, 0755) == 0 && file_rename(&root, inside, to, true, NULL) == 0);
	T_NEED(file_remove(&root, to, NULL) == 0 && rmdir(sub) == 0);
	fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	T_NEED(fd >= 0);
	T_NEED(file_replace(&root, outside, span_of("x"), 0600, NULL) == -EACCES);
	T_NEED(open("/etc/passwd", O_RDONLY) < 0 && errno == EACCES);
	T_NEED(open("/proc/1/environ", O_RDONLY) < 0 && errno == EACCES);
	T_NEED(open("/sys/kernel/uevent_helper", O_WRONLY) < 0);
	T_NEED(mkdir(outside, 0755) < 0 && errno == EACCES);
	T_NEED(rmdir(p->out) < 0 && errno == EACCES);
	T_NEED(mknod(inside, S_IFIFO | 0600, 0) < 0 && errno == EACCES);
	T_NEED(symlink("/", inside) < 0 && errno == EACCES);
	other = open(read_only, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	T_NEED(other >= 0 && openat(other, "x", O_WRONLY | O_CREAT, 0600) < 0 && errno == EACCES);
	root_close(&root);
	return 0;
}

static void test_paths_outside_of_the_sandbox_are_refused(void **state)
{
	char said[4096];
	struct place p;

	(void)state;
	place_make(&p);
	ASSERT_EQ(in_child(confined, &p, said, sizeof(said)), 0);
	place_drop(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_system_calls_that_a_mode_does_not_need_are_refused),
#ifdef __x86_64__
		cmocka_unit_test(test_system_call_of_another_architecture_kills_the_process),
#endif
		cmocka_unit_test(test_sandbox_in_log_mode_refuses_nothing),
		cmocka_unit_test(test_paths_outside_of_the_sandbox_are_refused),
	};

	return T_RUN(tests, NULL, NULL);
}

#endif
