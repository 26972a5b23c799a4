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
	/* missing: how many of `count` this node cannot allocate, because its free addresses of
	 * the pool do not suffice for these and for earlier requests */
	uint32_t count, missing;
};

/* An address that a request needs and that this node does not own: the user requested exactly
 * this address, or the pod had it before (own). */
struct need_name {
	char *pool;
	struct ipaddr ip;
	/* the user did not request it; according to the pool's records, the pod had this address
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
 * whose count is not 0, sorted by name. `missing` of each entry is 0, and ret->names stays empty.
 * Takes O(m log m) time for a total of m entries.
 */
void needs_sum(const struct needs *const *v, size_t n, struct needs *ret);

/*
 * Fills ret, which must be empty. For each request and family the function chooses the first pool,
 * in order of preference, that has a free address on this node or is not known to be exhausted; if
 * all pools are exhausted, the first one. reserved: the needs of earlier requests, whose addresses
 * do not count as free; NULL: none. Addresses that the user requested explicitly and that are in a
 * pool but not in this node's part of it go to ret->names and count as missing. So do addresses
 * that pods had before unirail was installed, unless no_own is true: then such a pod needs any
 * address instead. A request needs no address of a family if its owner already has one, or if this
 * node has one that its pod had before or that is retained for the pod. Returns the number of
 * missing addresses, or an error as ipam_allocate() would return it.
 */
int ipam_needs(struct ipam *i, const struct ip_request *requests, size_t n,
	       const struct needs *reserved, bool (*is_exhausted)(void *arg, const char *pool),
	       void *arg, bool no_own, struct needs *ret, struct err *e);

#endif
