/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <stdbool.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/loop.h"

/* A log line in a fixed buffer: no allocation, always well formed. */

enum { LOG_LINE_MAX = 4096 };

struct log_line {
	enum log_format format;
	char p[LOG_LINE_MAX];
	size_t n;
	bool full; /* a part did not fit: log_line_end() adds cut=true */
};

enum log_level log_threshold = LOG_INFO;

enum { CONTEXT_MAX = 8 };

/* The output of log lines. The struct has a fixed size, so that a log line about exhausted
 * memory needs no allocation. */
static struct {
	int file; /* descriptor of the file while path is set; otherwise lines go to stderr */
	enum log_format format;
	int64_t max_bytes;
	int max_files;
	char path[PATH_MAX];
	struct {
		char key[32], value[256];
	} context[CONTEXT_MAX];
} output;

int log_level_parse(const char *s, enum log_level *ret)
{
	static const struct {
		char word[8];
		enum log_level level;
	} names[] = {{"debug", LOG_DEBUG},  {"info", LOG_INFO},	  {"warn", LOG_WARN},
		     {"warning", LOG_WARN}, {"error", LOG_ERROR}, {"fatal", LOG_NONE},
		     {"panic", LOG_NONE}};

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strcasecmp(s, names[i].word) == 0) {
			*ret = names[i].level;
			return 0;
		}
	return -EINVAL;
}

/* Opens "/" as a strict root: a netconf may name the log file, and this process, as root, writes to
 * it. A strict root refuses FIFOs, and symbolic links that users other than root can change. */
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

/* Creates the directory of a log file, as the replaced programs do. */
static int make_dir(const char *path, struct err *e)
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
		int r = make_dir(c->path, e);

		if (r < 0)
			return r;
		fd = open_log(c->path, e);
		if (fd < 0)
			return fd;
	}
	if (output.path[0])
		close(output.file);
	output.file = fd;
	output.format = c->format;
	output.max_bytes = c->max_bytes;
	output.max_files = c->max_files;
	str_copy(output.path, sizeof(output.path), to_file ? c->path : "");
	log_threshold = c->level;
	return 0;
}

/* Returns the row of a key, or -1 if there is none. The key "" finds a free row. */
static int context_row(const char *key)
{
	for (int i = 0; i < CONTEXT_MAX; i++)
		if (strcmp(output.context[i].key, key) == 0)
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
	str_copy(output.context[i].key, sizeof(output.context[i].key), value ? key : "");
	str_copy(output.context[i].value, sizeof(output.context[i].value), value ? value : "");
}

/* Renames file.1 to file.2 ..., file to file.1; replaces the oldest. max_files 0: removes file. */
static void shift_files(void)
{
	char from[PATH_MAX + 16], to[PATH_MAX + 16];

	if (output.max_files <= 0) {
		unlink(output.path);
		return;
	}
	for (int i = output.max_files; i > 0; i--) {
		snprintf(to, sizeof(to), "%s.%d", output.path, i);
		snprintf(from, sizeof(from), i > 1 ? "%s.%d" : "%s", output.path, i - 1);
		rename(from, to);
	}
}

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/*
 * Several processes append to one file, and several of them can detect at the same time that it is
 * full. The process that gets the lock first renames the file, because output.path still names the
 * open file. The other processes then find a different file, or no file, at output.path and only
 * open output.path again.
 */
static void rotate(void)
{
	struct stat opened, named;
	int fd;

	flock(output.file, LOCK_EX);
	if (fstat(output.file, &opened) == 0 && stat(output.path, &named) == 0 &&
	    same_file(&opened, &named))
		shift_files();
	flock(output.file, LOCK_UN);
	fd = open_log(output.path, NULL);
	if (fd >= 0) {
		close(output.file);
		output.file = fd;
	}
}

static void emit(const struct log_line *l)
{
	struct stat st;

	/* nlink 0: the file was removed, and lines written to it would be lost */
	if (output.path[0] && fstat(output.file, &st) == 0 &&
	    (st.st_nlink == 0 || (output.max_bytes > 0 && st.st_size > 0 &&
				  st.st_size + (int64_t)l->n > output.max_bytes)))
		rotate();
	/* one write per line, so that lines of several processes are not mixed */
	while (write(output.path[0] ? output.file : STDERR_FILENO, l->p, l->n) < 0 &&
	       errno == EINTR)
		;
}

static void log_line_str(struct log_line *l, const char *key, const char *value);

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

static void log_line_begin(struct log_line *l, enum log_format format);

/* Appends closing bytes, for which TAIL is reserved. */
static void close_with(struct log_line *l, const char *s)
{
	memcpy(l->p + l->n, s, strlen(s));
	l->n += strlen(s);
}

/* Ends the line: appends cut=true if a part did not fit, the closing brace of JSON, and a line
 * break. */
static void log_line_end(struct log_line *l)
{
	if (l->full)
		close_with(l, l->format == LOG_JSON ? ",\"cut\":true" : " cut=true");
	close_with(l, l->format == LOG_JSON ? "}\n" : "\n");
}

static void log_line_int(struct log_line *l, const char *key, int64_t value);

void log_write(enum log_level level, const char *msg, const struct log_kv *kv, unsigned int n)
{
	static const char names[][8] = {"debug", "info", "warn", "error", "error"};
	int saved = errno;
	struct log_line l;

	if (level < log_threshold)
		return;
	log_line_begin(&l, output.format);
	add_time(&l);
	log_line_str(&l, "level", names[level]);
	log_line_str(&l, "msg", msg);
	/* a key of the call replaces that of the context, because JSON must not have a key twice */
	for (size_t i = 0; i < CONTEXT_MAX; i++)
		if (output.context[i].key[0] && !has_key(kv, n, output.context[i].key))
			log_line_str(&l, output.context[i].key, output.context[i].value);
	for (unsigned int i = 0; i < n; i++)
		if (kv[i].s)
			log_line_str(&l, kv[i].key, kv[i].s);
		else
			log_line_int(&l, kv[i].key, kv[i].i);
	log_line_end(&l);
	emit(&l);
	errno = saved;
}

/* Bytes reserved for the end of a line: closing quote, cut=true, closing brace, line break. */
enum { TAIL = 24 };

/* Appends all of s or nothing, so that an escape or a UTF-8 sequence is never split. */
static bool put(struct log_line *l, const char *s, size_t n)
{
	if (l->full || l->n + n > sizeof(l->p) - TAIL) {
		l->full = true;
		return false;
	}
	memcpy(l->p + l->n, s, n);
	l->n += n;
	return true;
}

/* Returns the length of the UTF-8 sequence at s, which is not empty; 0: invalid. */
static size_t sequence_len(const char *s)
{
	return utf8_len((struct span){s, strnlen(s, 4)});
}

/* Appends one character as both formats write it in quotes; returns the number of bytes read from
 * s. */
static size_t put_char(struct log_line *l, const char *s)
{
	static const char from[] = "\"\\\n\r\t", to[] = "\"\\nrt";
	const char *special = strchr(from, *s);
	size_t n = sequence_len(s);
	char out[8];

	if (n == 0) {
		put(l, "\\ufffd", 6);
		return 1;
	}
	if (special) {
		put(l, (const char[]){'\\', to[special - from]}, 2);
	} else if ((unsigned char)*s < 0x20 || *s == 0x7f) {
		snprintf(out, sizeof(out), "\\u%04x", (unsigned int)*s);
		put(l, out, 6);
	} else {
		put(l, s, n);
	}
	return n;
}

static void put_quoted(struct log_line *l, const char *s)
{
	if (!put(l, "\"", 1))
		return;
	while (*s && !l->full)
		s += put_char(l, s);
	close_with(l, "\"");
}

/* Returns whether logfmt may write s without quotes. */
static bool is_bare(const char *s)
{
	if (!*s)
		return false;
	for (size_t n; *s; s += n) {
		n = sequence_len(s);
		if (n == 0 || (unsigned char)*s <= ' ' || *s == 0x7f || *s == '=' || *s == '"')
			return false;
	}
	return true;
}

static bool put_key(struct log_line *l, const char *key)
{
	size_t before = l->n, n = strlen(key);
	bool first = l->n == (l->format == LOG_JSON ? 1U : 0U), ok;

	if (l->format == LOG_JSON)
		ok = (first || put(l, ",", 1)) && put(l, "\"", 1) && put(l, key, n) &&
		     put(l, "\":", 2);
	else
		ok = (first || put(l, " ", 1)) && put(l, key, n) && put(l, "=", 1);
	/* requires room for an opening quote and one byte of the value, so that no key is
	 * written without a value */
	ok = ok && l->n + 2 <= sizeof(l->p) - TAIL;
	if (!ok) {
		l->n = before;
		l->full = true;
	}
	return ok;
}

static void log_line_begin(struct log_line *l, enum log_format format)
{
	l->format = format;
	l->n = 0;
	l->full = false;
	if (format == LOG_JSON)
		put(l, "{", 1);
}

static void log_line_str(struct log_line *l, const char *key, const char *value)
{
	if (l->full || !put_key(l, key))
		return;
	if (l->format == LOG_LOGFMT && is_bare(value) &&
	    l->n + strlen(value) <= sizeof(l->p) - TAIL)
		put(l, value, strlen(value));
	else
		put_quoted(l, value);
}

static void log_line_int(struct log_line *l, const char *key, int64_t value)
{
	char text[24];
	int n = snprintf(text, sizeof(text), "%" PRId64, value);

	if (l->full)
		return;
	if (l->n + strlen(key) + (size_t)n + 8 > sizeof(l->p) - TAIL)
		l->full = true;
	else if (put_key(l, key))
		put(l, text, (size_t)n);
}

/* Lines that untrusted parties can cause: counted by place and subject in a table of fixed size. */

enum {
	/* the table has N_SETS sets of N_ROWS rows; the hash of a subject selects its set */
	N_SETS = 64,
	N_ROWS = 4,
	VALUE_MAX = 96,
	LAST_MAX = 160,
	/* maximum number of summary lines (a subject's count of suppressed lines) per place and
	 * period; further counts are added up in one line */
	SUMMARIES_MAX = 10,
};

struct subject {
	struct log_place *place; /* place of the row; NULL: the row is free */
	uint64_t hash;
	int64_t start_ms;
	unsigned int lines;
	uint64_t suppressed;
	enum log_level level;
	unsigned int n;
	const char *keys[LOG_SUBJECT_MAX];
	char values[LOG_SUBJECT_MAX][VALUE_MAX];
	char last[LAST_MAX];
};

static struct {
	struct subject rows[N_SETS][N_ROWS];
	struct log_place *places;
	/* earliest end of a period with suppressed lines to be logged; 0: there is none */
	int64_t due_ms;
	bool at_exit;
} limit;

int64_t log_limit_now(void)
{
	return now_mono_ms();
}

/* FNV-1a. A party that gives two of its subjects the same hash gains nothing: both share one
 * limit. */
static uint64_t hash_text(uint64_t h, const char *s)
{
	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 0x100000001b3;
	return (h ^ 0xff) * 0x100000001b3;
}

static const uint64_t hash_start = 0xcbf29ce484222325;

static void value_text(const struct log_kv *kv, char ret[VALUE_MAX])
{
	if (kv->s)
		snprintf(ret, VALUE_MAX, "%s", kv->s);
	else
		snprintf(ret, VALUE_MAX, "%" PRId64, kv->i);
}

static uint64_t hash_subject(const struct log_place *place, const struct log_kv *kv, unsigned int n)
{
	uint64_t h = hash_start ^ (uint64_t)(uintptr_t)place;
	char number[VALUE_MAX];

	for (unsigned int i = 0; i < n; i++) {
		if (!kv[i].s)
			value_text(&kv[i], number);
		h = hash_text(h, kv[i].s ? kv[i].s : number);
	}
	return h;
}

static void write_count(const struct log_place *place, const struct subject *s, uint64_t suppressed)
{
	struct log_kv kv[LOG_SUBJECT_MAX + 3];
	unsigned int n = 0;

	for (unsigned int i = 0; s && i < s->n; i++)
		kv[n++] = LOG_S(s->keys[i], s->values[i]);
	kv[n++] = LOG_I("suppressed", (int64_t)suppressed);
	kv[n++] = LOG_I("seconds", LOG_PERIOD_MS / 1000);
	if (s && s->last[0])
		kv[n++] = LOG_S("last", s->last);
	log_write(s ? s->level : place->level, place->msg, kv, n);
}

static void count_due(int64_t start_ms)
{
	if (!limit.at_exit)
		limit.at_exit = atexit(log_limit_end) == 0;
	if (limit.due_ms == 0 || start_ms + LOG_PERIOD_MS < limit.due_ms)
		limit.due_ms = start_ms + LOG_PERIOD_MS;
}

/* Frees a row and logs its count of suppressed lines. If its place has logged SUMMARIES_MAX counts
 * in this period, adds the count to that of the place instead. */
static void close_row(struct subject *s)
{
	struct log_place *place = s->place;

	if (s->suppressed > 0 && place->summaries < SUMMARIES_MAX) {
		place->summaries++;
		write_count(place, s, s->suppressed);
	} else if (s->suppressed > 0) {
		place->suppressed += s->suppressed;
		count_due(place->start_ms);
	}
	s->place = NULL;
}

static bool is_over(int64_t start_ms, int64_t now_ms)
{
	return now_ms - start_ms >= LOG_PERIOD_MS;
}

static void close_place(struct log_place *p, int64_t now_ms)
{
	if (p->suppressed > 0)
		write_count(p, NULL, p->suppressed);
	p->suppressed = 0;
	p->lines = p->summaries = 0;
	p->start_ms = now_ms;
}

/* Returns the row of the subject; else a free row of its set; else the oldest row of the set.
 * Closes the row first if it belongs to another subject or its period is over. */
static struct subject *row_of(struct log_place *place, uint64_t hash, int64_t now_ms)
{
	struct subject *set = limit.rows[hash % N_SETS], *best = &set[0];

	for (int i = 0; i < N_ROWS; i++) {
		struct subject *s = &set[i];

		if (s->place == place && s->hash == hash) {
			best = s;
			break;
		}
		if (best->place && (!s->place || s->start_ms < best->start_ms))
			best = s;
	}
	if (best->place &&
	    (best->place != place || best->hash != hash || is_over(best->start_ms, now_ms)))
		close_row(best);
	return best;
}

static bool is_known(const struct log_place *place, uint64_t hash)
{
	const struct subject *set = limit.rows[hash % N_SETS];

	for (int i = 0; i < N_ROWS; i++)
		if (set[i].place == place && set[i].hash == hash)
			return true;
	return false;
}

static void fill_row(struct subject *s, struct log_place *place, uint64_t hash, int64_t now_ms,
		     const struct log_kv *kv, unsigned int n)
{
	*s = (struct subject){.place = place, .hash = hash, .start_ms = now_ms, .n = n};
	for (unsigned int i = 0; i < n; i++) {
		s->keys[i] = kv[i].key;
		value_text(&kv[i], s->values[i]);
	}
}

static void remember_last(struct subject *s, enum log_level level, const struct log_kv *kv,
			  unsigned int n)
{
	s->level = level;
	for (unsigned int i = 0; i < n; i++)
		if (kv[i].s && strcmp(kv[i].key, "error") == 0)
			snprintf(s->last, sizeof(s->last), "%s", kv[i].s);
}

static void enter_place(struct log_place *p, enum log_level level, const char *msg, int64_t now_ms)
{
	if (!p->listed) {
		p->next = limit.places;
		p->listed = true;
		limit.places = p;
		p->start_ms = now_ms;
	} else if (is_over(p->start_ms, now_ms)) {
		close_place(p, now_ms);
	}
	p->level = level;
	snprintf(p->msg, sizeof(p->msg), "%s", msg);
}

void log_write_limited(struct log_place *place, unsigned int n_subject, int64_t now_ms,
		       enum log_level level, const char *msg, const struct log_kv *kv,
		       unsigned int n)
{
	struct subject *s;
	uint64_t hash;

	if (level < log_threshold)
		return;
	if (n_subject > n)
		n_subject = n;
	if (n_subject > LOG_SUBJECT_MAX)
		n_subject = LOG_SUBJECT_MAX;
	enter_place(place, level, msg, now_ms);
	hash = hash_subject(place, kv, n_subject);
	/* the place has reached its limit: a new subject would only evict one that is counted */
	if (place->lines >= LOG_PLACE_LINES && !is_known(place, hash)) {
		place->suppressed++;
		count_due(place->start_ms);
		return;
	}
	s = row_of(place, hash, now_ms);
	if (!s->place)
		fill_row(s, place, hash, now_ms, kv, n_subject);
	if (s->lines < LOG_SUBJECT_LINES && place->lines < LOG_PLACE_LINES) {
		s->lines++;
		place->lines++;
		log_write(level, msg, kv, n);
		return;
	}
	s->suppressed++;
	remember_last(s, level, kv, n);
	count_due(s->start_ms);
}

static void close_all(int64_t now_ms, bool all)
{
	struct subject *s;

	for (size_t i = 0; i < N_SETS; i++)
		for (size_t k = 0; k < N_ROWS; k++) {
			s = &limit.rows[i][k];
			if (s->place && (all || is_over(s->start_ms, now_ms)))
				close_row(s);
		}
	for (struct log_place *p = limit.places; p; p = p->next)
		if (all || is_over(p->start_ms, now_ms))
			close_place(p, now_ms);
	/* Recomputes due_ms only after the loops above: close_row() may add its count to that of
	 * a place, which close_place() then logs and resets. */
	limit.due_ms = 0;
	for (size_t i = 0; i < N_SETS; i++)
		for (size_t k = 0; k < N_ROWS; k++) {
			s = &limit.rows[i][k];
			if (s->place && s->suppressed > 0)
				count_due(s->start_ms);
		}
	for (struct log_place *p = limit.places; p; p = p->next)
		if (p->suppressed > 0)
			count_due(p->start_ms);
}

int64_t log_limit_flush(int64_t now_ms)
{
	if (limit.due_ms == 0)
		return -1;
	if (now_ms >= limit.due_ms)
		close_all(now_ms, false);
	return limit.due_ms == 0 ? -1 : limit.due_ms - now_ms;
}

void log_limit_end(void)
{
	close_all(0, true);
}

bool log_once(struct log_once *o, const char *text)
{
	uint64_t hash = hash_text(hash_start, text ? text : "");

	if (o->reported && o->hash == hash)
		return false;
	*o = (struct log_once){true, hash};
	return true;
}

bool log_once_clear(struct log_once *o)
{
	bool reported = o->reported;

	*o = (struct log_once){0};
	return reported;
}
