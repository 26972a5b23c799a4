/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_SUBNET_PLAN_H
#define UNIRAIL_CONTROLLER_SUBNET_PLAN_H

/*
 * Which addresses of a SpiderSubnet belong to which pool, as its status says:
 *
 *	{"auto4-web-eth0-2b6c1":{"ips":["10.6.0.2-10.6.0.9"],"application":"apps_v1_Deployment_t_web",
 *	 "held":["10.6.0.10"]},"by-hand":{"ips":["10.6.1.0"]}}
 *
 * The status is written first, by compare-and-swap, and a pool follows what it says there: so two
 * pools never get one address, whoever writes at the same time or is killed in between.
 *
 * An address that a pool gives up is `held` for it at first: the pool loses it, and only when no node
 * has a block with it any more it is free for others (who decides that is not here). When the pool
 * grows again it gets those first. So it is with all addresses of a pool that is gone: a node that
 * cannot be reached may have pods with some, whatever the API server knows of them.
 */

#include "base/ipset.h"

struct json;

struct subnet_entry {
	char *pool;
	struct ip_set ips, held;
	char *app; /* app_id_text(); NULL: the pool was made by hand */
};

struct subnet_entries {
	struct subnet_entry *v; /* in the order of the pools' names, bytewise, each once */
	size_t n;
};

/* NULL and "": none. Kind ERR_CONF. */
int subnet_entries_read(const char *text, uint8_t family, struct subnet_entries *ret,
			struct err *e);
/* Pools in the order of their names; nothing when there is none. */
void subnet_entries_write(const struct subnet_entries *l, struct buf *b);
void subnet_entry_done(struct subnet_entry *x);
void subnet_entries_done(struct subnet_entries *l);
struct subnet_entry *subnet_entry_find(const struct subnet_entries *l, const char *pool);
u128 subnet_entries_count(const struct subnet_entries *l); /* addresses, held ones too */

/* --- what is to be --- */

struct subnet_pool {
	const char *name;
	const char *app; /* NULL: made by hand */
	struct ip_set ips;
	bool deleting;
};

struct subnet_want {
	const char *pool, *app;
	uint64_t count;
};

/* An address that a pod has and no entry, and the pool that it had it of. */
struct subnet_stray {
	struct ipaddr ip;
	const char *pool;
};

struct subnet_facts {
	struct ip_set total, reserved;
	const struct subnet_pool
		*pools; /* that are there, of the subnet's CIDR, in the order of names */
	size_t n_pools;
	const struct subnet_want *wants;
	size_t n_wants;
	/* Which addresses pods have of the pool; NULL: not known yet, asked for by this. */
	const struct ip_set *(*used)(void *arg, const char *pool);
	/* All of those: etcd was set back, or a pool was taken away by force. A pool that grows gets its
	 * own first, and nobody another's. False: not known yet. */
	bool (*strays)(void *arg, const struct subnet_stray **ret, size_t *n);
	/* What an entry holds may be had by others now. */
	bool (*may_release)(void *arg, const struct subnet_entry *x);
	/* Of a pool that is not there and that nobody wants: nobody will make it any more, and what
	 * it had may be had by others now. */
	bool (*is_gone)(void *arg, const struct subnet_entry *x);
	/* The pool cannot be what is wanted; w is one of `wants`. */
	void (*failed)(void *arg, const struct subnet_want *w, const struct err *why);
	void *arg;
};

const struct subnet_pool *subnet_pool_find(const struct subnet_facts *f, const char *name);
/* From what the status says to what it is to say. Costs n log n of pools, wants, addresses and entries together. */
void subnet_plan(const struct subnet_facts *f, struct subnet_entries *l);

/* How many pods an application has at a time; `kind` as "Deployment". */
uint64_t subnet_app_size(const char *kind, const struct json *object);

/* The set as a list of ranges. */
struct json_out;
void subnet_put_set(struct json_out *o, const struct ip_set *s);
/* a without what is not in b. */
void subnet_meet(const struct ip_set *a, const struct ip_set *b, struct ip_set *ret);
void subnet_set_copy(const struct ip_set *s, struct ip_set *ret);
bool subnet_set_same(const struct ip_set *a, const struct ip_set *b);
/* spec.ips without spec.excludeIPs; *ret is emptied first. */
int subnet_spec_ips(const struct json *spec, struct ip_set *ret, struct err *e);

#endif
