/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_GC_UNINJECTED_H
#define UNIRAIL_CONTROLLER_GC_UNINJECTED_H

/*
 * A leader's part: pods that ask for the networks of a group (controller/injection/inject.h) and were created without
 * any, because no webhook answered at that time: right after an install, or while no replica ran
 * (failurePolicy Ignore). They run without rails and nothing else says so. Each is told once, as long as
 * one replica leads: a Warning event at the pod, and unirail_controller_pods_uninjected_total.
 *
 * A pod that has networks of its own counts as served, also where its group's are missing. One whose
 * namespace came to ask after it was created is told as well when a replica comes to lead: it has to be created
 * again, too.
 */

#include "base/buf.h"
#include "controller/gc/census.h"
#include "controller/injection/inject.h"
#include "controller/cache/cache.h"
#include "kube/events.h"

struct uninjected;

struct uninjected_conf { /* borrowed */
	struct world *world;
	struct kube_events *events;
	/* Whether pods of this namespace get the networks that they ask for. */
	bool (*injects)(const void *arg, const char *ns);
	const void *arg;
	const char *ns; /* the controller's own */
};

struct uninjected *uninjected_new(const struct uninjected_conf *c);
void uninjected_free(struct uninjected *u); /* before world_free(); NULL is fine */
/* Whose pods are looked at once namespaces are known; NULL: none any more. */
void uninjected_census(struct uninjected *u, const struct census *c);
/* A pod changed, as census_conf.changed has it. */
void uninjected_pod(struct uninjected *u, const struct kube_object *was,
		    const struct kube_object *is);
void uninjected_metrics(const struct uninjected *u, struct buf *b);

/* Whether a pod without networks had to get some: `own` and `ns` are inject_asks() of its annotations and of its
 * namespace's. The annotation that says so into *key. */
bool uninjected_asks(unsigned int own, unsigned int ns, enum inject_key *key);

#endif
