/* SPDX-License-Identifier: Apache-2.0 */
#include "server/prometheus.h"

void sample_name(struct buf *b, const char *name, const char *type, const char *help)
{
	buf_printf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* A label's value: backslash, quote and line feed are escaped. */
static void add_label(struct buf *b, const char *label, const char *value)
{
	buf_printf(b, "{%s=\"", label);
	for (; *value; value++) {
		if (*value == '\\' || *value == '"')
			buf_char(b, '\\');
		if (*value == '\n')
			buf_str(b, "\\n");
		else
			buf_char(b, *value);
	}
	buf_str(b, "\"}");
}

void sample_value(struct buf *b, const char *name, const char *label, const char *value, int64_t n)
{
	buf_str(b, name);
	if (label)
		add_label(b, label, value);
	buf_printf(b, " %lld\n", (long long)n);
}

void sample_counter(struct buf *b, const char *name, uint64_t n, const char *help)
{
	sample_name(b, name, "counter", help);
	sample_value(b, name, NULL, NULL, (int64_t)n);
}

void sample_gauge(struct buf *b, const char *name, int64_t n, const char *help)
{
	sample_name(b, name, "gauge", help);
	sample_value(b, name, NULL, NULL, n);
}
