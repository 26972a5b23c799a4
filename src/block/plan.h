/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BLOCK_PLAN_H
#define UNIRAIL_BLOCK_PLAN_H

/*
 * What a node should ask of the API server next, from what it knows. Pure. What was left half done
 * by a crash, a lost answer or a full disk comes out again until it is done.
 */

#include "block/op.h"
#include "ipam/journal/lease.h"

/* How one pool stands on this node. */
struct block_need {
	const char *pool;
	struct block_cut cut;
	const struct ip_set *usable; /* the pool's addresses */
	/* Those that only their pods of before get: they are asked for by name. NULL: none. */
	const struct ip_set *adopted;
	/* More than there are, for asks that wait: by whatever means, others' addresses too. */
	uint32_t want;
	uint32_t keep; /* of those that there are, for asks that wait as well: they are about to get them */
	/* More than there are, for a reserve: of blocks that nobody has, never from others. */
	uint32_t ahead;
	/* Asked for by name, and not this node's: those very ones, whoever has them. */
	const struct ipaddr *names;
	size_t n_names;
	uint32_t spare; /* free ones beyond what the reserve asks for */
	bool under_way; /* requests for more are: no further ones */
	bool claiming;	/* the claim of a block is, since a moment ago */
};

struct block_facts {
	const struct block_table *table;
	const struct block_log *log; /* whose tokens are ours */
	const struct block_need *needs;
	size_t n_needs;
	const struct lease_table *leases;
	const struct ipaddr
		*pins; /* addresses that a pod is about to get (migration.h, names): busy */
	size_t n_pins;
	uint64_t seed;	 /* different on each node, and each time */
	int64_t now_ms;	 /* the loop's, for views and wishes */
	int64_t real_ms; /* since the epoch, for leases */
	int64_t rest_ms, quarantine_ms;
	/*
	 * The API server's data may have been set back (etcd restored): nothing is gained or given back
	 * for a while, so that every node can say again what its pods have.
	 */
	bool hold;
	/*
	 * And it happened before this agent's eyes, so no other took over meanwhile what its log has:
	 * entries of other nodes for what pods here have are from an earlier time, and give way.
	 */
	bool witness;
	/*
	 * From then on: others' objects may have entries of this node again that were returned since.
	 * Each pool whose last list is from before is listed once, to find them. Somebody's pod may have
	 * such an address, who could not say so: its entry becomes "?". 0: no need to look.
	 */
	int64_t look_ms;
	/* Every pod of this node is a lease, and no other agent has its name: what other logs of it left
	 * behind is ours to adopt or to give back. */
	bool alone;
	int64_t view_ms;  /* how long a list of a pool's blocks serves an ask */
	int64_t ahead_ms; /* how long one that shows no room keeps a reserve from asking again */
};

struct block_plan {
	struct block_op *v;
	size_t n;
};

/*
 * At most one request a block, first those that end what was begun. A claim's or loan's failure
 * leads to a list, a list to what it offers, and no offer to wishes.
 */
void block_plan(const struct block_facts *f, struct block_plan *ret);
void block_plan_done(struct block_plan *p);
/* Whether every pool was listed since look_ms, and what was found in others' objects is returned. */
bool block_has_looked(const struct block_facts *f);

/* Objects of this node that no claim of this log stands for: nobody knows which of their addresses
 * pods have. Whoever has accounted for all pods of the node may delete or adopt them. */
bool block_is_foreign(const struct block_facts *f, const struct block_object *o);
/* Whether a pod has it, it rests, or it is kept or in quarantine. */
bool block_has_lease(const struct block_facts *f, const struct ipaddr *a);
/* Or it is waited for by name (pins). */
bool block_is_busy(const struct block_facts *f, const struct ipaddr *a);
/* Whether a pod has it, or it is kept for one. */
bool block_has_pod(const struct block_facts *f, const struct ipaddr *a);
/* Whether any address of the net is. */
bool block_net_is_busy(const struct block_facts *f, const struct ipnet *net);

#endif
