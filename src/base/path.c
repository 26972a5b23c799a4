/* SPDX-License-Identifier: Apache-2.0 */
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

/* <linux/openat2.h>; base stays free of <linux/...>. */
struct how {
	uint64_t flags, mode, resolve;
};
enum { IN_ROOT = 0x10 };

int path_open(const struct root *r, const char *path, int flags, mode_t mode)
{
	bool creates = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
	struct how how = {(uint64_t)(flags | O_CLOEXEC), creates ? mode & 07777 : 0, IN_ROOT};
	long fd;

	if (path[0] != '/')
		return -EINVAL;
	if (r->strict && r->host && !path_is_kernels(path))
		return path_open_strict(r, path, flags, mode);
	/* openat, since musl's open() asks for FD_CLOEXEC a second time.
	 * -EAGAIN: a rename raced with the walk and the kernel would not vouch for the result. */
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
	/* fsync wants a descriptor that is not O_PATH. */
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

	/* A long name keeps its start: only the random part matters. */
	if (getrandom(&n, sizeof(n), GRND_NONBLOCK) < 0)
		n += (uint32_t)(uintptr_t)&n;
	snprintf(ret, PATH_NAME_MAX, ".%.240s.%08x.tmp", base, n);
}
