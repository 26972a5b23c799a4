/* SPDX-License-Identifier: Apache-2.0 */
/* Which bytes belong to which message. */
#include "wire/http/http1_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* A server that sends interim answers for ever is none. */
enum { INTERIM_MAX = 8 };

enum state { ST_HEAD, ST_BODY, ST_DONE, ST_FAILED };

struct http1 {
	enum http1_side side;
	size_t body_max;
	enum state state;
	struct buf head, body;
	struct http1_lines lines;
	struct http1_head parsed;
	struct http1_chunks chunks;
	bool continued, stops, stopped; /* at heads; at this one */
	int interim, refusal;
	struct err *err; /* of ST_FAILED */
};

struct http1 *http1_new(enum http1_side side, size_t body_max)
{
	struct http1 *h = xcalloc(1, sizeof(*h));

	h->side = side;
	h->body_max = body_max;
	buf_init(&h->head, HTTP1_HEAD_MAX);
	buf_init(&h->body, body_max);
	return h;
}

void http1_free(struct http1 *h)
{
	if (!h)
		return;
	buf_done(&h->head);
	buf_done(&h->body);
	free(h->parsed.fields);
	free(h->err);
	free(h);
}

void http1_cleanup(struct http1 **h)
{
	int saved = errno;

	http1_free(*h);
	*h = NULL;
	errno = saved;
}

int http1_refuse(int *status, int code, struct err *e, const char *fmt, ...)
{
	char text[ERR_TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	*status = code;
	return err_set(e, -EPROTO, "%s", text);
}

int http1_line_byte(struct http1_lines *l, char c)
{
	unsigned char u = (unsigned char)c;
	char last = l->last;

	l->last = c;
	if ((c == '\n') != (last == '\r'))
		return -EPROTO;
	if (c == '\n') {
		bool empty = l->column == 0;

		l->column = 0;
		l->n_lines++;
		return empty ? LINE_EMPTY : LINE_ENDS;
	}
	if (c == '\r')
		return LINE_GOES_ON;
	if ((u < ' ' && c != '\t') || u == 127)
		return -EPROTO;
	l->column++;
	return LINE_GOES_ON;
}

static void begin(struct http1 *h)
{
	h->state = ST_HEAD;
	buf_trim(&h->head, 0);
	buf_trim(&h->body, 0);
	free(h->parsed.fields);
	h->parsed.fields = NULL;
	h->lines = (struct http1_lines){0};
	h->chunks = (struct http1_chunks){0};
	h->continued = h->stopped = false;
}

static int head_too_long(struct http1 *h, struct err *e)
{
	return http1_refuse(&h->refusal, h->lines.n_lines == 0 ? 414 : 431, e,
			    "the head is longer than %d KiB", HTTP1_HEAD_MAX >> 10);
}

static int bad_byte(struct http1 *h, char c, struct err *e)
{
	return http1_refuse(&h->refusal, 400, e,
			    "line %zu of the head has a byte 0x%02x that may not stand there",
			    h->lines.n_lines + 1, (unsigned char)c);
}

/* 1: the head is whole. */
static int head_in(struct http1 *h, struct span *in, struct err *e)
{
	int line = LINE_GOES_ON;
	size_t n = 0;

	while (n < in->n && line != LINE_EMPTY) {
		line = http1_line_byte(&h->lines, in->p[n++]);
		if (line < 0)
			return bad_byte(h, in->p[n - 1], e);
		if (h->head.len + n > HTTP1_HEAD_MAX)
			return head_too_long(h, e);
		if (h->lines.n_lines > HTTP1_FIELDS_MAX + 2)
			return http1_refuse(&h->refusal, 431, e, "more than %d header fields",
					    HTTP1_FIELDS_MAX);
	}
	buf_add(&h->head, in->p, n);
	in->p += n;
	in->n -= n;
	return line == LINE_EMPTY;
}

/* An empty line before a request is what old clients send after a body. */
static bool is_empty_line(const struct http1 *h)
{
	return h->head.len == 2;
}

static int sized_in(struct http1 *h, struct span *in)
{
	size_t left = (size_t)h->parsed.length - h->body.len, n = in->n < left ? in->n : left;

	buf_add(&h->body, in->p, n);
	in->p += n;
	in->n -= n;
	return n == left;
}

static int endless_in(struct http1 *h, struct span *in, struct err *e)
{
	if (in->n > h->body_max - h->body.len)
		return http1_refuse(&h->refusal, 413, e, "the body is longer than %zu bytes",
				    h->body_max);
	buf_add(&h->body, in->p, in->n);
	*in = (struct span){in->p + in->n, 0};
	return 0;
}

static int chunked_in(struct http1 *h, struct span *in, struct err *e)
{
	int r = http1_chunks_in(&h->chunks, in, &h->body, h->body_max, &h->refusal, e);

	return r < 0 ? r : h->chunks.state == CHUNK_DONE;
}

/* 1: the body is whole. */
static int body_in(struct http1 *h, struct span *in, struct err *e)
{
	switch (h->parsed.framing) {
	case FRAME_LENGTH: return sized_in(h, in);
	case FRAME_CHUNKED: return chunked_in(h, in, e);
	case FRAME_EOF: return endless_in(h, in, e);
	case FRAME_NONE: break;
	}
	return 1;
}

static int interim(struct http1 *h, struct err *e)
{
	if (h->parsed.msg.status == 101)
		return http1_refuse(&h->refusal, 400, e, "101 Switching Protocols, unasked");
	if (++h->interim > INTERIM_MAX)
		return http1_refuse(&h->refusal, 400, e, "more than %d interim answers",
				    INTERIM_MAX);
	begin(h);
	return 0;
}

static int head_done(struct http1 *h, struct err *e)
{
	int r;

	if (is_empty_line(h)) {
		if (h->side == HTTP1_RESPONSES || ++h->interim > INTERIM_MAX)
			return http1_refuse(&h->refusal, 400, e, "an empty line instead of a head");
		begin(h);
		return 0;
	}
	r = http1_head_parse(h->side, buf_span(&h->head), h->body_max, &h->parsed, &h->refusal, e);
	if (r < 0)
		return r;
	if (h->side == HTTP1_RESPONSES && h->parsed.msg.status < 200)
		return interim(h, e);
	h->state = ST_BODY;
	return 0;
}

static void hand_out(struct http1 *h, struct http1_msg *ret)
{
	h->state = ST_DONE;
	h->interim = 0;
	*ret = h->parsed.msg;
	ret->body = buf_span(&h->body);
}

static int step(struct http1 *h, struct span *in, struct err *e)
{
	int r;

	if (h->state == ST_DONE)
		begin(h);
	if (h->state == ST_BODY)
		return body_in(h, in, e);
	r = head_in(h, in, e);
	return r > 0 ? head_done(h, e) : r;
}

static int failed(struct http1 *h, struct err *e)
{
	if (e)
		*e = *h->err;
	return h->err->code;
}

void http1_stop_at_heads(struct http1 *h)
{
	h->stops = true;
}

/* The head is whole, and has not been handed out. */
static bool stop_at_head(struct http1 *h, struct http1_msg *ret)
{
	if (!h->stops || h->stopped || h->state != ST_BODY)
		return false;
	h->stopped = true;
	*ret = h->parsed.msg;
	return true;
}

int http1_in(struct http1 *h, struct span *in, struct http1_msg *ret, struct err *e)
{
	if (h->state == ST_FAILED)
		return failed(h, e);
	/* A message without a body is whole as soon as its head is, without another byte. */
	while (in->n > 0 || (h->state == ST_BODY && h->parsed.framing == FRAME_NONE)) {
		struct err why = ERR_INIT;
		int r = step(h, in, &why);

		if (r < 0) {
			h->state = ST_FAILED;
			h->err = xmalloc(sizeof(*h->err));
			*h->err = why;
			return failed(h, e);
		}
		if (r > 0) {
			hand_out(h, ret);
			return 1;
		}
		if (stop_at_head(h, ret))
			return HTTP1_HEAD;
	}
	return 0;
}

void http1_done(struct http1 *h)
{
	if (h->state == ST_DONE)
		begin(h);
}

int http1_eof(struct http1 *h, struct http1_msg *ret, struct err *e)
{
	if (h->state == ST_FAILED)
		return failed(h, e);
	if (http1_phase(h) == HTTP1_NOTHING)
		return 0;
	if (h->state == ST_BODY && h->parsed.framing == FRAME_EOF) {
		hand_out(h, ret);
		return 1;
	}
	return err_set(e, -EPROTO, "the connection ended in the middle of %s",
		       h->state == ST_BODY ? "a body" : "a head");
}

enum http1_phase http1_phase(const struct http1 *h)
{
	if (h->state == ST_BODY)
		return HTTP1_IN_BODY;
	return h->state == ST_HEAD && h->head.len > 0 ? HTTP1_IN_HEAD : HTTP1_NOTHING;
}

size_t http1_held(const struct http1 *h)
{
	return h->head.cap + h->body.cap +
	       (h->parsed.fields ? h->parsed.msg.n_fields * sizeof(*h->parsed.fields) : 0);
}

int http1_refusal(const struct http1 *h)
{
	return h->refusal ? h->refusal : 400;
}

bool http1_wants_continue(struct http1 *h)
{
	bool wants = h->state == ST_BODY && h->parsed.expects && !h->continued && !h->body.len;

	h->continued |= wants;
	return wants;
}
