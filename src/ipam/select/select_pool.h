/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_IPAM_SELECT_SELECT_POOL_H
#define UNIRAIL_IPAM_SELECT_SELECT_POOL_H

/*
 * Selects addresses: computes a decision from pools, leases and requests. Pure: uses neither files
 * nor clock.
 *
 * Order of pools: those with podAffinity, then nodeName, nodeAffinity, namespaceName,
 * namespaceAffinity, multusName, then the others (Spiderpool's priority); pools of equal priority
 * as listed, matches of a wildcard in the natural order of their names; each pool once. If a pool
 * is exhausted, the next one is used. Within a pool: the lowest free address; if there is none, the
 * address released longest ago, although its reuse delay has not expired. Such an address is
 * preferred to a free address of the next pool, so that a job that restarts stays in its subnet.
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
 * The pools that the request may use for a family, in order; the caller frees ret->v. An empty list
 * is valid: the family is not requested (no4 or no6 is set, no pool is listed or default, or only
 * wildcards without a match are listed). Kind ERR_CONF: a pool does not exist or is invalid, a
 * wildcard is invalid, there are too many wildcards, or all pools are filtered out.
 */
int select_pools(const struct select_facts *f, const struct ip_request *a, uint8_t family,
		 struct pool_list *ret, struct err *e);

struct select_pick {
	size_t request;
	struct ipnet address;
	/* NULL: the address is already allocated, but no pool contains it any more */
	const struct pool *pool;
	bool was_there;
};

struct decision {
	struct select_pick *picks; /* in the order of the requests, IPv4 first */
	size_t n_picks;
	/* to be written to the journal; strings are borrowed from requests and leases */
	struct lease *changes;
	size_t n_changes;
};

int select_addresses(const struct select_facts *f, const struct ip_request *requests, size_t n,
		     struct decision *ret, struct err *e);
void decision_done(struct decision *d);
/* Returns whether the request names an address of the family. */
bool select_wants_family(const struct ip_request *a, uint8_t family);

/* Sets *ret to the address of these pools that the request gets because its pod had it before, and
 * returns its pool; NULL: none. */
const struct pool *select_own(const struct select_facts *f, const struct ip_request *a,
			      const struct pool_list *l, struct ipaddr *ret);
/* Sets *ret to an address that the pools' records assign to the pod, but that this node does not
 * own, and returns its pool; NULL: none. For use if select_own() finds none. */
const struct pool *select_own_away(const struct select_facts *f, const struct ip_request *a,
				   const struct pool_list *l, struct ipaddr *ret);

/* Writes "pool 'rail0' has 90 addresses: 88 in use (default/a net1 172.16.1.10, ...), 2 in
 * quarantine after a conflict"; names at most `owners` owners. */
void select_describe_full(const struct select_facts *f, const struct pool *p, size_t owners,
			  struct buf *b);
/* Go's %v of a list: "[a b]" */
void select_describe_names(const char *const *names, size_t n, struct buf *b);
void select_describe_pools(const struct pool_list *l, struct buf *b);

/* The state of an address. SEL_COOLDOWN: released, and its reuse delay has not expired. SEL_TAKEN:
 * must not be allocated (used, retained, adopted or in quarantine). */
enum select_state { SEL_FREE, SEL_COOLDOWN, SEL_TAKEN };
enum select_state select_state(const struct select_facts *f, const struct pool *p,
			       const struct ipaddr *a);

#endif
