/* SPDX-License-Identifier: Apache-2.0 */
/* A webhook configuration is written, and what becomes of it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "controller/registration/hooks_priv.h"

enum { FORBIDDEN = 403 };

/* The object's part that we write; version NULL: a new one. */
static void put_object(const struct side *s, const char *webhooks, const char *version,
		       struct buf *b)
{
	const char *kind = s->validating ? "ValidatingWebhookConfiguration"
					 : "MutatingWebhookConfiguration";

	buf_printf(b, "{\"apiVersion\":\"" HOOKS_GROUP "/v1\",\"kind\":\"%s\",\"metadata\":{",
		   kind);
	if (version)
		buf_printf(b, "\"resourceVersion\":\"%s\",", version);
	buf_printf(b,
		   "\"name\":\"" HOOKS_NAME "\",\"labels\":{\"app.kubernetes.io/managed-by\":"
		   "\"unirail-controller\"}},\"webhooks\":%s}",
		   webhooks);
}

/* Whether a server that was sent a condition has kept it. */
static void learn(struct side *s, const struct json *object)
{
	struct json_walk w = json_walk_start(json_get(object, "webhooks"));
	const struct json *hook;
	bool kept = false;

	if (!s->h->conf.form.condition || !s->h->conf.form.pods || s->validating ||
	    s->no_conditions)
		return;
	while ((hook = json_walk_next(&w, NULL)))
		kept |= json_get(hook, "matchConditions") != NULL;
	if (kept)
		return;
	s->no_conditions = true;
	log_info("the API server has no matchConditions (1.28): all pods in scope are sent");
}

static char *text_of(const struct json *v)
{
	auto_buf struct buf b;
	struct json_out o;

	buf_init(&b, HOOKS_TEXT_MAX);
	jo_init(&o, &b, 0);
	jo_val(&o, v, true);
	return buf_take(&b);
}

/* A server that has it its own way keeps having it: to write again and again would not change that. */
static void note_kept(struct side *s, const struct json *webhooks)
{
	auto_json struct json_doc *d = NULL;
	auto_buf struct buf what;

	buf_init(&what, HOOKS_WHAT_MAX);
	free(s->kept);
	s->kept = NULL;
	if (json_parse(&d, span_of(s->sent), HOOKS_TEXT_MAX, NULL) < 0)
		return;
	hooks_differ(webhooks, json_root(d), !s->no_conditions, &what);
	if (!what.len)
		return;
	log_warn("the API server keeps a webhook otherwise", LOG_S("object", s->kind->name),
		 LOG_S("what", what.p));
	s->kept = text_of(webhooks);
}

bool hooks_is_kept(const struct side *s, const struct json *webhooks, const char *want)
{
	auto_free char *text = s->kept && !strcmp(s->sent, want) ? text_of(webhooks) : NULL;

	return text && !strcmp(text, s->kept);
}

/* The server may say back what it was sent. */
static void log_failure(const struct side *s, const struct err *e)
{
	const char *token = s->h->conf.form.token;
	struct err said = *e;
	char *at;

	while (*token && (at = strstr(said.text, token)))
		memset(at, '*', strlen(token));
	log_error("webhooks cannot be registered", LOG_S("error", said.text));
}

/* It comes with deploy/controller.yaml, so that the account needs no permission to make others. */
static void note_missing(struct side *s)
{
	if (!s->missing)
		log_error(
			"a webhook configuration is missing, and this account may not make it: kubectl "
			"apply -f deploy/controller.yaml",
			LOG_S("object", s->kind->name), LOG_S("name", HOOKS_NAME));
	s->missing = true;
}

static void on_written(void *arg, int status, const struct json *object, const struct err *e)
{
	struct side *s = arg;

	s->call = NULL;
	hooks_look_in(s, 0);
	if (!e) {
		const char *version =
			json_string(json_get(json_get(object, "metadata"), "resourceVersion"));

		free(s->version);
		s->version = version ? xstrdup(version) : NULL;
		s->right = true;
		learn(s, object);
		note_kept(s, json_get(object, "webhooks"));
		kube_backoff_reset(&s->backoff);
		log_info("webhooks registered", LOG_S("object", s->kind->name));
		return;
	}
	/* Somebody else was first; the watch brings it. */
	if (e->code == -EEXIST || e->code == -ESTALE || e->code == -ENOENT)
		return;
	if (s->making && status == FORBIDDEN)
		note_missing(s);
	else
		log_failure(s, e);
	if (status == 422 && s->h->conf.form.condition && !s->validating)
		s->no_conditions = true;
	hooks_look_in(s, kube_backoff_next(&s->backoff));
}

void hooks_send(struct side *s, const char *webhooks, const char *version)
{
	struct kube_request r = {.verb = version ? KUBE_MERGE_PATCH : KUBE_CREATE,
				 .on = {s->kind, NULL, HOOKS_NAME, NULL}};
	auto_buf struct buf b;

	buf_init(&b, HOOKS_TEXT_MAX);
	put_object(s, webhooks, version, &b);
	r.body = buf_span(&b);
	s->right = false;
	s->making = !version;
	free(s->sent);
	s->sent = xstrdup(webhooks);
	s->call = kube_send(s->h->conf.kube, &r, on_written, s);
}
