/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_GC_UNSERVED_H
#define UNIRAIL_CONTROLLER_GC_UNSERVED_H

/*
 * Runs in the leader: reports SpiderMultusConfigs whose device resource no node has (no capacity, or 0). The webhook adds that
 * resource to the pods of the network's group, which then stay Pending with "Insufficient", as if the devices were only in
 * use. A Warning event on the SpiderMultusConfig after UNSERVED_GRACE_MS, in which a kubelet may restart and a new node
 * register its devices; a Normal event when a node has it; and unirail_controller_networks_without_resource.
 */

#include "base/buf.h"
#include "controller/cache/cache.h"
#include "controller/gc/gc_cache.h"
#include "kube/events.h"

enum { UNSERVED_GRACE_MS = 30 * 1000 };

struct unserved;

struct unserved_conf { /* borrowed */
	struct kube *kube;
	struct cluster_cache *cache;
	const struct gc_cache *gc_cache;
	struct kube_events *events;
};

struct unserved *unserved_new(const struct unserved_conf *c);
void unserved_free(struct unserved *u); /* call before gc_cache_free(); accepts NULL */
/* A node changed; arguments as in gc_cache_conf.changed. */
void unserved_node(struct unserved *u, const struct kube_object *was, const struct kube_object *is);
void unserved_metrics(const struct unserved *u, struct buf *b);

/* --- the decision, pure --- */

struct unserved_network {
	char *uid, *ns, *name, *resource;
	int64_t since; /* since when no node has the resource */
	bool reported;
};

struct unserved_table {
	struct unserved_network *v; /* by uid */
	size_t n;
};

/* missing: after the grace; otherwise a node has the resource of a network that was reported. */
typedef void (*unserved_fn)(void *arg, const struct unserved_network *n, bool missing);

/*
 * nets: those with a resource, all fields but since and reported; it is sorted, and what the table keeps of it is taken.
 * resources: what the nodes have, sorted bytewise. Returns when to decide again; -1: on a change only.
 */
int64_t unserved_update(struct unserved_table *t, struct unserved_network *nets, size_t n,
			const char *const *resources, size_t n_resources, int64_t now_ms,
			unserved_fn fn, void *arg);
void unserved_table_done(struct unserved_table *t);

#endif
