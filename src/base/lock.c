/* SPDX-License-Identifier: Apache-2.0 */
/* Lock files: the last part of file.h. */
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/loop.h"
#include "base/path.h"

/* flock until `deadline` (-1: no end), looking again after 5, 10, 20, 40, 50, 50 ms ... */
static int flock_until(int fd, int64_t deadline)
{
	int64_t pause = 5;

	while (flock(fd, deadline < 0 ? LOCK_EX : LOCK_EX | LOCK_NB) < 0) {
		int64_t left = deadline - now_mono_ms();

		if (errno == EINTR)
			continue;
		if (errno != EWOULDBLOCK)
			return -errno;
		if (left <= 0)
			return -EWOULDBLOCK;
		if (pause > left)
			pause = left;
		nanosleep(&(struct timespec){.tv_nsec = pause * 1000000}, NULL);
		pause = pause < 25 ? pause * 2 : 50;
	}
	return 0;
}

static int64_t deadline_of(int timeout_ms)
{
	return timeout_ms < 0 ? -1 : now_mono_ms() + timeout_ms;
}

int lock_fd(int fd, int timeout_ms)
{
	return flock_until(fd, deadline_of(timeout_ms));
}

/* Somebody may remove the file while we wait: a lock on a file without a name guards nothing. */
static int check_file(int fd, const char *path, struct err *e)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_sys(e, -errno, "stat '%s'", path);
	return st.st_nlink == 0 ? -EAGAIN : path_check_kind(&st, path, e);
}

int lock_take(const struct root *r, const char *path, int timeout_ms, int *fd, struct err *e)
{
	int64_t deadline = deadline_of(timeout_ms);

	for (;;) {
		auto_fd int f = path_open(r, path, O_RDWR | O_CREAT | O_NONBLOCK, 0600);
		char why[PATH_HINT_MAX];
		int n;

		if (f < 0)
			return err_sys(e, f, "lock: open '%s'%s", path, path_hint(r, path, f, why));
		n = flock_until(f, deadline);
		if (n == -EWOULDBLOCK)
			return err_kind(e, ERR_AGAIN, n,
					"lock '%s': another process held it for %d ms", path,
					timeout_ms);
		if (n < 0)
			return err_sys(e, n, "lock '%s'", path);
		n = check_file(f, path, e);
		if (n == 0)
			*fd = take_fd(&f);
		if (n != -EAGAIN)
			return n < 0 ? err_wrap(e, n, "lock") : 0;
	}
}
