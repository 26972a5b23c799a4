/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BLOCK_OP_H
#define UNIRAIL_BLOCK_OP_H

/*
 * Requests about blocks, as data: the caller talks to the API server, carries one out and reports
 * its outcome. At most one request per block is in flight.
 *
 *	if (block_op_begin(&log, &table, &op, e) >= 0)
 *		outcome = ...request...;
 *	block_op_end(&log, &table, &op, outcome, object, e);
 *
 * block_op_begin() logs what must be durable before the request (a release), block_op_end() logs
 * what follows from the answer (a gain). A crash between any two steps is safe: block_plan() plans
 * the missing steps.
 */

#include "block/log.h"

enum block_op_kind {
	/* POST: name, pool, net, this node, token; released addresses of the claim as "?" */
	OP_CREATE,
	OP_TAKE_OVER, /* of an orphan: sets node and claim, if the version matches */
	/* of a block of an earlier log of this node: sets claim and entries ips -> to, if the
	 * version matches */
	OP_ADOPT,
	OP_DELETE, /* DELETE, if uid and version match */
	/* sets node and claim to "", adds the entries ips -> to; if the version matches */
	OP_DISOWN,
	/* adds the entries ips -> to; removes request_of; if `report`, sets busy to `count`; if the
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
	OP_READ,    /* GET; with ip: to find out which node has it */
	OP_LIST,    /* lists the blocks of the pool; ends with block_view_put() */
	/* no request, block_op_begin() ends the claim, or the borrowed state of ip: another node
	 * has it */
	OP_FORGET,
};

struct block_op {
	enum block_op_kind kind;
	char name[BLOCK_NAME_MAX + 1]; /* the block's */
	char pool[BLOCK_NAME_MAX + 1];
	struct ipnet net;
	char uid[64], version[32], token[BLOCK_TOKEN_MAX];
	struct ipaddr *ips; /* of OP_ADOPT, OP_RELEASE, OP_BORROW, OP_ASSERT; other kinds use ip */
	size_t n_ips;
	struct ipaddr ip;
	char from[BLOCK_ENTRY_MAX], to[BLOCK_ENTRY_MAX];
	char request_of[BLOCK_REQUESTED_MAX]; /* the key in `wanted`; "": none */
	uint32_t count;
	bool report;
	bool first; /* OP_BORROW: no earlier request for these addresses can be in flight */
};
void block_op_done(struct block_op *op);

enum block_outcome {
	BLOCK_OK,
	/* answered: the object to be created exists, or a precondition does not hold */
	BLOCK_REFUSED,
	BLOCK_ABSENT, /* answered: the object does not exist */
	/* no answer: the request may have been carried out, or may be carried out later */
	BLOCK_UNKNOWN,
};

int block_op_begin(struct block_log *l, struct block_table *t, struct block_op *op, struct err *e);
/* o: the object in the answer (contents are moved out; may be NULL). now_ms: the same clock as
 * block_plan(). */
int block_op_end(struct block_log *l, struct block_table *t, const struct block_op *op,
		 enum block_outcome r, struct block_object *o, int64_t now_ms, struct err *e);

#endif
