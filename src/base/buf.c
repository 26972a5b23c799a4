/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Content of an empty buffer, whose bytes are always NUL-terminated. Never written. */
static char nothing[1];

void buf_init(struct buf *b, size_t max)
{
	*b = (struct buf){.p = nothing, .max = max};
}

void buf_done(struct buf *b)
{
	if (b->cap)
		free(b->p);
	buf_init(b, b->max);
}

void buf_reset(struct buf *b)
{
	b->len = 0;
	b->over = false;
	if (b->cap)
		b->p[0] = '\0';
}

void buf_trim(struct buf *b, size_t keep)
{
	if (b->cap > keep)
		buf_done(b);
	else
		buf_reset(b);
}

/* Makes room for n more bytes and the NUL. admit() has checked that they fit into b->max. */
static void reserve(struct buf *b, size_t n)
{
	size_t need = b->len + n + 1, cap = b->cap ? b->cap : 64;

	if (need <= b->cap)
		return;
	while (cap < need)
		cap *= 2;
	if (cap > b->max)
		cap = b->max + 1;
	b->p = xrealloc(b->cap ? b->p : NULL, cap);
	b->cap = cap;
}

/* Returns how many of n bytes still fit; sets `over` if it is fewer than n. */
static size_t admit(struct buf *b, size_t n)
{
	size_t room = b->over ? 0 : b->max - b->len;

	if (n <= room)
		return n;
	b->over = true;
	return room;
}

void buf_add(struct buf *b, const void *p, size_t n)
{
	n = admit(b, n);
	if (n == 0)
		return;
	reserve(b, n);
	memcpy(b->p + b->len, p, n);
	b->len += n;
	b->p[b->len] = '\0';
}

void buf_str(struct buf *b, const char *s)
{
	if (s)
		buf_add(b, s, strlen(s));
}

void buf_char(struct buf *b, char c)
{
	buf_add(b, &c, 1);
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(b, fmt, ap);
	va_end(ap);
}

void buf_vprintf(struct buf *b, const char *fmt, va_list ap)
{
	size_t room = b->cap ? b->cap - b->len : 0;
	va_list again;
	size_t n;
	int r;

	va_copy(again, ap);
	r = vsnprintf(room ? b->p + b->len : NULL, room, fmt, again);
	va_end(again);
	n = r > 0 ? admit(b, (size_t)r) : 0;
	if (n > 0 && n >= room) {
		reserve(b, n);
		vsnprintf(b->p + b->len, n + 1, fmt, ap);
	}
	b->len += n;
	if (b->cap)
		b->p[b->len] = '\0';
}

struct span buf_span(const struct buf *b)
{
	return (struct span){b->cap ? b->p : nothing, b->len};
}

char *buf_take(struct buf *b)
{
	char *p = b->cap ? b->p : xstrdup("");

	buf_init(b, b->max);
	return p;
}

struct span span_of(const char *s)
{
	return (struct span){s, s ? strlen(s) : 0};
}

bool span_eq(struct span s, const char *word)
{
	return s.n == strlen(word) && (s.n == 0 || memcmp(s.p, word, s.n) == 0);
}

bool span_has_prefix(struct span s, const char *prefix)
{
	size_t n = strlen(prefix);

	return s.n >= n && (n == 0 || memcmp(s.p, prefix, n) == 0);
}

static bool is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

struct span span_trim(struct span s)
{
	while (s.n > 0 && is_space(s.p[0])) {
		s.p++;
		s.n--;
	}
	while (s.n > 0 && is_space(s.p[s.n - 1]))
		s.n--;
	return s;
}

size_t utf8_len(struct span s)
{
	const unsigned char *p = (const unsigned char *)s.p;
	size_t n;

	if (s.n == 0)
		return 0;
	n = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	if (p[0] > 0xf4 || n > s.n)
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	/* Refuses overlong forms, surrogates, and characters above U+10FFFF. */
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
	    (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
		return 0;
	return n;
}

bool span_cut(struct span *rest, char sep, struct span *ret)
{
	const char *at;

	if (!rest->p)
		return false;
	at = rest->n ? memchr(rest->p, sep, rest->n) : NULL;
	if (!at) {
		*ret = *rest;
		*rest = (struct span){NULL, 0};
		return true;
	}
	*ret = (struct span){rest->p, (size_t)(at - rest->p)};
	rest->p = at + 1;
	rest->n -= ret->n + 1;
	return true;
}

char *span_dup(struct span s)
{
	char *p = xmalloc(s.n + 1);

	if (s.n)
		memcpy(p, s.p, s.n);
	p[s.n] = '\0';
	return p;
}

bool str_copy(char *dst, size_t size, const char *s)
{
	size_t n = strlen(s), fit = n < size ? n : size ? size - 1 : 0;

	if (size) {
		memcpy(dst, s, fit);
		dst[fit] = '\0';
	}
	return n < size;
}

const char *str_or_empty(const char *s)
{
	return s ? s : "";
}

const char *str_if_set(const char *s)
{
	return s && *s ? s : NULL;
}

char *str_dup(const char *s)
{
	return s ? xstrdup(s) : NULL;
}

bool str_list_has(char *const *v, size_t n, const char *s)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(v[i], s) == 0)
			return true;
	return false;
}

int str_order(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}
