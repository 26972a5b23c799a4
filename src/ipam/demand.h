/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_IPAM_DEMAND_H
#define UNIRAIL_IPAM_DEMAND_H

/*
 * How many addresses of which pools asks need, before they are asked: in a cluster a node has a part
 * of each pool, and more of it may come. Without this an ask would fall through to its backup pools
 * whenever this node happens to have none of the first.
 */

#include "ipam/ipam.h"

struct need {
	char *pool;
	uint32_t count, missing; /* missing: beyond what is here and not promised to others */
};

/* An address that is asked for by name and that this node does not have. */
struct need_name {
	char *pool;
	struct ipaddr ip;
	bool own; /* nobody named it: its pod had it before, by the pool's records */
};

struct needs {
	struct need *v;
	size_t n;
	struct need_name *names;
	size_t n_names;
};

void needs_done(struct needs *n);
const struct need *needs_find(const struct needs *n, const char *pool);
/* Adds so many to a pool's count. */
void needs_add(struct needs *n, const char *pool, uint32_t count);

/*
 * Onto ret, which is empty: for each ask and family the first pool in its order that has an address
 * left over or is not known to be dry; when all are dry, the first. `promised`: those that came
 * before. Addresses asked for by name that lie in a pool and not in this node's part of it are named,
 * and are missing; so are those that pods had before unirail, unless no_own: then any other will do. An ask
 * that holds addresses already, or whose pod has one kept or had one before that is here, needs none.
 * Returns how many addresses are missing, or an error as ipam_allocate() would have it.
 */
int ipam_needs(struct ipam *i, const struct ipam_ask *asks, size_t n, const struct needs *promised,
	       bool (*is_dry)(void *arg, const char *pool), void *arg, bool no_own,
	       struct needs *ret, struct err *e);

#endif
