/* SPDX-License-Identifier: Apache-2.0 */
/* From a request to its route. */
#include <stdlib.h>

#include "agent/api/api.h"
#include "base/cleanup.h"
#include "base/loop.h"

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
		http_answer_error(q, 400, 400, "the request's target is no path");
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
		if (!api_gather(c))
			api_enqueue(c);
	}
}
