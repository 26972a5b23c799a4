/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BLOCK_LOG_H
#define UNIRAIL_BLOCK_LOG_H

/*
 * What a node must know of its blocks while the API server is unavailable: claims and
 * borrowed addresses, in one small file beside the IPAM journal. The file is rewritten at each
 * change (one claim serves sixteen addresses). JSON, version 1:
 *
 *	{"version":1,"node":"n1","nodeUID":"...","id":"8c1f...","tokens":7,"seen":91234,
 *	 "claims":[{"name":"rail0-3","pool":"rail0","uid":"...","token":"8c1f...-6","net":"10.0.0.48/28",
 *	            "state":"held","released":["10.0.0.50"]}],
 *	 "borrowed":[{"block":"rail0-9","pool":"rail0","ip":"10.0.0.145","token":"...","state":"held"}]}
 *
 * A borrowed address that was only asserted (table.h) has "asserted":true. "seen" is the highest
 * resourceVersion seen so far: an API server whose resourceVersion is lower was restored from a
 * backup. "restored" is true from a restore of etcd until this node has finished its recovery.
 *
 * The id is generated once and is part of every token. Blocks of this node with another id were
 * claimed by a log that was lost (or by another agent): it is unknown which of their addresses pods
 * use.
 */

#include "base/file.h"
#include "block/table.h"

enum { BLOCK_LOG_FORMAT = 1, BLOCK_LOG_MAX = 16 << 20, BLOCK_ID_MAX = 17 };

struct block_log {
	const struct root *root;
	char *path;
	char id[BLOCK_ID_MAX];
	uint64_t tokens; /* number of tokens generated so far */
	uint64_t seen;	 /* highest resourceVersion seen, as read from the file */
	bool etcd_restored;
	bool behind; /* the table is newer than the file: a write failed, or a batch is open */
	bool batch;  /* between block_log_batch() and block_log_commit() */
	/* For each claim by which the open batch gives this node more addresses, and each
	 * borrowed address that it adds or sets to BORROW_HELD: the entry of the table before
	 * the batch, which block_log_commit() restores if the write fails. State CLAIM_REMOVED
	 * or BORROW_REMOVED: the table had no such entry. Strings are owned. */
	struct block_claim *old_claims;
	struct block_borrowed *old_borrowed;
	size_t n_old_claims, n_old_borrowed;
};

/*
 * Reads the file into t (node, claims, borrowed addresses); if none exists, writes one with a new
 * id. -EBADMSG, kind ERR_IO: the file is damaged; -EPROTO: its format is not BLOCK_LOG_FORMAT;
 * -EXDEV, kind ERR_CONF: it belongs to another node.
 */
int block_log_open(struct block_log *l, const struct root *r, const char *path, const char *node,
		   struct block_table *t, struct err *e);
void block_log_close(struct block_log *l);
/*
 * Replaces the log by one that has a new id, no claims and no borrowed addresses, after the journal
 * was lost: without the journal it is unknown which addresses of these blocks are in use. The
 * members about the API server's data ("nodeUID", "seen", "restored") are retained. Errors as
 * block_log_open().
 */
int block_log_recreate(const struct root *r, const char *path, const char *node, struct err *e);
/* Records a new state of a claim or borrowed address in file and table. If the write fails, the
 * table still applies a release (fewer addresses), but not a gain (more addresses). */
int block_log_claim(struct block_log *l, struct block_table *t, const struct block_claim *c,
		    struct err *e);
int block_log_borrowed(struct block_log *l, struct block_table *t, const struct block_borrowed *n,
		       struct err *e);
/*
 * Collects the following changes in one write, that of block_log_commit(); until then they are in
 * the table only, so the caller must neither send a request nor allocate an address meanwhile. A
 * batch changes each claim and each borrowed address at most once. If the write fails, the table
 * applies the releases and ignores the gains.
 */
void block_log_batch(struct block_log *l);
int block_log_commit(struct block_log *l, struct block_table *t, struct err *e);
/* Sets the UID of this node's Node object. If the log has another UID, the Node was recreated:
 * each held borrowed address gets a new token and must be borrowed again before use. */
int block_log_node(struct block_log *l, struct block_table *t, const char *uid, struct err *e);
/* Returns whether the entry has the name of this node and a token of this log. */
bool block_log_has_made(const struct block_log *l, const char *node, const struct block_entry *x);
/* Records several borrowed addresses in one write; no address may occur twice. */
int block_log_borrowed_all(struct block_log *l, struct block_table *t,
			   const struct block_borrowed *v, size_t n, struct err *e);
/*
 * Writes releases whose first write failed: they already took effect in memory. The caller must not
 * send a release to the API server before block_log_sync() succeeds: after a crash the node would
 * believe that it still owns the address.
 */
int block_log_sync(struct block_log *l, const struct block_table *t, struct err *e);
/* on: records that etcd was restored from a backup, and sets `seen` to 0. Not on: records that
 * the recovery is finished (block_has_rescanned()). Takes effect in memory even when the write
 * fails. */
int block_log_etcd_restored(struct block_log *l, struct block_table *t, bool on, struct err *e);
/* Generates a new token "<id>-<number>". The next change of the log makes its number durable. */
void block_log_token(struct block_log *l, char ret[static BLOCK_TOKEN_MAX]);
/* Returns whether this log generated the token. */
bool block_log_has_token(const struct block_log *l, const char *token);

#endif
