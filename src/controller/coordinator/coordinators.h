/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_COORDINATOR_COORDINATORS_H
#define UNIRAIL_CONTROLLER_COORDINATOR_COORDINATORS_H

/*
 * A leader's part: the status of each SpiderCoordinator says which addresses the cluster's pods and
 * services have (controller/coordinator/cidr_plan.h), from what is followed of the cluster for that: only the
 * sources that a type needs. Written only when it says something else; a source that comes later, or
 * is mended, is seen at once.
 *
 * A SpiderCoordinator that is being deleted loses Spiderpool's finalizer, which nobody takes off there.
 */

#include "controller/coordinator/cidr_read.h"
#include "controller/cache/cache.h"
#include "kube/events.h"

struct coordinators;

/* Borrowed. */
struct coordinators_conf {
	struct kube *kube;
	const struct root *root;
	struct world *world;
	struct kube_events *events;
	struct cidr_cni cni; /* of this node */
	const char *cilium;  /* "kube-system/cilium-config" */
};

struct coordinators *coordinators_new(const struct coordinators_conf *c);
void coordinators_free(struct coordinators *c); /* NULL is fine */
/* How many statuses were written, and could not be. */
void coordinators_counts(const struct coordinators *c, uint64_t *written, uint64_t *failed);

#endif
