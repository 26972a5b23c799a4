/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BASE_LOG_H
#define UNIRAIL_BASE_LOG_H

/*
 * Logs: one line an event, stable keys, no secrets.  Format logfmt or JSON, to stderr or to a
 * file (opened O_APPEND; reopened by size: file.1 .. file.N).  stdout belongs to CNI.
 *
 *	log_info("attached", LOG_S("rail", name), LOG_I("ms", ms));
 *
 * Every line has ts (RFC 3339, UTC, milliseconds), level, msg, then the context keys set by
 * log_context(), then the call's own.
 */

#include <stdint.h>

#include "base/err.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR, LOG_NONE };
enum log_format { LOG_LOGFMT, LOG_JSON };

struct log_kv {
	const char *key;
	const char *s; /* NULL: the number */
	int64_t i;
};

#define LOG_S(k, v) ((struct log_kv){.key = (k), .s = (v)})
#define LOG_I(k, v) ((struct log_kv){.key = (k), .i = (v)})

extern enum log_level log_threshold; /* the one global */

struct log_conf {
	enum log_level level;
	enum log_format format;
	const char *path;  /* NULL or "" is stderr */
	int64_t max_bytes; /* 0: never rotated */
	int max_files;
};

int log_setup(const struct log_conf *c, struct err *e);
/* debug info warn warning error fatal panic, any case; -EINVAL otherwise. */
int log_level_parse(const char *s, enum log_level *ret);
/* Adds a key to every later line; NULL value removes it. */
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

#endif
