/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_BLOCKS_INTERNAL_H
#define UNIRAIL_AGENT_BLOCKS_INTERNAL_H

/* Shared by the files of this directory. */

#include "agent/blocks/blocks.h"
#include "base/backoff.h"
#include "block/plan.h"
#include "kube/informer.h"
#include "kube/list.h"

enum {
	BLOCKS_IDLE_PARTS = 4,
	BLOCKS_ERROR_MAX = 256,
	BLOCKS_REQUEST_MS = 15000,
	BLOCKS_IN_FLIGHT_MAX = 16,
	BLOCKS_EXPECTED_MAX = 64,
};

/* Backoff key of the log, beside those of blocks and pools, whose names contain no space. */
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
	int64_t cut_ms; /* earliest time of writing the block size; 0: not needed yet */
	uint32_t want;
	struct ipaddr *names; /* requested by name */
	size_t n_names;
	int64_t used_ms; /* when the pool was last needed here; 0: never */
	/* addresses that pods will probably request until expected_ms + EXPECTED_MS */
	uint32_t expected;
	int64_t expected_ms;
	uint32_t taken; /* number of its addresses that pods had when last counted */
	/* The least that was free in each quarter of idle_ms; the minimum of all counts. */
	uint32_t spare[BLOCKS_IDLE_PARTS];
	int64_t spare_part;
	uint32_t idle;		       /* as last counted */
	char logged[BLOCKS_ERROR_MAX]; /* last error */
};

/* An address that is, or recently was, requested by name: not returned before the pod has it. */
struct blocks_reservation {
	struct ipaddr ip;
	int64_t until_ms;
	size_t seq; /* the order in which they were added */
};

/* Which pod has an address that was refused, according to its pool's status. */
struct blocks_owner {
	struct blocks *b;
	struct ipaddr ip;
	char *pool, *pod; /* pod: "ns/name"; NULL: unknown */
	int64_t at_ms;
	struct kube_call *call; /* the lookup in flight */
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
	blocks_done_fn fn; /* NULL: a request of the plan */
	void *arg;
};

/* Backoff of a block, or of a pool's search. */
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
	void *pools_by_name; /* the same (tsearch) */
	/* the Node object was recreated since the log was written: its blocks are released */
	bool recreated;
	bool pools_known, leases_known, trusted, other_alive, accounted;
	int64_t hold_until;    /* end of the freeze; 0: etcd was not restored */
	bool observed_restore; /* as block_facts has it */
	int64_t rescan_ms;     /* as block_facts has it, while log.etcd_restored */
	/* Used by blocks_notify_etcd_restored(). report_at: real time, 0: nothing to report. */
	struct kube_call *telling;
	struct loop_timer *report_retry;
	int64_t report_at;
	/* the objects of peers are being read since the watch began, see blocks_is_held() */
	bool rescanning;
	int64_t rest_ms, quarantine_ms; /* of the pools' settings */
	struct lease_table leases;	/* in the order of addresses */
	struct ipaddr *reserved;	/* set by the migration, blocks_reservation() */
	size_t n_reserved;
	struct blocks_reservation *named;
	size_t n_named;
	struct ipaddr *busy; /* both, see blocks_reserved() */
	struct blocks_owner **owners;
	size_t n_owners;
	struct kube_informer *informer;
	struct loop_timer *tick, *trust, *scan;
	int64_t tick_ms; /* when it is due */
	struct blocks_in_flight **in_flight;
	size_t n_in_flight;
	struct blocks_backoff_set *backoffs;
	size_t n_backoffs;
	uint64_t seed;
	bool log_fails; /* logged */
	struct blocks_stats stats;
};

extern const struct kube_kind blocks_kind, blocks_pools_kind;

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

/* blocks.c: a list of pins: any number is added, then merged once, which leaves the last pin of each
 * address, by address. Costs n log n. */
void blocks_reservations_add(struct blocks_reservation **v, size_t *n, const struct ipaddr *a,
			     int64_t until_ms);
void blocks_reservations_merge(struct blocks_reservation *v, size_t *n);

/* blocks.c: fills b->busy with all pinned addresses; returns how many. */
size_t blocks_reserved(struct blocks *b);

const char *blocks_owner(const struct blocks *b, const struct ipaddr *a); /* NULL: unknown */
void blocks_drop_owners(struct blocks *b);

/* demand.c: the state of each pool; needs[] has room for all. Returns how many. */
size_t blocks_demand(struct blocks *b, struct block_need *needs);
struct block_facts blocks_facts(struct blocks *b, const struct block_need *needs, size_t n);

/* requests.c */
void blocks_reconcile(struct blocks *b);
bool blocks_is_under_way(const struct blocks *b, const char *name);
/* Always takes op's contents. Returns false if the request could not be started. */
bool blocks_start(struct blocks *b, struct block_op *op);
void blocks_drop_in_flight(struct blocks *b);
/* Records an error: logged once and shown in errors of requests. */
void blocks_report_error(struct blocks *b, const char *pool, const struct err *e);

/* blocks.c: backoff of a pool's search, of one block, or of the log. */
void blocks_backoff_set(struct blocks *b, const char *key, int64_t base_ms, int64_t most_ms);
void blocks_backoff_clear(struct blocks *b, const char *key);
int64_t blocks_backoff_until(const struct blocks *b, const char *key); /* 0: none */

/* sync.c */
void blocks_watch(struct blocks *b);
/* Returns whether claims are frozen because etcd was, or may have been, restored from a backup. */
bool blocks_is_held(struct blocks *b);
/* A peer's object was read. */
void blocks_rescanned(struct blocks *b, const struct block_op *op);

void blocks_etcd_restored_stop(struct blocks *b);

#endif
