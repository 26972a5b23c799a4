/* SPDX-License-Identifier: Apache-2.0 */
/* One request, from its queue to its end, as often as it takes. */
#include "kube/call.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

enum {
	TRIES_MAX = 10,
	RETRY_MS = 250,
	RETRY_MAX_MS = 10000,
};

static const char *const methods[] = {
	[KUBE_GET] = "GET",	     [KUBE_LIST] = "GET",      [KUBE_WATCH] = "GET",
	[KUBE_CREATE] = "POST",	     [KUBE_REPLACE] = "PUT",   [KUBE_MERGE_PATCH] = "PATCH",
	[KUBE_JSON_PATCH] = "PATCH", [KUBE_DELETE] = "DELETE",
};

static const char *const types[] = {
	[KUBE_GET] = NULL,
	[KUBE_LIST] = NULL,
	[KUBE_WATCH] = NULL,
	[KUBE_CREATE] = "application/json",
	[KUBE_REPLACE] = "application/json",
	[KUBE_MERGE_PATCH] = "application/merge-patch+json",
	[KUBE_JSON_PATCH] = "application/json-patch+json",
	[KUBE_DELETE] = "application/json",
};

static bool is_good(const struct kube_call *c)
{
	return c->status >= 200 && c->status <= 299;
}

/* --- the end --- */

static void detach(struct kube_call *c)
{
	*(c->prev ? &c->prev->next : &c->k->calls) = c->next;
	if (c->next)
		c->next->prev = c->prev;
	c->prev = c->next = NULL;
	loop_del_timer(c->deadline);
	loop_del_timer(c->retry);
	c->deadline = c->retry = NULL;
	if (c->stream)
		https_cancel(c->conn, c->stream);
	c->stream = NULL;
	kube_tidy_soon(c->k);
}

static void call_free(struct kube_call *c)
{
	buf_done(&c->path);
	buf_done(&c->words);
	buf_done(&c->body);
	buf_done(&c->refusal);
	free(c);
}

static void finish(struct kube_call *c, const struct kube_status *s, const struct err *e)
{
	detach(c);
	c->ended = true;
	c->busy = true;
	c->ops->end(c->arg, c->status, s, e);
	call_free(c);
}

void kube_cancel(struct kube_call *c)
{
	if (!c || c->ended)
		return;
	detach(c);
	c->ended = true;
	c->ops->drop(c->arg);
	if (!c->busy)
		call_free(c);
}

void kube_calls_drop(struct kube *k)
{
	while (k->calls)
		kube_cancel(k->calls);
}

static void fail(struct kube_call *c, const struct err *why)
{
	struct err e = *why;

	err_wrap(&e, why->code, "%s", c->words.p);
	finish(c, NULL, &e);
}

/* --- again --- */

void kube_call_wait(struct kube_call *c)
{
	c->state = CALL_WAITING;
	kube_pump_soon(c->k);
}

static void on_retry(void *arg)
{
	struct kube_call *c = arg;

	c->retry = NULL;
	kube_call_wait(c);
}

static void pause_call(struct kube_call *c, int64_t at_least_ms)
{
	struct kube_backoff b = {RETRY_MS, RETRY_MAX_MS, c->tries};
	int64_t ms = kube_backoff_next(&b);

	c->tries++;
	if (at_least_ms > 0)
		ms += at_least_ms;
	c->state = CALL_PAUSED;
	c->status = 0;
	c->retry = loop_add_timer(c->k->loop, ms, on_retry, c);
}

void kube_call_late(void *arg)
{
	struct kube_call *c = arg;
	struct err e = ERR_INIT;

	c->deadline = NULL;
	err_kind(&e, ERR_AGAIN, -ETIMEDOUT, "no answer within %d ms%s%s", c->timeout_ms,
		 c->last[0] ? "; before that: " : "", c->last);
	fail(c, &e);
}

static void note(struct kube_call *c, const struct err *e)
{
	str_copy(c->last, sizeof(c->last), e->text);
}

/* --- what came --- */

static void on_head(void *arg, const struct h2_head *h)
{
	struct kube_call *c = arg;

	kube_backoff_reset(&c->k->backoff);
	c->status = h->status;
	c->retry_after = h->retry_after;
	if (c->verb == KUBE_WATCH && is_good(c)) {
		loop_del_timer(c->deadline);
		c->deadline = NULL;
	}
	if (!c->ops->open || !is_good(c))
		return;
	c->busy = true;
	c->ops->open(c->arg);
	c->busy = false;
	if (c->ended)
		call_free(c); /* cancelled from within */
}

static void on_data(void *arg, struct span bytes)
{
	struct kube_call *c = arg;
	struct err e = ERR_INIT;
	int r;

	if (!is_good(c)) {
		buf_add(&c->refusal, bytes.p, bytes.n);
		return;
	}
	c->busy = true;
	r = c->ops->data(c->arg, bytes, &e);
	c->busy = false;
	if (c->ended)
		call_free(c); /* cancelled from within */
	else if (r < 0)
		fail(c, &e);
}

static void broken(struct kube_call *c, const struct err *why, bool untouched)
{
	struct err e = *why;

	if (c->verb != KUBE_WATCH && c->tries < TRIES_MAX &&
	    (untouched || (kube_call_reads(c) && c->status == 0))) {
		note(c, why);
		pause_call(c, 0);
		return;
	}
	if (!kube_call_reads(c) && c->verb != KUBE_WATCH && !untouched)
		err_set(&e, why->code, "%s: whether the server has done it is not known",
			why->text);
	e.kind = ERR_AGAIN;
	fail(c, &e);
}

/* Was it the moment, not the request? */
static bool is_passing(const struct kube_call *c, int64_t after)
{
	if (c->status == 429)
		return true;
	if (c->status < 500 || c->once)
		return false;
	return after >= 0 ||
	       (kube_call_reads(c) && c->status <= 504 && c->status != 501 && c->tries < 3);
}

static void refused(struct kube_call *c)
{
	struct err e = ERR_INIT;
	struct kube_status s;
	int64_t after;

	kube_status_err(c->status, buf_span(&c->refusal), c->words.p, &s, &e);
	buf_done(&c->refusal);
	buf_init(&c->refusal, KUBE_STATUS_MAX);
	after = c->retry_after >= 0 ? c->retry_after : s.retry_after;
	if (c->status == 401 && !c->rejected && kube_auth_rejected(c->k->auth)) {
		c->rejected = true;
		note(c, &e);
		pause_call(c, 1000);
	} else if (c->verb != KUBE_WATCH && c->tries < TRIES_MAX && is_passing(c, after)) {
		note(c, &e);
		pause_call(c, after * 1000);
	} else {
		s.retry_after = after;
		finish(c, &s, &e);
	}
}

static void on_end(void *arg, const struct err *e, bool untouched)
{
	struct kube_call *c = arg;

	c->stream = NULL;
	if (e)
		broken(c, e, untouched);
	else if (!is_good(c))
		refused(c);
	else
		finish(c, NULL, NULL);
}

/* --- out --- */

static const struct h2_handler handler = {on_head, on_data, on_end};

static void submit(struct kube_call *c)
{
	const char *token = kube_auth_header(c->k->auth);
	struct h2_field fields[H2_FIELDS_MAX];
	struct h2_request r = {.method = methods[c->verb],
			       .path = c->path.p,
			       .fields = fields,
			       .body = buf_span(&c->body)};
	struct err e = ERR_INIT;

	fields[r.n_fields++] = (struct h2_field){"accept", "application/json", false};
	fields[r.n_fields++] = (struct h2_field){"user-agent", c->k->set.agent, false};
	if (c->body.len)
		fields[r.n_fields++] = (struct h2_field){"content-type", types[c->verb], false};
	if (token)
		fields[r.n_fields++] = (struct h2_field){"authorization", token, true};
	c->conn = c->k->conn->h;
	c->state = CALL_SENT;
	c->status = 0;
	if (https_submit(c->conn, &r, &handler, c, &c->stream, &e) < 0) {
		note(c, &e);
		pause_call(c, 0);
	} else if (c->verb == KUBE_WATCH && !c->deadline) {
		c->deadline = loop_add_timer(c->k->loop, c->timeout_ms, kube_call_late, c);
	}
}

bool kube_calls_wait(const struct kube *k)
{
	for (const struct kube_call *c = k->calls; c; c = c->next)
		if (c->state == CALL_WAITING)
			return true;
	return false;
}

void kube_calls_submit(struct kube *k)
{
	struct kube_call *c, *next;

	for (c = k->calls; c; c = next) {
		next = c->next;
		if (c->state == CALL_WAITING)
			submit(c);
	}
}

void kube_calls_no_connection(struct kube *k, const struct err *why)
{
	struct kube_call *c;

	for (c = k->calls; c; c = c->next) {
		note(c, why);
		c->doomed = k->set.impatient && c->state == CALL_WAITING;
	}
	/* A callback may make or cancel calls: begin anew after each. */
	for (c = k->calls; c;) {
		if (c->doomed) {
			fail(c, why);
			c = k->calls;
		} else {
			c = c->next;
		}
	}
}
