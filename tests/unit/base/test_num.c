/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <errno.h>

#include "base/num.h"

static void test_unsigned_numbers_are_parsed_within_their_range(void **state)
{
	uint64_t v = 77;

	(void)state;
	ASSERT_EQ(num_u64(span_of("18446744073709551615"), 0, UINT64_MAX, &v), 0);
	assert_true(v == UINT64_MAX);
	v = 77;
	ASSERT_EQ(num_u64(span_of("18446744073709551616"), 0, UINT64_MAX, &v), -ERANGE);
	ASSERT_EQ(num_u64(span_of("99999999999999999999999x"), 0, UINT64_MAX, &v), -EINVAL);
	ASSERT_EQ(num_u64(span_of("11"), 0, 10, &v), -ERANGE);
	ASSERT_EQ(num_u64(span_of("1"), 2, 10, &v), -ERANGE);
	for (const char *const *bad = (const char *const[]){"", " 1", "1 ", "+1", "-1", "0x1",
							    "1.0", "1e3", "a", NULL};
	     *bad; bad++)
		ASSERT_EQ(num_u64(span_of(*bad), 0, UINT64_MAX, &v), -EINVAL);
	ASSERT_EQ(num_u64((struct span){"1\0", 2}, 0, 9, &v), -EINVAL);
	ASSERT_EQ(v, 77);
	ASSERT_EQ(num_u64((struct span){"123", 2}, 0, 99, &v), 0);
	ASSERT_EQ(v, 12);
}

static void test_signed_numbers_are_parsed_within_their_range(void **state)
{
	int64_t v = 77;

	(void)state;
	ASSERT_EQ(num_i64(span_of("-9223372036854775808"), INT64_MIN, INT64_MAX, &v), 0);
	assert_true(v == INT64_MIN);
	ASSERT_EQ(num_i64(span_of("9223372036854775807"), INT64_MIN, INT64_MAX, &v), 0);
	assert_true(v == INT64_MAX);
	v = 77;
	ASSERT_EQ(num_i64(span_of("9223372036854775808"), INT64_MIN, INT64_MAX, &v), -ERANGE);
	ASSERT_EQ(num_i64(span_of("-9223372036854775809"), INT64_MIN, INT64_MAX, &v), -ERANGE);
	ASSERT_EQ(num_i64(span_of("-"), INT64_MIN, INT64_MAX, &v), -EINVAL);
	ASSERT_EQ(num_i64(span_of("--1"), INT64_MIN, INT64_MAX, &v), -EINVAL);
	ASSERT_EQ(num_i64(span_of("-1"), 0, 5, &v), -ERANGE);
	ASSERT_EQ(v, 77);
	ASSERT_EQ(num_i64(span_of("-0"), 0, 5, &v), 0);
	ASSERT_EQ(v, 0);
}

static void test_hex_numbers_are_parsed_within_their_range(void **state)
{
	uint64_t v = 77;

	(void)state;
	ASSERT_EQ(num_hex(span_of("0x1aF"), UINT64_MAX, &v), 0);
	ASSERT_EQ(v, 0x1af);
	ASSERT_EQ(num_hex(span_of("ffffffffffffffff"), UINT64_MAX, &v), 0);
	assert_true(v == UINT64_MAX);
	v = 77;
	ASSERT_EQ(num_hex(span_of("10000000000000000"), UINT64_MAX, &v), -ERANGE);
	ASSERT_EQ(num_hex(span_of("0x"), UINT64_MAX, &v), -EINVAL);
	ASSERT_EQ(num_hex(span_of("g"), UINT64_MAX, &v), -EINVAL);
	ASSERT_EQ(num_hex(span_of("100"), 0xff, &v), -ERANGE);
	ASSERT_EQ(v, 77);
}

static void test_durations_become_milliseconds(void **state)
{
	static const struct {
		const char *text;
		int64_t ms;
	} good[] = {{"60", 60000},   {"60s", 60000}, {"1500ms", 1500}, {"10m", 600000},
		    {"2h", 7200000}, {"0", 0},	     {"0ms", 0}};
	static const char *const bad[] = {"", "s", "ms", "1d", "1 s", "-1s", "1.5s", "1h30m", "1S"};
	int64_t v = 77;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		ASSERT_EQ(num_duration_ms(span_of(good[i].text), INT64_MAX, &v), 0);
		ASSERT_EQ(v, good[i].ms);
	}
	v = 77;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ASSERT_EQ(num_duration_ms(span_of(bad[i]), INT64_MAX, &v), -EINVAL);
	ASSERT_EQ(num_duration_ms(span_of("61s"), 60000, &v), -ERANGE);
	ASSERT_EQ(num_duration_ms(span_of("9223372036854775807h"), INT64_MAX, &v), -ERANGE);
	ASSERT_EQ(num_duration_ms(span_of("18446744073709551615ms"), INT64_MAX, &v), -ERANGE);
	ASSERT_EQ(v, 77);
}

static void test_number_behind_a_label_is_read(void **state)
{
	static const char text[] =
		"Max locked memory     8388608   unlimited bytes\nCapEff:\t00000000a80425fb\n"
		"Max processes   unlimited  unlimited\nlast 7";
	uint64_t v = 1;

	(void)state;
	ASSERT_EQ(num_labelled(span_of(text), "Max locked memory", false, &v), 0);
	ASSERT_EQ(v, 8388608);
	ASSERT_EQ(num_labelled(span_of(text), "CapEff:", true, &v), 0);
	ASSERT_EQ(v, 0xa80425fb);
	ASSERT_EQ(num_labelled(span_of(text), "last", false, &v), 0);
	ASSERT_EQ(v, 7);
	ASSERT_EQ(num_labelled(span_of(text), "Max processes", false, &v), -EINVAL);
	ASSERT_EQ(num_labelled(span_of(text), "locked memory", false, &v), -ENOENT);
	ASSERT_EQ(v, 7);
}

static void test_booleans_are_parsed_in_upper_and_lower_case(void **state)
{
	int v = 77;

	(void)state;
	for (const char *const *s = (const char *const[]){"true", "Yes", "ON", "1", NULL}; *s;
	     s++) {
		v = 77;
		ASSERT_EQ(num_bool(span_of(*s), &v), 0);
		ASSERT_EQ(v, 1);
	}
	for (const char *const *s = (const char *const[]){"false", "nO", "off", "0", NULL}; *s;
	     s++) {
		v = 77;
		ASSERT_EQ(num_bool(span_of(*s), &v), 0);
		ASSERT_EQ(v, 0);
	}
	v = 77;
	for (const char *const *s =
		     (const char *const[]){"", "t", "tru", "truee", "2", "falsey", NULL};
	     *s; s++)
		ASSERT_EQ(num_bool(span_of(*s), &v), -EINVAL);
	ASSERT_EQ(v, 77);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unsigned_numbers_are_parsed_within_their_range),
		cmocka_unit_test(test_signed_numbers_are_parsed_within_their_range),
		cmocka_unit_test(test_hex_numbers_are_parsed_within_their_range),
		cmocka_unit_test(test_durations_become_milliseconds),
		cmocka_unit_test(test_number_behind_a_label_is_read),
		cmocka_unit_test(test_booleans_are_parsed_in_upper_and_lower_case),
	};

	return T_RUN(tests, NULL, NULL);
}
