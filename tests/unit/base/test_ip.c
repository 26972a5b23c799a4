/* SPDX-License-Identifier: Apache-2.0 */
/* Expected values are those of Go's net package (net.ParseIP, IP.String, ParseCIDR, ParseMAC).
 * One exception: Go accepts "::ffff:1.2.3.4/24". */
#include "testlib.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/ip.h"

static void test_addresses_are_parsed_and_printed_like_go(void **state)
{
	static const char *const same[][2] = {
		{"0.0.0.0", "0.0.0.0"},
		{"255.255.255.255", "255.255.255.255"},
		{"10.0.0.1", "10.0.0.1"},
		{"::", "::"},
		{"::1", "::1"},
		{"1::", "1::"},
		{"2001:DB8::1", "2001:db8::1"},
		{"2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"},	  /* the first of equal runs */
		{"2001:0:0:1:0:0:0:1", "2001:0:0:1::1"},	  /* the longest run */
		{"2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"}, /* one group is not shortened */
		{"0:0:0:0:0:0:0:0", "::"},
		{"0001:0002:0003:0004:0005:0006:0007:0008", "1:2:3:4:5:6:7:8"},
		{"1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0"},
		{"::2:3:4:5:6:7:8", "0:2:3:4:5:6:7:8"},
		{"::1.2.3.4", "::102:304"},
		{"1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:102:304"},
		{"::ffff:10.1.2.3", "10.1.2.3"},
		{"::ffff:a01:203", "10.1.2.3"},
		{"fe80::1:0:0:0", "fe80::1:0:0:0"},
	};
	char text[IP_TEXT_MAX];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(same); i++) {
		struct ipaddr a;

		if (ip_parse(span_of(same[i][0]), &a) < 0)
			fail_msg("%s does not parse", same[i][0]);
		ASSERT_STR_EQ_MSG(ip_str(&a, text), same[i][1], "same[%zu]", i);
	}
}

static void test_invalid_addresses_are_refused(void **state)
{
	static const char *const bad[] = {
		"",
		"1",
		"1.2.3",
		"1.2.3.4.5",
		"256.0.0.1",
		"01.2.3.4",
		"1.2.3.00",
		"1.2.3.",
		".1.2.3",
		"1..2.3",
		"1.2.3.4 ",
		" 1.2.3.4",
		"1.2.3.4/8",
		"-1.2.3.4",
		"1.2.3.a",
		"0x1.2.3.4",
		":",
		":::",
		"1:2",
		"1:2:3:4:5:6:7",
		"1:2:3:4:5:6:7:8:9",
		"1:2:3:4:5:6:7:8::",
		"::1:2:3:4:5:6:7:8",
		"1::2::3",
		"12345::",
		"g::",
		"::1%eth0",
		"fe80::1%",
		"1:2:3:4:5:6:7:",
		":1:2:3:4:5:6:7",
		"1:2:3:4:5:6:7:1.2.3.4",
		"1:2:3:4:5:1.2.3.4",
		"::1.2.3.4:5",
		"::1.2.3",
		"::01.2.3.4",
		"1.2.3.4::",
		"::ffff:1.2.3.256",
		"1:",
		"::1:",
	};
	struct ipaddr a = {.family = 9};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (ip_parse(span_of(bad[i]), &a) != -EINVAL)
			fail_msg("'%s' parses", bad[i]);
	ASSERT_EQ(ip_parse((struct span){"1.2.3.4\0", 8}, &a), -EINVAL);
	ASSERT_EQ(ip_parse((struct span){"::\0", 3}, &a), -EINVAL);
	ASSERT_EQ(a.family, 9);
	/* A span ends at its length, not at a NUL. */
	ASSERT_EQ(ip_parse((struct span){"1.2.3.45", 7}, &a), 0);
	ASSERT_EQ(a.b[3], 4);
}

static void test_mapped_ipv4_address_is_printed_dotted(void **state)
{
	struct ipaddr a = {6, {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1}}, none = {0};
	struct ipnet n = {none, 0};
	char text[IP_TEXT_MAX];

	(void)state;
	ASSERT_STR_EQ(ip_str(&a, text), "10.0.0.1");
	ASSERT_STR_EQ(ip_str(&none, text), "");
	ASSERT_STR_EQ(ipnet_str(&n, text), "");
}

static void test_networks_are_parsed_and_printed_like_go(void **state)
{
	static const char *const good[][2] = {
		{"10.1.2.3/8", "10.1.2.3/8"},
		{"0.0.0.0/0", "0.0.0.0/0"},
		{"10.0.0.0/024", "10.0.0.0/24"},
		{"fd00::5/64", "fd00::5/64"},
		{"::/0", "::/0"},
		{"::1/128", "::1/128"},
		{"::ffff:10.0.0.1/120", "10.0.0.1/24"},
	};
	static const char *const bad[] = {"",
					  "10.0.0.1",
					  "10.0.0.1/",
					  "10.0.0.1/33",
					  "10.0.0.1/-1",
					  "::1/129",
					  "/8",
					  "10.0.0.1/8/8",
					  "10.0.0.1/ 8",
					  "a/8",
					  "10.0.0.1/+8",
					  "::ffff:1.2.3.4/24"};
	char text[IP_TEXT_MAX];
	struct ipnet n;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		ASSERT_EQ_MSG(ipnet_parse(span_of(good[i][0]), &n), 0, "good[%zu]", i);
		ASSERT_STR_EQ_MSG(ipnet_str(&n, text), good[i][1], "good[%zu]", i);
	}
	n.len = 99;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (ipnet_parse(span_of(bad[i]), &n) != -EINVAL)
			fail_msg("'%s' parses", bad[i]);
	ASSERT_EQ(n.len, 99);
	ASSERT_EQ(ipnet_parse_loose(span_of("10.0.0.1"), &n), 0);
	ASSERT_STR_EQ(ipnet_str(&n, text), "10.0.0.1/32");
	ASSERT_EQ(ipnet_parse_loose(span_of("fd00::1"), &n), 0);
	ASSERT_STR_EQ(ipnet_str(&n, text), "fd00::1/128");
	ASSERT_EQ(ipnet_parse_loose(span_of("fd00::1/64"), &n), 0);
	ASSERT_EQ(n.len, 64);
	ASSERT_EQ(ipnet_parse_loose(span_of("10.0.0.1/"), &n), -EINVAL);
}

static void test_mac_addresses_are_parsed_like_go(void **state)
{
	static const char *const good[][2] = {
		{"02:42:AC:11:00:02", "02:42:ac:11:00:02"},
		{"02-42-ac-11-00-02", "02:42:ac:11:00:02"},
		{"0242.ac11.0002", "02:42:ac:11:00:02"},
		{"02:00:5e:10:00:00:00:01", "02:00:5e:10:00:00:00:01"},
		{"0200.5e10.0000.0001", "02:00:5e:10:00:00:00:01"},
		{"00:00:10:49:fe:80:00:00:00:00:00:00:24:8a:07:03:00:aa:bb:cc",
		 "00:00:10:49:fe:80:00:00:00:00:00:00:24:8a:07:03:00:aa:bb:cc"},
	};
	static const char *const bad[] = {
		"",
		"02:42:ac:11:00",
		"02:42:ac:11:00:0g",
		"02:42:ac:11:00:02:03",
		"02:42-ac:11:00:02",
		"0242ac110002",
		"02:42:ac:11:00:2",
		"0x:42:ac:11:00:02",
		"0242.ac11:0002",
		"02:42:ac:11:00:02 ",
		"02:42:ac:11:00:02:",
		"0242.ac11.00.2",
		"024.2ac.1100.0",
		"................",
	};
	char text[MAC_TEXT_MAX];
	struct mac m, other;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		if (mac_parse(span_of(good[i][0]), &m) < 0)
			fail_msg("%s does not parse", good[i][0]);
		ASSERT_STR_EQ_MSG(mac_str(&m, text), good[i][1], "good[%zu]", i);
	}
	ASSERT_EQ(m.len, 20);
	other = m;
	other.b[19]++;
	assert_true(mac_eq(&m, &m));
	assert_false(mac_eq(&m, &other));
	m.len = 99;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (mac_parse(span_of(bad[i]), &m) != -EINVAL)
			fail_msg("'%s' parses", bad[i]);
	ASSERT_EQ(m.len, 99);
	m = (struct mac){0};
	ASSERT_STR_EQ(mac_str(&m, text), "");
}

static struct ipaddr ip(const char *s)
{
	struct ipaddr a;

	if (ip_parse(span_of(s), &a) < 0)
		fail_msg("'%s' does not parse", s);
	return a;
}

static struct ipnet net(const char *s)
{
	struct ipnet n;

	if (ipnet_parse(span_of(s), &n) < 0)
		fail_msg("'%s' does not parse", s);
	return n;
}

#define A(s) ((struct ipaddr[]){ip(s)})
#define N(s) ((struct ipnet[]){net(s)})

static void test_special_addresses_are_recognized(void **state)
{
	(void)state;
	assert_true(ip_is_unspecified(A("0.0.0.0")) && ip_is_unspecified(A("::")));
	assert_false(ip_is_unspecified(A("::1")) || ip_is_unspecified(&(struct ipaddr){0}));
	assert_true(ip_is_link_local(A("169.254.3.1")) && ip_is_link_local(A("febf::1")));
	assert_false(ip_is_link_local(A("169.253.3.1")) || ip_is_link_local(A("fec0::1")));
	assert_true(ip_is_multicast(A("224.0.0.1")) && ip_is_multicast(A("239.255.255.255")));
	assert_true(ip_is_multicast(A("ff02::1")));
	assert_false(ip_is_multicast(A("240.0.0.1")) || ip_is_multicast(A("fe80::1")));
	assert_true(ip_is_loopback(A("127.9.9.9")) && ip_is_loopback(A("::1")));
	assert_false(ip_is_loopback(A("128.0.0.1")) || ip_is_loopback(A("::2")));
	ASSERT_EQ(ip_bits(A("1.2.3.4")), 32);
	ASSERT_EQ(ip_size(A("::")), 16);
}

static void test_addresses_are_ordered_by_family_and_number(void **state)
{
	(void)state;
	assert_true(ip_cmp(A("10.0.0.9"), A("10.0.0.10")) < 0);
	assert_true(ip_cmp(A("255.255.255.255"), A("::")) < 0);
	assert_true(ip_cmp(A("fd00::2"), A("fd00::1")) > 0);
	assert_true(ip_eq(A("::ffff:1.2.3.4"), A("1.2.3.4")));
	assert_false(ip_eq(A("0.0.0.0"), A("::")));
}

static void test_network_contains_its_addresses_and_overlaps_its_subnets(void **state)
{
	char text[IP_TEXT_MAX];

	(void)state;
	assert_true(ipnet_contains(N("10.1.2.3/8"), A("10.255.0.1")));
	assert_false(ipnet_contains(N("10.1.2.3/8"), A("11.0.0.1")));
	assert_true(ipnet_contains(N("0.0.0.0/0"), A("255.1.1.1")));
	assert_false(ipnet_contains(N("0.0.0.0/0"), A("::")));
	assert_true(ipnet_contains(N("::/0"), A("ffff::")));
	assert_true(ipnet_contains(N("10.0.0.1/32"), A("10.0.0.1")));
	assert_false(ipnet_contains(N("fd00::/127"), A("fd00::2")));
	assert_true(ipnet_overlaps(N("10.0.0.0/8"), N("10.3.0.0/16")));
	assert_true(ipnet_overlaps(N("10.3.0.0/16"), N("10.0.0.0/8")));
	assert_false(ipnet_overlaps(N("10.0.0.0/9"), N("10.128.0.0/9")));
	assert_true(ipnet_eq(N("10.0.0.1/8"), N("10.0.0.1/8")));
	assert_false(ipnet_eq(N("10.0.0.1/8"), N("10.0.0.0/8")));
	assert_true(ipnet_has_host_bits(N("10.0.0.1/8")));
	assert_false(ipnet_has_host_bits(N("10.0.0.0/8")) || ipnet_has_host_bits(N("::1/128")));
	ASSERT_STR_EQ(ipnet_str((struct ipnet[]){ipnet_network(N("10.1.2.3/12"))}, text),
		      "10.0.0.0/12");
	ASSERT_STR_EQ(ip_str((struct ipaddr[]){ipnet_first(N("fd00::77/120"))}, text), "fd00::");
	ASSERT_STR_EQ(ip_str((struct ipaddr[]){ipnet_last(N("fd00::77/120"))}, text), "fd00::ff");
	ASSERT_STR_EQ(ip_str((struct ipaddr[]){ipnet_last(N("0.0.0.0/0"))}, text),
		      "255.255.255.255");
	ASSERT_STR_EQ(ip_str((struct ipaddr[]){ipnet_last(N("::/0"))}, text),
		      "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
	ASSERT_STR_EQ(ipnet_str((struct ipnet[]){ipnet_host(A("fd00::1"))}, text), "fd00::1/128");
	assert_true(ipnet_is_default(N("0.0.0.0/0")) && ipnet_is_default(N("::/0")));
	assert_false(ipnet_is_default(N("0.0.0.0/1")) || ipnet_is_default(N("1.0.0.0/0")));
	assert_false(ipnet_is_default(&(struct ipnet){0}));
}

static void test_addition_beyond_the_last_address_fails(void **state)
{
	struct ipaddr a = {.family = 9};
	char text[IP_TEXT_MAX];

	(void)state;
	assert_true(ip_add(A("10.0.0.255"), 1, &a));
	ASSERT_STR_EQ(ip_str(&a, text), "10.0.1.0");
	assert_true(ip_add(A("fd00::ffff:ffff:ffff:ffff"), 1, &a));
	ASSERT_STR_EQ(ip_str(&a, text), "fd00:0:0:1::");
	assert_false(ip_add(A("255.255.255.255"), 1, &a));
	assert_false(ip_add(A("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), 1, &a));
	ASSERT_STR_EQ(ip_str(&a, text), "fd00:0:0:1::");
	assert_true(ip_num(A("1.2.3.4")) == 0x01020304);
	a = ip_from_num(6, (u128)0xfd00 << 112 | 9);
	ASSERT_STR_EQ(ip_str(&a, text), "fd00::9");
	assert_true(ip_num(&a) == ((u128)0xfd00 << 112 | 9));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_addresses_are_parsed_and_printed_like_go),
		cmocka_unit_test(test_invalid_addresses_are_refused),
		cmocka_unit_test(test_mapped_ipv4_address_is_printed_dotted),
		cmocka_unit_test(test_networks_are_parsed_and_printed_like_go),
		cmocka_unit_test(test_mac_addresses_are_parsed_like_go),
		cmocka_unit_test(test_special_addresses_are_recognized),
		cmocka_unit_test(test_addresses_are_ordered_by_family_and_number),
		cmocka_unit_test(test_network_contains_its_addresses_and_overlaps_its_subnets),
		cmocka_unit_test(test_addition_beyond_the_last_address_fails),
	};

	return T_RUN(tests, NULL, NULL);
}
