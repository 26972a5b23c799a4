/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_GC_ADDRESS_GC_H
#define UNIRAIL_CONTROLLER_GC_ADDRESS_GC_H

/*
 * Address management of the leader: owns the cache of nodes, pods, endpoints and blocks
 * (controller/gc/gc_cache.h) and the modules that use it: the pools' status
 * (controller/gc/pool_status.h), garbage collection (controller/gc/gc.h), and reports of networks
 * whose device resource no node has (controller/gc/unserved.h).
 */

#include "controller/cache/cache.h"
#include "spec/identity.h"
#include "kube/events.h"

struct addresses;
struct uninjected;

struct addresses_conf {
	struct kube *kube; /* borrowed, like cache and events */
	struct cluster_cache *cache;
	struct kube_events *events;
	bool gc;		       /* false: pools are counted, nothing is deleted or released
	                                */
	int64_t grace_ms, interval_ms; /* see controller/gc/gc.h */
	size_t records_max;	       /* see controller/gc/pool_status.h */
	struct identity_conf identity;
	struct uninjected *uninjected; /* notified of pods; NULL: none */
	/* addresses_missing() of this SpiderMultusConfig may have changed. May be NULL. */
	void (*missing_changed)(void *arg, const char *ns, const char *name);
	void *arg;
};

struct addresses *addresses_new(const struct addresses_conf *c);
void addresses_free(struct addresses *a); /* accepts NULL */
/* Like unserved_annotation() (controller/gc/unserved.h). */
char *addresses_missing(const struct addresses *a, const struct kube_object *smc, const char *is);
const struct kube_cache *addresses_cache(const struct addresses *a);
/*
 * Metrics have the names that Spiderpool documents; those that Spiderpool does not have begin with
 * unirail_.
 */
void addresses_metrics(const struct addresses *a, struct buf *b);

#endif
