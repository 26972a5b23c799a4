/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_IPAM_LEND_H
#define UNIRAIL_IPAM_LEND_H

/*
 * For long-running processes: pools are read on request, and attached to the store each time it is
 * opened, instead of being read again.
 */

#include "ipam/ipam.h"

struct ipam_pools {
	struct pool_set set;
	int r; /* 0: pools were read; otherwise the error, with its text in `why` */
	struct err cause;
};

/* Reads the directory. On failure, pools that were read before stay in use; if there are none, the
 * error is stored and returned by every call that needs pools. */
int ipam_pools_read(struct ipam_pools *p, const struct root *r, const char *dir, struct err *e);
void ipam_pools_done(struct ipam_pools *p);

void ipam_attach_pools(struct ipam *i, struct ipam_pools *p);
void ipam_detach_pools(struct ipam *i, struct ipam_pools *p);

/* Returns whether the container has an address that will be retained for its pod. */
bool ipam_holds_sticky(const struct ipam *i, const char *container_id);
/* The leases; valid while the store is open and unchanged. */
const struct lease_table *ipam_leases(const struct ipam *i);
/* This node's name, matched against the pools' `node`. */
const char *ipam_node(const struct ipam *i);

#endif
