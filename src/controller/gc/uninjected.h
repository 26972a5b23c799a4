/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_GC_UNINJECTED_H
#define UNIRAIL_CONTROLLER_GC_UNINJECTED_H

/*
 * Runs in the leader: reports pods that request the networks of a group
 * (controller/injection/inject.h) but were created without any, because no webhook replied at that
 * time: right after an installation, or while no replica ran (failurePolicy Ignore). Such a pod
 * runs without RDMA interfaces and nothing else reports it. Each pod is reported once per leader: a
 * Warning event on the pod, and unirail_controller_pods_uninjected_total.
 *
 * A pod with networks of its own is not reported, even if those of its group are missing. When a
 * replica becomes leader it also reports pods whose namespace got the annotation after they were
 * created: they have to be recreated, too.
 */

#include "base/buf.h"
#include "controller/gc/gc_cache.h"
#include "controller/injection/inject.h"
#include "controller/cache/cache.h"
#include "kube/events.h"

struct uninjected;

struct uninjected_conf { /* borrowed */
	struct kube_cache *cache;
	struct kube_events *events;
	/* Returns whether the webhook injects networks into pods of this namespace. */
	bool (*injects)(const void *arg, const char *ns);
	const void *arg;
	const char *ns; /* the controller's own namespace */
};

struct uninjected *uninjected_new(const struct uninjected_conf *c);
void uninjected_free(struct uninjected *u); /* call before cluster_cache_free(); accepts NULL */
/* Sets the cache whose pods are checked when namespaces have been listed; NULL: none. */
void uninjected_set_cache(struct uninjected *u, const struct kube_cache *c);
/* The caller reports that a pod changed; was, is: see kube_cache_fn. */
void uninjected_pod(struct uninjected *u, const struct kube_object *was,
		    const struct kube_object *is);
void uninjected_metrics(const struct uninjected *u, struct buf *b);

/*
 * Returns whether a pod without networks should have got some: `own` and `ns` are inject_requests()
 * of the annotations of the pod and of its namespace. Sets *key to the annotation that requests
 * them.
 */
bool uninjected_requests(unsigned int own, unsigned int ns, enum inject_key *key);

#endif
