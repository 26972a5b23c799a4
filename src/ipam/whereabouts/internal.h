/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_IPAM_WHEREABOUTS_INTERNAL_H
#define UNIRAIL_IPAM_WHEREABOUTS_INTERNAL_H

/* Internals of whereabouts.c. */

#include "ipam/store.h"
#include "ipam/whereabouts/whereabouts.h"

/* The name of a pool's directory; freed by the caller. */
char *whereabouts_pool_name(const struct ipnet *net, const char *network_name);
bool whereabouts_pool_is_of(const struct whereabouts_pool *p, const char *network_name);
/* Index of an open pool; w->n: not open. */
size_t whereabouts_find(const struct whereabouts *w, const struct ipnet *net,
			const char *network_name);
/*
 * Whether an address allocated in the pool of a range belongs to that range: it is within the
 * range, or (after a change of the configuration) within no range of the request in the same
 * network.
 */
bool whereabouts_counts_for(const struct whereabouts_request *a, size_t range,
			    const struct ipaddr *ip);

#endif
