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

/* --- Prometheus text --- */

static void seconds_gauge(struct buf *b, const struct metric *m, int64_t us)
{
	sample_name(b, m);
	sample_seconds(b, m->name, NULL, NULL, us);
}

/* Writes lines such as name_bucket{phase="queue",le="0.1"} 3, and the lines _sum and _count. */
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
	sample_put_seconds(b, t->sum);
	buf_printf(b, "\n%s_count%s %llu\n", name, braces, (unsigned long long)t->count);
}

static void times(struct buf *b, const struct metric *m, const struct metrics_times *t)
{
	sample_name(b, m);
	histogram(b, m->name, "", whole, t);
}

/* Writes the histogram, and the gauges that Spiderpool has for the same times. */
#define TIMES(b, verb, what, help, t)                                                              \
	do {                                                                                       \
		times(b, METRIC(TIMES_NAME(verb, "", what), "histogram", help), t);                \
		seconds_gauge(                                                                     \
			b, METRIC(TIMES_NAME(verb, "average_", what), "gauge", "Average: " help),  \
			(t)->count ? (t)->sum / (int64_t)(t)->count : 0);                          \
		seconds_gauge(b,                                                                   \
			      METRIC(TIMES_NAME(verb, "max_", what), "gauge", "Maximum: " help),   \
			      (t)->max);                                                           \
		seconds_gauge(b,                                                                   \
			      METRIC(TIMES_NAME(verb, "min_", what), "gauge", "Minimum: " help),   \
			      (t)->min);                                                           \
		seconds_gauge(b,                                                                   \
			      METRIC(TIMES_NAME(verb, "latest_", what), "gauge", "Latest: " help), \
			      (t)->latest);                                                        \
	} while (0)
#define TIMES_NAME(verb, which, what) "spiderpool_ipam_" verb "_" which what "duration_seconds"

static void add_allocation(struct buf *b, const struct metrics_ipam *m)
{
	sample_counter(b, "spiderpool_ipam_allocation_counts_total", m->done + m->failed,
		       "Requests for addresses.");
	sample_counter(b, "spiderpool_ipam_allocation_failure_counts_total", m->failed,
		       "Failed requests for addresses.");
	sample_counter(b, "spiderpool_ipam_allocation_err_internal_counts_total", m->internal,
		       "Failed requests for addresses, except those that failed because pools "
		       "were exhausted or because no pool matched.");
	sample_counter(b, "spiderpool_ipam_allocation_err_no_available_pool_counts_total",
		       m->no_pool, "Failed requests for addresses: no pool matched.");
	sample_counter(
		b, "spiderpool_ipam_allocation_err_retries_exhausted_counts_total", m->retries,
		"Failed requests for addresses: the cluster did not supply the addresses within "
		"the time limit.");
	sample_counter(b, "spiderpool_ipam_allocation_err_ip_used_out_counts_total", m->used_out,
		       "Failed requests for addresses: the pools were exhausted.");
	TIMES(b, "allocation", "", "time from a request for addresses to its answer.", &m->all);
	TIMES(b, "allocation", "limit_", "time that a request waits for the store.", &m->queued);
}

static void add_release(struct buf *b, const struct metrics_ipam *m)
{
	sample_counter(b, "spiderpool_ipam_release_counts_total", m->done + m->failed,
		       "Requests to release addresses.");
	sample_counter(b, "spiderpool_ipam_release_failure_counts_total", m->failed,
		       "Failed requests to release addresses.");
	sample_counter(
		b, "spiderpool_ipam_release_err_internal_counts_total", m->internal,
		"Failed requests to release addresses, except those that a full disk caused.");
	sample_counter(b, "spiderpool_ipam_release_err_retries_exhausted_counts_total", m->retries,
		       "Always 0: a release is not retried.");
	TIMES(b, "release", "", "time from a request to release addresses to its answer.", &m->all);
	TIMES(b, "release", "limit_", "time that a request waits for the store.", &m->queued);
}

void metrics_text(struct buf *b, const struct metrics *m)
{
	const struct metric *phases = METRIC("unirail_ipam_phase_duration_seconds", "histogram",
					     "Time of each phase of a pod's ADD in the agent.");

	add_allocation(b, &m->allocation);
	add_release(b, &m->release);
	sample_name(b, phases);
	for (int i = 0; i < METRICS_PHASES; i++) {
		auto_free char *label = xasprintf("phase=\"%s\"", phase_names[i]);

		histogram(b, phases->name, label, fine, &m->phases[i]);
	}
	sample_counter(b, "spiderpool_ip_gc_counts_total", m->gc,
		       "Addresses of deleted or finished pods released by garbage collection.");
	sample_counter(b, "spiderpool_ip_gc_failure_counts_total", m->gc_failed,
		       "Failed releases of addresses by garbage collection.");
	sample_counter(b, "unirail_endpoint_writes_total", m->endpoints,
		       "Writes of SpiderEndpoints.");
	sample_counter(b, "unirail_endpoint_write_failures_total", m->endpoints_failed,
		       "Failed writes of SpiderEndpoints, each of which is retried.");
}

/* Reads each used lease and adds it to its pool. Reading each address of a pool could take too
 * long. */
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
		const struct metric *m)
{
	int shown = 0;

	sample_name(b, m);
	for (size_t i = 0; i < s->n && shown < METRICS_POOLS_MAX; i++) {
		if (v[i].used == 0 && s->v[i].usable.n == 0)
			continue;
		sample_value(b, m->name, "pool", s->v[i].name,
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
	put(b, s, v, offsetof(struct gauges_pool, used),
	    METRIC("unirail_ippool_used_ips", "gauge",
		   "Addresses of a pool that are allocated to pods of this node."));
	put(b, s, v, offsetof(struct gauges_pool, free),
	    METRIC("unirail_ippool_free_ips", "gauge",
		   "Addresses of a pool that this node can allocate without a request to "
		   "the cluster; at most 65536 are counted."));
	put(b, s, v, offsetof(struct gauges_pool, total),
	    METRIC("unirail_ippool_total_ips", "gauge", "Addresses of a pool on all nodes."));
	sample_gauge(b, "unirail_ippools", s->n, "Usable pools of the cluster.");
}

static void put_blocks(struct buf *b, const struct blocks *blocks)
{
	struct blocks_stats s = blocks_stats(blocks);

	sample_counter(
		b, "spiderpool_ipam_allocation_update_ippool_conflict_counts_total", s.refused,
		"Requests about blocks that the API server refused because another writer had "
		"changed the block.");
	sample_counter(b, "unirail_block_requests_total", s.requests,
		       "Requests to the API server about blocks.");
	sample_counter(b, "unirail_block_unanswered_total", s.unanswered,
		       "Requests about blocks to which the API server gave no answer.");
	sample_counter(b, "unirail_blocks_claimed_total", s.claimed, "Blocks claimed.");
	sample_counter(b, "unirail_blocks_released_total", s.blocks_released, "Blocks released.");
	sample_counter(b, "unirail_addresses_released_total", s.released,
		       "Addresses released to other nodes.");
	sample_counter(b, "unirail_addresses_borrowed_total", s.borrowed,
		       "Addresses borrowed from other nodes.");
	sample_gauge(b, "unirail_blocks", s.claims, "Blocks that this node owns.");
	sample_gauge(b, "unirail_addresses_borrowed", s.borrowed_now,
		     "Addresses borrowed from blocks of other nodes.");
	sample_gauge(
		b, "unirail_blocks_unadopted", blocks_unadopted_count(blocks),
		"Blocks of this node that the agent's block log does not contain: they are not "
		"used until they are adopted.");
}

static void put_cluster(struct buf *b, const struct kube_cache *c)
{
	const struct metric *stale =
		METRIC("unirail_watch_stale_seconds", "gauge",
		       "Time since the last successful watch of a kind; 0: watching.");

	sample_name(b, stale);
	for (int k = 0; k < CLUSTER_KINDS; k++)
		sample_value(b, stale->name, "kind", kube_cache_kind_name(c, k),
			     kube_cache_stale_ms(c, k) / 1000);
}

void gauges_text(struct buf *b, struct ipam *store, const struct cluster *c, struct node_pools *l)
{
	put_pools(b, store);
	if (node_pools_blocks(l))
		put_blocks(b, node_pools_blocks(l));
	put_cluster(b, cluster_objects(c));
}
