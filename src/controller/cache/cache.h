/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_CACHE_CACHE_H
#define UNIRAIL_CONTROLLER_CACHE_CACHE_H

/*
 * The cluster cache: what every replica of the controller knows of the cluster, from watches shared
 * by all modules. It holds pools, subnets, reserved addresses, SpiderMultusConfigs,
 * SpiderCoordinators, NetworkAttachmentDefinitions and namespaces. The getters never block; what
 * they return is valid until the next turn of the loop. While the API server is unreachable the
 * cache keeps its last state. A write is visible only when the watch delivers it.
 *
 * Each object is cached as JSON, as a GET returns it, without parts that are long and not used:
 *
 * 	metadata	name, namespace, uid, resourceVersion, generation, creationTimestamp,
 * 			deletionTimestamp, finalizers, ownerReferences, labels, annotations (without
 * 			kubectl's last-applied-configuration)
 * 	spec, status	complete; a pool without status.allocatedIPs (see world_object.allocated)
 * 	namespaces	metadata only: name, uid, deletionTimestamp, labels, and the annotations that
 * 			count for pods
 * 	large objects	identifying metadata, and the status of a SpiderMultusConfig
 *
 * Tenants write SpiderMultusConfigs, NetworkAttachmentDefinitions and labels of namespaces, and
 * could exhaust the memory of every replica. So an object is cached as a large one when it exceeds
 * WORLD_OBJECT_MAX (a namespace: WORLD_LABELS_MAX), when it brings its namespace past WORLD_NS_MAX,
 * or when it is bigger than WORLD_SMALL and brings all namespaces together past WORLD_TOTAL_MAX. It
 * stays large until it changes. A module that needs the missing part rejects the object with an
 * error (world_object.large).
 *
 * 	static void on_pool(void *arg, const struct kube_object *was, const struct kube_object *is);
 *
 * 	world_on(w, WORLD_POOLS, on_pool, part);
 * 	for (size_t i = 0; i < world_count(w, WORLD_POOLS); i++)
 * 		look(part, world_json(world_at(w, WORLD_POOLS, i)));
 * 	...
 * 	world_off(w, part);
 */

#include "kube/client.h"
#include "kube/object_store.h"
#include "wire/json/json.h"

enum world_kind {
	WORLD_POOLS,
	WORLD_SUBNETS,
	WORLD_RESERVED,
	WORLD_MULTUSCONFIGS,
	WORLD_COORDINATORS,
	WORLD_NADS,
	WORLD_NAMESPACES,
	WORLD_KINDS
};

/* Limits in bytes of memory. */
enum {
	WORLD_OBJECT_MAX =
		768 << 10, /* 256 KiB of configuration with every byte escaped, and the rest of the
		        * object */
	WORLD_LABELS_MAX = 128 << 10, /* for a namespace object */
	WORLD_NS_MAX = 4 << 20,
	WORLD_TOTAL_MAX = 64 << 20,
	WORLD_SMALL = 16 << 10,
};

/* The value of each cached object (kube_object.value). */
struct world_object {
	struct json_doc *doc;
	const struct json *json;
	size_t bytes;	    /* memory that the cached object uses */
	size_t large;	    /* memory that the complete object would use; 0: cached completely */
	bool deleting;	    /* has a deletionTimestamp */
	uint64_t allocated; /* pools only: xxh64() of status.allocatedIPs; 0: empty or absent */
};

struct world;

/* Starts the watches. k is borrowed. */
struct world *world_new(struct kube *k);
void world_free(struct world *w); /* call before kube_free(); accepts NULL */

const char *world_kind_name(enum world_kind kind); /* "spiderippools" */
/* Whether the kind was listed at least once. False also when its CRD is not installed. */
bool world_synced(const struct world *w, enum world_kind kind);
/*
 * Error of class ERR_AGAIN with the reason why the kind is not listed yet or its watch fails now;
 * 0: no error.
 */
int world_sync_error(const struct world *w, enum world_kind kind, struct err *e);

/*
 * Whether the API server's data can be trusted. After etcd was restored from a backup, the data may
 * lack nodes and pods that still run. Agents report the addresses of their pods again within their
 * hold of 30 s (agent/blocks/blocks.h).
 *
 * 	WORLD_HEARS	agents are still reporting: pools are not counted and nothing is freed
 * 	WORLD_KEEPS	for ten minutes after the restore: pools are counted, nothing is freed
 * 	WORLD_SURE	no recent restore
 *
 * A restore is detected by a watch that spans it (every replica), or by an agent, whose log is not
 * stored in etcd: the agent writes the time into an annotation of one of its blocks. Neither may
 * have happened yet if no replica was leader for a while. So a new leader first waits for reports
 * in that case (the setting `hold`).
 */
enum world_hold { WORLD_SURE, WORLD_KEEPS, WORLD_HEARS };
enum world_hold world_hold(const struct world *w);
/*
 * Reports a restore detected at real_ms (ms since 1970). Ignored when it is older than ten minutes.
 */
void world_set_back(struct world *w, int64_t real_ms);
/* A restore may have happened undetected: world_hold() returns WORLD_HEARS for the next ms. */
void world_listen(struct world *w, int64_t ms);

/*
 * Objects are ordered by namespace and name, bytewise. ns is "" for cluster-scoped kinds. Returns
 * NULL if the cache has no such object.
 */
const struct kube_object *world_get(const struct world *w, enum world_kind kind, const char *ns,
				    const char *name);
size_t world_count(const struct world *w, enum world_kind kind);
const struct kube_object *world_at(const struct world *w, enum world_kind kind, size_t i);

static inline const struct world_object *world_object(const struct kube_object *o)
{
	return (const struct world_object *)o->value;
}

static inline const struct json *world_json(const struct kube_object *o)
{
	return world_object(o)->json;
}

/*
 * Calls fn for each later change of the kind. was NULL: the object is new; is NULL: it was deleted;
 * both NULL: the kind was listed for the first time. Objects that are cached already are not
 * reported. A callback may use the getters, world_on() and world_off().
 */
typedef void (*world_fn)(void *arg, const struct kube_object *was, const struct kube_object *is);
void world_on(struct world *w, enum world_kind kind, world_fn fn, void *arg);
/* Removes every callback registered with this arg, for all kinds. */
void world_off(struct world *w, const void *arg);

/* --- internals, visible for tests --- */

/* Writes the cached part of an object as JSON text. */
void world_trim(enum world_kind kind, const struct json *object, struct buf *b);
/* The same for a large object. */
void world_trim_large(enum world_kind kind, const struct json *object, struct buf *b);
/* Fills world_object from an object. The caller frees it with json_free(v->doc). */
int world_decode(enum world_kind kind, struct world_object *v, const struct json *object,
		 struct err *e);

#endif
