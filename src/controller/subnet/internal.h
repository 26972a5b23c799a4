/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_SUBNET_INTERNAL_H
#define UNIRAIL_CONTROLLER_SUBNET_INTERNAL_H

/*
 * Shared by the files of this directory: subnets.c (timer, applying the plan, per-pool state,
 * errors, requests in flight), reconcile.c (index of all objects, state of one subnet, queries),
 * apps.c (applications), write.c (writes of pools), status.c (writes of subnets, and of a subnet as
 * owner of a pool).
 */

#include "base/log.h"
#include "base/loop.h"
#include "controller/subnet/plan.h"
#include "controller/subnet/subnets.h"
#include "kube/informer.h"
#include "spec/subnet_annotation.h"

enum { SUBNETS_APP_KINDS = 7, SUBNETS_BODY_MAX = 2 << 20, SUBNETS_AGAIN_MS = 2000 };

/* An application that requests pools (a kube_object.value). */
struct subnets_app {
	struct app_id id;
	uint64_t size;
	struct auto_pool_request request;
	char *sync_error; /* error of its annotations; request is empty then */
};

/* A request, retained after its completion: a write until the watch shows its effect, a read
 * until it may be repeated. Until then no other request of the kind is sent for the object. */
struct subnets_op {
	struct subnets *s;
	struct kube_call *call;
	enum subnets_op_kind {
		SUBNETS_STATUS, /* any write of a subnet */
		SUBNETS_POOL,	/* any write of a pool */
		SUBNETS_USED,	/* read of a pool's addresses in use */
		SUBNETS_INPUTS, /* read of the blocks of a pool */
		SUBNETS_OWNER,	/* read of a pool's owner */
	} kind;
	/* was: resourceVersion of the object before the write; "": the object did not exist;
	 * NULL: a read */
	char *name, *was;
	/* set by the response: time at which the operation ends, even if the watch does not show
	 * its effect */
	int64_t until;
};

/* State of a pool kept between passes; also the last error of an application (`pool` is its UID) or
 * of a subnet (`pool` is its name). */
struct subnets_pool_error {
	char *pool;
	/* loop time since which the pool does not exist, or its spec has none of its addresses
	 * pending release; 0: not waiting */
	int64_t since;
	bool seen;  /* the pool existed at some time since this replica became leader */
	bool clear; /* the last read found no block with an address of `checked` */
	struct ip_set checked;
	struct ip_set used;
	int64_t used_at; /* 0: unknown */
	/* the last read found that the owner was deleted or has another UID */
	bool orphan;
	struct log_once logged; /* last error logged */
};

struct subnets {
	struct subnets_conf conf;
	struct loop *loop;
	struct kube_informer *apps[SUBNETS_APP_KINDS]; /* NULL: not watched */
	bool old_cronjobs; /* the server lacks CronJobs of batch/v1 (before 1.21) */
	void *ops,
		*pool_errors; /* tsearch trees of struct subnets_op and struct subnets_pool_error */
	struct loop_alarm timer;
	uint64_t created, resized, deleted, failed;
};

int64_t subnets_now(const struct subnets *s);
/* Returns whether an object that is missing in the cache certainly does not exist; false after a
 * recent etcd restore. */
bool subnets_is_sure(const struct subnets *s);
/* Schedules a reconcile of all subnets within `ms` milliseconds. */
void subnets_wake(struct subnets *s, int64_t ms);
struct subnets_pool_error *subnets_error_log(struct subnets *s, const char *pool);
void subnets_forget(struct subnets *s, const char *pool);
void subnets_say(struct subnets *s, const char *object, const struct app_id *app,
		 const char *reason, const struct err *cause);

/* --- applications --- */

void subnets_apps_start(struct subnets *s);
void subnets_apps_stop(struct subnets *s);
bool subnets_apps_known(struct subnets *s);
/* Reports an error to each application whose subnet does not exist, is being deleted or has the
 * other IP version. */
void subnets_apps_check(struct subnets *s);
const struct subnets_app *subnets_app_at(const struct subnets *s, size_t kind, size_t i);
size_t subnets_app_count(const struct subnets *s, size_t kind);
/*
 * Returns the application of that name, kind and namespace that requests pools; NULL: none. The UID
 * is ignored.
 */
const struct subnets_app *subnets_app_find(const struct subnets *s, const struct app_id *id);

/* --- a reconcile of all subnets --- */

/*
 * Sorted indexes for a pass: users can create many pools, applications and endpoints. Valid within
 * one turn of the loop.
 */
struct subnets_turn {
	struct subnets *s;
	struct ip_set reserved[2]; /* IPv4, IPv6 */
	struct subnets_turn_pool {
		char *cidr; /* subnets_cidr() */
		const struct kube_object *o;
	} * pools;
	size_t n_pools;
	struct subnets_turn_request {
		const char *subnet;
		uint8_t family;
		size_t order;
		const struct subnets_app *app;
		const struct auto_nic *nic;
	} * requests;
	size_t n_requests;
	struct subnet_leftover *ips; /* addresses of all SpiderEndpoints */
	size_t n_ips;
	bool ips_are_known;
};
void subnets_turn_init(struct subnets_turn *t, struct subnets *s);
void subnets_turn_done(struct subnets_turn *t);
/* Returns the requests for pools of the subnet, one for each interface of an application; *n:
 * their number. */
const struct subnets_turn_request *
subnets_turn_requests(const struct subnets_turn *t, const char *subnet, uint8_t family, size_t *n);

/* --- reconcile of one subnet --- */

struct subnets_inputs {
	struct subnets *s;
	struct subnets_turn *turn;
	const struct kube_object *subnet;
	struct subnet_facts f; /* f.reserved is borrowed from the turn */
	struct subnet_pool *pools;
	const struct kube_object **objects; /* objects of the pools, in the same order */
	struct subnets_pool_key {
		char *key;
		size_t pool;
	} * keys; /* sorted; for the lookup of an application's pools */
	size_t n_keys;
	size_t n_pools;
	struct subnet_want *wants;
	struct subnets_target *targets; /* targets of `wants`, in the same order */
	size_t n_wants;
	struct subnet_leftover *leftovers;
	size_t n_leftovers;
	bool leftovers_known;
	/* entries of the stored status; entries that the plan computes */
	struct subnet_entries is, wanted;
};
void subnets_inputs_init(struct subnets_inputs *k); /* Sets the callbacks of the plan. */
void subnets_collect_pools(struct subnets_inputs *k);
void subnets_collect_wants(struct subnets_inputs *k);
void subnets_inputs_done(struct subnets_inputs *k);
/* Returns whether the pool stays when its application is deleted, for a later application of the
 * same name. */
bool subnets_stays(const struct kube_object *pool);

/* --- requests to the API server --- */

bool subnets_busy(struct subnets *s, enum subnets_op_kind kind, const char *name);
/* Registers the operation; the caller sends the request. */
struct subnets_op *subnets_begin(struct subnets *s, enum subnets_op_kind kind, const char *name);
void subnets_send(struct subnets *s, enum subnets_op_kind kind, const struct kube_request *r);

/* A request body being written. */
struct subnets_body {
	struct buf b;
	struct json_out o;
};
/* Begins a body. version: resourceVersion of the object to patch, written to `metadata`, which
 * the caller completes and closes; NULL: writes only '{'. */
void subnets_body(struct subnets_body *x, const char *version);
void subnets_put_owner(struct json_out *o, const struct kube_object *subnet);
int64_t subnets_count_text(u128 n); /* Returns the count for the status, at most INT64_MAX. */
void subnets_write_status(struct subnets *s, const struct kube_object *subnet,
			  const struct subnet_entries *l, u128 total);
void subnets_unfinalize(struct subnets *s, const struct kube_object *subnet);

/* The application and the interface for which a pool is requested. */
struct subnets_target {
	const char *name, *ifname;
	const struct app_id *app;
	const struct auto_pool_request *request; /* NULL: application of a kind that is not watched */
	uint64_t count;
};
void subnets_make_pool(struct subnets *s, const struct kube_object *subnet,
		       const struct subnets_target *t, const struct subnet_entry *x);
void subnets_set_ips(struct subnets *s, const struct kube_object *pool,
		     const struct subnet_entry *x);
/* Updates labels and ANNOTATION_POOL_NUMBER of a pool. Returns false if they are up to date. */
bool subnets_set_labels(struct subnets *s, const struct kube_object *pool,
			const struct subnets_target *t);
/*
 * Makes the subnet the pool's owner unless the pool has another controller, sets
 * LABEL_OWNER_SUBNET, and copies gateway and routes if the pool has none. Returns false if owner
 * and label are right.
 */
bool subnets_set_owner(struct subnets *s, const struct kube_object *pool,
		       const struct kube_object *subnet);
void subnets_delete_pool(struct subnets *s, const struct kube_object *pool, const char *cause);
void subnets_lookup_owner(struct subnets *s, const char *pool, const struct app_id *app);

/* --- fields of cached objects --- */

const struct json *subnets_meta(const struct kube_object *o, const char *key);
/* returns a label; NULL: there is none */
const char *subnets_label(const struct kube_object *o, const char *key);
/* returns a field of the spec; "": there is none */
const char *subnets_spec(const struct kube_object *o, const char *key);
/* Returns spec.subnet with host bits cleared; unchanged if it is no CIDR, "": absent. */
const char *subnets_cidr(const struct json *spec, char ret[static IP_TEXT_MAX]);
/*
 * Reads the application of a pool from the pool's labels; returns false if a user created the pool.
 * The caller frees *ret with app_id_done().
 */
bool subnets_pool_app(const struct kube_object *pool, struct app_id *ret);

#endif
