/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_WORLD_H
#define UNIRAIL_CONTROLLER_WORLD_H

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
#include "kube/store.h"
#include "wire/json.h"

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

/* kube_object.value of each. */
struct world_object {
	struct json_doc *doc;
	const struct json *json;
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
 * be missing that run, and agents say again what these have, within their hold of 30 s (agent/blocks.h):
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

#endif
