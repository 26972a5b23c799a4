/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_IPAM_POOL_POOL_CONFLICT_H
#define UNIRAIL_IPAM_POOL_POOL_CONFLICT_H

/*
 * Finds pools that cannot be used together. Two pools conflict if they have the same name, if their
 * subnets overlap without being equal, or if they share an address. All functions take the pools in
 * the order of their age, oldest first, and cost n log n of the pools and their ranges, however
 * many pairs conflict.
 */

#include "ipam/pool/pool.h"

/* ret[i]: index of the oldest pool that conflicts with v[i] and is older than it; n: none. */
void pool_conflicts(const struct pool *const *v, size_t n, size_t *ret);
/* ret[i]: the addresses of v[i] that no younger pool has. ret has n empty sets, which the caller
 * frees. */
void pool_conflicts_open(const struct pool *const *v, size_t n, struct ip_set *ret);
/* The error of two pools that conflict, with location and name of both; 0 if they do not. */
int pool_conflict_error(const struct pool *older, const struct pool *younger, struct err *e);

#endif
