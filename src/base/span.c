/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/buf.h"

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
