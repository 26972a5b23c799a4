/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BLOCK_RELEASE_H
#define UNIRAIL_BLOCK_RELEASE_H

/*
 * What becomes of blocks whose node is gone, and of entries that nobody will take back any more. Pure;
 * the controller carries the requests out, one a block at a time, each bound to what the object was.
 *
 *	a block of a node that is gone	nobody's while others have addresses of it, or a name will come
 *					back for one; deleted otherwise
 *	"gone/token" "@gone"		removed: the block's owner has the address again
 *	"?" that nobody claims		removed likewise
 *	a block that is nobody's	deleted when its last entry is gone
 *
 * An address that is kept for a name (spec/identity.h) on a node that is gone gets the entry "@-": no
 * node is called that, so nobody takes it but the node where the name's next pod comes (migration.h),
 * from whoever has the block by then. The entry is removed when no name keeps the address any more.
 *
 * A node that was thought gone and is back finds its claims in its log and another object: it says what
 * its pods have, as after any other loss (plan.h).
 */

#include "block/op.h"

#define BLOCK_ENTRY_KEPT "@-"

struct block_release {
	/* Its machine runs no more. uid: of the Node object that the block is of; "": not known. */
	bool (*is_gone)(void *arg, const char *node, const char *uid);
	/* No node has it, whoever was asked. */
	bool (*is_lost)(void *arg, const struct ipaddr *ip);
	void *arg;
	/* Of names that keep theirs, in the order of ip_cmp(). */
	const struct ipaddr *kept;
	size_t n_kept;
};

/* The next request about the block, for block_op_done(); false: it is as it should be. */
bool block_release_next(const struct block_object *o, const struct block_release *f,
			struct block_op *op);

#endif
