/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/api/gauges.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "server/sample.h"

/* Pools are many and leases too: each lease finds its pool among those that have any. */
static void tally_up(struct ipam *store, struct gauges_pool *v)
{
	const struct pool_set *s = ipam_pools(store);
	const struct lease_table *t = ipam_leases(store);

	for (size_t i = 0; i < t->n; i++) {
		const struct pool *p = t->v[i].state == LEASE_USED ? pool_find(s, t->v[i].pool)
								   : NULL;

		if (p)
			v[p - s->v].used++;
	}
}

static int64_t count_set(const struct ip_set *s)
{
	u128 n = 0;

	for (size_t i = 0; i < s->n; i++)
		n += ip_num(&s->v[i].last) - ip_num(&s->v[i].first) + 1;
	return n > INT64_MAX ? INT64_MAX : (int64_t)n;
}

static int64_t count_free(struct ipam *store, const struct pool *p)
{
	struct ipaddr *v = NULL;
	size_t n = 0;

	if (p->usable.n == 0 || ipam_free_list(store, p, 1 << 16, &v, &n, NULL) < 0)
		return 0;
	free(v);
	return (int64_t)n;
}

static void put(struct buf *b, const struct pool_set *s, const struct gauges_pool *v, size_t member,
		const char *name, const char *help)
{
	int shown = 0;

	sample_name(b, name, "gauge", help);
	for (size_t i = 0; i < s->n && shown < METRICS_POOLS_MAX; i++) {
		if (v[i].used == 0 && s->v[i].usable.n == 0)
			continue;
		sample_value(b, name, "pool", s->v[i].name,
			     *(const int64_t *)((const char *)&v[i] + member));
		shown++;
	}
}

void gauges_pools(struct ipam *store, struct gauges_pool *v)
{
	const struct pool_set *s = ipam_pools(store);

	tally_up(store, v);
	for (size_t i = 0; i < s->n; i++) {
		v[i].free = count_free(store, &s->v[i]);
		v[i].total = count_set(&s->v[i].ips);
	}
}

static void put_pools(struct buf *b, struct ipam *store)
{
	const struct pool_set *s = ipam_pools(store);
	auto_free struct gauges_pool *v = xcalloc(s->n + 1, sizeof(*v));

	gauges_pools(store, v);
	put(b, s, v, offsetof(struct gauges_pool, used), "unirail_ippool_used_ips",
	    "Addresses of the pool that pods of this node have.");
	put(b, s, v, offsetof(struct gauges_pool, free), "unirail_ippool_free_ips",
	    "Addresses of the pool that this node can give out at once.");
	put(b, s, v, offsetof(struct gauges_pool, total), "unirail_ippool_total_ips",
	    "Addresses of the pool, of all nodes.");
	sample_name(b, "unirail_ippools", "gauge", "Pools in the cluster that can be used.");
	sample_value(b, "unirail_ippools", NULL, NULL, (int64_t)s->n);
}

static void one(struct buf *b, const char *name, const char *type, const char *help, uint64_t n)
{
	sample_name(b, name, type, help);
	sample_value(b, name, NULL, NULL, (int64_t)n);
}

static void put_blocks(struct buf *b, const struct blocks *blocks)
{
	struct blocks_stats s = blocks_stats(blocks);

	one(b, "spiderpool_ipam_allocation_update_ippool_conflict_counts_total", "counter",
	    "Requests for blocks where another node was first.", s.refused);
	one(b, "unirail_block_requests_total", "counter", "Requests about blocks.", s.requests);
	one(b, "unirail_block_unanswered_total", "counter", "Those that got no answer.",
	    s.unanswered);
	one(b, "unirail_blocks_claimed_total", "counter", "Blocks that became ours.", s.claimed);
	one(b, "unirail_blocks_left_total", "counter", "Blocks that were given back.", s.left);
	one(b, "unirail_addresses_ceded_total", "counter", "Addresses given to other nodes.",
	    s.ceded);
	one(b, "unirail_addresses_borrowed_total", "counter", "Addresses had from other nodes.",
	    s.borrowed);
	one(b, "unirail_blocks", "gauge", "Blocks of this node.", s.claims);
	one(b, "unirail_addresses_on_loan", "gauge", "Addresses of other nodes' blocks.", s.loans);
	one(b, "unirail_blocks_foreign", "gauge", "Blocks of this node that another agent claimed.",
	    blocks_foreign_count(blocks));
}

static void put_cluster(struct buf *b, const struct cluster *c)
{
	static const char behind[] = "unirail_watch_behind_seconds";

	sample_name(b, behind, "gauge", "How long a kind has not been followed.");
	for (int k = 0; k < CLUSTER_KINDS; k++)
		sample_value(b, behind, "kind", cluster_kind_name(k),
			     cluster_behind_ms(c, k) / 1000);
}

void gauges_text(struct buf *b, struct ipam *store, const struct cluster *c, struct lender *l)
{
	put_pools(b, store);
	if (lender_blocks(l))
		put_blocks(b, lender_blocks(l));
	put_cluster(b, c);
}
