/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BLOCK_OP_H
#define UNIRAIL_BLOCK_OP_H

/*
 * Requests about blocks, as data: the caller sends each request to the API server and reports its
 * outcome. At most one request per block is in flight.
 *
 *	if (block_op_begin(&log, &table, &op, e) >= 0) {
 *		outcome = ...request...;
 *		block_op_end(&log, &table, &op, outcome, object, now_ms, e);
 *	}
 *
 * block_op_begin() logs what must be durable before the request (a release), block_op_end() logs
 * what follows from the answer (a gain). A crash between any two steps is safe: block_plan() plans
 * the missing steps.
 */

#include "block/log.h"

enum block_op_kind {
	/* POST of a new object: name, pool, net, this node, token; the entries of ips are `to` */
	OP_CREATE,
	OP_TAKE_OVER, /* sets node and claim of an orphan, if the version matches */
	/* for a block whose object names this node but which is not in the log or has the UID of
	 * an earlier Node object: sets node, nodeUID and claim, and the entries of ips to `to`,
	 * if the version matches */
	OP_ADOPT,
	OP_DELETE, /* deletes the object, if uid and version match */
	/* sets node, nodeUID and claim to "-" (no owner), and the entries of ips to `to`, if the
	 * version matches */
	OP_DISOWN,
	/* sets the entries of ips to `to`, removes request_of and, if `report` is set, sets
	 * unavailable to `count`, if the version matches */
	OP_RELEASE,
	/* if the entry of ip reads `from`: sets it to `to`, or removes it if `to` is empty */
	OP_RECLAIM,
	/* changes only an annotation, if the version matches; requests in flight that are bound to
	 * an older version fail then */
	OP_TOUCH,
	OP_BORROW, /* sets the entries of ips to `to`, if all read `from` */
	/* changes the entry of ip like OP_RECLAIM; sent by the node that the entry names as the
	 * borrower, or by the controller for an obsolete entry */
	OP_RETURN,
	/* sets requested["<this node>@*"] to count; if ip is given, "<this node>@ip" instead */
	OP_REQUEST,
	/* sets the entries of ips (addresses of local pods) to `to`, if the version matches */
	OP_ASSERT,
	OP_READ, /* reads the object; with ip: to find the node that has this address */
	OP_LIST, /* lists the blocks of the pool; the caller passes them to block_view_put() */
	/* sends no request: block_op_begin() removes the claim or, if ip is given, the borrowed
	 * address from the log */
	OP_FORGET,
};

struct block_op {
	enum block_op_kind kind;
	char name[BLOCK_NAME_MAX + 1]; /* the block's */
	char pool[BLOCK_NAME_MAX + 1];
	struct ipnet net;
	char uid[64], version[32], token[BLOCK_TOKEN_MAX];
	/* of OP_CREATE, OP_ADOPT, OP_DISOWN, OP_RELEASE, OP_BORROW, OP_ASSERT; other kinds use
	 * ip */
	struct ipaddr *ips;
	size_t n_ips;
	struct ipaddr ip;
	char from[BLOCK_ENTRY_MAX], to[BLOCK_ENTRY_MAX];
	char request_of[BLOCK_REQUESTED_MAX]; /* key of the answered request; "": none */
	uint32_t count;
	bool report;
	bool first; /* OP_BORROW: no earlier request for these addresses can be in flight */
};
void block_op_done(struct block_op *op);

enum block_outcome {
	BLOCK_OK,
	/* the answer: the object to be created exists, or a precondition does not hold */
	BLOCK_REFUSED,
	BLOCK_ABSENT, /* the answer: the object does not exist */
	/* no answer, or one that does not show the object's state: the request may have been
	 * carried out, or may be carried out later */
	BLOCK_UNKNOWN,
};

int block_op_begin(struct block_log *l, struct block_table *t, struct block_op *op, struct err *e);
/* o: the object in the answer (contents are moved out; may be NULL). now_ms: time of the clock that
 * block_plan() uses. */
int block_op_end(struct block_log *l, struct block_table *t, const struct block_op *op,
		 enum block_outcome r, struct block_object *o, int64_t now_ms, struct err *e);

#endif
