/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_GC_ADDRESS_GC_H
#define UNIRAIL_CONTROLLER_GC_ADDRESS_GC_H

/* A leader's part: what is known of nodes, pods, endpoints and blocks (controller/gc/census.h), the
 * pools' status that is made of it (controller/gc/pool_status.h), what is cleared up (controller/gc/gc.h). */

#include "controller/cache/cache.h"
#include "spec/identity.h"
#include "kube/events.h"

struct addresses;
struct uninjected;

struct addresses_conf {
	struct kube *kube; /* borrowed, as world and events */
	struct world *world;
	struct kube_events *events;
	bool gc;		       /* no: pools are counted, and that is all */
	int64_t grace_ms, interval_ms; /* controller/gc/gc.h */
	size_t records_max;	       /* controller/gc/pool_status.h */
	struct identity_conf identity;
	struct uninjected *uninjected; /* told of pods; NULL: none */
};

struct addresses *addresses_new(const struct addresses_conf *c);
void addresses_free(struct addresses *a); /* NULL is fine */
struct census;
const struct census *addresses_census(const struct addresses *a);
/* Under the names that Spiderpool documents; what it has not got is under unirail_. */
void addresses_metrics(const struct addresses *a, struct buf *b);

#endif
