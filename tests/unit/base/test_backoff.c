/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include "base/backoff.h"

static void test_backoff_doubles_up_to_its_maximum(void **state)
{
	struct backoff b = {100, 1000, 0};
	static const int64_t base[] = {100, 200, 400, 800, 1000, 1000};

	(void)state;
	for (size_t i = 0; i < 6; i++) {
		int64_t ms = backoff_next(&b);

		assert_in_range(ms, base[i] / 2, base[i] + base[i] / 2);
	}
	backoff_reset(&b);
	assert_in_range(backoff_next(&b), 50, 150);
}

static void test_jitter_covers_its_whole_range(void **state)
{
	bool seen[4] = {false};

	(void)state;
	for (int i = 0; i < 1000; i++)
		seen[jitter_ms(0, 3)] = true;
	assert_true(seen[0] && seen[1] && seen[2] && seen[3]);
	ASSERT_EQ(jitter_ms(5, 5), 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_backoff_doubles_up_to_its_maximum),
		cmocka_unit_test(test_jitter_covers_its_whole_range),
	};

	return T_RUN(tests, NULL, NULL);
}
