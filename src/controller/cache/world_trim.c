/* SPDX-License-Identifier: Apache-2.0 */
/* What is kept of an object. */
#include <string.h>

#include "controller/nad/nad_write.h"
#include "controller/cache/world_priv.h"
#include "spec/pod.h"

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

/* --- of a large object --- */

enum { PART_MAX = 8 << 10, NOTES_MAX = 64 << 10 };

static bool is_short(const struct json *v, size_t max)
{
	struct json_out o;
	struct buf b;
	bool over;

	buf_init(&b, max);
	jo_init(&o, &b, 0);
	jo_val(&o, v, false);
	over = b.over;
	buf_done(&b);
	return !over;
}

static void put_short(struct json_out *o, const struct json *of, const char *const *keys)
{
	for (; *keys; keys++) {
		const struct json *v = json_get(of, *keys);

		if (!v || !is_short(v, PART_MAX))
			continue;
		jo_key(o, *keys);
		jo_val(o, v, false);
	}
}

void world_trim_large(enum world_kind kind, const struct json *object, struct buf *b)
{
	static const char *const names[] = {"name",
					    "namespace",
					    "uid",
					    "resourceVersion",
					    "generation",
					    "creationTimestamp",
					    "finalizers",
					    "deletionTimestamp",
					    "ownerReferences",
					    NULL};
	static const char *const notes[] = {NAD_NAME_NOTE, NULL}, *const status[] = {"status",
										     NULL};
	const struct json *meta = json_get(object, "metadata");
	const struct json *annotations = json_get(meta, "annotations");
	struct json_out o;

	jo_init(&o, b, 0);
	jo_obj(&o);
	jo_key(&o, "metadata");
	jo_obj(&o);
	put_short(&o, meta, names);
	jo_key(&o, "annotations");
	if (kind == WORLD_NAMESPACES && is_short(annotations, NOTES_MAX)) {
		put_annotations(&o, annotations, true);
	} else {
		jo_obj(&o);
		put_short(&o, annotations, notes);
		jo_end_obj(&o);
	}
	jo_end_obj(&o);
	if (kind == WORLD_MULTUSCONFIGS)
		put_short(&o, object, status);
	jo_end_obj(&o);
}
