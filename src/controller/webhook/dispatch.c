/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/webhook/dispatch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/log.h"
#include "controller/webhook/internal.h"
#include "controller/webhook/trials.h"
#include "server/prometheus.h"

/* TRIAL_SIZE: a body of more bytes may be expensive to decide, so a child process decides it
 * first. The cost of a shorter body, n log n, is small. */
enum {
	TRIAL_SIZE = 32 << 10,
	ANSWER_MAX = 3 << 20,
	MESSAGE_MAX = (REVIEW_CAUSES_MAX + 1) * REVIEW_TEXT_MAX * 3,
	/* microseconds for which reviews are decided before other callbacks of the loop run
	 * (Lease renewal, probes) */
	TURN_US = 20 * 1000,
};

struct review_counts {
	uint64_t allowed, refused, us;
};

/* A review passed to its hook and not answered yet. */
struct requested {
	struct review_doc d; /* d.q is passed to the hook */
	struct reviews *s;
	const struct review_route *route;
	struct http_request *http;
	int64_t began;
	struct requested *prev, *next;
};

/* A request waiting to be decided. */
struct queued {
	const struct review_route *route;
	struct http_request *http;
	struct queued *next;
};

struct reviews {
	const struct review_route *routes;
	struct review_counts *counts; /* one per route */
	size_t n;
	/* invalid: requests that not_wanted() refuses; unauthenticated: requests that
	 * reviews_check() rejects because their path has no accepted token */
	uint64_t invalid, unauthenticated;
	bool (*accept)(void *arg, struct span *path);
	void *arg;
	struct requested *requested;
	struct trials *trials;
	struct tried *tried;
	struct queued *first, **end; /* in order of arrival */
	struct loop_alarm turn;	     /* pending while requests are queued */
	uint64_t costly; /* requests whose trial exceeded its limit of CPU time or memory */
};

/* A request that a child process handles first, to limit its cost (trials.h). */
struct tried {
	struct reviews *s;
	const struct review_route *route;
	struct http_request *http;
	struct trial *trial;
	struct tried *prev, *next;
};

/* --- invalid requests --- */

static void say(struct http_request *q, int status, const char *allow, const char *text)
{
	auto_free char *line = xasprintf("%s\n", text);

	http_answer(q, &(struct http1_response){.status = status,
						.type = "text/plain; charset=utf-8",
						.allow = allow,
						.body = span_of(line)});
}

/* Never logs the request target, which contains the token. */
static void not_wanted(struct reviews *s, struct http_request *q, const struct review_route *route,
		       int status, const char *allow, const char *text)
{
	log_limited(LOG_WARN, 3, "webhook request refused",
		    LOG_S("path", route ? route->path : "another"), LOG_I("status", status),
		    LOG_S("error", text));
	s->invalid++;
	say(q, status, allow, text);
}

static const struct review_route *route_of(const struct reviews *s, struct span path)
{
	for (size_t i = 0; i < s->n; i++)
		if (span_eq(path, s->routes[i].path))
			return &s->routes[i];
	return NULL;
}

static bool is_json(const struct http1_msg *m)
{
	struct span value;

	return http1_get(m, "Content-Type", &value) && http1_type_is_json(value);
}

/* --- reviews --- */

static void forget(struct requested *a)
{
	*(a->prev ? &a->prev->next : &a->s->requested) = a->next;
	if (a->next)
		a->next->prev = a->prev;
	review_doc_done(&a->d);
	free(a);
}

static void log_refusal(const struct review *q, const struct review_answer *a)
{
	auto_buf struct buf message;

	buf_init(&message, MESSAGE_MAX);
	review_messages(&message, q, a);
	log_info("refused", LOG_S("kind", q->kind), LOG_S("namespace", q->ns),
		 LOG_S("name", q->name), LOG_S("operation", q->operation), LOG_S("user", q->user),
		 LOG_S("reason", message.p ? message.p : ""));
}

static void count(struct requested *a, bool allowed)
{
	struct review_counts *c = &a->s->counts[a->route - a->s->routes];

	c->allowed += allowed;
	c->refused += !allowed;
	c->us += (uint64_t)(now_mono_us() - a->began);
}

void review_answer(struct review *q, struct review_answer *a)
{
	struct requested *it = (struct requested *)q;
	struct http_request *http = it->http;
	auto_buf struct buf b;

	if (a->code)
		log_refusal(q, a);
	count(it, !a->code);
	buf_init(&b, ANSWER_MAX);
	review_write(&b, q, a);
	review_drop(a);
	forget(it);
	if (b.over)
		http_answer_error(http, 500, 500,
				  "the webhook's AdmissionReview response is too long");
	else
		http_answer(http, &(struct http1_response){
					  .status = 200, .type = HTTP_JSON, .body = buf_span(&b)});
}

static void refuse(struct review *q, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void refuse(struct review *q, const char *fmt, ...)
{
	struct review_answer a;
	char text[REVIEW_TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	review_allow(&a);
	review_refuse(&a, 400, "%s", text);
	review_answer(q, &a);
}

/*
 * Passes a review to its route's hook, or denies it if its kind or version is not the route's. The
 * API server converts objects to the version of the route (matchPolicy Equivalent), so another
 * version means CRDs that are not this release's.
 */
static void dispatch_review(struct requested *a)
{
	const struct review_route *r = a->route;
	struct review *q = &a->d.q;

	if (strcmp(q->group, r->group) || strcmp(q->kind, r->kind))
		refuse(q,
		       "webhook %s received kind '%s' of group '%s', expected kind '%s' of group "
		       "'%s': correct the webhook's rules",
		       r->path, q->kind, q->group, r->kind, r->group);
	else if (strcmp(q->version, r->version))
		refuse(q,
		       "webhook %s received version '%s' of %s, expected '%s': install the CRDs "
		       "of this controller's release",
		       r->path, q->version, r->kind, r->version);
	else
		r->webhook(r->arg, q);
}

static void request(struct reviews *s, const struct review_route *route, struct http_request *http)
{
	const struct http1_msg *m = http_request_msg(http);
	struct requested *a = xcalloc(1, sizeof(*a));
	struct err e = ERR_INIT;

	a->began = now_mono_us();
	if (review_parse(&a->d, m->body, &e) < 0) {
		free(a);
		not_wanted(s, http, route, 400, NULL, e.text);
		return;
	}
	a->s = s;
	a->route = route;
	a->http = http;
	a->next = s->requested;
	if (a->next)
		a->next->prev = a;
	s->requested = a;
	dispatch_review(a);
}

/* --- queue of reviews --- */

static struct queued *next_queued(struct reviews *s)
{
	struct queued *w = s->first;

	s->first = w->next;
	if (!s->first)
		s->end = &s->first;
	return w;
}

static void on_turn(void *arg)
{
	struct reviews *s = arg;
	int64_t until = now_mono_us() + TURN_US;

	while (s->first && now_mono_us() < until) {
		struct queued *w = next_queued(s);

		if (http_request_is_closed(w->http))
			say(w->http, 503, NULL, "the client has disconnected");
		else
			request(s, w->route, w->http);
		free(w);
	}
	if (s->first)
		loop_alarm_within(&s->turn, 0);
}

static void queue(struct reviews *s, const struct review_route *route, struct http_request *http)
{
	struct queued *w = xcalloc(1, sizeof(*w));

	*w = (struct queued){.route = route, .http = http};
	*s->end = w;
	s->end = &w->next;
	loop_alarm_within(&s->turn, 0);
}

/* --- expensive reviews --- */

static void forget_tried(struct tried *x)
{
	*(x->prev ? &x->prev->next : &x->s->tried) = x->next;
	if (x->next)
		x->next->prev = x->prev;
	free(x);
}

/* Runs in a child process, before the controller's own process decides the review. */
static void run_trial(void *arg)
{
	const struct tried *x = arg;
	struct review_doc d;

	if (review_parse(&d, http_request_msg(x->http)->body, NULL) == 0)
		x->route->trial(x->route->arg, &d.q);
}

static void on_tried(void *arg, const struct err *cause)
{
	struct tried x = *(struct tried *)arg;

	forget_tried(arg);
	if (!cause) {
		queue(x.s, x.route, x.http);
		return;
	}
	x.s->costly += cause->code == -EFBIG;
	not_wanted(x.s, x.http, x.route, cause->code == -EFBIG ? 413 : 503, NULL, cause->text);
}

static void try_first(struct reviews *s, const struct review_route *route,
		      struct http_request *http)
{
	struct tried *x = xcalloc(1, sizeof(*x));

	*x = (struct tried){.s = s, .route = route, .http = http, .next = s->tried};
	if (x->next)
		x->next->prev = x;
	s->tried = x;
	x->trial = trials_start(s->trials, run_trial, on_tried, x);
}

#define HEALTH "/webhook-health-check"

int reviews_check(void *arg, const struct http1_msg *head)
{
	struct reviews *s = arg;
	struct span path, query;

	if (http1_target(head->target, &path, &query) == 0) {
		if (span_eq(path, HEALTH))
			return HTTP_TAKE_ONE;
		if (s->accept(s->arg, &path))
			return HTTP_TAKE;
	}
	s->unauthenticated++;
	return 404;
}

void reviews_handle(void *arg, struct http_request *q)
{
	const struct http1_msg *m = http_request_msg(q);
	const struct review_route *route;
	struct reviews *s = arg;
	struct span path, query;

	if (http1_target(m->target, &path, &query) == 0 && span_eq(path, HEALTH)) {
		say(q, 200, NULL, "ok");
		return;
	}
	/* Checks the token again, because it may have expired while the body was received. */
	route = s->accept(s->arg, &path) ? route_of(s, path) : NULL;
	if (!route)
		not_wanted(s, q, NULL, 404, NULL, "no webhook has this path");
	else if (!span_eq(m->method, "POST"))
		not_wanted(s, q, route, 405, "POST", "expected POST");
	else if (!is_json(m))
		not_wanted(s, q, route, 415, NULL, "Content-Type is not application/json");
	else if (route->trial && m->body.n > TRIAL_SIZE)
		try_first(s, route, q);
	else
		queue(s, route, q);
}

/* --- creation and destruction --- */

struct reviews *reviews_new(struct loop *l, const struct review_route *routes, size_t n,
			    bool (*accept)(void *arg, struct span *path), void *arg)
{
	struct reviews *s = xcalloc(1, sizeof(*s));

	*s = (struct reviews){.routes = routes,
			      .end = &s->first,
			      .n = n,
			      .counts = xcalloc(n, sizeof(*s->counts)),
			      .accept = accept,
			      .arg = arg,
			      .turn = LOOP_ALARM(l, on_turn, s)};
	s->trials = trials_new(l);
	return s;
}

void reviews_free(struct reviews *s)
{
	if (!s)
		return;
	trials_free(s->trials);
	loop_alarm_cancel(&s->turn);
	while (s->first)
		free(next_queued(s));
	while (s->tried)
		forget_tried(s->tried);
	while (s->requested)
		forget(s->requested);
	free(s->counts);
	free(s);
}

static void put_counts(const struct reviews *s, struct buf *b, const struct metric *m, size_t at)
{
	sample_name(b, m);
	for (size_t i = 0; i < s->n; i++)
		sample_value(b, m->name, "path", s->routes[i].path,
			     *(const int64_t *)((const char *)&s->counts[i] + at));
}

static void put_times(const struct reviews *s, struct buf *b, const struct metric *m)
{
	sample_name(b, m);
	for (size_t i = 0; i < s->n; i++)
		sample_seconds(b, m->name, "path", s->routes[i].path, (int64_t)s->counts[i].us);
}

void reviews_metrics(const struct reviews *s, struct buf *b)
{
	put_counts(s, b,
		   METRIC("unirail_controller_reviews_allowed_total", "counter",
			  "Reviews that were allowed."),
		   offsetof(struct review_counts, allowed));
	put_counts(s, b,
		   METRIC("unirail_controller_reviews_refused_total", "counter",
			  "Reviews that were denied."),
		   offsetof(struct review_counts, refused));
	put_times(s, b,
		  METRIC("unirail_controller_reviews_seconds_total", "counter",
			 "Seconds from the start of a decision to its answer, summed over all "
			 "reviews, without queueing and trials."));
	sample_counter(b, "unirail_controller_reviews_invalid_total", s->invalid,
		       "Requests refused before a webhook reviewed them, such as invalid or too "
		       "costly requests.");
	sample_counter(b, "unirail_controller_reviews_costly_total", s->costly,
		       "Requests refused because their review exceeds the limit of processor time "
		       "or memory.");
	sample_counter(b, "unirail_controller_reviews_unauthenticated_total", s->unauthenticated,
		       "Requests refused because their path has no accepted token.");
}
