/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_API_METRICS_H
#define UNIRAIL_AGENT_API_METRICS_H

/*
 * Counters of the agent, and their text for Prometheus. Names are those that Spiderpool documents
 * (with "_total" where its exporter adds it); metrics that Spiderpool does not have begin with
 * unirail_. Labels are bounded: phases are an enum, and at most METRICS_POOLS_MAX pools are shown.
 */

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum { METRICS_TEXT_MAX = 4 << 20, METRICS_POOLS_MAX = 1000, METRICS_BUCKETS = 9 };

/* Durations in us. Whole requests have the bucket limits of Spiderpool, phases have finer ones. */
struct metrics_times {
	uint64_t buckets[METRICS_BUCKETS + 1]; /* the last bucket: longer than all limits */
	uint64_t count;
	int64_t sum, max, min, latest;
};
void metrics_time(struct metrics_times *t, int64_t us);

/* Phases of an ADD in the agent. */
enum metrics_phase {
	METRICS_FACTS,	/* reading the pod from the API server */
	METRICS_QUEUE,	/* waiting in the queue of requests until the store is open */
	METRICS_BLOCKS, /* waiting for addresses from the cluster */
	METRICS_STORE,	/* choosing addresses and writing them to the journal */
	METRICS_PHASES
};

struct metrics_ipam {
	uint64_t done, failed, internal, no_pool, retries, used_out;
	struct metrics_times all, queued;
};

struct metrics {
	/* no_pool and used_out of `release` are not exported */
	struct metrics_ipam allocation, release;
	struct metrics_times phases[METRICS_PHASES];
	uint64_t gc, gc_failed;
	uint64_t endpoints, endpoints_failed; /* writes of SpiderEndpoints */
};

void metrics_phase_time(struct metrics *m, enum metrics_phase p, int64_t us);
/* Counts a failed request by the kind of its error; waited: the request waited for addresses. */
void metrics_failure(struct metrics_ipam *m, const struct err *e, bool waited);

/* --- Prometheus text --- */

void metrics_text(struct buf *b, const struct metrics *m);

#endif
