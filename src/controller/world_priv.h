/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_WORLD_PRIV_H
#define UNIRAIL_CONTROLLER_WORLD_PRIV_H

/* Between world.c (watches, who is told), world_hold.c (whether what they tell can be trusted) and
 * world_trim.c (what is kept). */

#include "controller/world.h"
#include "kube/informer.h"
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
	/* world_hold.c, on the loop's clock; 0: never */
	int64_t set_back, listens_until;
};

#endif
