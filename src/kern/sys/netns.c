/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/sys/netns.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <linux/magic.h>
#include <linux/nsfs.h>

#include "base/alloc.h"

static int fail(struct err *e, int code, const char *what, const char *subject)
{
	const char *remedy = code == -EPERM ? ": needs CAP_SYS_ADMIN: run as root" : "";

	return err_kind(e, ERR_NETNS, code, *subject ? "%s '%s': %s%s" : "%s%s: %s%s", what,
			subject, errno_text(code), remedy);
}

static int check_magic(const char *path, struct err *e)
{
	struct statfs fs;

	if (statfs(path, &fs) < 0) {
		int code = -errno;

		return err_kind(e, ERR_NETNS, code, "failed to Statfs \"%s\": %s", path,
				code == -ENOENT ? "no such file or directory" : errno_text(code));
	}
	if (fs.f_type == NSFS_MAGIC || fs.f_type == PROC_SUPER_MAGIC)
		return 0;
	return err_kind(e, ERR_NETNS, -EINVAL, "unknown FS magic on \"%s\": %lx", path,
			(unsigned long)fs.f_type);
}

int netns_open(const char *path, int *ret, struct err *e)
{
	auto_fd int fd = -1;
	int r = check_magic(path, e), type;

	if (r < 0)
		return r;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return fail(e, -errno, "open network namespace", path);
	/* check_magic() also accepts other files: /proc/self/status, or a PID namespace */
	type = ioctl(fd, NS_GET_NSTYPE);
	if (type < 0 && errno != ENOTTY)
		return fail(e, -errno, "get the type of network namespace", path);
	if (type != CLONE_NEWNET)
		return err_kind(e, ERR_NETNS, -EINVAL, "open '%s': not a network namespace", path);
	*ret = take_fd(&fd);
	return 0;
}

int netns_current(int *ret, struct err *e)
{
	int fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return fail(e, -errno, "open network namespace", "/proc/thread-self/ns/net");
	*ret = fd;
	return 0;
}

int netns_same(int a, int b, struct err *e)
{
	struct stat sa, sb;

	if (fstat(a, &sa) < 0 || fstat(b, &sb) < 0)
		return fail(e, -errno, "stat network namespace", "");
	return sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
}

int netns_enter(int fd, struct netns_visit *v, struct err *e)
{
	auto_fd int origin = -1;
	int r = netns_current(&origin, e);

	if (r < 0)
		return r;
	if (setns(fd, CLONE_NEWNET) < 0)
		return fail(e, -errno, "enter network namespace", "");
	v->origin = take_fd(&origin);
	return 0;
}

void netns_leave(struct netns_visit *v)
{
	int saved = errno;

	if (v->origin < 0)
		return;
	/* aborts, because everything after this would be done in the wrong namespace */
	if (setns(v->origin, CLONE_NEWNET) < 0) {
		fprintf(stderr, "unirail: return from network namespace: %s\n", errno_text(errno));
		abort();
	}
	cleanup_fd(&v->origin);
	v->origin = -1;
	errno = saved;
}

static int mount_point(const char *path, struct err *e)
{
	int fd = open(path, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0);

	if (fd < 0)
		return fail(e, -errno, "create network namespace file", path);
	close(fd);
	return 0;
}

int netns_pin(int fd, const char *path, struct err *e)
{
	char from[32];
	int r = mount_point(path, e);

	if (r < 0)
		return r;
	snprintf(from, sizeof(from), "/proc/self/fd/%d", fd);
	if (mount(from, path, "none", MS_BIND, NULL) == 0)
		return 0;
	r = fail(e, -errno, "mount network namespace on", path);
	unlink(path);
	return r;
}

int netns_unpin(const char *path, struct err *e)
{
	/* ignores EINVAL: the path is not a mount point any more */
	if (umount2(path, MNT_DETACH) < 0 && errno != EINVAL && errno != ENOENT)
		return fail(e, -errno, "unmount network namespace", path);
	if (unlink(path) < 0 && errno != ENOENT)
		return fail(e, -errno, "remove network namespace file", path);
	return 0;
}
