/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens of the webhooks: which are accepted at a time, and which is registered. */
#include "testlib.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "controller/webhook/tokens_plan.h"

enum { LIFE = 86400, SETTLE = 60, NOW = 1800000000 };

static enum tokens_step step(const struct tokens_set *s, int64_t registered, int64_t now)
{
	return tokens_step(s, LIFE, SETTLE, registered, now);
}

static bool accepts(const struct tokens_set *s, const struct token *t)
{
	auto_free char *path = xasprintf("/%s/validate", t->text);

	for (size_t i = 0; i < s->n; i++)
		if (token_matches(&s->v[i], span_of(path)))
			return true;
	return false;
}

static void test_registered_token_is_accepted_throughout_a_rotation(void **state)
{
	struct tokens_set s = {0};
	struct token first, second;
	int64_t registered = 0, pruned = 0;

	(void)state;
	ASSERT_EQ(step(&s, 0, NOW), TOKENS_CREATE);
	tokens_take_step(&s, TOKENS_CREATE, NOW);
	ASSERT_EQ(s.n, 1);
	first = s.v[0];
	ASSERT_EQ(strspn(first.text, "0123456789abcdef"), TOKEN_LEN);
	/* A first token is registered at once. */
	ASSERT_STR_EQ(tokens_registered(&s, SETTLE, NOW)->text, first.text);
	ASSERT_EQ(step(&s, NOW, NOW + LIFE - 1), TOKENS_FINE);
	ASSERT_EQ(step(&s, NOW, NOW + LIFE), TOKENS_CREATE);
	tokens_take_step(&s, TOKENS_CREATE, NOW + LIFE);
	second = s.v[0];
	assert_string_not_equal(second.text, first.text);
	for (int64_t t = NOW + LIFE; t < NOW + LIFE + 300; t++) {
		const struct token *r = tokens_registered(&s, SETTLE, t);

		ASSERT_STR_EQ(r->text, t < NOW + LIFE + SETTLE ? first.text : second.text);
		assert_true(accepts(&s, r));
		if (!registered && r != &s.v[1])
			registered = t + 5; /* the API server was slow */
		if (step(&s, t < registered ? 0 : registered, t) == TOKENS_PRUNE) {
			tokens_take_step(&s, TOKENS_PRUNE, t);
			pruned = t;
		}
	}
	ASSERT_EQ(pruned, NOW + LIFE + SETTLE + 5 + SETTLE);
	assert_true(accepts(&s, &second));
	assert_false(accepts(&s, &first));
}

/*
 * The new token cannot be registered: the old one is not removed, and no further token is created.
 */
static void test_old_token_stays_while_the_new_token_is_unregistered(void **state)
{
	struct tokens_set s = {0};

	(void)state;
	tokens_take_step(&s, TOKENS_CREATE, NOW);
	tokens_take_step(&s, TOKENS_CREATE, NOW + LIFE);
	ASSERT_EQ(step(&s, 0, NOW + 9 * LIFE), TOKENS_FINE);
	for (int i = 0; i < 9; i++)
		tokens_take_step(&s, TOKENS_CREATE, NOW);
	ASSERT_EQ(s.n, TOKENS_MAX);
}

static void test_tokens_are_written_and_read(void **state)
{
	struct tokens_set s = {0}, back = {0};
	auto_buf struct buf b;

	(void)state;
	tokens_take_step(&s, TOKENS_CREATE, NOW);
	tokens_take_step(&s, TOKENS_CREATE, NOW);
	buf_init(&b, 1024);
	tokens_write(&s, &b);
	ASSERT_EQ(tokens_read(&back, buf_span(&b)), 0);
	ASSERT_EQ(back.n, 2);
	ASSERT_STR_EQ(back.v[1].text, s.v[1].text);
	ASSERT_EQ(tokens_read(&back, span_of("")), -EINVAL);
	ASSERT_EQ(tokens_read(&back, span_of("abc\n")), -EINVAL);
	b.p[3] = 'X';
	ASSERT_EQ(tokens_read(&back, buf_span(&b)), -EINVAL);
	ASSERT_EQ(back.n, 2);
}

static void test_token_matches_only_paths_that_begin_with_it(void **state)
{
	struct tokens_set s = {0};
	auto_free char *path = NULL;

	(void)state;
	tokens_take_step(&s, TOKENS_CREATE, NOW);
	path = xasprintf("/%s", s.v[0].text);
	assert_true(token_matches(&s.v[0], span_of(path)));
	for (size_t i = 0; i <= TOKEN_LEN; i++) {
		path[i] ^= 1;
		assert_false(token_matches(&s.v[0], span_of(path)));
		path[i] ^= 1;
	}
	path[TOKEN_LEN] = '\0';
	assert_false(token_matches(&s.v[0], span_of(path)));
	assert_false(token_matches(&s.v[0], span_of("")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_registered_token_is_accepted_throughout_a_rotation),
		cmocka_unit_test(test_old_token_stays_while_the_new_token_is_unregistered),
		cmocka_unit_test(test_tokens_are_written_and_read),
		cmocka_unit_test(test_token_matches_only_paths_that_begin_with_it),
	};

	return T_RUN(tests, NULL, NULL);
}
