/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BLOCK_BLOCK_H
#define UNIRAIL_BLOCK_BLOCK_H

/*
 * Blocks: how the nodes of a cluster share a pool without a central allocator. The protocol is
 * described in README.md of this directory: states of a block and of an address, requests,
 * invariants, crashes and restores.
 *
 * A pool is divided into aligned blocks of one size. The size is written on the pool once, so that
 * two sizes are never mixed. A node owns a block by having created the object "<pool>-<index>", or
 * taken over one without an owner; both are atomic in the API server, no other agreement is needed.
 * A node allocates the addresses of its blocks from memory, and only while its block log (log.h)
 * and the object agree.
 *
 * Functions here are pure; names and limits are those of the API objects.
 */

#include "base/err.h"
#include "base/ipset.h"

enum {
	/* BLOCK_BITS: host bits of a block (16 addresses), unless the pool sets another block
	 * size or only one node uses the pool. BLOCK_BITS_MAX: limit in these two cases. */
	BLOCK_BITS = 4,
	BLOCK_BITS_MAX = 16,
	BLOCK_NAME_MAX = 253, /* maximum length of an object's name */
};

/* How a pool is divided into blocks. */
struct block_cut {
	struct ipnet subnet; /* host bits are zero */
	uint8_t prefix;	     /* prefix length of a block */
};

/*
 * Sets *ret to the division of a subnet into blocks. requested: the prefix length in the pool's
 * annotation, 0 for none. one_node: only one node may use the pool, so by default its blocks have
 * up to BLOCK_BITS_MAX host bits. Kind ERR_CONF: the requested prefix length does not fit the
 * subnet, or leaves more than BLOCK_BITS_MAX host bits.
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
/* Sets *index and returns true if the name is one that block_name() makes for the pool. */
bool block_name_parse(const char *name, const char *pool, u128 *index);

/* Adds to ret the addresses of s that are in the net. Before the call, ret must be empty or have
 * addresses of the same family. */
void block_addresses(const struct ip_set *s, const struct ipnet *net, struct ip_set *ret);
/* Sets *index to the first block that has addresses of s, beginning with the block *index.
 * Returns false if there is none. */
bool block_next(const struct block_cut *c, const struct ip_set *s, u128 *index);
/*
 * Finds a block with addresses of s that is not in `taken` (sorted). The search starts at a
 * position derived from seed, so that nodes searching at the same time mostly find different
 * blocks. Returns false if all are taken.
 */
bool block_pick(const struct block_cut *c, const struct ip_set *s, const u128 *taken, size_t n,
		uint64_t seed, u128 *ret);

#endif
