/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_GC_GC_H
#define UNIRAIL_CONTROLLER_GC_GC_H

/*
 * What pods and nodes leave behind that no agent clears up: an agent does it for its own node
 * (agent/gc/gc.h, agent/gc/kept.h), and only this for a node that is gone.
 *
 * A node is gone when all of this holds:
 *
 *	there is no Node object of its name, by the watch for the time of grace, and by a request at the
 *	end of it; or it is fenced: not Ready, with the taint node.kubernetes.io/out-of-service
 *	no pod that is bound to it is left that has not finished; those on the host's network have no
 *	address of ours, nor have those that stay on a fenced node (they tolerate the taint) and have
 *	no SpiderEndpoint
 *
 * A node that is not Ready or cannot be reached is not gone, however long that lasts: its containers may
 * run, and an address of its blocks would be with two. To give it up, delete the Node object or set the
 * taint. A node that was made anew under its name renews its blocks itself; what it has not after ten
 * times the grace, and no endpoint of it uses, is released. While the API server's data may
 * be from an earlier time nothing is cleared up (world_hold()).
 *
 * Then its blocks are released as block/release.h says: others keep what they have borrowed, names
 * of StatefulSets and machines what was kept for them. An entry "?" (nobody knows who has the address)
 * is removed when all nodes (but those that are fenced) were Ready for two full scans and no endpoint has
 * the address: whoever has it says so within a minute, if its agent runs. Which node that waits for is said.
 *
 * A SpiderEndpoint whose pod is gone (asked for, as above) is deleted when its node is gone, when
 * Spiderpool wrote it, or when two full scans found it so, whatever its agent is about; one whose
 * addresses are kept for a name only when no pod of that name will come. Spiderpool's finalizer is
 * taken off.
 *
 * Each full scan says what does not fit together and is not for us to decide: an address with two pods,
 * one that a pod has and its node has no block of.
 *
 * A leader's part; two at a hand-over do no harm: every request is bound to the object as it was.
 */

#include "controller/gc/confirm.h"
#include "controller/gc/census.h"
#include "controller/cache/cache.h"
#include "kube/events.h"

struct reap;

struct reap_conf {
	struct kube *kube;
	struct world *world;
	struct census *census;
	struct asks *asks;
	struct kube_events *events;
	int64_t grace_ms, interval_ms; /* of full scans */
};

struct reap *reap_new(const struct reap_conf *c);
void reap_free(struct reap *g); /* before what it was given; NULL is fine */

void reap_changed(struct reap *g, enum census_kind kind, const struct kube_object *was,
		  const struct kube_object *is);
void reap_answered(struct reap *g);

struct reap_stats {
	uint64_t addresses;  /* of endpoints that went */
	uint64_t blocks;     /* released */
	uint64_t entries;    /* removed from blocks */
	uint64_t endpoints;  /* deleted */
	uint64_t finalizers; /* taken off */
	uint64_t failures, scans;
	size_t nodes_gone, doubles, strays, unknown; /* as last seen */
};
struct reap_stats reap_stats(const struct reap *g);

#endif
