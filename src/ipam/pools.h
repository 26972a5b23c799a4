/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_IPAM_POOLS_H
#define UNIRAIL_IPAM_POOLS_H

/* For long-running processes: the caller reads the pools when they change, and attaches them to the
 * store each time it opens the store. */

#include "ipam/ipam.h"

struct ipam_pools {
	struct pool_set set;
	int r; /* 0: pools were read; otherwise the error, with its text in `cause` */
	struct err cause;
};

/* Reads the directory. On failure, pools that were read before stay in use; if no pools were read
 * before, the error is stored and returned by every call that needs pools. */
int ipam_pools_read(struct ipam_pools *p, const struct root *r, const char *dir, struct err *e);
void ipam_pools_done(struct ipam_pools *p);

void ipam_attach_pools(struct ipam *i, struct ipam_pools *p);
void ipam_detach_pools(struct ipam *i, struct ipam_pools *p);

/* Returns whether the container has an address that is retained for its pod after the release. */
bool ipam_holds_sticky(const struct ipam *i, const char *container_id);
/* Returns the leases; valid until the store changes or is closed. */
const struct lease_table *ipam_leases(const struct ipam *i);
/* Returns the name of this node, with which the pools' `node` is compared. */
const char *ipam_node(const struct ipam *i);

#endif
