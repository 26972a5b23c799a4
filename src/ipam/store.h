/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_IPAM_STORE_H
#define UNIRAIL_IPAM_STORE_H

/* The open store, shared by the files of this directory and whereabouts/. */

#include "ipam/ipam.h"
#include "ipam/journal/journal.h"
#include "ipam/select/select_pool.h"

struct ipam {
	const struct root *root;
	char *pool_dir, *state_dir, *hostlocal_dir, *node;
	int64_t (*now_ms)(void);
	int lock;
	struct journal j;
	bool pools_tried, adopted;
	int pools_r;
	struct err pools_err;
	struct pool_set pools;
};

/* Writes the leases as one durable change; compacts the journal if it has become long. n == 0: does
 * nothing. */
int store_commit(struct ipam *i, const struct lease *v, size_t n, struct err *e);
/* Returns a lease in state used; strings are borrowed. */
struct lease store_lease_of(const struct ipam *i, const struct ipam_known *k);
struct select_facts store_facts(const struct ipam *i);

/* host-local's directory: <dir>/<network>/<address>, content "<container id>\r\n<interface>",
 * changed under flock of <dir>/<network>/lock. */
/* Adds host-local's addresses that are in this node's pools to the leases. Once it has
 * succeeded, later calls on the same open store do nothing. */
int store_adopt(struct ipam *i, struct err *e);

/* Returns whether a file of host-local is to be removed. ifname "": a file of an early release of
 * host-local, which has only the container id. */
typedef bool (*adopt_match)(const void *arg, const char *network, const struct ipaddr *a,
			    const char *container_id, const char *ifname);
/* Writes one line to b for each address that host-local and the journal assign to different
 * owners; returns how many. */
int adopt_conflicts(const struct ipam *i, struct buf *b, struct err *e);
/* Removes the matching files; returns their number, 0 if the directory does not exist. */
int adopt_remove(const struct ipam *i, adopt_match match, const void *arg, struct err *e);

#endif
