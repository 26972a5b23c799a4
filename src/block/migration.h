/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BLOCK_MIGRATION_H
#define UNIRAIL_BLOCK_MIGRATION_H

/*
 * Migration of retained addresses between nodes. A pod whose addresses are retained
 * (spec/identity.h) is scheduled on a node, while the addresses of its name belong to another
 * node's block and are recorded in that node's journal. Pure; the caller talks to the API server
 * and carries the results out.
 *
 *	on the node where the pod is now	on the node that has the address
 *
 *	reads SpiderEndpoint ns/name:
 *	status.current.ips
 *	migration_next(): READ: reads the
 *	   address's block; REQUEST: writes a
 *	   label and an annotation to the
 *	   endpoint -------------------------->	sees it (it watches endpoints by that label);
 *						migration_answer():
 *						  LATER: a container of that name still
 *						     runs here (REFUSE for a migrating
 *						     virtual machine: its former pod
 *						     ends after the new one started)
 *						  EXPORT: migration_export() releases the
 *						     address to "@node", logged first;
 *						     the journal drops the lease
 *						     when the object shows the release
 *						     (migration_is_stale())
 *						  REFUSE: another pod has it by now:
 *						     the annotation shows it
 *	migration_next(): READ, then OP
 *	   borrows "@node" (op.h)
 *	   the allocation then requests
 *	   that address (`had`)
 *	writes the endpoint: addresses, node,
 *	without label and annotation
 *
 * The node to ask is read from the block's object, because the endpoint may be outdated.
 *
 * Two nodes never use the address at the same time: the old node stops using it before the object
 * shows the release, the new node starts when its borrowing was answered, and the address of a
 * running container is not released.
 *
 * After any failure the address is still retained on its former node, or free. A request without an
 * answer is an error of that CNI ADD, and the runtime retries it. A block without an owner (its
 * node was deleted) is claimed like any other; addresses retained in it for a name have the entry
 * "@-" (release.h), whichever node owns the block by then. Between borrowing and the lease the
 * address counts as busy (block_facts.reserved), otherwise it would be returned at once. The lease
 * is first a retained one (ipam_keep()), created before the first request of an IPAM batch, so that
 * no other pod gets the address.
 */

#include "block/op.h"
#include "spec/identity.h"
#include "ipam/journal/lease.h"
#include "ipam/pool/pool.h"

struct json;

/* --- the SpiderEndpoint of a pod name --- */

struct migration_ip {
	char *ifname, *pool;
	struct ipaddr ip;
};

/* The addresses that pods of one name had, and the node and pod that had them last. */
struct migration_place {
	char *node, *uid; /* node and UID of the pod that had the addresses last */
	struct migration_ip *v;
	size_t n;
	/* the node and pod that request the addresses (the annotation); NULL: none */
	char *for_node, *for_uid;
	/* the label: block_label() of the node that is to release the addresses; NULL: none */
	char *from;
	bool migration, refused;
};

/* Reads a SpiderEndpoint. An unreadable address is ignored (the pod gets another one). Kind
 * ERR_DECODE: status.current is missing or not an object. *ret is unchanged on failure. */
int migration_place_read(const struct json *endpoint, struct migration_place *ret, struct err *e);
void migration_place_done(struct migration_place *p);
/* Merge patches of the endpoint. from: the node that is to release the addresses; node, uid: node
 * and UID of the pod that requests them. */
void migration_request_patch(const char *from, const char *node, const char *uid, bool migrating,
			     struct buf *b);
void migration_refuse_patch(const struct migration_place *p, struct buf *b);

/* --- the node where the pod is now --- */

enum migration_step {
	MIGRATION_HERE, /* this node may use the address */
	/* no pool in use has the address, or its node refused to release it: the pod gets
	 * another address */
	MIGRATION_NEVER,
	MIGRATION_READ, /* carry out op, which reads the block; then call again with `rescanned` */
	MIGRATION_OP,	/* carry out op; then call again without `rescanned` */
	/* write the patch of migration_request_patch(), with the result of migration_owner() as
	 * `from`, to the endpoint; then call again later */
	MIGRATION_REQUEST,
	MIGRATION_WAIT, /* call again a little later */
};

struct migration_facts {
	const struct block_table *table;
	/* the pool that has the address; NULL: none, or it is disabled or being deleted */
	const struct pool *pool;
	struct ipaddr ip;
	const struct migration_place *place;
	const char *uid; /* UID of the pod that requests the address */
	bool rescanned;	 /* the address's block was read, with the result in `block` */
	const struct block_object *block; /* object of the block; NULL: the object does not exist */
};

/* Returns the next step; fills op for READ and OP, block_op_done() frees it. */
enum migration_step migration_next(const struct migration_facts *f, struct block_op *op);
/* The node that has the address according to its block; "": none. */
void migration_owner(const struct migration_facts *f, char ret[static 254]);
/* Describes the release that the request waits for: "10.6.0.5 of 'ns/web-0' is retained on node
 * 'n1' and not released yet: ...". */
void migration_describe(const struct migration_facts *f, const struct identity *owner,
			struct buf *b);

/* --- the node that has the address --- */

enum migration_answer { MIGRATION_EXPORT, MIGRATION_LATER, MIGRATION_REFUSE };

/* Decides whether the address with lease l may go to the node that requests it for ns/name. */
enum migration_answer migration_answer(const struct migration_place *p, const char *ns,
				       const char *name, const struct lease *l);
/*
 * Fills op with the request that releases the address to a node. The address is in a block of this
 * node or borrowed by this node. If it was released to another node that did not borrow it, op
 * releases it to to_node instead. Returns false if to_node can borrow it already, another node has
 * it, a request for it is not complete, or the object is unknown or contradicts the log.
 */
bool migration_export(const struct block_table *t, const struct ipaddr *ip, const char *to_node,
		      struct block_op *op);
/*
 * Fills op with the request that reclaims an address that was released to a node and not borrowed.
 * leave, sorted: addresses not to reclaim, that is those that endpoints with this node's label
 * request, and those that the caller first observed as released less than MIGRATION_LEAVE_MS ago (a
 * request to a borrower does not carry this node's label). Returns false if there is no address to
 * reclaim.
 */
enum { MIGRATION_LEAVE_MS = 600 * 1000 };
bool migration_reclaim(const struct block_table *t, const struct ipaddr *leave, size_t n,
		       struct block_op *op);
/* Returns whether l is a retained lease of an address that this node no longer has: it neither
 * borrows the address nor holds its block, or the block's object has an entry for it. The caller
 * then removes the lease (ipam_release_ip()); call this after each change of blocks. */
bool migration_is_stale(const struct block_table *t, const struct lease *l);
/* Returns whether l is a retained lease of a pod name that now has other addresses on another node.
 * The caller then removes it. */
bool migration_is_superseded(const struct migration_place *p, const char *node,
			     const struct lease *l);

#endif
