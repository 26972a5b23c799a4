/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BLOCK_INTERNAL_H
#define UNIRAIL_BLOCK_INTERNAL_H

/* Shared by the files of this directory. */

#include "base/buf.h"
#include "block/log.h"
#include "block/op.h"
#include "block/plan.h"

/* op.c */

/* A copy of a claim with its own strings: the table frees its strings when the claim changes. */
struct draft {
	struct block_claim c;
	struct ipaddr *released;
};
void op_draft_done(struct draft *d);
#define auto_draft __attribute__((cleanup(op_draft_done)))

/* plan*.c */

struct planner {
	const struct block_facts *f;
	struct block_plan *ret;
	bool left; /* the plan already releases a block: at most one per plan */
};

/* Returns NULL if the plan already has an operation on this block. */
struct block_op *plan_add(struct planner *p, enum block_op_kind kind, const char *pool,
			  const char *name);

bool plan_has(const struct planner *p, const char *name);
/* As plan_add(), with the object's UID, version and claim as preconditions. */
struct block_op *plan_bound(struct planner *p, enum block_op_kind kind,
			    const struct block_object *o);
/* As plan_add(), for the entry of *a with the text `from`. */
struct block_op *plan_entry(struct planner *p, enum block_op_kind kind, const char *pool,
			    const char *block, const struct ipaddr *a, const char *from);
/* The demand of a pool; NULL: the pool is unknown. */
const struct block_need *plan_need(const struct block_facts *f, const char *pool);

/* Requests of peers (plan_lend.c). */
void plan_answer_requested(struct planner *p, const struct block_claim *c,
			   const struct block_object *o, const struct block_need *need);
void plan_report_idle(struct planner *p, const struct block_claim *c, const struct block_object *o,
		      const struct block_need *need);
/* Addresses of a claim that no pod has and that have no entry in the object, highest first (the
 * lowest are allocated first). At most max; the caller frees *ret. */
size_t plan_idle_of(const struct block_facts *f, const struct block_claim *c,
		    const struct block_object *o, const struct ip_set *usable, size_t max,
		    struct ipaddr **ret);

/* Borrowed addresses (plan_lend.c). */
void plan_borrowed_entry(struct planner *p, const struct block_borrowed *l);
void plan_leftovers(struct planner *p);
/* Returns whether a list of the pool's blocks is due. */
bool plan_rescan(struct planner *p, const struct block_need *need);
/* Adds all addresses of op->net except those of local pods to op->ips. */
void plan_all_but_pods(const struct planner *p, const struct ip_set *usable, struct block_op *op);
/*
 * Returns whether the entry shows that another node uses the address, and the object is up to date.
 */
bool plan_is_anothers(const struct planner *p, const struct block_entry *x);

/* Plans the return of an entry of this node that its log does not show as borrowed. */
void plan_leftover(struct planner *p, const char *pool, const char *block,
		   const struct block_entry *x);
/* Answers requests of peers for named addresses of a block of this node; returns whether it planned
 * an operation (plan_acquire.c). */
bool plan_answer_named(struct planner *p, const struct block_claim *c, const struct block_object *o,
		       const struct block_need *need);
/*
 * Plans the claims, borrowings and requests for the addresses that a pool lacks (plan_acquire.c).
 */
void plan_want(struct planner *p, const struct block_need *need);
void plan_list(struct planner *p, const struct block_need *need);

#endif
