/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BLOCK_INTERNAL_H
#define UNIRAIL_BLOCK_INTERNAL_H

/* What this folder's own files share. */

#include "base/buf.h"
#include "block/log.h"
#include "block/op.h"
#include "block/plan.h"

/* Between the block_log*.c files. */

/* The whole file; `behind` says afterwards whether it is. */
int block_log_write(struct block_log *l, const struct block_table *t, struct err *e);
/* Into l and t, whose node is known. */
int block_log_read(struct block_log *l, struct block_table *t, struct span text, struct err *e);

/* Between the block_op*.c files. */

/* The claim with other strings than the table's, which goes away under it. */
struct draft {
	struct block_claim c;
	struct ipaddr *ceded;
};
/* With room for so many more that are ceded. */
struct draft op_draft_of(const struct block_claim *c, size_t more);
void op_draft_done(struct draft *d);
#define auto_draft __attribute__((cleanup(op_draft_done)))

/* The op's one address: a loan in that state, if there was any. */
int op_put_loan(struct block_log *l, struct block_table *t, const struct block_op *op,
		enum loan_state state, struct err *e);
int op_drop_claim(struct block_log *l, struct block_table *t, const struct block_claim *c,
		  struct err *e);
void op_forget(struct block_table *t, const char *name);

/* Between the block_plan*.c files. */

struct planner {
	const struct block_facts *f;
	struct block_plan *ret;
	bool left; /* one block is being left: enough for now */
};

/* NULL: something about this block is planned already. */
struct block_op *plan_add(struct planner *p, enum block_op_kind kind, const char *pool,
			  const char *name);

bool plan_has(const struct planner *p, const char *name);
/* The same, bound to the object as it is. */
struct block_op *plan_bound(struct planner *p, enum block_op_kind kind,
			    const struct block_object *o);
/* About the entry of *a, which reads `from`. */
struct block_op *plan_entry(struct planner *p, enum block_op_kind kind, const char *pool,
			    const char *block, const struct ipaddr *a, const char *from);
/* How the pool stands; NULL: nobody knows it. */
const struct block_need *plan_need(const struct block_facts *f, const char *pool);

bool plan_net_has_pods(const struct block_facts *f, const struct ipnet *net);

/* Wishes of others (plan_lend.c). */
void plan_grant_wish(struct planner *p, const struct block_claim *c, const struct block_object *o,
		     const struct block_need *need);
void plan_tell_idle(struct planner *p, const struct block_claim *c, const struct block_object *o,
		    const struct block_need *need);
/*
 * Addresses of a claim that nobody has and that the object knows nothing of, the highest first: the
 * lowest are handed out first. At most so many; free() them.
 */
size_t plan_idle_of(const struct block_facts *f, const struct block_claim *c,
		    const struct block_object *o, const struct ip_set *usable, size_t max,
		    struct ipaddr **ret);

/* Loans (plan_lend.c). */
void plan_loan(struct planner *p, const struct block_loan *l);
void plan_strays(struct planner *p);
bool plan_look(struct planner *p, const struct block_need *need); /* whether it is due */
/* All addresses of op's net but those of pods here, onto its list. */
void plan_all_but_pods(const struct planner *p, const struct ip_set *usable, struct block_op *op);
/* Another node has it by the object, which is believed. */
bool plan_is_anothers(const struct planner *p, const struct block_entry *x);

/* An entry of this node's that no loan stands for is returned. */
void plan_stray(struct planner *p, const char *pool, const char *block,
		const struct block_entry *x);
/* An address asked for by name; and what others ask so of a block of ours: whether there is something
 * to do about that (plan_acquire.c). */
void plan_named(struct planner *p, const struct block_need *need, const struct ipaddr *a);
bool plan_grant_named(struct planner *p, const struct block_claim *c, const struct block_object *o,
		      const struct block_need *need);
/* What a pool lacks (plan_acquire.c). */
void plan_want(struct planner *p, const struct block_need *need);
void plan_list(struct planner *p, const struct block_need *need);
/* No block is to be had: others' addresses, by a list that is not stale (plan_acquire.c). */
void plan_ask_others(struct planner *p, const struct block_need *need, const struct block_view *v);

#endif
