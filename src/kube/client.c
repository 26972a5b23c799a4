/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "kube/internal.h"
#include "wire/http/http1.h"

enum kube_call_state { CALL_WAITING, CALL_PAUSED, CALL_SENT };

enum {
	CALL_LAST_MAX = 320,
	KUBE_HEAD_MS = 30000 /* timeout for the response headers of a watch */
};

struct kube_call {
	struct kube *k;
	enum kube_verb verb;
	const struct kube_stream_ops *ops;
	void *arg;
	enum kube_call_state state;
	struct buf path, description, body;
	struct buf refusal; /* body of an error answer */
	struct https *conn;
	struct h2_stream *stream;
	struct loop_timer *deadline, *retry;
	int timeout_ms, status;
	int64_t retry_after;
	unsigned int tries;
	bool once;
	bool rejected; /* a previous attempt was answered with 401 */
	bool doomed;   /* kube_calls_no_connection() will end the call */
	/* busy: a callback of this call runs; ended: the call is finished or cancelled */
	bool busy, ended;
	char last[CALL_LAST_MAX]; /* the last failure, for the error on timeout */
	struct kube_call *prev, *next;
};

static inline bool kube_call_reads(const struct kube_call *c)
{
	return c->verb == KUBE_GET || c->verb == KUBE_LIST;
}

/* --- the client and its connection --- */

enum { CONNECT_MS = 15000, BACKOFF_MS = 200, BACKOFF_MAX_MS = 20000 };

static void pump(void *arg);
static void on_cleanup(void *arg);

static void kube_pump_schedule(struct kube *k);

static void on_credentials(void *arg)
{
	kube_pump_schedule(arg);
}

struct kube *kube_new(struct loop *l, const struct root *root, const struct kube_conf *c,
		      const struct kube_settings *s)
{
	struct kube *k = xcalloc(1, sizeof(*k));

	*k = (struct kube){.loop = l,
			   .conf = c,
			   .set = *s,
			   .backoff = {BACKOFF_MS, BACKOFF_MAX_MS, 0},
			   .pump = LOOP_ALARM(l, pump, k),
			   .again = LOOP_ALARM(l, pump, k),
			   .cleanup = LOOP_ALARM(l, on_cleanup, k)};
	if (!k->set.timeout_ms)
		k->set.timeout_ms = KUBE_TIMEOUT_MS;
	if (!k->set.agent)
		k->set.agent = "unirail";
	k->auth = kube_auth_new(l, root, c, on_credentials, k);
	return k;
}

static void conn_free(struct kube_conn *c)
{
	if (c)
		https_free(c->h);
	free(c);
}

static void kube_calls_drop(struct kube *k)
{
	while (k->calls)
		kube_cancel(k->calls);
}

void kube_free(struct kube *k)
{
	if (!k)
		return;
	kube_calls_drop(k);
	conn_free(k->conn);
	while (k->old) {
		struct kube_conn *c = k->old;

		k->old = c->next;
		conn_free(c);
	}
	loop_alarm_cancel(&k->pump);
	loop_alarm_cancel(&k->again);
	loop_alarm_cancel(&k->cleanup);
	kube_auth_free(k->auth);
	free(k);
}

struct loop *kube_loop(const struct kube *k)
{
	return k->loop;
}

/* --- opening and closing the connection --- */

static void on_ready(void *arg)
{
	struct kube_conn *c = arg;

	c->ready = true;
	if (c->k->down && !c->k->set.impatient)
		log_info("kube: connected to the API server");
	c->k->down = false;
	kube_pump_schedule(c->k);
}

static void unlink_old(struct kube_conn *c)
{
	for (struct kube_conn **p = &c->k->old; *p; p = &(*p)->next)
		if (*p == c) {
			*p = c->next;
			return;
		}
}

static void log_failure_once(struct kube *k, const struct err *e)
{
	if (!k->down && !k->set.impatient)
		log_warn("kube: no connection to the API server", LOG_S("error", e->text));
	k->down = true;
}

static void wait_again(struct kube *k)
{
	if (!loop_alarm_armed(&k->again))
		loop_alarm_set(&k->again, backoff_next(&k->backoff));
}

static void on_cleanup(void *arg)
{
	struct kube *k = arg;
	struct kube_conn *c, *next;

	for (c = k->old; c; c = next) {
		next = c->next;
		if (https_streams(c->h))
			continue;
		unlink_old(c);
		conn_free(c);
	}
}

/* In the next turn of the loop, frees those replaced connections that have no streams. */
static void kube_cleanup_schedule(struct kube *k)
{
	if (k->old)
		loop_alarm_within(&k->cleanup, 0);
}

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
	kube_cleanup_schedule(c->k);
}

static void call_free(struct kube_call *c)
{
	buf_done(&c->path);
	buf_done(&c->description);
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

static void fail(struct kube_call *c, const struct err *reason)
{
	struct err e = *reason;

	err_wrap(&e, reason->code, "%s", c->description.p);
	finish(c, NULL, &e);
}

static void keep_error(struct kube_call *c, const struct err *e)
{
	str_copy(c->last, sizeof(c->last), e->text);
}

static void kube_calls_no_connection(struct kube *k, const struct err *reason)
{
	struct kube_call *c;

	for (c = k->calls; c; c = c->next) {
		keep_error(c, reason);
		c->doomed = k->set.impatient && c->state == CALL_WAITING;
	}
	/* Restarts the iteration after each callback, because the callback may add or cancel calls.
	 */
	for (c = k->calls; c;) {
		if (c->doomed) {
			fail(c, reason);
			c = k->calls;
		} else {
			c = c->next;
		}
	}
}

static void on_closed(void *arg, const struct err *e)
{
	struct kube_conn *c = arg;
	struct kube *k = c->k;
	struct err reason = *e;
	bool ready = c->ready;

	if (c != k->conn) {
		unlink_old(c);
		conn_free(c);
		return;
	}
	k->conn = NULL;
	conn_free(c);
	/* The files of the CA or the client certificate may have been replaced: reads them again. */
	if (reason.code == -EKEYREJECTED)
		kube_auth_rejected(k->auth);
	wait_again(k);
	if (ready)
		return;
	log_failure_once(k, &reason);
	kube_calls_no_connection(k, &reason);
}

/* The timeout of a connection attempt is shorter than the client's default timeout of a request,
 * so that the request's error can say why the connection failed. */
static int connect_ms(const struct kube *k)
{
	int most = k->set.timeout_ms - k->set.timeout_ms / 8;

	return CONNECT_MS < most ? CONNECT_MS : most;
}

static void open_conn(struct kube *k)
{
	static const struct https_ops ops = {on_ready, on_closed};
	const struct https_conf conf = {
		.host = k->conf->host,
		.port = k->conf->port,
		.tls_name = k->conf->tls_name,
		.tls = kube_auth_tls(k->auth),
		.connect_ms = connect_ms(k),
	};
	struct kube_conn *c = xcalloc(1, sizeof(*c));

	c->k = k;
	c->generation = kube_auth_generation(k->auth);
	c->h = https_open(k->loop, &conf, &ops, c);
	k->conn = c;
}

/* Stops sending new requests on the current connection; requests in flight finish. */
static void retire(struct kube *k)
{
	struct kube_conn *c = k->conn;

	k->conn = NULL;
	c->next = k->old;
	k->old = c;
	kube_cleanup_schedule(k);
}

/* --- next step of a call: credentials, connection, requests --- */

static bool have_credentials(struct kube *k)
{
	struct err e = ERR_INIT;
	int r = kube_auth_refresh(k->auth, &e);

	if (r >= 0)
		return r > 0;
	err_wrap(&e, r, "kube");
	log_failure_once(k, &e);
	wait_again(k);
	kube_calls_no_connection(k, &e);
	return false;
}

static void kube_calls_submit(struct kube *k);

/* Returns whether any call waits for a connection. */
static bool kube_calls_wait(const struct kube *k)
{
	for (const struct kube_call *c = k->calls; c; c = c->next)
		if (c->state == CALL_WAITING)
			return true;
	return false;
}

static void pump(void *arg)
{
	struct kube *k = arg;

	if (!kube_calls_wait(k) || loop_alarm_armed(&k->again) || !have_credentials(k))
		return;
	if (k->conn && (k->conn->generation != kube_auth_generation(k->auth) ||
			(k->conn->ready && !https_takes_requests(k->conn->h))))
		retire(k);
	if (!k->conn)
		open_conn(k);
	else if (k->conn->ready)
		kube_calls_submit(k);
}

static void kube_pump_schedule(struct kube *k)
{
	loop_alarm_within(&k->pump, 0);
}

/* --- one request: queue, retries, end --- */

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
	[KUBE_CREATE] = HTTP_JSON,
	[KUBE_REPLACE] = HTTP_JSON,
	[KUBE_MERGE_PATCH] = "application/merge-patch+json",
	[KUBE_JSON_PATCH] = "application/json-patch+json",
	[KUBE_DELETE] = HTTP_JSON,
};

static bool is_good(const struct kube_call *c)
{
	return c->status >= 200 && c->status <= 299;
}

/* --- end of a call --- */

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

/* --- retries of a call --- */

/* Queues the call until a connection is ready. */
static void kube_call_wait(struct kube_call *c)
{
	c->state = CALL_WAITING;
	kube_pump_schedule(c->k);
}

static void on_retry(void *arg)
{
	struct kube_call *c = arg;

	c->retry = NULL;
	kube_call_wait(c);
}

static void pause_call(struct kube_call *c, int64_t at_least_ms)
{
	struct backoff b = {RETRY_MS, RETRY_MAX_MS, c->tries};
	int64_t ms = backoff_next(&b);

	c->tries++;
	if (at_least_ms > 0)
		ms += at_least_ms;
	c->state = CALL_PAUSED;
	c->status = 0;
	c->retry = loop_add_timer(c->k->loop, ms, on_retry, c);
}

/* Called when the call's deadline has passed. */
static void kube_call_late(void *arg)
{
	struct kube_call *c = arg;
	struct err e = ERR_INIT;

	c->deadline = NULL;
	err_kind(&e, ERR_AGAIN, -ETIMEDOUT, "no answer within %d ms%s%s", c->timeout_ms,
		 c->last[0] ? "; previous attempt: " : "", c->last);
	fail(c, &e);
}

/* --- responses of the server --- */

static void on_head(void *arg, const struct h2_head *h)
{
	struct kube_call *c = arg;

	backoff_reset(&c->k->backoff);
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
		call_free(c); /* the callback has cancelled the call */
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
		call_free(c); /* the callback has cancelled the call */
	else if (r < 0)
		fail(c, &e);
}

static void broken(struct kube_call *c, const struct err *reason, bool untouched)
{
	struct err e = *reason;

	if (c->verb != KUBE_WATCH && c->tries < TRIES_MAX &&
	    (untouched || (kube_call_reads(c) && c->status == 0))) {
		keep_error(c, reason);
		pause_call(c, 0);
		return;
	}
	if (!kube_call_reads(c) && c->verb != KUBE_WATCH && !untouched)
		err_set(&e, reason->code,
			"%s: the server may or may not have carried out the request", reason->text);
	e.kind = ERR_AGAIN;
	fail(c, &e);
}

/* Returns whether to retry a refused request; after: seconds of Retry-After, -1: none. */
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

	kube_status_err(c->status, buf_span(&c->refusal), c->description.p, &s, &e);
	buf_done(&c->refusal);
	buf_init(&c->refusal, KUBE_STATUS_MAX);
	after = c->retry_after >= 0 ? c->retry_after : s.retry_after;
	if (c->status == 401 && !c->rejected && kube_auth_rejected(c->k->auth)) {
		c->rejected = true;
		keep_error(c, &e);
		pause_call(c, 1000);
	} else if (c->verb != KUBE_WATCH && c->tries < TRIES_MAX && is_passing(c, after)) {
		keep_error(c, &e);
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

/* --- submission of calls --- */

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

	fields[r.n_fields++] = (struct h2_field){"accept", HTTP_JSON, false};
	fields[r.n_fields++] = (struct h2_field){"user-agent", c->k->set.agent, false};
	if (c->body.len)
		fields[r.n_fields++] = (struct h2_field){"content-type", types[c->verb], false};
	if (token)
		fields[r.n_fields++] = (struct h2_field){"authorization", token, true};
	c->conn = c->k->conn->h;
	c->state = CALL_SENT;
	c->status = 0;
	if (https_submit(c->conn, &r, &handler, c, &c->stream, &e) < 0) {
		keep_error(c, &e);
		pause_call(c, 0);
	} else if (c->verb == KUBE_WATCH && !c->deadline) {
		c->deadline = loop_add_timer(c->k->loop, c->timeout_ms, kube_call_late, c);
	}
}

static void kube_calls_submit(struct kube *k)
{
	struct kube_call *c, *next;

	for (c = k->calls; c; c = next) {
		next = c->next;
		if (c->state == CALL_WAITING)
			submit(c);
	}
}

/* --- creation of a call --- */

static void put_description(struct kube_call *c, const struct kube_request *r)
{
	static const char *const verbs[] = {
		[KUBE_GET] = "get",	     [KUBE_LIST] = "list",
		[KUBE_WATCH] = "watch",	     [KUBE_CREATE] = "create",
		[KUBE_REPLACE] = "replace",  [KUBE_MERGE_PATCH] = "patch",
		[KUBE_JSON_PATCH] = "patch", [KUBE_DELETE] = "delete",
	};

	buf_printf(&c->description, "kube: %s ", verbs[r->verb]);
	if (r->path)
		buf_str(&c->description, r->path);
	else
		kube_ref_describe(&c->description, &r->on);
}

static void put_path(struct kube_call *c, const struct kube_request *r)
{
	struct kube_ref on = r->on;

	if (r->verb == KUBE_CREATE)
		on.name = NULL;
	buf_str(&c->path, c->k->conf->prefix);
	if (r->path)
		buf_str(&c->path, r->path);
	else
		kube_path(&c->path, &on);
	buf_str(&c->path, r->query ? r->query : "");
}

static void put_preconditions(struct buf *b, const struct kube_request *r)
{
	struct json_out o;

	jo_init(&o, b, 0);
	jo_obj(&o);
	jo_kstr(&o, "kind", "DeleteOptions");
	jo_kstr(&o, "apiVersion", "v1");
	jo_key(&o, "preconditions");
	jo_obj(&o);
	if (r->uid)
		jo_kstr(&o, "uid", r->uid);
	if (r->resource_version)
		jo_kstr(&o, "resourceVersion", r->resource_version);
	jo_end_obj(&o);
	jo_end_obj(&o);
}

struct kube_call *kube_stream(struct kube *k, const struct kube_request *r,
			      const struct kube_stream_ops *ops, void *arg)
{
	struct kube_call *c = xcalloc(1, sizeof(*c));

	*c = (struct kube_call){.k = k, .verb = r->verb, .ops = ops, .arg = arg, .next = k->calls};
	if (c->next)
		c->next->prev = c;
	k->calls = c;
	buf_init(&c->path, KUBE_PATH_MAX);
	buf_init(&c->description, ERR_TEXT_MAX);
	buf_init(&c->body, KUBE_BODY_MAX);
	buf_init(&c->refusal, KUBE_STATUS_MAX);
	put_description(c, r);
	put_path(c, r);
	buf_add(&c->body, r->body.p, r->body.n);
	if (r->verb == KUBE_DELETE && (r->uid || r->resource_version))
		put_preconditions(&c->body, r);
	c->once = r->once && !kube_call_reads(c);
	c->timeout_ms = r->timeout_ms		? r->timeout_ms
			: r->verb == KUBE_WATCH ? KUBE_HEAD_MS
						: k->set.timeout_ms;
	if (r->verb != KUBE_WATCH)
		c->deadline = loop_add_timer(k->loop, c->timeout_ms, kube_call_late, c);
	kube_call_wait(c);
	return c;
}

const char *kube_call_describe(const struct kube_call *c)
{
	return c->description.p;
}

/* --- A request whose answer is one object --- */

struct send {
	struct kube_call *call;
	kube_done_fn fn;
	void *arg;
	struct buf body;
};

static int send_on_data(void *arg, struct span bytes, struct err *e)
{
	struct send *s = arg;

	buf_add(&s->body, bytes.p, bytes.n);
	if (s->body.over)
		return err_kind(e, ERR_DECODE, -EFBIG, "the answer is longer than %d MiB",
				KUBE_BODY_MAX >> 20);
	return 0;
}

static void send_on_end(void *arg, int status, const struct kube_status *st, const struct err *e)
{
	struct send *s = arg;
	auto_json struct json_doc *doc = NULL;
	struct err bad = ERR_INIT;
	int r;

	(void)st;
	if (!e) {
		r = json_parse(&doc, buf_span(&s->body), KUBE_BODY_MAX, &bad);
		if (r < 0) {
			err_wrap(&bad, r, "%s: the answer", kube_call_describe(s->call));
			e = &bad;
		}
	}
	s->fn(s->arg, status, e ? NULL : json_root(doc), e);
	buf_done(&s->body);
	free(s);
}

static void drop(void *arg)
{
	struct send *s = arg;

	buf_done(&s->body);
	free(s);
}

struct kube_call *kube_send(struct kube *k, const struct kube_request *r, kube_done_fn fn,
			    void *arg)
{
	static const struct kube_stream_ops ops = {NULL, send_on_data, send_on_end, drop};
	struct send *s = xcalloc(1, sizeof(*s));

	*s = (struct send){.fn = fn, .arg = arg};
	buf_init(&s->body, KUBE_BODY_MAX);
	s->call = kube_stream(k, r, &ops, s);
	return s->call;
}
