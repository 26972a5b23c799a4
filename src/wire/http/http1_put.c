/* SPDX-License-Identifier: Apache-2.0 */
/* Messages as bytes, and what a target says. */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/num.h"
#include "wire/http/http1.h"

static const struct {
	int status;
	const char *reason;
} reasons[] = {
	{100, "Continue"},
	{200, "OK"},
	{204, "No Content"},
	{400, "Bad Request"},
	{403, "Forbidden"},
	{404, "Not Found"},
	{405, "Method Not Allowed"},
	{408, "Request Timeout"},
	{413, "Content Too Large"},
	{414, "URI Too Long"},
	{415, "Unsupported Media Type"},
	{417, "Expectation Failed"},
	{422, "Unprocessable Entity"},
	{431, "Request Header Fields Too Large"},
	{500, "Internal Server Error"},
	{501, "Not Implemented"},
	{503, "Service Unavailable"},
	{505, "HTTP Version Not Supported"},
	{0},
};

const char *http1_reason(int status)
{
	for (size_t i = 0; reasons[i].status; i++)
		if (reasons[i].status == status)
			return reasons[i].reason;
	/* Spiderpool has codes of its own (521, 522). */
	return "Other";
}

void http1_put_response(struct buf *b, const struct http1_response *r)
{
	bool no_body = r->status == 204;

	buf_printf(b, "HTTP/1.1 %d %s\r\n", r->status, http1_reason(r->status));
	if (r->allow)
		buf_printf(b, "Allow: %s\r\n", r->allow);
	if (r->retry_after)
		buf_printf(b, "Retry-After: %d\r\n", r->retry_after);
	if (r->type && r->body.n)
		buf_printf(b, "Content-Type: %s\r\n", r->type);
	if (!no_body)
		buf_printf(b, "Content-Length: %zu\r\n", r->body.n);
	if (r->close)
		buf_str(b, "Connection: close\r\n");
	buf_str(b, "\r\n");
	if (!r->head && !no_body)
		buf_add(b, r->body.p, r->body.n);
}

void http1_put_continue(struct buf *b)
{
	buf_str(b, "HTTP/1.1 100 Continue\r\n\r\n");
}

void http1_put_request(struct buf *b, const struct http1_request *r)
{
	buf_printf(b, "%s %s HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n",
		   r->method, r->target);
	if (r->type)
		buf_printf(b, "Content-Type: %s\r\nContent-Length: %zu\r\n", r->type, r->body.n);
	buf_str(b, "Connection: close\r\n\r\n");
	if (r->type)
		buf_add(b, r->body.p, r->body.n);
}

int http1_target(struct span target, struct span *path, struct span *query)
{
	static const char scheme[] = "http://";
	struct span rest = target;
	const char *slash;

	if (target.n > sizeof(scheme) - 1 &&
	    strncasecmp(target.p, scheme, sizeof(scheme) - 1) == 0) {
		rest.p += sizeof(scheme) - 1;
		rest.n -= sizeof(scheme) - 1;
		slash = memchr(rest.p, '/', rest.n);
		if (!slash)
			return -EINVAL;
		rest.n -= (size_t)(slash - rest.p);
		rest.p = slash;
	}
	if (rest.n == 0 || rest.p[0] != '/')
		return -EINVAL;
	span_cut(&rest, '?', path);
	*query = rest.p ? rest : (struct span){"", 0};
	return 0;
}

/* '+' is a blank in a query, as Go's url.ParseQuery has it. */
static int unescape(struct span s, char *ret, size_t size)
{
	size_t n = 0;

	for (size_t i = 0; i < s.n; i++) {
		uint64_t v = (unsigned char)s.p[i];

		if (s.p[i] == '%') {
			if (i + 2 >= s.n || num_hex((struct span){s.p + i + 1, 2}, 255, &v) < 0)
				return -EINVAL;
			i += 2;
		} else if (s.p[i] == '+') {
			v = ' ';
		}
		if (v == 0)
			return -EINVAL;
		if (n + 1 >= size)
			return -ENAMETOOLONG;
		ret[n++] = (char)v;
	}
	ret[n] = '\0';
	return 1;
}

int http1_query(struct span query, const char *key, char *ret, size_t size)
{
	struct span pair, name, value = {0};
	bool found = false;

	while (span_cut(&query, '&', &pair)) {
		span_cut(&pair, '=', &name);
		if (!span_eq(name, key))
			continue;
		found = true;
		value = pair.p ? pair : (struct span){"", 0};
	}
	return found ? unescape(value, ret, size) : 0;
}
