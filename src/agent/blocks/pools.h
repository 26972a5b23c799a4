/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_BLOCKS_POOLS_H
#define UNIRAIL_AGENT_BLOCKS_POOLS_H

/*
 * This node's view of the cluster's pools: each pool limited to the addresses that the node owns
 * (agent/blocks/blocks.h). Joins pools and blocks, which do not know each other, and calls back
 * when a pending request may succeed.
 */

#include "agent/blocks/blocks.h"
#include "agent/cluster/cluster.h"
#include "ipam/pools.h"

struct node_pools;

struct node_pools_conf {
	struct kube *kube;
	struct cluster *cluster;
	const struct root *root;
	const char *state_dir, *node;
	uint32_t pre_allocate;
	int64_t idle_ms;
	/* for all pools: a SpiderIPPool has no value of its own */
	int64_t reuse_delay_ms, quarantine_ms;
	bool conflict_detection, gateway_detection;
	/* Called from the event loop when more addresses of the pool may be available. pool
	 * NULL: more addresses of any pool may be available. */
	void (*changed)(void *arg, const char *pool);
	void *arg;
};

/* Strings in c are borrowed. Fails if the block log cannot be opened: without it no address can be
 * allocated safely. */
int node_pools_new(struct node_pools **ret, const struct node_pools_conf *c, struct err *e);
/* Call it before cluster_free() and kube_free(). l may be NULL. */
void node_pools_free(struct node_pools *l);
/* Applies reuse_delay_ms, quarantine_ms and the detections of c; ignores the rest. */
void node_pools_settings(struct node_pools *l, const struct node_pools_conf *c);

/* Call these from the callbacks of the cluster cache. */
void node_pools_pools_changed(struct node_pools *l, bool addresses);
int node_pools_node_changed(struct node_pools *l, struct err *e);

/* Returns 0 if pools and blocks are known; otherwise a negative code, kind ERR_AGAIN, and the
 * reason in e. */
int node_pools_ready(const struct node_pools *l, struct err *e);
/* Call these for each batch: node_pools_take() returns the pools to attach to the store; pass them
 * to node_pools_detach() after they are detached. */
void node_pools_take(struct node_pools *l, struct ipam_pools *ret);
void node_pools_detach(struct node_pools *l, struct ipam_pools *p);
/* The node's blocks, for demand, leases and refusals (agent/blocks/blocks.h). NULL until this
 * node's UID is known; never NULL when node_pools_ready() returns 0. */
struct blocks *node_pools_blocks(struct node_pools *l);
/* The next two functions write text for error messages; call them only after node_pools_ready()
 * returned 0. */
/* Describes in w, in brackets, where an explicitly requested address is. */
void node_pools_describe_name(const struct node_pools *l, const struct ipaddr *a, struct buf *w);
/* Describes in w, in brackets, how addresses of the pool were searched for. */
void node_pools_describe(const struct node_pools *l, const char *pool, struct buf *w);

#endif
