/* SPDX-License-Identifier: Apache-2.0 */
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"

/* copied from <linux/openat2.h>, because base does not include <linux/...> */
struct how {
	uint64_t flags, mode, resolve;
};
enum { IN_ROOT = 0x10 };

static int path_open_strict(const struct root *r, const char *path, int flags, mode_t mode);

int path_open(const struct root *r, const char *path, int flags, mode_t mode)
{
	bool creates = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
	struct how how = {(uint64_t)(flags | O_CLOEXEC), creates ? mode & 07777 : 0, IN_ROOT};
	long fd;

	if (path[0] != '/')
		return -EINVAL;
	if (r->strict && r->host && !path_is_kernels(path))
		return path_open_strict(r, path, flags, mode);
	/* The host's root: openat(), because musl's open() sets FD_CLOEXEC again by an extra
	 * fcntl(). Any other root: openat2(), which returns -EAGAIN if a rename occurred during
	 * the path walk, so that the kernel could not guarantee that the path stays below the
	 * root. */
	do {
		fd = r->host ? openat(r->fd, path, flags | O_CLOEXEC, mode)
			     : syscall(SYS_openat2, r->fd, path, &how, sizeof(how));
	} while (fd < 0 && (errno == EINTR || (errno == EAGAIN && !r->host)));
	return fd < 0 ? -errno : (int)fd;
}

bool path_is_kernels(const char *path)
{
	return strncmp(path, "/proc/", 6) == 0 || strncmp(path, "/sys/", 5) == 0 ||
	       (strncmp(path, "/dev/", 5) == 0 && strncmp(path, "/dev/shm/", 9) != 0);
}

int path_parent(const struct root *r, const char *path, char *base, int *dir)
{
	char parent[PATH_MAX];
	const char *slash;
	size_t len = strlen(path);
	int fd;

	while (len > 1 && path[len - 1] == '/')
		len--;
	if (path[0] != '/' || len == 1)
		return -EINVAL;
	slash = memrchr(path, '/', len);
	if (len >= sizeof(parent) || path + len - slash > NAME_MAX + 1)
		return -ENAMETOOLONG;
	memcpy(base, slash + 1, (size_t)(path + len - slash) - 1);
	base[path + len - slash - 1] = '\0';
	memcpy(parent, path, (size_t)(slash - path) + 1);
	parent[slash - path + 1] = '\0';
	fd = path_open(r, parent, O_PATH | O_DIRECTORY, 0);
	if (fd < 0)
		return fd;
	*dir = fd;
	return 0;
}

char *path_absolute(const char *path)
{
	char cwd[PATH_MAX];

	if (!path || *path == '/' || !getcwd(cwd, sizeof(cwd)))
		return path ? xstrdup(path) : NULL;
	return xasprintf("%s/%s", strcmp(cwd, "/") == 0 ? "" : cwd, path);
}

int path_sync_dir(int dir)
{
	/* fsync() needs a descriptor that is not O_PATH */
	auto_fd int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return errno == EACCES ? 0 : -errno;
	if (fsync(fd) < 0 && errno != EINVAL && errno != EROFS)
		return -errno;
	return 0;
}

void path_temp_name(const char *base, char *ret)
{
	uint32_t n = (uint32_t)getpid();

	/* n alone makes the name unique, so snprintf() may truncate a long `base` at its end */
	if (getrandom(&n, sizeof(n), GRND_NONBLOCK) < 0)
		n += (uint32_t)(uintptr_t)&n;
	snprintf(ret, PATH_NAME_MAX, ".%.240s.%08x.tmp", base, n);
}

/* --- opening of paths below a root that is `strict` --- */

/* copied from <linux/openat2.h>, because base does not include <linux/...> */
struct path_strict_how {
	uint64_t flags, mode, resolve;
};
enum { NO_SYMLINKS = 0x4, LINKS_MAX = 40 };

/* A path that is resolved name by name. */
struct walk {
	int root, dir; /* dir: the directory reached so far */
	int links;
	bool refused;		 /* name is a symbolic link that users other than root can change */
	char name[NAME_MAX + 1]; /* name in dir */
	/* rest: the part of the path after `name`; next: buffer in which follow() joins a link's
	 * target and `rest` */
	char rest[PATH_MAX], next[PATH_MAX];
};

/* Returns whether the user root owns the file. In a user namespace the host's user root can
 * appear with another UID; the owner of "/" has that UID. */
static bool is_roots(int root, const struct stat *st)
{
	struct stat top;

	return st->st_uid == 0 || (fstat(root, &top) == 0 && st->st_uid == top.st_uid);
}

/* Returns whether root owns the link and its directory, and no other user can replace the link:
 * a directory that others can write must be sticky, which lets only the owners of the link and
 * of the directory replace the link. */
static bool may_follow(const struct walk *w, const struct stat *link)
{
	struct stat dir;

	return is_roots(w->root, link) && fstat(w->dir, &dir) == 0 && is_roots(w->root, &dir) &&
	       (!(dir.st_mode & (S_IWGRP | S_IWOTH)) || (dir.st_mode & S_ISVTX));
}

/* Follows a symbolic link: replaces it with its target in the path that is still to be walked.
 * `link` is an open descriptor of the link, so that the link that was checked is the link that
 * is read. */
static int follow(struct walk *w, int link, const struct stat *st)
{
	char target[PATH_MAX];
	ssize_t n;

	if (!may_follow(w, st)) {
		w->refused = true;
		return -ELOOP;
	}
	if (++w->links > LINKS_MAX)
		return -ELOOP;
	n = readlinkat(link, "", target, sizeof(target) - 1);
	if (n < 0)
		return -errno;
	target[n] = '\0';
	if ((size_t)snprintf(w->next, sizeof(w->next), "%s/%s", target, w->rest) >= sizeof(w->next))
		return -ENAMETOOLONG;
	strcpy(w->rest, w->next);
	if (target[0] != '/')
		return 0;
	n = fcntl(w->root, F_DUPFD_CLOEXEC, 0);
	if (n < 0)
		return -errno;
	close(w->dir);
	w->dir = (int)n;
	return 0;
}

/* Reads the next name of the path; sets *last if it is the last one. */
static int take_name(struct walk *w, bool *last)
{
	const char *from = w->rest + strspn(w->rest, "/");
	size_t n = strcspn(from, "/");

	if (n > NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(w->name, from, n);
	strcpy(w->name + n, n ? "" : ".");
	from += n;
	*last = from[strspn(from, "/")] == '\0';
	memmove(w->rest, from, strlen(from) + 1);
	return 0;
}

/* Enters the directory w->name, or follows the symbolic link w->name. If `last` is set, a file
 * that is not a link only has to exist. Returns 0 or -errno, such as -ENOENT; -ELOOP if follow()
 * refuses the link or the path has more than LINKS_MAX links. */
static int step(struct walk *w, bool last, bool *followed)
{
	auto_fd int fd = openat(w->dir, w->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	*followed = false;
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (S_ISLNK(st.st_mode)) {
		*followed = true;
		return follow(w, fd, &st);
	}
	if (last)
		return 0;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	close(w->dir);
	w->dir = take_fd(&fd);
	return 0;
}

static int walk_on(struct walk *w, int flags, mode_t mode)
{
	bool itself = (flags & O_NOFOLLOW) || (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL);
	bool last = false, followed = true;
	int fd;

	while (!last || followed) {
		int r = take_name(w, &last);

		followed = false;
		if (r == 0 && !(last && itself))
			r = step(w, last, &followed);
		if (r < 0 && !(r == -ENOENT && last && !followed && (flags & O_CREAT)))
			return r;
	}
	do
		fd = openat(w->dir, w->name, flags | O_NOFOLLOW | O_CLOEXEC, mode);
	while (fd < 0 && errno == EINTR);
	return fd < 0 ? -errno : fd;
}

static int walk_path(struct walk *w, const struct root *r, const char *path, int flags, mode_t mode)
{
	int fd;

	*w = (struct walk){.root = r->fd, .dir = -1};
	if (strlen(path) >= sizeof(w->rest))
		return -ENAMETOOLONG;
	strcpy(w->rest, path);
	w->dir = fcntl(r->fd, F_DUPFD_CLOEXEC, 0);
	if (w->dir < 0)
		return -errno;
	fd = walk_on(w, flags, mode);
	if (fd >= 0)
		cleanup_fd(&w->dir);
	return fd;
}

/* Tries to open the path by one openat2() call that refuses symbolic links, since most paths
 * have none. */
static int open_linkless(const struct root *r, const char *path, int flags, mode_t mode)
{
	struct path_strict_how path_strict_how = {(uint64_t)(flags | O_CLOEXEC), mode, NO_SYMLINKS};
	long fd;

	/* EAGAIN is not retried: with O_NONBLOCK it means a file lease, which the process that has it may
	 * keep for fs.lease-break-time (45 s by default) */
	do
		fd = syscall(SYS_openat2, r->fd, path, &path_strict_how, sizeof(path_strict_how));
	while (fd < 0 && errno == EINTR);
	return fd < 0 ? -errno : (int)fd;
}

/* Opens a path below a root that is `strict`. */
static int path_open_strict(const struct root *r, const char *path, int flags, mode_t mode)
{
	bool creates = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
	struct walk w;
	int fd;

	mode = creates ? mode & 07777 : 0;
	if (!(flags & (O_PATH | O_DIRECTORY)))
		flags |= O_NONBLOCK;
	fd = open_linkless(r, path, flags, mode);
	/* continues after -ELOOP (the path has a link), -ENOSYS (Linux before 5.6) and -EPERM (a
	 * seccomp filter that does not know openat2) */
	if (fd != -ELOOP && fd != -ENOSYS && fd != -EPERM)
		return fd;
	fd = walk_path(&w, r, path, flags, mode);
	if (fd < 0)
		cleanup_fd(&w.dir);
	return fd;
}

bool path_refused(const struct root *r, const char *path, char *ret, size_t size)
{
	char self[64], dir[PATH_MAX];
	struct walk w;
	auto_fd int fd = -1;
	ssize_t n;

	if (!r->strict || !r->host || path_is_kernels(path))
		return false;
	fd = walk_path(&w, r, path, O_PATH, 0);
	if (fd >= 0)
		return false;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", w.dir);
	n = w.refused ? readlinkat(AT_FDCWD, self, dir, sizeof(dir) - 1) : -1;
	cleanup_fd(&w.dir);
	if (n < 0)
		return false;
	dir[n] = '\0';
	snprintf(ret, size, "%s/%s", strcmp(dir, "/") == 0 ? "" : dir, w.name);
	return true;
}

const char *path_base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}
