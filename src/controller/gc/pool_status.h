/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_GC_POOL_STATUS_H
#define UNIRAIL_CONTROLLER_GC_POOL_STATUS_H

/*
 * What users see of a pool: status.totalIPCount, allocatedIPCount and allocatedIPs (Spiderpool's text,
 * controller/gc/pool_status_write.h). Who has an address is said by the SpiderEndpoints that agents write, one for
 * a pod and all its rails; so this costs the nodes no request, and the cluster one write a pool and
 * second at most: every node watches pools, so one with a long text is written less often (a second
 * for each 8 KiB, a minute at most). allocatedIPs has no more than `records_max` records, and no more
 * than fit into an object; the counts are true. Nothing is written that is there already.
 *
 * What Spiderpool handed out before is in status.allocatedIPs when a pool is seen first. It goes into
 * the annotation unirail.io/adopted before anything else (with the version it was read in, so none is
 * lost), and a record leaves that when its pod is gone: by the watch and by a request, for the time of
 * grace, no pod of the name will come that keeps it (identity_is_over()), and its node is not merely
 * unreachable. More than an annotation can hold stay where they are, and are cleared up there. A record
 * that names no pod stays until somebody takes it out. Spiderpool's agents must have ended by then: what
 * they write into a status later on is not looked at.
 *
 * With that write a pool gets Spiderpool's finalizer; one that is deleted goes when no pod has an
 * address of it and no record is left.
 *
 * While the API server's data may be from an earlier time (world_hold()) nothing is counted before agents
 * had the time to say again what pods have, and until it is sure no record and no pool goes.
 *
 * A leader's part. Every write has the version of what it was made of.
 */

#include "controller/gc/confirm.h"
#include "controller/gc/census.h"
#include "controller/cache/cache.h"
#include "kube/events.h"

struct counts;

struct counts_conf {
	struct kube *kube;
	struct world *world;
	struct census *census;
	struct asks *asks;
	struct kube_events *events;
	size_t records_max; /* 0: none in status.allocatedIPs */
	bool gc;	    /* records leave when their pod is gone */
	int64_t grace_ms;
};

struct counts *counts_new(const struct counts_conf *c);
void counts_free(struct counts *c); /* before what it was given; NULL is fine */

/* Of census_conf.changed. */
void counts_changed(struct counts *c, enum census_kind kind, const struct kube_object *was,
		    const struct kube_object *is);
void counts_answered(struct counts *c); /* of asks_conf */

struct counts_stats {
	uint64_t writes, conflicts, failures;
	uint64_t freed; /* records whose pod is gone */
};
struct counts_stats counts_stats(const struct counts *c);
/* Each pool's counts as last looked at; false: there are no more. */
struct counts_pool_stats {
	const char *name;
	bool known; /* the counts are */
	int64_t total, allocated;
};
bool counts_pool_at(const struct counts *c, size_t i, struct counts_pool_stats *ret);

#endif
