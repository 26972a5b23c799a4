/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BLOCK_TABLE_H
#define UNIRAIL_BLOCK_TABLE_H

/*
 * What a node knows of blocks: its own claims and loans as the log has them, and the objects as
 * last seen in the API server. The two meet in block_mine(): what may be handed out now.
 */

#include "block/block.h"

enum { BLOCK_TOKEN_MAX = 32 };

/*
 * An entry of an object's `ceded`: "*" may be had by anyone, "@node" by that node for the pod that
 * it was given up for (migration.h), "@node*" by that node for any, "node/token" is with that node,
 * "?" was given up and nobody knows to whom (the object was lost and made anew).
 */
struct block_entry {
	struct ipaddr ip;
	char *to;
	int64_t since_ms; /* block_table_stamp() */
};

/*
 * An entry of `wanted`: a node that found no free block and looks for so many addresses, "node@*", or
 * "node", which cannot be promised any (block_wish_may_promise()); or "node@address", for that very
 * one (block_wish_key()).
 */
struct block_wish {
	char *node; /* the key */
	uint32_t count;
};

/* The object's fields that count. */
struct block_object {
	char *name, *pool, *uid, *version; /* version: resourceVersion */
	struct ipnet net;
	char *node, *node_uid, *claim; /* node "": nobody's */
	struct block_entry *ceded;
	size_t n_ceded;
	struct block_wish *wanted;
	size_t n_wanted;
	bool told;     /* its node has said, as it was last asked or since: */
	uint32_t busy; /* how many addresses of it that are not given up it cannot give either */
};

enum claim_state {
	CLAIM_HELD,
	CLAIM_LEAVING, /* on its way out: nothing of it is used ever again */
	CLAIM_GONE,    /* for the log: off the table */
};

/* A block of ours, as the log has it. */
struct block_claim {
	char *name, *pool, *uid;
	char token[BLOCK_TOKEN_MAX]; /* the object's `claim` */
	struct ipnet net;
	enum claim_state state;
	struct ipaddr *ceded; /* given up, whether the object says so already or not */
	size_t n_ceded;
	bool absent; /* not logged: a fresh look found no object */
};

enum loan_state {
	LOAN_ASKING, /* the request may be under way */
	LOAN_HELD,
	LOAN_RETURNING,
	LOAN_GONE, /* for the log */
};

/* An address of somebody else's block. */
struct block_loan {
	char *block, *pool;
	struct ipaddr ip;
	char token[BLOCK_TOKEN_MAX];
	enum loan_state state;
	/*
	 * It was not had of anyone: a pod here has it, which the object was told (OP_ASSERT). Whoever has
	 * the block may have given it to a pod of its own before (the node was fenced, or etcd restored),
	 * so it stays with that pod, goes back after it, and is nobody else's here.
	 */
	bool said;
	bool absent; /* not logged: a fresh look found no block */
};

/* An address of others that a node may take. */
struct block_offer {
	char *block;
	struct ipaddr ip;
	char *to; /* the entry's text */
	int64_t at_ms;
};

/* Somebody else's block. */
struct block_other {
	char *name;
	uint32_t room;	/* addresses of it that nobody else has; the owner's pods may */
	uint32_t spare; /* of these the owner has to give, by what it said; all: it said nothing */
	bool told;	/* it did */
	uint32_t crowd; /* how many others ask for */
	int64_t wished_ms; /* when it was asked; 0: it was not */
	int64_t looked_ms; /* when it was looked at since */
	unsigned int looks;
	bool pending; /* it has not answered */
};

/* A block that is nobody's. */
struct block_orphan {
	char *name, *version;
	struct ipnet net;
};

/* A pool's blocks as a list told them: where to claim, whom to ask. */
struct block_view {
	char *pool;
	u128 *taken; /* sorted; those that are nobody's as well */
	size_t n_taken;
	struct block_orphan *orphans;
	size_t n_orphans;
	struct block_other *others;
	size_t n_others;
	struct block_offer *offers;
	size_t n_offers;
	struct block_offer *strays; /* entries of this node: see block_view_put() */
	size_t n_strays;
	int64_t at_ms;
	bool stale;	     /* a claim or loan failed since */
	unsigned int misses; /* how many since the last list */
	int64_t wished_ms;   /* when others were asked; 0: not yet */
	size_t wished;	     /* of how many blocks, one after the other */
	unsigned int rounds; /* lists since, that nothing came of */
	bool again;	     /* not the first list */
};

/* How it stands with an address of somebody else's block, or nobody's, that is asked for by name. */
struct block_seen {
	char *block, *node, *version; /* node "": nobody's */
	char *to;		      /* the address's entry; NULL: none */
	struct ipnet net;
	struct ipaddr ip;
	int64_t at_ms;
	bool absent;  /* there is no such block */
	bool wished;  /* its node was asked for it, and has not answered */
	bool refused; /* somebody has it */
};

struct block_table {
	char *node, *node_uid; /* node_uid "": not known, not compared */
	struct block_claim *claims;
	size_t n_claims;
	struct block_loan *loans;
	size_t n_loans;
	struct block_object *objects; /* ours, and those that we have loans of */
	size_t n_objects;
	bool synced; /* the objects were listed: one that is not there is gone */
	struct block_view *views;
	size_t n_views;
	struct block_seen *seen;
	size_t n_seen;
};

void block_table_done(struct block_table *t);
struct block_claim *block_claim_find(const struct block_table *t, const char *name);
struct block_loan *block_loan_find(const struct block_table *t, const struct ipaddr *a);
struct block_object *block_object_find(const struct block_table *t, const char *name);

/* Takes over what the log says (strings are copied): another state of a claim or loan, or a new
 * one; GONE takes it off the table. */
void block_claim_put(struct block_table *t, const struct block_claim *c);
void block_loan_put(struct block_table *t, const struct block_loan *l);
/* The object's new shape, which is moved in; one of an older version is dropped. */
void block_object_put(struct block_table *t, struct block_object *o);
void block_object_remove(struct block_table *t, const char *name);

/* --- views (table.c) --- */

/* NULL: never listed. */
struct block_view *block_view_find(const struct block_table *t, const char *pool);
/* What is known of the pool's blocks (or was guessed, without a view) turned out wrong. */
void block_view_stale(struct block_table *t, const char *pool);
/* And this one is somebody's, as a claim that came too late has found. */
void block_view_taken(struct block_table *t, const char *pool, const char *block);
/* From a list of the pool's blocks, which stay the caller's. Strays are entries of this node in others'
 * blocks. */
void block_view_put(struct block_table *t, const char *pool, const struct block_cut *c,
		    const struct block_object *v, size_t n, int64_t now_ms);
/* What a fresh look at one of others' blocks says about it; NULL: there is none. */
void block_view_see(struct block_table *t, const char *pool, const char *block,
		    const struct block_object *o, int64_t now_ms);
void block_views_done(struct block_table *t);
/* Addresses of a block that are not given up; and of these what its node has to give by what it said. */
uint32_t block_room(const struct block_object *o);
uint32_t block_spare(const struct block_object *o);

void block_object_done(struct block_object *o);
/* Notes since when this node's objects have the entries that they have, as seen from here. */
void block_table_stamp(struct block_table *t, int64_t now_ms);

/* --- addresses asked for by name (table.c) --- */

enum { BLOCK_WISH_MAX = BLOCK_NAME_MAX + 1 + IP_TEXT_MAX };
const char *block_wish_key(const char *node, const struct ipaddr *a,
			   char ret[static BLOCK_WISH_MAX]);
/* False: it is a wish for any. */
bool block_wish_named(const char *key, struct ipaddr *a);
const char *block_wish_any(const char *node, char ret[static BLOCK_WISH_MAX]);
/* Whether whoever asks for any addresses takes a promise, and what it reads. */
bool block_wish_may_promise(const char *key, char ret[static BLOCK_NAME_MAX + 3]);
bool block_wish_is_of(const char *key, const char *node);
const struct block_seen *block_seen_find(const struct block_table *t, const struct ipaddr *a);
/* As the block's object was just now; NULL: there is none. wish: by the answer to our wish. */
void block_seen_put(struct block_table *t, const char *block, const struct ipaddr *a,
		    const struct block_object *o, bool wish, int64_t now_ms);
/* What was seen of the block may be so no more. */
void block_seen_drop(struct block_table *t, const char *block);
void block_seen_done(struct block_table *t);
enum { BLOCK_SEEN_MS = 1000 }; /* how long that counts */
/* Whether somebody is known to have it, and who, onto w (may be NULL): "node 'b' has it". */
bool block_is_refused(const struct block_table *t, const struct ipaddr *a, int64_t now_ms,
		      struct buf *w);

/* Texts of entries. */
enum { BLOCK_ENTRY_MAX = 253 + 1 + BLOCK_TOKEN_MAX };
const char *block_entry_ours(const char *node, const char *token, char ret[static BLOCK_ENTRY_MAX]);
const struct block_entry *block_entry_find(const struct block_object *o, const struct ipaddr *a);
/* Whether anyone may take it now: "*". */
bool block_entry_open(const struct block_entry *x);
/* Whether it is promised to any pod of a node: "@node*". */
bool block_entry_promised(const struct block_entry *x);
/* Nobody has it yet: either. Whoever goes for it finds that it is gone when it is. */
bool block_entry_offered(const struct block_entry *x);
/* The node of "node/token", "@node" or "@node*"; false: it has none. */
bool block_entry_node(const struct block_entry *x, char ret[static BLOCK_NAME_MAX + 1]);
/* Whether this node may take it now: "*", "@node", "@node*". */
/* Whether this node has it, by whatever log and token. */
bool block_entry_is_of(const struct block_entry *x, const char *node);
bool block_entry_free_for(const struct block_entry *x, const char *node);

/* Whether the object is that of the claim: same UID, our node, our token. */
bool block_is_of(const struct block_table *t, const struct block_claim *c,
		 const struct block_object *o);
/* And it bears this node's UID: the controller releases the blocks of a node that is gone, so one
 * that was made anew under the same name renews them first. */
bool block_agrees(const struct block_table *t, const struct block_claim *c,
		  const struct block_object *o);
bool block_is_ceded(const struct block_claim *c, const struct ipaddr *a);

/*
 * Addresses of a pool that may be handed out now, onto ret: of claims that are held and agree with
 * their object, but for what either says was given up; and loans that are held and that the object
 * shows as ours and that were not only said.
 */
void block_mine(const struct block_table *t, const char *pool, const struct ip_set *usable,
		struct ip_set *ret);
/* Loans that were only said, for the pods that have them or that they are kept for. */
void block_said(const struct block_table *t, const char *pool, const struct ip_set *usable,
		struct ip_set *ret);

#endif
