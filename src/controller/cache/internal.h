/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_CACHE_INTERNAL_H
#define UNIRAIL_CONTROLLER_CACHE_INTERNAL_H

/* Internals of cache.c. */

#include "controller/cache/cache.h"
#include "kube/informer.h"
#include "kube/spent.h"
#include "kube/sync_error.h"

enum { CLUSTER_CACHE_TEXT_MAX = 4 << 20 };

struct cluster_cache_listener {
	cluster_cache_fn fn; /* NULL: removed */
	void *arg;
};

struct cluster_cache_watch {
	struct cluster_cache *w;
	enum cluster_cache_kind kind;
	struct kube_informer *i;
	struct cluster_cache_listener *v;
	size_t n;
	struct kube_sync_error sync_error;
};

struct cluster_cache {
	struct kube *kube;
	struct cluster_cache_watch watch[CLUSTER_CACHE_KINDS];
	struct kube_sync_errors sync_errors;
	struct kube_spent spent; /* memory used by objects that tenants write */
	/* times of the loop's clock; 0: never */
	int64_t etcd_restored, listens_until;
};

/* Kinds that can be written with rights in one namespace only. */
static inline bool cluster_cache_is_tenants(enum cluster_cache_kind kind)
{
	return kind == CLUSTER_CACHE_MULTUSCONFIGS || kind == CLUSTER_CACHE_NADS;
}

/*
 * Charges a new object to its namespace; caches it as a large one if the namespace is over its
 * limit.
 */
void cluster_cache_spend(struct cluster_cache *w, enum cluster_cache_kind kind,
			 const struct kube_object *o);
/* Returns the charge of a deleted or replaced object. */
void cluster_cache_spend_back(struct cluster_cache *w, enum cluster_cache_kind kind,
			      const struct kube_object *o);

#endif
