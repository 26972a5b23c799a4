/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BLOCK_BLOCK_OP_PRIV_H
#define UNIRAIL_BLOCK_BLOCK_OP_PRIV_H

/* Between the block_op*.c files. */

#include "block/block_op.h"

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

#endif
