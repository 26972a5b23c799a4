/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <stdlib.h>
#include <string.h>

#include "base/ipset.h"
#include "ipam_lab.h"

static void add(struct ip_set *s, const char *text)
{
	struct ip_range r;
	struct err e = ERR_INIT;

	ASSERT_OK(ip_range_parse(span_of(text), strchr(text, ':') ? 6 : 4, &r, &e), &e);
	ip_set_add(s, &r);
}

static void subtract(struct ip_set *s, const char *text)
{
	struct ip_range r;

	ASSERT_EQ(ip_range_parse(span_of(text), strchr(text, ':') ? 6 : 4, &r, NULL), 0);
	ip_set_subtract(s, &r);
}

static void assert_set(const struct ip_set *s, const char *text)
{
	struct buf b;

	buf_init(&b, 4096);
	ip_set_str(s, &b);
	ASSERT_STR_EQ(b.p, text);
	buf_done(&b);
}

static void test_invalid_ranges_are_refused_with_a_reason(void **state)
{
	static const struct {
		const char *text, *reason;
		uint8_t family;
	} bad[] = {
		{"10.0.0.256", "has an octet above 255: did you mean '10.0.0.254'?", 4},
		{"10.0.0.1-10.0.300.9", "did you mean '10.0.0.1-10.0.255.9'?", 4},
		{"10.0.0.9-10.0.0.1", "is reversed", 4},
		{"fd00::9-fd00::1", "is reversed", 6},
		{"10.0.0.1 - 10.0. 0.9", "has a blank in an address", 4},
		{" ", "is empty", 4},
		{"10.0.0.1 -", "is not an address", 4},
		{"10.0.0.1-.9", "is not an address", 4},
		{"10.0.0.1-9", "is not an address", 4},
		{"10.0.0.1-10.0.0.2-10.0.0.3", "is not an address", 4},
		{"10.0.0.0/24", "is a CIDR", 4},
		{"10.0.0.01", "is not an address", 4},
		{"fd00::1", "is not IPv4, the expected address family", 4},
		{"10.0.0.1", "is not IPv6, the expected address family", 6},
		{"::ffff:10.0.0.1", "is not IPv4, the expected address family", 4},
		{"", "", 4},
		{"-", "", 4},
		{"10.0.0.1-", "", 4},
	};
	struct ip_range r;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct err e = ERR_INIT;

		assert_true(ip_range_parse(span_of(bad[i].text), bad[i].family, &r, &e) < 0);
		ASSERT_EQ(e.kind, ERR_CONF);
		ASSERT_HAS(e.text, bad[i].reason);
		ASSERT_HAS(e.text, bad[i].text);
	}
}

static void test_added_ranges_are_merged(void **state)
{
	struct ip_set s = {0};

	(void)state;
	add(&s, "10.0.0.8-10.0.0.10");
	add(&s, "10.0.0.2-10.0.0.3");
	assert_set(&s, "10.0.0.2-10.0.0.3, 10.0.0.8-10.0.0.10");
	add(&s, "10.0.0.4");
	assert_set(&s, "10.0.0.2-10.0.0.4, 10.0.0.8-10.0.0.10");
	add(&s, "10.0.0.20");
	add(&s, "10.0.0.3-10.0.0.9");
	assert_set(&s, "10.0.0.2-10.0.0.10, 10.0.0.20");
	add(&s, "10.0.0.1-10.0.0.30");
	assert_set(&s, "10.0.0.1-10.0.0.30");
	add(&s, "255.255.255.255");
	add(&s, "0.0.0.0");
	assert_set(&s, "0.0.0.0, 10.0.0.1-10.0.0.30, 255.255.255.255");
	ip_set_done(&s);
}

static void test_subtraction_splits_ranges(void **state)
{
	struct ip_set s = {0};

	(void)state;
	add(&s, "10.0.0.1-10.0.0.30");
	subtract(&s, "10.0.0.10");
	assert_set(&s, "10.0.0.1-10.0.0.9, 10.0.0.11-10.0.0.30");
	subtract(&s, "10.0.0.1");
	subtract(&s, "10.0.0.30");
	subtract(&s, "10.0.0.40-10.0.0.50");
	assert_set(&s, "10.0.0.2-10.0.0.9, 10.0.0.11-10.0.0.29");
	subtract(&s, "10.0.0.5-10.0.0.20");
	assert_set(&s, "10.0.0.2-10.0.0.4, 10.0.0.21-10.0.0.29");
	subtract(&s, "0.0.0.0-255.255.255.255");
	assert_set(&s, "");
	ip_set_done(&s);
}

static void test_count_of_2_to_the_64_addresses_saturates(void **state)
{
	struct ip_set s = {0};
	struct ipaddr a, from = t_ip("fd00::8000:0:0:0");

	(void)state;
	add(&s, "fd00::-fd00::ffff:ffff:ffff:ffff");
	assert_true(ip_set_count(&s) == UINT64_MAX);
	subtract(&s, "fd00::-fd00::ff");
	assert_true(ip_set_next(&s, NULL, &a));
	il_assert_ip(&a, "fd00::100");
	assert_true(ip_set_next(&s, &from, &a));
	il_assert_ip(&a, "fd00::8000:0:0:0");
	subtract(&s, "fd00::8000:0:0:0-fd00::ffff:ffff:ffff:fffe");
	assert_true(ip_set_next(&s, &from, &a));
	il_assert_ip(&a, "fd00::ffff:ffff:ffff:ffff");
	add(&s, "::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
	ASSERT_EQ(s.n, 1);
	assert_true(ip_set_count(&s) == UINT64_MAX);
	subtract(&s, "::1-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
	assert_true(ip_set_count(&s) == 1);
	ip_set_done(&s);
}

static void test_set_reports_membership_overlap_and_next_address(void **state)
{
	struct ip_set a = {0}, b = {0};
	struct ipaddr ip = t_ip("10.0.0.7"), both, v6 = t_ip("fd00::1");

	(void)state;
	add(&a, "10.0.0.1-10.0.0.5");
	add(&a, "10.0.0.9-10.0.0.12");
	assert_false(ip_set_has(&a, &ip));
	assert_false(ip_set_has(&a, &v6));
	assert_true(ip_set_next(&a, &ip, &both));
	il_assert_ip(&both, "10.0.0.9");
	ip = t_ip("10.0.0.13");
	assert_false(ip_set_next(&a, &ip, &both));
	add(&b, "10.0.0.6-10.0.0.8");
	assert_false(ip_set_meets(&a, &b, &both));
	add(&b, "10.0.0.11-10.0.0.99");
	assert_true(ip_set_meets(&a, &b, &both));
	il_assert_ip(&both, "10.0.0.11");
	assert_true(ip_set_meets(&b, &a, &both));
	assert_true(ip_set_count(&a) == 9);
	ip_set_done(&a);
	ip_set_done(&b);
}

/* Adds random ranges to a set, and sets has[k] if address k of 256 is in one of them. The 256
 * addresses are the first of IPv4, or the last of IPv4 if `top`. */
static void random_ranges(struct ip_set *s, bool *has, unsigned int *seed, bool top)
{
	for (int k = 0; k < 12; k++) {
		unsigned int a = (unsigned int)rand_r(seed) % 256,
			     b = a + (unsigned int)rand_r(seed) % 9;
		uint32_t base = top ? 0xffffff00 : 0;
		struct ip_range r;

		b = b > 255 ? 255 : b;
		r = (struct ip_range){ip_from_num(4, base + a), ip_from_num(4, base + b)};
		ip_set_add(s, &r);
		for (; a <= b; a++)
			has[a] = true;
	}
}

static void assert_same(const struct ip_set *s, const bool *has, bool top)
{
	for (unsigned int k = 0; k < 256; k++) {
		struct ipaddr a = ip_from_num(4, (top ? 0xffffff00 : 0) + k);

		ASSERT_EQ(ip_set_has(s, &a), has[k]);
	}
	for (size_t i = 1; i < s->n; i++)
		assert_true(ip_num(&s->v[i - 1].last) + 1 < ip_num(&s->v[i].first));
}

static void test_difference_of_random_sets_equals_a_model(void **state)
{
	unsigned int seed = 7;

	(void)state;
	for (int round = 0; round < 300; round++) {
		bool has[256] = {false}, out[256] = {false}, top = round % 2;
		struct ip_set s = {0}, o = {0};

		random_ranges(&s, has, &seed, top);
		assert_same(&s, has, top);
		if (round % 7)
			random_ranges(&o, out, &seed, top);
		for (int k = 0; k < 256; k++)
			has[k] = has[k] && !out[k];
		ip_set_minus(&s, &o);
		assert_same(&s, has, top);
		ASSERT_EQ(s.family, 4);
		ip_set_done(&s);
		ip_set_done(&o);
	}
}

/* Ranges collected in any order give the same set as ranges added one by one; so does ip_set_plus()
 * of two sets. */
static void test_collected_ranges_make_the_same_set_as_added_ranges(void **state)
{
	uint32_t seed = 7;

	(void)state;
	for (int round = 0; round < 300; round++) {
		struct ip_set one = {0}, all = {0}, half = {0}, rest = {0};
		struct buf a, b;

		for (int i = 0; i < round; i++) {
			struct ip_range r;

			seed = seed * 1103515245 + 12345;
			r.first = ip_from_num(4, 0x0a000000 + (seed >> 16) % 512);
			r.last = ip_from_num(4, ip_num(&r.first) + (seed >> 8) % 3);
			ip_set_add(&one, &r);
			ip_set_collect(&all, &r);
			ip_set_collect(i % 2 ? &half : &rest, &r);
		}
		ip_set_merge(&all);
		ip_set_merge(&half);
		ip_set_merge(&rest);
		ip_set_plus(&half, &rest);
		buf_init(&a, 1 << 20);
		buf_init(&b, 1 << 20);
		ip_set_str(&one, &a);
		ip_set_str(&all, &b);
		ASSERT_STR_EQ(a.p ? a.p : "", b.p ? b.p : "");
		buf_reset(&b);
		ip_set_str(&half, &b);
		ASSERT_STR_EQ(a.p ? a.p : "", b.p ? b.p : "");
		buf_done(&a);
		buf_done(&b);
		ip_set_done(&one);
		ip_set_done(&all);
		ip_set_done(&half);
		ip_set_done(&rest);
	}
}

/* ip_sets_part() leaves each address only in the first set that has it. The result is compared
 * with a search of one set after another, for 300 random groups of sets. */
static void test_address_in_several_sets_stays_in_the_first(void **state)
{
	enum { SETS = 6, WIDTH = 60 };

	(void)state;
	for (unsigned int seed = 0; seed < 300; seed++) {
		const u128 base = seed % 2 ? ip_num(&(struct ipaddr){.family = 4})
					   : (u128)0 - WIDTH;
		uint8_t family = seed % 2 ? 4 : 6; /* first addresses of IPv4, last of IPv6 */
		struct ip_set sets[SETS] = {0}, was[SETS] = {0};

		srand(seed);
		for (size_t i = 0; i < SETS; i++)
			for (int n = rand() % 5; n > 0; n--) {
				int first = rand() % WIDTH, last = first + rand() % (WIDTH - first);
				struct ip_range r = {ip_from_num(family, base + (u128)first),
						     ip_from_num(family, base + (u128)last)};

				ip_set_add(&sets[i], &r);
				ip_set_add(&was[i], &r);
			}
		ip_sets_part(sets, SETS);
		for (int at = 0; at < WIDTH; at++) {
			struct ipaddr a = ip_from_num(family, base + (u128)at);
			bool found = false;

			for (size_t i = 0; i < SETS; i++) {
				ASSERT_EQ(ip_set_has(&sets[i], &a),
					  !found && ip_set_has(&was[i], &a));
				found |= ip_set_has(&was[i], &a);
			}
		}
		for (size_t i = 0; i < SETS; i++) {
			ip_set_done(&sets[i]);
			ip_set_done(&was[i]);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_invalid_ranges_are_refused_with_a_reason),
		cmocka_unit_test(test_added_ranges_are_merged),
		cmocka_unit_test(test_subtraction_splits_ranges),
		cmocka_unit_test(test_count_of_2_to_the_64_addresses_saturates),
		cmocka_unit_test(test_set_reports_membership_overlap_and_next_address),
		cmocka_unit_test(test_difference_of_random_sets_equals_a_model),
		cmocka_unit_test(test_collected_ranges_make_the_same_set_as_added_ranges),
		cmocka_unit_test(test_address_in_several_sets_stays_in_the_first),
	};

	return T_RUN(tests, NULL, NULL);
}
