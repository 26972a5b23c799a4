/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/json/stream.h"

#include <errno.h>
#include <string.h>

/* Maximum capacity of a buffer, in bytes, that is retained between pieces. */
enum { KEEP_MAX = 16 << 10 };

void json_split_init(struct json_split *s, enum json_split_mode mode, size_t max)
{
	*s = (struct json_split){.mode = mode, .max = max};
	buf_init(&s->piece, max);
	buf_init(&s->rest, max);
}

void json_split_done(struct json_split *s)
{
	buf_done(&s->piece);
	buf_done(&s->rest);
}

static bool is_space(char c)
{
	return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static int bad(struct json_split *s, const char *what)
{
	return err_kind(&s->err, ERR_DECODE, -EBADMSG, "the answer is not a JSON %s: %s",
			s->mode == JSON_SPLIT_LIST ? "list" : "stream", what);
}

/* Updates the state of strings and escapes; returns false if c is in a string or ends one. */
static bool track(struct json_split *s, char c)
{
	if (s->in_string) {
		if (s->escaped)
			s->escaped = false;
		else if (c == '\\')
			s->escaped = true;
		else if (c == '"')
			s->in_string = false;
		return false;
	}
	if (c == '"')
		s->in_string = true;
	return true;
}

static void begin_piece(struct json_split *s)
{
	if (s->piece.cap > KEEP_MAX) {
		buf_done(&s->piece);
		buf_init(&s->piece, s->max);
	}
	buf_reset(&s->piece);
}

/* --- JSON_SPLIT_STREAM --- */

/* Processes one byte; returns 1 if the byte ends a piece. */
static int stream_byte(struct json_split *s, char c)
{
	bool structure;

	if (s->depth == 0 && is_space(c))
		return 0;
	if (s->depth == 0 && c != '{')
		return bad(s, "not an object");
	if (s->depth == 0)
		begin_piece(s);
	structure = track(s, c);
	buf_char(&s->piece, c);
	if (structure && (c == '{' || c == '['))
		s->depth++;
	if (structure && (c == '}' || c == ']'))
		s->depth--;
	return s->depth == 0;
}

/* --- JSON_SPLIT_LIST --- */

/* Processes one byte of the items; returns 1 if it ends an item. Depth 1 is the list object, so an
 * item starts at depth 2. */
static int item_byte(struct json_split *s, char c)
{
	bool structure = track(s, c);

	if (structure && s->depth == 2 && (c == ',' || c == ']')) {
		bool empty = s->piece.len == 0;

		if (c == ']') {
			s->in_items = false;
			s->depth = 1;
			buf_char(&s->rest, c);
			if (empty && s->wants_value)
				return bad(s, "a comma with nothing after it");
		} else if (empty) {
			return bad(s, "a comma with nothing before it");
		}
		s->wants_value = c == ',';
		return !empty;
	}
	if (s->piece.len == 0 && is_space(c))
		return 0;
	buf_char(&s->piece, c);
	if (structure && (c == '{' || c == '['))
		s->depth++;
	if (structure && (c == '}' || c == ']'))
		s->depth--;
	return s->depth < 2 ? bad(s, "unbalanced brackets") : 0;
}

static bool key_is_items(const struct json_split *s)
{
	return s->key_n == 7 && !memcmp(s->rest.p + s->key_at, "\"items\"", 7);
}

static void add_key(struct json_split *s, bool was_inside)
{
	if (!was_inside && s->in_string)
		s->key_at = s->rest.len;
	if (was_inside && !s->in_string)
		s->key_n = s->rest.len + 1 - s->key_at;
}

/* Processes one byte outside of the items. Returns 2 if the byte ends the list object. */
static int rest_byte(struct json_split *s, char c)
{
	bool inside = s->in_string, structure;

	if (s->depth == 0 && is_space(c))
		return 0;
	if (s->depth == 0 && (c != '{' || s->done))
		return bad(s, s->done ? "data after the end of the object" : "not an object");
	structure = track(s, c);
	/* Tracks the last string of depth 1, which is a key or a value: the next string replaces
	 * it, and a comma clears it. */
	if (s->depth == 1)
		add_key(s, inside);
	buf_char(&s->rest, c);
	if (!structure)
		return 0;
	if (c == ',' && s->depth == 1)
		s->key_n = 0;
	if (c == '[' && s->depth == 1 && key_is_items(s)) {
		s->in_items = true;
		s->wants_value = false;
		begin_piece(s);
	}
	if (c == '{' || c == '[')
		s->depth++;
	if (c == '}' || c == ']')
		s->depth--;
	if (s->depth == 0)
		s->done = true;
	return s->depth == 0 ? 2 : 0;
}

static int has_room(struct json_split *s)
{
	if (s->piece.over || s->rest.over)
		return err_kind(&s->err, ERR_DECODE, -EFBIG,
				"an object of the answer is longer than %zu bytes", s->max);
	return 0;
}

static int one_byte(struct json_split *s, char c)
{
	int r = s->mode == JSON_SPLIT_STREAM ? stream_byte(s, c)
		: s->in_items		     ? item_byte(s, c)
					     : rest_byte(s, c);

	if (r >= 0 && has_room(s) < 0)
		return s->err.code;
	return r;
}

/* Copies the inside of a string up to the next quote or backslash in one step: most bytes of large
 * objects are inside strings. */
static size_t take_text(struct json_split *s, struct span in)
{
	bool piece = s->mode == JSON_SPLIT_STREAM || s->in_items;
	size_t n = 0;

	if (!s->in_string || s->escaped)
		return 0;
	while (n < in.n && in.p[n] != '"' && in.p[n] != '\\')
		n++;
	buf_add(piece ? &s->piece : &s->rest, in.p, n);
	return n;
}

int json_split_in(struct json_split *s, struct span *in, struct span *ret, bool *item,
		  struct err *e)
{
	int r = s->err.code;

	if (s->handed)
		begin_piece(s);
	s->handed = false;
	while (r == 0 && in->n > 0) {
		size_t n = take_text(s, *in);

		r = n > 0 ? has_room(s) : one_byte(s, *in->p);
		n += n == 0;
		in->p += n;
		in->n -= n;
	}
	if (r < 0) {
		if (e)
			*e = s->err;
		return r;
	}
	if (r == 0)
		return 0;
	s->handed = true;
	*item = r == 1;
	*ret = buf_span(r == 1 ? &s->piece : &s->rest);
	return 1;
}

bool json_split_is_whole(const struct json_split *s)
{
	return s->mode == JSON_SPLIT_LIST ? s->done : s->depth == 0;
}
