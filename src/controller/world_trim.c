/* SPDX-License-Identifier: Apache-2.0 */
/* What is kept of an object. */
#include <string.h>

#include "controller/world_priv.h"
#include "ipam/pod.h"

#define LAST_APPLIED "kubectl.kubernetes.io/last-applied-configuration"

static bool is_of(const char *key, const char *const *list)
{
	while (*list && strcmp(*list, key) != 0)
		list++;
	return *list;
}

static void put_annotations(struct json_out *o, const struct json *v, bool counting)
{
	struct json_walk w = json_walk_start(v);
	const char *key;

	jo_obj(o);
	while ((v = json_walk_next(&w, &key))) {
		if (strcmp(key, LAST_APPLIED) == 0 || (counting && !pod_annotation_counts(key)))
			continue;
		jo_key(o, key);
		jo_val(o, v, false);
	}
	jo_end_obj(o);
}

static void put_meta(struct json_out *o, const struct json *v, bool namespace)
{
	static const char *const all[] = {
		"name",	      "namespace",	   "uid",    "resourceVersion",
		"generation", "creationTimestamp", "labels", "deletionTimestamp",
		"finalizers", "ownerReferences",   NULL};
	static const char *const few[] = {"name", "uid", "labels", "deletionTimestamp", NULL};
	struct json_walk w = json_walk_start(v);
	const char *key;

	jo_obj(o);
	while ((v = json_walk_next(&w, &key))) {
		bool notes = strcmp(key, "annotations") == 0;

		if (!notes && !is_of(key, namespace ? few : all))
			continue;
		jo_key(o, key);
		if (notes)
			put_annotations(o, v, namespace);
		else
			jo_val(o, v, false);
	}
	jo_end_obj(o);
}

static void put_without(struct json_out *o, const struct json *v, const char *without)
{
	struct json_walk w = json_walk_start(v);
	const char *key;

	jo_obj(o);
	while ((v = json_walk_next(&w, &key)))
		if (strcmp(key, without) != 0) {
			jo_key(o, key);
			jo_val(o, v, false);
		}
	jo_end_obj(o);
}

void world_trim(enum world_kind kind, const struct json *object, struct buf *b)
{
	const struct json *spec = json_get(object, "spec"), *status = json_get(object, "status");
	bool namespace = kind == WORLD_NAMESPACES;
	struct json_out o;

	jo_init(&o, b, 0);
	jo_obj(&o);
	jo_key(&o, "metadata");
	put_meta(&o, json_get(object, "metadata"), namespace);
	if (spec && !namespace) {
		jo_key(&o, "spec");
		jo_val(&o, spec, false);
	}
	if (status && !namespace) {
		jo_key(&o, "status");
		if (kind == WORLD_POOLS)
			put_without(&o, status, "allocatedIPs");
		else
			jo_val(&o, status, false);
	}
	jo_end_obj(&o);
}
