/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/num.h"
#include "wire/yaml/yaml_priv.h"

/* --- lines of one scalar --- */

/*
 * At a line's end inside a scalar: goes to the next line that holds something and adds what the
 * break means: one is a blank, each more is a line. False: the scalar ends here, since what
 * follows is indented too little (or the text ends, or a plain one's comment follows); y->p stays
 * where it was.
 */
static bool fold(struct yaml *y, int indent, bool plain)
{
	struct yaml at = *y;
	unsigned int breaks = 0;

	while (yaml_peek(&at, 0) == '\n' && at.p < at.end) {
		yaml_newline(&at);
		breaks++;
		while (yaml_is_blank(yaml_peek(&at, 0)))
			at.p++;
	}
	if (at.p == at.end || (!y->flow && yaml_column(&at) <= indent))
		return false;
	if (plain && *at.p == '#')
		return false;
	if (breaks == 1)
		buf_char(&y->text, ' ');
	for (; breaks > 1; breaks--)
		buf_char(&y->text, '\n');
	y->p = at.p;
	y->line = at.line;
	y->line_start = at.line_start;
	return true;
}

static void trim_blanks(struct buf *b, size_t from)
{
	while (b->len > from && yaml_is_blank(b->p[b->len - 1]))
		b->p[--b->len] = '\0';
}

/* --- quoted --- */

static void put_utf8(struct buf *b, uint32_t c)
{
	if (c < 0x80) {
		buf_char(b, (char)c);
	} else if (c < 0x800) {
		buf_char(b, (char)(0xc0 | c >> 6));
		buf_char(b, (char)(0x80 | (c & 0x3f)));
	} else if (c < 0x10000) {
		buf_char(b, (char)(0xe0 | c >> 12));
		buf_char(b, (char)(0x80 | (c >> 6 & 0x3f)));
		buf_char(b, (char)(0x80 | (c & 0x3f)));
	} else {
		buf_char(b, (char)(0xf0 | c >> 18));
		buf_char(b, (char)(0x80 | (c >> 12 & 0x3f)));
		buf_char(b, (char)(0x80 | (c >> 6 & 0x3f)));
		buf_char(b, (char)(0x80 | (c & 0x3f)));
	}
}

static int hex(struct yaml *y, size_t digits, uint32_t *ret)
{
	uint64_t v;

	for (size_t i = 0; i < digits; i++)
		if (!strchr("0123456789abcdefABCDEF", yaml_peek(y, i)) || !yaml_peek(y, i))
			return yaml_fail(y, "an escape wants %zu hexadecimal digits", digits);
	if (num_hex((struct span){y->p, digits}, 0x10ffff, &v) < 0 || v == 0)
		return yaml_fail(y, "an escape is no character");
	*ret = (uint32_t)v;
	y->p += digits;
	return 0;
}

/* JSON writes characters past U+FFFF as two. */
static int code_point(struct yaml *y, size_t digits)
{
	uint32_t c, low;
	int r = hex(y, digits, &c);

	if (r == 0 && c >= 0xd800 && c < 0xdc00) {
		if (yaml_peek(y, 0) != '\\' || yaml_peek(y, 1) != 'u')
			return yaml_fail(y, "half of a surrogate pair");
		y->p += 2;
		r = hex(y, 4, &low);
		if (r == 0 && (low < 0xdc00 || low > 0xdfff))
			return yaml_fail(y, "half of a surrogate pair");
		if (r == 0)
			c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
	} else if (r == 0 && c >= 0xdc00 && c < 0xe000) {
		return yaml_fail(y, "half of a surrogate pair");
	}
	if (r == 0)
		put_utf8(&y->text, c);
	return r;
}

static int escape(struct yaml *y)
{
	static const char from[] = "abtnvfre \"/\\\t", to[] = "\a\b\t\n\v\f\r\033 \"/\\\t";
	char c = yaml_peek(y, 0);
	const char *at = c ? strchr(from, c) : NULL;

	if (c == '\0' || c == '\n')
		return yaml_fail(y, "the closing \" is missing in this line");
	y->p++;
	if (at)
		buf_char(&y->text, to[at - from]);
	else if (c == 'x' || c == 'u' || c == 'U')
		return code_point(y, c == 'x' ? 2 : c == 'u' ? 4 : 8);
	else if (c == 'N' || c == '_')
		put_utf8(&y->text, c == 'N' ? 0x85 : 0xa0);
	else if (c == 'L' || c == 'P')
		put_utf8(&y->text, c == 'L' ? 0x2028 : 0x2029);
	else
		return yaml_fail(y, "escape '\\%c' is not known", c);
	return 0;
}

/* "\" at the line's end joins two lines without a blank; an empty line between them is a break. */
static int joined_line(struct yaml *y)
{
	bool first = true;

	while (yaml_peek(y, 0) == '\n') {
		if (!first)
			buf_char(&y->text, '\n');
		first = false;
		yaml_newline(y);
		while (yaml_is_blank(yaml_peek(y, 0)))
			y->p++;
	}
	return 0;
}

static int quoted_break(struct yaml *y, char quote, int indent, bool key, size_t *kept)
{
	if (key || y->p == y->end)
		return yaml_fail(y, "the closing %c is missing%s", quote,
				 key ? " in this line" : "");
	trim_blanks(&y->text, *kept);
	if (!fold(y, indent, false))
		return yaml_fail(y, "the closing %c is missing", quote);
	*kept = y->text.len;
	return 0;
}

int yaml_quoted(struct yaml *y, int indent, bool key)
{
	char quote = *y->p++, c;
	size_t kept = 0; /* bytes that trimming must leave: breaks, escapes */
	int r = 0;

	buf_reset(&y->text);
	while (r == 0 &&
	       ((c = yaml_peek(y, 0)) != quote || (quote == '\'' && yaml_peek(y, 1) == c))) {
		if (c == '\n' || c == '\0') {
			r = quoted_break(y, quote, indent, key, &kept);
			continue;
		}
		y->p++;
		if (c == quote) {
			buf_char(&y->text, *y->p++);
		} else if (c == '\\' && quote == '"') {
			r = yaml_peek(y, 0) == '\n' && !key ? joined_line(y) : escape(y);
			kept = y->text.len;
		} else {
			buf_char(&y->text, c);
		}
	}
	if (r == 0)
		y->p++;
	return r;
}

/* --- plain --- */

static bool ends_plain(const struct yaml *y)
{
	char c = yaml_peek(y, 0), next = yaml_peek(y, 1);

	if (c == '\n' || c == '\0')
		return true;
	if (c == ':' && (yaml_is_break(next) || (y->flow && strchr(",[]{}", next))))
		return true;
	if (c == '#' && y->p > y->line_start && yaml_is_blank(y->p[-1]))
		return true;
	return y->flow && strchr(",[]{}", c);
}

int yaml_plain(struct yaml *y, int indent, bool key)
{
	buf_reset(&y->text);
	do {
		size_t from = y->text.len;

		while (!ends_plain(y))
			buf_char(&y->text, *y->p++);
		trim_blanks(&y->text, from);
		if (y->text.len == 0)
			return yaml_fail(y, "a value is missing");
		/* A comment ends it, a colon makes a key of it where none can be. */
		if (key || yaml_peek(y, 0) == '#')
			return 0;
		if (yaml_peek(y, 0) == ':')
			return yaml_fail(y,
					 "a ':' with a blank after it cannot stand in a value: put "
					 "the value into quotes");
		if (y->flow && yaml_peek(y, 0) != '\n')
			return 0;
	} while (fold(y, indent, true) && !(y->flow && ends_plain(y)));
	if (y->flow)
		trim_blanks(&y->text, 0);
	return 0;
}

/* As JSON writes numbers, but for a leading '+', which is a string here. */
static bool is_number(const char *s)
{
	size_t n;

	s += *s == '-';
	n = strspn(s, "0123456789");
	if (n == 0 || (n > 1 && s[0] == '0'))
		return false;
	s += n;
	if (*s == '.') {
		n = strspn(s + 1, "0123456789");
		if (n == 0)
			return false;
		s += 1 + n;
	}
	if (*s == 'e' || *s == 'E') {
		s += 1 + (s[1] == '+' || s[1] == '-');
		n = strspn(s, "0123456789");
		if (n == 0)
			return false;
		s += n;
	}
	return *s == '\0';
}

static bool is_word(const char *s, const char *lower, const char *title, const char *upper)
{
	return !strcmp(s, lower) || !strcmp(s, title) || !strcmp(s, upper);
}

void yaml_put_plain(struct yaml *y)
{
	const char *s = y->text.p;
	int64_t v;

	if (!strcmp(s, "~") || is_word(s, "null", "Null", "NULL"))
		jo_null(&y->out);
	else if (is_word(s, "true", "True", "TRUE"))
		jo_bool(&y->out, true);
	else if (is_word(s, "false", "False", "FALSE"))
		jo_bool(&y->out, false);
	else if (num_i64(span_of(s), INT64_MIN, INT64_MAX, &v) == 0 && is_number(s))
		jo_int(&y->out, v);
	else if (is_number(s))
		jo_real(&y->out, strtod(s, NULL));
	else
		jo_str(&y->out, s);
}
