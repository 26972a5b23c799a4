/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/api/gauges.h"
#include "agent/api/metrics.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "server/prometheus.h"

static const int64_t whole[METRICS_BUCKETS] = {100000,	300000,	 500000,   1000000, 3000000,
					       5000000, 7000000, 10000000, 15000000};
static const int64_t fine[METRICS_BUCKETS] = {500,    1000,   2500,    5000,	10000,
					      100000, 500000, 2500000, 10000000};

static const char *const phase_names[METRICS_PHASES] = {"facts", "queue", "blocks", "store"};

static void count(struct metrics_times *t, const int64_t *limits, int64_t us)
{
	size_t i = 0;

	while (i < METRICS_BUCKETS && us > limits[i])
		i++;
	t->buckets[i]++;
	t->sum += us;
	t->latest = us;
	if (t->count == 0 || us > t->max)
		t->max = us;
	if (t->count == 0 || us < t->min)
		t->min = us;
	t->count++;
}

void metrics_time(struct metrics_times *t, int64_t us)
{
	count(t, whole, us);
}

void metrics_phase_time(struct metrics *m, enum metrics_phase p, int64_t us)
{
	count(&m->phases[p], fine, us);
}

void metrics_failure(struct metrics_ipam *m, const struct err *e, bool waited)
{
	m->failed++;
	if (e->code == -ENOSPC)
		m->used_out++;
	if (e->code == -ENOSPC && waited)
		m->retries++;
	else if (e->code == -ENOENT && e->kind == ERR_CONF)
		m->no_pool++;
	else if (e->code != -ENOSPC)
		m->internal++;
}

/* --- text --- */

static void counter(struct buf *b, const char *prefix, const char *name, uint64_t n,
		    const char *help)
{
	auto_free char *full = xasprintf("%s_%s_total", prefix, name);

	sample_counter(b, full, n, help);
}

static void add_seconds(struct buf *b, int64_t us)
{
	buf_printf(b, "%lld.%06lld", (long long)(us / 1000000), (long long)(us % 1000000));
}

static void seconds_gauge(struct buf *b, const char *prefix, const char *which, const char *what,
			  int64_t us)
{
	auto_free char *name = xasprintf("%s_%s_%sduration_seconds", prefix, which, what);
	auto_free char *help = xasprintf("The %s so far.", which);

	sample_name(b, name, "gauge", help);
	buf_printf(b, "%s ", name);
	add_seconds(b, us);
	buf_char(b, '\n');
}

/* "name{phase="queue",le="0.1"} 3" */
static void histogram(struct buf *b, const char *name, const char *label, const int64_t *limits,
		      const struct metrics_times *t)
{
	const char *comma = *label ? "," : "";
	auto_free char *braces = *label ? xasprintf("{%s}", label) : xstrdup("");
	uint64_t so_far = 0;

	for (size_t i = 0; i <= METRICS_BUCKETS; i++) {
		so_far += t->buckets[i];
		buf_printf(b, "%s_bucket{%s%sle=\"", name, label, comma);
		if (i == METRICS_BUCKETS)
			buf_str(b, "+Inf");
		else
			buf_printf(b, "%g", (double)limits[i] / 1e6);
		buf_printf(b, "\"} %llu\n", (unsigned long long)so_far);
	}
	buf_printf(b, "%s_sum%s ", name, braces);
	add_seconds(b, t->sum);
	buf_printf(b, "\n%s_count%s %llu\n", name, braces, (unsigned long long)t->count);
}

static void times(struct buf *b, const char *prefix, const char *what, const char *help,
		  const struct metrics_times *t)
{
	auto_free char *name = xasprintf("%s_%sduration_seconds", prefix, what);

	sample_name(b, name, "histogram", help);
	histogram(b, name, "", whole, t);
	seconds_gauge(b, prefix, "average", what, t->count ? t->sum / (int64_t)t->count : 0);
	seconds_gauge(b, prefix, "max", what, t->max);
	seconds_gauge(b, prefix, "min", what, t->min);
	seconds_gauge(b, prefix, "latest", what, t->latest);
}

static void add_allocation(struct buf *b, const struct metrics_ipam *m)
{
	const char *p = "spiderpool_ipam_allocation";

	counter(b, p, "counts", m->done + m->failed, "Requests for addresses.");
	counter(b, p, "failure_counts", m->failed, "Those that failed.");
	counter(b, p, "err_internal_counts", m->internal, "Failed for no reason below.");
	counter(b, p, "err_no_available_pool_counts", m->no_pool, "No pool was left to choose.");
	counter(b, p, "err_retries_exhausted_counts", m->retries,
		"The cluster was asked for addresses in vain.");
	counter(b, p, "err_ip_used_out_counts", m->used_out, "All addresses were in use.");
	times(b, p, "", "From request to answer.", &m->all);
	times(b, p, "limit_", "Waiting for the store.", &m->queued);
}

static void add_release(struct buf *b, const struct metrics_ipam *m)
{
	const char *p = "spiderpool_ipam_release";

	counter(b, p, "counts", m->done + m->failed, "Requests to give addresses back.");
	counter(b, p, "failure_counts", m->failed, "Those that failed.");
	counter(b, p, "err_internal_counts", m->internal, "Failed for no reason below.");
	counter(b, p, "err_retries_exhausted_counts", m->retries, "Always 0: nothing is retried.");
	times(b, p, "", "From request to answer.", &m->all);
	times(b, p, "limit_", "Waiting for the store.", &m->queued);
}

void metrics_text(struct buf *b, const struct metrics *m)
{
	static const char name[] = "unirail_ipam_phase_duration_seconds";

	add_allocation(b, &m->allocation);
	add_release(b, &m->release);
	sample_name(b, name, "histogram", "Where a pod's ADD spends its time in the agent.");
	for (int i = 0; i < METRICS_PHASES; i++) {
		auto_free char *label = xasprintf("phase=\"%s\"", phase_names[i]);

		histogram(b, name, label, fine, &m->phases[i]);
	}
	counter(b, "spiderpool_ip_gc", "counts", m->gc, "Addresses freed of pods that are gone.");
	counter(b, "spiderpool_ip_gc", "failure_counts", m->gc_failed, "Those that could not be.");
	counter(b, "unirail_endpoint", "writes", m->endpoints, "SpiderEndpoints written.");
	counter(b, "unirail_endpoint", "write_failures", m->endpoints_failed,
		"Those that could not be; they are tried again.");
}

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
	    blocks_unadopted_count(blocks));
}

static void put_cluster(struct buf *b, const struct cluster *c)
{
	static const char behind[] = "unirail_watch_behind_seconds";

	sample_name(b, behind, "gauge", "How long a kind has not been followed.");
	for (int k = 0; k < CLUSTER_KINDS; k++)
		sample_value(b, behind, "kind", cluster_kind_name(k),
			     cluster_behind_ms(c, k) / 1000);
}

void gauges_text(struct buf *b, struct ipam *store, const struct cluster *c, struct node_pools *l)
{
	put_pools(b, store);
	if (node_pools_blocks(l))
		put_blocks(b, node_pools_blocks(l));
	put_cluster(b, c);
}
