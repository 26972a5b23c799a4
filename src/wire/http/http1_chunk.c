/* SPDX-License-Identifier: Apache-2.0 */
/* Transfer-Encoding: chunked, decoded. picohttpparser's own decoder takes bare line feeds and
 * whatever follows a size: a front end that reads those differently is how requests are smuggled. */
#include "wire/http/http1_priv.h"

#include <errno.h>

/* Extensions and trailers say nothing to us; nobody needs more of them. */
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
		return malformed(refusal, "a chunk's size is no number", e);
	if (b == '\r')
		c->state = CHUNK_SIZE_LF;
	else if (b == ' ' || b == '\t')
		c->state = CHUNK_BLANK;
	else if (b == ';')
		c->state = CHUNK_EXT;
	else
		return malformed(refusal, "a chunk's size is no number", e);
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
			return malformed(refusal, "a chunk's size is no number", e);
	} else if (b == '\r') {
		c->state = CHUNK_SIZE_LF;
	} else if ((u < ' ' && b != '\t') || u == 127) {
		return malformed(refusal, "a byte that may not stand there", e);
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

/* "name: value" lines up to an empty one; what they say is dropped. */
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
			return malformed(refusal, "a chunk is longer than its size", e);
		c->state = c->state == CHUNK_DATA_CR ? CHUNK_DATA_LF : CHUNK_SIZE;
		return 0;
	case CHUNK_TRAILER: return trailer_byte(c, b, refusal, e);
	case CHUNK_DATA:
	case CHUNK_DONE: break;
	}
	return 0;
}

int http1_chunks_in(struct http1_chunks *c, struct span *in, struct buf *body, size_t body_max,
		    int *refusal, struct err *e)
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
