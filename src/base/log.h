/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BASE_LOG_H
#define UNIRAIL_BASE_LOG_H

/*
 * Logs: one line per event, stable keys, no secrets. Format logfmt or JSON, to stderr or to a file
 * (opened O_APPEND; rotated by size: file.1 .. file.N). Lines are never written to stdout, where a
 * CNI plugin prints its result.
 *
 *	log_info("attached", LOG_S("rail", name), LOG_I("ms", ms));
 *
 * Every line has ts (RFC 3339, UTC, milliseconds), level, msg, then the context keys set by
 * log_context(), then the keys of the call.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR, LOG_NONE };
enum log_format { LOG_LOGFMT, LOG_JSON };

struct log_kv {
	const char *key;
	const char *s; /* NULL: the value is the number */
	int64_t i;
};

#define LOG_S(k, v) ((struct log_kv){.key = (k), .s = (v)})
#define LOG_I(k, v) ((struct log_kv){.key = (k), .i = (v)})

extern enum log_level log_threshold; /* lines of a lower level are not written */

struct log_conf {
	enum log_level level;
	enum log_format format;
	const char *path;  /* path of the log file; NULL or "": stderr */
	int64_t max_bytes; /* 0: never rotated */
	int max_files;
};

int log_setup(const struct log_conf *c, struct err *e);
/* Parses a level in upper or lower case: debug, info, warn, warning, error, fatal or panic
 * (fatal and panic: no line is written). -EINVAL: any other word. */
int log_level_parse(const char *s, enum log_level *ret);
/* Adds a key to every later line; value NULL removes the key. A ninth key is ignored. */
void log_context(const char *key, const char *value);

void log_write(enum log_level level, const char *msg, const struct log_kv *kv, unsigned int n);

#define log_at(level, msg, ...)                                                                    \
	do {                                                                                       \
		if ((level) >= log_threshold) {                                                    \
			const struct log_kv log_kvs[] = {__VA_ARGS__ __VA_OPT__(, ){0}};           \
			log_write(level, msg, log_kvs, sizeof(log_kvs) / sizeof(log_kvs[0]) - 1);  \
		}                                                                                  \
	} while (0)
#define log_debug(...) log_at(LOG_DEBUG, __VA_ARGS__)
#define log_info(...)  log_at(LOG_INFO, __VA_ARGS__)
#define log_warn(...)  log_at(LOG_WARN, __VA_ARGS__)
#define log_error(...) log_at(LOG_ERROR, __VA_ARGS__)

/*
 * Lines that an untrusted party can cause: a peer that has not authenticated, or an object that a
 * tenant writes. Each line is rate-limited per place (the call in the source) and subject, so that
 * no party can fill the disk, and a flood from one subject does not hide the lines of another:
 *
 *	log_limited(LOG_WARN, 1, "request refused", LOG_S("peer", address), LOG_S("error", why));
 *	log_limited(LOG_WARN, 2, "no networks for a pod", LOG_S("namespace", ns), LOG_S("pod", pod),
 *		    LOG_S("error", e->text));
 *
 * The second argument is how many of the first pairs identify the subject (at most LOG_SUBJECT_MAX;
 * 0: the place is the only subject). A peer is named by its address without the port. In each
 * LOG_PERIOD_MS a subject may write LOG_SUBJECT_LINES lines per place, and all subjects together
 * LOG_PLACE_LINES. Further lines are counted; at the end of the period one line with the same msg
 * and subject reports them:
 *
 *	level=warn msg="request refused" peer=10.1.2.3 suppressed=812 seconds=60 last="bad request"
 *
 * (`last`: the value of "error" of the last suppressed line.) At most ten such lines are written
 * per place and period; one more line, without a subject, reports the suppressed lines of all other
 * subjects. A program with an event loop (base/loop.h) writes these lines when the period ends, any
 * other program at the latest when it exits. Memory is fixed: nothing is allocated. Keys must be
 * string literals.
 *
 * Use log_warn() and log_error(), which are never limited, for lines that only an administrator can
 * cause.
 */
enum {
	LOG_PERIOD_MS = 60 * 1000,
	LOG_SUBJECT_MAX = 3,
	LOG_SUBJECT_LINES = 3,
	LOG_PLACE_LINES = 30,
};

/* State of one place (call of log_limited() in the source); a static variable that the macro
 * defines. */
struct log_place {
	struct log_place *next;
	bool listed;
	enum log_level level;
	char msg[96];
	int64_t start_ms; /* start of the period */
	unsigned int lines, summaries;
	/* number of suppressed lines of subjects that are not counted individually */
	uint64_t suppressed;
};

void log_write_limited(struct log_place *place, unsigned int n_subject, int64_t now_ms,
		       enum log_level level, const char *msg, const struct log_kv *kv,
		       unsigned int n);
int64_t log_limit_now(void);

#define log_limited(level, n_subject, msg, ...)                                                    \
	do {                                                                                       \
		if ((level) >= log_threshold) {                                                    \
			static struct log_place log_here;                                          \
			const struct log_kv log_kvs[] = {__VA_ARGS__ __VA_OPT__(, ){0}};           \
			log_write_limited(&log_here, n_subject, log_limit_now(), level, msg,       \
					  log_kvs, sizeof(log_kvs) / sizeof(log_kvs[0]) - 1);      \
		}                                                                                  \
	} while (0)

/* Logs the counts of suppressed lines whose period has ended. Returns the ms until the next
 * period with suppressed lines ends; -1: there is none. Called by the loop. */
int64_t log_limit_flush(int64_t now_ms);
/* Writes and resets all counts; called when a program ends. */
void log_limit_end(void);

/*
 * Logs a lasting condition when it begins and when its text changes, not each time it is detected:
 *
 *	if (r < 0 && log_once(&x->logged, e.text))
 *		log_error("pools are left out", LOG_S("error", e.text));
 *	if (r == 0 && log_once_clear(&x->logged))
 *		log_info("all pools can be used");
 *
 * A struct of zeros is a condition that has not been logged. It needs no freeing.
 */
struct log_once {
	bool reported;
	uint64_t hash; /* hash of the text logged last */
};
bool log_once(struct log_once *o, const char *text);
/* Returns true if log_once() returned true since the last call of log_once_clear(). */
bool log_once_clear(struct log_once *o);

#endif
