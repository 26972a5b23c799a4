/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_CACHE_CACHE_H
#define UNIRAIL_CONTROLLER_CACHE_CACHE_H

/*
 * What every replica of the controller knows of the cluster: a cache (kube/cache.h), shared by all
 * modules, of pools, subnets, reserved addresses, SpiderMultusConfigs, SpiderCoordinators,
 * NetworkAttachmentDefinitions and namespaces.
 *
 * Each object is cached as JSON, as a GET returns it, without parts that are long and not used:
 *
 * 	metadata	name, namespace, uid, resourceVersion, generation, creationTimestamp,
 * 			deletionTimestamp, finalizers, ownerReferences, labels, annotations (without
 * 			kubectl's last-applied-configuration)
 * 	spec, status	complete; a pool without status.allocatedIPs (see cluster_cache_object.allocated)
 * 	namespaces	metadata only: name, uid, deletionTimestamp, labels, and the annotations that
 * 			count for pods
 * 	large objects	identifying metadata; and, each only if it is not long: the annotation
 * 			cr-name, the annotations of a namespace, the status of a
 * 			SpiderMultusConfig
 *
 * Tenants write SpiderMultusConfigs, NetworkAttachmentDefinitions and labels of namespaces, and
 * could exhaust the memory of every replica. So a Namespace is cached as a large object when it
 * exceeds CLUSTER_CACHE_LABELS_MAX. An object of the other two kinds is large when it exceeds
 * CLUSTER_CACHE_OBJECT_MAX, when it brings its namespace past CLUSTER_CACHE_NS_MAX, or when it is
 * bigger than CLUSTER_CACHE_SMALL and brings all namespaces together past CLUSTER_CACHE_TOTAL_MAX;
 * in the last two cases it is read again when other objects release enough memory. A module that
 * needs the missing part rejects the object with an error (cluster_cache_object.large).
 *
 * 	for (size_t i = 0; i < kube_cache_count(w->objects, CLUSTER_CACHE_POOLS); i++)
 * 		inspect(part, cluster_cache_json(kube_cache_at(w->objects, CLUSTER_CACHE_POOLS, i)));
 */

#include "kube/cache.h"
#include "kube/spent.h"
#include "wire/json/json.h"

enum cluster_cache_kind {
	CLUSTER_CACHE_POOLS,
	CLUSTER_CACHE_SUBNETS,
	CLUSTER_CACHE_RESERVED,
	CLUSTER_CACHE_MULTUSCONFIGS,
	CLUSTER_CACHE_COORDINATORS,
	CLUSTER_CACHE_NADS,
	CLUSTER_CACHE_NAMESPACES,
	CLUSTER_CACHE_KINDS
};

/* Limits in bytes of memory. */
enum {
	CLUSTER_CACHE_OBJECT_MAX =
		768 << 10, /* 256 KiB of configuration with every byte escaped, and the rest of the
		        * object */
	CLUSTER_CACHE_LABELS_MAX = 128 << 10, /* for a namespace object */
	CLUSTER_CACHE_NS_MAX = 4 << 20,
	CLUSTER_CACHE_TOTAL_MAX = 64 << 20,
	CLUSTER_CACHE_SMALL = 16 << 10,
};

/* The value of each cached object (kube_object.value). */
struct cluster_cache_object {
	struct json_doc *doc;
	const struct json *json;
	size_t bytes;	    /* memory that the cached object uses */
	size_t large;	    /* memory that the complete object would use; 0: cached completely */
	bool deleting;	    /* has a deletionTimestamp */
	uint64_t allocated; /* pools only: xxh64() of status.allocatedIPs; 0: empty or absent */
};

struct cluster_cache {
	struct kube_cache *objects; /* its kinds are those of enum cluster_cache_kind */
	/* --- used by cache.c only --- */
	struct kube *kube;
	struct kube_spent spent; /* memory used by objects that tenants write */
	/* times by the loop's clock; 0: never */
	int64_t etcd_restored, listens_until;
};

/* Starts the watches. k is borrowed. */
struct cluster_cache *cluster_cache_new(struct kube *k);
void cluster_cache_free(struct cluster_cache *w); /* call before kube_free(); accepts NULL */

/*
 * Whether the API server's data can be trusted. After etcd was restored from a backup, the data may
 * lack nodes and pods that still run. Agents report the addresses of their pods again within their
 * freeze of 30 s (agent/blocks/blocks.h).
 *
 * 	CLUSTER_CACHE_HEARS	agents are still reporting: pools are not counted and nothing is freed
 * 	CLUSTER_CACHE_KEEPS	for ten minutes after the restore: pools are counted, nothing is freed
 * 	CLUSTER_CACHE_SURE	no recent restore
 *
 * A restore is detected by a watch that spans it (every replica), or by an agent, whose block log
 * is a file and not in etcd: the agent writes the time into an annotation of one of its blocks. If
 * no replica was leader for a while, a restore may not be detected yet: a new leader then waits for
 * reports first (the setting `leader-grace`).
 */
enum cluster_cache_hold { CLUSTER_CACHE_SURE, CLUSTER_CACHE_KEEPS, CLUSTER_CACHE_HEARS };
enum cluster_cache_hold cluster_cache_hold(const struct cluster_cache *w);
/* Reports a restore detected at real_ms (ms since 1970). Ignored if real_ms is ten minutes or
 * more in the past or in the future. */
void cluster_cache_etcd_restored(struct cluster_cache *w, int64_t real_ms);
/* Called when a restore may have happened undetected: cluster_cache_hold() returns
 * CLUSTER_CACHE_HEARS for the next `ms`. */
void cluster_cache_listen(struct cluster_cache *w, int64_t ms);

static inline const struct cluster_cache_object *cluster_cache_object(const struct kube_object *o)
{
	return (const struct cluster_cache_object *)o->value;
}

static inline const struct json *cluster_cache_json(const struct kube_object *o)
{
	return cluster_cache_object(o)->json;
}

/* --- internals, visible for tests --- */

/* Writes the cached part of an object as JSON text. */
void cluster_cache_trim(enum cluster_cache_kind kind, const struct json *object, struct buf *b);
/* Writes the cached part of a large object. */
void cluster_cache_trim_large(enum cluster_cache_kind kind, const struct json *object,
			      struct buf *b);
/* Fills cluster_cache_object from an object. The caller frees it with json_free(v->doc). */
int cluster_cache_decode(enum cluster_cache_kind kind, struct cluster_cache_object *v,
			 const struct json *object, struct err *e);

#endif
