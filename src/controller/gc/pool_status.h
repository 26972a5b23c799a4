/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_GC_POOL_STATUS_H
#define UNIRAIL_CONTROLLER_GC_POOL_STATUS_H

/*
 * The status of pools that users see: status.totalIPCount, allocatedIPCount and allocatedIPs
 * (Spiderpool's format, controller/gc/pool_status_write.h). The last two are computed from the
 * SpiderEndpoints that agents write, one for a pod with all its interfaces, and from the adopted
 * records (below), so nodes send no additional request. The status is written only when it
 * changes. Every node watches pools, so after a write of its status a pool is not written for a
 * second, or longer if allocatedIPs is long (one second for each 8 KB, at most a minute).
 * allocatedIPs has at most `records_max` records and at most as many as fit into an object; the
 * counts are always exact.
 *
 * Migration from Spiderpool: addresses that Spiderpool allocated are in status.allocatedIPs when
 * the controller sees a pool for the first time. Before any other write the controller copies these
 * records into the annotation unirail.io/adopted, by a patch that fails if the pool has changed
 * since they were read, so that none is lost. A record is removed when its pod is gone according to
 * the watch and to GETs over the grace period, no pod of that name can return that uses it
 * (identity_is_over()), and its node, if a SpiderEndpoint names it, is Ready, fenced or deleted.
 * Records too long for an annotation stay in the status and are removed from there. A record that
 * names no pod stays until a user removes it. Spiderpool's agents must be stopped before the
 * migration: their later writes are ignored.
 *
 * The write of the annotation also adds Spiderpool's finalizer to the pool. The finalizer is
 * removed from a deleted pool when no pod has an address of the pool and no record is left.
 *
 * After an etcd restore (cluster_cache_hold()) nothing is counted until agents had the time to
 * report their pods' addresses again, and for ten minutes no record and no finalizer is removed.
 *
 * Runs in the leader. Every write carries the version that it was computed from.
 */

#include "controller/gc/confirm.h"
#include "controller/gc/gc_cache.h"
#include "controller/cache/cache.h"
#include "kube/events.h"

struct pool_status;

struct pool_status_conf {
	struct kube *kube;
	struct cluster_cache *cache;
	struct kube_cache *gc_cache;
	struct liveness *requests;
	struct kube_events *events;
	size_t records_max; /* maximum number of records; 0: status.allocatedIPs stays empty */
	bool gc;	    /* true: adopted records whose pod is gone are removed */
	int64_t grace_ms;
};

struct pool_status *pool_status_new(const struct pool_status_conf *c);
void pool_status_free(struct pool_status *c); /* accepts NULL */

/* The caller reports each change of gc_cache (gc_cache_fn). */
void pool_status_changed(struct pool_status *c, enum gc_cache_kind kind,
			 const struct kube_object *was, const struct kube_object *is);
void pool_status_answered(struct pool_status *c); /* for liveness_conf.answered */

struct pool_status_stats {
	uint64_t writes, conflicts, failures;
	uint64_t freed; /* number of adopted records removed */
};
struct pool_status_stats pool_status_stats(const struct pool_status *c);
/* pool_status_pool_at() sets *ret to the counts of the i-th pool as of its last pass; returns
 * false if there is no such pool. */
struct pool_status_pool_stats {
	const char *name;
	bool known; /* allocated is valid; total too, unless the pool's spec is invalid */
	int64_t total, allocated;
};
bool pool_status_pool_at(const struct pool_status *c, size_t i, struct pool_status_pool_stats *ret);

#endif
