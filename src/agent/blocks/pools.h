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
#include "ipam/lend.h"

struct lender;

struct lender_conf {
	struct kube *kube;
	struct cluster *cluster;
	const struct root *root;
	const char *state_dir, *node;
	uint32_t reserve;
	int64_t idle_ms;
	int64_t rest_ms, quarantine_ms; /* of pools that set none */
	bool conflict_detection, gateway_detection;
	/* More addresses may be available now: of this pool, or of any (NULL). Called from the
	 * loop. */
	void (*changed)(void *arg, const char *pool);
	void *arg;
};

/* Strings are borrowed. If the blocks cannot be opened this fails: without them no address can be
 * allocated safely. */
int lender_new(struct lender **ret, const struct lender_conf *c, struct err *e);
/* Call it before cluster_free() and kube_free(). NULL is fine. */
void lender_free(struct lender *l);
/* Applies other settings; strings and cluster in c are ignored. */
void lender_settings(struct lender *l, const struct lender_conf *c);

/* Call these from the cluster's callbacks. */
void lender_pools_changed(struct lender *l);
int lender_node_changed(struct lender *l, struct err *e);

/* Returns 0 if pools and blocks are known; negative, kind ERR_AGAIN, with the reason if not yet. */
int lender_ready(const struct lender *l, struct err *e);
/* For one batch: lender_take() gives the pools to attach to the store; pass them back to
 * lender_give_back() when they are detached. */
void lender_take(struct lender *l, struct ipam_pools *ret);
void lender_give_back(struct lender *l, struct ipam_pools *p);
/* Call it after each batch, and once before the first. */
void lender_leases(struct lender *l, const struct lease_table *t);

/* As blocks_want(). */
void lender_want(struct lender *l, const char *pool, uint32_t count);
/* As blocks_names(), blocks_refused(). */
void lender_names(struct lender *l, const struct need_name *v, size_t n);
bool lender_refused(const struct lender *l, const struct need_name *x);
/* Describes, in brackets, where an address is that was requested by name. */
void lender_name_words(const struct lender *l, const struct ipaddr *a, struct buf *w);
void lender_expect(struct lender *l, const char *pool, uint32_t count); /* as blocks_expect() */
/* Describes in w, in brackets, where addresses of the pool were searched; writes nothing if
 * nowhere. */
void lender_words(const struct lender *l, const char *pool, struct buf *w);
struct blocks *lender_blocks(struct lender *l); /* NULL: not created yet */

#endif
