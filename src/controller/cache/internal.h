/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_CACHE_INTERNAL_H
#define UNIRAIL_CONTROLLER_CACHE_INTERNAL_H

/* Internals of cache.c. */

#include "controller/cache/cache.h"
#include "kube/informer.h"
#include "kube/spent.h"
#include "kube/trouble.h"

enum { WORLD_TEXT_MAX = 4 << 20 };

struct world_listener {
	world_fn fn; /* NULL: removed */
	void *arg;
};

struct world_watch {
	struct world *w;
	enum world_kind kind;
	struct kube_informer *i;
	struct world_listener *v;
	size_t n;
	struct kube_sync_error trouble;
};

struct world {
	struct kube *kube;
	struct world_watch watch[WORLD_KINDS];
	struct kube_sync_errors troubles;
	struct kube_spent spent; /* memory used by objects that tenants write */
	/* times of the loop's clock; 0: never */
	int64_t set_back, listens_until;
};

/* Kinds that can be written with rights in one namespace only. */
static inline bool world_is_tenants(enum world_kind kind)
{
	return kind == WORLD_MULTUSCONFIGS || kind == WORLD_NADS;
}

/*
 * Charges a new object to its namespace; caches it as a large one if the namespace is over its
 * limit.
 */
void world_spend(struct world *w, enum world_kind kind, const struct kube_object *o);
/* Returns the charge of a deleted or replaced object. */
void world_spend_back(struct world *w, enum world_kind kind, const struct kube_object *o);

#endif
