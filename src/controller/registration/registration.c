/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/registration/registration.h"
#include "controller/registration/tokenless.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/backoff.h"
#include "kube/informer.h"
#include "kube/kinds.h"
#include "kube/object.h"
#include "spec/annotations.h"
#include "wire/tls/base64.h"

enum { REGISTRATION_TEXT_MAX = 1 << 20, REGISTRATION_WHAT_MAX = 1024 };

/* The mutating or the validating configuration. */
struct side {
	struct registration *h;
	const struct kube_kind *kind;
	bool validating;
	struct kube_informer *informer;
	struct kube_call *call;
	struct loop_alarm timer;
	struct backoff backoff;
	/* Backoff for the case that this controller and another writer keep reverting each
	 * other's changes. */
	struct backoff calm;
	int64_t restored_at, not_before;
	char *sent;    /* last content requested, or found correct; NULL: none yet */
	char *version; /* resourceVersion of our last write; an older one in the watch is stale */
	char *stored;  /* what the server stored for `sent`, if different; NULL: the same */
	bool right;    /* the content was correct at least once after `sent` was requested */
	bool no_conditions; /* the server drops or rejects matchConditions */
	bool making;	    /* the call in flight creates the object */
	bool missing;	    /* the object does not exist, and the account may not create it */
};

struct registration {
	struct registration_conf conf;
	struct loop *loop;
	struct side sides[2];
	uint64_t restored;
};

/* a kube_object.value */
struct there {
	struct json_doc *doc; /* the field `webhooks` */
	bool injected;	      /* cert-manager injects the caBundle */
};

/* --- watches the two configurations and reverts changes --- */

enum { CALM_MS = 50, STABLE_MS = 60 * 1000, FIRST_WAIT_MS = 500, MOST_WAIT_MS = 60 * 1000 };

static const struct kube_kind *const kinds[2] = {&kube_mutating_webhooks,
						 &kube_validating_webhooks};

/* --- watched objects --- */

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

	buf_init(&b, REGISTRATION_TEXT_MAX);
	jo_init(&o, &b, 0);
	if (list) {
		jo_val(&o, list, false);
	} else {
		jo_arr(&o);
		jo_end_arr(&o);
	}
	for (size_t i = 0; i < ARRAY_LEN(injectors); i++)
		t->injected |= json_get(json_get(meta, "annotations"), injectors[i]) != NULL;
	return json_parse(&t->doc, buf_span(&b), REGISTRATION_TEXT_MAX, e);
}

static void drop(void *value)
{
	json_free(((struct there *)value)->doc);
}

static const struct kube_object *now(const struct side *s)
{
	return kube_informer_get(s->informer, "", REGISTRATION_NAME);
}

static const struct json *list_of(const struct kube_object *o)
{
	return json_root(((const struct there *)o->value)->doc);
}

/* Returns the caBundle of the first webhook; NULL: none. */
static char *ca_there(const struct kube_object *o)
{
	const struct json *client = json_get(json_at(list_of(o), 0), "clientConfig");
	const char *text = json_string(json_get(client, "caBundle"));
	char *ca = NULL;

	if (!text || base64_decode(span_of(text), &ca) < 0)
		return NULL;
	return ca;
}

/* --- requested content of the registration --- */

static void put_wanted(const struct side *s, const struct kube_object *o, struct json_out *out)
{
	struct registration_form f = s->h->conf.form;
	auto_free char *injected = NULL;

	if (s->no_conditions)
		f.condition = NULL;
	if (o && ((const struct there *)o->value)->injected)
		f.ca = injected = ca_there(o);
	registration_write(&f, s->validating, out);
}

static void registration_schedule(struct side *s, int64_t ms)
{
	loop_alarm_set(&s->timer, ms);
}

/* Another writer has changed content that we wrote: counts and logs the change, and sets the
 * earliest time of the next correction. */
static void log_change(struct side *s, const char *what)
{
	int64_t at = loop_now_ms(s->h->loop);

	if (at - s->restored_at > STABLE_MS)
		backoff_reset(&s->calm);
	s->restored_at = at;
	s->not_before = at + backoff_next(&s->calm);
	s->h->restored++;
	log_warn("webhooks were changed by another program, correcting them",
		 LOG_S("object", s->kind->name), LOG_S("what", what));
}

static char *text_of(const struct json *v)
{
	auto_buf struct buf b;
	struct json_out o;

	buf_init(&b, REGISTRATION_TEXT_MAX);
	jo_init(&o, &b, 0);
	jo_val(&o, v, true);
	return buf_take(&b);
}

/* Returns whether `webhooks` equals the content that the server stored for `want`. */
static bool registration_is_stored(const struct side *s, const struct json *webhooks,
				   const char *want)
{
	auto_free char *text = s->stored && !strcmp(s->sent, want) ? text_of(webhooks) : NULL;

	return text && !strcmp(text, s->stored);
}

static void registration_send(struct side *s, const char *webhooks, const char *version);

static void scan(void *arg)
{
	struct side *s = arg;
	const struct kube_object *o;
	auto_buf struct buf want, what;
	auto_json struct json_doc *d = NULL;
	struct json_out out;

	buf_init(&want, REGISTRATION_TEXT_MAX);
	buf_init(&what, REGISTRATION_WHAT_MAX);
	if (s->call || !kube_informer_synced(s->informer))
		return;
	o = now(s);
	s->missing &= !o;
	/* The watch has not delivered our last write yet. */
	if (s->version && (!o || kube_version_older(o->version, s->version)))
		return;
	jo_init(&out, &want, 0);
	put_wanted(s, o, &out);
	if (!o) {
		buf_str(&what, "deleted");
	} else if (json_parse(&d, buf_span(&want), REGISTRATION_TEXT_MAX, NULL) == 0) {
		registration_differ(list_of(o), json_root(d), !s->no_conditions, &what);
	}
	if (what.len && !(o && registration_is_stored(s, list_of(o), want.p))) {
		bool of_other = s->right && s->sent && !strcmp(s->sent, want.p);

		if (of_other && s->not_before > loop_now_ms(s->h->loop)) {
			registration_schedule(s, s->not_before - loop_now_ms(s->h->loop));
			return;
		}
		if (of_other)
			log_change(s, what.p);
		registration_send(s, want.p, o ? o->version : NULL);
		return;
	}
	if (!s->sent || strcmp(s->sent, want.p)) {
		free(s->sent);
		s->sent = xstrdup(want.p);
	}
	s->right = true;
}

/* --- changes of watched objects --- */

static void forget_version(struct side *s)
{
	free(s->version);
	s->version = NULL;
}

/* After an etcd restore the watch never delivers the version that this process wrote. */
static void on_etcd_restored(void *arg)
{
	forget_version(arg);
	registration_schedule(arg, 0);
}

static void on_changed(void *arg, const struct kube_object *was, const struct kube_object *is)
{
	struct side *s = arg;

	(void)was;
	if (!is)
		forget_version(s);
	/* Deferred to the next turn of the loop: one scan handles all changes of this turn. */
	registration_schedule(s, 0);
}

static void on_synced(void *arg)
{
	registration_schedule(arg, 0);
}

static void replace(const char **s, const char *text)
{
	free((char *)*s);
	*s = text ? xstrdup(text) : NULL;
}

/* Replaces the form: copies the strings that change while the controller runs, and borrows the
 * others. */
static void set_form(struct registration *h, const struct registration_form *f)
{
	struct registration_form was = h->conf.form;

	h->conf.form = *f;
	h->conf.form.token = was.token;
	h->conf.form.ca = was.ca;
	h->conf.form.condition = was.condition;
	replace(&h->conf.form.token, f->token);
	replace(&h->conf.form.ca, f->ca);
	replace(&h->conf.form.condition, f->condition);
}

void registration_update(struct registration *h, const struct registration_form *f)
{
	set_form(h, f);
	for (size_t i = 0; i < ARRAY_LEN(h->sides); i++)
		registration_schedule(&h->sides[i], 0);
}

bool registration_trusts(const struct registration *h, const char *ca)
{
	for (size_t i = 0; i < ARRAY_LEN(h->sides); i++) {
		const struct kube_object *o = now(&h->sides[i]);
		auto_free char *there = o ? ca_there(o) : NULL;

		if (!there || strcmp(there, ca))
			return false;
	}
	return true;
}

bool registration_complete(const struct registration *h)
{
	for (size_t i = 0; i < ARRAY_LEN(h->sides); i++) {
		const struct kube_object *o = now(&h->sides[i]);

		if (!o || !json_len(list_of(o)))
			return false;
	}
	return true;
}

const char *registration_missing(const struct registration *h)
{
	for (size_t i = 0; i < ARRAY_LEN(h->sides); i++)
		if (h->sides[i].missing)
			return h->sides[i].kind->name;
	return NULL;
}

bool registration_has(const struct registration *h, const char *token)
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

uint64_t registration_restored(const struct registration *h)
{
	return h->restored;
}

/* --- creation and destruction --- */

static void start(struct side *s, struct registration *h, bool validating)
{
	*s = (struct side){.h = h,
			   .kind = kinds[validating],
			   .validating = validating,
			   .timer = LOOP_ALARM(h->loop, scan, s),
			   .backoff = {.base = FIRST_WAIT_MS, .most = MOST_WAIT_MS},
			   .calm = {.base = CALM_MS, .most = MOST_WAIT_MS}};
	s->informer = kube_informer_new(
		h->conf.kube, &(struct kube_informer_conf){
				      .kind = s->kind,
				      .select = {.fields = "metadata.name=" REGISTRATION_NAME},
				      .size = sizeof(struct there),
				      .decode = decode,
				      .drop = drop,
				      .changed = on_changed,
				      .synced = on_synced,
				      .etcd_restored = on_etcd_restored,
				      .arg = s});
}

struct registration *registration_new(const struct registration_conf *c)
{
	struct registration *h = xcalloc(1, sizeof(*h));

	h->conf.kube = c->kube;
	set_form(h, &c->form);
	h->loop = kube_loop(c->kube);
	for (size_t i = 0; i < ARRAY_LEN(h->sides); i++)
		start(&h->sides[i], h, i == 1);
	return h;
}

void registration_free(struct registration *h)
{
	if (!h)
		return;
	for (size_t i = 0; i < ARRAY_LEN(h->sides); i++) {
		struct side *s = &h->sides[i];

		kube_cancel(s->call);
		kube_informer_free(s->informer);
		loop_alarm_cancel(&s->timer);
		free(s->sent);
		free(s->version);
		free(s->stored);
	}
	set_form(h, &(struct registration_form){0});
	free(h);
}

/* --- writes a webhook configuration and handles the response --- */

enum { FORBIDDEN = 403 };

/* Writes the part of the object that we manage; version NULL: a new object. */
static void put_object(const struct side *s, const char *webhooks, const char *version,
		       struct buf *b)
{
	const char *kind = s->validating ? "ValidatingWebhookConfiguration"
					 : "MutatingWebhookConfiguration";

	buf_printf(b, "{\"apiVersion\":\"" REGISTRATION_API "\",\"kind\":\"%s\",\"metadata\":{",
		   kind);
	if (version)
		buf_printf(b, "\"resourceVersion\":\"%s\",", version);
	buf_printf(b,
		   "\"name\":\"" REGISTRATION_NAME "\",\"labels\":{\"" LABEL_MANAGED_BY "\":"
		   "\"unirail-controller\"}},\"webhooks\":%s}",
		   webhooks);
}

/* Sets no_conditions if the server has not stored the condition that was sent. */
static void learn(struct side *s, const struct json *object)
{
	struct json_walk w = json_walk_start(json_get(object, "webhooks"));
	const struct json *webhook;
	bool stored = false;

	if (!s->h->conf.form.condition || !s->h->conf.form.pods || s->validating ||
	    s->no_conditions)
		return;
	while ((webhook = json_walk_next(&w, NULL)))
		stored |= json_get(webhook, "matchConditions") != NULL;
	if (stored)
		return;
	s->no_conditions = true;
	log_info("the API server does not support matchConditions (Kubernetes 1.28 and later do): "
		 "the pod webhook receives all pods in its scope");
}

/* If the server stores the content in a normalized form, this form counts as correct: writing
 * the content again would not change it. */
static void log_normalized(struct side *s, const struct json *webhooks)
{
	auto_json struct json_doc *d = NULL;
	auto_buf struct buf what;

	buf_init(&what, REGISTRATION_WHAT_MAX);
	free(s->stored);
	s->stored = NULL;
	if (json_parse(&d, span_of(s->sent), REGISTRATION_TEXT_MAX, NULL) < 0)
		return;
	registration_differ(webhooks, json_root(d), !s->no_conditions, &what);
	if (!what.len)
		return;
	log_warn("the API server stored a webhook with other content than was sent",
		 LOG_S("object", s->kind->name), LOG_S("what", what.p));
	s->stored = text_of(webhooks);
}

/* Masks the token, which the server may echo in its error message. */
static void log_failure(const struct side *s, const struct err *e)
{
	const char *token = s->h->conf.form.token;
	struct err logged = *e;
	char *at;

	while (*token && (at = strstr(logged.text, token)))
		memset(at, '*', strlen(token));
	log_error("failed to register the webhooks, will retry", LOG_S("error", logged.text));
}

/* deploy/controller.yaml creates the object, so that the account needs no permission to create
 * webhook configurations, which RBAC cannot limit to one name. */
static void log_missing(struct side *s)
{
	if (!s->missing)
		log_error("a webhook configuration is missing and this account may not create "
			  "it: run 'kubectl apply -f deploy/controller.yaml'",
			  LOG_S("object", s->kind->name), LOG_S("name", REGISTRATION_NAME));
	s->missing = true;
}

static void on_written(void *arg, int status, const struct json *object, const struct err *e)
{
	struct side *s = arg;

	s->call = NULL;
	registration_schedule(s, 0);
	if (!e) {
		const char *version = kube_meta_string(object, "resourceVersion");

		free(s->version);
		s->version = version ? xstrdup(version) : NULL;
		s->right = true;
		learn(s, object);
		log_normalized(s, json_get(object, "webhooks"));
		backoff_reset(&s->backoff);
		log_info("webhooks registered", LOG_S("object", s->kind->name));
		return;
	}
	/* Not an error: another writer was faster, and the watch delivers its result. */
	if (e->code == -EEXIST || e->code == -ESTALE || e->code == -ENOENT)
		return;
	if (s->making && status == FORBIDDEN)
		log_missing(s);
	else
		log_failure(s, e);
	if (status == 422 && s->h->conf.form.condition && !s->validating)
		s->no_conditions = true;
	registration_schedule(s, backoff_next(&s->backoff));
}

/* version NULL: creates the object. */
static void registration_send(struct side *s, const char *webhooks, const char *version)
{
	struct kube_request r = {.verb = version ? KUBE_MERGE_PATCH : KUBE_CREATE,
				 .on = {s->kind, NULL, REGISTRATION_NAME, NULL}};
	auto_buf struct buf b;

	buf_init(&b, REGISTRATION_TEXT_MAX);
	put_object(s, webhooks, version, &b);
	r.body = buf_span(&b);
	s->right = false;
	s->making = !version;
	free(s->sent);
	s->sent = xstrdup(webhooks);
	s->call = kube_send(s->h->conf.kube, &r, on_written, s);
}

/* --- the webhooks, with Spiderpool's names and paths --- */

#define SPIDER(kind, resource, operations)                                                         \
	{resource "." SPIDERPOOL_GROUP,                                                            \
	 "/mutate-spiderpool-spidernet-io-v2beta1-" resource,                                      \
	 SPIDERPOOL_GROUP,                                                                         \
	 SPIDERPOOL_VERSION,                                                                       \
	 kind,                                                                                     \
	 resource "s",                                                                             \
	 WEBHOOK_CREATE | WEBHOOK_UPDATE,                                                          \
	 WEBHOOK_DEFAULT},                                                                         \
	{                                                                                          \
		resource "." SPIDERPOOL_GROUP,                                                     \
			"/validate-spiderpool-spidernet-io-v2beta1-" resource, SPIDERPOOL_GROUP,   \
			SPIDERPOOL_VERSION, kind, resource "s", operations, WEBHOOK_CHECK          \
	}

const struct webhook registration_table[] = {
	SPIDER("SpiderIPPool", "spiderippool", WEBHOOK_CREATE | WEBHOOK_UPDATE | WEBHOOK_DELETE),
	SPIDER("SpiderSubnet", "spidersubnet", WEBHOOK_CREATE | WEBHOOK_UPDATE | WEBHOOK_DELETE),
	SPIDER("SpiderReservedIP", "spiderreservedip", WEBHOOK_CREATE | WEBHOOK_UPDATE),
	SPIDER("SpiderMultusConfig", "spidermultusconfig", WEBHOOK_CREATE | WEBHOOK_UPDATE),
	SPIDER("SpiderCoordinator", "spidercoordinator", WEBHOOK_CREATE | WEBHOOK_UPDATE),
	{"pods.spiderpool.spidernet.io", "/mutate--v1-pod", "", "v1", "Pod", "pods", WEBHOOK_CREATE,
	 WEBHOOK_INJECT},
};

const size_t registration_count = ARRAY_LEN(registration_table);

/* --- the array of webhooks, with every field that the API server would default: an absent field
 * could not be compared --- */

enum { TIMEOUT_S = 10, TEXT_MAX = 1 << 20 };

static void message(struct json_out *o, const char *key, const char *one)
{
	jo_key(o, key);
	jo_arr(o);
	jo_str(o, one);
	jo_end_arr(o);
}

static void put_client(const struct registration_form *f, const struct webhook *h,
		       struct json_out *o)
{
	auto_free char *ca = f->ca ? base64_encode(span_of(f->ca)) : NULL;
	auto_free char *path = xasprintf("/%s%s", f->token, h->path);
	auto_free char *url = f->url ? xasprintf("%s%s", f->url, path) : NULL;

	jo_key(o, "clientConfig");
	jo_obj(o);
	if (url) {
		jo_kstr(o, "url", url);
	} else {
		jo_key(o, "service");
		jo_obj(o);
		jo_kstr(o, "namespace", f->ns);
		jo_kstr(o, "name", f->service);
		jo_kstr(o, "path", path);
		jo_kint(o, "port", f->port);
		jo_end_obj(o);
	}
	if (ca)
		jo_kstr(o, "caBundle", ca);
	jo_end_obj(o);
}

static void put_rules(const struct webhook *h, struct json_out *o)
{
	static const char *const names[] = {"CREATE", "UPDATE", "DELETE"};

	jo_key(o, "rules");
	jo_arr(o);
	jo_obj(o);
	message(o, "apiGroups", h->group);
	message(o, "apiVersions", h->version);
	jo_key(o, "operations");
	jo_arr(o);
	for (unsigned int i = 0; i < ARRAY_LEN(names); i++)
		if (h->operations & 1u << i)
			jo_str(o, names[i]);
	jo_end_arr(o);
	message(o, "resources", h->resource);
	jo_kstr(o, "scope", "*");
	jo_end_obj(o);
	jo_end_arr(o);
}

static void put_selectors(const struct registration_form *f, const struct webhook *h,
			  struct json_out *o)
{
	jo_key(o, "namespaceSelector");
	if (h->by == WEBHOOK_INJECT) {
		inject_scope_write(f->scope, o);
	} else {
		jo_obj(o);
		jo_end_obj(o);
	}
	jo_key(o, "objectSelector");
	jo_obj(o);
	jo_end_obj(o);
}

static void put_conditions(const struct registration_form *f, const struct webhook *h,
			   struct json_out *o)
{
	if (h->by != WEBHOOK_INJECT || !f->condition)
		return;
	jo_key(o, "matchConditions");
	jo_arr(o);
	jo_obj(o);
	jo_kstr(o, "name", "asks");
	jo_kstr(o, "expression", f->condition);
	jo_end_obj(o);
	jo_end_arr(o);
}

static void put_webhook(const struct registration_form *f, const struct webhook *h,
			struct json_out *o)
{
	bool open = h->by == WEBHOOK_INJECT && !f->pods_fail_closed;

	jo_obj(o);
	jo_kstr(o, "name", h->name);
	put_client(f, h, o);
	put_rules(h, o);
	jo_kstr(o, "failurePolicy", open ? "Ignore" : "Fail");
	jo_kstr(o, "matchPolicy", "Equivalent");
	put_selectors(f, h, o);
	put_conditions(f, h, o);
	jo_kstr(o, "sideEffects", h->by == WEBHOOK_CHECK ? "NoneOnDryRun" : "None");
	jo_kint(o, "timeoutSeconds", TIMEOUT_S);
	message(o, "admissionReviewVersions", "v1");
	if (h->by != WEBHOOK_CHECK)
		jo_kstr(o, "reinvocationPolicy", "Never");
	jo_end_obj(o);
}

void registration_write(const struct registration_form *f, bool validating, struct json_out *o)
{
	jo_arr(o);
	for (size_t i = 0; i < registration_count; i++) {
		const struct webhook *h = &registration_table[i];

		if ((h->by == WEBHOOK_CHECK) == validating && (f->pods || h->by != WEBHOOK_INJECT))
			put_webhook(f, h, o);
	}
	jo_end_arr(o);
}

/* --- comparison of webhooks --- */

static bool same(const struct json *a, const struct json *b)
{
	const struct json *const v[2] = {a, b};
	struct buf text[2];
	bool is;

	if (!a || !b)
		return a == b;
	for (int i = 0; i < 2; i++) {
		struct json_out o;

		buf_init(&text[i], TEXT_MAX);
		jo_init(&o, &text[i], 0);
		jo_val(&o, v[i], true);
	}
	is = text[0].len == text[1].len && !memcmp(text[0].p, text[1].p, text[0].len);
	buf_done(&text[0]);
	buf_done(&text[1]);
	return is;
}

static const char *name_of(const struct json *webhook)
{
	const char *name = json_string(json_get(webhook, "name"));

	return name ? name : "";
}

static const struct json *by_name(const struct json *list, const char *name)
{
	struct json_walk w = json_walk_start(list);
	const struct json *h;

	while ((h = json_walk_next(&w, NULL)))
		if (!strcmp(name_of(h), name))
			return h;
	return NULL;
}

/*
 * Returns the first key that differs; NULL: none. Keys that are not in `want` are defaults of a
 * newer server and are ignored, except matchConditions.
 */
static const char *field_differs(const struct json *have, const struct json *want, bool conditions)
{
	static const char known[] = "matchConditions";
	struct json_walk w = json_walk_start(want);
	const struct json *v;
	const char *key;

	while ((v = json_walk_next(&w, &key)))
		if ((conditions || strcmp(key, known)) && !same(json_get(have, key), v))
			return key;
	return json_get(have, known) && !json_get(want, known) ? known : NULL;
}

void registration_differ(const struct json *have, const struct json *want, bool conditions,
			 struct buf *ret)
{
	struct json_walk w = json_walk_start(want);
	const struct json *h;

	while ((h = json_walk_next(&w, NULL))) {
		const struct json *other = by_name(have, name_of(h));
		const char *field = other ? field_differs(other, h, conditions) : "missing";

		if (field) {
			buf_printf(ret, "%s: %s", name_of(h), field);
			return;
		}
	}
	if (json_len(have) != json_len(want))
		buf_str(ret, "another number of webhooks");
}

struct tokenless {
	struct loop *loop;
	struct kube_informer *informers[ARRAY_LEN(kinds)];
	int64_t publish_s;
	int64_t until; /* loop time until which paths without a token are accepted */
};

/* --- registered paths --- */

static bool is_registered_path(struct span path)
{
	for (size_t i = 0; i < registration_count; i++)
		if (span_eq(path, registration_table[i].path))
			return true;
	return false;
}

/* Returns the path of "https://host:port/path?query". */
static struct span path_of(const char *url)
{
	const char *at = strstr(url, "://");

	at = at ? strchr(at + 3, '/') : NULL;
	return at ? (struct span){at, strcspn(at, "?#")} : (struct span){0};
}

/* Returns whether one of the `webhooks` (an array) has a path without a token. Pure. */
static bool tokenless_found(const struct json *webhooks)
{
	struct json_walk w = json_walk_start(webhooks);
	const struct json *h;

	while ((h = json_walk_next(&w, NULL))) {
		const struct json *client = json_get(h, "clientConfig");
		const char *url = json_string(json_get(client, "url"));
		const char *path = json_string(json_get(json_get(client, "service"), "path"));

		if ((url && is_registered_path(path_of(url))) ||
		    (path && is_registered_path(span_of(path))))
			return true;
	}
	return false;
}

static int tokenless_decode(void *value, const struct json *object, struct err *e)
{
	(void)e;
	*(bool *)value = tokenless_found(json_get(object, "webhooks"));
	return 0;
}

static bool is_bare(const struct tokenless *b)
{
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		const struct kube_object *o =
			kube_informer_get(b->informers[i], "", REGISTRATION_NAME);

		if (o && *(const bool *)o->value)
			return true;
	}
	return false;
}

static void tokenless_on_changed(void *arg, const struct kube_object *was,
				 const struct kube_object *is)
{
	struct tokenless *b = arg;
	bool before = was && *(const bool *)was->value, now = is && *(const bool *)is->value;

	if (before && !now)
		b->until = loop_now_ms(b->loop) + b->publish_s * 1000;
	if (now && !before)
		log_warn("webhooks are registered without a token by an earlier release: "
			 "accepting requests without a token until shortly after the "
			 "registration changes");
}

bool tokenless_accept(const struct tokenless *b, struct span path)
{
	return is_registered_path(path) && (is_bare(b) || loop_now_ms(b->loop) < b->until);
}

/* --- creation and destruction --- */

struct tokenless *tokenless_new(struct kube *k, int64_t publish_s)
{
	struct tokenless *b = xcalloc(1, sizeof(*b));

	b->loop = kube_loop(k);
	b->publish_s = publish_s;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		b->informers[i] = kube_informer_new(
			k, &(struct kube_informer_conf){
				   .kind = kinds[i],
				   .select = {.fields = "metadata.name=" REGISTRATION_NAME},
				   .size = sizeof(bool),
				   .decode = tokenless_decode,
				   .changed = tokenless_on_changed,
				   .arg = b});
	return b;
}

void tokenless_free(struct tokenless *b)
{
	if (!b)
		return;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		kube_informer_free(b->informers[i]);
	free(b);
}
