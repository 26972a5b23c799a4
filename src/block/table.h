/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BLOCK_TABLE_H
#define UNIRAIL_BLOCK_TABLE_H

/*
 * The state of blocks on a node: its own claims and borrowed addresses as in its log, and the
 * objects as last seen in the API server. block_usable() combines the two: what may be allocated
 * now.
 */

#include "block/block.h"

enum { BLOCK_TOKEN_MAX = 32 };

/*
 * An entry of an object's `released`: "*" any node may borrow the address; "@node" reserved for
 * that node, for the pod that it was released for (migration.h); "@node*" reserved for that node,
 * for any pod; "@-" retained for a pod name (release.h); "node/token" borrowed by that node; "?"
 * released, and it is unknown which node has it (the object was lost and recreated, or etcd was
 * restored).
 */
struct block_entry {
	struct ipaddr ip;
	char *to;
	int64_t since_ms; /* when the entry was first seen, see block_table_stamp(); 0: unset */
};

/*
 * An entry of `requested`: a node requests `count` addresses from the block's owner. Key "node@*"
 * (block_requested_any()): any addresses, since the node found no free block; key "node@address"
 * (block_requested_key()): this particular address.
 */
struct block_requested {
	char *key;
	uint32_t count;
};

/* The fields of a SpiderIPBlock that unirail uses. */
struct block_object {
	char *name, *pool, *uid, *version; /* version: resourceVersion */
	struct ipnet net;
	char *node, *node_uid, *claim; /* node "": the block is an orphan */
	struct block_entry *released;  /* sorted by address: block_entries_sort() */
	size_t n_released;
	struct block_requested *requested;
	size_t n_requested;
	bool reports; /* the object has `unavailable`: the owner reports its free capacity */
	uint32_t unavailable; /* number of unreleased addresses that the owner cannot release */
};

enum claim_state {
	CLAIM_HELD,
	CLAIM_RELEASING, /* the node is releasing the block and allocates no address of it again */
	CLAIM_REMOVED,	 /* only in a change: block_claim_put() removes the claim */
};

/* A block of this node, as recorded in the log. */
struct block_claim {
	char *name, *pool, *uid;
	char token[BLOCK_TOKEN_MAX]; /* the object's `claim` */
	struct ipnet net;
	enum claim_state state;
	/* addresses that this node released, even if the object does not show it yet; sorted in
	 * the table */
	struct ipaddr *released;
	size_t n_released;
	bool absent; /* a recent read found no object; the log does not store this field */
};

enum borrow_state {
	BORROW_REQUESTED, /* the request may be in flight */
	BORROW_HELD,
	BORROW_RETURNING,
	BORROW_REMOVED, /* only in a change: block_borrowed_put() removes the address */
};

/* An address borrowed from the block of a peer. */
struct block_borrowed {
	char *block, *pool;
	struct ipaddr ip;
	char token[BLOCK_TOKEN_MAX];
	enum borrow_state state;
	/*
	 * The owner did not lend the address: a local pod already used it, and the node asserted
	 * that (OP_ASSERT). The block's owner may have allocated the address as well (this node was
	 * fenced, or etcd restored). Therefore no other pod of this node gets the address, and it
	 * is returned after the end of the pod that uses it.
	 */
	bool asserted;
	bool absent; /* a recent read found no block; the log does not store this field */
};

/* An entry of a peer's block or an orphan: this node may borrow the address, or (`leftovers`) the
 * entry is this node's own. */
struct block_offer {
	char *block;
	struct ipaddr ip;
	char *to; /* text of the entry */
	int64_t at_ms;
};

/* The block of a peer, or an orphan (without free capacity, since no owner answers requests). */
struct block_peer {
	char *name;
	uint32_t unreleased; /* number of unreleased addresses; the owner's pods may use them */
	/* number of unreleased addresses that the owner can release, by its report; without a
	 * report: `unreleased` */
	uint32_t spare;
	bool reports; /* the owner reports its free capacity */
	/* number of addresses that other nodes request from this block */
	uint32_t requested_by_others;
	int64_t requested_ms; /* when this node last sent a request; 0: never */
	int64_t read_ms;      /* time of the last request, or of the last read after it */
	unsigned int reads;   /* reads since the last request */
	bool pending;	      /* the request is not answered yet */
};

/* A block without an owner. */
struct block_orphan {
	char *name, *version;
	struct ipnet net;
};

/* A pool's blocks as of the last list: where to claim, which owners to ask. */
struct block_view {
	char *pool;
	u128 *taken; /* indices of existing blocks, sorted; includes orphans */
	size_t n_taken;
	struct block_orphan *orphans;
	size_t n_orphans;
	struct block_peer *peers;
	size_t n_peers;
	struct block_offer *available;
	size_t n_available;
	struct block_offer *leftovers; /* entries of this node, see block_view_put() */
	size_t n_leftovers;
	int64_t at_ms;
	bool stale;	      /* a claim or borrowing failed since the last list */
	unsigned int misses;  /* claims and borrowings that failed since the last list */
	int64_t requested_ms; /* when the last request was sent to a peer; 0: never */
	/* number of requests to peers; the first one after a minute without any sets it to 1 */
	size_t requested;
	/* lists since the first of these requests; 0 after a borrowing succeeded */
	unsigned int rounds;
};

/* State of an address that was requested by name, as of the last read of its block. The block is a
 * peer's, an orphan or absent. */
struct block_lookup {
	char *block, *node, *version; /* node "": the block is an orphan */
	char *to;		      /* text of the address's entry; NULL: none */
	struct ipnet net;
	struct ipaddr ip;
	int64_t at_ms;
	bool absent;	/* the block does not exist */
	bool requested; /* the block's owner has not answered this node's request yet */
	bool refused;	/* the address's entry is not for this node, or the owner refused */
};

struct block_table {
	char *node, *node_uid;	    /* node_uid "": unknown, not compared */
	struct block_claim *claims; /* sorted by name */
	size_t n_claims;
	struct block_borrowed *borrowed; /* sorted by address */
	size_t n_borrowed;
	/* sorted by name: blocks of this node, and peers' blocks from which this node borrows */
	struct block_object *objects;
	size_t n_objects;
	/* this node's blocks were listed: if a block's object is not in this table, block_plan()
	 * plans a request that reads it from the API server */
	bool synced;
	struct block_view *views;
	size_t n_views;
	struct block_lookup *lookups;
	size_t n_lookups;
};

void block_table_done(struct block_table *t);
struct block_claim *block_claim_find(const struct block_table *t, const char *name);
struct block_borrowed *block_borrowed_find(const struct block_table *t, const struct ipaddr *a);
struct block_object *block_object_find(const struct block_table *t, const char *name);

/* Applies a change of the log (strings are copied): a new claim or borrowed address, or a new state
 * of one; state CLAIM_REMOVED or BORROW_REMOVED removes it. */
void block_claim_put(struct block_table *t, const struct block_claim *c);
void block_borrowed_put(struct block_table *t, const struct block_borrowed *l);
/* Stores the object; its contents are moved in. They are freed instead if the table has a newer
 * version of the same object (same UID). */
void block_object_put(struct block_table *t, struct block_object *o);
void block_object_remove(struct block_table *t, const char *name);

/* --- views of pools (table.c) --- */

/* Finds the view of a pool; NULL: the pool was never listed, and no claim or borrowing failed. */
struct block_view *block_view_find(const struct block_table *t, const char *pool);
/* Marks the pool's view as stale, after a claim or borrowing failed. Creates the view if the pool
 * was never listed. */
void block_view_stale(struct block_table *t, const char *pool);
/* Marks the block as owned by another node, after a claim that came too late. */
void block_view_taken(struct block_table *t, const char *pool, const char *block);
/* Sets the view of a pool from a list of its blocks; v stays the caller's. The view's leftovers are
 * entries of this node in peers' blocks. */
void block_view_put(struct block_table *t, const char *pool, const struct block_cut *c,
		    const struct block_object *v, size_t n, int64_t now_ms);
/* Updates the view by a recent read of a peer's block; o NULL: the block does not exist. */
void block_view_see(struct block_table *t, const char *pool, const char *block,
		    const struct block_object *o, int64_t now_ms);
/* block_unreleased(): number of unreleased addresses of a block. block_spare(): how many of
 * these its owner reports that it can release. */
uint32_t block_unreleased(const struct block_object *o);
uint32_t block_spare(const struct block_object *o);

void block_object_done(struct block_object *o);
/* Compares the networks of two elements of a list of pointers to blocks: for qsort(). */
int block_object_order(const void *a, const void *b);
/* Returns whether resourceVersion a of an object is lower than b: versions grow (documented since
 * Kubernetes 1.35; always so with etcd). */
bool block_version_is_older(const char *a, const char *b);
/* Sorts the entries for block_entry_find(). block_object_read() and block_object_put() call it. */
void block_entries_sort(struct block_object *o);
/* Records when each entry of this node's objects was first seen (since_ms). */
void block_table_stamp(struct block_table *t, int64_t now_ms);

/* --- addresses requested by name (table.c) --- */

enum { BLOCK_REQUESTED_MAX = BLOCK_NAME_MAX + 1 + IP_TEXT_MAX };
const char *block_requested_key(const char *node, const struct ipaddr *a,
				char ret[static BLOCK_REQUESTED_MAX]);
/* Returns whether the key is "node@address"; if so, sets *a to the address. */
bool block_requested_named(const char *key, struct ipaddr *a);
const char *block_requested_any(const char *node, char ret[static BLOCK_REQUESTED_MAX]);
/* Returns whether the key is "node@*"; sets ret to the text of an entry that reserves an address
 * for the node in the key, "@node*", or to "" if the key has another form. */
bool block_requested_reservation(const char *key, char ret[static BLOCK_NAME_MAX + 3]);
bool block_requested_is_of(const char *key, const char *node);
const struct block_lookup *block_lookup_find(const struct block_table *t, const struct ipaddr *a);
/* Stores the state that address *a has in o, the object of its block that was just read; o NULL:
 * the block does not exist. request: o is the answer to this node's request for the address. */
void block_lookup_put(struct block_table *t, const char *block, const struct ipaddr *a,
		      const struct block_object *o, bool request, int64_t now_ms);
/* Drops the stored lookups of the block, since it may have changed. */
void block_lookup_drop(struct block_table *t, const char *block);
enum { BLOCK_LOOKUP_MS = 1000 }; /* lifetime of a lookup */
/* Returns whether this node cannot get the address now: another node has it, it is reserved for
 * another node or retained for a pod name, or its user is unknown. Writes the reason to w (may
 * be NULL): "node 'b' has the address". */
bool block_is_refused(const struct block_table *t, const struct ipaddr *a, int64_t now_ms,
		      struct buf *w);

/* Entry texts. */
enum { BLOCK_ENTRY_MAX = 253 + 1 + BLOCK_TOKEN_MAX };
const char *block_entry_local(const char *node, const char *token,
			      char ret[static BLOCK_ENTRY_MAX]);
const struct block_entry *block_entry_find(const struct block_object *o, const struct ipaddr *a);
/*
 * Returns whether `is` differs from the earlier version `was` in a way that only the owner of the
 * block causes: it has another claim, has an entry "*" or "@node*" for an address that had no
 * entry, or has reclaimed an address with the entry "*". Peers change and remove only entries that
 * exist, or add entries of their own; the controller removes entries of other kinds.
 */
bool block_changed_by_owner(const struct block_object *was, const struct block_object *is);
/* Returns whether any node may borrow the address now: "*". */
bool block_entry_open(const struct block_entry *x);
/* Returns whether the address is reserved for any pod of one node: "@node*". */
bool block_entry_reserved(const struct block_entry *x);
/* Returns whether the entry is "*", or "@node*" with any node's name. */
bool block_entry_offered(const struct block_entry *x);
/* The node of "node/token", "@node" or "@node*"; false: the entry names no node. */
bool block_entry_node(const struct block_entry *x, char ret[static BLOCK_NAME_MAX + 1]);
/* Returns whether this node borrows the address, under any token of any of its logs. */
bool block_entry_is_of(const struct block_entry *x, const char *node);
/* Returns whether this node may borrow the address now: "*", "@node", "@node*". */
bool block_entry_free_for(const struct block_entry *x, const char *node);

/* Returns whether the object belongs to the claim: same UID, this node's name, the claim's
 * token. */
bool block_is_of(const struct block_table *t, const struct block_claim *c,
		 const struct block_object *o);
/* Like block_is_of(), and the object has this node's current UID, if that is known. The controller
 * releases the blocks of deleted nodes, so a node that was recreated under the same name adopts its
 * blocks again before it allocates from them. */
bool block_agrees(const struct block_table *t, const struct block_claim *c,
		  const struct block_object *o);
bool block_is_released(const struct block_claim *c, const struct ipaddr *a);

/*
 * Adds to ret the addresses of a pool that this node may allocate now: those of held claims that
 * agree with their object, except addresses that the claim or the object has as released; and held
 * borrowed addresses that the object confirms, except asserted ones.
 */
void block_usable(const struct block_table *t, const char *pool, const struct ip_set *usable,
		  struct ip_set *ret);
/* Adds the asserted addresses to ret: only the pods that have them, or for which they are retained,
 * may use them. */
void block_asserted(const struct block_table *t, const char *pool, const struct ip_set *usable,
		    struct ip_set *ret);

#endif
