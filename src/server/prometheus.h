/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_SERVER_PROMETHEUS_H
#define UNIRAIL_SERVER_PROMETHEUS_H

/* Metrics in the Prometheus text format. */

#include <stdint.h>

#include "base/buf.h"

/*
 * One row of the table of metrics. METRIC() defines a row, in the code that writes the metric's
 * values; the linker collects all rows (section `metrics`), for `unirail help metrics` and
 * tests/netns/test_reference.py. Name, type and help are string literals. A daemon's metrics are
 * those that source files below the daemon's directory, such as src/agent, define.
 */
struct metric {
	const char *name, *type, *help;
	const char *file; /* "src/agent/api/metrics.c" */
};

#define METRIC(the_name, the_type, the_help)                                                       \
	(__extension__({                                                                           \
		static const struct metric metric_row                                              \
			__attribute__((section("metrics"), used)) = {the_name, the_type, the_help, \
								     __FILE__};                    \
		&metric_row;                                                                       \
	}))

/* metrics_first() returns this program's first row, metrics_end() the address after the last
 * row. */
const struct metric *metrics_first(void);
const struct metric *metrics_end(void);

/* Starts a metric with its type ("counter", "gauge", "histogram") and help; its values follow. */
void sample_name(struct buf *b, const struct metric *m);
/* Writes one value; label NULL: it has no label. */
void sample_value(struct buf *b, const char *name, const char *label, const char *value, int64_t n);
/* Writes `us` microseconds as seconds with six decimals. */
void sample_put_seconds(struct buf *b, int64_t us);
/* Like sample_value(), with `us` microseconds as seconds. */
void sample_seconds(struct buf *b, const char *name, const char *label, const char *value,
		    int64_t us);
/* Writes a metric with a single value without a label. */
void sample_one(struct buf *b, const struct metric *m, int64_t n);
#define sample_counter(b, name, n, help) sample_one(b, METRIC(name, "counter", help), (int64_t)(n))
#define sample_gauge(b, name, n, help)	 sample_one(b, METRIC(name, "gauge", help), (int64_t)(n))

#endif
