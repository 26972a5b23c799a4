/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_NAD_NADS_H
#define UNIRAIL_CONTROLLER_NAD_NADS_H

/*
 * A leader's part: for each SpiderMultusConfig the NAD that it stands for (controller/nad/render.h) is
 * made, and made right again at once when somebody edits or deletes it. It goes with its owner by
 * Kubernetes' own garbage collection. A NAD of the old name, when cr-name was changed, is removed; one
 * of another SpiderMultusConfig is left alone, one of nobody's is taken over, one that is being
 * deleted is waited for.
 *
 * How it went is told by the object's status (condition "Ready") and events; nothing is written that is
 * there already. What fails is tried again, after 1 s up to a minute.
 */

#include "controller/cache/cache.h"
#include "kube/events.h"

struct nads;

struct nads_conf {
	struct kube *kube;
	struct world *world;
	struct kube_events *events;
};

struct nads *nads_new(const struct nads_conf *c);
void nads_free(struct nads *n); /* NULL is fine */

struct nads_counts {
	uint64_t written, failed, removed; /* requests */
	size_t wrong;			   /* SpiderMultusConfigs without their NAD now */
};
struct nads_counts nads_counts(const struct nads *n);

#endif
