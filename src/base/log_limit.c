/* SPDX-License-Identifier: Apache-2.0 */
/* What strangers can cause to be logged: counted by place and subject in a table of fixed size. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/loop.h"

enum {
	N_SETS = 64, /* a subject is in one of the four rows of its set */
	N_ROWS = 4,
	VALUE_MAX = 96,
	LAST_MAX = 160,
	SUMMARIES_MAX = 10, /* lines for one place when a period ends; the rest is one more */
};

struct subject {
	struct log_place *place; /* NULL: the row is free */
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
	int64_t due_ms; /* of the first count; 0: nothing is counted */
	bool at_exit;
} limit;

int64_t log_limit_now(void)
{
	return now_mono_ms();
}

/* FNV-1a: who finds two subjects of one hash shares a limit with himself. */
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

/* A row that is left tells its count itself, or adds it to its place's when that has told enough. */
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

/* The subject's row, or one for it: a free one of its set, else the oldest's. */
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
	/* Full: a subject more would only push one out that is counted. */
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
	limit.due_ms = 0;
	for (size_t i = 0; i < N_SETS; i++)
		for (size_t k = 0; k < N_ROWS; k++) {
			struct subject *s = &limit.rows[i][k];

			if (!s->place)
				continue;
			if (all || is_over(s->start_ms, now_ms))
				close_row(s);
			else if (s->suppressed > 0)
				count_due(s->start_ms);
		}
	for (struct log_place *p = limit.places; p; p = p->next)
		if (all || is_over(p->start_ms, now_ms))
			close_place(p, now_ms);
		else if (p->suppressed > 0)
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

	if (o->told && o->hash == hash)
		return false;
	*o = (struct log_once){true, hash};
	return true;
}

bool log_once_clear(struct log_once *o)
{
	bool told = o->told;

	*o = (struct log_once){0};
	return told;
}
