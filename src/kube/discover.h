/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KUBE_DISCOVER_H
#define UNIRAIL_KUBE_DISCOVER_H

/*
 * Resolves a word from the command line to a kind of this server: plural, singular, kind or short
 * name, in any case, optionally with its group ("pods", "po", "sp", "leases.coordination.k8s.io").
 * Core kinds first, then groups in the server's order, each in its preferred version.
 */

#include "kube/client.h"

/* kind is NULL when e is set: -ENOENT names the word. Its strings live as long as the discovery. */
typedef void (*kube_discover_fn)(void *arg, const struct kube_kind *kind, const struct err *e);

struct kube_discover;

struct kube_discover *kube_discover(struct kube *k, const char *word, kube_discover_fn fn,
				    void *arg);
void kube_discover_free(struct kube_discover *d); /* accepts NULL */

#endif
