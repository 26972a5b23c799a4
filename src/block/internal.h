/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BLOCK_INTERNAL_H
#define UNIRAIL_BLOCK_INTERNAL_H

/* Shared by the files of this directory. */

#include "base/buf.h"
#include "block/log.h"
#include "block/op.h"
#include "block/plan.h"

/* table.c */

void block_claim_done(struct block_claim *c);
void block_borrowed_done(struct block_borrowed *l);
struct block_peer *block_peer_find(const struct block_view *v,
				   const char *block); /* NULL: unknown */

/* op.c */

/* A copy of a claim, to be changed and logged. It owns its list `released`; its strings are those
 * of the original. */
struct draft {
	struct block_claim c;
	struct ipaddr *released;
};
void op_draft_done(struct draft *d);
#define auto_draft __attribute__((cleanup(op_draft_done)))

/* plan.c */

struct planner {
	const struct block_facts *f;
	struct block_plan *ret;
	/* the plan already releases an idle block; a plan releases at most one */
	bool releases_block;
};

/* Returns NULL if the plan already has an operation on this block. */
struct block_op *plan_add(struct planner *p, enum block_op_kind kind, const char *pool,
			  const char *name);

bool plan_has(const struct planner *p, const char *name);
/* Like plan_add(), with UID, version, claim and net of the object; enum block_op_kind says which of
 * them are preconditions. */
struct block_op *plan_bound(struct planner *p, enum block_op_kind kind,
			    const struct block_object *o);
/* Returns the demand of a pool; NULL: the pool is unknown. */
const struct block_need *plan_need(const struct block_facts *f, const char *pool);

/* Plans a request that lists the pool's blocks, if such a list is due after a restore of etcd
 * (block_facts.rescan_ms); returns whether it is due. */
bool plan_rescan(struct planner *p, const struct block_need *need);
/* Plans the return of the entry if it is of this log (or, if block_facts.alone, of any log of
 * this node), the log does not show its address as borrowed, and no local pod has the address. */
void plan_leftover(struct planner *p, const char *pool, const char *block,
		   const struct block_entry *x);

/* plan_acquire.c */

/* Peers may request particular addresses of the block ("node@address"). Plans the answer to the
 * first of these requests that can be answered now; returns false if there is none. */
bool plan_answer_named(struct planner *p, const struct block_claim *c, const struct block_object *o,
		       const struct block_need *need);
/* Plans the claims, borrowings and requests for the addresses that a pool lacks. */
void plan_want(struct planner *p, const struct block_need *need);
void plan_list(struct planner *p, const struct block_need *need);

#endif
