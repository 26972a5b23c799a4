/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_SERVER_PROMETHEUS_H
#define UNIRAIL_SERVER_PROMETHEUS_H

/* Metrics in the Prometheus text format. */

#include <stdint.h>

#include "base/buf.h"

/* Starts a metric with its type ("counter", "gauge") and help; its values follow. */
void sample_name(struct buf *b, const char *name, const char *type, const char *help);
/* label NULL: none. */
void sample_value(struct buf *b, const char *name, const char *label, const char *value, int64_t n);
/* Both in one call, for a single value without a label. */
void sample_counter(struct buf *b, const char *name, uint64_t n, const char *help);
void sample_gauge(struct buf *b, const char *name, int64_t n, const char *help);

#endif
