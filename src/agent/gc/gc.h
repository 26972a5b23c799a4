/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_GC_GC_H
#define UNIRAIL_AGENT_GC_GC_H

/*
 * Addresses of pods that are gone, whose DEL never came: the node lost power, a runtime its state.
 *
 * A container's addresses are released when all of this is true for the grace time: the watch of this
 * node's pods is up to date and shows no pod of that UID that still runs; the container's network
 * namespace does not exist; and a request about the pod, made at the end of that time, confirms it:
 * no pod of that name exists, or another one replaced it, or it has finished, or its deletion is
 * overdue (deletionTimestamp, which includes its grace period). As long as anything is unknown,
 * nothing is released. A lease without a pod's name is ignored here.
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
	void (*touch)(void *arg); /* a batch is wanted: gc_batch() has something to do */
	void *arg;
};

struct gc *gc_new(const struct gc_conf *c);
void gc_free(struct gc *g); /* before cluster_free(); NULL is fine */
void gc_settings(struct gc *g, bool off, int64_t grace_ms);
/* Within a batch: reads the journal, releases what is due. */
void gc_batch(struct gc *g, struct ipam *store);

#endif
