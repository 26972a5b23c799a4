/* SPDX-License-Identifier: Apache-2.0 */
#include "base/num.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return 99;
}

/* Parses all of s in the given base; -ERANGE only if s is a number that exceeds 64 bits. */
static int digits(struct span s, unsigned int base, uint64_t *ret)
{
	bool over = false;
	uint64_t v = 0;

	if (s.n == 0)
		return -EINVAL;
	for (size_t i = 0; i < s.n; i++) {
		unsigned int d = (unsigned int)digit_of(s.p[i]);

		if (d >= base)
			return -EINVAL;
		over |= __builtin_mul_overflow(v, base, &v);
		over |= __builtin_add_overflow(v, d, &v);
	}
	if (over)
		return -ERANGE;
	*ret = v;
	return 0;
}

int num_u64(struct span s, uint64_t min, uint64_t max, uint64_t *ret)
{
	uint64_t v;
	int r = digits(s, 10, &v);

	if (r < 0)
		return r;
	if (v < min || v > max)
		return -ERANGE;
	*ret = v;
	return 0;
}

int num_i64(struct span s, int64_t min, int64_t max, int64_t *ret)
{
	bool minus = s.n > 0 && s.p[0] == '-';
	uint64_t v;
	int64_t n;
	int r;

	if (minus)
		s = (struct span){s.p + 1, s.n - 1};
	r = digits(s, 10, &v);
	if (r < 0)
		return r;
	if (v > (uint64_t)INT64_MAX + minus)
		return -ERANGE;
	n = (int64_t)(minus ? 0 - v : v);
	if (n < min || n > max)
		return -ERANGE;
	*ret = n;
	return 0;
}

int num_hex(struct span s, uint64_t max, uint64_t *ret)
{
	uint64_t v;
	int r;

	if (span_has_prefix(s, "0x") || span_has_prefix(s, "0X"))
		s = (struct span){s.p + 2, s.n - 2};
	r = digits(s, 16, &v);
	if (r < 0)
		return r;
	if (v > max)
		return -ERANGE;
	*ret = v;
	return 0;
}

/* Removes the unit from the end of *s, and returns how many milliseconds the unit has; 1000 if
 * there is no unit. */
static int64_t duration_unit(struct span *s)
{
	static const struct {
		char word[3];
		uint8_t n;
		int32_t ms;
	} units[] = {{"ms", 2, 1}, {"s", 1, 1000}, {"m", 1, 60000}, {"h", 1, 3600000}};

	for (size_t i = 0; i < ARRAY_LEN(units); i++) {
		size_t n = units[i].n;

		if (s->n >= n && span_eq((struct span){s->p + s->n - n, n}, units[i].word)) {
			s->n -= n;
			return units[i].ms;
		}
	}
	return 1000;
}

int num_duration_ms(struct span s, int64_t max, int64_t *ret)
{
	int64_t unit = duration_unit(&s), ms;
	uint64_t v;
	int r = digits(s, 10, &v);

	if (r < 0)
		return r;
	if (__builtin_mul_overflow(v, unit, &ms) || ms > max)
		return -ERANGE;
	*ret = ms;
	return 0;
}

int num_bool(struct span s, int *ret)
{
	static const struct {
		char word[6];
		bool value;
	} spellings[] = {{"true", true}, {"false", false}, {"yes", true}, {"no", false},
			 {"on", true},	 {"off", false},   {"1", true},	  {"0", false}};

	for (size_t i = 0; i < ARRAY_LEN(spellings); i++)
		if (s.n > 0 && s.n < sizeof(spellings[i].word) && spellings[i].word[s.n] == '\0' &&
		    strncasecmp(s.p, spellings[i].word, s.n) == 0) {
			*ret = spellings[i].value;
			return 0;
		}
	return -EINVAL;
}

int num_labelled(struct span text, const char *label, bool hex, uint64_t *ret)
{
	struct span line, word;

	while (span_cut(&text, '\n', &line)) {
		if (!span_has_prefix(line, label))
			continue;
		line.p += strlen(label);
		line.n -= strlen(label);
		line = span_trim(line);
		span_cut(&line, ' ', &word);
		return hex ? num_hex(word, UINT64_MAX, ret) : num_u64(word, 0, UINT64_MAX, ret);
	}
	return -ENOENT;
}
