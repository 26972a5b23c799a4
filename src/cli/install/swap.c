/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/install/swap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/path.h"

#define PREFIX "unirail-swap"

enum { LOCK_MS = 10000, WALK_MS = 100 };

struct swap_op {
	char name[PATH_NAME_MAX];
	char temp[PATH_NAME_MAX]; /* file with the new content; "": remove the name */
	char old[PATH_NAME_MAX];  /* second name of the previous file; "": none */
	bool done;
};

/* Returns whether a name has the form of a temporary file's: ".unirail-swap.01234567.tmp". */
static bool is_temp(const char *name)
{
	return strncmp(name, "." PREFIX ".", sizeof(PREFIX) + 1) == 0 &&
	       strlen(name) == sizeof(PREFIX) + 1 + 8 + 4;
}

static void sweep(const struct swap *s, const struct root *r, const char *dir)
{
	char **names = NULL;
	size_t n = 0;

	if (dir_list(r, dir, &names, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++)
		if (is_temp(names[i]))
			unlinkat(s->dir, names[i], 0);
	str_list_free(names, n);
}

int swap_open(struct swap *s, const struct root *r, const char *dir, struct err *e)
{
	auto_fd int fd = file_open(r, dir, O_RDONLY | O_DIRECTORY, 0, e);
	int n;

	if (fd < 0)
		return fd;
	n = lock_fd(fd, LOCK_MS);
	if (n == -EWOULDBLOCK)
		return err_kind(e, ERR_AGAIN, n, "lock '%s': another process held it for %d ms",
				dir, LOCK_MS);
	if (n < 0)
		return err_sys(e, n, "lock '%s'", dir);
	*s = (struct swap){.dir = take_fd(&fd)};
	sweep(s, r, dir);
	return 0;
}

void swap_close(struct swap *s)
{
	for (size_t i = 0; i < s->n; i++) {
		if (s->ops[i].temp[0])
			unlinkat(s->dir, s->ops[i].temp, 0);
		if (s->ops[i].old[0])
			unlinkat(s->dir, s->ops[i].old, 0);
	}
	free(s->ops);
	cleanup_fd(&s->dir);
	*s = (struct swap)SWAP_INIT;
}

static struct swap_op *add(struct swap *s, const char *name)
{
	struct swap_op *op = &VEC_PUSH(s->ops, s->n);

	str_copy(op->name, sizeof(op->name), name);
	return op;
}

static int failed(struct swap *s, int code, const char *what, const char *name, struct err *e)
{
	s->ops[s->n - 1].temp[0] = '\0';
	return err_sys(e, code, "%s for '%s'", what, name);
}

/* Creates an empty file with a new temporary name, op->temp. Returns its descriptor, or -errno. */
static int make_temp(struct swap *s, struct swap_op *op, mode_t mode)
{
	int fd;

	do {
		path_temp_name(PREFIX, op->temp);
		fd = openat(s->dir, op->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	} while (fd < 0 && errno == EEXIST);
	if (fd < 0)
		return -errno;
	if (fchmod(fd, mode) < 0) {
		int code = -errno;

		close(fd);
		unlinkat(s->dir, op->temp, 0);
		return code;
	}
	return fd;
}

/*
 * Closes the file before it gets its name: executing a file that is open for writing fails with
 * ETXTBSY.
 */
static int finish(int fd, const char *name, struct err *e)
{
	int r = fsync(fd) < 0 ? -errno : 0;

	if (close(fd) < 0 && r == 0)
		r = -errno;
	return r < 0 ? err_sys(e, r, "write '%s'", name) : 0;
}

static int pump(int from, int to, struct err *e)
{
	char chunk[32768];
	struct stat st;
	off_t done = 0;

	if (fstat(from, &st) < 0)
		return err_sys(e, -errno, "stat");
	for (;;) {
		ssize_t n = pread(from, chunk, sizeof(chunk), done);
		int r;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, -errno, "read");
		if (n == 0)
			break;
		r = fd_write_all(to, chunk, (size_t)n, e);
		if (r < 0)
			return r;
		done += n;
	}
	if (done != st.st_size)
		return err_set(e, -EIO, "read the source file: got %lld bytes, expected %lld",
			       (long long)done, (long long)st.st_size);
	return 0;
}

int swap_copy(struct swap *s, const char *name, int from, mode_t mode, struct err *e)
{
	int to = make_temp(s, add(s, name), mode), r;

	if (to < 0)
		return failed(s, to, "create a temporary file", name, e);
	r = pump(from, to, e);
	if (r < 0) {
		close(to);
		return err_wrap(e, r, "copy to '%s'", name);
	}
	return finish(to, name, e);
}

int swap_text(struct swap *s, const char *name, struct span text, mode_t mode, struct err *e)
{
	int to = make_temp(s, add(s, name), mode), r;

	if (to < 0)
		return failed(s, to, "create a temporary file", name, e);
	r = fd_write_all(to, text.p, text.n, e);
	if (r < 0) {
		close(to);
		return err_wrap(e, r, "file '%s'", name);
	}
	return finish(to, name, e);
}

int swap_link(struct swap *s, const char *name, const char *target, struct err *e)
{
	struct swap_op *op = add(s, name);
	int r;

	do {
		path_temp_name(PREFIX, op->temp);
		r = symlinkat(target, s->dir, op->temp) < 0 ? -errno : 0;
	} while (r == -EEXIST);
	return r < 0 ? failed(s, r, "create a temporary link", name, e) : 0;
}

/* Gives `name` a second, random name, returned in `ret`. */
static int second_name(const struct swap *s, const char *name, char *ret)
{
	int r;

	do {
		path_temp_name(PREFIX, ret);
		r = linkat(s->dir, name, s->dir, ret, 0) < 0 ? -errno : 0;
	} while (r == -EEXIST);
	if (r < 0)
		ret[0] = '\0';
	return r;
}

int swap_same(struct swap *s, const char *name, const char *other, struct err *e)
{
	struct swap_op *op = add(s, name);
	int r = second_name(s, other, op->temp);

	return r < 0 ? err_sys(e, r, "link '%s' to '%s'", name, other) : 0;
}

void swap_drop(struct swap *s, const char *name)
{
	add(s, name);
}

static int apply(const struct swap *s, const struct swap_op *op)
{
	if (!op->temp[0])
		return unlinkat(s->dir, op->name, 0) < 0 && errno != ENOENT ? -errno : 0;
	return renameat(s->dir, op->temp, s->dir, op->name) < 0 ? -errno : 0;
}

static int put_back(const struct swap *s, const struct swap_op *op)
{
	if (op->old[0])
		return renameat(s->dir, op->old, s->dir, op->name) < 0 ? -errno : 0;
	return unlinkat(s->dir, op->name, 0) < 0 && errno != ENOENT ? -errno : 0;
}

static void roll_back(struct swap *s, struct err *e)
{
	for (size_t i = s->n; i-- > 0;) {
		struct swap_op *op = &s->ops[i];
		int r = op->done ? put_back(s, op) : 0;

		if (r < 0 && op->old[0])
			err_wrap(e, r,
				 "'%s' could not be restored (%s): its content is in '%s', rename "
				 "that file",
				 op->name, errno_text(r), op->old);
		else if (r < 0)
			err_wrap(e, r, "'%s', which is new, could not be removed (%s): remove it",
				 op->name, errno_text(r));
		if (r < 0)
			op->old[0] = '\0'; /* swap_close() must not remove this file */
	}
}

/* Creates a second name for each file that is to be replaced or removed, and syncs the
 * directory. */
static int prepare(struct swap *s, struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < s->n; i++) {
		r = second_name(s, s->ops[i].name, s->ops[i].old);
		if (r < 0 && r != -ENOENT)
			return err_sys(e, r,
				       "give '%s' a second name before it is replaced or removed",
				       s->ops[i].name);
	}
	r = path_sync_dir(s->dir);
	return r < 0 ? err_sys(e, r, "fsync the directory") : 0;
}

/*
 * Waits before the old target of a link is removed, because a process that read the link before the
 * change may open the target afterwards.
 */
static void let_walkers_pass(void)
{
	nanosleep(&(struct timespec){.tv_nsec = WALK_MS * 1000000L}, NULL);
}

static int change(struct swap *s, struct err *e)
{
	bool moved = false;
	int r;

	for (size_t i = 0; i < s->n; i++) {
		bool drops = !s->ops[i].temp[0];

		if (drops && moved)
			let_walkers_pass();
		moved = !drops;
		r = apply(s, &s->ops[i]);
		if (r < 0)
			return err_sys(e, r, "change '%s'", s->ops[i].name);
		s->ops[i].done = true;
	}
	r = path_sync_dir(s->dir);
	return r < 0 ? err_sys(e, r, "fsync the directory") : 0;
}

int swap_commit(struct swap *s, struct err *e)
{
	int r = prepare(s, e);

	if (r < 0)
		return r;
	r = change(s, e);
	if (r < 0)
		roll_back(s, e);
	return r;
}
