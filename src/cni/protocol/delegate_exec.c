/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/protocol/delegate_exec.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/loop.h"

enum { BUSY_MS = 5000, BUSY_STEP_MS = 50 };

/* A file in memory: the child may read as slowly as it likes, or not at all. */
static int input_file(struct span in, int *ret, struct err *e)
{
	auto_fd int fd = memfd_create("cni-stdin", MFD_CLOEXEC);
	int r;

	if (fd < 0)
		return err_sys(e, -errno, "memfd_create");
	r = fd_write_all(fd, in.p, in.n, e);
	if (r < 0)
		return r;
	if (lseek(fd, 0, SEEK_SET) < 0)
		return err_sys(e, -errno, "lseek");
	*ret = take_fd(&fd);
	return 0;
}

/* Signals as a program expects them, whatever a daemon made of its own. */
static void set_signals(posix_spawnattr_t *attr)
{
	sigset_t set;

	sigemptyset(&set);
	posix_spawnattr_setsigmask(attr, &set);
	sigaddset(&set, SIGPIPE);
	posix_spawnattr_setsigdefault(attr, &set);
	posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

static int spawn(const char *path, char *const env[], const int fds[static 3], pid_t *pid)
{
	char *argv[] = {(char *)path, NULL};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	int r;

	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attr);
	for (int i = 0; i < 3; i++)
		posix_spawn_file_actions_adddup2(&actions, fds[i], i);
	set_signals(&attr);
	r = posix_spawn(pid, path, &actions, &attr, argv, env);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&actions);
	return -r;
}

static int spawn_patiently(const char *path, char *const env[], const int fds[static 3], pid_t *pid,
			   struct err *e)
{
	int64_t deadline = now_mono_ms() + BUSY_MS;
	int r;

	while ((r = spawn(path, env, fds, pid)) == -ETXTBSY && now_mono_ms() < deadline)
		nanosleep(&(struct timespec){.tv_nsec = BUSY_STEP_MS * 1000000L}, NULL);
	return r < 0 ? err_sys(e, r, "execute '%s'", path) : 0;
}

/* One read; false at the end. Past the ceiling the rest is read and dropped. */
static bool drain(int fd, struct buf *b)
{
	char chunk[4096];
	ssize_t n;

	do
		n = read(fd, chunk, sizeof(chunk));
	while (n < 0 && errno == EINTR);
	if (n > 0)
		buf_add(b, chunk, (size_t)n);
	return n > 0;
}

/*
 * Until both pipes are at their end, or the child has ended and they are empty. A kernel without
 * pidfd_open has -1 there, which poll() passes over.
 */
static void gather(int pidfd, int out, struct buf *out_buf, int err, struct buf *err_buf)
{
	struct pollfd fds[] = {{out, POLLIN, 0}, {err, POLLIN, 0}, {pidfd, POLLIN, 0}};
	struct buf *bufs[] = {out_buf, err_buf};

	while (fds[0].fd >= 0 || fds[1].fd >= 0) {
		bool ended = fds[2].revents;
		int n = poll(fds, ARRAY_LEN(fds), ended ? 0 : -1);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 || (ended && !fds[0].revents && !fds[1].revents))
			return;
		for (int i = 0; i < 2; i++)
			if (fds[i].fd >= 0 && fds[i].revents && !drain(fds[i].fd, bufs[i]))
				fds[i].fd = -1;
	}
}

static int wait_for(pid_t pid, int *status, struct err *e)
{
	pid_t r;

	do
		r = waitpid(pid, status, 0);
	while (r < 0 && errno == EINTR);
	return r < 0 ? err_sys(e, -errno, "waitpid") : 0;
}

int delegate_exec(const char *path, char *const env[], struct span in, struct buf *out,
		  struct buf *err, int *status, struct err *e)
{
	auto_fd int input = -1, out_r = -1, out_w = -1, err_r = -1, err_w = -1, pidfd = -1;
	int p[2], q[2], r = input_file(in, &input, e);
	pid_t pid;

	if (r < 0)
		return r;
	if (pipe2(p, O_CLOEXEC) < 0)
		return err_sys(e, -errno, "pipe2");
	out_r = p[0];
	out_w = p[1];
	if (pipe2(q, O_CLOEXEC) < 0)
		return err_sys(e, -errno, "pipe2");
	err_r = q[0];
	err_w = q[1];
	r = spawn_patiently(path, env, (int[]){input, out_w, err_w}, &pid, e);
	if (r < 0)
		return r;
	close(take_fd(&out_w));
	close(take_fd(&err_w));
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	gather(pidfd, out_r, out, err_r, err);
	return wait_for(pid, status, e);
}
