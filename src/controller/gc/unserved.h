/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_GC_UNSERVED_H
#define UNIRAIL_CONTROLLER_GC_UNSERVED_H

/*
 * Runs in the leader: reports SpiderMultusConfigs whose device resource no node has (no capacity,
 * or 0). The webhook adds that resource to the pods of the network's group, which then stay
 * Pending with "Insufficient", as if the devices were only in use. The reports are a Warning event
 * on the SpiderMultusConfig after UNSERVED_GRACE_MS, in which a kubelet may restart and a new node
 * register its devices; a Normal event when a node has the resource again; the metric
 * unirail_controller_networks_without_resource; and the annotation of spec/missing_resource.h,
 * which controller/nad writes and `unirail status` on every node shows.
 */

#include "base/buf.h"
#include "controller/cache/cache.h"
#include "controller/gc/gc_cache.h"
#include "kube/events.h"

/* UNSERVED_SUGGESTIONS_MAX: maximum number of networks for which one check searches for a
 * resource with a similar name, since tenants can create any number of networks. */
enum { UNSERVED_GRACE_MS = 30 * 1000, UNSERVED_SUGGESTIONS_MAX = 64 };

struct unserved;

struct unserved_conf { /* borrowed */
	struct kube *kube;
	struct kube_cache *cache;
	const struct kube_cache *gc_cache;
	struct kube_events *events;
	/* unserved_annotation() of this SpiderMultusConfig may have changed. May be NULL. */
	void (*changed)(void *arg, const char *ns, const char *name);
	void *arg;
};

struct unserved *unserved_new(const struct unserved_conf *c);
void unserved_free(struct unserved *u); /* call before kube_cache_free(); accepts NULL */
/* The caller reports that a node changed; was, is: see kube_cache_fn. */
void unserved_node(struct unserved *u, const struct kube_object *was, const struct kube_object *is);
void unserved_metrics(const struct unserved *u, struct buf *b);
/*
 * Returns the annotation that this SpiderMultusConfig's NAD should have, which the caller frees;
 * NULL: none. `is`: the NAD's current one, which stays until this leader has decided; NULL: none.
 */
char *unserved_annotation(const struct unserved *u, const struct kube_object *smc, const char *is);

/* --- the table of networks without resource, for unserved.c and tests --- */

struct unserved_network {
	char *uid, *ns, *name, *resource;
	char *suggestion; /* the most similar name of a resource that a node has; NULL: none */
	int64_t since;	  /* time since which no node has the resource */
	bool reported;
};

struct unserved_table {
	struct unserved_network *v; /* by uid */
	size_t n;
};

/* SUGGESTION: the resource is still missing, and the suggestion has changed. AVAILABLE: only for a
 * network that was reported. */
enum unserved_event { UNSERVED_MISSING, UNSERVED_SUGGESTION, UNSERVED_AVAILABLE };
typedef void (*unserved_fn)(void *arg, const struct unserved_network *n, enum unserved_event ev);

/*
 * nets: the networks with a resource, with all fields except suggestion, since and reported; the
 * function sorts the list and takes ownership of its strings. resources: the resources of
 * the nodes, sorted bytewise, without duplicates. Returns the time of the next decision; -1: only
 * after a change.
 */
int64_t unserved_update(struct unserved_table *t, struct unserved_network *nets, size_t n,
			const char *const *resources, size_t n_resources, int64_t now_ms,
			unserved_fn fn, void *arg);
void unserved_table_done(struct unserved_table *t);
/* Computes unserved_annotation() from a table; decided: the table has been updated. */
char *unserved_table_annotation(const struct unserved_table *t, bool decided, const char *uid,
				const char *resource, const char *is);

#endif
