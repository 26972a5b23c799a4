/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_API_METRICS_H
#define UNIRAIL_AGENT_API_METRICS_H

/*
 * What the agent counts, and as text for Prometheus. Names are those that Spiderpool documents
 * (with "_total" where its exporter adds it); what it has not got is under unirail_. Labels are
 * bounded: phases are an enum, of pools there are METRICS_POOLS_MAX at most, the others as one.
 */

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum { METRICS_TEXT_MAX = 4 << 20, METRICS_POOLS_MAX = 1000, METRICS_BUCKETS = 9 };

/* Times, in us. Requests as a whole are counted by Spiderpool's limits, phases by finer ones. */
struct metrics_times {
	uint64_t buckets[METRICS_BUCKETS + 1]; /* the last: longer than all limits */
	uint64_t count;
	int64_t sum, max, min, latest;
};
void metrics_time(struct metrics_times *t, int64_t us);

/* The parts of an ADD. */
enum metrics_phase {
	METRICS_FACTS,	/* the pod was asked of the API server */
	METRICS_QUEUE,	/* others had the store */
	METRICS_BLOCKS, /* addresses came from the cluster */
	METRICS_STORE,	/* chosen and made durable */
	METRICS_PHASES
};

struct metrics_ipam {
	uint64_t done, failed, internal, no_pool, retries, used_out;
	struct metrics_times all, queued;
};

struct metrics {
	struct metrics_ipam allocation, release; /* release: no_pool and used_out stay 0 */
	struct metrics_times phases[METRICS_PHASES];
	uint64_t gc, gc_failed;
	uint64_t endpoints, endpoints_failed; /* writes of SpiderEndpoints */
};

void metrics_phase_time(struct metrics *m, enum metrics_phase p, int64_t us);
/* What an allocation's error counts as; waited: the cluster was asked for addresses. */
void metrics_failure(struct metrics_ipam *m, const struct err *e, bool waited);

/* --- text --- */

void metrics_text(struct buf *b, const struct metrics *m);

#endif
