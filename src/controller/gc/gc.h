/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_GC_GC_H
#define UNIRAIL_CONTROLLER_GC_GC_H

/*
 * Garbage collection of blocks of deleted nodes, and of SpiderEndpoints of deleted pods. The agent
 * of a node deletes the SpiderEndpoints of its pods (agent/gc); the controller acts if no agent
 * does.
 *
 * A node counts as gone when both conditions hold:
 *
 * - its Node object does not exist, or the node is fenced (not Ready, with the taint
 *   node.kubernetes.io/out-of-service), according to the watch for the grace period and according
 *   to a GET at the end of the period
 * - no unfinished pod is bound to it. Ignored are pods on the host's network, which have no address
 *   of a pool, and pods on a fenced node that have no addresses and are not being deleted, since
 *   they tolerate the taint
 *
 * A node that is not Ready or is unreachable is not gone, however long this lasts: its containers
 * may still run, and if its blocks were released, their addresses would be assigned twice. To give
 * the node up, delete its Node object or set the taint. A node recreated under the same name
 * renews its blocks itself. A block that it has not renewed after ten times the grace period is
 * released, unless an endpoint of the node uses it. Nothing is collected for ten minutes after an
 * etcd restore (cluster_cache_hold()).
 *
 * The blocks of a gone node are released as block/release.h describes: peers keep borrowed
 * addresses, and addresses retained for names of StatefulSet pods and KubeVirt machines stay
 * retained. An entry "?" (owner of the address unknown) is removed when, for two scan intervals,
 * this leader has seen the entry and every node was Ready or fenced, and no endpoint has the
 * address. By then the agent of the owner's node, if it runs, would have reported the address: it
 * does so within a minute. The log names a node that is neither Ready nor fenced and so blocks the
 * removal.
 *
 * A SpiderEndpoint whose pod is confirmed gone is deleted after the grace period if its node is
 * gone, if Spiderpool wrote the endpoint, or if its deletion was requested; otherwise after two
 * scan intervals, in which its agent could have deleted it. While its node is not Ready and not
 * fenced, the endpoint stays. An endpoint with retained addresses is deleted only when no pod of
 * that name can return. Spiderpool's finalizer is removed first.
 *
 * Each full scan logs inconsistencies that the previous one found too and that the controller must
 * not resolve: an address that two pods have, and an address of a running pod that its node neither
 * owns nor borrows.
 *
 * Runs in the leader. Two leaders during a transition do no harm: the API server refuses a request
 * if the object, or the block's entry, has changed since it was decided on.
 */

#include "controller/gc/confirm.h"
#include "controller/gc/gc_cache.h"
#include "controller/cache/cache.h"
#include "kube/events.h"

struct cluster_gc;

struct cluster_gc_conf {
	struct kube *kube;
	struct cluster_cache *cache;
	struct kube_cache *gc_cache;
	struct liveness *requests;
	struct kube_events *events;
	int64_t grace_ms, interval_ms; /* grace period, and interval of full scans */
};

struct cluster_gc *cluster_gc_new(const struct cluster_gc_conf *c);
void cluster_gc_free(
	struct cluster_gc *g); /* call before freeing what cluster_gc_conf borrows; accepts NULL */

void cluster_gc_changed(struct cluster_gc *g, enum gc_cache_kind kind,
			const struct kube_object *was, const struct kube_object *is);
void cluster_gc_answered(struct cluster_gc *g);

struct cluster_gc_stats {
	uint64_t addresses;  /* of deleted endpoints that unirail wrote and whose node is gone */
	uint64_t blocks;     /* released or deleted */
	uint64_t entries;    /* number of entries removed from blocks, or changed to "@-" */
	uint64_t endpoints;  /* deleted */
	uint64_t finalizers; /* removed */
	uint64_t failures, scans;
	/* nodes_deleted: of the last pass; the others: of the last full scan */
	size_t nodes_deleted, doubles, leftovers, unknown;
};
struct cluster_gc_stats cluster_gc_stats(const struct cluster_gc *g);

#endif
