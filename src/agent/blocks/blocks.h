/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_BLOCKS_BLOCKS_H
#define UNIRAIL_AGENT_BLOCKS_BLOCKS_H

/*
 * The pools' blocks on this node: sends the requests that block/plan.h decides on to the API
 * server, and knows which addresses may be allocated now. Runs on the event loop and never blocks.
 * While the API server is unavailable, the node keeps its addresses.
 *
 *	blocks_new(&b, &conf, e);
 *	blocks_pools(b, &set);		 when pools are known, and after each change of them
 *	blocks_leases(b, leases);	 once the pods' addresses are known, and after each batch
 *
 * At each batch `usable` is limited to blocks_usable(). A request that finds no address:
 *
 *	blocks_want(b, "rail0", 3);	 pending requests need three addresses of this pool
 *	...changed(arg, "rail0")...	 retry them
 *	blocks_want(b, "rail0", 0);
 *
 * Nothing is claimed, released or returned before the first blocks_leases(), because it is unknown
 * which addresses are idle. A pool has pre-allocated addresses here while local pods use it, and
 * for `idle_ms` after it was last needed or expected to be. A block without pods that is not needed
 * for pre-allocation is released after the same time.
 *
 * blocks.json (block/log.h) is in the state directory, which a lock file limits to one agent at a
 * time. A second agent under the same node name with a state directory of its own does no harm:
 * each owns blocks of its own. Blocks of this node claimed by another log (the disk was lost, or
 * there are two agents) are unadopted ("foreign"): they are logged and left alone until
 * blocks_inventory_complete().
 *
 * When etcd is restored from a backup, objects return to an earlier state and the nodes' logs do
 * not. For half a minute (the freeze) each node only asserts the addresses of its pods, and claims,
 * borrows and releases nothing. An agent that observed the restore overwrites conflicting entries
 * of peers. One that did not waits until these peers rescan, which every agent does within a
 * minute. If an agent starts only after that time, peers may have claimed the addresses of its
 * pods; it asserts them when it starts. The log records an unfinished recovery, for an agent that
 * starts during it, and the highest resourceVersion seen, by which an agent that starts afterwards
 * detects the restore. (A restore that lets revisions continue, --bump-revision, is detected by an
 * agent with blocks that changed since the backup.)
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

enum { BLOCKS_RESERVE = 4, BLOCKS_IDLE_MS = 300 * 1000 };

struct blocks_conf {
	struct kube *kube; /* borrowed, as is root */
	const struct root *root;
	const char *state_dir; /* the journal's */
	const char *node;
	const char *node_uid; /* UID of the Node object; NULL: as in the log */
	/* free addresses to pre-allocate per pool in use; 0: BLOCKS_RESERVE */
	uint32_t reserve;
	int64_t idle_ms;	 /* 0: BLOCKS_IDLE_MS */
	uint64_t seed;		 /* 0: a random one */
	int64_t (*now_ms)(void); /* since the epoch, for leases; NULL: the real clock */
	/* Called when the result of blocks_usable() for the pool may have changed. From the loop,
	 * never from within a function below. */
	void (*changed)(void *arg, const char *pool);
	void *arg;
};

struct blocks;

/* Takes the lock of the state directory. -EWOULDBLOCK, kind ERR_AGAIN: another agent has it. The
 * caller closes *fd. */
int blocks_lock(const struct root *r, const char *state_dir, int *fd, struct err *e);
/* Path of the log; the caller frees it. */
char *blocks_log_path(const char *state_dir);
/* Strings are copied. -EWOULDBLOCK, kind ERR_AGAIN: another agent runs with this state directory;
 * other errors as block_log_open(). */
int blocks_new(struct blocks **ret, const struct blocks_conf *c, struct err *e);
/* Call it before kube_free(). The next agent finds and finishes the requests in flight. NULL is
 * fine. */
void blocks_free(struct blocks *b);

/* Sets the pools; what is needed is copied. A pool that is missing loses its blocks as they become
 * idle. */
void blocks_pools(struct blocks *b, const struct pool_set *set);
/* Sets the leases; copied. */
void blocks_leases(struct blocks *b, const struct lease_table *t);
/* Sets how many addresses of the pool pending requests need; 0: none. Free addresses of this node
 * count; the rest is claimed, taken back, borrowed or requested from peers. */
void blocks_want(struct blocks *b, const char *pool, uint32_t count);
/* Sets all addresses that pending requests ask for by name; one that is missing is no longer
 * waited for. If an address's block has no owner it is claimed, otherwise its owner is asked. */
void blocks_names(struct blocks *b, const struct need_name *v, size_t n);
/* Returns whether another node or pod has the address, as recently observed; the pod's name has
 * been looked up by then as far as possible. */
bool blocks_refused(struct blocks *b, const char *pool, const struct ipaddr *a);
/* Describes in w where the address is, or which node was asked for it. */
void blocks_describe_name(const struct blocks *b, const struct ipaddr *a, struct buf *w);
/* Pods of this node will probably request `count` addresses of the pool soon (predict.h): these
 * are claimed in addition to the pre-allocated ones. */
void blocks_prefetch(struct blocks *b, const char *pool, uint32_t count);

/* Adds to ret the pool's addresses that may be allocated now; usable: the pool's addresses. Call
 * it at each batch: an address is removed before the request that releases it is sent. */
void blocks_usable(const struct blocks *b, const char *pool, const struct ip_set *usable,
		   struct ip_set *ret);
/* Addresses asserted by this node after a restore (block_asserted()). They stay with their current or
 * retained owner and are never allocated to another pod. */
void blocks_reserved_only(const struct blocks *b, const char *pool, const struct ip_set *usable,
			  struct ip_set *ret);
/* Returns whether the node's blocks were listed once; or the log has blocks and the API server did
 * not answer for some seconds. */
bool blocks_ready(const struct blocks *b);
/* Describes in w, for an error, what was tried to get addresses: "all 25 blocks of the pool are
 * claimed, by 20 nodes; 3 addresses were asked of 6 of them, none was ceded". */
void blocks_describe(const struct blocks *b, const char *pool, struct buf *w);

/* --- unadopted ("foreign") blocks --- */

size_t blocks_unadopted_count(const struct blocks *b);
/* The next one from *at on, which starts at 0 and is moved past it; NULL: no more. */
const struct block_object *blocks_unadopted_next(const struct blocks *b, size_t *at);
/*
 * Returns whether another agent with this node's name was seen running: an unadopted block was
 * created, claimed again, or got fewer releases while this agent watched. Then nothing is adopted;
 * the operator must stop one of the two.
 */
bool blocks_unadopted_alive(const struct blocks *b);
/*
 * The inventory of this node's pods is complete: all their addresses are leases of the store.
 * Unadopted blocks with addresses of pods are adopted, others released. Call it only after all
 * other agents with this node's name are known to have ended.
 */
void blocks_inventory_complete(struct blocks *b);

/* etcd was restored, as detected by another part of the agent. */
void blocks_etcd_restored(struct blocks *b);

/* --- for the migration of retained addresses (agent/migration/migration.h) --- */

const struct block_table *blocks_table(const struct blocks *b);
/*
 * Sends one request that is not of the plan; always takes op's contents. Returns false, and does
 * not call fn, if it is not possible now: the API server's state is unknown, it was restored, or a
 * request about the block is in flight. fn is called once, before the table is updated (o: the
 * object in the answer, or NULL), so it must not start another request; on teardown with
 * BLOCK_UNKNOWN.
 */
typedef void (*blocks_done_fn)(void *arg, enum block_outcome r, const struct block_object *o);
bool blocks_request(struct blocks *b, struct block_op *op, blocks_done_fn fn, void *arg);
void blocks_cancel(struct blocks *b, const void *arg); /* fn is not called any more */
/* Sets the addresses that a pod is about to get: they count as busy. Copied; replaces the previous
 * ones. */
void blocks_reservation(struct blocks *b, const struct ipaddr *v, size_t n);

/* --- metrics --- */

struct blocks_stats {
	uint64_t requests, refused, unanswered; /* refused: another node was faster */
	uint64_t claimed, left, released, borrowed, returned, listed;
	size_t claims, borrowed_now, under_way;
};
struct blocks_stats blocks_stats(const struct blocks *b);

#endif
