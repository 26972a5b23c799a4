/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_IPAM_WHEREABOUTS_INTERNAL_H
#define UNIRAIL_IPAM_WHEREABOUTS_INTERNAL_H

/* Between whereabouts.c, whereabouts.c and whereabouts_release.c. */

#include "ipam/store.h"
#include "ipam/whereabouts/whereabouts.h"

/* The folder's name; free() it. */
char *whereabouts_pool_name(const struct ipnet *net, const char *network_name);
bool whereabouts_pool_is_of(const struct whereabouts_pool *p, const char *network_name);
/* Index of an open pool; w->n: it is not open. */
size_t whereabouts_find(const struct whereabouts *w, const struct ipnet *net,
			const char *network_name);
/* Whether an address that is held in the pool of a range is that range's: it lies within it, or
 * (the configuration changed) within none of the ask. */
bool whereabouts_counts_for(const struct whereabouts_ask *a, size_t range, const struct ipaddr *ip);

#endif
