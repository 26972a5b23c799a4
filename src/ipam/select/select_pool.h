/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_IPAM_SELECT_SELECT_POOL_H
#define UNIRAIL_IPAM_SELECT_SELECT_POOL_H

/*
 * From facts (pools, leases, asks) to a decision, without a file or a clock.
 *
 * Order of pools: those with podAffinity, then nodeName, nodeAffinity, namespaceName,
 * namespaceAffinity, multusName, then the others (Spiderpool's priority); equals as listed, a
 * wildcard's matches in the natural order of their names; each once. A pool with nothing left falls
 * through to the next. Within a pool: the lowest address that is free;
 * when there is none, the one that has rested longest (before any backup pool: a job that
 * restarts stays in its subnet).
 */

#include "ipam/ipam.h"
#include "ipam/journal/lease.h"

struct select_facts {
	const struct pool_set *pools;
	const struct lease_table *leases;
	const char *node; /* this node's name */
	int64_t now_ms;
};

struct pool_list {
	const struct pool **v;
	size_t n;
};

/*
 * The pools that the ask may use for a family, in order. Zero is no error: the family is not
 * asked for (nothing listed, or only wildcards that match nothing). Kind ERR_CONF: no such pool,
 * bad wildcard, all filtered out.
 */
int select_pools(const struct select_facts *f, const struct ipam_ask *a, uint8_t family,
		 struct pool_list *ret, struct err *e);

struct select_pick {
	size_t ask;
	struct ipnet address;
	const struct pool *pool; /* NULL: an address held in a pool that is gone */
	bool was_there;
};

struct decision {
	struct select_pick *picks; /* in the order of the asks, IPv4 first */
	size_t n_picks;
	struct lease *changes; /* to be made durable; strings borrowed from asks and leases */
	size_t n_changes;
};

int select_addresses(const struct select_facts *f, const struct ipam_ask *asks, size_t n,
		     struct decision *ret, struct err *e);
void decision_done(struct decision *d);

/* The address of these pools that the ask would get because it was its pod's before; NULL: none. */
const struct pool *select_own(const struct select_facts *f, const struct ipam_ask *a,
			      const struct pool_list *l, struct ipaddr *ret);
/* When there is none: one that its pod has by the pool's records, and that is not this node's. */
const struct pool *select_own_away(const struct select_facts *f, const struct ipam_ask *a,
				   const struct pool_list *l, struct ipaddr *ret);

/* "pool 'rail0' has 90 addresses: 88 in use (default/a net1 172.16.1.10, ...), 2 in quarantine" */
void select_words_full(const struct select_facts *f, const struct pool *p, size_t owners,
		       struct buf *b);
/* Go's %v of a list: "[a b]" */
void select_words_names(const char *const *names, size_t n, struct buf *b);
void select_words_pools(const struct pool_list *l, struct buf *b);

/* Whether an address may be handed out now. */
enum select_state { SEL_FREE, SEL_RESTING, SEL_TAKEN };
enum select_state select_state(const struct select_facts *f, const struct pool *p,
			       const struct ipaddr *a);

#endif
