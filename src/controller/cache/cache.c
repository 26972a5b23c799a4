/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/log.h"
#include "controller/cache/cache.h"
#include "controller/nad/render.h"
#include "kube/kinds.h"
#include "kube/object.h"
#include "spec/annotations.h"
#include "spec/pod.h"

enum { CLUSTER_CACHE_TEXT_MAX = 4 << 20 };

/* Returns whether tenants, who have permissions in one namespace only, can write objects of the
 * kind. */
static inline bool cluster_cache_is_tenants(enum cluster_cache_kind kind)
{
	return kind == CLUSTER_CACHE_MULTUSCONFIGS || kind == CLUSTER_CACHE_NADS;
}

/* --- changes of cached objects --- */

#define DECODE(name, kind)                                                                         \
	static int name(void *value, const struct json *object, struct err *e)                     \
	{                                                                                          \
		return cluster_cache_decode(kind, value, object, e);                               \
	}
DECODE(read_pool, CLUSTER_CACHE_POOLS)
DECODE(read_namespace, CLUSTER_CACHE_NAMESPACES)
DECODE(read_config, CLUSTER_CACHE_MULTUSCONFIGS)
DECODE(read_nad, CLUSTER_CACHE_NADS)
DECODE(read_other, CLUSTER_CACHE_RESERVED)

static void drop(void *value)
{
	json_free(((struct cluster_cache_object *)value)->doc);
}

static void on_etcd_restored(void *arg)
{
	cluster_cache_etcd_restored(arg, now_real_ms());
}

static size_t max_of(enum cluster_cache_kind kind);

static bool has_room(void *arg, int kind, const struct kube_object *o)
{
	const struct cluster_cache *w = arg;
	size_t large = cluster_cache_object(o)->large;

	return large && large <= max_of(kind) && kube_spent_fits(&w->spent, o->ns, large);
}

static void cluster_cache_spend(struct cluster_cache *w, enum cluster_cache_kind kind,
				const struct kube_object *o);

/* Subtracts the memory of a deleted or replaced object from the quotas, and reads large objects
 * again, because they may fit into the quotas now. */
static void cluster_cache_spend_back(struct cluster_cache *w, enum cluster_cache_kind kind,
				     const struct kube_object *o)
{
	const struct cluster_cache_object *v = cluster_cache_object(o);

	if (!cluster_cache_is_tenants(kind) || v->large)
		return;
	kube_spent_less(&w->spent, o->ns, v->bytes);
	kube_cache_read_again(w->objects);
}

static void on_changed(void *arg, int kind, const struct kube_object *was,
		       const struct kube_object *is)
{
	if (was)
		cluster_cache_spend_back(arg, kind, was);
	if (is)
		cluster_cache_spend(arg, kind, is);
}

/* --- creation and destruction --- */

enum { SIZE = sizeof(struct cluster_cache_object) };

static const struct kube_cache_kind kinds[CLUSTER_CACHE_KINDS] = {
	[CLUSTER_CACHE_POOLS] = {.kind = &kube_ippools,
				 .size = SIZE,
				 .decode = read_pool,
				 .drop = drop,
				 .own_crd = true},
	[CLUSTER_CACHE_SUBNETS] = {.kind = &kube_subnets,
				   .size = SIZE,
				   .decode = read_other,
				   .drop = drop,
				   .own_crd = true},
	[CLUSTER_CACHE_RESERVED] = {.kind = &kube_reservedips,
				    .size = SIZE,
				    .decode = read_other,
				    .drop = drop,
				    .own_crd = true},
	[CLUSTER_CACHE_MULTUSCONFIGS] = {.kind = &kube_multusconfigs,
					 .size = SIZE,
					 .decode = read_config,
					 .drop = drop,
					 .own_crd = true,
					 .again = has_room},
	[CLUSTER_CACHE_COORDINATORS] = {.kind = &kube_coordinators,
					.size = SIZE,
					.decode = read_other,
					.drop = drop,
					.own_crd = true},
	[CLUSTER_CACHE_NADS] = {.kind = &kube_nads,
				.size = SIZE,
				.decode = read_nad,
				.drop = drop,
				.own_crd = true,
				.again = has_room},
	[CLUSTER_CACHE_NAMESPACES] = {.kind = &kube_namespaces,
				      .size = SIZE,
				      .decode = read_namespace,
				      .drop = drop},
};

struct cluster_cache *cluster_cache_new(struct kube *k)
{
	struct cluster_cache *w = xcalloc(1, sizeof(*w));

	w->kube = k;
	w->spent = (struct kube_spent){
		CLUSTER_CACHE_NS_MAX, CLUSTER_CACHE_TOTAL_MAX, CLUSTER_CACHE_SMALL, NULL, 0, 0};
	w->objects = kube_cache_new(&(struct kube_cache_conf){
		.kube = k,
		.kinds = kinds,
		.n = CLUSTER_CACHE_KINDS,
		.component = "controller",
		.changed = on_changed,
		.etcd_restored = on_etcd_restored,
		.arg = w,
	});
	return w;
}

void cluster_cache_free(struct cluster_cache *w)
{
	if (!w)
		return;
	kube_cache_free(w->objects);
	kube_spent_done(&w->spent);
	free(w);
}

/* HEARS_MS: time after a restore in which agents report: their freeze (30 s), and the time until
 * they are connected again. KEEPS_MS: time after a restore in which nothing is freed. SAME_MS:
 * reports within this time are about the same restore. */
enum { HEARS_MS = 45 * 1000, KEEPS_MS = 600 * 1000, SAME_MS = 120 * 1000 };

static int64_t now_of(const struct cluster_cache *w)
{
	return loop_now_ms(kube_loop(w->kube));
}

static int64_t since_etcd_restored(const struct cluster_cache *w)
{
	return w->etcd_restored ? now_of(w) - w->etcd_restored : INT64_MAX;
}

enum cluster_cache_hold cluster_cache_hold(const struct cluster_cache *w)
{
	int64_t ms = since_etcd_restored(w);

	if (now_of(w) < w->listens_until || ms < HEARS_MS)
		return CLUSTER_CACHE_HEARS;
	return ms < KEEPS_MS ? CLUSTER_CACHE_KEEPS : CLUSTER_CACHE_SURE;
}

/*
 * Reports of one restore differ: clocks are not equal, and up to a thousand agents report within a
 * minute. The latest time counts.
 */
void cluster_cache_etcd_restored(struct cluster_cache *w, int64_t real_ms)
{
	int64_t ago = now_real_ms() - real_ms, at;

	if (ago >= KEEPS_MS || ago <= -KEEPS_MS)
		return;
	at = now_of(w) - (ago > 0 ? ago : 0);
	if (w->etcd_restored && at <= w->etcd_restored)
		return;
	if (since_etcd_restored(w) > SAME_MS)
		log_warn("etcd was restored from a backup: pool counters wait until agents have "
			 "asserted their addresses again, and gc frees nothing until ten minutes "
			 "after the restore",
			 LOG_I("ms", KEEPS_MS));
	w->etcd_restored = at > 0 ? at : 1;
}

void cluster_cache_listen(struct cluster_cache *w, int64_t ms)
{
	if (ms <= 0)
		return;
	log_info("no replica led for a while: pool counters and gc wait for reports of the agents",
		 LOG_I("ms", ms));
	w->listens_until = now_of(w) + ms;
}

/* --- the part of an object that is cached --- */

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
		if (strcmp(key, ANNOTATION_LAST_APPLIED) == 0 ||
		    (counting && !pod_annotation_counts(key)))
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
		bool annotations = strcmp(key, "annotations") == 0;

		if (!annotations && !is_of(key, namespace ? few : all))
			continue;
		jo_key(o, key);
		if (annotations)
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

void cluster_cache_trim(enum cluster_cache_kind kind, const struct json *object, struct buf *b)
{
	const struct json *spec = json_get(object, "spec"), *status = json_get(object, "status");
	bool namespace = kind == CLUSTER_CACHE_NAMESPACES;
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
		if (kind == CLUSTER_CACHE_POOLS)
			put_without(&o, status, "allocatedIPs");
		else
			jo_val(&o, status, false);
	}
	jo_end_obj(&o);
}

/* --- large objects --- */

enum { PART_MAX = 8 << 10, ANNOTATIONS_MAX = 64 << 10 };

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

void cluster_cache_trim_large(enum cluster_cache_kind kind, const struct json *object,
			      struct buf *b)
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
	static const char *const nad_name[] = {ANNOTATION_NAD_NAME, NULL}, *const status[] = {
										   "status", NULL};
	const struct json *meta = json_get(object, "metadata");
	const struct json *annotations = json_get(meta, "annotations");
	struct json_out o;

	jo_init(&o, b, 0);
	jo_obj(&o);
	jo_key(&o, "metadata");
	jo_obj(&o);
	put_short(&o, meta, names);
	jo_key(&o, "annotations");
	if (kind == CLUSTER_CACHE_NAMESPACES && is_short(annotations, ANNOTATIONS_MAX)) {
		put_annotations(&o, annotations, true);
	} else {
		jo_obj(&o);
		put_short(&o, annotations, nad_name);
		jo_end_obj(&o);
	}
	jo_end_obj(&o);
	if (kind == CLUSTER_CACHE_MULTUSCONFIGS)
		put_short(&o, object, status);
	jo_end_obj(&o);
}

/* VALUE_BYTES: estimated memory of a JSON value besides its text, in bytes. */

enum { VALUE_BYTES = 16 };

/* --- decoding of one object --- */

/* A parsed document holds its text and one node for each value. */
static size_t cost_of(struct span text)
{
	size_t n = 1;

	for (size_t i = 0; i < text.n; i++)
		n += text.p[i] == ',' || text.p[i] == ':' || text.p[i] == '[' || text.p[i] == '{';
	return text.n + n * VALUE_BYTES;
}

static size_t max_of(enum cluster_cache_kind kind)
{
	if (kind == CLUSTER_CACHE_NAMESPACES)
		return CLUSTER_CACHE_LABELS_MAX;
	return cluster_cache_is_tenants(kind) ? CLUSTER_CACHE_OBJECT_MAX : SIZE_MAX;
}

static uint64_t digest_of(const struct json *object)
{
	const char *text = json_string(json_get(json_get(object, "status"), "allocatedIPs"));

	return text && *text ? xxh64(text, strlen(text)) : 0;
}

static int keep(struct cluster_cache_object *v, const struct buf *text, struct err *e)
{
	struct json_doc *doc;
	int r = json_parse(&doc, buf_span(text), CLUSTER_CACHE_TEXT_MAX, e);

	if (r < 0)
		return r;
	json_free(v->doc);
	v->doc = doc;
	v->json = json_root(doc);
	v->bytes = cost_of(buf_span(text));
	return 0;
}

int cluster_cache_decode(enum cluster_cache_kind kind, struct cluster_cache_object *v,
			 const struct json *object, struct err *e)
{
	auto_buf struct buf b;
	size_t cost;
	int r;

	buf_init(&b, CLUSTER_CACHE_TEXT_MAX);
	cluster_cache_trim(kind, object, &b);
	cost = b.over ? (size_t)CLUSTER_CACHE_TEXT_MAX : cost_of(buf_span(&b));
	if (cost > max_of(kind)) {
		v->large = cost;
		buf_done(&b);
		buf_init(&b, CLUSTER_CACHE_TEXT_MAX);
		cluster_cache_trim_large(kind, object, &b);
	}
	if (b.over)
		return err_set(e, -EFBIG, "is longer than %d bytes", CLUSTER_CACHE_TEXT_MAX);
	r = keep(v, &b, e);
	if (r < 0)
		return r;
	v->deleting = kube_meta(v->json, "deletionTimestamp");
	v->allocated = kind == CLUSTER_CACHE_POOLS ? digest_of(object) : 0;
	return 0;
}

/* --- quotas of a namespace, and of all namespaces --- */

static void say_large(enum cluster_cache_kind kind, const struct kube_object *o)
{
	log_limited(LOG_WARN, 2,
		    "caching only a part of an object: it exceeds the size limit of an object, a "
		    "namespace or the cluster",
		    LOG_S("kind", kinds[kind].kind->plural), LOG_S("namespace", o->ns),
		    LOG_S("name", o->name),
		    LOG_I("bytes", (int64_t)cluster_cache_object(o)->large));
}

/* Charges the memory of an added or changed object to the quotas of its namespace and of all
 * namespaces, if its kind is one that tenants write. Caches the object as a large one if it
 * exceeds a quota. */
static void cluster_cache_spend(struct cluster_cache *w, enum cluster_cache_kind kind,
				const struct kube_object *o)
{
	struct cluster_cache_object *v = o->value;
	auto_buf struct buf b = {0};

	if (cluster_cache_is_tenants(kind) && !v->large &&
	    !kube_spent_more(&w->spent, o->ns, v->bytes)) {
		v->large = v->bytes;
		buf_init(&b, CLUSTER_CACHE_TEXT_MAX);
		cluster_cache_trim_large(kind, v->json, &b);
		keep(v, &b, NULL); /* cannot fail: v was parsed before */
	}
	if (v->large)
		say_large(kind, o);
}
