/* SPDX-License-Identifier: Apache-2.0 */
#include "server/prometheus.h"

/* The linker defines these for a section whose name is an identifier. */
extern const struct metric __start_metrics[], __stop_metrics[];

const struct metric *metrics_first(void)
{
	return __start_metrics;
}

const struct metric *metrics_end(void)
{
	return __stop_metrics;
}

void sample_name(struct buf *b, const struct metric *m)
{
	buf_printf(b, "# HELP %s %s\n# TYPE %s %s\n", m->name, m->help, m->name, m->type);
}

/* Writes a label's value with backslash, quote and line feed escaped. */
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

static void start_value(struct buf *b, const char *name, const char *label, const char *value)
{
	buf_str(b, name);
	if (label)
		add_label(b, label, value);
	buf_char(b, ' ');
}

void sample_value(struct buf *b, const char *name, const char *label, const char *value, int64_t n)
{
	start_value(b, name, label, value);
	buf_printf(b, "%lld\n", (long long)n);
}

void sample_put_seconds(struct buf *b, int64_t us)
{
	buf_printf(b, "%lld.%06lld", (long long)(us / 1000000), (long long)(us % 1000000));
}

void sample_seconds(struct buf *b, const char *name, const char *label, const char *value,
		    int64_t us)
{
	start_value(b, name, label, value);
	sample_put_seconds(b, us);
	buf_char(b, '\n');
}

void sample_one(struct buf *b, const struct metric *m, int64_t n)
{
	sample_name(b, m);
	sample_value(b, m->name, NULL, NULL, n);
}
