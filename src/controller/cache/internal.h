/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_CACHE_INTERNAL_H
#define UNIRAIL_CONTROLLER_CACHE_INTERNAL_H

/* Between cache.c (watches, who is told), cache.c (whether what they tell can be trusted), cache.c (how much
 * is kept) and cache.c (what is kept). */

#include "controller/cache/cache.h"
#include "kube/informer.h"
#include "kube/spent.h"
#include "kube/trouble.h"

enum { WORLD_TEXT_MAX = 4 << 20 };

struct world_listener {
	world_fn fn; /* NULL: gone */
	void *arg;
};

struct world_watch {
	struct world *w;
	enum world_kind kind;
	struct kube_informer *i;
	struct world_listener *v;
	size_t n;
	struct kube_trouble trouble;
};

struct world {
	struct kube *kube;
	struct world_watch watch[WORLD_KINDS];
	struct kube_troubles troubles;
	struct kube_spent spent; /* by what tenants write */
	/* cache.c, on the loop's clock; 0: never */
	int64_t set_back, listens_until;
};

/* Kinds that whoever may write in a namespace writes. */
static inline bool world_is_tenants(enum world_kind kind)
{
	return kind == WORLD_MULTUSCONFIGS || kind == WORLD_NADS;
}

/* Of an object that came: keeps less of it where its namespace has no room. */
void world_spend(struct world *w, enum world_kind kind, const struct kube_object *o);
/* Of one that is gone. */
void world_spend_back(struct world *w, enum world_kind kind, const struct kube_object *o);

#endif
