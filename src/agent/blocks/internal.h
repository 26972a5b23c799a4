/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_BLOCKS_INTERNAL_H
#define UNIRAIL_AGENT_BLOCKS_INTERNAL_H

/* Shared by the files of this directory. */

#include "agent/blocks/blocks.h"
#include "base/backoff.h"
#include "block/plan.h"
#include "kube/informer.h"
#include "kube/listwatch.h"

enum {
	BLOCKS_IDLE_PARTS = 4,
	BLOCKS_ERROR_MAX = 256,
	BLOCKS_REQUEST_MS = 15000,
	BLOCKS_IN_FLIGHT_MAX = 16,
	BLOCKS_EXPECTED_MAX = 64,
};

/* Backoff key of the block log. The key contains a space, so it differs from the keys of blocks
 * and pools, which are their names. */
#define BLOCKS_DISK_KEY "the log"

struct blocks_pool {
	struct blocks *b;
	char *name;
	bool known; /* the pool exists */
	bool one_node;
	struct ipnet subnet;
	struct ip_set usable, adopted;
	struct block_cut cut;
	bool is_cut;
	struct kube_call *cutting;
	/* earliest time at which this node writes the pool's block size; 0: no pod has needed it
	 * yet */
	int64_t cut_ms;
	uint32_t want;
	struct ipaddr *names; /* addresses that pending requests name */
	size_t n_names;
	int64_t used_ms; /* when the pool was last needed here; 0: never */
	/* expected: number of addresses that pods will probably request before expected_ms +
	 * EXPECTED_MS; expected_ms: loop time of the last prediction */
	uint32_t expected;
	int64_t expected_ms;
	uint32_t taken; /* number of the pool's addresses that pods had at the last count */
	/* Lowest number of free addresses beyond twice the pre-allocated number in each quarter of
	 * idle_ms; the minimum of all quarters is used. */
	uint32_t spare[BLOCKS_IDLE_PARTS];
	int64_t spare_part;
	uint32_t idle;		       /* number of free addresses at the last count */
	char logged[BLOCKS_ERROR_MAX]; /* last error */
};

/* An address that is, or recently was, requested explicitly: it counts as busy, so that it is not
 * returned before the requesting pod has it. */
struct blocks_reservation {
	struct ipaddr ip;
	int64_t until_ms;
	size_t seq; /* position in the order of additions */
};

/* The pod that has a refused address, according to the status of its pool. */
struct blocks_owner {
	struct blocks *b;
	struct ipaddr ip;
	char *pool, *pod; /* pod: "ns/name"; NULL: unknown */
	int64_t at_ms;
	struct kube_call *call; /* the lookup in flight; NULL: it has ended */
};

/* A request in flight. */
struct blocks_in_flight {
	struct blocks *b;
	struct block_op op;
	struct kube_call *call;
	struct kube_list *list;
	struct block_object *listed;
	size_t n_listed;
	int64_t since_ms;
	bool has_ended; /* the outcome is known and not applied yet */
	enum block_outcome outcome;
	/* object in the answer; its name is NULL: the answer has none */
	struct block_object object;
	/* callback passed to blocks_request(); NULL: the request is one of the plan, or
	 * blocks_cancel() was called */
	blocks_done_fn fn;
	void *arg;
};

/* Backoff of one key: the name of a block or of a pool, or BLOCKS_DISK_KEY. */
struct blocks_backoff_set {
	char *key;
	struct backoff backoff;
	int64_t until_ms;
};

struct blocks {
	struct blocks_conf c;
	char *node, *node_uid;
	struct loop *loop;
	int lock;
	struct block_log log;
	struct block_table t;
	struct blocks_pool **pools;
	size_t n_pools;
	void *pools_by_name; /* tsearch() tree of the same pools, by name */
	/* The Node object was recreated since the log was written: the controller may have released
	 * the blocks and entries of the deleted one, so a missing entry does not show that etcd was
	 * restored. */
	bool recreated;
	bool pools_known, leases_known, trusted, other_alive, inventory_complete;
	int64_t frozen_until;  /* loop time, end of the freeze; 0: etcd was not restored */
	bool observed_restore; /* see struct block_facts */
	int64_t rescan_ms;     /* see struct block_facts; used while log.etcd_restored */
	/* Used by blocks_notify_etcd_restored(). report_at: real time in ms at which this agent
	 * observed the restore of etcd; 0: nothing to report. */
	struct kube_call *report_call;
	struct loop_alarm report_retry;
	int64_t report_at;
	/* not all peers' objects were read again after the last list, see blocks_is_frozen() */
	bool rescanning;
	int64_t reuse_delay_ms, quarantine_ms; /* of the set passed to blocks_pools() */
	struct lease_table leases;	       /* sorted by address */
	struct ipaddr *reserved;	       /* set by blocks_reservation() for the migration */
	size_t n_reserved;
	struct blocks_reservation *named;
	size_t n_named;
	struct ipaddr *busy; /* addresses of `reserved` and `named`, see blocks_reserved() */
	struct blocks_owner **owners;
	size_t n_owners;
	struct kube_informer *informer;
	struct loop_alarm tick, trust, scan;
	struct blocks_in_flight **in_flight;
	size_t n_in_flight;
	struct loop_timer *ended; /* applies the outcomes of requests that have ended */
	struct blocks_backoff_set *backoffs;
	size_t n_backoffs;
	uint64_t seed;
	bool log_fails; /* the block log cannot be written, and this was logged */
	struct blocks_stats stats;
};

static inline int64_t blocks_now(const struct blocks *b)
{
	return loop_now_ms(b->loop);
}

/* blocks.c */
struct blocks_pool *blocks_pool_find(const struct blocks *b, const char *name);
struct blocks_pool *blocks_pool_get(struct blocks *b, const char *name); /* created if missing */
void blocks_schedule(struct blocks *b, int64_t ms); /* schedules a reconcile within ms */
void blocks_notify(struct blocks *b, const char *pool);
void blocks_notify_all(struct blocks *b);
int64_t blocks_real_ms(const struct blocks *b);

/* blocks.c: a list of reservations. Add any number, then merge the list once: the merge sorts it by
 * address and retains the last reservation of each address. Costs n log n. */
void blocks_reservations_add(struct blocks_reservation **v, size_t *n, const struct ipaddr *a,
			     int64_t until_ms);
void blocks_reservations_merge(struct blocks_reservation *v, size_t *n);

/* blocks.c: fills b->busy with all reserved addresses; returns their number. */
size_t blocks_reserved(struct blocks *b);

/* "ns/name" of the pod that has the address; NULL: unknown */
const char *blocks_owner(const struct blocks *b, const struct ipaddr *a);
void blocks_drop_owners(struct blocks *b);

/* reconcile.c */
void blocks_reconcile(struct blocks *b);
bool blocks_is_under_way(const struct blocks *b, const char *name);
/* Starts a request; always takes the contents of op. Returns false if the log cannot be written. */
bool blocks_start(struct blocks *b, struct block_op *op);
void blocks_drop_in_flight(struct blocks *b);
/* Logs an error once, and shows it in errors of requests for the pool. */
void blocks_report_error(struct blocks *b, const char *pool, const struct err *e);

/* blocks.c: backoff of a pool's search, of one block, or of the log. */
void blocks_backoff_set(struct blocks *b, const char *key, int64_t base_ms, int64_t most_ms);
void blocks_backoff_clear(struct blocks *b, const char *key);
/* loop time at which the backoff expires; 0: there is none */
int64_t blocks_backoff_until(const struct blocks *b, const char *key);

/* sync.c */
void blocks_watch(struct blocks *b);
/* Returns whether claims are frozen because etcd was, or may have been, restored from a backup. */
bool blocks_is_frozen(struct blocks *b);
/* After a read of a peer's object: freezes claims if the object lacks the entry of an address that
 * this node borrows. */
void blocks_rescanned(struct blocks *b, const struct block_op *op);

void blocks_etcd_restored_stop(struct blocks *b);

#endif
