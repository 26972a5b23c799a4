/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_IPAM_BLOCK_PLAN_PRIV_H
#define UNIRAIL_IPAM_BLOCK_PLAN_PRIV_H

/* Between the block_plan*.c files. */

#include "ipam/block_plan.h"

struct planner {
	const struct block_facts *f;
	struct block_plan *ret;
	bool left; /* one block is being left: enough for now */
};

/* NULL: something about this block is planned already. */
struct block_op *plan_add(struct planner *p, enum block_op_kind kind, const char *pool,
			  const char *name);

/* What a pool lacks (block_plan_want.c). */
void plan_want(struct planner *p, const struct block_need *need);

#endif
