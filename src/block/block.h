/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BLOCK_BLOCK_H
#define UNIRAIL_BLOCK_BLOCK_H

/*
 * Blocks: how the nodes of a cluster share a pool without a central allocator.
 *
 * A pool is divided into aligned blocks of one size. The size is written on the pool once, so that
 * two sizes are never mixed. A node owns a block by having created the object "<pool>-<index>";
 * creation is atomic in the API server, no other agreement is needed. A node allocates the
 * addresses of its blocks from memory.
 *
 * Safety: an address may be allocated only while both sources agree: the node's own log
 * (block/log.h, written before the API server learns of a release) and the object as last seen. Any
 * request may be lost, answered late or carried out after its sender stopped waiting. Each change
 * of an object is therefore bound to what it changes (the object's UID, a claim's token, the exact
 * text of the entry), and a released address becomes usable again only by an answered request.
 *
 *	claim	create the object             then log it, then use it
 *	leave	log it, stop using            then delete the object (by UID), or, while other nodes
 *	                                      borrow addresses of it, remove its owner (an orphan)
 *	release	log the address, stop using   then add it to `ceded`, for any node ("*") or for the
 *	                                      node that has just requested some ("@node*")
 *	reclaim	remove it from `ceded`        then log it, then use it
 *	borrow	log the attempt, set the      then log it as held, then use it
 *	        entry to this node
 *	return	log it, stop using            then remove this node's entry from `ceded`
 *
 * A node that finds no free block asks the owner of another: it adds "node@*" to the object's
 * `wanted`, reads the object a moment later and borrows the addresses reserved for it. No other
 * node tries to take these. If the node does not borrow them within seconds, the owner takes them
 * back. If the owner removes the request without reserving an address, the request is refused, and
 * the node asks another owner. With each answer the owner reports how many of its unreleased
 * addresses it cannot release (`busy`). An owner that had none to release and has some again
 * updates this number without a request. The number may be outdated: it only helps other nodes to
 * choose an owner to ask. Agents of an older release know no reservations. Such an agent requests
 * addresses under the key "node", and the owner answers with "*". As an owner it reads "node@*" as
 * the name of a node, answers with "*" and removes the request. It never borrows an entry that it
 * does not understand, so a reservation made by a node before its downgrade is reclaimed when the
 * controller or the migration of retained addresses finds that no node "node*" exists. When the
 * owner or the CRD is older, free capacity is not reported: such an owner is asked once, and again
 * a minute later.
 *
 * An entry "?" marks an address whose user is unknown after an object was lost and recreated (etcd
 * was restored from a backup): the address had been released, or the block was recreated by a node
 * that only borrowed from it, or the node named in the entry had returned it long ago. A pod of
 * some node may use it. A node whose pod uses the address replaces the entry by its own. Apart from
 * that node, only the controller changes the entry: it removes the entry (bound to its text, as a
 * return) when no pod uses the address, and the owner may allocate the address again. The
 * controller removes the entry when it has itself observed it for minutes longer than every node's
 * freeze (block_facts.hold, half a minute), no pod and no endpoint in the API server has the
 * address, and every node is reachable (a node that is not Ready may run pods that etcd has
 * forgotten).
 *
 * The controller removes the owner of blocks of a deleted node; the node that takes such a block
 * over honours its entries. Functions here are pure; names and limits are those of the API objects.
 */

#include "base/err.h"
#include "base/ipset.h"

enum {
	BLOCK_BITS = 4, /* 16 addresses in a block unless the pool sets another size */
	BLOCK_BITS_MAX = 16,
	BLOCK_NAME_MAX = 253, /* limit of an object's name */
};

/* How a pool is divided into blocks. */
struct block_cut {
	struct ipnet subnet; /* host bits are zero */
	uint8_t prefix;	     /* prefix length of a block */
};

/*
 * Chooses the block size of a pool that has none yet. asked: the prefix length requested by the
 * user, 0 for none. one_node: the pool belongs to one node and becomes one block, up to
 * BLOCK_BITS_MAX. Kind ERR_CONF: the prefix length does not fit the subnet.
 */
int block_cut_choose(const struct ipnet *subnet, uint8_t requested, bool one_node,
		     struct block_cut *ret, struct err *e);
u128 block_count(const struct block_cut *c);
/* Returns false if the address is outside the subnet. */
bool block_index(const struct block_cut *c, const struct ipaddr *a, u128 *ret);
struct ipnet block_net(const struct block_cut *c, u128 index);

/* Object name of a block, "rail0-1f": the index in hex after the last dash. -ENAMETOOLONG: the
 * pool's name is too long. */
int block_name(const char *pool, u128 index, char ret[static BLOCK_NAME_MAX + 1]);
/* Returns whether the name is that of a block of the pool. */
bool block_name_parse(const char *name, const char *pool, u128 *index);

/* Adds the members of s that lie in the net to ret (of the same family or empty). */
void block_addresses(const struct ip_set *s, const struct ipnet *net, struct ip_set *ret);
/*
 * Finds the next block at or after *index that has addresses of s; returns false if there is none.
 */
bool block_next(const struct block_cut *c, const struct ip_set *s, u128 *index);
/*
 * Finds a block with addresses of s that is not in `taken` (sorted). The search starts at a place
 * derived from seed, so that nodes searching at the same time mostly find different blocks. Returns
 * false if all are taken.
 */
bool block_pick(const struct block_cut *c, const struct ip_set *s, const u128 *taken, size_t n,
		uint64_t seed, u128 *ret);

#endif
