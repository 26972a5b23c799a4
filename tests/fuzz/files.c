/* SPDX-License-Identifier: Apache-2.0 */
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "fuzz.h"

/* The linker's --wrap maps calls of x() in other files to __wrap_x() in this file. */
#define WRAP(type, name, ...)                                                                      \
	type __real_##name(__VA_ARGS__);                                                           \
	type __wrap_##name(__VA_ARGS__)
WRAP(int, root_open, struct root *r, const char *dir, struct err *e);
WRAP(void, root_close, struct root *r);
WRAP(int, file_open, const struct root *r, const char *path, int flags, mode_t mode, struct err *e);
WRAP(bool, file_exists, const struct root *r, const char *path);
WRAP(int, file_read, const struct root *r, const char *path, size_t max, struct buf *into,
     struct err *e);
WRAP(int, file_replace, const struct root *r, const char *path, struct span data, mode_t mode,
     struct err *e);
WRAP(int, file_temp_open, const struct root *r, const char *path, mode_t mode, struct file_temp *t,
     struct err *e);
WRAP(int, file_temp_commit, struct file_temp *t, struct err *e);
WRAP(void, file_temp_abort, struct file_temp *t);
WRAP(int, fd_write_all, int fd, const void *p, size_t n, struct err *e);
WRAP(int, file_remove, const struct root *r, const char *path, struct err *e);
WRAP(void, file_sweep, const struct root *r, const char *path);
WRAP(int, file_lstat, const struct root *r, const char *path, struct stat *ret, struct err *e);
WRAP(int, dir_make, const struct root *r, const char *path, mode_t mode, struct err *e);
WRAP(int, dir_list, const struct root *r, const char *path, char ***list, size_t *n, struct err *e);
WRAP(int, lock_take, const struct root *r, const char *path, int timeout_ms, int *fd,
     struct err *e);
WRAP(int, close, int fd);
WRAP(int, fstat, int fd, struct stat *ret);
WRAP(ssize_t, pread, int fd, void *p, size_t n, off_t at);
WRAP(ssize_t, pwrite, int fd, const void *p, size_t n, off_t at);
WRAP(int, ftruncate, int fd, off_t size);
WRAP(int, fdatasync, int fd);

/* FD_ROOT: descriptor of fuzz_root(). FD_FIRST + i: descriptor of opened[i]. Descriptors below
 * FD_ROOT are real ones. */
enum { NAMES_MAX = 64, OPEN_MAX = 32, FD_ROOT = 1 << 20, FD_FIRST, PATH_BYTES = 512 };

struct file {
	size_t refs; /* references: its name, and each descriptor */
	struct buf content;
};

struct name {
	char path[PATH_BYTES];
	struct file *file; /* NULL: a directory */
};

static struct name names[NAMES_MAX];
static size_t n_names;
static struct file *opened[OPEN_MAX];

static void unref(struct file *f)
{
	if (!f || --f->refs > 0)
		return;
	buf_done(&f->content);
	free(f);
}

/* "//a/" becomes "/a". False: the name is invalid. */
static bool clean(const char *path, char *ret)
{
	size_t n = 0;

	if (*path != '/')
		return false;
	for (; *path; path++) {
		if (*path == '/' && (path[1] == '/' || path[1] == '\0'))
			continue;
		if (n + 1 == PATH_BYTES)
			return false;
		ret[n++] = *path;
	}
	ret[n] = '\0';
	return true;
}

static struct name *find(const char *path)
{
	char want[PATH_BYTES];

	if (!clean(path, want))
		return NULL;
	for (size_t i = 0; i < n_names; i++)
		if (strcmp(names[i].path, want) == 0)
			return &names[i];
	return NULL;
}

/* Finds or creates the name; NULL: the name is invalid, or there are NAMES_MAX names. */
static struct name *add(const char *path)
{
	struct name *n = find(path);

	if (n)
		return n;
	if (n_names == NAMES_MAX || !clean(path, names[n_names].path))
		return NULL;
	names[n_names].file = NULL;
	return &names[n_names++];
}

static void drop(struct name *n)
{
	unref(n->file);
	*n = names[--n_names];
}

static struct file *file_new(struct span content)
{
	struct file *f = xcalloc(1, sizeof(*f));

	f->refs = 1;
	buf_init(&f->content, 64 << 20);
	buf_add(&f->content, content.p, content.n);
	return f;
}

static struct file *file_of(int fd)
{
	return fd >= FD_FIRST && fd < FD_FIRST + OPEN_MAX ? opened[fd - FD_FIRST] : NULL;
}

static int open_file(struct file *f)
{
	for (size_t i = 0; i < OPEN_MAX; i++)
		if (!opened[i]) {
			opened[i] = f;
			f->refs++;
			return FD_FIRST + (int)i;
		}
	return -EMFILE;
}

void files_put(const char *path, struct span content)
{
	struct name *n = add(path);

	must(n);
	unref(n->file);
	n->file = file_new(content);
}

bool files_get(const char *path, struct span *content)
{
	const struct name *n = find(path);

	if (!n || !n->file)
		return false;
	*content = buf_span(&n->file->content);
	return true;
}

void files_clear(void)
{
	while (n_names > 0)
		drop(&names[n_names - 1]);
	for (size_t i = 0; i < OPEN_MAX; i++)
		must(!opened[i]);
}

/* --- base/file.h --- */

int __wrap_root_open(struct root *r, const char *dir, struct err *e)
{
	(void)dir;
	(void)e;
	*r = (struct root){.fd = FD_ROOT};
	return 0;
}

void __wrap_root_close(struct root *r)
{
	r->fd = -1;
}

static bool is_folder(const char *path)
{
	char at[PATH_BYTES];
	size_t n;

	if (!clean(path, at))
		return false;
	n = strlen(at);
	for (size_t i = 0; i < n_names; i++)
		if (strncmp(names[i].path, at, n) == 0 &&
		    (names[i].path[n] == '/' || (!names[i].path[n] && !names[i].file)))
			return true;
	return n == 0;
}

static int open_path(const char *path, int flags)
{
	struct name *n = find(path);
	int fd;

	if (!n && is_folder(path))
		return -EISDIR;
	if (n && !n->file)
		return -EISDIR;
	if (n && flags & O_CREAT && flags & O_EXCL)
		return -EEXIST;
	if (!n && !(flags & O_CREAT))
		return -ENOENT;
	if (!n)
		n = add(path);
	if (!n)
		return -ENAMETOOLONG;
	if (!n->file)
		n->file = file_new(span_of(""));
	fd = open_file(n->file);
	if (fd >= 0 && flags & O_TRUNC)
		buf_reset(&n->file->content);
	return fd;
}

int __wrap_file_open(const struct root *r, const char *path, int flags, mode_t mode, struct err *e)
{
	int fd = open_path(path, flags);

	(void)mode;
	must(r->fd == FD_ROOT);
	return fd < 0 ? err_sys(e, fd, "open '%s'", path) : fd;
}

bool __wrap_file_exists(const struct root *r, const char *path)
{
	must(r->fd == FD_ROOT);
	return find(path) || is_folder(path);
}

int __wrap_file_read(const struct root *r, const char *path, size_t max, struct buf *into,
		     struct err *e)
{
	auto_fd int fd = __wrap_file_open(r, path, O_RDONLY, 0, e);
	const struct file *f = file_of(fd);

	if (fd < 0)
		return fd;
	if (f->content.len > max)
		return err_set(e, -EFBIG, "file '%s': read: more than %zu bytes", path, max);
	buf_add(into, f->content.p, f->content.len);
	return 0;
}

int __wrap_file_replace(const struct root *r, const char *path, struct span data, mode_t mode,
			struct err *e)
{
	struct name *n = add(path);

	(void)mode;
	must(r->fd == FD_ROOT);
	if (!n)
		return err_sys(e, -ENAMETOOLONG, "create '%s'", path);
	unref(n->file);
	n->file = file_new(data);
	return 0;
}

/* Creates a file without a name; t->base has the path that file_temp_commit() gives it. */
int __wrap_file_temp_open(const struct root *r, const char *path, mode_t mode, struct file_temp *t,
			  struct err *e)
{
	(void)mode;
	must(r->fd == FD_ROOT);
	if (strlen(path) >= sizeof(t->base))
		return err_sys(e, -ENAMETOOLONG, "create a temporary file for '%s'", path);
	*t = (struct file_temp)FILE_TEMP_INIT;
	for (int i = 0; i < OPEN_MAX; i++) {
		if (opened[i])
			continue;
		opened[i] = file_new((struct span){"", 0});
		t->fd = FD_FIRST + i;
		strcpy(t->base, path);
		return 0;
	}
	return err_sys(e, -EMFILE, "create a temporary file for '%s'", path);
}

int __wrap_fd_write_all(int fd, const void *p, size_t n, struct err *e)
{
	struct file *f = file_of(fd);

	if (!f)
		return __real_fd_write_all(fd, p, n, e);
	buf_add(&f->content, p, n);
	return 0;
}

int __wrap_file_temp_commit(struct file_temp *t, struct err *e)
{
	struct name *n = add(t->base);

	if (!n)
		return err_sys(e, -ENAMETOOLONG, "create '%s'", t->base);
	unref(n->file);
	n->file = file_of(t->fd);
	n->file->refs++;
	__wrap_file_temp_abort(t);
	return 0;
}

void __wrap_file_temp_abort(struct file_temp *t)
{
	if (t->fd >= 0)
		__wrap_close(t->fd);
	*t = (struct file_temp)FILE_TEMP_INIT;
}

int __wrap_file_remove(const struct root *r, const char *path, struct err *e)
{
	struct name *n = find(path);

	(void)e;
	must(r->fd == FD_ROOT);
	if (n)
		drop(n);
	return 0;
}

void __wrap_file_sweep(const struct root *r, const char *path)
{
	must(r->fd == FD_ROOT && path);
}

static void stat_of(const struct file *f, struct stat *ret)
{
	*ret = (struct stat){.st_mode = f ? S_IFREG | 0600 : S_IFDIR | 0700,
			     .st_ino = (ino_t)(uintptr_t)f,
			     .st_nlink = 1,
			     .st_size = f ? (off_t)f->content.len : 0};
}

int __wrap_file_lstat(const struct root *r, const char *path, struct stat *ret, struct err *e)
{
	const struct name *n = find(path);

	must(r->fd == FD_ROOT);
	if (!n && !is_folder(path))
		return err_sys(e, -ENOENT, "open '%s'", path);
	stat_of(n ? n->file : NULL, ret);
	return 0;
}

int __wrap_dir_make(const struct root *r, const char *path, mode_t mode, struct err *e)
{
	const struct name *n = is_folder(path) ? NULL : add(path);

	(void)mode;
	must(r->fd == FD_ROOT);
	if (!n && !is_folder(path))
		return err_sys(e, -ENAMETOOLONG, "create directory '%s'", path);
	return n && n->file ? err_sys(e, -ENOTDIR, "create directory '%s'", path) : 0;
}

static int by_bytes(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Each name once: "/a/b/c" and "/a/b/d" give one entry "b" of "/a". */
static void put_child(const char *path, char ***list, size_t *n)
{
	size_t len = strcspn(path, "/");

	for (size_t i = 0; i < *n; i++)
		if (strlen((*list)[i]) == len && strncmp((*list)[i], path, len) == 0)
			return;
	VEC_PUSH(*list, *n) = span_dup((struct span){path, len});
}

int __wrap_dir_list(const struct root *r, const char *path, char ***list, size_t *n, struct err *e)
{
	char at[PATH_BYTES], **v = NULL;
	size_t count = 0, len;

	must(r->fd == FD_ROOT);
	if (!is_folder(path) || !clean(path, at))
		return err_sys(e, find(path) ? -ENOTDIR : -ENOENT, "open '%s'", path);
	len = strlen(at);
	for (size_t i = 0; i < n_names; i++)
		if (strncmp(names[i].path, at, len) == 0 && names[i].path[len] == '/')
			put_child(names[i].path + len + 1, &v, &count);
	if (count > 1)
		qsort(v, count, sizeof(*v), by_bytes);
	*list = v;
	*n = count;
	return 0;
}

/* No other process has the lock. */
int __wrap_lock_take(const struct root *r, const char *path, int timeout_ms, int *fd, struct err *e)
{
	int n = __wrap_file_open(r, path, O_RDWR | O_CREAT, 0600, e);

	(void)timeout_ms;
	if (n >= 0)
		*fd = n;
	return n < 0 ? n : 0;
}

/* --- descriptors --- */

int __wrap_close(int fd)
{
	struct file *f = file_of(fd);

	if (!f)
		return __real_close(fd);
	opened[fd - FD_FIRST] = NULL;
	unref(f);
	return 0;
}

int __wrap_fstat(int fd, struct stat *ret)
{
	const struct file *f = file_of(fd);

	if (!f)
		return __real_fstat(fd, ret);
	stat_of(f, ret);
	return 0;
}

ssize_t __wrap_pread(int fd, void *p, size_t n, off_t at)
{
	const struct file *f = file_of(fd);
	size_t left;

	if (!f)
		return __real_pread(fd, p, n, at);
	left = (size_t)at < f->content.len ? f->content.len - (size_t)at : 0;
	n = n < left ? n : left;
	memcpy(p, f->content.p + (n ? at : 0), n);
	return (ssize_t)n;
}

ssize_t __wrap_pwrite(int fd, const void *p, size_t n, off_t at)
{
	struct file *f = file_of(fd);
	size_t over;

	if (!f)
		return __real_pwrite(fd, p, n, at);
	/* A hole reads as zeros. */
	while (f->content.len < (size_t)at)
		buf_char(&f->content, '\0');
	over = f->content.len - (size_t)at;
	over = over < n ? over : n;
	memcpy(f->content.p + (over ? at : 0), p, over);
	buf_add(&f->content, (const char *)p + over, n - over);
	return (ssize_t)n;
}

int __wrap_ftruncate(int fd, off_t size)
{
	struct file *f = file_of(fd);

	if (!f)
		return __real_ftruncate(fd, size);
	must((size_t)size <= f->content.len);
	if (f->content.cap)
		f->content.p[size] = '\0';
	f->content.len = (size_t)size;
	return 0;
}

int __wrap_fdatasync(int fd)
{
	return file_of(fd) ? 0 : __real_fdatasync(fd);
}
