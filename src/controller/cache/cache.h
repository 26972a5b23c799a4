/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_CACHE_CACHE_H
#define UNIRAIL_CONTROLLER_CACHE_CACHE_H

/*
 * What every replica knows of the cluster, from watches, since more than one part asks for it: pools,
 * subnets, reserved addresses, SpiderMultusConfigs, coordinators, NetworkAttachmentDefinitions,
 * namespaces. The getters never wait, and what they return is valid until the loop's next turn.
 * While the API server is away the last state stays. What was just written is not there yet: the
 * watch brings it.
 *
 * Each object is kept as JSON, as a GET has it but for what nobody asks and what is long:
 *
 *	metadata	name, namespace, uid, resourceVersion, generation, creationTimestamp,
 *			deletionTimestamp, finalizers, ownerReferences, labels, annotations (without
 *			kubectl's last-applied-configuration)
 *	spec, status	whole; of a pool without status.allocatedIPs (see world_object.allocated)
 *	namespaces	of metadata name, uid, labels, and annotations that count for pods; no spec
 *	large objects	only what names the object, and the status that the controller gave it
 *
 * A tenant writes SpiderMultusConfigs, NetworkAttachmentDefinitions and labels of namespaces, and could fill the
 * memory of every replica. So an object that is longer than WORLD_OBJECT_MAX is large, as is one that brings its
 * namespace past WORLD_NS_MAX, or one that is not small and brings all namespaces past WORLD_TOTAL_MAX: it stays so
 * until it changes. Who needs more of it refuses it in words (world_object.large).
 *
 *	static void on_pool(void *arg, const struct kube_object *was, const struct kube_object *is);
 *
 *	world_on(w, WORLD_POOLS, on_pool, part);
 *	for (size_t i = 0; i < world_count(w, WORLD_POOLS); i++)
 *		look(part, world_json(world_at(w, WORLD_POOLS, i)));
 *	...
 *	world_off(w, part);
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

/* In bytes of memory. */
enum {
	WORLD_OBJECT_MAX =
		768
		<< 10, /* 256 KiB of configuration with every byte escaped, and what is beside it */
	WORLD_LABELS_MAX = 128 << 10, /* of a namespace */
	WORLD_NS_MAX = 4 << 20,
	WORLD_TOTAL_MAX = 64 << 20,
	WORLD_SMALL = 16 << 10,
};

/* kube_object.value of each. */
struct world_object {
	struct json_doc *doc;
	const struct json *json;
	size_t bytes;	    /* that it takes */
	size_t large;	    /* bytes that it would take; 0: it is kept whole */
	bool deleting;	    /* has a deletionTimestamp */
	uint64_t allocated; /* of a pool: xxh64() of status.allocatedIPs; 0: it is empty or absent */
};

struct world;

/* Begins to watch. */
struct world *world_new(struct kube *k);
void world_free(struct world *w); /* before kube_free(); NULL is fine */

const char *world_kind_name(enum world_kind kind); /* "spiderippools" */
/* Whether the kind was listed once. A definition that is not installed: no. */
bool world_synced(const struct world *w, enum world_kind kind);
/* Why the kind is not known or not followed now, kind ERR_AGAIN; 0: it is. */
int world_trouble(const struct world *w, enum world_kind kind, struct err *e);

/*
 * Whether the server's data is what it was. After etcd was restored to an earlier time nodes and pods may
 * be missing that run, and agents say again what these have, within their hold of 30 s (agent/blocks/blocks.h):
 * until then it is WORLD_HEARS, and what pods have is not counted; for ten minutes nothing is freed.
 *
 * Who sees it: a watch that was there before and after (every replica); an agent, whose log is not in
 * etcd: it writes the time into an annotation of one of its blocks. Neither may have come to pass yet when
 * nobody led for a while; so a leader that comes then only listens at first (the setting `hold`).
 */
enum world_hold { WORLD_SURE, WORLD_KEEPS, WORLD_HEARS };
enum world_hold world_hold(const struct world *w);
/* It was seen at that time, in ms since 1970. What was long ago is nothing new. */
void world_set_back(struct world *w, int64_t real_ms);
/* It may have been: WORLD_HEARS for so long. */
void world_listen(struct world *w, int64_t ms);

/* In the order of namespaces and names, bytewise. ns is "" for kinds of the cluster; NULL: none such. */
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
 * From now on each change: was NULL: new; is NULL: gone; both NULL: the kind was listed for the first
 * time. What is there already is not told. A callback may use the getters, world_on(), world_off().
 */
typedef void (*world_fn)(void *arg, const struct kube_object *was, const struct kube_object *is);
void world_on(struct world *w, enum world_kind kind, world_fn fn, void *arg);
/* No callback with this arg comes any more, of any kind. */
void world_off(struct world *w, const void *arg);

/* --- its part, for tests --- */

/* What is kept of an object, as text. */
void world_trim(enum world_kind kind, const struct json *object, struct buf *b);
/* The same of a large one. */
void world_trim_large(enum world_kind kind, const struct json *object, struct buf *b);
/* world_object.value of an object; to be dropped by json_free(doc). */
int world_decode(enum world_kind kind, struct world_object *v, const struct json *object,
		 struct err *e);

#endif
