/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agent/api/internal.h"
#include "base/alloc.h"
#include "base/loop.h"
#include "cni/protocol/cni.h"

/* --- finding the route of a request --- */

static void not_found(struct http_request *q, struct span path)
{
	auto_free char *text =
		xasprintf("path %.*s was not found", (int)(path.n < 200 ? path.n : 200), path.p);

	http_answer_error(q, 404, 404, text);
}

static void wrong_method(struct http_request *q, struct span path)
{
	struct span method = http_request_msg(q)->method;
	auto_free char *text = NULL;
	auto_buf struct buf b;

	buf_init(&b, 256);
	for (const struct api_route *r = api_routes; r->path; r++)
		if (span_eq(path, r->path))
			buf_printf(&b, "%s%s", b.len ? "," : "", r->method);
	text = xasprintf("method %.*s is not allowed, but [%s] are",
			 (int)(method.n < 32 ? method.n : 32), method.p, b.p);
	http_answer_wrong_method(q, b.p, text);
}

static const struct api_route *route_of(struct http_request *q, struct span path)
{
	struct span method = http_request_msg(q)->method;
	bool known = false;

	for (const struct api_route *r = api_routes; r->path; r++) {
		if (!span_eq(path, r->path))
			continue;
		known = true;
		if (span_eq(method, r->method))
			return r;
	}
	if (known)
		wrong_method(q, path);
	else
		not_found(q, path);
	return NULL;
}

void ipam_api_handle(void *arg, struct http_request *q)
{
	const struct api_route *route;
	struct span path, query;
	struct api_call *c;

	if (http1_target(http_request_msg(q)->target, &path, &query) < 0) {
		http_answer_error(q, 400, 400, "the request target is not a path");
		return;
	}
	route = route_of(q, path);
	if (!route)
		return;
	c = xcalloc(1, sizeof(*c));
	*c = (struct api_call){.api = arg, .q = q, .route = route, .query = query};
	c->seq = ++c->api->seq;
	c->args = xcalloc(1, route->args_size);
	if (route->read && route->read(c) < 0) {
		api_call_free(c);
	} else if (route->now) {
		route->now(c);
		api_call_free(c);
	} else {
		c->begin_us = now_mono_us();
		if (!c->api->backend->collect(c))
			api_enqueue(c);
	}
}

/* --- responses --- */

static void answer(struct api_call *c, int status, struct span body)
{
	http_answer(c->q,
		    &(struct http1_response){.status = status, .type = HTTP_JSON, .body = body});
}

void api_ok(struct api_call *c)
{
	answer(c, 200, (struct span){NULL, 0});
}

void api_json(struct api_call *c, const struct buf *b)
{
	if (b->over)
		api_refuse(c, 500, 500, "the response is longer than %d MiB", API_ANSWER_MAX >> 20);
	else
		answer(c, 200, buf_span(b));
}

void api_string(struct api_call *c, int status, const char *text)
{
	auto_buf struct buf b;
	struct json_out o;

	buf_init(&b, API_ANSWER_MAX);
	jo_init(&o, &b, 0);
	jo_str(&o, text);
	buf_char(&b, '\n');
	answer(c, status, buf_span(&b));
}

void api_fail_string(struct api_call *c, const struct err *e)
{
	api_string(c, 500, e->text);
}

void api_fail_object(struct api_call *c, const struct err *e)
{
	http_answer_error(c->q, 500, cni_code(e), e->text);
}

void api_refuse(struct api_call *c, int status, int code, const char *fmt, ...)
{
	char text[ERR_TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	http_answer_error(c->q, status, code, text);
}

/* --- reading requests --- */

/* A body without a Content-Type counts as JSON. Any type other than JSON is refused, also that
 * of a form, which curl sends by default. */
static int check_type(struct api_call *c)
{
	struct span v;

	if (!http1_get(http_request_msg(c->q), "content-type", &v) || http1_type_is_json(v))
		return 0;
	api_refuse(c, 415, 415, "unsupported media type \"%.*s\", only [" HTTP_JSON "] are allowed",
		   (int)(v.n < 100 ? v.n : 100), v.p);
	return -EINVAL;
}

int api_body(struct api_call *c, const char *name, const struct json_table *t)
{
	struct span body = http_request_msg(c->q)->body;
	struct err e = ERR_INIT;
	int r;

	if (body.n == 0) {
		api_refuse(c, 422, 602, "%s in body is required", name);
		return -EINVAL;
	}
	r = check_type(c);
	if (r < 0)
		return r;
	r = json_parse(&c->doc, body, HTTP1_BODY_MAX, &e);
	if (r == 0 && json_kind(json_root(c->doc)) != JSON_OBJECT)
		r = json_wants(json_root(c->doc), name, "an object", &e);
	if (r == 0)
		r = json_read(c->doc, json_root(c->doc), t, c->args, name, &e);
	if (r < 0)
		api_refuse(c, 400, 400, "parsing %s body from \"\" failed, because %s", name,
			   e.text);
	return r;
}

int api_required(struct api_call *c, const char *field, const char *value)
{
	if (value)
		return 0;
	api_refuse(c, 422, 602, "%s in body is required", field);
	return -EINVAL;
}

int api_not_empty(struct api_call *c, const char *field, const char *value)
{
	int r = api_required(c, field, value);

	if (r < 0 || *value)
		return r;
	api_refuse(c, 422, 604, "%s in body should be at least 1 chars long", field);
	return -EINVAL;
}

/* --- readiness, and the table of routes --- */

static void api_ready(struct api_call *c)
{
	struct err e = ERR_INIT;

	if (c->api->backend->ready(c->api, &e) < 0)
		api_fail_string(c, &e);
	else
		api_ok(c);
}

static struct metrics_ipam *as_allocation(struct metrics *m)
{
	return &m->allocation;
}

static struct metrics_ipam *as_release(struct metrics *m)
{
	return &m->release;
}

#define V1	  "/v1/"
#define ROUTE	  "/v1/unirail/"
#define STRING	  .fail = api_fail_string
#define OBJECT	  .fail = api_fail_object
#define ARGS(of)  .args_size = sizeof(struct api_##of##_args)
#define GIVES(of) .for_caller = true, .pod = api_pod_of_##of, .count = as_allocation
#define TAKES	  .count = as_release

const struct api_route api_routes[] = {
	{"GET", V1 "ipam/healthy", .now = api_ok},
	{"POST", V1 "ipam/ip", ARGS(pod), api_read_add, .run = api_add, STRING, GIVES(add)},
	{"DELETE", V1 "ipam/ip", ARGS(pod), api_read_del, .run = api_del, STRING, TAKES},
	{"POST", V1 "ipam/ips", .now = api_ok},
	{"DELETE", V1 "ipam/ips", ARGS(pod), api_read_batch_del, .run = api_batch_del, STRING,
	 TAKES},
	{"GET", V1 "workloadendpoint", ARGS(endpoint), api_read_endpoint, .run = api_endpoint,
	 STRING, .for_caller = true},
	{"GET", V1 "coordinator/config", ARGS(coordinator), api_read_coordinator,
	 .now = api_coordinator},
	{"GET", V1 "runtime/startup", .now = api_ok},
	{"GET", V1 "runtime/readiness", .now = api_ready},
	{"GET", V1 "runtime/liveness", .now = api_ok},

	{"POST", ROUTE "pods/networks", ARGS(networks), api_read_networks, .now = api_networks},
	{"POST", ROUTE "pods/plan", ARGS(plan), api_read_plan, .run = api_plan, OBJECT,
	 GIVES(plan)},
	{"POST", ROUTE "pods/report", ARGS(report), api_read_report, .run = api_report, OBJECT},
	{"POST", ROUTE "pods/check", ARGS(release), api_read_release, .run = api_check, OBJECT,
	 .for_caller = true},
	{"POST", ROUTE "pods/release", ARGS(release), api_read_release, .run = api_release, OBJECT,
	 TAKES},
	{"GET", ROUTE "status", .run = api_status, OBJECT, .for_caller = true},
	{"GET", ROUTE "devices", .now = api_devices},
	{"POST", ROUTE "pools", ARGS(pools), api_read_pools, .run = api_pools, OBJECT,
	 .for_caller = true},
	{"POST", ROUTE "networks/gc", ARGS(gc), api_read_gc, .run = api_gc, OBJECT},
	{0},
};
