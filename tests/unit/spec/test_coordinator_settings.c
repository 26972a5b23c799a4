/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include "base/alloc.h"
#include "ipam_lab.h"
#include "spec/coordinator_settings.h"

static void settings(const char *text, const char *json)
{
	struct coordinator_settings s;
	struct err e = ERR_INIT;
	auto_buf struct buf b;
	struct json_out o;

	il_write(&il_lab, "/etc/agent.conf", text);
	buf_init(&b, 10000);
	ASSERT_OK(coordinator_settings_read(&il_lab.root, "/etc/agent.conf", &s, &e), &e);
	jo_init(&o, &b, 0);
	coordinator_settings_json(&s, &o);
	ASSERT_STR_EQ(b.p, json);
	coordinator_settings_done(&s);
}

static void test_coordinator_settings_are_read_from_the_agent_file(void **state)
{
	struct coordinator_settings s;

	(void)state;
	ASSERT_EQ(coordinator_settings_read(&il_lab.root, "/none", &s, NULL), 0);
	ASSERT_STR_EQ(s.mode, "auto");
	coordinator_settings_done(&s);
	settings("[coordinator]\nmode = overlay\noverlayPodCIDR = 10.244.0.0/16, fd00::/48\n"
		 "SERVICECIDR = 10.96.0.0/12\nhijackCIDR = 169.254.0.1\nhijackCIDR = 1.2.3.0/24\n"
		 "policyRoutes = 10.1.0.0/16 via 10.0.0.1\npolicyRoutes = 1.1.1.1 via 10.0.0.2\n"
		 "podMACPrefix = 0a:1b\ntunePodRoutes = no\npodDefaultRouteNIC = net1\n"
		 "hostRuleTable = 600\npodRPFilter = -1\ntxQueueLen = 100\n"
		 "vethLinkAddress = 169.254.100.1\nvethMTU = 9000\n",
		 "{\"hijackCIDR\":[\"169.254.0.1/32\",\"1.2.3.0/24\"],\"hostRuleTable\":600,"
		 "\"mode\":\"overlay\",\"overlayPodCIDR\":[\"10.244.0.0/16\",\"fd00::/48\"],"
		 "\"podDefaultRouteNIC\":\"net1\",\"podMACPrefix\":\"0a:1b\",\"podRPFilter\":-1,"
		 "\"policyRoutes\":[{\"dst\":\"10.1.0.0/16\",\"gw\":\"10.0.0.1\"},"
		 "{\"dst\":\"1.1.1.1/32\",\"gw\":\"10.0.0.2\"}],\"serviceCIDR\":[\"10.96.0.0/12\"],"
		 "\"tunePodRoutes\":false,\"txQueueLen\":100,\"vethLinkAddress\":\"169.254.100.1\","
		 "\"vethMTU\":9000}");
}

static void test_invalid_coordinator_settings_are_refused(void **state)
{
	static const struct {
		const char *text, *expected;
	} bad[] = {
		{"mode = auto\n", "agent.conf:1: section '' is not known"},
		{"[other]\nx = y\n", "agent.conf:2: section 'other' is not known"},
		{"[coordinator]\n\nmode = on\n",
		 "agent.conf:3: mode is 'on', expected auto, underlay"},
		{"[coordinator]\nmod = auto\n",
		 "key 'mod' is not known in this section; did you mean 'mode'?"},
		{"[coordinator]\nhijackCIDR = 1.2.3.4/33\n",
		 "hijackCIDR is '1.2.3.4/33', expected CIDRs"},
		{"[coordinator]\npolicyRoutes = 1.2.3.4\n", "expected 'DST via GATEWAY'"},
		{"[coordinator]\npolicyRoutes = 1.2.3.4 via x\n", "expected 'DST via GATEWAY'"},
		{"[coordinator]\npodMACPrefix = 0b:1b\n", "podMACPrefix is '0b:1b'"},
		{"[coordinator]\npodMACPrefix = 0a1b\n", "podMACPrefix is '0a1b'"},
		{"[coordinator]\nvethMTU = 67\n", "vethMTU is '67', expected 68 to 65535"},
		{"[coordinator]\npodRPFilter = 3\n", "expected -1 to 2"},
		{"[coordinator]\ntunePodRoutes = maybe\n", "expected yes or no"},
		{"[coordinator]\nvethLinkAddress = x\n", "expected an IP address"},
		{"[coordinator]\npodDefaultRouteNIC = a/b\n", "expected the name of an interface"},
		{"[coordinator]\nrubbish\n", "agent.conf:2: expected 'key"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct coordinator_settings s;
		struct err e = ERR_INIT;

		il_write(&il_lab, "/etc/agent.conf", bad[i].text);
		assert_true(coordinator_settings_read(&il_lab.root, "/etc/agent.conf", &s, &e) < 0);
		ASSERT_HAS(e.text, bad[i].expected);
		ASSERT_EQ_MSG(e.kind, ERR_CONF, "bad[%zu]", i);
	}
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, il_setup, il_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_coordinator_settings_are_read_from_the_agent_file),
		TEST(test_invalid_coordinator_settings_are_refused),
	};

	return T_RUN(tests, NULL, NULL);
}
