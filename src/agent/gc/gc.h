/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_GC_GC_H
#define UNIRAIL_AGENT_GC_GC_H

/*
 * Addresses of pods that are gone, whose DEL never came: the node lost power, a runtime its state.
 *
 * A container's addresses go back when all of this holds, for the time of grace: the watch of this
 * node's pods is up to date and shows no pod of that UID that still runs; the namespace the container
 * had is not there; and a request about the pod, made at the end of that time, says so too: there is
 * none of that name, or another took its place, or it has finished, or the time is over in which it was
 * to end (deletionTimestamp, where its grace is counted already). Whatever is not known keeps
 * everything as it is. A lease without a pod's name is nobody's business here.
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
/* Within a batch: looks at the journal, gives back what is due. */
void gc_batch(struct gc *g, struct ipam *store);

#endif
