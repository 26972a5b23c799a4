/* SPDX-License-Identifier: Apache-2.0 */
/* Records, restores and dumps the files of a lab. A dump omits the files that any call may
 * leave. */
#include "fault.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "ipam/journal/lease.h"

enum { FILE_MAX = 1 << 23, SHOWN_MAX = 200 };

static bool is_skipped(const char *path, const char *const *skip)
{
	for (; *skip; skip++)
		if (strcmp(path, *skip) == 0)
			return true;
	return false;
}

static char *full(const char *dir, const char *path)
{
	return xasprintf("%s/%s", dir, path);
}

static void read_text(const char *path, struct tree_file *f)
{
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct buf b;

	buf_init(&b, FILE_MAX);
	if (fd < 0 || fd_read_all(fd, FILE_MAX, &b, NULL) < 0)
		die("read %s: %s", path, errno_text(errno));
	f->n = b.len;
	f->text = buf_take(&b);
}

static void read_target(const char *path, struct tree_file *f)
{
	char target[512];
	ssize_t n = readlink(path, target, sizeof(target));

	if (n < 0)
		die("readlink %s: %s", path, errno_text(errno));
	f->n = (size_t)n;
	f->text = span_dup((struct span){target, f->n});
}

static void walk(struct tree *t, const char *dir, const char *below, const char *const *skip);

static void take_one(struct tree *t, const char *dir, char *path, const char *const *skip)
{
	auto_free char *at = full(dir, path);
	struct tree_file *f = &VEC_PUSH(t->v, t->n);
	struct stat st;

	if (lstat(at, &st) < 0)
		die("lstat %s: %s", at, errno_text(errno));
	f->path = path;
	f->mode = st.st_mode;
	if (S_ISREG(st.st_mode))
		read_text(at, f);
	else if (S_ISLNK(st.st_mode))
		read_target(at, f);
	else if (S_ISDIR(st.st_mode))
		walk(t, dir, path, skip);
}

static void walk(struct tree *t, const char *dir, const char *below, const char *const *skip)
{
	auto_free char *at = full(dir, below);
	DIR *d = opendir(at);
	struct dirent *e;

	if (!d)
		die("open directory '%s': %s", at, errno_text(errno));
	while ((e = readdir(d))) {
		char *path;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		path = *below ? full(below, e->d_name) : xstrdup(e->d_name);
		if (is_skipped(path, skip))
			free(path);
		else
			take_one(t, dir, path, skip);
	}
	closedir(d);
}

void tree_take(struct tree *t, const char *dir, const char *const *skip)
{
	*t = (struct tree){0};
	walk(t, dir, "", skip);
}

void tree_done(struct tree *t)
{
	for (size_t i = 0; i < t->n; i++) {
		free(t->v[i].path);
		free(t->v[i].text);
	}
	free(t->v);
	*t = (struct tree){0};
}

/* --- restore --- */

static const struct tree_file *find(const struct tree *t, const char *path)
{
	for (size_t i = 0; i < t->n; i++)
		if (strcmp(t->v[i].path, path) == 0)
			return &t->v[i];
	return NULL;
}

static bool is_same(const struct tree_file *a, const struct tree_file *b)
{
	return a && b && a->mode == b->mode && a->n == b->n &&
	       memcmp(a->text ? a->text : "", b->text ? b->text : "", a->n) == 0;
}

static void make(const struct tree_file *f, const char *dir)
{
	auto_free char *at = full(dir, f->path);
	auto_fd int fd = -1;

	if (S_ISDIR(f->mode)) {
		mkdir(at, f->mode & 07777);
		return;
	}
	if (S_ISLNK(f->mode)) {
		if (symlink(f->text, at) < 0)
			die("symlink %s: %s", at, errno_text(errno));
		return;
	}
	fd = open(at, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || fd_write_all(fd, f->text, f->n, NULL) < 0 || fchmod(fd, f->mode & 07777) < 0)
		die("write %s: %s", at, errno_text(errno));
}

void tree_restore(const struct tree *t, const char *dir, const char *const *skip)
{
	struct tree now;

	tree_take(&now, dir, skip);
	for (size_t i = now.n; i-- > 0;) {
		auto_free char *at = full(dir, now.v[i].path);

		/* Deepest first: the list has a directory before its contents. */
		if (!is_same(find(t, now.v[i].path), &now.v[i]) && remove(at) < 0 &&
		    errno != ENOTEMPTY)
			die("remove %s: %s", at, errno_text(errno));
	}
	for (size_t i = 0; i < t->n; i++)
		if (!is_same(find(&now, t->v[i].path), &t->v[i]))
			make(&t->v[i], dir);
	tree_done(&now);
}

/* --- leftovers --- */

/* An address in a journal, and the state in its last record. */
struct held {
	char *ip;
	const char *word;
};

static void add_held(struct held **v, size_t *n, struct span ip, const char *word)
{
	for (size_t i = 0; i < *n; i++)
		if (span_eq(ip, (*v)[i].ip)) {
			(*v)[i].word = word;
			return;
		}
	VEC_PUSH(*v, *n) = (struct held){span_dup(ip), word};
}

/* Adds the addresses in a line of a journal to *v, each with its state; ipam/journal/journal.h
 * documents the format. */
static void read_line(struct span line, struct held **v, size_t *n)
{
	static const char *const states[] = {"allocate", "release", "retain", "quarantine"};
	const char *state = "?";
	struct span word;

	while (span_cut(&line, ' ', &word)) {
		for (size_t i = 0; i < ARRAY_LEN(states); i++)
			if (span_eq(word, states[i]))
				state = states[i];
		if (span_has_prefix(word, "ip="))
			add_held(v, n, (struct span){word.p + 3, word.n - 3}, state);
	}
}

static void put_leases(const struct tree_file *f, struct buf *b)
{
	struct span rest = {f->text, f->n}, line;
	struct held *v = NULL;
	size_t n = 0;

	while (span_cut(&rest, '\n', &line))
		if (line_is_whole(line.p, line.n))
			read_line(line, &v, &n);
	for (size_t i = 0; i < n; i++) {
		if (strcmp(v[i].word, "release") != 0)
			buf_printf(b, "address %s: %s in %s\n", v[i].ip, v[i].word, f->path);
		free(v[i].ip);
	}
	free(v);
}

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Directories, locks, anchors of journals and round-robin positions, which each call may leave. */
static bool is_furniture(const struct tree_file *f)
{
	const char *base = base_of(f->path);
	size_t n = strlen(base);

	return S_ISDIR(f->mode) || strcmp(base, "lock") == 0 ||
	       (n >= 5 && strcmp(base + n - 5, ".lock") == 0) ||
	       strcmp(base, "journal.anchor") == 0 || strncmp(base, "last_reserved_ip.", 17) == 0;
}

static void put_file(const struct tree_file *f, struct buf *b)
{
	buf_printf(b, "file %s mode %o ", f->path, (unsigned int)f->mode);
	if (!f->text || f->n > SHOWN_MAX)
		buf_printf(b, "%zu bytes, sum %016llx", f->n,
			   f->text ? (unsigned long long)xxh64(f->text, f->n) : 0);
	else
		for (size_t i = 0; i < f->n; i++)
			buf_char(b, f->text[i] >= ' ' ? f->text[i] : '~');
	buf_char(b, '\n');
}

void tree_dump(const struct tree *t, struct buf *b)
{
	for (size_t i = 0; i < t->n; i++)
		if (strcmp(base_of(t->v[i].path), "journal") == 0)
			put_leases(&t->v[i], b);
		else if (!is_furniture(&t->v[i]))
			put_file(&t->v[i], b);
}
