/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_POOL_POOL_USED_H
#define UNIRAIL_CLI_POOL_POOL_USED_H

/*
 * What pods of this node have, by their own state: for `pool check --repair` of a journal that does not
 * say it any more. libcni's cache of results (/var/lib/cni/results) tells addresses with their owners, so
 * that a DEL frees them; network namespaces (/run/netns, /run/docker/netns, those of processes) tell what
 * the cache has lost, without one.
 */

#include "base/file.h"
#include "ipam/ipam.h"

struct pool_found {
	struct ipam_known *v; /* by owners first; an address may be there twice */
	size_t n;
	char **texts; /* what the records borrow */
	size_t n_texts;
	size_t netns; /* looked into */
};

/* Never fails as a whole: what cannot be read is told on `said`. */
void pool_find_used(struct pool_found *f, const struct root *r, struct buf *said);
void pool_found_done(struct pool_found *f);
/* One file of libcni's cache, onto f. */
int pool_found_read(struct pool_found *f, struct span text, struct err *e);

#endif
