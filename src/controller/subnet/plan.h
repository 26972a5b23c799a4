/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_SUBNET_PLAN_H
#define UNIRAIL_CONTROLLER_SUBNET_PLAN_H

/*
 * Decides which addresses of a SpiderSubnet belong to which pool. The decision is stored in the
 * subnet's status:
 *
 * 	{"auto4-web-eth0-2b6c1":{"ips":["10.6.0.2-10.6.0.9"],"application":"apps_v1_Deployment_t_web",
 * 	 "pendingRelease":["10.6.0.10"]},"by-hand":{"ips":["10.6.1.0"]}}
 *
 * The controller writes the status first, by compare-and-swap, and then changes the pools to match
 * it. So two pools never get the same address, even with concurrent writers or after a crash
 * between the writes.
 *
 * An address removed from a pool of an application is in `pendingRelease` at first: the pool loses
 * it, and it becomes available to other pools only when no node has a block with the address (the
 * caller decides this, see may_release()). When the pool grows again it gets its pending addresses
 * before free ones. All addresses of a deleted pool are handled the same way: pods on an
 * unreachable node may still use some of them.
 */

#include "base/ipset.h"

struct json;

struct subnet_entry {
	char *pool;
	struct ip_set ips, pending_release;
	char *app; /* app_id_text(); NULL: the pool was created by a user */
};

struct subnet_entries {
	struct subnet_entry *v; /* sorted by pool name, bytewise, no duplicates */
	size_t n;
};

/* Reads the text of status.controlledIPPools; NULL and "" are an empty list. Errors are of class
 * ERR_DECODE (the text is not JSON) or ERR_CONF (a range of addresses is invalid). */
int subnet_entries_read(const char *text, uint8_t family, struct subnet_entries *ret,
			struct err *e);
/* Writes the pools sorted by name; nothing if there are none. */
void subnet_entries_write(const struct subnet_entries *l, struct buf *b);
void subnet_entry_done(struct subnet_entry *x);
void subnet_entries_done(struct subnet_entries *l);
struct subnet_entry *subnet_entry_find(const struct subnet_entries *l, const char *pool);
/* Returns the number of addresses: ips and pending_release of all entries. */
u128 subnet_entries_count(const struct subnet_entries *l);

/* --- plan of a subnet's pools --- */

struct subnet_pool {
	const char *name;
	const char *app; /* application of the pool; NULL: created by a user */
	struct ip_set ips;
	bool deleting;
};

struct subnet_want {
	const char *pool, *app;
	uint64_t count;
};

/* An address that a pod has and no entry contains, and the pool it was allocated from. */
struct subnet_leftover {
	struct ipaddr ip;
	const char *pool;
};

struct subnet_facts {
	struct ip_set total, reserved;
	const struct subnet_pool *pools; /* existing pools of the subnet's CIDR, sorted by name */
	size_t n_pools;
	const struct subnet_want *wants;
	size_t n_wants;
	/* Returns the addresses of the pool that pods use; NULL: they are not known yet, and the
	 * call requests them. */
	const struct ip_set *(*used)(void *arg, const char *pool);
	/*
	 * Lists all leftovers, which exist after an etcd restore or after a pool was deleted by
	 * force; returns false if they are not known yet. A growing pool gets its own leftovers
	 * first and never the leftovers of other pools.
	 */
	bool (*leftovers)(void *arg, const struct subnet_leftover **ret, size_t *n);
	/* Returns whether other pools may get the addresses in pending_release of an entry now. */
	bool (*may_release)(void *arg, const struct subnet_entry *x);
	/*
	 * For a pool that does not exist and is not requested: returns whether it will not be
	 * created any more, so that other pools may get its addresses now.
	 */
	bool (*is_deleted)(void *arg, const struct subnet_entry *x);
	/* Called if a request cannot be satisfied; w is an element of `wants`. */
	void (*failed)(void *arg, const struct subnet_want *w, const struct err *cause);
	void *arg;
};

const struct subnet_pool *subnet_pool_find(const struct subnet_facts *f, const char *name);
/*
 * Turns the entries of the current status into those of the new one. Costs n log n for n pools,
 * requests, addresses and entries together.
 */
void subnet_plan(const struct subnet_facts *f, struct subnet_entries *l);

/* Returns the number of pods of an application. For a Job or CronJob: completions or else
 * parallelism, at least 1. `kind` as in "Deployment". */
uint64_t subnet_app_size(const char *kind, const struct json *object);

/* Writes the set as an array of ranges. */
struct json_out;
void subnet_put_set(struct json_out *o, const struct ip_set *s);
bool subnet_set_same(const struct ip_set *a, const struct ip_set *b);
/* Reads spec.ips without spec.excludeIPs. *ret is overwritten. */
int subnet_spec_ips(const struct json *spec, struct ip_set *ret, struct err *e);

#endif
