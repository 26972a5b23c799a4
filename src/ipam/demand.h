/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_IPAM_DEMAND_H
#define UNIRAIL_IPAM_DEMAND_H

/*
 * Computes how many addresses of each pool the requests need, before the allocation: in a cluster a
 * node owns a part of each pool, and can get more. Without this step a request would use its backup
 * pools whenever this node has no free address of the first pool.
 */

#include "ipam/ipam.h"

struct need {
	char *pool;
	uint32_t count, missing; /* missing: not available here, or reserved for earlier requests */
};

/* An address that is requested by name and that this node does not own. */
struct need_name {
	char *pool;
	struct ipaddr ip;
	/* not requested by the user: according to the pool's records, the pod had this address
	 * before */
	bool own;
};

struct needs {
	struct need *v;
	size_t n;
	struct need_name *names;
	size_t n_names;
};

void needs_done(struct needs *n);
/*
 * Fills ret, which must be empty, with the sums of `count` of n needs: one entry for each pool
 * whose count is not 0, sorted by name, without `missing` and addresses requested by name. Costs
 * n log n of all entries.
 */
void needs_sum(const struct needs *const *v, size_t n, struct needs *ret);

/*
 * Fills ret, which must be empty. For each request and family it takes the first pool, in order of
 * preference, that has a free address or is not known to be exhausted; if all are exhausted, the
 * first. reserved: the needs of earlier requests. Addresses requested by name that are in a pool
 * but not in this node's part of it go to ret->names and count as missing. So do addresses that
 * pods had before unirail was installed; no_own: such a pod gets any other address instead. A
 * request needs nothing if its owner already has addresses, or if an address that its pod had
 * before, or that is retained for it, is available on this node. Returns the number of missing
 * addresses, or an error as ipam_allocate() would return it.
 */
int ipam_needs(struct ipam *i, const struct ip_request *requests, size_t n,
	       const struct needs *reserved, bool (*is_exhausted)(void *arg, const char *pool),
	       void *arg, bool no_own, struct needs *ret, struct err *e);

#endif
