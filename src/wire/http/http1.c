/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/http/http1.h"

#include <errno.h>
#include <picohttpparser.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/num.h"
#include "wire/http/internal.h"

/* Framing: which bytes belong to which message. */

/* Maximum number of interim answers (1xx) before the final one, and of empty lines before a
 * request. */
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
	/* stops: http1_in() returns at each head; stopped: it has returned at the current head */
	bool continued, stops, stopped;
	int interim, refusal;
	struct err *err; /* in ST_FAILED: the error that every further http1_in() returns */
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

/* Sets e and the HTTP status with which a server answers. */
static int http1_refuse(int *status, int code, struct err *e, const char *fmt, ...)
{
	char text[ERR_TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	*status = code;
	return err_set(e, -EPROTO, "%s", text);
}

/* Checks the next byte of a head or trailer, and returns whether it ends a line (LINE_*); -EPROTO:
 * the byte is not allowed. */
static int http1_line_byte(struct http1_lines *l, char c)
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
			    "line %zu of the head has a byte 0x%02x that is not allowed",
			    h->lines.n_lines + 1, (unsigned char)c);
}

/* Reads bytes of the head; returns 1 if it is complete. */
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

/* Returns whether the head is only an empty line. Old clients send one after a body, so up to
 * INTERIM_MAX are accepted before a request. */
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

static int http1_chunks_in(struct http1_chunks *c, struct span *in, struct buf *body,
			   size_t body_max, int *refusal, struct err *e);

static int chunked_in(struct http1 *h, struct span *in, struct err *e)
{
	int r = http1_chunks_in(&h->chunks, in, &h->body, h->body_max, &h->refusal, e);

	return r < 0 ? r : h->chunks.state == CHUNK_DONE;
}

/* Reads bytes of the body; returns 1 if it is complete. */
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
		return http1_refuse(&h->refusal, 400, e,
				    "101 Switching Protocols without a request to upgrade");
	if (++h->interim > INTERIM_MAX)
		return http1_refuse(&h->refusal, 400, e, "more than %d interim answers",
				    INTERIM_MAX);
	begin(h);
	return 0;
}

static int http1_head_parse(enum http1_side side, struct span text, size_t body_max,
			    struct http1_head *ret, int *refusal, struct err *e);

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

/* Returns whether the head is complete and must be returned now, before the body. */
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
	/* A message without a body is complete with its head: no further byte is needed. */
	while (in->n > 0 || (h->state == ST_BODY && h->parsed.framing == FRAME_NONE)) {
		struct err cause = ERR_INIT;
		int r = step(h, in, &cause);

		if (r < 0) {
			h->state = ST_FAILED;
			h->err = xmalloc(sizeof(*h->err));
			*h->err = cause;
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

/* Decoder of the Transfer-Encoding "chunked". picohttpparser's decoder is not used: it accepts
 * bare line feeds and any bytes after a chunk's size; if a front end parses those differently,
 * requests can be smuggled. */

/* EXTRA_MAX: up to this number of bytes, chunk extensions and trailers of a body are ignored; a
 * body with more is refused. */
enum { EXTRA_MAX = 4 << 10, DIGITS_MAX = 16 };

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static int malformed(int *refusal, const char *what, struct err *e)
{
	return http1_refuse(refusal, 400, e, "chunked body: %s", what);
}

static int size_byte(struct http1_chunks *c, char b, int *refusal, struct err *e)
{
	int v = hex_value(b);

	if (v >= 0 && c->digits < DIGITS_MAX) {
		c->left = c->left << 4 | (unsigned int)v;
		c->digits++;
		return 0;
	}
	if (v >= 0 || c->digits == 0)
		return malformed(refusal,
				 "a chunk's size is not a hexadecimal number of at most 16 digits",
				 e);
	if (b == '\r')
		c->state = CHUNK_SIZE_LF;
	else if (b == ' ' || b == '\t')
		c->state = CHUNK_BLANK;
	else if (b == ';')
		c->state = CHUNK_EXT;
	else
		return malformed(refusal,
				 "a chunk's size is followed by a byte that is not allowed", e);
	return 0;
}

static int extra_byte(struct http1_chunks *c, int *refusal, struct err *e)
{
	if (++c->extra > EXTRA_MAX)
		return http1_refuse(refusal, 431, e,
				    "chunked body: more than %d KiB of extensions and trailers",
				    EXTRA_MAX >> 10);
	return 0;
}

static int ext_byte(struct http1_chunks *c, char b, int *refusal, struct err *e)
{
	unsigned char u = (unsigned char)b;

	if (c->state == CHUNK_BLANK) {
		if (b == ';')
			c->state = CHUNK_EXT;
		else if (b != ' ' && b != '\t')
			return malformed(refusal,
					 "the blanks after a chunk's size are not followed by ';'",
					 e);
	} else if (b == '\r') {
		c->state = CHUNK_SIZE_LF;
	} else if ((u < ' ' && b != '\t') || u == 127) {
		return malformed(refusal, "a chunk extension has a byte that is not allowed", e);
	}
	return extra_byte(c, refusal, e);
}

static int size_done(struct http1_chunks *c, char b, size_t room, int *refusal, struct err *e)
{
	if (b != '\n')
		return malformed(refusal, "a line ends in CR without LF", e);
	if (c->left > room)
		return http1_refuse(refusal, 413, e, "the body is longer than allowed");
	c->state = c->left ? CHUNK_DATA : CHUNK_TRAILER;
	c->digits = 0;
	return 0;
}

/* Skips "name: value" lines up to an empty one. */
static int trailer_byte(struct http1_chunks *c, char b, int *refusal, struct err *e)
{
	bool at_start = c->lines.column == 0;
	int line = http1_line_byte(&c->lines, b);

	if (line < 0 || (line == LINE_ENDS && !c->colon) ||
	    (at_start && (b == ':' || b == ' ' || b == '\t')))
		return malformed(refusal, "the trailer is malformed", e);
	if (b == ':')
		c->colon = true;
	if (line != LINE_GOES_ON)
		c->colon = false;
	if (line == LINE_EMPTY)
		c->state = CHUNK_DONE;
	return extra_byte(c, refusal, e);
}

static int one_byte(struct http1_chunks *c, char b, size_t room, int *refusal, struct err *e)
{
	switch (c->state) {
	case CHUNK_SIZE: return size_byte(c, b, refusal, e);
	case CHUNK_BLANK:
	case CHUNK_EXT: return ext_byte(c, b, refusal, e);
	case CHUNK_SIZE_LF: return size_done(c, b, room, refusal, e);
	case CHUNK_DATA_CR:
	case CHUNK_DATA_LF:
		if (b != (c->state == CHUNK_DATA_CR ? '\r' : '\n'))
			return malformed(refusal, "the data of a chunk is not followed by CR LF",
					 e);
		c->state = c->state == CHUNK_DATA_CR ? CHUNK_DATA_LF : CHUNK_SIZE;
		return 0;
	case CHUNK_TRAILER: return trailer_byte(c, b, refusal, e);
	case CHUNK_DATA:
	case CHUNK_DONE: break;
	}
	return 0;
}

/* Consumes bytes of *in and appends the decoded ones to body, until the state is CHUNK_DONE. */
static int http1_chunks_in(struct http1_chunks *c, struct span *in, struct buf *body,
			   size_t body_max, int *refusal, struct err *e)
{
	while (in->n > 0 && c->state != CHUNK_DONE) {
		size_t n = 1;
		int r = 0;

		if (c->state == CHUNK_DATA) {
			n = in->n < c->left ? in->n : (size_t)c->left;
			buf_add(body, in->p, n);
			c->left -= n;
			if (c->left == 0)
				c->state = CHUNK_DATA_CR;
		} else {
			r = one_byte(c, *in->p, body_max - body->len, refusal, e);
		}
		if (r < 0)
			return r;
		in->p += n;
		in->n -= n;
	}
	return 0;
}

/* Parsing of a head: picohttpparser splits it, the functions below interpret and validate it. */

/* Returns whether the byte is allowed in a token (RFC 9110, 5.6.2). */
static bool is_token_char(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c && strchr("!#$%&'*+-.^_`|~", c));
}

static bool http1_is_token(struct span s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!is_token_char(s.p[i]))
			return false;
	return s.n > 0;
}

static bool http1_span_eq_nocase(struct span s, const char *word)
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

bool http1_type_is_json(struct span value)
{
	struct span type;

	span_cut(&value, ';', &type);
	return http1_span_eq_nocase(span_trim(type), HTTP_JSON);
}

static size_t count(const struct http1_msg *m, const char *name)
{
	size_t n = 0;

	for (size_t i = 0; i < m->n_fields; i++)
		n += http1_span_eq_nocase(m->fields[i].name, name);
	return n;
}

/* Returns whether `word` is an element of a comma-separated list in any field of this name. */
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
		/* a field without name is the second line of the field before it */
		if (!v[i].name)
			return http1_refuse(refusal, 400, e, "header field %zu is folded", i);
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

/* --- length of the body --- */

static int too_long(size_t body_max, int *refusal, struct err *e)
{
	if (body_max == 0)
		return http1_refuse(refusal, 413, e, "the request must not have a body");
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
		return http1_refuse(refusal, 400, e, "Content-Length is not a number");
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
		return http1_refuse(refusal, 501, e,
				    "Transfer-Encoding is '%.*s', expected 'chunked'",
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
				    "%zu Content-Length and %zu Transfer-Encoding fields in one "
				    "head, expected at most one field",
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

/* --- requests and responses --- */

static int request_line(const struct http1_msg *m, int *refusal, struct err *e)
{
	if (!http1_is_token(m->method))
		return http1_refuse(refusal, 400, e, "the request line has no valid method");
	for (size_t i = 0; i < m->target.n; i++)
		if (m->target.p[i] <= ' ' || m->target.p[i] > '~')
			return http1_refuse(
				refusal, 400, e,
				"the request's target has a byte that is not printable ASCII");
	if (m->target.n == 0)
		return http1_refuse(refusal, 400, e, "the request has no target");
	return 0;
}

static int host_and_expect(struct http1_head *h, int *refusal, struct err *e)
{
	size_t hosts = count(&h->msg, "host");
	struct span v;

	if (hosts > 1 || (hosts == 0 && h->minor > 0))
		return http1_refuse(refusal, 400, e, "%zu Host fields, expected 1", hosts);
	if (!http1_get(&h->msg, "expect", &v))
		return 0;
	if (!http1_span_eq_nocase(v, "100-continue"))
		return http1_refuse(refusal, 417, e, "Expect is not '100-continue'");
	h->expects = h->minor > 0;
	return 0;
}

/* Returns whether the first line names an HTTP version other than 1.x. */
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
		return http1_refuse(refusal, 400, e,
				    "the head of the answer is malformed or not HTTP/1.1");
	return 0;
}

/* Parses a complete head, including its empty line; *ret borrows from it. */
static int http1_head_parse(enum http1_side side, struct span text, size_t body_max,
			    struct http1_head *ret, int *refusal, struct err *e)
{
	struct phr_header v[HTTP1_FIELDS_MAX];
	size_t n = ARRAY_LEN(v);
	bool is_request = side == HTTP1_REQUESTS;
	int r;

	ret->msg = (struct http1_msg){0};
	ret->framing = FRAME_NONE;
	ret->length = 0;
	ret->expects = false;
	r = (is_request ? parse_request : parse_response)(text, ret, v, &n, refusal, e);
	if (r == 0)
		r = take_fields(ret, v, n, refusal, e);
	if (r == 0)
		r = framing(side, ret, body_max, refusal, e);
	if (r == 0 && is_request)
		r = host_and_expect(ret, refusal, e);
	if (r < 0)
		return r;
	ret->msg.close = ret->framing == FRAME_EOF || lists(&ret->msg, "connection", "close") ||
			 (ret->minor == 0 && !lists(&ret->msg, "connection", "keep-alive"));
	return 0;
}

/* --- writing messages, and parsing request targets --- */

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

static const char *http1_reason(int status)
{
	for (size_t i = 0; reasons[i].status; i++)
		if (reasons[i].status == status)
			return reasons[i].reason;
	/* a code that is not in the table, such as Spiderpool's 521 and 522 */
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
	buf_printf(b, "%s %s HTTP/1.1\r\nHost: localhost\r\nAccept: " HTTP_JSON "\r\n", r->method,
		   r->target);
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

/* '+' is a blank in a query, as in Go's url.ParseQuery. */
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
