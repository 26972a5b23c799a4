/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BLOCK_OP_H
#define UNIRAIL_BLOCK_OP_H

/*
 * Requests about blocks, as data: whoever talks to the API server carries one out and says how it
 * ended. One request a block is under way at a time.
 *
 *	if (block_op_begin(&log, &table, &op, e) >= 0)
 *		outcome = ...request...;
 *	block_op_end(&log, &table, &op, outcome, object, e);
 *
 * begin makes durable what must be known before (that an address is given up), end what follows
 * (that it is ours). Each is safe to stop at: block_plan() finds what is left to do.
 */

#include "block/log.h"

enum block_op_kind {
	OP_CREATE,    /* POST: name, pool, net, our node, token; `ceded` of the claim as "?" */
	OP_TAKE_OVER, /* a block that is nobody's: node and claim, if version is the object's */
	OP_ADOPT, /* of another log of this node: claim, entries ips -> to, if version is the object's */
	OP_DELETE, /* if uid and version are the object's */
	OP_DISOWN, /* node and claim "", adds the entries ips -> to; if version is the object's */
	OP_CEDE,   /* adds the entries ips -> to; drops wish_of; says that `count` of the others are
		    * busy, if `tells`; if version is the object's */
	OP_UNCEDE, /* removes the entry of ip, if it reads `from`; or makes it `to`, if that is given */
	OP_TOUCH,  /* claim from token to token again, if version is the object's: any write, which
		       * ends all that may still be under way with an older version */
	OP_BORROW, /* sets the entries of ips to `to`, if all read `from` */
	OP_RETURN, /* removes the entry of ip, if it reads `from`; or makes it `to`, if that is given */
	OP_WISH,   /* wanted["our node@*"] = count; wanted["our node@ip"] if ip is given */
	OP_ASSERT, /* sets the entries of ips, which pods here have, if version is the object's */
	OP_READ,   /* GET; to see who has ip, if that is given */
	OP_LIST,   /* the pool's blocks; block_view_put() is its end */
	OP_FORGET, /* no request, begin is all: the claim, or the loan of ip, is another's now */
};

struct block_op {
	enum block_op_kind kind;
	char name[BLOCK_NAME_MAX + 1]; /* of the block */
	char pool[BLOCK_NAME_MAX + 1];
	struct ipnet net;
	char uid[64], version[32], token[BLOCK_TOKEN_MAX];
	struct ipaddr *ips; /* OP_ADOPT, OP_CEDE, OP_BORROW, OP_ASSERT; else one in ip */
	size_t n_ips;
	struct ipaddr ip;
	char from[BLOCK_ENTRY_MAX], to[BLOCK_ENTRY_MAX];
	char wish_of[BLOCK_WISH_MAX]; /* the key in `wanted`; "": nobody's */
	uint32_t count;
	bool tells;
	bool first; /* OP_BORROW: no earlier request for these may be under way */
};
void block_op_done(struct block_op *op);

enum block_outcome {
	BLOCK_OK,
	BLOCK_REFUSED, /* answered: it exists (create), or it is not as it was thought to be */
	BLOCK_ABSENT,  /* answered: there is no such object */
	BLOCK_UNKNOWN, /* not answered: it may have been carried out, or will be */
};

int block_op_begin(struct block_log *l, struct block_table *t, struct block_op *op, struct err *e);
/* `o`: the object as answered (moved in; may be NULL). now_ms: as block_plan() has it. */
int block_op_end(struct block_log *l, struct block_table *t, const struct block_op *op,
		 enum block_outcome r, struct block_object *o, int64_t now_ms, struct err *e);

#endif
