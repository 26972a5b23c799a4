/* SPDX-License-Identifier: Apache-2.0 */
/* Implements Go's path/filepath.Match on Unix, rune by rune. */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/glob.h"

enum { BAD_RUNE = 0xfffd };

/* Reads one UTF-8 sequence; an invalid byte counts as one rune, as in Go. */
static uint32_t rune_next(const char **s, bool *bad)
{
	const unsigned char *p = (const unsigned char *)*s;
	int more = p[0] < 0x80 ? 0 : (p[0] & 0xe0) == 0xc0 ? 1 : (p[0] & 0xf0) == 0xe0 ? 2 : 3;
	uint32_t v = more == 0 ? p[0] : p[0] & (0x3fU >> more);

	*bad = p[0] >= 0x80 && (p[0] < 0xc2 || p[0] > 0xf4);
	for (int i = 1; i <= more && !*bad; i++) {
		*bad = (p[i] & 0xc0) != 0x80;
		v = v << 6 | (p[i] & 0x3f);
	}
	*s += *bad ? 1 : more + 1;
	return *bad ? BAD_RUNE : v;
}

/* Reads one end of a range in a class, like Go's getEsc. -EINVAL: bad pattern. */
static int class_rune(const char **p, uint32_t *ret)
{
	bool bad;

	if (!**p || **p == '-' || **p == ']')
		return -EINVAL;
	if (**p == '\\' && !*++*p)
		return -EINVAL;
	*ret = rune_next(p, &bad);
	return bad || !**p ? -EINVAL : 0;
}

/* Returns 1 if the class matches r, 0 if not, -EINVAL if the pattern is bad. On entry *p points
 * to the character after '['; on success, class_match() leaves it at the character after ']'. */
static int class_match(const char **p, uint32_t r)
{
	bool negated = **p == '^', in = false;

	*p += negated;
	for (int n = 0; **p != ']' || n == 0; n++) {
		uint32_t low, high;

		if (class_rune(p, &low) < 0)
			return -EINVAL;
		high = low;
		if (**p == '-') {
			++*p;
			if (class_rune(p, &high) < 0)
				return -EINVAL;
		}
		in |= low <= r && r <= high;
	}
	++*p;
	return in != negated;
}

/* Checks the whole pattern: Go reports a bad pattern even if the name does not match. */
static bool pattern_ok(const char *p)
{
	while (*p) {
		char c = *p++;

		if (c == '\\' && !*p++)
			return false;
		if (c == '[' && class_match(&p, 0) < 0)
			return false;
	}
	return true;
}

/* Matches one pattern element other than '*' with one rune of the name. */
static bool element_match(const char **p, const char **s)
{
	uint32_t r, want;
	bool bad;

	if (!**s)
		return false;
	if (**p == '?') {
		++*p;
		return rune_next(s, &bad) != '/';
	}
	r = rune_next(s, &bad);
	if (**p == '[') {
		++*p;
		return class_match(p, r) == 1;
	}
	*p += **p == '\\';
	want = rune_next(p, &bad);
	return r == want;
}

int wildcard_match(const char *pattern, const char *name)
{
	const char *p = pattern, *s = name, *star = NULL, *retry = NULL;
	bool bad;

	if (!pattern_ok(pattern))
		return -EINVAL;
	for (;;) {
		if (*p == '*') {
			star = ++p;
			retry = s;
			continue;
		}
		if (!*p && !*s)
			return 1;
		if (*p && element_match(&p, &s))
			continue;
		/* lets the last star match one more rune, except a slash */
		if (!star || !*retry || *retry == '/')
			return 0;
		rune_next(&retry, &bad);
		p = star;
		s = retry;
	}
}

bool wildcard_is(const char *name)
{
	return strpbrk(name, "*?") || (strchr(name, '[') && strchr(name, ']'));
}
