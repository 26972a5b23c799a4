/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BLOCK_MIGRATION_H
#define UNIRAIL_BLOCK_MIGRATION_H

/*
 * Kept addresses across nodes. A pod whose addresses are kept (spec/identity.h) comes to a node, and
 * what its name had lies in another node's block, kept in that node's journal. Pure; whoever talks to
 * the API server carries out what comes out.
 *
 *	on the node where the pod is now	on the node that has the address
 *
 *	reads SpiderEndpoint ns/name:
 *	status.current.ips
 *	handover_next(): LOOK: reads the
 *	   address's block; ASK: a label
 *	   and an annotation onto the
 *	   endpoint -------------------------->	sees it (it watches endpoints by that label);
 *						handover_answer():
 *						   LATER	a container of that name lives here (a
 *								machine's former pod, when it migrates:
 *								REFUSE, it ends after the other began)
 *						   GIVE		handover_give(): the address is ceded
 *								to "@node", logged first; the journal
 *								forgets it when the object says so
 *								(handover_is_stale())
 *						   REFUSE	it is somebody else's by now: the
 *								annotation says so
 *	handover_next(): LOOK, then OP
 *	   borrows "@node" (op.h)
 *	   `had` of the ask: that address
 *	writes the endpoint: addresses, node,
 *	without label and annotation
 *
 * Whom to ask is what the block's object says, not what the endpoint says, which may be late.
 *
 * The address is never with two: the giver stops using it before the object says so, the taker
 * begins when its borrowing was answered, and a living container's address is not given.
 *
 * Whatever goes wrong ends in an address that is kept where it was, or that is free: an ask that is
 * not answered is an error of that ADD, tried again; a block that nobody has (its node is gone) is
 * claimed like any other, and what was kept in it for a name is there as "@-" (release.h), in
 * whoever's block it is by then. Between borrowing and the lease the address counts as busy
 * (block_facts.pins), or it would be returned at once; the lease is a kept one first (ipam_keep()), in
 * the same turn of the loop, so that no other pod has it.
 */

#include "block/op.h"
#include "spec/identity.h"
#include "ipam/journal/lease.h"
#include "ipam/pool/pool.h"

struct json;

#define HANDOVER_NOTE  "unirail.io/wanted-by"	/* "NODE UID", "... migration", "... refused" */
#define HANDOVER_LABEL "unirail.io/wanted-from" /* block_label() of the node that is asked */

/* --- the endpoint --- */

struct handover_ip {
	char *ifname, *pool;
	struct ipaddr ip;
};

/* A name's addresses, and where they are. */
struct handover_place {
	char *node, *uid; /* of the pod that had them last */
	struct handover_ip *v;
	size_t n;
	char *for_node, *for_uid; /* the annotation; NULL: nobody asks */
	char *from;		  /* the label; NULL: none */
	bool migration, refused;
};

/* From a SpiderEndpoint. What cannot be read of one address leaves that out (it will be another);
 * kind ERR_DECODE: no status.current. *ret is left alone on failure. */
int handover_place_read(const struct json *endpoint, struct handover_place *ret, struct err *e);
void handover_place_done(struct handover_place *p);
/* The addresses of an interface (an endpoint may have "" for one), onto ret, of `max`. */
size_t handover_had(const struct handover_place *p, const char *ifname, struct ipaddr *ret,
		    size_t max);
/* Merge patches of the endpoint. from: the node that is asked; node, uid: the pod's that asks. */
void handover_ask_patch(const char *from, const char *node, const char *uid, bool migrating,
			struct buf *b);
void handover_refuse_patch(const struct handover_place *p, struct buf *b);
void handover_clear_patch(struct buf *b);

/* --- where the pod is now --- */

enum handover_step {
	HANDOVER_HERE,	/* it is this node's: put it into `had` */
	HANDOVER_NEVER, /* no pool of the ask has it, or somebody else: any other will do */
	HANDOVER_LOOK,	/* carry out op, a read of the block; then again with `looked` */
	HANDOVER_OP,	/* carry out op; then again, looked anew */
	HANDOVER_ASK,	/* handover_ask_patch() onto the endpoint, from handover_holder(); wait */
	HANDOVER_WAIT,	/* look again a little later */
};

struct handover_facts {
	const struct block_table *table;
	const struct pool *pool; /* one that the ask may use, which has the address; NULL: none has */
	struct ipaddr ip;
	const struct handover_place *place;
	const char *uid;		  /* of the pod that asks */
	bool looked;			  /* at the address's block: */
	const struct block_object *block; /* NULL: there is no such object */
};

/* op is filled for LOOK and OP, for block_op_done(). */
enum handover_step handover_next(const struct handover_facts *f, struct block_op *op);
/* Who has the address, by its block: "" is nobody. */
void handover_holder(const struct handover_facts *f, char ret[static 254]);
/* What is waited for, for an error: "10.6.0.5 of 'ns/web-0' is kept on node 'n1', which has not given
 * it up: ...". */
void handover_words(const struct handover_facts *f, const struct identity *who, struct buf *b);

/* --- on the node that has it --- */

enum handover_answer { HANDOVER_GIVE, HANDOVER_LATER, HANDOVER_REFUSE };

/* Whether what is held of the address here may go to the node that asks for ns/name. */
enum handover_answer handover_answer(const struct handover_place *p, const char *ns,
				     const char *name, const struct lease *l);
/*
 * The request that gives it: of a block of ours, or of an address that was borrowed itself; also one
 * that was given to another node before, which did not come for it. False: neither (somebody has it, or the object is
 * not known now).
 */
bool handover_give(const struct block_table *t, const struct ipaddr *ip, const char *to_node,
		   struct block_op *op);
/*
 * The request that takes back an address that was given to a node which did not come for it. leave:
 * those that endpoints with this node's label ask for, and those that the caller has not seen given
 * for long (HANDOVER_LEAVE_MS): whom a borrower gave one to asked the borrower. False: there is none.
 */
enum { HANDOVER_LEAVE_MS = 600 * 1000 };
bool handover_take_back(const struct block_table *t, const struct ipaddr *leave, size_t n,
			struct block_op *op);
/* A kept lease of an address that is not this node's any more: it was given. To be forgotten
 * (ipam_release_ip()); to be asked after each change of blocks. */
bool handover_is_stale(const struct block_table *t, const struct lease *l);
/* A kept lease of a name that has other addresses on another node now. To be forgotten. */
bool handover_is_superseded(const struct handover_place *p, const char *node,
			    const struct lease *l);

#endif
