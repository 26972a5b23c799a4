/* SPDX-License-Identifier: Apache-2.0 */
/* The writes: one after the other for a pool, each made of the object as it is now. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "controller/counts_priv.h"
#include "ipam/journal_line.h"
#include "ipam/pool_kube.h"
#include "ipam/pool_spec.h"
#include "kube/kinds.h"

/* BYTES_A_MS: of a long text, so that all nodes' watches have it a second later. */
enum {
	PACE_MS = 1000,
	PACE_MOST_MS = 60 * 1000,
	BYTES_A_MS = 8,
	RIVAL_MS = 300,
	FAILED_MS = 2000,
	FAILED_MOST = 5,
	SHOWN_MS = 5000,
	BODY_MAX = 8 << 20
};

static const struct json *meta(const struct json *object, const char *key)
{
	return json_get(json_get(object, "metadata"), key);
}

static const char *note_of(const struct json *object)
{
	return json_string(json_get(meta(object, "annotations"), POOL_ADOPTED_NOTE));
}

/* --- the end of a write --- */

static void on_written(void *arg, int status, const struct json *object, const struct err *e)
{
	struct counts_pool *p = arg;
	struct counts *c = p->c;
	int64_t wait = p->pace_ms;

	(void)object;
	p->call = NULL;
	counts_freed(p, !e);
	if (!e) {
		c->stats.writes++;
		p->failures = 0;
		free(take(p->said));
	} else {
		free(take(p->base));
		c->stats.conflicts += status == 409;
		c->stats.failures += status != 409 && status != 404;
		wait = status == 409 ? RIVAL_MS : (int64_t)FAILED_MS << p->failures;
		p->failures += status != 409 && p->failures < FAILED_MOST;
		if (status != 409 && status != 404)
			counts_said(p, e);
		p->dirty = true;
	}
	p->next_ms = counts_now(c) + wait;
	p->base_until = counts_now(c) + SHOWN_MS;
	counts_soon(c, wait);
}

/* A merge patch of what `version` is of; `part` has the members of metadata or of the status. */
static void patch(struct counts_pool *p, const char *version, const char *sub, const char *body,
		  int64_t pace_ms)
{
	const struct kube_request r = {
		.verb = KUBE_MERGE_PATCH,
		.on = {.kind = &kube_ippools, .name = p->name, .sub = sub},
		.body = span_of(body),
		.once = true,
	};

	free(p->base);
	p->base = xstrdup(version);
	p->base_until = INT64_MAX;
	p->pace_ms = pace_ms;
	p->call = kube_send(p->c->conf.kube, &r, on_written, p);
}

/* --- metadata: old records, the finalizer --- */

static bool has_finalizer(const struct json *object)
{
	struct json_walk w = json_walk_start(meta(object, "finalizers"));
	const struct json *v;

	while ((v = json_walk_next(&w, NULL)))
		if (json_string(v) && strcmp(json_string(v), COUNTS_FINALIZER) == 0)
			return true;
	return false;
}

static void put_finalizers(struct json_out *o, const struct json *object, bool wanted)
{
	struct json_walk w = json_walk_start(meta(object, "finalizers"));
	const struct json *v;

	jo_key(o, "finalizers");
	jo_arr(o);
	while ((v = json_walk_next(&w, NULL)))
		if (json_string(v) && strcmp(json_string(v), COUNTS_FINALIZER) != 0)
			jo_str(o, json_string(v));
	if (wanted)
		jo_str(o, COUNTS_FINALIZER);
	jo_end_arr(o);
}

/* note NULL: stays as it is. */
static void patch_meta(struct counts_pool *p, const struct json *object, const char *note,
		       bool finalizer)
{
	const char *version = json_string(meta(object, "resourceVersion"));
	auto_buf struct buf b;
	struct json_out o;

	buf_init(&b, BODY_MAX);
	jo_init(&o, &b, 0);
	jo_obj(&o);
	jo_key(&o, "metadata");
	jo_obj(&o);
	jo_kstr(&o, "resourceVersion", version);
	if (note) {
		jo_key(&o, "annotations");
		jo_obj(&o);
		jo_kstr(&o, POOL_ADOPTED_NOTE, note);
		jo_end_obj(&o);
	}
	if (finalizer != has_finalizer(object))
		put_finalizers(&o, object, finalizer);
	jo_end_obj(&o);
	jo_end_obj(&o);
	p->dirty = true;
	patch(p, version, NULL, b.p, 0);
}

static bool is_deleting(const struct json *object)
{
	return meta(object, "deletionTimestamp");
}

/* A finalizer cannot be added to what is being deleted. */
static bool wants_finalizer(const struct json *object)
{
	return is_deleting(object) ? has_finalizer(object) : true;
}

/* --- the status --- */

/* A spec that is not valid has no count: what was written of it stays. */
static bool count_all(const struct json *object, int64_t *ret)
{
	struct pool_spec s = {.where = "", .spec = json_get(object, "spec"), .agent_ns = "-"};
	struct pool_draft d = {.name = xstrdup("x"), .where = xstrdup("")};
	struct pool_set set = {0};
	u128 n;
	bool ok = pool_spec_read(&s, &d, NULL) == 0 && pool_set_add(&set, &d, NULL) == 0;

	if (ok) {
		n = ip_set_count(&set.v[0].ips);
		*ret = n > INT64_MAX ? INT64_MAX : (int64_t)n;
	}
	pool_draft_done(&d);
	pool_set_done(&set);
	return ok;
}

static bool has_count(const struct json *object, const char *key, int64_t n)
{
	int64_t there;

	return json_int(json_get(json_get(object, "status"), key), &there) == 0 && there == n;
}

static int64_t pace_of(size_t len)
{
	int64_t ms = (int64_t)(len / BYTES_A_MS);

	return ms < PACE_MS ? PACE_MS : ms > PACE_MOST_MS ? PACE_MOST_MS : ms;
}

/* text NULL: allocatedIPs stays. */
static void patch_status(struct counts_pool *p, const struct json *object, bool counted,
			 const char *text)
{
	const char *version = json_string(meta(object, "resourceVersion"));
	auto_buf struct buf b;
	struct json_out o;

	buf_init(&b, BODY_MAX);
	jo_init(&o, &b, 0);
	jo_obj(&o);
	jo_key(&o, "metadata");
	jo_obj(&o);
	jo_kstr(&o, "resourceVersion", version);
	jo_end_obj(&o);
	jo_key(&o, "status");
	jo_obj(&o);
	jo_kint(&o, "allocatedIPCount", p->allocated);
	if (counted)
		jo_kint(&o, "totalIPCount", p->total);
	if (text)
		jo_kstr(&o, "allocatedIPs", *text ? text : NULL);
	jo_end_obj(&o);
	jo_end_obj(&o);
	patch(p, version, "status", b.p, pace_of(text ? strlen(text) : 0));
}

/* False: all of it is there. */
static bool write_status(struct counts_pool *p, const struct json *object, uint64_t there,
			 const char *text)
{
	bool counted = count_all(object, &p->total);
	uint64_t digest = text && *text ? xxh64(text, strlen(text)) : 0;

	if (has_count(object, "allocatedIPCount", p->allocated) &&
	    (!counted || has_count(object, "totalIPCount", p->total)) && (!text || digest == there))
		return false;
	patch_status(p, object, counted, text);
	return true;
}

/* --- old records --- */

/* With strings of their own. */
struct old {
	struct records r;
	char **own;
	size_t n_own;
};

static void keep_old(void *arg, const struct ipaddr *ip, const char *pod, const char *uid)
{
	struct old *o = arg;
	char *p = xstrdup(pod), *u = xstrdup(uid);

	VEC_PUSH(o->own, o->n_own) = p;
	VEC_PUSH(o->own, o->n_own) = u;
	records_add(&o->r, &(struct record){.ip = *ip, .pod = p, .uid = u});
}

static void old_done(struct old *o)
{
	records_done(&o->r);
	str_list_free(o->own, o->n_own);
}
#define auto_old __attribute__((cleanup(old_done)))

static int read_old(struct counts_pool *p, const char *text, struct old *ret)
{
	struct err e = ERR_INIT;
	int r = pool_records_read(text, keep_old, ret, &e);

	if (r < 0) {
		err_wrap(&e, r, "status.allocatedIPs (or annotation " POOL_ADOPTED_NOTE ")");
		counts_said(p, &e);
	}
	p->adopted = ret->r.n > 0;
	return r;
}

static char *text_or_empty(struct records *r)
{
	char *text = records_text(r, SIZE_MAX);

	if (*text)
		return text;
	free(text);
	return xstrdup("{}");
}

/* What endpoints say counts first; the rest is of before. */
static char *merge(struct counts_pool *p, const struct old *o)
{
	for (size_t i = 0; i < o->r.n; i++)
		records_add(&p->own, &o->r.v[i]);
	records_sort(&p->own);
	p->allocated = (int64_t)p->own.n;
	p->looked = true;
	return records_text(&p->own, p->c->conf.records_max);
}

/* The pool's old records are in the annotation. */
static void act_on_noted(struct counts_pool *p, const struct kube_object *k)
{
	const struct json *object = world_json(k);
	auto_old struct old o = {0};
	auto_free char *text = NULL;
	bool want;

	if (read_old(p, note_of(object), &o) < 0)
		return;
	if (counts_judge(p, &o.r) > 0) {
		auto_free char *note = text_or_empty(&o.r);

		patch_meta(p, object, note, wants_finalizer(object));
		return;
	}
	text = merge(p, &o);
	if (write_status(p, object, world_object(k)->allocated, text))
		return;
	want = wants_finalizer(object) && (!is_deleting(object) || p->allocated > 0 ||
					   world_hold(p->c->conf.world) != WORLD_SURE);
	if (has_finalizer(object) != want)
		patch_meta(p, object, NULL, want);
}

/* --- a pool that is seen first --- */

/* Too many for an annotation: they stay in the status, which is theirs alone until they are fewer. */
static void act_on_many(struct counts_pool *p, const struct json *object, struct old *o)
{
	auto_free char *text = NULL, *all = NULL;

	counts_judge(p, &o->r);
	text = records_text(&o->r, SIZE_MAX);
	all = merge(p, o);
	if (write_status(p, object, xxh64(p->got, strlen(p->got)), text))
		p->dirty = true;
}

static void act_on_first(struct counts_pool *p, const struct json *object)
{
	auto_old struct old o = {0};
	auto_free char *note = NULL;

	if (read_old(p, p->got, &o) < 0)
		return;
	if (strlen(p->got) > COUNTS_NOTE_MAX) {
		act_on_many(p, object, &o);
		return;
	}
	note = text_or_empty(&o.r);
	patch_meta(p, object, note, wants_finalizer(object));
}

static void on_got(void *arg, int status, const struct json *object, const struct err *e)
{
	struct counts_pool *p = arg;
	const char *text = json_string(json_get(json_get(object, "status"), "allocatedIPs"));
	const char *version = json_string(meta(object, "resourceVersion"));

	(void)status;
	p->call = NULL;
	p->dirty = true;
	if (e) {
		counts_said(p, e);
		p->next_ms = counts_now(p->c) + FAILED_MS;
	} else if (version) {
		free(p->got);
		free(p->got_version);
		p->got = xstrdup(text ? text : "");
		p->got_version = xstrdup(version);
	}
	counts_soon(p->c, 0);
}

static void fetch(struct counts_pool *p)
{
	const struct kube_request r = {.verb = KUBE_GET,
				       .on = {.kind = &kube_ippools, .name = p->name}};

	p->call = kube_send(p->c->conf.kube, &r, on_got, p);
}

void counts_act(struct counts_pool *p, const struct kube_object *o)
{
	const struct json *object = world_json(o);
	bool noted = note_of(object), got = p->got && strcmp(p->got_version, o->version) == 0;

	if (noted || !got) {
		free(take(p->got));
		free(take(p->got_version));
	}
	if (noted)
		act_on_noted(p, o);
	else if (got)
		act_on_first(p, object);
	else if (world_object(o)->allocated)
		fetch(p);
	else
		patch_meta(p, object, "{}", wants_finalizer(object));
}
