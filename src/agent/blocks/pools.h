/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_BLOCKS_POOLS_H
#define UNIRAIL_AGENT_BLOCKS_POOLS_H

/*
 * The cluster's pools as the store on this node may use them: each cut to the addresses that this
 * node owns (agent/blocks/blocks.h). Joins pools and blocks, which know nothing of each other, and says
 * when it is worth trying again what could not be had.
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
	int64_t rest_ms, quarantine_ms; /* of pools that have none of their own */
	bool conflict_detection, gateway_detection;
	/* More may be had now: of this pool, or of any (NULL). From the loop. */
	void (*changed)(void *arg, const char *pool);
	void *arg;
};

/* Texts are borrowed. Blocks that cannot be opened are an error: nothing could be given out safely. */
int lender_new(struct lender **ret, const struct lender_conf *c, struct err *e);
/* Before cluster_free() and kube_free(). NULL is fine. */
void lender_free(struct lender *l);
/* Other settings; texts and cluster are not looked at. */
void lender_settings(struct lender *l, const struct lender_conf *c);

/* To be called by the cluster's callbacks. */
void lender_pools_changed(struct lender *l);
int lender_node_changed(struct lender *l, struct err *e);

/* 0: pools and blocks are known. Negative, kind ERR_AGAIN: not yet, and why. */
int lender_ready(const struct lender *l, struct err *e);
/* For one batch: lend what it gives, and give it back with what was taken back. */
void lender_take(struct lender *l, struct ipam_pools *ret);
void lender_give_back(struct lender *l, struct ipam_pools *p);
/* After each batch, and once before the first. */
void lender_leases(struct lender *l, const struct lease_table *t);

/* As blocks_want(). */
void lender_want(struct lender *l, const char *pool, uint32_t count);
/* As blocks_names(), blocks_refused(). */
void lender_names(struct lender *l, const struct need_name *v, size_t n);
bool lender_refused(const struct lender *l, const struct need_name *x);
/* Where an address is that was asked for by name, in brackets. */
void lender_name_words(const struct lender *l, const struct ipaddr *a, struct buf *w);
void lender_expect(struct lender *l, const char *pool, uint32_t count); /* as blocks_expect() */
/* Where addresses of the pool were looked for, in brackets, onto w; nothing when nowhere. */
void lender_words(const struct lender *l, const char *pool, struct buf *w);
struct blocks *lender_blocks(struct lender *l); /* NULL: not there yet */

#endif
