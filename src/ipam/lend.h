/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_IPAM_LEND_H
#define UNIRAIL_IPAM_LEND_H

/*
 * For a process that keeps running: pools that are read when it says so, and lent to the store
 * each time that is opened, instead of read anew.
 *
 *	ipam_open(&i, ...);
 *	ipam_lend(i, &pools);
 *	ipam_allocate(i, ...);
 *	ipam_take_back(i, &pools);
 *	ipam_close(i);
 */

#include "ipam/ipam.h"

struct ipam_pools {
	struct pool_set set;
	int r; /* why there are none, with `why`; 0: there are */
	struct err why;
};

/* Reads the folder. A failure leaves pools that are there as they were; where there are none, it is
 * kept, and every call on a store that wants pools answers with it. */
int ipam_pools_read(struct ipam_pools *p, const struct root *r, const char *dir, struct err *e);
void ipam_pools_done(struct ipam_pools *p);

void ipam_lend(struct ipam *i, struct ipam_pools *p);
void ipam_take_back(struct ipam *i, struct ipam_pools *p);

/* Whether the container holds an address that is kept for its pod. */
bool ipam_holds_sticky(const struct ipam *i, const char *container_id);
/* What is known of addresses; valid while the store is open and unchanged. */
const struct lease_table *ipam_leases(const struct ipam *i);
/* This node's name, which the pools' `node` is compared with. */
const char *ipam_node(const struct ipam *i);

#endif
