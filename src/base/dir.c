/* SPDX-License-Identifier: Apache-2.0 */
/* Folders, symbolic links and names: the other half of file.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/sweep.h"
#include "base/loop.h"
#include "base/path.h"

int file_remove(const struct root *r, const char *path, struct err *e)
{
	char base[PATH_NAME_MAX];
	auto_fd int dir = -1;
	int n = path_parent(r, path, base, &dir);
	char why[PATH_HINT_MAX];

	if (n == 0 && unlinkat(dir, base, 0) < 0)
		n = -errno;
	if (n < 0 && n != -ENOENT)
		return err_sys(e, n, "remove '%s'%s", path, path_hint(r, path, n, why));
	return 0;
}

/* 0 or -errno */
static int check_dir(const struct root *r, const char *path)
{
	auto_fd int fd = path_open(r, path, O_PATH | O_DIRECTORY, 0);

	return fd < 0 ? fd : 0;
}

/* One folder; there already is fine. */
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
	char part[PATH_MAX], why[PATH_HINT_MAX];
	size_t len = strlen(path);
	int n = 0;

	if (check_dir(r, path) == 0)
		return 0;
	if (path[0] != '/' || len >= sizeof(part))
		return err_sys(e, path[0] != '/' ? -EINVAL : -ENAMETOOLONG, "make folder '%s'",
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
	return n < 0 ? err_sys(e, n, "make folder '%s'%s", part, path_hint(r, part, n, why)) : 0;
}

static int by_bytes(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
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
		return err_sys(e, err, "read folder '%s'", path);
	}
	err = read_names(d, &list, &count);
	closedir(d);
	if (err < 0) {
		str_list_free(list, count);
		return err_sys(e, err, "read folder '%s'", path);
	}
	if (count > 1)
		qsort(list, count, sizeof(*list), by_bytes);
	*names = list;
	*n = count;
	return 0;
}

/* ".BASE.01234567.tmp" */
static bool is_temp_of(const char *name, const char *base)
{
	size_t n = strlen(base), len = strlen(name);

	return len == n + sizeof("..01234567.tmp") - 1 && name[0] == '.' && name[n + 1] == '.' &&
	       strncmp(name + 1, base, n) == 0 && strcmp(name + len - 4, ".tmp") == 0;
}

void file_sweep(const struct root *r, const char *path)
{
	char base[PATH_NAME_MAX], **names = NULL;
	auto_free char *folder = xstrdup(path);
	auto_fd int dir = -1;
	size_t n = 0;

	if (path_parent(r, path, base, &dir) < 0)
		return;
	*strrchr(folder, '/') = '\0';
	if (dir_list(r, *folder ? folder : "/", &names, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++)
		if (is_temp_of(names[i], base))
			unlinkat(dir, names[i], 0);
	str_list_free(names, n);
}

/* A time in the future is a clock's that was set back. */
static bool is_old(const struct root *r, const char *path)
{
	int64_t now = now_real_ms() / 1000;
	struct stat st;

	return file_lstat(r, path, &st, NULL) == 0 && S_ISREG(st.st_mode) &&
	       now - st.st_mtime > FILE_OLD_S;
}

static void sweep_folder(const struct root *r, const char *folder, bool only_old)
{
	char **names = NULL;
	size_t n = 0;

	if (dir_list(r, folder, &names, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		auto_free char *base = xstrdup(names[i]),
			       *path = xasprintf("%s/%s", folder, names[i]);
		size_t len = strlen(base);

		if (len <= sizeof("..01234567.tmp") - 1)
			continue;
		base[len - (sizeof(".01234567.tmp") - 1)] = '\0';
		if (is_temp_of(names[i], base + 1) && (!only_old || is_old(r, path)))
			(void)file_remove(r, path, NULL);
	}
	str_list_free(names, n);
}

void file_sweep_folder(const struct root *r, const char *folder)
{
	sweep_folder(r, folder, false);
}

void file_sweep_old(const struct root *r, const char *folder)
{
	sweep_folder(r, folder, true);
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
		return err_sys(e, n, "make link '%s'", path);
	do
		path_temp_name(base, temp);
	while ((n = symlinkat(target, dir, temp) < 0 ? -errno : 0) == -EEXIST);
	if (n == 0 && renameat(dir, temp, dir, base) < 0) {
		n = -errno;
		unlinkat(dir, temp, 0);
	}
	if (n == 0)
		n = path_sync_dir(dir);
	return n < 0 ? err_sys(e, n, "make link '%s'", path) : 0;
}

/* RENAME_NOREPLACE of <linux/fs.h>; musl has neither the wrapper nor the flag. */
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
