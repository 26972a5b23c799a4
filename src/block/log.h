/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BLOCK_LOG_H
#define UNIRAIL_BLOCK_LOG_H

/*
 * What a node must know of its blocks when nobody can be asked: claims and loans, in one small file
 * beside the journal that is written anew at each change (claims change once in sixteen
 * addresses). JSON, version 1:
 *
 *	{"version":1,"node":"n1","nodeUID":"...","id":"8c1f...","tokens":7,"seen":91234,
 *	 "claims":[{"name":"rail0-3","pool":"rail0","uid":"...","token":"8c1f...-6","net":"10.0.0.48/28",
 *	            "state":"held","ceded":["10.0.0.50"]}],
 *	 "loans":[{"block":"rail0-9","pool":"rail0","ip":"10.0.0.145","token":"...","state":"held"}]}
 *
 * A loan that was only said (table.h) has "said":true.
 * seen is the latest version of an object by then: an API server that is behind it was set back
 * (etcd restored). "setBack":true stands there until that is over for this node, whatever becomes of
 * its agent meanwhile.
 *
 * The id is made once and is part of every token: blocks of this node with another id were claimed
 * by a log that was lost (or is somebody else's), so nobody knows which of their addresses pods have.
 */

#include "base/file.h"
#include "block/table.h"

enum { BLOCK_LOG_FORMAT = 1, BLOCK_LOG_MAX = 16 << 20, BLOCK_ID_MAX = 17 };

struct block_log {
	const struct root *root;
	char *path;
	char id[BLOCK_ID_MAX];
	uint64_t tokens; /* how many were made */
	uint64_t seen;	 /* as the file has it */
	bool set_back;
	bool behind; /* a write failed: the file does not say what the table does */
};

/*
 * Reads it into t (its node, claims and loans); without a file a new id is made and written.
 * -EBADMSG, kind ERR_IO: damaged; -EPROTO: of a later release; -EXDEV, kind ERR_CONF: another
 * node's.
 */
int block_log_open(struct block_log *l, const struct root *r, const char *path, const char *node,
		   struct block_table *t, struct err *e);
void block_log_close(struct block_log *l);
/*
 * A new id, no claim and no loan in its place, for a journal that is lost: without it nobody knows which
 * addresses of these blocks are in use. What it knows of the API server's data stays. Errors as
 * block_log_open().
 */
int block_log_begin_anew(const struct root *r, const char *path, const char *node, struct err *e);
/* Another state of a claim or loan, durable before it is on the table. When it cannot be written,
 * what would be a gain is not there, and what is given up is given up. */
int block_log_claim(struct block_log *l, struct block_table *t, const struct block_claim *c,
		    struct err *e);
int block_log_loan(struct block_log *l, struct block_table *t, const struct block_loan *n,
		   struct err *e);
/*
 * The Node object's UID, which blocks bear. Another than the log's: the node was made anew, so what
 * others have given it is asked for again before it is used.
 */
int block_log_node(struct block_log *l, struct block_table *t, const char *uid, struct err *e);
/* Whether it is an entry of this node and this log. */
bool block_log_has_made(const struct block_log *l, const char *node, const struct block_entry *x);
/* Several with one write; no address twice. */
int block_log_loans(struct block_log *l, struct block_table *t, const struct block_loan *v,
		    size_t n, struct err *e);
/*
 * What is given up counts in memory even when it could not be written; this writes it. Nothing may be
 * told to the API server before: after a crash we would think that we have it still.
 */
int block_log_sync(struct block_log *l, const struct block_table *t, struct err *e);
/* The API server's data was set back; or all is said and found (block_has_looked()). Counts in memory
 * even when it could not be written. */
int block_log_set_back(struct block_log *l, struct block_table *t, bool on, struct err *e);
/* One that was never used: "<id>-<number>", durable with the next change. */
void block_log_token(struct block_log *l, char ret[static BLOCK_TOKEN_MAX]);
/* Whether a token is of this log. */
bool block_log_is_ours(const struct block_log *l, const char *token);

#endif
