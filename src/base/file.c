/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/loop.h"
#include "base/path.h"
#include "base/sweep.h"

int root_open(struct root *r, const char *dir, struct err *e)
{
	int fd;

	if (!dir || !*dir)
		dir = "/";
	fd = openat(AT_FDCWD, dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, -errno, "open root directory '%s'", dir);
	*r = (struct root){.fd = fd, .host = strcmp(dir, "/") == 0};
	return 0;
}

void root_close(struct root *r)
{
	cleanup_fd(&r->fd);
	r->fd = -1;
}

/* path_hint() returns a suffix for an error about `path`: "", or a text that starts with a
 * space. After -ELOOP below a strict root the suffix names the refused symbolic link. */
enum { PATH_HINT_MAX = 400 };

static const char *path_hint(const struct root *r, const char *path, int code,
			     char buf[static PATH_HINT_MAX])
{
	char link[PATH_HINT_MAX - 150];

	if (path[0] != '/')
		return " (must be an absolute path)";
	if (code == -ENOSYS && !r->host)
		return " (a root other than '/' needs openat2, Linux 5.6)";
	if (code != -ELOOP || !path_refused(r, path, link, sizeof(link)))
		return "";
	snprintf(
		buf, PATH_HINT_MAX,
		" ('%s' is a symbolic link that users other than root can change: use its target, or "
		"chown -h root the link, and chown root and chmod go-w its directory)",
		link);
	return buf;
}

static int path_check_kind(const struct stat *st, const char *path, struct err *e)
{
	if (S_ISREG(st->st_mode) || S_ISDIR(st->st_mode))
		return 0;
	return err_set(e, -EINVAL, "file '%s' is %s, expected a regular file", path,
		       S_ISFIFO(st->st_mode)  ? "a FIFO"
		       : S_ISLNK(st->st_mode) ? "a symbolic link"
					      : "a device");
}

/* Opens a file of any type. */
static int open_any(const struct root *r, const char *path, int flags, mode_t mode, struct err *e)
{
	int fd = path_open(r, path, flags, mode);
	char reason[PATH_HINT_MAX];

	if (fd < 0)
		return err_sys(e, fd, "open '%s'%s", path, path_hint(r, path, fd, reason));
	return fd;
}

static int check_kind(int fd, const char *path, struct err *e)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_sys(e, -errno, "stat '%s'", path);
	return path_check_kind(&st, path, e);
}

int file_open(const struct root *r, const char *path, int flags, mode_t mode, struct err *e)
{
	auto_fd int fd = open_any(r, path, flags, mode, e);
	int n = 0;

	if (fd < 0)
		return fd;
	if (r->strict && r->host && !(flags & (O_PATH | O_DIRECTORY)) && !path_is_kernels(path))
		n = check_kind(fd, path, e);
	return n < 0 ? n : take_fd(&fd);
}

bool file_exists(const struct root *r, const char *path)
{
	auto_fd int fd = path_open(r, path, O_PATH, 0);

	return fd >= 0;
}

int file_lstat(const struct root *r, const char *path, struct stat *ret, struct err *e)
{
	auto_fd int fd = file_open(r, path, O_PATH | O_NOFOLLOW, 0, e);

	if (fd < 0)
		return fd;
	if (fstat(fd, ret) < 0)
		return err_sys(e, -errno, "stat '%s'", path);
	return 0;
}

int fd_read_all(int fd, size_t max, struct buf *into, struct err *e)
{
	size_t start = into->len;
	char chunk[4096];

	for (;;) {
		ssize_t n = read(fd, chunk, sizeof(chunk));

		if (n == 0)
			return 0;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, -errno, "read");
		if ((size_t)n > max - (into->len - start))
			return err_set(e, -EFBIG, "read: more than %zu bytes", max);
		buf_add(into, chunk, (size_t)n);
		if (into->over)
			return err_set(e, -EFBIG, "read: more than %zu bytes", into->max - start);
	}
}

int fd_write_all(int fd, const void *p, size_t n, struct err *e)
{
	const char *at = p;

	while (n > 0) {
		ssize_t done = write(fd, at, n);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return err_sys(e, -errno, "write");
		at += done;
		n -= (size_t)done;
	}
	return 0;
}

/*
 * Opens a file to read its content. Refuses a FIFO: a process that can write to the directory could
 * create one, and open() would wait until a process opens it for writing. A path below /dev or
 * /proc is not checked, so that a user can name a pipe on the command line: "kubectl config view |
 * unirail --kubeconfig /dev/stdin".
 */
static int open_content(const struct root *r, const char *path, struct err *e)
{
	bool any = strncmp(path, "/dev/", 5) == 0 || strncmp(path, "/proc/", 6) == 0;
	auto_fd int fd = open_any(r, path, any ? O_RDONLY : O_RDONLY | O_NONBLOCK, 0, e);
	int n = 0;

	if (fd >= 0 && !any)
		n = check_kind(fd, path, e);
	return n < 0 ? n : take_fd(&fd);
}

int file_read(const struct root *r, const char *path, size_t max, struct buf *into, struct err *e)
{
	auto_fd int fd = open_content(r, path, e);
	int n;

	if (fd < 0)
		return fd;
	n = fd_read_all(fd, max, into, e);
	return n < 0 ? err_wrap(e, n, "file '%s'", path) : 0;
}

int file_read_line(const struct root *r, const char *path, char *ret, size_t size, struct err *e)
{
	auto_fd int fd = file_open(r, path, O_RDONLY, 0, e);
	char line[4096], *end = NULL;
	size_t len = 0;

	if (fd < 0)
		return fd;
	while (!end && len < sizeof(line)) {
		ssize_t n = read(fd, line + len, sizeof(line) - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, -errno, "read '%s'", path);
		end = memchr(line + len, '\n', (size_t)n);
		len += (size_t)n;
		if (n == 0)
			end = line + len;
	}
	if (!end || (size_t)(end - line) >= size)
		return err_set(e, -EFBIG, "read '%s': first line is longer than %zu bytes", path,
			       (size < sizeof(line) ? size : sizeof(line)) - 1);
	memcpy(ret, line, (size_t)(end - line));
	ret[end - line] = '\0';
	return 0;
}

int file_write_attr(const struct root *r, const char *path, const char *value, struct err *e)
{
	/* O_TRUNC truncates the plain files of a recorded tree; sysfs ignores it */
	auto_fd int fd = file_open(r, path, O_WRONLY | O_TRUNC, 0, e);
	size_t len = strlen(value);
	ssize_t n;

	if (fd < 0)
		return fd;
	do
		n = write(fd, value, len);
	while (n < 0 && errno == EINTR);
	if (n != (ssize_t)len)
		return err_sys(e, n < 0 ? -errno : -EIO, "write '%.*s' to '%s'",
			       (int)strcspn(value, "\n"), value, path);
	return 0;
}

int file_temp_open(const struct root *r, const char *path, mode_t mode, struct file_temp *t,
		   struct err *e)
{
	struct file_temp n = FILE_TEMP_INIT;
	int err = path_parent(r, path, n.base, &n.dir);
	char reason[PATH_HINT_MAX];

	if (err < 0)
		return err_sys(e, err, "open the directory of '%s'%s", path,
			       path_hint(r, path, err, reason));
	do {
		path_temp_name(n.base, n.name);
		n.fd = openat(n.dir, n.name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode & 07777);
	} while (n.fd < 0 && (errno == EEXIST || errno == EINTR));
	err = n.fd < 0 ? -errno : 0;
	if (err < 0)
		n.name[0] = '\0';
	if (err == 0 && fchmod(n.fd, mode & 07777) < 0)
		err = -errno;
	if (err < 0) {
		file_temp_abort(&n);
		return err_sys(e, err, "create a temporary file for '%s'", path);
	}
	*t = n;
	return 0;
}

int file_temp_commit(struct file_temp *t, struct err *e)
{
	int r = fsync(t->fd) < 0 ? -errno : 0;

	/* closed before the rename: executing a file that is open for writing fails with ETXTBSY */
	if (close(t->fd) < 0 && r == 0)
		r = -errno;
	t->fd = -1;
	if (r < 0)
		err_sys(e, r, "fsync '%s'", t->name);
	else if (renameat(t->dir, t->name, t->dir, t->base) < 0)
		r = err_sys(e, -errno, "rename '%s' to '%s'", t->name, t->base);
	else
		t->name[0] = '\0';
	if (r == 0) {
		r = path_sync_dir(t->dir);
		if (r < 0)
			err_sys(e, r, "fsync the directory of '%s'", t->base);
	}
	file_temp_abort(t);
	return r;
}

void file_temp_abort(struct file_temp *t)
{
	int saved = errno;

	if (t->dir >= 0 && t->name[0])
		unlinkat(t->dir, t->name, 0);
	cleanup_fd(&t->fd);
	cleanup_fd(&t->dir);
	*t = (struct file_temp)FILE_TEMP_INIT;
	errno = saved;
}

int file_replace(const struct root *r, const char *path, struct span data, mode_t mode,
		 struct err *e)
{
	auto_file_temp struct file_temp t = FILE_TEMP_INIT;
	int n = file_temp_open(r, path, mode, &t, e);

	if (n < 0)
		return n;
	n = fd_write_all(t.fd, data.p, data.n, e);
	if (n == 0)
		n = file_temp_commit(&t, e);
	return n < 0 ? err_wrap(e, n, "replace '%s'", path) : 0;
}

/* --- functions that remove, create, list, link and rename names --- */

int file_remove(const struct root *r, const char *path, struct err *e)
{
	char base[PATH_NAME_MAX];
	auto_fd int dir = -1;
	int n = path_parent(r, path, base, &dir);
	char reason[PATH_HINT_MAX];

	if (n == 0 && unlinkat(dir, base, 0) < 0)
		n = -errno;
	if (n < 0 && n != -ENOENT)
		return err_sys(e, n, "remove '%s'%s", path, path_hint(r, path, n, reason));
	return 0;
}

/* Returns 0 if the path is a directory, or -errno. */
static int check_dir(const struct root *r, const char *path)
{
	auto_fd int fd = path_open(r, path, O_PATH | O_DIRECTORY, 0);

	return fd < 0 ? fd : 0;
}

/* Creates one directory; an existing one is success. */
static int make_one(const struct root *r, const char *path, mode_t mode)
{
	char base[PATH_NAME_MAX];
	auto_fd int dir = -1;
	int n = path_parent(r, path, base, &dir);

	if (n < 0)
		return n;
	if (mkdirat(dir, base, mode) == 0)
		return 0;
	n = -errno;
	return n == -EEXIST ? check_dir(r, path) : n;
}

int dir_make(const struct root *r, const char *path, mode_t mode, struct err *e)
{
	char part[PATH_MAX], reason[PATH_HINT_MAX];
	size_t len = strlen(path);
	int n = 0;

	if (check_dir(r, path) == 0)
		return 0;
	if (path[0] != '/' || len >= sizeof(part))
		return err_sys(e, path[0] != '/' ? -EINVAL : -ENAMETOOLONG, "create directory '%s'",
			       path);
	for (size_t i = 1; i <= len && n == 0; i++) {
		if (path[i] != '/' && path[i] != '\0')
			continue;
		if (path[i - 1] == '/')
			continue;
		memcpy(part, path, i);
		part[i] = '\0';
		if (check_dir(r, part) < 0)
			n = make_one(r, part, mode);
	}
	return n < 0 ? err_sys(e, n, "create directory '%s'%s", part, path_hint(r, part, n, reason))
		     : 0;
}

static int read_names(DIR *d, char ***names, size_t *n)
{
	struct dirent *entry;

	while ((errno = 0, entry = readdir(d))) {
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			VEC_PUSH(*names, *n) = xstrdup(entry->d_name);
	}
	return -errno;
}

int dir_make_parent(const struct root *r, const char *path, mode_t mode, struct err *e)
{
	auto_free char *dir = xstrdup(path);
	char *slash = strrchr(dir, '/');

	if (!slash || slash == dir)
		return 0;
	*slash = '\0';
	return dir_make(r, dir, mode, e);
}

int dir_list(const struct root *r, const char *path, char ***names, size_t *n, struct err *e)
{
	int fd = file_open(r, path, O_RDONLY | O_DIRECTORY, 0, e);
	char **list = NULL;
	size_t count = 0;
	int err;
	DIR *d;

	if (fd < 0)
		return fd;
	d = fdopendir(fd);
	if (!d) {
		err = -errno;
		close(fd);
		return err_sys(e, err, "read directory '%s'", path);
	}
	err = read_names(d, &list, &count);
	closedir(d);
	if (err < 0) {
		str_list_free(list, count);
		return err_sys(e, err, "read directory '%s'", path);
	}
	if (count > 1)
		qsort(list, count, sizeof(*list), str_order);
	*names = list;
	*n = count;
	return 0;
}

/* Returns whether the name is that of a temporary file for `base`: ".BASE.01234567.tmp". */
static bool is_temp_of(const char *name, const char *base)
{
	size_t n = strlen(base), len = strlen(name);

	return len == n + sizeof("..01234567.tmp") - 1 && name[0] == '.' && name[n + 1] == '.' &&
	       strncmp(name + 1, base, n) == 0 && strcmp(name + len - 4, ".tmp") == 0;
}

void file_sweep(const struct root *r, const char *path)
{
	char base[PATH_NAME_MAX], **names = NULL;
	auto_free char *dir_path = xstrdup(path);
	auto_fd int dir = -1;
	size_t n = 0;

	if (path_parent(r, path, base, &dir) < 0)
		return;
	*strrchr(dir_path, '/') = '\0';
	if (dir_list(r, *dir_path ? dir_path : "/", &names, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++)
		if (is_temp_of(names[i], base))
			unlinkat(dir, names[i], 0);
	str_list_free(names, n);
}

/* Returns whether the file was last modified more than FILE_OLD_S seconds ago. A time in the future, for
 * instance after the clock was corrected, is not old. */
static bool is_old(const struct root *r, const char *path)
{
	int64_t now = now_real_ms() / 1000;
	struct stat st;

	return file_lstat(r, path, &st, NULL) == 0 && S_ISREG(st.st_mode) &&
	       now - st.st_mtime > FILE_OLD_S;
}

static void sweep_dir(const struct root *r, const char *dir_path, bool only_old)
{
	char **names = NULL;
	size_t n = 0;

	if (dir_list(r, dir_path, &names, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		auto_free char *base = xstrdup(names[i]),
			       *path = xasprintf("%s/%s", dir_path, names[i]);
		size_t len = strlen(base);

		if (len <= sizeof("..01234567.tmp") - 1)
			continue;
		base[len - (sizeof(".01234567.tmp") - 1)] = '\0';
		if (is_temp_of(names[i], base + 1) && (!only_old || is_old(r, path)))
			(void)file_remove(r, path, NULL);
	}
	str_list_free(names, n);
}

void file_sweep_dir(const struct root *r, const char *dir_path)
{
	sweep_dir(r, dir_path, false);
}

void file_sweep_old(const struct root *r, const char *dir_path)
{
	sweep_dir(r, dir_path, true);
}

void str_list_free(char **names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(names[i]);
	free(names);
}

int link_read(const struct root *r, const char *path, char *ret, size_t size, struct err *e)
{
	char base[PATH_NAME_MAX], target[PATH_MAX];
	auto_fd int dir = -1;
	int n = path_parent(r, path, base, &dir);
	ssize_t len;

	if (n < 0)
		return err_sys(e, n, "read link '%s'", path);
	len = readlinkat(dir, base, target, sizeof(target));
	if (len < 0)
		return err_sys(e, -errno, "read link '%s'", path);
	if ((size_t)len >= size || len == sizeof(target))
		return err_sys(e, -ENAMETOOLONG, "read link '%s'", path);
	memcpy(ret, target, (size_t)len);
	ret[len] = '\0';
	return 0;
}

int link_replace(const struct root *r, const char *path, const char *target, struct err *e)
{
	char base[PATH_NAME_MAX], temp[PATH_NAME_MAX];
	auto_fd int dir = -1;
	int n = path_parent(r, path, base, &dir);

	if (n < 0)
		return err_sys(e, n, "create link '%s'", path);
	do
		path_temp_name(base, temp);
	while ((n = symlinkat(target, dir, temp) < 0 ? -errno : 0) == -EEXIST);
	if (n == 0 && renameat(dir, temp, dir, base) < 0) {
		n = -errno;
		unlinkat(dir, temp, 0);
	}
	if (n == 0)
		n = path_sync_dir(dir);
	return n < 0 ? err_sys(e, n, "create link '%s'", path) : 0;
}

/* RENAME_NOREPLACE of <linux/fs.h>: musl has neither this constant nor the wrapper renameat2(). */
enum { NO_REPLACE = 1 };

int file_rename(const struct root *r, const char *from, const char *to, bool exclusive,
		struct err *e)
{
	char from_base[PATH_NAME_MAX], to_base[PATH_NAME_MAX];
	auto_fd int from_dir = -1, to_dir = -1;
	int n = path_parent(r, from, from_base, &from_dir);

	if (n == 0)
		n = path_parent(r, to, to_base, &to_dir);
	if (n == 0 && syscall(SYS_renameat2, from_dir, from_base, to_dir, to_base,
			      exclusive ? NO_REPLACE : 0) < 0)
		n = -errno;
	if (n == 0)
		n = path_sync_dir(to_dir);
	return n < 0 ? err_sys(e, n, "rename '%s' to '%s'", from, to) : 0;
}

/* Tries flock(2) until `deadline`, with pauses of 5, 10, 20, 40, 50, 50 ms ...; deadline -1:
 * waits without limit in one call. */
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

int lock_is_held(const struct root *r, const char *path)
{
	auto_fd int f = path_open(r, path, O_RDONLY | O_NONBLOCK, 0);

	if (f < 0)
		return f;
	if (flock(f, LOCK_SH | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? 1 : -errno;
	return 0;
}

/* Checks the type of the locked file, and that the file still has a name. -EAGAIN: another
 * process removed the file while this process waited for the lock; a lock on a deleted file
 * protects nothing. */
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
		char reason[PATH_HINT_MAX];
		int n;

		if (f < 0)
			return err_sys(e, f, "lock: open '%s'%s", path,
				       path_hint(r, path, f, reason));
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
