/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KUBE_DISCOVER_H
#define UNIRAIL_KUBE_DISCOVER_H

/*
 * Resolves a word from the command line to a kind that the API server serves. The word is a plural,
 * singular, kind or short name in upper or lower case, optionally with its group ("pods", "po",
 * "sp", "leases.coordination.k8s.io"). The first match is taken: core kinds, then groups in the
 * server's order, each in its preferred version.
 */

#include "kube/client.h"

/* Called once, with either kind or e; e is -ENOENT if the server has no such kind. The strings of
 * kind live as long as the discovery. */
typedef void (*kube_discover_fn)(void *arg, const struct kube_kind *kind, const struct err *e);

struct kube_discover;

struct kube_discover *kube_discover(struct kube *k, const char *word, kube_discover_fn fn,
				    void *arg);
void kube_discover_free(struct kube_discover *d); /* accepts NULL */

#endif
