/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/path.h"

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

const char *path_hint(const struct root *r, const char *path, int code,
		      char buf[static PATH_HINT_MAX])
{
	char link[PATH_HINT_MAX - 150];

	if (path[0] != '/')
		return " (must be an absolute path)";
	if (code == -ENOSYS && !r->host)
		return " (a root other than '/' needs openat2, Linux 5.6)";
	if (code != -ELOOP || !path_refused(r, path, link, sizeof(link)))
		return "";
	snprintf(buf, PATH_HINT_MAX,
		 " ('%s' is a symbolic link that others than root can change: name the folder that "
		 "it leads to, or chown root and chmod go-w the link's folder)",
		 link);
	return buf;
}

int path_check_kind(const struct stat *st, const char *path, struct err *e)
{
	if (S_ISREG(st->st_mode) || S_ISDIR(st->st_mode))
		return 0;
	return err_set(e, -EINVAL, "file '%s' is %s, wants a regular file", path,
		       S_ISFIFO(st->st_mode)  ? "a FIFO"
		       : S_ISLNK(st->st_mode) ? "a symbolic link"
					      : "a device");
}

/* Of whatever kind the file is. */
static int open_any(const struct root *r, const char *path, int flags, mode_t mode, struct err *e)
{
	int fd = path_open(r, path, flags, mode);
	char why[PATH_HINT_MAX];

	if (fd < 0)
		return err_sys(e, fd, "open '%s'%s", path, path_hint(r, path, fd, why));
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
 * Whoever can write to a folder can leave a FIFO there, whose open() waits for a writer. Names in /dev and /proc are a
 * person's: "kubectl config view | unirail --kubeconfig /dev/stdin".
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
	/* O_TRUNC as the shell does: a recorded tree has plain files, sysfs does not care. */
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
	char why[PATH_HINT_MAX];

	if (err < 0)
		return err_sys(e, err, "open the folder of '%s'%s", path,
			       path_hint(r, path, err, why));
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
		return err_sys(e, err, "create a file beside '%s'", path);
	}
	*t = n;
	return 0;
}

int file_temp_commit(struct file_temp *t, struct err *e)
{
	int r = fsync(t->fd) < 0 ? -errno : 0;

	/* Closed before it has its name: executing a file open for writing is ETXTBSY. */
	if (close(t->fd) < 0 && r == 0)
		r = -errno;
	t->fd = -1;
	if (r < 0)
		err_sys(e, r, "write out '%s'", t->name);
	else if (renameat(t->dir, t->name, t->dir, t->base) < 0)
		r = err_sys(e, -errno, "rename '%s' to '%s'", t->name, t->base);
	else
		t->name[0] = '\0';
	if (r == 0) {
		r = path_sync_dir(t->dir);
		if (r < 0)
			err_sys(e, r, "fsync the folder of '%s'", t->base);
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
