/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_COORDINATOR_COORDINATORS_H
#define UNIRAIL_CONTROLLER_COORDINATOR_COORDINATORS_H

/*
 * Runs in the leader: writes the cluster's pod and service CIDRs into the status of each
 * SpiderCoordinator (controller/coordinator/cidr_plan.h). It watches only the sources that the
 * podCIDRTypes in use require, and writes a status only when the status changes. An object that
 * appears later is noticed at once; a kind that is installed or permitted later, at the next retry,
 * within a minute.
 *
 * A SpiderCoordinator that is being deleted loses Spiderpool's finalizer, which no other controller
 * removes.
 */

#include "controller/coordinator/cidr_read.h"
#include "controller/cache/cache.h"
#include "kube/events.h"

struct coordinators;

/* Borrowed. */
struct coordinators_conf {
	struct kube *kube;
	const struct root *root;
	struct kube_cache *cache;
	struct kube_events *events;
	struct cidr_cni cni; /* CNI of this node */
	/* "namespace/name" of Cilium's ConfigMap, such as "kube-system/cilium-config" */
	const char *cilium;
};

struct coordinators *coordinators_new(const struct coordinators_conf *c);
void coordinators_free(struct coordinators *c); /* accepts NULL */
/* Sets *written to the number of SpiderCoordinator writes (status or finalizers) that succeeded,
 * *failed to those that failed, except for conflicts (409) and deleted objects (404). */
void coordinators_counts(const struct coordinators *c, uint64_t *written, uint64_t *failed);

#endif
