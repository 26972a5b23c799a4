/* SPDX-License-Identifier: Apache-2.0 */
/* The netconf of the macvlan plugin: defaults, modes, MAC, MTU, dns, and values that are
 * refused. */
#include "testlib.h"

#include <stdio.h>
#include <string.h>

#include "rail_lab.h"

static struct err e;

static struct rail_conf conf(const char *text, const char *args_mac)
{
	struct rail_conf c;

	ASSERT_OK(rl_read(&macvlan_kind, text, args_mac, &c, &e), &e);
	return c;
}

static void refused(const char *text, const char *args_mac, const char *word)
{
	struct rail_conf c;

	assert_true(rl_read(&macvlan_kind, text, args_mac, &c, &e) < 0);
	ASSERT_EQ(e.kind, ERR_CONF);
	ASSERT_HAS(e.text, word);
}

static void test_omitted_macvlan_settings_have_defaults(void **state)
{
	struct rail_conf c = conf("{}", NULL);

	(void)state;
	assert_null(c.master);
	ASSERT_EQ(c.macvlan.mode, MACVLAN_BRIDGE);
	assert_true(!c.mtu && !c.macvlan.bcqueuelen && !c.mac.len && !c.in_container && !c.ipam);
}

/* Go's JSON decoder ignores the case of keys, uses the last of duplicate keys, and skips null. */
static void test_macvlan_keys_are_matched_like_go(void **state)
{
	struct rail_conf c = conf("{\"Master\":\"ens1\",\"MTU\":null,\"mtu\":4200,\"mode\":\"\","
				  "\"LinkInContainer\":true,\"bcQueueLen\":7,\"unknown\":[1],"
				  "\"mode\":\"private\"}",
				  NULL);

	(void)state;
	ASSERT_STR_EQ(c.master, "ens1");
	assert_true(c.mtu == 4200 && c.in_container && c.macvlan.bcqueuelen == 7);
	ASSERT_EQ(c.macvlan.mode, MACVLAN_PRIVATE);
}

static void test_macvlan_modes_are_parsed(void **state)
{
	static const struct {
		const char *text;
		enum macvlan_mode mode;
	} all[] = {{"bridge", MACVLAN_BRIDGE},
		   {"private", MACVLAN_PRIVATE},
		   {"vepa", MACVLAN_VEPA},
		   {"passthru", MACVLAN_PASSTHRU}};
	char text[64];

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		snprintf(text, sizeof(text), "{\"mode\":\"%s\"}", all[i].text);
		ASSERT_EQ(conf(text, NULL).macvlan.mode, all[i].mode);
		ASSERT_STR_EQ(macvlan_mode_name(all[i].mode), all[i].text);
	}
	refused("{\"mode\":\"brigde\"}", NULL, "unknown macvlan mode: \"brigde\"");
}

static void test_runtime_mac_takes_precedence_over_args_and_netconf(void **state)
{
	static const char *const all =
		"{\"mac\":\"0a:00:00:00:00:01\",\"runtimeConfig\":{\"mac\":\"0a:00:00:00:00:03\"}}";
	static const char *const one = "{\"mac\":\"0a:00:00:00:00:01\"}";

	(void)state;
	ASSERT_EQ(conf(all, "0a:00:00:00:00:02").mac.b[5], 3);
	ASSERT_EQ(conf(one, "0a:00:00:00:00:02").mac.b[5], 2);
	ASSERT_EQ(conf(one, NULL).mac.b[5], 1);
	ASSERT_EQ(conf(one, "").mac.b[5], 1);
	ASSERT_EQ(conf("{\"mac\":\"\"}", NULL).mac.len, 0);
}

static void test_invalid_macs_are_refused(void **state)
{
	(void)state;
	refused("{\"mac\":\"0a:00:00\"}", NULL, "conf.mac is '0a:00:00'");
	refused("{\"mac\":\"01:00:5e:00:00:01\"}", NULL, "one interface");
	refused("{\"mac\":\"00:00:00:00:00:00\"}", NULL, "one interface");
	refused("{\"mac\":\"0a:00:00:00:00:00:00:01\"}", NULL, "conf.mac");
	refused("{}", "x", "CNI_ARGS MAC is 'x'");
	refused("{\"runtimeConfig\":{\"mac\":\"y\"}}", NULL, "conf.runtimeConfig.mac is 'y'");
}

static void test_invalid_numbers_are_refused(void **state)
{
	(void)state;
	refused("{\"mtu\":-1}", NULL, "invalid MTU -1, must be [0, master MTU");
	refused("{\"mtu\":1e3}", NULL, "mtu");
	refused("{\"mtu\":\"1500\"}", NULL, "mtu");
	refused("{\"bcqueuelen\":-1}", NULL, "bcqueuelen");
	refused("{\"bcqueuelen\":4294967296}", NULL, "bcqueuelen");
	refused("{\"master\":7}", NULL, "master");
}

static void test_mtu_above_the_masters_is_refused(void **state)
{
	const struct link master = {.name = "ens1", .mtu = 4200};
	struct rail_conf c = {.mtu = 4200};

	(void)state;
	err_clear(&e);
	ASSERT_EQ(rail_mtu_fits(&c, &master, &e), 0);
	c.mtu = 0;
	ASSERT_EQ(rail_mtu_fits(&c, &master, &e), 0);
	c.mtu = 4201;
	assert_true(rail_mtu_fits(&c, &master, &e) < 0);
	assert_non_null(strstr(e.text, "invalid MTU 4201, must be [0, master MTU(4200)]"));
	ASSERT_EQ(e.kind, ERR_CONF);
}

/* A key of the netconf overrides the same key of `defaults` (unirail-cni). The netconf of this
 * test has neither `mtu` nor `ipam`, so those of `defaults` are used. */
static void test_network_settings_override_common_defaults(void **state)
{
	struct rail_conf c = conf("{\"defaults\":{\"mtu\":4200,\"mode\":\"private\","
				  "\"ipam\":{\"type\":\"a\"}},\"mode\":\"vepa\"}",
				  NULL);

	(void)state;
	assert_true(c.mtu == 4200 && c.macvlan.mode == MACVLAN_VEPA && c.ipam);
}

static void test_dns_of_the_netconf_is_read(void **state)
{
	auto_result struct cni_result r = {0};
	auto_json struct json_doc *d = NULL;

	(void)state;
	err_clear(&e);
	ASSERT_EQ(json_parse(&d,
			     span_of("{\"dns\":{\"domain\":\"x.y\",\"nameservers\":[\"10.0.0.1\","
				     "\"10.0.0.2\"],\"search\":[\"x\"]},\"bad\":{\"search\":7}}"),
			     1 << 16, &e),
		  0);
	ASSERT_EQ(cni_dns_read(d, NULL, &r.dns, &e), 0);
	assert_null(r.dns.domain);
	ASSERT_EQ(cni_dns_read(d, json_get(json_root(d), "dns"), &r.dns, &e), 0);
	ASSERT_STR_EQ(r.dns.domain, "x.y");
	ASSERT_EQ(r.dns.n_nameservers, 2);
	ASSERT_STR_EQ(r.dns.nameservers[1], "10.0.0.2");
	ASSERT_STR_EQ(r.dns.search[0], "x");
	ASSERT_EQ(r.dns.n_options, 0);
	assert_true(cni_dns_read(d, json_get(json_root(d), "bad"), &r.dns, &e) < 0);
	assert_non_null(strstr(e.text, "conf.dns.search"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_omitted_macvlan_settings_have_defaults),
		cmocka_unit_test(test_macvlan_keys_are_matched_like_go),
		cmocka_unit_test(test_macvlan_modes_are_parsed),
		cmocka_unit_test(test_runtime_mac_takes_precedence_over_args_and_netconf),
		cmocka_unit_test(test_invalid_macs_are_refused),
		cmocka_unit_test(test_invalid_numbers_are_refused),
		cmocka_unit_test(test_mtu_above_the_masters_is_refused),
		cmocka_unit_test(test_network_settings_override_common_defaults),
		cmocka_unit_test(test_dns_of_the_netconf_is_read),
	};

	return T_RUN(tests, NULL, rl_teardown);
}
