/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_BLOCKS_BLOCKS_H
#define UNIRAIL_AGENT_BLOCKS_BLOCKS_H

/*
 * This node's part of the pools: carries out at the API server what block/plan.h asks for, and
 * says which addresses may be handed out now. Everything is on the loop; nothing here waits. While
 * the API server is away, what is ours stays ours.
 *
 *	blocks_new(&b, &conf, e);
 *	blocks_pools(b, &set);		 when pools are known, and whenever they change
 *	blocks_leases(b, leases);	 once what pods have is known, and after each batch
 *
 * and at each batch, with `usable` cut to blocks_mine(); an ask that finds nothing:
 *
 *	blocks_want(b, "rail0", 3);	 asks for three addresses wait in this pool
 *	...changed(arg, "rail0")...	 tried again
 *	blocks_want(b, "rail0", 0);
 *
 * Nothing is claimed, ceded or given back before the first blocks_leases(): nobody knows yet what
 * is idle. A pool has a reserve here, claimed ahead of need, while pods here have addresses of it,
 * and for `idle_ms` after it was last wanted or expected. A block without pods that the reserve
 * does not need goes back after the same time.
 *
 * blocks.json (block/log.h) lies in the state folder, which one agent at a time may use: a
 * lock beside it says so. A second agent under the same node's name but with a folder of its own
 * does no harm: each has blocks of its own. Blocks of this node that another log claimed (the disk
 * was lost, or there are two agents) are foreign: said, and left alone until blocks_accounted().
 *
 * When etcd was restored to an earlier time, objects go back and the nodes' logs do not: for half a
 * minute each node only says again what its pods have, and claims, borrows and gives up nothing. An agent
 * that saw it happen takes the entries of others that are in the way; one that did not waits until
 * those look what of theirs is back, which every agent does within a minute. A node
 * whose agent is not back within that time may find its addresses claimed by others; what its pods
 * have is then said to them as soon as it is. The log knows that it is so, for an agent that starts
 * meanwhile, and how far the API server's data was, for one that starts afterwards. (A restore that
 * lets revisions go on, --bump-revision, is noticed by an agent with blocks that changed since.)
 *
 * A log that cannot be written (disk full): nothing is handed out or given up that is not durable;
 * said once, tried again.
 */

#include "base/loop.h"
#include "block/op.h"
#include "ipam/journal/lease.h"
#include "ipam/demand.h"
#include "ipam/pool/pool.h"
#include "kube/client.h"

enum { BLOCKS_RESERVE = 4, BLOCKS_IDLE_MS = 300 * 1000 };

struct blocks_conf {
	struct kube *kube; /* borrowed, as root */
	const struct root *root;
	const char *state_dir; /* of the journal */
	const char *node;
	const char *node_uid; /* of the Node object; NULL: as the log has it */
	uint32_t reserve;     /* free addresses of a pool that are held ready; 0: BLOCKS_RESERVE */
	int64_t idle_ms;      /* 0: BLOCKS_IDLE_MS */
	uint64_t seed;	      /* 0: a random one */
	int64_t (*now_ms)(void); /* since the epoch, for leases; NULL: the real clock */
	/* blocks_mine() of the pool may say something else now. From the loop, never from within
	 * one of the functions below. */
	void (*changed)(void *arg, const char *pool);
	void *arg;
};

struct blocks;

/* The lock that one agent holds; -EWOULDBLOCK, kind ERR_AGAIN: another one does. *fd: to be closed. */
int blocks_lock(const struct root *r, const char *state_dir, int *fd, struct err *e);
/* The log's path; free() it. */
char *blocks_log_path(const char *state_dir);
/* -EWOULDBLOCK, kind ERR_AGAIN: another agent runs with this state folder; or as block_log_open().
 * Strings are copied. */
int blocks_new(struct blocks **ret, const struct blocks_conf *c, struct err *e);
/* Before kube_free(); what is under way is found and finished by the next one. NULL is fine. */
void blocks_free(struct blocks *b);

/* What counts of them is copied. A pool that is not there any more loses its blocks as they become
 * idle. */
void blocks_pools(struct blocks *b, const struct pool_set *set);
/* Copied. */
void blocks_leases(struct blocks *b, const struct lease_table *t);
/*
 * Asks wait for so many addresses of the pool; 0: none any more. What is free here counts for them,
 * the rest is claimed, taken back, borrowed or wished for, whatever it takes.
 */
void blocks_want(struct blocks *b, const char *pool, uint32_t count);
/*
 * Addresses that asks wait for by name; all that there are: those that are not listed any more are
 * waited for no more. The block of one that nobody has is claimed, the owner of any other is asked.
 */
void blocks_names(struct blocks *b, const struct need_name *v, size_t n);
/* Whether somebody has it, as is known since a moment ago; which pod has been asked for by then. */
bool blocks_refused(struct blocks *b, const char *pool, const struct ipaddr *a);
/* Where it is, or who was asked for it, onto w. */
void blocks_name_words(const struct blocks *b, const struct ipaddr *a, struct buf *w);
/* Pods of this node will likely use the pool (predict.h), and ask for so many addresses soon: they
 * and a reserve are claimed. */
void blocks_expect(struct blocks *b, const char *pool, uint32_t count);

/* The pool's addresses that may be handed out now, onto ret; `usable` as the pool has it. To be
 * asked at each batch: a request that gives addresses up takes them away before it is sent. */
void blocks_mine(const struct blocks *b, const char *pool, const struct ip_set *usable,
		 struct ip_set *ret);
/* And those that stay with the pods that have them or that they are kept for: block_said(). */
void blocks_only_said(const struct blocks *b, const char *pool, const struct ip_set *usable,
		      struct ip_set *ret);
/* The own blocks were listed once; or the log says what is ours, and the API server did not answer
 * for some seconds. */
bool blocks_ready(const struct blocks *b);
/* What was tried to get addresses, for an error, onto w: "all 25 blocks of the pool are claimed, by
 * 20 nodes; 3 addresses were asked of 6 of them, none was ceded". */
void blocks_words(const struct blocks *b, const char *pool, struct buf *w);

/* --- foreign blocks --- */

size_t blocks_foreign_count(const struct blocks *b);
const struct block_object *blocks_foreign_at(const struct blocks *b, size_t i);
/* Whether another agent of this node's name was seen at work: a foreign block was made, changed or
 * taken while we looked. Then nothing is adopted; its operator must end one of the two. */
bool blocks_foreign_alive(const struct blocks *b);
/*
 * Every pod of this node is accounted for: its addresses are leases of the store. Foreign blocks with
 * addresses of pods become ours, others go back. Only after all agents of this node's name but this
 * one are known to have ended.
 */
void blocks_accounted(struct blocks *b);

/* The API server's data was set back, as something else than blocks told. */
void blocks_set_back(struct blocks *b);

/* --- for the handover of kept addresses (agent/migration/migration.h) --- */

const struct block_table *blocks_table(const struct blocks *b);
/*
 * Carries out one request beside those of the plan; what op has is taken in any case. False: not
 * now, fn is not called: the API server's state is not known, it was set back, or something about
 * the block is under way. fn is called once, before the table has what came of it (o: the object as
 * answered, or NULL), so it begins nothing; when all is torn down, with BLOCK_UNKNOWN.
 */
typedef void (*blocks_done_fn)(void *arg, enum block_outcome r, const struct block_object *o);
bool blocks_request(struct blocks *b, struct block_op *op, blocks_done_fn fn, void *arg);
void blocks_cancel(struct blocks *b, const void *arg); /* fn is not called any more */
/* Addresses that a pod is about to get: they count as busy. Copied; instead of those before. */
void blocks_pin(struct blocks *b, const struct ipaddr *v, size_t n);

/* --- what it does, for metrics --- */

struct blocks_stats {
	uint64_t requests, refused, unanswered; /* refused: somebody else was first */
	uint64_t claimed, left, ceded, borrowed, returned, listed;
	size_t claims, loans, under_way;
};
struct blocks_stats blocks_stats(const struct blocks *b);

#endif
