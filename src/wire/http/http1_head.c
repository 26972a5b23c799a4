/* SPDX-License-Identifier: Apache-2.0 */
/* One head: picohttpparser splits it, the rest decides what it means and what is not let in. */
#include <errno.h>
#include <picohttpparser.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/num.h"
#include "wire/http/http1_priv.h"

/* RFC 9110, 5.6.2 */
static bool is_token_char(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c && strchr("!#$%&'*+-.^_`|~", c));
}

bool http1_is_token(struct span s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!is_token_char(s.p[i]))
			return false;
	return s.n > 0;
}

bool http1_span_eq_nocase(struct span s, const char *word)
{
	return s.n == strlen(word) && strncasecmp(s.p, word, s.n) == 0;
}

bool http1_get(const struct http1_msg *m, const char *name, struct span *ret)
{
	for (size_t i = 0; i < m->n_fields; i++)
		if (http1_span_eq_nocase(m->fields[i].name, name)) {
			*ret = m->fields[i].value;
			return true;
		}
	return false;
}

static size_t count(const struct http1_msg *m, const char *name)
{
	size_t n = 0;

	for (size_t i = 0; i < m->n_fields; i++)
		n += http1_span_eq_nocase(m->fields[i].name, name);
	return n;
}

/* Is `word` an element of the comma lists that all fields of this name hold? */
static bool lists(const struct http1_msg *m, const char *name, const char *word)
{
	for (size_t i = 0; i < m->n_fields; i++) {
		struct span rest = m->fields[i].value, one;

		if (!http1_span_eq_nocase(m->fields[i].name, name))
			continue;
		while (span_cut(&rest, ',', &one))
			if (http1_span_eq_nocase(span_trim(one), word))
				return true;
	}
	return false;
}

static int take_fields(struct http1_head *h, const struct phr_header *v, size_t n, int *refusal,
		       struct err *e)
{
	h->fields = xrealloc(h->fields, n * sizeof(*h->fields));
	for (size_t i = 0; i < n; i++) {
		/* no name: a folded line */
		if (!v[i].name)
			return http1_refuse(refusal, 400, e, "header field %zu is folded", i + 1);
		h->fields[i] =
			(struct http1_field){{v[i].name, v[i].name_len},
					     span_trim((struct span){v[i].value, v[i].value_len})};
		if (!http1_is_token(h->fields[i].name))
			return http1_refuse(refusal, 400, e, "header field %zu has no valid name",
					    i + 1);
	}
	h->msg.fields = h->fields;
	h->msg.n_fields = n;
	return 0;
}

/* --- where the body ends --- */

static int too_long(size_t body_max, int *refusal, struct err *e)
{
	if (body_max == 0)
		return http1_refuse(refusal, 413, e, "the request has a body: send none");
	return http1_refuse(refusal, 413, e, "the body is longer than %zu bytes", body_max);
}

static int content_length(struct http1_head *h, size_t body_max, int *refusal, struct err *e)
{
	struct span v = {0};

	http1_get(&h->msg, "content-length", &v);
	for (size_t i = 0; i < v.n; i++)
		if (v.p[i] < '0' || v.p[i] > '9')
			v.n = 0;
	if (v.n == 0)
		return http1_refuse(refusal, 400, e, "Content-Length is no number");
	if (num_u64(v, 0, body_max, &h->length) < 0)
		return too_long(body_max, refusal, e);
	h->framing = h->length ? FRAME_LENGTH : FRAME_NONE;
	return 0;
}

static int transfer_encoding(struct http1_head *h, size_t body_max, int *refusal, struct err *e)
{
	struct span v = {0};

	http1_get(&h->msg, "transfer-encoding", &v);
	if (h->minor == 0)
		return http1_refuse(refusal, 400, e, "Transfer-Encoding in HTTP/1.0");
	if (!http1_span_eq_nocase(v, "chunked"))
		return http1_refuse(refusal, 501, e, "Transfer-Encoding is '%.*s', wants 'chunked'",
				    (int)(v.n < 64 ? v.n : 64), v.p);
	if (body_max == 0)
		return too_long(body_max, refusal, e);
	h->framing = FRAME_CHUNKED;
	return 0;
}

static int framing(enum http1_side side, struct http1_head *h, size_t body_max, int *refusal,
		   struct err *e)
{
	size_t lengths = count(&h->msg, "content-length");
	size_t encodings = count(&h->msg, "transfer-encoding");

	if (lengths + encodings > 1)
		return http1_refuse(refusal, 400, e,
				    "%zu Content-Length and %zu Transfer-Encoding in one head",
				    lengths, encodings);
	if (side == HTTP1_RESPONSES &&
	    (h->msg.status < 200 || h->msg.status == 204 || h->msg.status == 304))
		return 0;
	if (lengths)
		return content_length(h, body_max, refusal, e);
	if (encodings)
		return transfer_encoding(h, body_max, refusal, e);
	h->framing = side == HTTP1_RESPONSES ? FRAME_EOF : FRAME_NONE;
	return 0;
}

/* --- requests --- */

static int request_line(const struct http1_msg *m, int *refusal, struct err *e)
{
	if (!http1_is_token(m->method))
		return http1_refuse(refusal, 400, e, "the request line has no valid method");
	for (size_t i = 0; i < m->target.n; i++)
		if (m->target.p[i] <= ' ' || m->target.p[i] > '~')
			return http1_refuse(refusal, 400, e, "the request's target is not ASCII");
	if (m->target.n == 0)
		return http1_refuse(refusal, 400, e, "the request has no target");
	return 0;
}

static int host_and_expect(struct http1_head *h, int *refusal, struct err *e)
{
	size_t hosts = count(&h->msg, "host");
	struct span v;

	if (hosts > 1 || (hosts == 0 && h->minor > 0))
		return http1_refuse(refusal, 400, e, "%zu Host fields, wants 1", hosts);
	if (!http1_get(&h->msg, "expect", &v))
		return 0;
	if (!http1_span_eq_nocase(v, "100-continue"))
		return http1_refuse(refusal, 417, e, "Expect is not '100-continue'");
	h->expects = h->minor > 0;
	return 0;
}

/* Something that calls itself HTTP, but not 1.x? */
static bool is_other_version(struct span text)
{
	const char *nl = memchr(text.p, '\r', text.n);
	struct span line = {text.p, nl ? (size_t)(nl - text.p) : 0}, word = {0}, rest = line;

	while (span_cut(&rest, ' ', &word))
		;
	return span_has_prefix(word, "HTTP/") && !span_has_prefix(word, "HTTP/1.");
}

static int parse_request(struct span text, struct http1_head *h, struct phr_header *v, size_t *n,
			 int *refusal, struct err *e)
{
	struct http1_msg *m = &h->msg;
	int r = phr_parse_request(text.p, text.n, &m->method.p, &m->method.n, &m->target.p,
				  &m->target.n, &h->minor, v, n, 0);

	if (r < 0 && is_other_version(text))
		return http1_refuse(refusal, 505, e, "the request is not HTTP/1.1");
	if (r != (int)text.n)
		return http1_refuse(refusal, 400, e, "the head is malformed");
	return request_line(m, refusal, e);
}

static int parse_response(struct span text, struct http1_head *h, struct phr_header *v, size_t *n,
			  int *refusal, struct err *e)
{
	struct http1_msg *m = &h->msg;
	int r = phr_parse_response(text.p, text.n, &h->minor, &m->status, &m->reason.p,
				   &m->reason.n, v, n, 0);

	if (r != (int)text.n || m->status < 100 || m->status > 599)
		return http1_refuse(refusal, 400, e, "the answer is not HTTP/1.1");
	return 0;
}

int http1_head_parse(enum http1_side side, struct span text, size_t body_max,
		     struct http1_head *ret, int *refusal, struct err *e)
{
	struct phr_header v[HTTP1_FIELDS_MAX];
	size_t n = ARRAY_LEN(v);
	bool asks = side == HTTP1_REQUESTS;
	int r;

	ret->msg = (struct http1_msg){0};
	ret->framing = FRAME_NONE;
	ret->length = 0;
	ret->expects = false;
	r = (asks ? parse_request : parse_response)(text, ret, v, &n, refusal, e);
	if (r == 0)
		r = take_fields(ret, v, n, refusal, e);
	if (r == 0)
		r = framing(side, ret, body_max, refusal, e);
	if (r == 0 && asks)
		r = host_and_expect(ret, refusal, e);
	if (r < 0)
		return r;
	ret->msg.close = ret->framing == FRAME_EOF || lists(&ret->msg, "connection", "close") ||
			 (ret->minor == 0 && !lists(&ret->msg, "connection", "keep-alive"));
	return 0;
}
