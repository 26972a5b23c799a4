/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BLOCK_BLOCK_H
#define UNIRAIL_BLOCK_BLOCK_H

/*
 * Blocks: how the nodes of a cluster share a pool and ask nobody when a pod comes.
 *
 * A pool is cut into aligned pieces of one size, which is written on the pool once, so that two
 * sizes never meet. A node owns a piece by having created the object "<pool>-<index>"; creation is
 * atomic in the API server, there is nothing else to agree on. Of its blocks a node hands out
 * addresses from memory.
 *
 * What makes it safe: an address may be handed out only while both say so, the node's own log
 * (block/log.h, durable before the API server is told of any giving up) and the object as
 * last seen. Every request may be lost, answered late or carried out after its answer was given up;
 * so each change of an object is bound to what it changes (the object's UID, a claim's token, the
 * entry's very text), and an address that was given up comes back only by a request that was
 * answered.
 *
 *	claim	create the object            then log it, then use it
 *	leave	log it, stop using           then delete the object (by UID), or, while others have
 *	                                     addresses of it, make it nobody's
 *	cede	log the address, stop using  then put it into `ceded`, to be had by anyone ("*"), or by
 *	                                     whoever has just asked for some ("@node*")
 *	unceded	take it out of `ceded`        then log it, then use it
 *	borrow	log it, make it ours         then log it as held, then use it
 *	return	log it, stop using           then take our entry out of `ceded`
 *
 * A node that finds no block asks an owner: it adds "node@*" to the object's `wanted`, looks at the
 * object a moment later and borrows what was promised to it. Nobody else goes for that, and when the
 * node does not come for it within seconds, the owner takes it back. A wish that goes without a
 * promise is a no: another owner is asked. With each answer the owner says how many of its addresses it
 * can give to nobody (`busy`); when there were none left and there are again, it says so unasked. That is
 * for others to choose whom to ask, no more: it may be old, and what is had is had by a promise.
 *
 * An older agent beside a newer one: it asks as "node", and is given "*"; as an owner it takes
 * "node@*" for a node's name, gives "*" and drops the wish; it never takes what it does not know, so
 * a promise that a node made before it went back to an older release comes back when the controller
 * or the handover of kept addresses finds that there is no node "node*". Where it is the owner, or
 * the CRD is older, nothing is said of what is left: it is asked once, and a minute later again.
 *
 * An entry "?" stands where an object was lost and made anew (etcd was set back): the address was
 * given up once, or its block is made anew by one who only borrowed of it, or the node that the entry
 * was of had returned it long ago, so some node's pod may have it. A node whose pod has it makes the entry its own. Nobody else may touch it but the
 * controller, which takes the entry out (bound to its text, as a return) when no pod has the address:
 * then it is the owner's again. It may do so when, as it has seen itself, the entry is older than
 * every node's hold (block_facts.hold, half a minute) by minutes, no pod and no endpoint of the API
 * server has the address, and no node is out of reach (one that is not Ready may have pods that etcd
 * has forgotten).
 *
 * A block of a node that is gone is made nobody's by the controller; whoever takes it over honours
 * its entries. Pure functions; texts and sizes are those of the objects.
 */

#include "base/err.h"
#include "base/ipset.h"

enum {
	BLOCK_BITS = 4, /* 16 addresses in a block, unless the pool says otherwise */
	BLOCK_BITS_MAX = 16,
	BLOCK_NAME_MAX = 253, /* as an object's */
};

/* How a pool is cut. */
struct block_cut {
	struct ipnet subnet; /* without host bits */
	uint8_t prefix;	     /* of a block */
};

/*
 * The cut a pool gets when nobody has cut it yet. asked: a prefix length that the user wants, 0 for
 * none. A pool of one node is one block, as far as BLOCK_BITS_MAX goes. Kind ERR_CONF: a prefix
 * length that is not within the subnet's.
 */
int block_cut_choose(const struct ipnet *subnet, uint8_t asked, bool one_node,
		     struct block_cut *ret, struct err *e);
u128 block_count(const struct block_cut *c);
/* False: the address is outside the subnet. */
bool block_index(const struct block_cut *c, const struct ipaddr *a, u128 *ret);
struct ipnet block_net(const struct block_cut *c, u128 index);

/* "rail0-1f": the index in hex behind the last dash. -ENAMETOOLONG when the pool's name is too
 * long. */
int block_name(const char *pool, u128 index, char ret[static BLOCK_NAME_MAX + 1]);
/* Whether the name is that of a block of the pool. */
bool block_name_parse(const char *name, const char *pool, u128 *index);

/* The members of s that lie in the net, onto ret (of the same family or empty). */
void block_addresses(const struct ip_set *s, const struct ipnet *net, struct ip_set *ret);
/* The next block at or behind *index that has addresses of s; false: there is none. */
bool block_next(const struct block_cut *c, const struct ip_set *s, u128 *index);
/*
 * A block with addresses of s that is not among `taken` (sorted). Where it looks first comes from
 * seed, so that nodes that look at once mostly find different ones. False: all are taken.
 */
bool block_pick(const struct block_cut *c, const struct ip_set *s, const u128 *taken, size_t n,
		uint64_t seed, u128 *ret);

#endif
