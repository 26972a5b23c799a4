/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1. First byte: bit 0 chooses requests or responses, bits 1 to 5 the size of the reads. The
 * rest is the data from the peer. One read and many reads have the same result; a parsed message is
 * written, and parsed again with the same result.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "fuzz.h"
#include "wire/http/http1.h"

enum { BODY_MAX = 2048, OUT_MAX = 1 << 20, VALUE_MAX = 64 };

static void put_span(struct buf *b, struct span s)
{
	buf_printf(b, "%zu:", s.n);
	buf_add(b, s.p, s.n);
}

/* Appends the whole content of a message, as bytes to compare. */
static void put_msg(struct buf *b, const struct http1_msg *m)
{
	put_span(b, m->method);
	put_span(b, m->target);
	put_span(b, m->reason);
	put_span(b, m->body);
	buf_printf(b, " %d %d %zu\n", m->status, m->close, m->n_fields);
	for (size_t i = 0; i < m->n_fields; i++) {
		put_span(b, m->fields[i].name);
		put_span(b, m->fields[i].value);
	}
}

static void check_query(struct span query)
{
	char value[VALUE_MAX];
	int r = http1_query(query, "a", value, sizeof(value));

	must(r == 0 || r == 1 || r == -EINVAL || r == -ENAMETOOLONG);
	if (r == 1)
		must(memchr(value, '\0', sizeof(value)));
}

static void check_msg(const struct http1_msg *m, enum http1_side side)
{
	struct span path, query, v;

	must(m->n_fields <= HTTP1_FIELDS_MAX && m->body.n <= BODY_MAX);
	for (size_t i = 0; i < m->n_fields; i++) {
		must(m->fields[i].name.n > 0);
		must(m->fields[i].value.n == 0 ||
		     !memchr(m->fields[i].value.p, '\n', m->fields[i].value.n));
	}
	http1_get(m, "content-length", &v);
	if (side == HTTP1_RESPONSES) {
		must(m->status >= 200 && m->status <= 999);
		return;
	}
	must(m->method.n > 0 && m->target.n > 0);
	if (http1_target(m->target, &path, &query) == 0) {
		must(path.n > 0 && path.p[0] == '/');
		check_query(query);
	}
}

/* Method, target and body of a request, or status and body of a response, are the same after
 * writing and parsing. */
static void check_written(const struct http1_msg *m, enum http1_side side)
{
	auto_http1 struct http1 *h = http1_new(side, BODY_MAX);
	auto_free char *method = span_dup(m->method), *target = span_dup(m->target);
	struct http1_msg again;
	auto_buf struct buf b;
	struct span in;

	buf_init(&b, OUT_MAX);
	if (side == HTTP1_REQUESTS)
		http1_put_request(&b, &(struct http1_request){.method = method,
							      .target = target,
							      .type = "text/plain",
							      .body = m->body});
	else
		http1_put_response(&b, &(struct http1_response){.status = m->status,
								.type = "text/plain",
								.body = m->body,
								.close = m->close});
	in = buf_span(&b);
	/* Not parsed again: a response with this status has no body to compare. */
	if (side == HTTP1_RESPONSES && (m->status == 204 || m->status == 304))
		return;
	must(http1_in(h, &in, &again, NULL) == 1 && in.n == 0);
	must(again.status == m->status && again.body.n == m->body.n);
	must(again.body.n == 0 || !memcmp(again.body.p, m->body.p, m->body.n));
	must(span_eq(again.target, target) && span_eq(again.method, method));
}

/* Parses the text in reads of `step` bytes; appends the parsed content to b. */
static void run(enum http1_side side, struct span text, size_t step, struct buf *b)
{
	auto_http1 struct http1 *h = http1_new(side, BODY_MAX);
	auto_free char *read = xmalloc(step);
	struct err e = ERR_INIT;
	struct http1_msg m;
	int r = 0;

	while (r >= 0 && text.n > 0) {
		size_t n = step < text.n ? step : text.n;
		/* Placed at the end of its memory, so that reads beyond it are detected. */
		struct span in = {memcpy(read + step - n, text.p, n), n};

		text.p += n;
		text.n -= n;
		while ((r = http1_in(h, &in, &m, &e)) == 1) {
			check_msg(&m, side);
			check_written(&m, side);
			put_msg(b, &m);
		}
		must(r < 0 || in.n == 0);
		http1_wants_continue(h);
	}
	if (fuzz_refused(r, &e)) {
		must(http1_refusal(h) >= 400 && http1_refusal(h) < 600);
		must(http1_in(h, &(struct span){"G", 1}, &m, NULL) == r);
	} else {
		r = http1_eof(h, &m, NULL);
		must(r == 0 || r == 1 || r == -EPROTO);
		if (r == 1)
			put_msg(b, &m);
	}
	buf_printf(b, "end %d", r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = {data, size};
	uint8_t how = feed_byte(&f);
	enum http1_side side = how & 1 ? HTTP1_RESPONSES : HTTP1_REQUESTS;
	struct span text = feed_rest(&f);
	auto_buf struct buf whole, parts;

	buf_init(&whole, OUT_MAX);
	buf_init(&parts, OUT_MAX);
	run(side, text, text.n, &whole);
	run(side, text, 1 + (how >> 1) % 32, &parts);
	must(whole.len == parts.len && !memcmp(whole.p, parts.p, whole.len));
	return 0;
}
