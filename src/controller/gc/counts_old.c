/* SPDX-License-Identifier: Apache-2.0 */
/* Which write a pool needs next: its old records, its status, its finalizer. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "controller/gc/counts_priv.h"
#include "ipam/journal/journal_line.h"
#include "ipam/pool/pool_kube.h"
#include "kube/kinds.h"

/* The next look after a read that failed. */
enum { FAILED_MS = 2000 };

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

	if (read_old(p, counts_note(object), &o) < 0)
		return;
	if (counts_judge(p, &o.r) > 0) {
		auto_free char *note = text_or_empty(&o.r);

		counts_patch_meta(p, object, note, counts_wants_finalizer(object));
		return;
	}
	text = merge(p, &o);
	if (counts_write_status(p, object, world_object(k)->allocated, text))
		return;
	want = counts_wants_finalizer(object) && (!counts_is_deleting(object) || p->allocated > 0 ||
						  world_hold(p->c->conf.world) != WORLD_SURE);
	if (counts_has_finalizer(object) != want)
		counts_patch_meta(p, object, NULL, want);
}

/* --- a pool that is seen first --- */

/* Too many for an annotation: they stay in the status, which is theirs alone until they are fewer. */
static void act_on_many(struct counts_pool *p, const struct json *object, struct old *o)
{
	auto_free char *text = NULL, *all = NULL;

	counts_judge(p, &o->r);
	text = records_text(&o->r, SIZE_MAX);
	all = merge(p, o);
	if (counts_write_status(p, object, xxh64(p->got, strlen(p->got)), text))
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
	counts_patch_meta(p, object, note, counts_wants_finalizer(object));
}

static void on_got(void *arg, int status, const struct json *object, const struct err *e)
{
	struct counts_pool *p = arg;
	const char *text = json_string(json_get(json_get(object, "status"), "allocatedIPs"));
	const char *version = json_string(counts_meta(object, "resourceVersion"));

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
	bool noted = counts_note(object), got = p->got && strcmp(p->got_version, o->version) == 0;

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
		counts_patch_meta(p, object, "{}", counts_wants_finalizer(object));
}
