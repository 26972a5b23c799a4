/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/nad/diff.h"

#include <string.h>

#include "kube/kinds.h"
#include "kube/object.h"
#include "kube/time.h"

#define OWNER_KIND "SpiderMultusConfig"

/* --- owner of a NAD --- */

static bool is_smc(const struct json *ref)
{
	return strcmp(json_text(json_get(ref, "kind")), OWNER_KIND) == 0 &&
	       json_kind(json_get(ref, "controller")) == JSON_BOOL &&
	       json_bool(json_get(ref, "controller"));
}

const char *nad_owner(const struct json *there, const char **uid)
{
	struct json_walk w = json_walk_start(kube_meta(there, "ownerReferences"));
	const struct json *ref;

	while ((ref = json_walk_next(&w, NULL)))
		if (is_smc(ref)) {
			*uid = json_text(json_get(ref, "uid"));
			return json_text(json_get(ref, "name"));
		}
	return NULL;
}

/* Returns whether the SpiderMultusConfig is the NAD's controller, also if Spiderpool's controller
 * wrote the owner reference. */
static bool is_owned(const struct json *there, const struct json *smc)
{
	const char *uid = NULL, *name = nad_owner(there, &uid);

	return name && strcmp(uid, json_text(kube_meta(smc, "uid"))) == 0 &&
	       strcmp(name, json_text(kube_meta(smc, "name"))) == 0;
}

static void put_owner(struct json_out *o, const struct json *smc)
{
	jo_key(o, "ownerReferences");
	jo_arr(o);
	jo_obj(o);
	jo_kstr(o, "apiVersion", SPIDERPOOL_API);
	jo_kstr(o, "kind", OWNER_KIND);
	jo_kstr(o, "name", json_text(kube_meta(smc, "name")));
	jo_kstr(o, "uid", json_text(kube_meta(smc, "uid")));
	jo_kbool(o, "controller", true);
	jo_kbool(o, "blockOwnerDeletion", true);
	jo_end_obj(o);
	jo_end_arr(o);
}

/* --- a new NAD --- */

static void put_annotations(struct json_out *o, const struct labels *l)
{
	for (size_t i = 0; i < l->n; i++)
		jo_kstr(o, l->v[i].key, l->v[i].value);
}

void nad_put(struct buf *b, const struct nad *n, const struct json *smc)
{
	struct json_out o;

	jo_init(&o, b, 0);
	jo_obj(&o);
	jo_kstr(&o, "apiVersion", NAD_API);
	jo_kstr(&o, "kind", "NetworkAttachmentDefinition");
	jo_key(&o, "metadata");
	jo_obj(&o);
	jo_kstr(&o, "name", n->name);
	jo_kstr(&o, "namespace", json_text(kube_meta(smc, "namespace")));
	jo_key(&o, "annotations");
	jo_obj(&o);
	put_annotations(&o, &n->annotations);
	jo_end_obj(&o);
	put_owner(&o, smc);
	jo_end_obj(&o);
	jo_key(&o, "spec");
	jo_obj(&o);
	if (n->config)
		jo_kstr(&o, "config", n->config);
	jo_end_obj(&o);
	jo_end_obj(&o);
}

/* --- an existing NAD --- */

static bool same_annotations(const struct labels *l, const struct json *there)
{
	auto_json_index struct json_index x = json_index_of(there);

	if (l->n != x.n)
		return false;
	for (size_t i = 0; i < l->n; i++) {
		const char *s = json_string(x.v[i].v);

		if (strcmp(x.v[i].key, l->v[i].key) != 0)
			return false;

		if (!s || strcmp(s, l->v[i].value) != 0)
			return false;
	}
	return true;
}

static void patch_annotations(struct json_out *o, const struct labels *l, const struct json *there)
{
	struct json_walk w = json_walk_start(there);
	const char *key;

	jo_key(o, "annotations");
	jo_obj(o);
	put_annotations(o, l);
	while (json_walk_next(&w, &key))
		if (!labels_get(l, key)) {
			jo_key(o, key);
			jo_null(o);
		}
	jo_end_obj(o);
}

static bool same_config(const struct nad *n, const struct json *there)
{
	const char *is = json_text(json_get(json_get(there, "spec"), "config"));

	return strcmp(n->config ? n->config : "", is) == 0;
}

static void begin_patch(struct json_out *o, struct buf *b, const struct json *object)
{
	jo_init(o, b, 0);
	kube_patch_begin(o, json_text(kube_meta(object, "resourceVersion")));
}

bool nad_patch(struct buf *b, const struct nad *n, const struct json *smc, const struct json *there)
{
	const struct json *annotations = kube_meta(there, "annotations");
	bool owned = is_owned(there, smc), noted = same_annotations(&n->annotations, annotations);
	bool configured = same_config(n, there);
	struct json_out o;

	if (owned && noted && configured)
		return false;
	begin_patch(&o, b, there);
	if (!noted)
		patch_annotations(&o, &n->annotations, annotations);
	if (!owned)
		put_owner(&o, smc);
	jo_end_obj(&o);
	if (!configured) {
		jo_key(&o, "spec");
		jo_obj(&o);
		jo_kstr(&o, "config", n->config); /* NULL removes it */
		jo_end_obj(&o);
	}
	jo_end_obj(&o);
	return true;
}

/* --- status of a SpiderMultusConfig --- */

static const struct json *condition_of(const struct json *status)
{
	struct json_walk w = json_walk_start(json_get(status, "conditions"));
	const struct json *v;

	while ((v = json_walk_next(&w, NULL)))
		if (strcmp(json_text(json_get(v, "type")), "Ready") == 0)
			return v;
	return NULL;
}

static const char *word(const struct nad_state *s)
{
	return s->ready ? "True" : "False";
}

static bool says(const struct json *status, const struct nad_state *s, int64_t generation)
{
	const struct json *c = condition_of(status);
	int64_t seen;

	return c && json_int(json_get(c, "observedGeneration"), &seen) == 0 && seen == generation &&
	       strcmp(json_text(json_get(status, "nad")), s->nad) == 0 &&
	       strcmp(json_text(json_get(c, "status")), word(s)) == 0 &&
	       strcmp(json_text(json_get(c, "reason")), s->reason) == 0 &&
	       strcmp(json_text(json_get(c, "message")), s->message) == 0;
}

/* Writes lastTransitionTime of the condition "Ready": the current time if the status changes,
 * otherwise the former value. */
static void put_since(struct json_out *o, const struct json *was, const struct nad_state *s,
		      int64_t now_ms)
{
	const char *since = json_text(json_get(was, "lastTransitionTime"));
	char now[KUBE_TIME_MAX];

	kube_time_text(now_ms, now);
	if (!*since || strcmp(json_text(json_get(was, "status")), word(s)) != 0)
		since = now;
	jo_kstr(o, "lastTransitionTime", since);
}

bool nad_status_patch(struct buf *b, const struct json *smc, const struct nad_state *s,
		      int64_t now_ms)
{
	const struct json *status = json_get(smc, "status");
	int64_t generation = 0;
	struct json_out o;

	if (json_int(kube_meta(smc, "generation"), &generation) < 0)
		generation = 0;
	if (says(status, s, generation))
		return false;
	begin_patch(&o, b, smc);
	jo_end_obj(&o);
	jo_key(&o, "status");
	jo_obj(&o);
	jo_kstr(&o, "nad", s->nad);
	jo_key(&o, "conditions");
	jo_arr(&o);
	jo_obj(&o);
	jo_kstr(&o, "type", "Ready");
	jo_kstr(&o, "status", word(s));
	jo_kstr(&o, "reason", s->reason);
	if (*s->message)
		jo_kstr(&o, "message", s->message);
	jo_kint(&o, "observedGeneration", generation);
	put_since(&o, condition_of(status), s, now_ms);
	jo_end_obj(&o);
	jo_end_arr(&o);
	jo_end_obj(&o);
	jo_end_obj(&o);
	return true;
}
