/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log_line.h"
#include "base/loop.h"

enum log_level log_threshold = LOG_INFO;

enum { CONTEXT_MAX = 8 };

/* Where lines go. Fixed sizes: a line about memory running out needs none. */
static struct {
	int file; /* its descriptor while path is set, else stderr is meant */
	enum log_format format;
	int64_t max_bytes;
	int max_files;
	char path[PATH_MAX];
	struct {
		char key[32], value[256];
	} context[CONTEXT_MAX];
} out;

int log_level_parse(const char *s, enum log_level *ret)
{
	static const struct {
		char word[8];
		enum log_level level;
	} words[] = {{"debug", LOG_DEBUG},  {"info", LOG_INFO},	  {"warn", LOG_WARN},
		     {"warning", LOG_WARN}, {"error", LOG_ERROR}, {"fatal", LOG_NONE},
		     {"panic", LOG_NONE}};

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (strcasecmp(s, words[i].word) == 0) {
			*ret = words[i].level;
			return 0;
		}
	return -EINVAL;
}

/* A netconf may name the file: no link or FIFO of another user, which would be written to as root. */
static int open_host(struct root *ret, struct err *e)
{
	int r = root_open(ret, NULL, e);

	if (r == 0)
		ret->strict = true;
	return r;
}

static int open_log(const char *path, struct err *e)
{
	struct root host;
	int fd = open_host(&host, e);

	if (fd < 0)
		return fd;
	fd = file_open(&host, path, O_WRONLY | O_CREAT | O_APPEND, 0600, e);
	root_close(&host);
	return fd < 0 ? err_wrap(e, fd, "log file '%s'", path) : fd;
}

/* The folder of a log is made, as the programs this replaces did. */
static int make_folder(const char *path, struct err *e)
{
	const char *slash = strrchr(path, '/');
	struct root host;
	char dir[PATH_MAX];
	int r;

	if (path[0] != '/')
		return err_set(e, -EINVAL, "log file '%s': must be an absolute path", path);
	if (!str_copy(dir, sizeof(dir), path))
		return err_sys(e, -ENAMETOOLONG, "log file '%s'", path);
	if (slash == path)
		return 0;
	dir[slash - path] = '\0';
	r = open_host(&host, e);
	if (r < 0)
		return r;
	r = dir_make(&host, dir, 0755, e);
	root_close(&host);
	return r < 0 ? err_wrap(e, r, "log file '%s'", path) : 0;
}

int log_setup(const struct log_conf *c, struct err *e)
{
	bool to_file = c->path && *c->path;
	int fd = -1;

	if (to_file) {
		int r = make_folder(c->path, e);

		if (r < 0)
			return r;
		fd = open_log(c->path, e);
		if (fd < 0)
			return fd;
	}
	if (out.path[0])
		close(out.file);
	out.file = fd;
	out.format = c->format;
	out.max_bytes = c->max_bytes;
	out.max_files = c->max_files;
	str_copy(out.path, sizeof(out.path), to_file ? c->path : "");
	log_threshold = c->level;
	return 0;
}

/* The row of a key; "" finds a free one. -1: none. */
static int context_row(const char *key)
{
	for (int i = 0; i < CONTEXT_MAX; i++)
		if (strcmp(out.context[i].key, key) == 0)
			return i;
	return -1;
}

void log_context(const char *key, const char *value)
{
	int i = context_row(key);

	if (i < 0 && value)
		i = context_row("");
	if (i < 0)
		return;
	str_copy(out.context[i].key, sizeof(out.context[i].key), value ? key : "");
	str_copy(out.context[i].value, sizeof(out.context[i].value), value ? value : "");
}

/* file.1 -> file.2 ..., file -> file.1; the oldest goes. */
static void shift_files(void)
{
	char from[PATH_MAX + 16], to[PATH_MAX + 16];

	if (out.max_files <= 0) {
		unlink(out.path);
		return;
	}
	for (int i = out.max_files; i > 0; i--) {
		snprintf(to, sizeof(to), "%s.%d", out.path, i);
		snprintf(from, sizeof(from), i > 1 ? "%s.%d" : "%s", out.path, i - 1);
		rename(from, to);
	}
}

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/*
 * Several processes append to one file and all see it full at the same moment: the one that
 * holds the lock moves it while the name still means the file we have open; the others find
 * another file under the name and only reopen.
 */
static void rotate(void)
{
	struct stat ours, named;
	int fd;

	flock(out.file, LOCK_EX);
	if (fstat(out.file, &ours) == 0 && stat(out.path, &named) == 0 && same_file(&ours, &named))
		shift_files();
	flock(out.file, LOCK_UN);
	fd = open_log(out.path, NULL);
	if (fd >= 0) {
		close(out.file);
		out.file = fd;
	}
}

static void emit(const struct log_line *l)
{
	struct stat st;

	/* nlink 0: somebody removed the file, and lines would go nowhere. */
	if (out.path[0] && fstat(out.file, &st) == 0 &&
	    (st.st_nlink == 0 ||
	     (out.max_bytes > 0 && st.st_size > 0 && st.st_size + (int64_t)l->n > out.max_bytes)))
		rotate();
	/* One write a line, so that lines of several processes do not mix. */
	while (write(out.path[0] ? out.file : STDERR_FILENO, l->p, l->n) < 0 && errno == EINTR)
		;
}

static void add_time(struct log_line *l)
{
	int64_t ms = now_real_ms();
	time_t sec = ms / 1000;
	char text[40], day[32];
	struct tm tm;

	gmtime_r(&sec, &tm);
	strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text, sizeof(text), "%s.%03dZ", day, (int)(ms % 1000));
	log_line_str(l, "ts", text);
}

static bool has_key(const struct log_kv *kv, unsigned int n, const char *key)
{
	for (unsigned int i = 0; i < n; i++)
		if (strcmp(kv[i].key, key) == 0)
			return true;
	return false;
}

void log_write(enum log_level level, const char *msg, const struct log_kv *kv, unsigned int n)
{
	static const char names[][8] = {"debug", "info", "warn", "error", "error"};
	int saved = errno;
	struct log_line l;

	if (level < log_threshold)
		return;
	log_line_begin(&l, out.format);
	add_time(&l);
	log_line_str(&l, "level", names[level]);
	log_line_str(&l, "msg", msg);
	/* The call's own key wins over the context's: a key twice is no JSON. */
	for (size_t i = 0; i < CONTEXT_MAX; i++)
		if (out.context[i].key[0] && !has_key(kv, n, out.context[i].key))
			log_line_str(&l, out.context[i].key, out.context[i].value);
	for (unsigned int i = 0; i < n; i++)
		if (kv[i].s)
			log_line_str(&l, kv[i].key, kv[i].s);
		else
			log_line_int(&l, kv[i].key, kv[i].i);
	log_line_end(&l);
	emit(&l);
	errno = saved;
}
