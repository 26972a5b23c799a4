/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_GC_GC_H
#define UNIRAIL_AGENT_GC_GC_H

/*
 * Releases addresses of deleted pods for which no CNI DEL arrived: the node lost power, or the
 * container runtime lost its state. A pod that has finished counts as deleted.
 *
 * A container's addresses are released when all of this is true for the grace time: the watch of
 * this node's pods is up to date and shows no pod of that UID that still runs; the container's
 * network namespace, if its lease names one, does not exist; and a GET of the pod at the end of
 * that time confirms the deletion: no pod of that name exists on this node, or another one replaced
 * it, or it has finished, or, if the lease names a network namespace, the pod's deletion is overdue
 * (deletionTimestamp, which includes the pod's grace period). While any of this is unknown, nothing
 * is released. Leases without a pod's name are ignored.
 */

#include "agent/cluster/cluster.h"
#include "agent/api/metrics.h"
#include "ipam/ipam.h"

struct gc;

struct gc_conf {
	struct loop *loop;
	const struct root *root;
	struct cluster *cluster;
	struct metrics *metrics;
	bool off;
	int64_t grace_ms;
	void (*touch)(void *arg); /* schedules a batch, which calls gc_batch() */
	void *arg;
};

struct gc *gc_new(const struct gc_conf *c);
void gc_free(struct gc *g); /* call it before cluster_free(); g may be NULL */
void gc_settings(struct gc *g, bool off, int64_t grace_ms);
/* Call it within a batch: reads the journal and releases the addresses of pods whose deletion is
 * confirmed. */
void gc_batch(struct gc *g, struct ipam *store);

#endif
