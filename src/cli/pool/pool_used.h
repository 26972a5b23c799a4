/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_POOL_POOL_USED_H
#define UNIRAIL_CLI_POOL_POOL_USED_H

/*
 * Addresses that pods of this node use according to the node's own state: for `pool check --repair`
 * after the journal was lost. libcni's result cache (/var/lib/cni/results) has addresses with their
 * owners, so that a DEL can release them. Network namespaces (/run/netns, /run/docker/netns, those
 * of processes) may have addresses that are not in the cache; the owner of such an address is
 * unknown.
 */

#include "base/file.h"
#include "ipam/ipam.h"

struct pool_found {
	struct ipam_known *v; /* entries with an owner first; an address may occur twice */
	size_t n;
	char **texts; /* strings that the entries point to */
	size_t n_texts;
	size_t netns; /* number of namespaces inspected */
};

/* Does not fail: reports files that cannot be read in `messages`. */
void pool_find_used(struct pool_found *f, const struct root *r, struct buf *messages);
void pool_found_done(struct pool_found *f);

#endif
