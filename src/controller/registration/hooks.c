/* SPDX-License-Identifier: Apache-2.0 */
/* The two configurations at the API server: watched and put right. */
#include "controller/registration/hooks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "controller/registration/hooks_priv.h"
#include "wire/tls/base64.h"

enum { CALM_MS = 50, QUIET_MS = 60 * 1000, FIRST_WAIT_MS = 500, MOST_WAIT_MS = 60 * 1000 };

static const struct kube_kind kinds[2] = {{HOOKS_GROUP, "v1", "mutatingwebhookconfigurations",
					   "mutatingwebhookconfiguration", false},
					  {HOOKS_GROUP, "v1", "validatingwebhookconfigurations",
					   "validatingwebhookconfiguration", false}};

/* --- as it is there --- */

static int decode(void *value, const struct json *object, struct err *e)
{
	static const char *const injectors[] = {"cert-manager.io/inject-ca-from",
						"cert-manager.io/inject-ca-from-secret",
						"cert-manager.io/inject-apiserver-ca"};
	const struct json *meta = json_get(object, "metadata"),
			  *list = json_get(object, "webhooks");
	struct there *t = value;
	auto_buf struct buf b;
	struct json_out o;

	buf_init(&b, HOOKS_TEXT_MAX);
	jo_init(&o, &b, 0);
	if (list) {
		jo_val(&o, list, false);
	} else {
		jo_arr(&o);
		jo_end_arr(&o);
	}
	for (size_t i = 0; i < ARRAY_LEN(injectors); i++)
		t->injected |= json_get(json_get(meta, "annotations"), injectors[i]) != NULL;
	return json_parse(&t->doc, buf_span(&b), HOOKS_TEXT_MAX, e);
}

static void drop(void *value)
{
	json_free(((struct there *)value)->doc);
}

static const struct kube_object *now(const struct side *s)
{
	return kube_informer_get(s->informer, "", HOOKS_NAME);
}

static const struct json *list_of(const struct kube_object *o)
{
	return json_root(((const struct there *)o->value)->doc);
}

/* The first one's caBundle; NULL: there is none. */
static char *ca_there(const struct kube_object *o)
{
	const struct json *client = json_get(json_at(list_of(o), 0), "clientConfig");
	const char *text = json_string(json_get(client, "caBundle"));
	char *ca = NULL;

	if (!text || base64_decode(span_of(text), &ca) < 0)
		return NULL;
	return ca;
}

/* --- as it is to be --- */

static void put_wanted(const struct side *s, const struct kube_object *o, struct json_out *out)
{
	struct hooks_form f = s->h->conf.form;
	auto_free char *injected = NULL;

	if (s->no_conditions)
		f.condition = NULL;
	if (o && ((const struct there *)o->value)->injected)
		f.ca = injected = ca_there(o);
	hooks_write(&f, s->validating, out);
}

static void look(struct side *s);

static void on_time(void *arg)
{
	struct side *s = arg;

	s->timer = NULL;
	look(s);
}

void hooks_look_in(struct side *s, int64_t ms)
{
	loop_del_timer(s->timer);
	s->timer = loop_add_timer(s->h->loop, ms, on_time, s);
}

/* What we asked for is what we want, and it was there. */
static void note_change(struct side *s, const char *what)
{
	int64_t at = loop_now_ms(s->h->loop);

	if (at - s->healed_at > QUIET_MS)
		kube_backoff_reset(&s->calm);
	s->healed_at = at;
	s->not_before = at + kube_backoff_next(&s->calm);
	s->h->healed++;
	log_warn("webhooks were changed by somebody else: put right",
		 LOG_S("object", s->kind->name), LOG_S("what", what));
}

static void look(struct side *s)
{
	const struct kube_object *o;
	auto_buf struct buf want, what;
	auto_json struct json_doc *d = NULL;
	struct json_out out;

	buf_init(&want, HOOKS_TEXT_MAX);
	buf_init(&what, HOOKS_WHAT_MAX);
	if (s->call || !kube_informer_synced(s->informer))
		return;
	o = now(s);
	s->missing &= !o;
	/* What we wrote is on its way here. */
	if (s->version && (!o || kube_version_older(o->version, s->version)))
		return;
	jo_init(&out, &want, 0);
	put_wanted(s, o, &out);
	if (!o) {
		buf_str(&what, "deleted");
	} else if (json_parse(&d, buf_span(&want), HOOKS_TEXT_MAX, NULL) == 0) {
		hooks_differ(list_of(o), json_root(d), !s->no_conditions, &what);
	}
	if (what.len && !(o && hooks_is_kept(s, list_of(o), want.p))) {
		bool theirs = s->right && s->sent && !strcmp(s->sent, want.p);

		if (theirs && s->not_before > loop_now_ms(s->h->loop)) {
			hooks_look_in(s, s->not_before - loop_now_ms(s->h->loop));
			return;
		}
		if (theirs)
			note_change(s, what.p);
		hooks_send(s, want.p, o ? o->version : NULL);
		return;
	}
	if (!s->sent || strcmp(s->sent, want.p)) {
		free(s->sent);
		s->sent = xstrdup(want.p);
	}
	s->right = true;
}

/* --- changes --- */

static void forget_version(struct side *s)
{
	free(s->version);
	s->version = NULL;
}

/* etcd's data are from an earlier time: ours will not come. */
static void on_set_back(void *arg)
{
	forget_version(arg);
	hooks_look_in(arg, 0);
}

static void on_changed(void *arg, const struct kube_object *was, const struct kube_object *is)
{
	struct side *s = arg;

	(void)was;
	if (!is)
		forget_version(s);
	/* Not from within: the informer has it when this returns. */
	hooks_look_in(s, 0);
}

static void on_synced(void *arg)
{
	hooks_look_in(arg, 0);
}

void hooks_look(struct hooks *h, const struct hooks_form *f)
{
	h->conf.form = *f;
	for (size_t i = 0; i < ARRAY_LEN(h->sides); i++)
		hooks_look_in(&h->sides[i], 0);
}

bool hooks_trust(const struct hooks *h, const char *ca)
{
	for (size_t i = 0; i < ARRAY_LEN(h->sides); i++) {
		const struct kube_object *o = now(&h->sides[i]);
		auto_free char *there = o ? ca_there(o) : NULL;

		if (!there || strcmp(there, ca))
			return false;
	}
	return true;
}

bool hooks_registered(const struct hooks *h)
{
	for (size_t i = 0; i < ARRAY_LEN(h->sides); i++) {
		const struct kube_object *o = now(&h->sides[i]);

		if (!o || !json_len(list_of(o)))
			return false;
	}
	return true;
}

const char *hooks_missing(const struct hooks *h)
{
	for (size_t i = 0; i < ARRAY_LEN(h->sides); i++)
		if (h->sides[i].missing)
			return h->sides[i].kind->name;
	return NULL;
}

bool hooks_have(const struct hooks *h, const char *token)
{
	for (size_t i = 0; i < ARRAY_LEN(h->sides); i++) {
		const struct kube_object *o = now(&h->sides[i]);
		const struct json *client = o ? json_get(json_at(list_of(o), 0), "clientConfig")
					      : NULL;
		const char *url = json_string(json_get(client, "url"));
		const char *path = json_string(json_get(json_get(client, "service"), "path"));

		if (!h->sides[i].right || (!url && !path) || !strstr(url ? url : path, token))
			return false;
	}
	return true;
}

uint64_t hooks_healed(const struct hooks *h)
{
	return h->healed;
}

/* --- life --- */

static void start(struct side *s, struct hooks *h, bool validating)
{
	*s = (struct side){.h = h,
			   .kind = &kinds[validating],
			   .validating = validating,
			   .backoff = {.base = FIRST_WAIT_MS, .most = MOST_WAIT_MS},
			   .calm = {.base = CALM_MS, .most = MOST_WAIT_MS}};
	s->informer = kube_informer_new(
		h->conf.kube,
		&(struct kube_informer_conf){.kind = s->kind,
					     .select = {.fields = "metadata.name=" HOOKS_NAME},
					     .size = sizeof(struct there),
					     .decode = decode,
					     .drop = drop,
					     .changed = on_changed,
					     .synced = on_synced,
					     .set_back = on_set_back,
					     .arg = s});
}

struct hooks *hooks_new(const struct hooks_conf *c)
{
	struct hooks *h = xcalloc(1, sizeof(*h));

	h->conf = *c;
	h->loop = kube_loop(c->kube);
	for (size_t i = 0; i < ARRAY_LEN(h->sides); i++)
		start(&h->sides[i], h, i == 1);
	return h;
}

void hooks_free(struct hooks *h)
{
	if (!h)
		return;
	for (size_t i = 0; i < ARRAY_LEN(h->sides); i++) {
		struct side *s = &h->sides[i];

		kube_cancel(s->call);
		kube_informer_free(s->informer);
		loop_del_timer(s->timer);
		free(s->sent);
		free(s->version);
		free(s->kept);
	}
	free(h);
}
