/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/gc/pool_status_write.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "controller/gc/internal.h"
#include "ipam/pool/pool_cluster.h"
#include "ipam/pool/pool_spec.h"
#include "kube/kinds.h"
#include "kube/object.h"
#include "spec/annotations.h"
#include "wire/json/json.h"

/* The writes: one at a time for a pool, each computed from the current object. */

/* BYTES_A_MS: a text of this many bytes delays the next write of the pool by a millisecond (at most
 * PACE_MOST_MS), because the watch of every node receives each text. */
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

const char *pool_status_annotation(const struct json *object)
{
	return json_string(json_get(kube_meta(object, "annotations"), ANNOTATION_ADOPTED));
}

/* --- end of a write of a pool --- */

static void on_written(void *arg, int status, const struct json *object, const struct err *e)
{
	struct pool_status_pool *p = arg;
	struct pool_status *c = p->c;
	int64_t wait = p->pace_ms;

	(void)object;
	p->call = NULL;
	pool_status_freed(p, !e);
	if (!e) {
		c->stats.writes++;
		p->failures = 0;
		log_once_clear(&p->logged);
	} else {
		free(take(p->base));
		c->stats.conflicts += status == 409;
		c->stats.failures += status != 409 && status != 404;
		wait = status == 409 ? RIVAL_MS : (int64_t)FAILED_MS << p->failures;
		p->failures += status != 409 && p->failures < FAILED_MOST;
		if (status != 409 && status != 404)
			pool_status_logged(p, e);
		p->dirty = true;
	}
	p->next_ms = pool_status_now(c) + wait;
	p->base_until = pool_status_now(c) + SHOWN_MS;
	pool_status_schedule(c, wait);
}

static int64_t lasts(size_t len)
{
	int64_t ms = (int64_t)(len / BYTES_A_MS);

	return ms > PACE_MOST_MS ? PACE_MOST_MS : ms;
}

/* Sends a merge patch bound to `version`. sub is the subresource or NULL, body the complete patch.
 * */
static void patch(struct pool_status_pool *p, const char *version, const char *sub,
		  const char *body, int64_t pace_ms)
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

/* --- metadata: adopted records, the finalizer --- */

void pool_status_patch_meta(struct pool_status_pool *p, const struct json *object,
			    const char *annotation, bool finalizer)
{
	const char *version = json_string(kube_meta(object, "resourceVersion"));
	auto_buf struct buf b;
	struct json_out o;

	buf_init(&b, BODY_MAX);
	jo_init(&o, &b, 0);
	kube_patch_begin(&o, version);
	if (annotation) {
		jo_key(&o, "annotations");
		jo_obj(&o);
		jo_kstr(&o, ANNOTATION_ADOPTED, annotation);
		jo_end_obj(&o);
	}
	if (finalizer != kube_has_finalizer(object, SPIDERPOOL_FINALIZER))
		kube_put_finalizers(&o, object, SPIDERPOOL_FINALIZER, finalizer);
	jo_end_obj(&o);
	jo_end_obj(&o);
	p->dirty = true;
	/* Delays the next write of the pool according to the length of the annotation, because
	 * every node watches pools and receives the annotation. */
	patch(p, version, NULL, b.p, annotation ? lasts(strlen(annotation)) : 0);
}

bool pool_status_is_deleting(const struct json *object)
{
	return kube_meta(object, "deletionTimestamp");
}

/* The API server rejects a finalizer added to an object that is being deleted. */
bool pool_status_wants_finalizer(const struct json *object)
{
	return pool_status_is_deleting(object) ? kube_has_finalizer(object, SPIDERPOOL_FINALIZER)
					       : true;
}

/* --- status of a pool --- */

/* Counts the addresses of the spec. Returns false if the spec is invalid; the count in the status
 * then stays. */
static bool count_all(const struct json *object, int64_t *ret)
{
	struct pool_spec s = {.origin = "", .spec = json_get(object, "spec"), .agent_ns = "-"};
	struct pool_draft d = {.name = xstrdup("x"), .origin = xstrdup("")};
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
	int64_t ms = lasts(len);

	return ms < PACE_MS ? PACE_MS : ms;
}

/* text NULL: leaves allocatedIPs unchanged. */
static void patch_status(struct pool_status_pool *p, const struct json *object, bool counted,
			 const char *text)
{
	const char *version = json_string(kube_meta(object, "resourceVersion"));
	auto_buf struct buf b;
	struct json_out o;

	buf_init(&b, BODY_MAX);
	jo_init(&o, &b, 0);
	kube_patch_begin(&o, version);
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

bool pool_status_write_status(struct pool_status_pool *p, const struct json *object, uint64_t there,
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

enum { TEXT_MAX = 64 << 20 };

void records_add(struct records *r, const struct record *one)
{
	VEC_PUSH(r->v, r->n) = *one;
}

void records_done(struct records *r)
{
	free(r->v);
	*r = (struct records){0};
}

static int by_ip(const void *a, const void *b)
{
	return ip_cmp(&((const struct record *)a)->ip, &((const struct record *)b)->ip);
}

/* The elements have numbers, because qsort() may reorder equal elements. */
struct numbered {
	struct record r;
	size_t at;
};

static int by_ip_then_age(const void *a, const void *b)
{
	const struct numbered *x = a, *y = b;
	int r = by_ip(&x->r, &y->r);

	return r ? r : (x->at > y->at) - (x->at < y->at);
}

static bool is_sorted(const struct records *r)
{
	for (size_t i = 1; i < r->n; i++)
		if (by_ip(&r->v[i - 1], &r->v[i]) >= 0)
			return false;
	return true;
}

void records_sort(struct records *r)
{
	auto_free struct numbered *v = NULL;
	size_t n = 0;

	if (is_sorted(r))
		return;
	v = xcalloc(r->n, sizeof(*v));
	for (size_t i = 0; i < r->n; i++)
		v[i] = (struct numbered){r->v[i], i};
	qsort(v, r->n, sizeof(*v), by_ip_then_age);
	for (size_t i = 0; i < r->n; i++)
		if (n == 0 || !ip_eq(&r->v[n - 1].ip, &v[i].r.ip))
			r->v[n++] = v[i].r;
	r->n = n;
}

struct key {
	char text[IP_TEXT_MAX];
	const struct record *r;
};

static int by_text(const void *a, const void *b)
{
	return strcmp(((const struct key *)a)->text, ((const struct key *)b)->text);
}

static void put(struct json_out *o, const struct key *k)
{
	auto_free char *pod = k->r->ns ? xasprintf("%s/%s", k->r->ns, k->r->pod)
				       : xstrdup(k->r->pod);

	jo_key(o, k->text);
	jo_obj(o);
	jo_kstr(o, "pod", pod);
	jo_kstr(o, "podUid", k->r->uid);
	jo_end_obj(o);
}

char *records_text(struct records *r, size_t max)
{
	auto_free struct key *keys = NULL;
	struct json_out o;
	struct buf b;

	records_sort(r);
	if (r->n == 0 || max == 0)
		return xstrdup("");
	keys = xcalloc(r->n, sizeof(*keys));
	for (size_t i = 0; i < r->n; i++) {
		keys[i].r = &r->v[i];
		ip_str(&r->v[i].ip, keys[i].text);
	}
	qsort(keys, r->n, sizeof(*keys), by_text);
	buf_init(&b, TEXT_MAX);
	jo_init(&o, &b, 0);
	jo_obj(&o);
	for (size_t i = 0; i < r->n && i < max; i++) {
		if (max < SIZE_MAX && b.len >= RECORDS_TEXT_MAX)
			break;
		put(&o, &keys[i]);
	}
	jo_end_obj(&o);
	return buf_take(&b);
}
