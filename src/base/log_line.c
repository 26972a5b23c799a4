/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log_line.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Kept free for closing quotes and the mark of a line that was cut. */
enum { TAIL = 24 };

/* All of s or nothing, so that an escape or a UTF-8 sequence is never split. */
static bool put(struct log_line *l, const char *s, size_t n)
{
	if (l->full || l->n + n > sizeof(l->p) - TAIL) {
		l->full = true;
		return false;
	}
	memcpy(l->p + l->n, s, n);
	l->n += n;
	return true;
}

/* The closing bytes, for which TAIL is kept. */
static void close_with(struct log_line *l, const char *s)
{
	memcpy(l->p + l->n, s, strlen(s));
	l->n += strlen(s);
}

/* Length of the UTF-8 sequence at s, 0 when it is none (overlong, surrogate, cut, past U+10FFFF).
 * The terminating NUL ends any sequence. */
static size_t utf8_len(const unsigned char *s)
{
	size_t n = s[0] < 0x80			 ? 1
		   : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
		   : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
		   : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
						 : 0;

	for (size_t i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] >= 0xa0) ||
	    (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] >= 0x90))
		return 0;
	return n;
}

/* One character as both formats write it between quotes; returns the bytes read from s. */
static size_t put_char(struct log_line *l, const char *s)
{
	static const char from[] = "\"\\\n\r\t", to[] = "\"\\nrt";
	const char *special = strchr(from, *s);
	size_t n = utf8_len((const unsigned char *)s);
	char out[8];

	if (n == 0) {
		put(l, "\\ufffd", 6);
		return 1;
	}
	if (special) {
		put(l, (const char[]){'\\', to[special - from]}, 2);
	} else if ((unsigned char)*s < 0x20 || *s == 0x7f) {
		snprintf(out, sizeof(out), "\\u%04x", (unsigned int)*s);
		put(l, out, 6);
	} else {
		put(l, s, n);
	}
	return n;
}

static void put_quoted(struct log_line *l, const char *s)
{
	if (!put(l, "\"", 1))
		return;
	while (*s && !l->full)
		s += put_char(l, s);
	close_with(l, "\"");
}

/* Whether logfmt may write s as it is. */
static bool is_bare(const char *s)
{
	if (!*s)
		return false;
	for (size_t n; *s; s += n) {
		n = utf8_len((const unsigned char *)s);
		if (n == 0 || (unsigned char)*s <= ' ' || *s == 0x7f || *s == '=' || *s == '"')
			return false;
	}
	return true;
}

static bool put_key(struct log_line *l, const char *key)
{
	size_t before = l->n, n = strlen(key);
	bool first = l->n == (l->format == LOG_JSON ? 1U : 0U), ok;

	if (l->format == LOG_JSON)
		ok = (first || put(l, ",", 1)) && put(l, "\"", 1) && put(l, key, n) &&
		     put(l, "\":", 2);
	else
		ok = (first || put(l, " ", 1)) && put(l, key, n) && put(l, "=", 1);
	/* Room for one byte of value at least, else the key would stand alone. */
	ok = ok && l->n + 2 <= sizeof(l->p) - TAIL;
	if (!ok) {
		l->n = before;
		l->full = true;
	}
	return ok;
}

void log_line_begin(struct log_line *l, enum log_format format)
{
	l->format = format;
	l->n = 0;
	l->full = false;
	if (format == LOG_JSON)
		put(l, "{", 1);
}

void log_line_str(struct log_line *l, const char *key, const char *value)
{
	if (l->full || !put_key(l, key))
		return;
	if (l->format == LOG_LOGFMT && is_bare(value) &&
	    l->n + strlen(value) <= sizeof(l->p) - TAIL)
		put(l, value, strlen(value));
	else
		put_quoted(l, value);
}

void log_line_int(struct log_line *l, const char *key, int64_t value)
{
	char text[24];
	int n = snprintf(text, sizeof(text), "%" PRId64, value);

	if (l->full)
		return;
	if (l->n + strlen(key) + (size_t)n + 8 > sizeof(l->p) - TAIL)
		l->full = true;
	else if (put_key(l, key))
		put(l, text, (size_t)n);
}

void log_line_end(struct log_line *l)
{
	if (l->full)
		close_with(l, l->format == LOG_JSON ? ",\"cut\":true" : " cut=true");
	close_with(l, l->format == LOG_JSON ? "}\n" : "\n");
}
