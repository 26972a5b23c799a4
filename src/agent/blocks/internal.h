/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_BLOCKS_INTERNAL_H
#define UNIRAIL_AGENT_BLOCKS_INTERNAL_H

/* Between the blocks*.c files. */

#include "agent/blocks/blocks.h"
#include "base/backoff.h"
#include "block/plan.h"
#include "kube/informer.h"
#include "kube/list.h"

enum {
	BLOCKS_SPARE_PARTS = 4,
	BLOCKS_SAID_MAX = 256,
	BLOCKS_REQUEST_MS = 15000,
	BLOCKS_FLIGHTS_MAX = 16,
	BLOCKS_EXPECTED_MAX = 64,
};

/* The log's own rest, beside those of blocks and pools, which have no blank. */
#define BLOCKS_DISK_KEY "the log"

struct blocks_pool {
	struct blocks *b;
	char *name;
	bool known; /* there is such a pool */
	bool one_node;
	struct ipnet subnet;
	struct ip_set usable, adopted;
	struct block_cut cut;
	bool is_cut;
	struct kube_call *cutting;
	int64_t cut_ms; /* when it may be; 0: there was no need */
	uint32_t want;
	struct ipaddr *names; /* asked for by name */
	size_t n_names;
	int64_t used_ms;   /* when it was last of use here; 0: never */
	uint32_t expected; /* addresses that pods will ask for, until then plus EXPECTED_MS */
	int64_t expected_ms;
	uint32_t taken; /* addresses of it that pods had when last counted */
	/* The least that was to spare, by quarters of idle_ms: what counts is the least of all. */
	uint32_t spare[BLOCKS_SPARE_PARTS];
	int64_t spare_part;
	uint32_t idle;		    /* as last counted */
	char said[BLOCKS_SAID_MAX]; /* what went wrong last */
};

/* An address that is asked for by name, or was a moment ago: not to be given back before the pod has it. */
struct blocks_pin {
	struct ipaddr ip;
	int64_t until_ms;
};

/* Who has an address that was refused, by its pool's status. */
struct blocks_holder {
	struct blocks *b;
	struct ipaddr ip;
	char *pool, *pod; /* pod: "ns/name"; NULL: not known */
	int64_t at_ms;
	struct kube_call *call; /* it is asked */
};

/* A request that is under way. */
struct blocks_flight {
	struct blocks *b;
	struct block_op op;
	struct kube_call *call;
	struct kube_list *list;
	struct block_object *listed;
	size_t n_listed;
	int64_t since_ms;
	blocks_done_fn fn; /* NULL: the plan's */
	void *arg;
};

/* What is to be left alone for a while: a block, or a pool's search. */
struct blocks_rest {
	char *key;
	struct kube_backoff backoff;
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
	bool made_anew; /* the Node object, since the log was written: its blocks are released */
	bool pools_known, leases_known, trusted, other_alive, accounted;
	int64_t hold_until; /* 0: etcd was not set back */
	bool witness;	    /* as block_facts has it */
	int64_t look_ms;    /* as block_facts has it, while log.set_back */
	/* what blocks_tell_set_back() does; tell_at: real time, 0: nothing to tell */
	struct kube_call *telling;
	struct loop_timer *tell_again;
	int64_t tell_at;
	bool looking; /* lenders' objects are read since the watch began: see blocks_is_held() */
	int64_t rest_ms, quarantine_ms; /* of the pools' settings */
	struct lease_table leases;
	struct ipaddr *pins; /* the handover's */
	size_t n_pins;
	struct blocks_pin *named;
	size_t n_named;
	struct ipaddr *busy; /* both, see blocks_pinned() */
	struct blocks_holder **holders;
	size_t n_holders;
	struct kube_informer *informer;
	struct loop_timer *tick, *trust, *look;
	int64_t tick_ms; /* when it is due */
	struct blocks_flight **flights;
	size_t n_flights;
	struct blocks_rest *rests;
	size_t n_rests;
	uint64_t seed;
	bool log_fails; /* said */
	struct blocks_stats stats;
};

extern const struct kube_kind blocks_kind, blocks_pools_kind;

static inline int64_t blocks_now(const struct blocks *b)
{
	return loop_now_ms(b->loop);
}

/* blocks.c */
struct blocks_pool *blocks_pool_find(const struct blocks *b, const char *name);
struct blocks_pool *blocks_pool_get(struct blocks *b, const char *name); /* made if need be */
void blocks_soon(struct blocks *b, int64_t ms); /* looks what there is to do, at most then */
void blocks_tell(struct blocks *b, const char *pool);
void blocks_tell_all(struct blocks *b);
int64_t blocks_real_ms(const struct blocks *b);

/* blocks.c: makes b->busy of all that is pinned by now. Returns how many. */
size_t blocks_pinned(struct blocks *b);

/* report.c: whether it is known by now who has a refused address, as far as it can be; else that
 * is asked, and blocks_tell() comes. */
bool blocks_holder_known(struct blocks *b, const char *pool, const struct ipaddr *a);
const char *blocks_holder(const struct blocks *b, const struct ipaddr *a); /* NULL: not known */
void blocks_drop_holders(struct blocks *b);

/* demand.c: how each pool stands; needs[] has a place for each. Returns how many. */
size_t blocks_needs(struct blocks *b, struct block_need *needs);
struct block_facts blocks_facts(struct blocks *b, const struct block_need *needs, size_t n);

/* requests.c */
void blocks_work(struct blocks *b);
bool blocks_is_under_way(const struct blocks *b, const char *name);
/* Takes what op has. False: it could not be begun. */
bool blocks_start(struct blocks *b, struct block_op *op);
void blocks_drop_flights(struct blocks *b);
/* What went wrong, to be told once and in errors. */
void blocks_said(struct blocks *b, const char *pool, const struct err *e);

/* blocks.c: how a search ended, or a request about one block, or the log. */
void blocks_rest(struct blocks *b, const char *key, int64_t base_ms, int64_t most_ms);
void blocks_rested(struct blocks *b, const char *key);
int64_t blocks_rests_until(const struct blocks *b, const char *key); /* 0: it does not */

/* sync.c */
void blocks_watch(struct blocks *b);
/* Whether nothing may be gained now: the server's data was set back, or may have been. */
bool blocks_is_held(struct blocks *b);
/* A lender's object was looked at. */
void blocks_looked(struct blocks *b, const struct block_op *op);

/* sync.c: tells the controller, which may not have been there (controller/cache/cache.h), by a note on
 * one of this node's blocks; as soon as there is one. */
void blocks_tell_set_back(struct blocks *b);
void blocks_set_back_stop(struct blocks *b);

/* demand.c: finds out how the pool is cut, or cuts it. */
void blocks_cut(struct blocks *b, struct blocks_pool *p);

#endif
