/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_API_GAUGES_H
#define UNIRAIL_AGENT_API_GAUGES_H

/*
 * State of the pools on this node, and the node's activity in the cluster, as metrics in
 * Prometheus' text format. A pool is shown if this node has blocks or addresses of it, up to
 * METRICS_POOLS_MAX pools; one more metric has the number of usable pools.
 */

#include "agent/blocks/pools.h"
#include "agent/api/metrics.h"

struct gauges_pool {
	/* numbers of addresses; used, free: on this node (free: 65,536 at most); total: on all
	 * nodes */
	int64_t used, free, total;
};
/* Fills one element per pool, in the order of the store's pools; v is zeroed by the caller. */
void gauges_pools(struct ipam *store, struct gauges_pool *v);

/* Call it within a batch, while the pools are attached. */
void gauges_text(struct buf *b, struct ipam *store, const struct cluster *c, struct node_pools *l);

#endif
