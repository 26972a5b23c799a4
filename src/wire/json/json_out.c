/* SPDX-License-Identifier: Apache-2.0 */
/* Writing JSON byte for byte as Go's encoding/json does. */
#include <inttypes.h>
#include <string.h>

#include "wire/json/json_doc.h"

void jo_init(struct json_out *o, struct buf *b, int indent)
{
	*o = (struct json_out){.b = b, .indent = indent, .first = true};
}

static void new_line(struct json_out *o)
{
	if (o->indent)
		buf_printf(o->b, "\n%*s", o->indent * o->depth, "");
}

/* Before each key and each value: the comma and the line it stands on. */
static void begin(struct json_out *o)
{
	if (o->after_key) {
		o->after_key = false;
		return;
	}
	if (!o->first)
		buf_char(o->b, ',');
	if (o->depth)
		new_line(o);
	o->first = false;
}

static void open_with(struct json_out *o, char c)
{
	begin(o);
	buf_char(o->b, c);
	o->depth++;
	o->first = true;
}

/* An empty container is "{}" in the indented form too. */
static void close_with(struct json_out *o, char c)
{
	o->depth--;
	if (!o->first)
		new_line(o);
	o->first = false;
	buf_char(o->b, c);
}

void jo_obj(struct json_out *o)
{
	open_with(o, '{');
}

void jo_end_obj(struct json_out *o)
{
	close_with(o, '}');
}

void jo_arr(struct json_out *o)
{
	open_with(o, '[');
}

void jo_end_arr(struct json_out *o)
{
	close_with(o, ']');
}

/* Bytes of the valid UTF-8 sequence at p (at most n), 0 when it is none. */
static size_t utf8_len(const unsigned char *p, size_t n)
{
	size_t len = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;

	if (p[0] > 0xf4 || len > n)
		return 0;
	for (size_t i = 1; i < len; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	/* Overlong forms, surrogates, beyond U+10FFFF. */
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
	    (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
		return 0;
	return len;
}

static void add_ascii(struct buf *b, unsigned char c)
{
	static const char plain[] = "\"\\\b\f\n\r\t", escaped[] = "\"\\bfnrt";
	const char *at = c ? strchr(plain, c) : NULL;

	if (at)
		buf_printf(b, "\\%c", escaped[at - plain]);
	else if (c < 0x20 || c == '<' || c == '>' || c == '&')
		buf_printf(b, "\\u%04x", c);
	else
		buf_char(b, (char)c);
}

/* How many bytes stand as they are. */
static size_t plain_len(const unsigned char *p, size_t n)
{
	size_t i = 0;

	while (i < n && p[i] >= 0x20 && p[i] < 0x80 && p[i] != '"' && p[i] != '\\' && p[i] != '<' &&
	       p[i] != '>' && p[i] != '&')
		i++;
	return i;
}

static void add_string(struct buf *b, const char *s)
{
	const unsigned char *p = (const unsigned char *)s;
	size_t left = strlen(s), n;

	buf_char(b, '"');
	for (; left > 0; p += n, left -= n) {
		n = plain_len(p, left);
		if (n > 0) {
			buf_add(b, p, n);
			continue;
		}
		n = utf8_len(p, left);
		if (n == 0) {
			buf_str(b, "\\ufffd");
			n = 1;
		} else if (n == 1) {
			add_ascii(b, *p);
		} else if (n == 3 && p[0] == 0xe2 && p[1] == 0x80 && (p[2] & 0xfe) == 0xa8) {
			buf_printf(b, "\\u20%02x", p[2] - 0x80); /* JavaScript's line ends */
		} else {
			buf_add(b, p, n);
		}
	}
	buf_char(b, '"');
}

void jo_key(struct json_out *o, const char *key)
{
	begin(o);
	add_string(o->b, key);
	buf_str(o->b, o->indent ? ": " : ":");
	o->after_key = true;
}

void jo_text(struct json_out *o, const char *text)
{
	begin(o);
	buf_str(o->b, text);
}

void jo_str(struct json_out *o, const char *s)
{
	if (!s) {
		jo_null(o);
		return;
	}
	begin(o);
	add_string(o->b, s);
}

void jo_int(struct json_out *o, int64_t v)
{
	begin(o);
	buf_printf(o->b, "%" PRId64, v);
}

void jo_uint(struct json_out *o, uint64_t v)
{
	begin(o);
	buf_printf(o->b, "%" PRIu64, v);
}

void jo_bool(struct json_out *o, bool v)
{
	jo_text(o, v ? "true" : "false");
}

void jo_null(struct json_out *o)
{
	jo_text(o, "null");
}

void jo_kstr(struct json_out *o, const char *key, const char *s)
{
	jo_key(o, key);
	jo_str(o, s);
}

void jo_kint(struct json_out *o, const char *key, int64_t v)
{
	jo_key(o, key);
	jo_int(o, v);
}

void jo_kbool(struct json_out *o, const char *key, bool v)
{
	jo_key(o, key);
	jo_bool(o, v);
}
