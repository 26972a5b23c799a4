/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_SUBNET_INTERNAL_H
#define UNIRAIL_CONTROLLER_SUBNET_INTERNAL_H

/*
 * Between subnets.c (when, and what is done), reconcile.c (all that there is, indexed), reconcile.c (what of it
 * concerns one subnet, and who wants what),
 * subnets.c (what is remembered and told), apps.c (who asks), subnets.c (requests under
 * way), write.c (of pools), status.c (of subnets), reconcile.c (questions).
 */

#include "base/loop.h"
#include "controller/subnet/plan.h"
#include "controller/subnet/subnets.h"
#include "kube/informer.h"
#include "spec/subnet_annotation.h"

enum { SUBNETS_APP_KINDS = 7, SUBNETS_BODY_MAX = 2 << 20, SUBNETS_AGAIN_MS = 2000 };

#define SUBNETS_FINALIZER "spiderpool.spidernet.io"

extern const struct kube_kind subnets_pools, subnets_subnets, subnets_blocks;

/* An application that asks for pools: a kube_object.value. */
struct subnets_app {
	struct app_id id;
	uint64_t size;
	struct auto_wish wish;
	char *trouble; /* its annotations cannot be read; wish is empty */
};

/* A request that is under way, or whose end the watch has not shown yet. */
struct subnets_op {
	struct subnets *s;
	struct kube_call *call;
	enum subnets_op_kind {
		SUBNETS_STATUS, /* of a subnet */
		SUBNETS_POOL,	/* any change of a pool */
		SUBNETS_USED,	/* a pool's addresses in use are asked for */
		SUBNETS_LOOK,	/* blocks of a pool are */
		SUBNETS_OWNER,	/* whether a pool's owner is there */
	} kind;
	char *name, *was; /* was: its version before; "": it was not there */
	int64_t until;	  /* once answered: when it counts as over in any case */
};

/* What is remembered of a pool while it matters. */
struct subnets_pool_note {
	char *pool;
	int64_t since; /* that it lacks what is held of it, or that it is not there; 0: no */
	bool seen;     /* it was there since we lead */
	bool clear;    /* no block had any of `looked` when that was looked at */
	struct ip_set looked;
	struct ip_set used;
	int64_t used_at; /* 0: not known */
	bool orphan;	 /* the owner was not there */
	char *said;	 /* the last trouble */
};

struct subnets {
	struct subnets_conf conf;
	struct loop *loop;
	struct kube_informer *apps[SUBNETS_APP_KINDS]; /* NULL: not looked at */
	bool old_cronjobs; /* the server does not know those of batch/v1 */
	void *ops, *notes; /* trees (tsearch) of struct subnets_op and struct subnets_pool_note */
	struct loop_timer *timer;
	int64_t due;
	uint64_t made, resized, reclaimed, failed;
};

int64_t subnets_now(const struct subnets *s);
/* Something that is not there may count as gone. */
bool subnets_is_sure(const struct subnets *s);
/* A look at everything, after so many ms at the latest. */
void subnets_wake(struct subnets *s, int64_t ms);
struct subnets_pool_note *subnets_note(struct subnets *s, const char *pool);
void subnets_forget(struct subnets *s, const char *pool);
void subnets_notes_done(struct subnets *s);
void subnets_say(struct subnets *s, const char *pool, const struct app_id *app, const char *reason,
		 const struct err *why);

/* --- applications --- */

void subnets_apps_start(struct subnets *s);
void subnets_apps_stop(struct subnets *s);
bool subnets_apps_known(struct subnets *s);
/* Tells those whose subnet there is not. */
void subnets_apps_check(struct subnets *s);
const struct subnets_app *subnets_app_at(const struct subnets *s, size_t kind, size_t i);
size_t subnets_app_count(const struct subnets *s, size_t kind);
/* One of that name, kind and namespace that asks for pools; NULL: none. */
const struct subnets_app *subnets_app_find(const struct subnets *s, const struct app_id *id);

/* --- one look at all subnets --- */

/* Everything that the looks at the subnets search, sorted once: pools, applications and addresses each may be as many as
 * users make. Valid within one turn of the loop. */
struct subnets_turn {
	struct subnets *s;
	struct ip_set reserved[2]; /* IPv4, IPv6 */
	struct subnets_turn_pool {
		char *cidr; /* subnets_cidr() */
		const struct kube_object *o;
	} * pools;
	size_t n_pools;
	struct subnets_turn_wish {
		const char *subnet;
		uint8_t family;
		size_t order;
		const struct subnets_app *app;
		const struct auto_nic *nic;
	} * wishes;
	size_t n_wishes;
	struct subnet_stray *ips; /* of all SpiderEndpoints */
	size_t n_ips;
	bool ips_are_known;
};
void subnets_turn_init(struct subnets_turn *t, struct subnets *s);
void subnets_turn_done(struct subnets_turn *t);
/* The pools of a CIDR, in the order of their names. */
const struct subnets_turn_pool *subnets_turn_pools(const struct subnets_turn *t, const char *cidr,
						   size_t *n);
/* Who asks for pools of the subnet. */
const struct subnets_turn_wish *subnets_turn_wishes(const struct subnets_turn *t,
						    const char *subnet, uint8_t family, size_t *n);
/* What pods have of these addresses; *ret is the caller's, to be freed. */
void subnets_turn_ips(struct subnets_turn *t, const struct ip_set *of, struct subnet_stray **ret,
		      size_t *n);

/* --- one look at one subnet --- */

struct subnets_look {
	struct subnets *s;
	struct subnets_turn *turn;
	const struct kube_object *subnet;
	struct subnet_facts f; /* reserved: the turn's */
	struct subnet_pool *pools;
	const struct kube_object **objects; /* of pools */
	struct subnets_pool_key {
		char *key;
		size_t pool;
	} * keys; /* by which applications find their pools, sorted */
	size_t n_keys;
	size_t n_pools;
	struct subnet_want *wants;
	struct subnets_target *targets; /* of wants */
	struct app_id *apps;		/* of targets whose application is no object of ours */
	size_t n_wants, n_apps;
	struct subnet_stray *strays;
	size_t n_strays;
	bool strays_known;
	struct subnet_entries is, wanted;
};
void subnets_look_init(struct subnets_look *k); /* what the plan may ask */
void subnets_gather_pools(struct subnets_look *k);
void subnets_gather_wants(struct subnets_look *k);
void subnets_look_done(struct subnets_look *k);
/* A pool that its application leaves behind for one of its name. */
bool subnets_stays(const struct kube_object *pool);

/* --- requests --- */

bool subnets_busy(struct subnets *s, enum subnets_op_kind kind, const char *name);
void subnets_ops_done(struct subnets *s);
/* The caller sends it. */
struct subnets_op *subnets_begin(struct subnets *s, enum subnets_op_kind kind, const char *name);
void subnets_send(struct subnets *s, enum subnets_op_kind kind, const struct kube_request *r);

/* An object that is begun. */
struct subnets_body {
	struct buf b;
	struct json_out o;
};
void subnets_body(struct subnets_body *x);
void subnets_put_owner(struct json_out *o, const struct kube_object *subnet);
int64_t subnets_count_text(u128 n); /* as the status has it: that of a large IPv6 range is cut */
void subnets_write_status(struct subnets *s, const struct kube_object *subnet,
			  const struct subnet_entries *l, u128 total);
void subnets_unfinalize(struct subnets *s, const struct kube_object *subnet);

/* What a pool is made for. */
struct subnets_target {
	const char *name, *ifname;
	const struct app_id *app;
	const struct auto_wish *wish; /* NULL: of another kind, nothing is known but the pool */
	uint64_t count;
};
void subnets_make_pool(struct subnets *s, const struct kube_object *subnet,
		       const struct subnets_target *t, const struct subnet_entry *x);
void subnets_set_ips(struct subnets *s, const struct kube_object *pool,
		     const struct subnet_entry *x);
/* Labels and annotation as they are to be; false: they are. */
bool subnets_set_labels(struct subnets *s, const struct kube_object *pool,
			const struct subnets_target *t);
/* The subnet as its owner, and what is the subnet's; false: it is. */
bool subnets_set_owner(struct subnets *s, const struct kube_object *pool,
		       const struct kube_object *subnet);
void subnets_delete_pool(struct subnets *s, const struct kube_object *pool, const char *why);
void subnets_ask_used(struct subnets *s, const char *pool);
void subnets_ask_blocks(struct subnets *s, const char *pool, const struct ip_set *of);
void subnets_ask_owner(struct subnets *s, const char *pool, const struct app_id *app);

/* --- objects --- */

const struct json *subnets_meta(const struct kube_object *o, const char *key);
const char *subnets_label(const struct kube_object *o, const char *key); /* NULL: none */
const char *subnets_spec(const struct kube_object *o, const char *key);	 /* "": none */
/* spec.subnet as a network: it may have been written with host bits. */
const char *subnets_cidr(const struct json *spec, char ret[static IP_TEXT_MAX]);
/* Whose pool it is, by its labels; false: it was made by hand. For app_id_done(). */
bool subnets_pool_app(const struct kube_object *pool, struct app_id *ret);

#endif
