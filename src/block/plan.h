/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BLOCK_PLAN_H
#define UNIRAIL_BLOCK_PLAN_H

/*
 * Decides which requests a node sends to the API server next, from its log and the objects it has
 * read. Pure. A change that a crash, a lost answer or a full disk interrupted is planned again
 * until it is complete.
 */

#include "block/op.h"
#include "ipam/journal/lease.h"

/* State of one pool on this node. */
struct block_need {
	const char *pool;
	struct block_cut cut;
	const struct ip_set *usable; /* the pool's addresses */
	/* addresses allocated before unirail was installed: only the pods that had them request
	 * them, by name; NULL: none */
	const struct ip_set *adopted;
	/* number of addresses that waiting allocations of local pods lack: the node claims or
	 * borrows them */
	uint32_t want;
	/* number of available addresses that waiting allocations of local pods are about to get */
	uint32_t keep;
	/* number of addresses that pre-allocation lacks: the node claims blocks without an owner
	 * for them, and never borrows */
	uint32_t ahead;
	/* particular addresses that local pods request ("by name") and that this node may not
	 * allocate yet; the node obtains exactly these addresses */
	const struct ipaddr *names;
	size_t n_names;
	/* number of free addresses that the node can do without: an idle block with more free
	 * addresses than this is not released */
	uint32_t spare;
	/* block_plan() plans no requests for more addresses: some are in flight or in backoff, or
	 * the block size is not set on the pool yet */
	bool under_way;
	/* a request that claims a block (OP_CREATE) was sent recently and is not answered yet */
	bool claiming;
};

struct block_facts {
	const struct block_table *table;
	const struct block_log *log; /* decides which tokens are this node's */
	const struct block_need *needs;
	size_t n_needs;
	const struct lease_table *leases;
	/* addresses that a pod is about to get by migration or by name, so they count as busy;
	 * sorted */
	const struct ipaddr *reserved;
	size_t n_reserved;
	uint64_t seed;	 /* random seed: differs between nodes and between calls */
	int64_t now_ms;	 /* monotonic time of the loop, for views and requests */
	int64_t real_ms; /* time since the epoch, for leases */
	int64_t reuse_delay_ms, quarantine_ms;
	/* etcd was, or may have been, restored from a backup: for a while the node claims and
	 * borrows nothing for new pods and returns no address that it holds, so that every node
	 * can assert the addresses of its pods first. */
	bool frozen;
	/*
	 * This agent observed the restore itself, so no other node can have taken over the blocks
	 * and addresses of its log: entries of other nodes for addresses of local pods are outdated
	 * and are overwritten.
	 */
	bool observed_restore;
	/*
	 * After a restore objects of peers may again contain entries of this node that it has
	 * returned since the backup. To find them, each pool whose last list is older than
	 * rescan_ms, a random time after this agent found the restore, is listed once. A pod of an
	 * unknown node may have such an address, so its entry becomes "?". 0: no rescan needed.
	 */
	int64_t rescan_ms;
	/* Every pod of this node has a lease, and no other agent uses the node's name: blocks and
	 * entries of earlier logs of this node may be adopted or returned. */
	bool alone;
	/* for how long after a list or read of a block this node may borrow the addresses that
	 * the list or read showed as available to any node ("*"); also the minimum age at which
	 * a list is repeated without a request in between */
	int64_t view_ms;
	/* how long a list without free blocks delays the next attempt to pre-allocate */
	int64_t ahead_ms;
};

struct block_plan {
	struct block_op *v;
	size_t n;
	int64_t next_ms; /* time at which the next plan is due; 0: at the next change */
};

/*
 * Plans at most one request per block; those that complete an interrupted change come first. For
 * addresses that a pool lacks, the plan is: claim a block; after failed claims, list the pool's
 * blocks; if no block is free, borrow available addresses, or request addresses from peers.
 */
void block_plan(const struct block_facts *f, struct block_plan *ret);
void block_plan_done(struct block_plan *p);
/* Returns whether every pool was listed since rescan_ms and this node has returned all its
 * leftover entries that the lists show in peers' objects. */
bool block_has_rescanned(const struct block_facts *f);

/* Returns whether the address is used, retained, in quarantine or in its reuse delay. */
bool block_has_lease(const struct block_facts *f, const struct ipaddr *a);
/* Like block_has_lease(); also true for addresses in `reserved`. */
bool block_is_busy(const struct block_facts *f, const struct ipaddr *a);
/* Returns whether a pod has the address, or the address is retained for a pod. */
bool block_has_pod(const struct block_facts *f, const struct ipaddr *a);

#endif
