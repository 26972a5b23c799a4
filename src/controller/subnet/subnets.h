/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_SUBNET_SUBNETS_H
#define UNIRAIL_CONTROLLER_SUBNET_SUBNETS_H

/*
 * Automatic pools, run by the leader: creates pools from SpiderSubnets for applications whose pod
 * template requests them (spec/subnet_annotation.h). Deployments, StatefulSets, DaemonSets,
 * CronJobs, and ReplicaSets and Jobs without a controller as owner get a pool for each interface
 * and IP version. The pool is resized with the application and deleted with it. For an application
 * of another kind an agent creates the pool when the first pod starts, with the requested number as
 * an annotation but without addresses; the controller then assigns them.
 *
 * Each reconcile of a subnet writes the subnet's status if the plan differs from it, and makes the
 * pools match the status that is already stored (plan.h). A request that cannot be satisfied is
 * reported as an event on the application, and a failed write is logged; both are retried.
 *
 * A pool that no application requests any more is deleted, unless ippool-reclaim is false: then a
 * later application of the same name gets it. If the application is of another kind, the controller
 * reads it with a GET while no address of the pool is in use, and deletes the pool when the
 * application is gone. If RBAC forbids the GET, the pool stays.
 */

#include "base/buf.h"
#include "controller/cache/cache.h"
#include "kube/events.h"

struct subnets_conf {
	struct kube *kube;
	struct cluster_cache *cache;
	const struct kube_cache *gc_cache; /* source of the endpoints */
	struct kube_events *events;	   /* NULL: no events */
	/* spare addresses, beyond the number of pods, for an application without
	 * ANNOTATION_POOL_NUMBER */
	uint32_t redundant_ips;
	/* time in ms before an address removed from a pool may go to another pool */
	int64_t reuse_delay_ms;
};

struct subnets;

struct subnets *subnets_new(const struct subnets_conf *c);
void subnets_free(struct subnets *s); /* accepts NULL */

/* Appends metrics in the Prometheus format. */
void subnets_metrics(const struct subnets *s, struct buf *b);

#endif
