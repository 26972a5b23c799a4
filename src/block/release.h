/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BLOCK_RELEASE_H
#define UNIRAIL_BLOCK_RELEASE_H

/*
 * What the controller does with blocks of deleted nodes, and with entries that no node will return.
 * Pure; the controller carries the requests out, one per block at a time, each bound to the
 * object's state.
 *
 *	a block of a deleted node	becomes an orphan if another node borrows from it, an entry
 *					is "?" or "@node" of a node that exists, or an address is
 *					retained for a pod name; otherwise deleted
 *	"deleted/token" "@deleted"	entry removed: the block's owner has the address again
 *	"@deleted*"
 *	"?" that no node asserts	entry removed as well
 *	an orphan			deleted when all remaining entries are "*" or "@node*"
 *
 * An address that is retained for a pod name (spec/identity.h) on a deleted node gets the entry
 * "@-". No node has the name "-", so only the node where the next pod of that name is scheduled
 * takes it (migration.h), from the block's owner at that time. The entry is removed when no name
 * retains the address any more.
 *
 * A node that was considered deleted and starts again finds claims in its log whose object has
 * changed: it asserts the addresses of its pods, as after any other loss (plan.h).
 */

#include "block/op.h"

#define BLOCK_ENTRY_RETAINED "@-"

struct block_release {
	/* Returns whether the node was deleted and no pod is bound to it, or the node was recreated
	 * and leaves the block unused. uid: UID of the Node object that owns the block; "": only
	 * tests whether the node was deleted. */
	bool (*is_deleted)(void *arg, const char *node, const char *uid);
	/* Returns whether it is confirmed that no node has the address. */
	bool (*is_lost)(void *arg, const struct ipaddr *ip);
	void *arg;
	/* Addresses retained for pod names, in the order of ip_cmp(). */
	const struct ipaddr *retained;
	size_t n_retained;
};

/* Fills op with the next request about the block; block_op_done() frees it. Returns false if there
 * is nothing to do. */
bool block_release_next(const struct block_object *o, const struct block_release *f,
			struct block_op *op);

#endif
