/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BASE_LOG_LINE_H
#define UNIRAIL_BASE_LOG_LINE_H

/* One log line in a fixed buffer: no allocation, always well formed; log.c only. */

#include <stdbool.h>

#include "base/log.h"

enum { LOG_LINE_MAX = 4096 };

struct log_line {
	enum log_format format;
	char p[LOG_LINE_MAX];
	size_t n;
	bool full; /* something did not fit; the end of the line says so */
};

void log_line_begin(struct log_line *l, enum log_format format);
void log_line_str(struct log_line *l, const char *key, const char *value);
void log_line_int(struct log_line *l, const char *key, int64_t value);
void log_line_end(struct log_line *l); /* with the new line */

#endif
