/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/webhook/tokens_plan.h"

#include <errno.h>
#include <string.h>

#include "base/random.h"

static bool is_token(struct span s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!((s.p[i] >= '0' && s.p[i] <= '9') || (s.p[i] >= 'a' && s.p[i] <= 'f')))
			return false;
	return s.n == TOKEN_LEN;
}

int tokens_read(struct tokens_set *ret, struct span text)
{
	struct tokens_set s = {.since = ret->since};
	struct span line;

	while (span_cut(&text, '\n', &line)) {
		line = span_trim(line);
		if (line.n == 0)
			continue;
		if (!is_token(line) || s.n == TOKENS_MAX)
			return -EINVAL;
		memcpy(s.v[s.n++].text, line.p, TOKEN_LEN);
	}
	if (s.n == 0)
		return -EINVAL;
	*ret = s;
	return 0;
}

void tokens_write(const struct tokens_set *s, struct buf *ret)
{
	for (size_t i = 0; i < s->n; i++)
		buf_printf(ret, "%s\n", s->v[i].text);
}

const struct token *tokens_registered(const struct tokens_set *s, int64_t settle, int64_t now)
{
	if (s->n < 2 || s->since + settle <= now)
		return s->n ? &s->v[0] : NULL;
	return &s->v[1];
}

enum tokens_step tokens_step(const struct tokens_set *s, int64_t life, int64_t settle,
			     int64_t registered_since, int64_t now)
{
	if (s->n == 0)
		return TOKENS_CREATE;
	if (s->n > 1)
		return registered_since && registered_since + settle <= now ? TOKENS_PRUNE
									    : TOKENS_FINE;
	return s->since + life <= now ? TOKENS_CREATE : TOKENS_FINE;
}

static void create(struct token *t)
{
	static const char digits[] = "0123456789abcdef";
	unsigned char b[TOKEN_LEN / 2];

	random_bytes(b, sizeof(b));
	for (size_t i = 0; i < sizeof(b); i++) {
		t->text[2 * i] = digits[b[i] >> 4];
		t->text[2 * i + 1] = digits[b[i] & 15];
	}
	t->text[TOKEN_LEN] = '\0';
	explicit_bzero(b, sizeof(b));
}

void tokens_take_step(struct tokens_set *s, enum tokens_step step, int64_t now)
{
	if (step == TOKENS_PRUNE)
		s->n = 1;
	if (step != TOKENS_CREATE)
		return;
	if (s->n == TOKENS_MAX)
		s->n--;
	memmove(&s->v[1], &s->v[0], s->n * sizeof(s->v[0]));
	create(&s->v[0]);
	s->n++;
	s->since = now;
}

bool token_matches(const struct token *t, struct span path)
{
	unsigned char differs = 0;

	if (path.n < 1 + TOKEN_LEN || path.p[0] != '/')
		return false;
	for (size_t i = 0; i < TOKEN_LEN; i++)
		differs |= (unsigned char)(t->text[i] ^ path.p[1 + i]);
	return differs == 0;
}
