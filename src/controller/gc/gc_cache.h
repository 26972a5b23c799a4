/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_GC_GC_CACHE_H
#define UNIRAIL_CONTROLLER_GC_GC_CACHE_H

/*
 * The leader's cache (kube/cache.h) of nodes, pods, SpiderEndpoints and SpiderIPBlocks. Of each pod
 * only a few fields are cached, since there may be 20,000. A kind is empty until its first list. A
 * caller that acts on the absence of an object checks kube_cache_current(KUBE_CACHE_ALL) first and
 * confirms the absence with the API server (controller/gc/confirm.h).
 */

#include "block/table.h"
#include "kube/cache.h"

enum gc_cache_kind {
	GC_CACHE_NODES,
	GC_CACHE_PODS,
	GC_CACHE_ENDPOINTS,
	GC_CACHE_BLOCKS,
	GC_CACHE_KINDS
};

/* Values of the cached objects (kube_object.value). */
struct gc_cache_node {
	bool ready;
	bool fenced; /* taint node.kubernetes.io/out-of-service: an administrator states that the
	              * machine is off */
	/* Extended resources whose capacity is not 0, in the order of the object, each
	 * NUL-terminated, "" at the end; NULL: none, or more than 64 KiB. */
	char *resources;
};

struct gc_cache_pod {
	bool finished, deleting, host_network;
	bool networks;		/* annotation k8s.v1.cni.cncf.io/networks is not empty */
	unsigned char requests; /* inject_requests() of its annotations */
	char *node;		/* "": not scheduled */
};

struct gc_cache_ip {
	struct ipaddr ip;
	const char *pool;
};

/* maximum length in bytes of the list of an endpoint's finalizers other than Spiderpool's */
enum { GC_FINALIZERS_MAX = 4096 };

struct gc_cache_endpoint {
	const char *uid, *node;	     /* UID and node of the pod */
	const struct gc_cache_ip *v; /* status.current.ips */
	size_t n;
	bool by_unirail; /* last written by an agent of unirail, not by Spiderpool */
	bool owned; /* has a pod as owner; otherwise its addresses are retained for the pod's name
	             */
	bool deleting;
	/* has Spiderpool's finalizer; false too if the others exceed GC_FINALIZERS_MAX */
	bool finalizer;
	char *other_finalizers; /* each NUL-terminated, "" at the end; NULL unless `finalizer` */
	int64_t since;		/* for the caller's use; reset to 0 when the object changes */
	void *all;
};

struct gc_cache_block {
	struct block_object o;
	/* time at which the agent of o.node detected an etcd restore, in ms since 1970; 0: never */
	int64_t etcd_restored;
	/* for the caller's use; 0 in a new version of the object until the caller copies it */
	int64_t since;
};

/* kind: enum gc_cache_kind; was, is: see kube_cache_fn. */
typedef void (*gc_cache_fn)(void *arg, int kind, const struct kube_object *was,
			    const struct kube_object *is);
/* Starts the watches. changed: called for each change of each kind. The caller frees the
 * cache by kube_cache_free(). */
struct kube_cache *gc_cache_new(struct kube *k, gc_cache_fn changed, void *arg);

static inline const struct gc_cache_node *gc_cache_node(const struct kube_object *o)
{
	return (const struct gc_cache_node *)o->value;
}

static inline const struct gc_cache_pod *gc_cache_pod(const struct kube_object *o)
{
	return (const struct gc_cache_pod *)o->value;
}

static inline struct gc_cache_endpoint *gc_cache_endpoint(const struct kube_object *o)
{
	return (struct gc_cache_endpoint *)o->value;
}

static inline struct gc_cache_block *gc_cache_block(const struct kube_object *o)
{
	return (struct gc_cache_block *)o->value;
}

/* --- readers of objects: called also by controller/gc/confirm.c and by tests --- */

void gc_cache_read_node(const struct json *object, struct gc_cache_node *ret);
/* Returns the value of gc_cache_node.resources, which gc_cache_read_node() does not set. */
char *gc_cache_read_resources(const struct json *object);
void gc_cache_read_endpoint(const struct json *object, struct gc_cache_endpoint *ret);
void gc_cache_endpoint_done(struct gc_cache_endpoint *p);

#endif
