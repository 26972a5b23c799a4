/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_API_GAUGES_H
#define UNIRAIL_AGENT_API_GAUGES_H

/*
 * How the pools stand on this node, and what it is doing in the cluster, as text for Prometheus.
 * Pools that this node has nothing of are left out; beyond METRICS_POOLS_MAX, too, and counted.
 */

#include "agent/blocks/pools.h"
#include "agent/api/metrics.h"

struct gauges_pool {
	int64_t used, free, total; /* here, here, of all nodes */
};
/* One a pool, in the order of the store's pools; v is zeroed. */
void gauges_pools(struct ipam *store, struct gauges_pool *v);

/* Within a batch: pools are lent. */
void gauges_text(struct buf *b, struct ipam *store, const struct cluster *c, struct node_pools *l);

#endif
