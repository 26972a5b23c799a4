/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/gc/address_gc.h"

#include <stdlib.h>

#include "controller/gc/census.h"
#include "controller/gc/confirm.h"
#include "controller/gc/gc.h"
#include "controller/gc/pool_status.h"
#include "controller/gc/uninjected.h"
#include "server/prometheus.h"

enum { POOLS_SHOWN = 1000 };

struct addresses {
	struct addresses_conf conf;
	struct census *census;
	struct liveness *asks;
	struct pool_status *counts;
	struct cluster_gc *gc; /* NULL: disabled */
};

static void on_changed(void *arg, enum census_kind kind, const struct kube_object *was,
		       const struct kube_object *is)
{
	struct addresses *a = arg;

	if (kind == CENSUS_BLOCKS && is && census_block(is)->set_back)
		cluster_cache_etcd_restored(a->conf.world, census_block(is)->set_back);
	if (kind == CENSUS_PODS && a->conf.uninjected)
		uninjected_pod(a->conf.uninjected, was, is);
	pool_status_changed(a->counts, kind, was, is);
	if (a->gc)
		cluster_gc_changed(a->gc, kind, was, is);
}

static void on_answered(void *arg)
{
	struct addresses *a = arg;

	pool_status_answered(a->counts);
	if (a->gc)
		cluster_gc_answered(a->gc);
}

static void start_counts(struct addresses *a)
{
	const struct addresses_conf *c = &a->conf;
	const struct pool_status_conf conf = {.kube = c->kube,
					      .world = c->world,
					      .census = a->census,
					      .asks = a->asks,
					      .events = c->events,
					      .records_max = c->records_max,
					      .gc = c->gc,
					      .grace_ms = c->grace_ms};

	a->counts = pool_status_new(&conf);
}

static void start_gc(struct addresses *a)
{
	const struct addresses_conf *c = &a->conf;
	const struct cluster_gc_conf conf = {.kube = c->kube,
					     .world = c->world,
					     .census = a->census,
					     .asks = a->asks,
					     .events = c->events,
					     .grace_ms = c->grace_ms,
					     .interval_ms = c->interval_ms};

	a->gc = c->gc ? cluster_gc_new(&conf) : NULL;
}

struct addresses *addresses_new(const struct addresses_conf *c)
{
	struct addresses *a = xcalloc(1, sizeof(*a));

	a->conf = *c;
	a->census =
		census_new(&(struct census_conf){.kube = c->kube, .changed = on_changed, .arg = a});
	if (c->uninjected)
		uninjected_census(c->uninjected, a->census);
	a->asks = liveness_new(&(struct liveness_conf){.kube = c->kube,
						       .identity = c->identity,
						       .again_ms = c->interval_ms / 2,
						       .answered = on_answered,
						       .arg = a});
	start_counts(a);
	start_gc(a);
	return a;
}

void addresses_free(struct addresses *a)
{
	if (!a)
		return;
	cluster_gc_free(a->gc);
	pool_status_free(a->counts);
	liveness_free(a->asks);
	if (a->conf.uninjected)
		uninjected_census(a->conf.uninjected, NULL);
	census_free(a->census);
	free(a);
}

const struct census *addresses_census(const struct addresses *a)
{
	return a->census;
}

/* --- metrics --- */

static void add_gc(struct buf *b, const struct cluster_gc_stats *g,
		   const struct pool_status_stats *c)
{
	sample_counter(b, "spiderpool_ip_gc_counts_total", g->addresses + c->freed,
		       "Addresses freed of pods and nodes that are gone.");
	sample_counter(b, "spiderpool_ip_gc_failure_counts_total", g->failures,
		       "Requests of it that failed; they are tried again.");
	sample_counter(b, "unirail_gc_blocks_total", g->blocks, "Blocks released.");
	sample_counter(b, "unirail_gc_entries_total", g->entries, "Entries removed from blocks.");
	sample_counter(b, "unirail_gc_endpoints_total", g->endpoints, "SpiderEndpoints deleted.");
	sample_counter(b, "unirail_gc_finalizers_total", g->finalizers,
		       "Spiderpool's finalizers taken off SpiderEndpoints.");
	sample_counter(b, "unirail_gc_full_scans_total", g->scans, "Full scans.");
	sample_gauge(b, "unirail_gc_nodes_gone", (int64_t)g->nodes_gone,
		     "Nodes that are gone and that something still names.");
	sample_gauge(b, "unirail_gc_addresses_with_two_pods", (int64_t)g->doubles,
		     "By the last full scan.");
	sample_gauge(
		b, "unirail_gc_addresses_unknown", (int64_t)g->unknown,
		"Addresses that nobody is known to have since etcd was restored, by the last full scan.");
	sample_gauge(b, "unirail_gc_addresses_without_block", (int64_t)g->strays,
		     "Addresses of pods whose node has no block of them, by the last full scan.");
}

static void add_counts(struct buf *b, const struct pool_status_stats *c)
{
	sample_counter(b, "spiderpool_ipam_release_update_ippool_conflict_counts_total",
		       c->conflicts, "Writes of pools that somebody else was faster with.");
	sample_counter(b, "unirail_pool_writes_total", c->writes, "Writes of pools.");
	sample_counter(b, "unirail_pool_write_failures_total", c->failures,
		       "Those that failed; they are tried again.");
}

/* Allocated addresses of each pool; left: the free ones instead. */
static void add_pools(struct buf *b, const struct pool_status *c, const char *name, bool left,
		      const char *help)
{
	struct pool_status_pool_stats p;

	sample_name(b, name, "gauge", help);
	for (size_t i = 0; i < POOLS_SHOWN && pool_status_pool_at(c, i, &p); i++)
		if (p.known)
			sample_value(b, name, "SpiderIPPool", p.name,
				     left ? p.total - p.allocated : p.total);
}

static void add_census(struct buf *b, const struct census *c)
{
	static const char *const names[CENSUS_KINDS] = {"nodes", "pods", "spiderendpoints",
							"spideripblocks"};
	static const char name[] = "unirail_controller_leader_objects";

	sample_name(b, name, "gauge", "Objects that the leader knows besides.");
	for (int k = 0; k < CENSUS_KINDS; k++)
		sample_value(b, name, "kind", names[k],
			     (int64_t)census_count(c, (enum census_kind)k));
}

void addresses_metrics(const struct addresses *a, struct buf *b)
{
	struct cluster_gc_stats g = a->gc ? cluster_gc_stats(a->gc) : (struct cluster_gc_stats){0};
	struct pool_status_stats c = pool_status_stats(a->counts);

	add_gc(b, &g, &c);
	add_counts(b, &c);
	sample_gauge(b, "spiderpool_total_ippool_counts",
		     (int64_t)cluster_cache_count(a->conf.world, WORLD_POOLS), "SpiderIPPools.");
	sample_gauge(b, "spiderpool_total_subnet_counts",
		     (int64_t)cluster_cache_count(a->conf.world, WORLD_SUBNETS), "SpiderSubnets.");
	add_pools(b, a->counts, "spiderpool_debug_ippool_total_ip_counts", false,
		  "Addresses of a pool.");
	add_pools(b, a->counts, "spiderpool_debug_ippool_available_ip_counts", true,
		  "Those that no pod has.");
	add_census(b, a->census);
}
