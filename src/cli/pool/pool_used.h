/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_POOL_POOL_USED_H
#define UNIRAIL_CLI_POOL_POOL_USED_H

/*
 * Addresses that pods of this node use according to the node's own state: for `pool check --repair`
 * of a damaged or lost journal. libcni's result caches (/var/lib/cni/results,
 * /var/lib/cni/multus/results) have addresses with their owners, so that a DEL can release them.
 * Network namespaces (/run/netns, /run/docker/netns, those of processes) may have addresses that
 * are not in these caches; the owner of such an address is unknown.
 */

#include "base/file.h"
#include "ipam/ipam.h"

struct pool_found {
	/* entries with an owner first; an address may occur several times */
	struct ipam_known *v;
	size_t n;
	char **texts; /* strings that the entries point to */
	size_t n_texts;
	size_t netns; /* number of namespaces inspected */
};

/* Does not fail. Writes to `messages` which files and namespaces cannot be read, and how many
 * addresses it found. */
void pool_find_used(struct pool_found *f, const struct root *r, struct buf *messages);
void pool_found_done(struct pool_found *f);

#endif
