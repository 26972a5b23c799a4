/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_SUBNET_SUBNETS_H
#define UNIRAIL_CONTROLLER_SUBNET_SUBNETS_H

/*
 * A leader's part: pools made of SpiderSubnets for the applications whose pod template asks for one
 * (spec/subnet_annotation.h). Deployments, StatefulSets, DaemonSets, CronJobs, and ReplicaSets and Jobs that
 * nothing else made, have a pool for each interface, which grows and shrinks with them, and goes
 * when they do. For an application of another kind an agent makes the pool, without addresses and with
 * a number of them, when the first of its pods comes; here it gets them.
 *
 * Every look at a subnet ends in at most one write of its status, which comes first, or in the writes
 * that make the pools what the status says (plan.h). What cannot be done is an event at the
 * application, and is tried again.
 *
 * A pool that nobody wants any more is deleted, unless ippool-reclaim is false: then an application
 * of the same name that comes later gets it. Of an application of another kind the owner is asked
 * for; where that is refused, its pools stay.
 */

#include "base/buf.h"
#include "controller/cache/cache.h"
#include "kube/events.h"

enum { SUBNETS_REST_MS = 15 * 1000 };

struct census;

struct subnets_conf {
	struct kube *kube;
	struct world *world;
	const struct census *census; /* of which endpoints count */
	struct kube_events *events;  /* may be NULL */
	uint32_t more;	 /* addresses beyond the pods where the annotation says nothing */
	int64_t rest_ms; /* before what a pool gave up is anybody's; 0: SUBNETS_REST_MS */
};

struct subnets;

struct subnets *subnets_new(const struct subnets_conf *c);
void subnets_free(struct subnets *s); /* NULL is fine */

/* As Prometheus has it. */
void subnets_metrics(const struct subnets *s, struct buf *b);

#endif
