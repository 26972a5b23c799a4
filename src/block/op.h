/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BLOCK_OP_H
#define UNIRAIL_BLOCK_OP_H

/*
 * Requests about blocks, as data: the caller talks to the API server, carries one out and reports
 * how it ended. At most one request per block is in flight.
 *
 *	if (block_op_begin(&log, &table, &op, e) >= 0)
 *		outcome = ...request...;
 *	block_op_end(&log, &table, &op, outcome, object, e);
 *
 * begin logs what must be durable before the request (a release), end what follows from the answer
 * (a gain). A crash between any two steps is safe: block_plan() finds what is left to do.
 */

#include "block/log.h"

enum block_op_kind {
	OP_CREATE,    /* POST: name, pool, net, this node, token; the claim's `ceded` as "?" */
	OP_TAKE_OVER, /* an orphan: sets node and claim, if the version matches */
	/* of another log of this node: claim, entries ips -> to, if the version matches */
	OP_ADOPT,
	OP_DELETE, /* if uid and version match */
	OP_DISOWN, /* node and claim "", adds the entries ips -> to; if the version matches */
	/* adds the entries ips -> to; removes request_of; if `tells`, sets busy to `count`; if the
	 * version matches */
	OP_RELEASE,
	OP_RECLAIM, /* removes the entry of ip if its text is `from`; or sets it to `to`, if given */
	/* writes the claim from token to the same token, if the version matches: ends all requests
	 * in flight that are bound to an older version */
	OP_TOUCH,
	OP_BORROW, /* sets the entries of ips to `to`, if all read `from` */
	OP_RETURN, /* removes the entry of ip if its text is `from`; or sets it to `to`, if given */
	OP_REQUEST, /* wanted["<this node>@*"] = count; wanted["<this node>@ip"] if ip is given */
	OP_ASSERT,  /* sets the entries of ips, which local pods have, if the version matches */
	OP_READ,    /* GET; ip, if given: to see which node has it */
	OP_LIST,    /* the pool's blocks; ends with block_view_put() */
	/* no request, begin does it all: another node has the claim, or the borrowed ip */
	OP_FORGET,
};

struct block_op {
	enum block_op_kind kind;
	char name[BLOCK_NAME_MAX + 1]; /* the block's */
	char pool[BLOCK_NAME_MAX + 1];
	struct ipnet net;
	char uid[64], version[32], token[BLOCK_TOKEN_MAX];
	struct ipaddr *ips; /* OP_ADOPT, OP_RELEASE, OP_BORROW, OP_ASSERT; other kinds use ip */
	size_t n_ips;
	struct ipaddr ip;
	char from[BLOCK_ENTRY_MAX], to[BLOCK_ENTRY_MAX];
	char request_of[BLOCK_REQUESTED_MAX]; /* the key in `wanted`; "": none */
	uint32_t count;
	bool report;
	bool first; /* OP_BORROW: no earlier request for these can be in flight */
};
void block_op_done(struct block_op *op);

enum block_outcome {
	BLOCK_OK,
	BLOCK_REFUSED, /* answered: it exists (create), or a precondition does not hold */
	BLOCK_ABSENT,  /* answered: the object does not exist */
	BLOCK_UNKNOWN, /* not answered: it may have been carried out, or may still be */
};

int block_op_begin(struct block_log *l, struct block_table *t, struct block_op *op, struct err *e);
/* o: the object in the answer (contents are moved out; may be NULL). now_ms: the same clock as
 * block_plan(). */
int block_op_end(struct block_log *l, struct block_table *t, const struct block_op *op,
		 enum block_outcome r, struct block_object *o, int64_t now_ms, struct err *e);

#endif
