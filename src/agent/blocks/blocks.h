/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_BLOCKS_BLOCKS_H
#define UNIRAIL_AGENT_BLOCKS_BLOCKS_H

/*
 * The pools' blocks on this node: this module sends the requests of the plan (block/plan.h) to the
 * API server, and knows which addresses may be allocated now. Runs on the event loop; only writes
 * of the log delay the loop. While the API server is unavailable, the node keeps its addresses.
 *
 *	blocks_new(&b, &conf, e);
 *	blocks_pools(b, &set);		 when pools are known, and after each change of them
 *	blocks_leases(b, leases);	 once the pods' addresses are known, and after each batch
 *
 * At each batch of the store the caller limits the `usable` addresses of each pool to those of
 * blocks_usable(). For a request that finds no address:
 *
 *	blocks_want(b, "rail0", 3);	 pending requests need three addresses of this pool
 *	...changed(arg, "rail0")...	 retry them
 *	blocks_want(b, "rail0", 0);
 *
 * Nothing is claimed, released or returned before the first blocks_leases(), because it is unknown
 * which addresses are idle. The node pre-allocates addresses of a pool while local pods use it, and
 * for `idle_ms` after it was last needed or predicted to be needed. A block without pods that is
 * not needed for pre-allocation is released after the same time.
 *
 * blocks.json (block/log.h) is in the state directory, which a lock file limits to one agent at a
 * time. A second agent under the same node name with a state directory of its own does no harm:
 * each owns blocks of its own. Blocks of this node claimed by another log (the disk was lost, or
 * there are two agents) are unadopted: they are logged and not used until
 * blocks_inventory_complete().
 *
 * When etcd is restored from a backup, objects return to an earlier state and the nodes' logs do
 * not. For half a minute (the freeze) each node only asserts the addresses of its pods, and claims,
 * borrows and releases nothing. An agent that observed the restore overwrites conflicting entries
 * of peers. Any other agent waits until the peers of conflicting entries rescan; every agent
 * rescans within a minute. If an agent starts only after that time, peers may have claimed the
 * addresses of its pods; it asserts them when it starts. The log records an unfinished recovery,
 * for an agent that starts during it, and the highest resourceVersion seen, by which an agent that
 * starts afterwards detects the restore. (A restore that lets revisions continue, --bump-revision,
 * is detected by an agent with blocks that changed since the backup.)
 *
 * While the log cannot be written (disk full), nothing is allocated or released that is not
 * durable; the failure is logged once and the write retried.
 */

#include "base/loop.h"
#include "block/op.h"
#include "ipam/journal/lease.h"
#include "ipam/demand.h"
#include "ipam/pool/pool.h"
#include "kube/client.h"

enum { BLOCKS_PRE_ALLOCATE = 4, BLOCKS_IDLE_MS = 300 * 1000 };

struct blocks_conf {
	struct kube *kube; /* borrowed */
	const struct root *root;
	const char *state_dir; /* state directory of the agent, which also contains the journal */
	const char *node;
	const char *node_uid; /* UID of the Node object; NULL: the UID in the log */
	/* number of free addresses to keep on this node per pool in use; 0: BLOCKS_PRE_ALLOCATE */
	uint32_t pre_allocate;
	int64_t idle_ms;	 /* 0: BLOCKS_IDLE_MS */
	uint64_t seed;		 /* 0: a random seed */
	int64_t (*now_ms)(void); /* ms since the epoch, for leases; NULL: the real clock */
	/* Called when the result of blocks_usable() or blocks_refused() for the pool may have
	 * changed. The event loop calls it; the functions of this header never do. */
	void (*changed)(void *arg, const char *pool);
	/* The pool's resourceVersion, for the write of its block size; NULL: not read from the API
	 * server yet. */
	const char *(*pool_version)(void *arg, const char *pool);
	void *arg;
};

struct blocks;

/* Locks the state directory. -EWOULDBLOCK, kind ERR_AGAIN: another agent has locked it. The caller
 * closes *fd. */
int blocks_lock(const struct root *r, const char *state_dir, int *fd, struct err *e);
/* Returns the path of the block log; the caller frees it. */
char *blocks_log_path(const char *state_dir);
/* Strings are copied. -EWOULDBLOCK, kind ERR_AGAIN: another agent runs with this state directory;
 * other errors as block_log_open(). */
int blocks_new(struct blocks **ret, const struct blocks_conf *c, struct err *e);
/* Call it before kube_free(). The agent that runs next finds and completes the requests in flight.
 * b may be NULL. */
void blocks_free(struct blocks *b);

/* Sets the pools; copies what it needs. The blocks of a pool that is not in the set are released as
 * they become idle. */
void blocks_pools(struct blocks *b, const struct pool_set *set);
/* Sets the leases; copies them. */
void blocks_leases(struct blocks *b, const struct lease_table *t);
/* Sets how many addresses of the pool the pending requests need; 0: none. Free addresses of this
 * node count; the missing ones are claimed, reclaimed, borrowed or requested from peers. */
void blocks_want(struct blocks *b, const char *pool, uint32_t count);
/* Sets all addresses that pending requests name; replaces the previous list. If the
 * block of an address has no owner, it is claimed; otherwise the address is requested from the
 * owner. */
void blocks_names(struct blocks *b, const struct need_name *v, size_t n);
/* Returns whether this node cannot get the address, as recently observed (block_is_refused()).
 * Returns true only after the lookup of the pod that has the address has ended, or if the lookup
 * cannot start. */
bool blocks_refused(struct blocks *b, const char *pool, const struct ipaddr *a);
/* Describes in w which node or block has the address, or which node it was requested from. */
void blocks_describe_name(const struct blocks *b, const struct ipaddr *a, struct buf *w);
/* Pods of this node will probably request `count` addresses of the pool soon (predict.h): the node
 * claims these addresses in addition to the pre-allocated ones. count 0: the node only
 * pre-allocates. */
void blocks_prefetch(struct blocks *b, const char *pool, uint32_t count);

/* Adds to ret those addresses of `usable` (all addresses of the pool) that may be allocated now.
 * Call it at each batch: an address is removed from the result before the request that releases it
 * is sent. */
void blocks_usable(const struct blocks *b, const char *pool, const struct ip_set *usable,
		   struct ip_set *ret);
/* Adds to ret the addresses asserted by this node (block_asserted()). These addresses stay with
 * their current or retained owner and are never allocated to another pod. */
void blocks_reserved_only(const struct blocks *b, const char *pool, const struct ip_set *usable,
			  struct ip_set *ret);
/* Returns whether the node's blocks were listed, or TRUST_MS have passed since the start without a
 * list: then the blocks of the log are used. */
bool blocks_ready(const struct blocks *b);
/* Describes in w, for an error, how the node searched for addresses of the pool: "25 blocks of
 * the pool are claimed, 3 have no free address, ...". */
void blocks_describe(const struct blocks *b, const char *pool, struct buf *w);

/* --- unadopted blocks --- */

size_t blocks_unadopted_count(const struct blocks *b);
/* Returns the next unadopted block and increases *at; start with *at = 0. NULL: there are no
 * more. */
const struct block_object *blocks_unadopted_next(const struct blocks *b, size_t *at);
/*
 * Returns whether another agent with this node's name probably runs: while this agent watched,
 * an unadopted block appeared, was claimed again, or had entries of released addresses added or
 * removed as only its owner does (block_changed_by_owner()). Then nothing is adopted; the operator
 * must stop one of the two agents.
 */
bool blocks_unadopted_alive(const struct blocks *b);
/*
 * Reports that the inventory of this node's pods is complete: all their addresses are leases of the
 * store. Unadopted blocks with addresses of pods are adopted, others released. Call it only after
 * all other agents with this node's name have ended.
 */
void blocks_inventory_complete(struct blocks *b);

/* The caller reports that another part of the agent has detected a restore of etcd. */
void blocks_etcd_restored(struct blocks *b);

/* --- functions for the migration of retained addresses (agent/migration/migration.h) --- */

const struct block_table *blocks_table(const struct blocks *b);
/*
 * Sends one request that the plan does not contain; always takes the contents of op. Returns false,
 * and never calls fn, if the request cannot be sent now, for example because the API server is
 * unavailable, etcd was restored (except for OP_READ), or a request about the block is in flight.
 * Otherwise calls fn once, before the table is updated, so fn must not start another request. o:
 * the object in the response, or NULL. blocks_free() calls fn with BLOCK_UNKNOWN.
 */
typedef void (*blocks_done_fn)(void *arg, enum block_outcome r, const struct block_object *o);
bool blocks_request(struct blocks *b, struct block_op *op, blocks_done_fn fn, void *arg);
void blocks_cancel(struct blocks *b, const void *arg); /* fn of this arg is not called any more */
/* Sets the addresses that migrating pods will get: they count as busy. Copies v, which replaces the
 * previous list. */
void blocks_reservation(struct blocks *b, const struct ipaddr *v, size_t n);

/* --- metrics --- */

struct blocks_stats {
	/* refused: a precondition failed, mostly because another node was faster */
	uint64_t requests, refused, unanswered;
	uint64_t claimed, blocks_released, released, borrowed, returned, listed;
	size_t claims, borrowed_now, under_way;
};
struct blocks_stats blocks_stats(const struct blocks *b);

#endif
