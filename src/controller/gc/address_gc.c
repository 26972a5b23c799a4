/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/gc/address_gc.h"

#include <stdlib.h>

#include "controller/gc/gc_cache.h"
#include "controller/gc/confirm.h"
#include "controller/gc/gc.h"
#include "controller/gc/pool_status.h"
#include "controller/gc/uninjected.h"
#include "controller/gc/unserved.h"
#include "server/prometheus.h"

enum { POOLS_SHOWN = 1000 };

struct addresses {
	struct addresses_conf conf;
	struct kube_cache *gc_cache;
	struct liveness *requests;
	struct pool_status *counts;
	struct cluster_gc *gc; /* NULL: disabled */
	struct unserved *unserved;
};

static void on_changed(void *arg, int kind, const struct kube_object *was,
		       const struct kube_object *is)
{
	struct addresses *a = arg;

	if (!was && !is)
		return;
	if (kind == GC_CACHE_BLOCKS && is && gc_cache_block(is)->etcd_restored)
		cluster_cache_etcd_restored(a->conf.cache, gc_cache_block(is)->etcd_restored);
	if (kind == GC_CACHE_PODS && a->conf.uninjected)
		uninjected_pod(a->conf.uninjected, was, is);
	if (kind == GC_CACHE_NODES && a->unserved)
		unserved_node(a->unserved, was, is);
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
					      .cache = c->cache,
					      .gc_cache = a->gc_cache,
					      .requests = a->requests,
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
					     .cache = c->cache,
					     .gc_cache = a->gc_cache,
					     .requests = a->requests,
					     .events = c->events,
					     .grace_ms = c->grace_ms,
					     .interval_ms = c->interval_ms};

	a->gc = c->gc ? cluster_gc_new(&conf) : NULL;
}

struct addresses *addresses_new(const struct addresses_conf *c)
{
	struct addresses *a = xcalloc(1, sizeof(*a));

	a->conf = *c;
	a->gc_cache = gc_cache_new(c->kube, on_changed, a);
	if (c->uninjected)
		uninjected_set_cache(c->uninjected, a->gc_cache);
	a->requests = liveness_new(&(struct liveness_conf){.kube = c->kube,
							   .identity = c->identity,
							   .again_ms = c->interval_ms / 2,
							   .answered = on_answered,
							   .arg = a});
	start_counts(a);
	start_gc(a);
	a->unserved = unserved_new(&(struct unserved_conf){
		.kube = c->kube,
		.cache = c->cache->objects,
		.gc_cache = a->gc_cache,
		.events = c->events,
		.changed = c->missing_changed,
		.arg = c->arg,
	});
	return a;
}

void addresses_free(struct addresses *a)
{
	if (!a)
		return;
	unserved_free(a->unserved);
	cluster_gc_free(a->gc);
	pool_status_free(a->counts);
	liveness_free(a->requests);
	if (a->conf.uninjected)
		uninjected_set_cache(a->conf.uninjected, NULL);
	kube_cache_free(a->gc_cache);
	free(a);
}

char *addresses_missing(const struct addresses *a, const struct kube_object *smc, const char *is)
{
	return unserved_annotation(a->unserved, smc, is);
}

const struct kube_cache *addresses_cache(const struct addresses *a)
{
	return a->gc_cache;
}

/* --- metrics --- */

static void add_gc(struct buf *b, const struct cluster_gc_stats *g,
		   const struct pool_status_stats *c)
{
	sample_counter(b, "spiderpool_ip_gc_counts_total", g->addresses + c->freed,
		       "Addresses of deleted pods and nodes released by garbage collection.");
	sample_counter(b, "spiderpool_ip_gc_failure_counts_total", g->failures,
		       "Failed requests of garbage collection, each of which is retried.");
	sample_counter(b, "unirail_gc_blocks_total", g->blocks,
		       "Releases and deletions of blocks by garbage collection.");
	sample_counter(b, "unirail_gc_entries_total", g->entries,
		       "Block entries that garbage collection removed, or changed so that the "
		       "address is retained.");
	sample_counter(b, "unirail_gc_endpoints_total", g->endpoints,
		       "SpiderEndpoints deleted by garbage collection.");
	sample_counter(b, "unirail_gc_finalizers_total", g->finalizers,
		       "Finalizers of Spiderpool removed from SpiderEndpoints.");
	sample_counter(b, "unirail_gc_full_scans_total", g->scans,
		       "Full scans by garbage collection.");
	sample_gauge(b, "unirail_gc_nodes_deleted", (int64_t)g->nodes_deleted,
		     "Nodes, confirmed as deleted or fenced, that objects still refer to.");
	sample_gauge(b, "unirail_gc_addresses_with_two_pods", (int64_t)g->doubles,
		     "Addresses that two pods use, found by both of the last two full scans.");
	sample_gauge(
		b, "unirail_gc_addresses_unknown", (int64_t)g->unknown,
		"Addresses without a known owner since etcd was restored, by the last full scan.");
	sample_gauge(b, "unirail_gc_addresses_without_block", (int64_t)g->leftovers,
		     "Addresses of running pods that the pod's node neither owns nor borrows, "
		     "found by both of the last two full scans.");
}

static void add_counts(struct buf *b, const struct pool_status_stats *c)
{
	sample_counter(b, "spiderpool_ipam_release_update_ippool_conflict_counts_total",
		       c->conflicts,
		       "Writes of a pool's status, annotation or finalizer that conflicted with "
		       "another write.");
	sample_counter(b, "unirail_pool_writes_total", c->writes,
		       "Writes of a pool's status, annotation or finalizer.");
	sample_counter(b, "unirail_pool_write_failures_total", c->failures,
		       "Failed writes of a pool's status, annotation or finalizer, each of which "
		       "is retried.");
}

/* Writes for each of the first POOLS_SHOWN pools the number of its addresses, or, if `left` is
 * true, the number of those that are not allocated. */
static void add_pools(struct buf *b, const struct pool_status *c, const struct metric *m, bool left)
{
	struct pool_status_pool_stats p;

	sample_name(b, m);
	for (size_t i = 0; i < POOLS_SHOWN && pool_status_pool_at(c, i, &p); i++) {
		/* The total of a pool whose spec was never valid is 0. */
		int64_t available = p.total > p.allocated ? p.total - p.allocated : 0;

		if (p.known)
			sample_value(b, m->name, "SpiderIPPool", p.name,
				     left ? available : p.total);
	}
}

static void add_cache(struct buf *b, const struct kube_cache *c)
{
	const struct metric *m = METRIC("unirail_controller_leader_objects", "gauge",
					"Objects that only the leader caches.");

	sample_name(b, m);
	for (int k = 0; k < GC_CACHE_KINDS; k++)
		sample_value(b, m->name, "kind", kube_cache_kind_name(c, k),
			     (int64_t)kube_cache_count(c, k));
}

void addresses_metrics(const struct addresses *a, struct buf *b)
{
	struct cluster_gc_stats g = a->gc ? cluster_gc_stats(a->gc) : (struct cluster_gc_stats){0};
	struct pool_status_stats c = pool_status_stats(a->counts);

	add_gc(b, &g, &c);
	add_counts(b, &c);
	sample_gauge(b, "spiderpool_total_ippool_counts",
		     (int64_t)kube_cache_count(a->conf.cache->objects, CLUSTER_CACHE_POOLS),
		     "SpiderIPPools.");
	sample_gauge(b, "spiderpool_total_subnet_counts",
		     (int64_t)kube_cache_count(a->conf.cache->objects, CLUSTER_CACHE_SUBNETS),
		     "SpiderSubnets.");
	add_pools(b, a->counts,
		  METRIC("spiderpool_debug_ippool_total_ip_counts", "gauge",
			 "Addresses of a pool."),
		  false);
	add_pools(b, a->counts,
		  METRIC("spiderpool_debug_ippool_available_ip_counts", "gauge",
			 "Addresses of a pool that are not allocated."),
		  true);
	add_cache(b, a->gc_cache);
	unserved_metrics(a->unserved, b);
}
