/* SPDX-License-Identifier: Apache-2.0 */
/* The ipvlan plugin: its netconf, its master in a chain, CHECK, and hints for errors of the
 * kernel. */
#include "testlib.h"

#include <errno.h>
#include <stdio.h>

#include "kern/net/uapi_link.h"

#include "base/alloc.h"
#include "cni/attach/attach.h"
#include "rail_lab.h"

static struct err e;

static void test_ipvlan_modes_are_parsed(void **state)
{
	static const struct {
		const char *text;
		uint16_t mode;
		bool no_arp;
	} all[] = {{"", IPVLAN_MODE_L2, false},
		   {"l2", IPVLAN_MODE_L2, false},
		   {"l3", IPVLAN_MODE_L3, true},
		   {"l3s", IPVLAN_MODE_L3S, true}};
	char text[64];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		struct link_spec s = LINK_SPEC_INIT;
		struct rail_conf c;

		snprintf(text, sizeof(text), "{\"Mode\":\"%s\"}", all[i].text);
		c = rl_conf(&ipvlan_kind, text);
		ipvlan_kind.spec(&c, NULL, &s);
		ASSERT_EQ_MSG(s.ipvlan_mode, all[i].mode, "all[%zu]", i);
		ASSERT_EQ_MSG(c.no_arp, all[i].no_arp, "all[%zu]", i);
		if (*all[i].text)
			ASSERT_STR_EQ_MSG(ipvlan_mode_name(all[i].mode), all[i].text, "all[%zu]",
					  i);
	}
	rl_refused(&ipvlan_kind, "{\"mode\":\"L2\"}", ERR_CONF, "unknown ipvlan mode: \"L2\"");
	rl_refused(&ipvlan_kind, "{\"mode\":\"bridge\"}", ERR_CONF, "l2, l3 or l3s");
}

static void test_ipvlan_configuration_is_read(void **state)
{
	struct rail_conf c = rl_conf(&ipvlan_kind,
				     "{\"defaults\":{\"mtu\":4200,\"mode\":\"l3\"},\"master\":"
				     "\"ens1\",\"mac\":\"x\",\"linkInContainer\":true}");
	const struct link low = {.name = "ens1", .mtu = 1500};

	(void)state;
	/* as in the original, ipvlan ignores mac and does not limit the MTU to that of the
	 * master */
	assert_true(c.mtu == 4200 && c.in_container && !c.mac.len && c.ipvlan.mode == 1);
	ASSERT_STR_EQ(c.master, "ens1");
	assert_null(ipvlan_kind.fits);
	assert_true(vlan_kind.fits(&c, &low, &e) < 0);
	assert_null(rl_conf(&ipvlan_kind, "{\"master\":\"\"}").master);
}

static struct rail ipvlan_rail(const char *text)
{
	struct rail rail = {
		.kind = &ipvlan_kind, .ifname = "net1", .conf = rl_conf(&ipvlan_kind, text)};

	rail.ipam.conf = json_root(rl_doc);
	rail.ipam.type = cni_ipam_type(rail.ipam.conf);
	return rail;
}

/* In a chain, ipvlan uses as its master the interface that the preceding plugin created. */
static void test_chained_ipvlan_uses_the_interface_of_prev_result_as_master(void **state)
{
	struct cni_iface ifaces[] = {{.name = (char *)"bond0.7"}, {.name = (char *)"x"}};
	struct cni_ip ips[] = {{.iface = 0}};
	struct cni_result prev = {.ifaces = ifaces, .n_ifaces = 1, .ips = ips, .n_ips = 1};
	struct rail rail = ipvlan_rail("{}");

	(void)state;
	ASSERT_EQ(ipvlan_kind.chained(&prev, &rail, &e), 0);
	ASSERT_STR_EQ(rail.conf.master, "bond0.7");
	assert_ptr_equal(rail.given, &prev);
	/* A configured master has precedence over prevResult's interface; addresses of
	 * prevResult are not used if the netconf has an IPAM plugin. */
	rail = ipvlan_rail("{\"master\":\"ens1\",\"ipam\":{\"type\":\"static\"}}");
	prev.n_ifaces = 2;
	ASSERT_EQ(ipvlan_kind.chained(&prev, &rail, &e), 0);
	ASSERT_STR_EQ(rail.conf.master, "ens1");
	assert_null(rail.given);
	rail = ipvlan_rail("{}");
	assert_true(ipvlan_kind.chained(&prev, &rail, &e) < 0);
	ASSERT_HAS(e.text, "chained master failure. PrevResult lacks a single named interface");
	prev.n_ifaces = 1;
	ifaces[0].name = (char *)"";
	assert_true(ipvlan_kind.chained(&prev, &rail, &e) < 0);
	prev.n_ips = 0;
	rail.conf.master = "ens1";
	rail.given = NULL;
	ASSERT_EQ(ipvlan_kind.chained(&prev, &rail, &e), 0);
	assert_null(rail.given);
}

static void test_ipvlan_check_compares_kind_and_mode(void **state)
{
	struct rail_conf c = rl_conf(&ipvlan_kind, "{\"mode\":\"l3\"}");
	struct link l = {.name = "net1", .kind = "ipvlan", .ipvlan_mode = IPVLAN_MODE_L3};

	(void)state;
	ASSERT_EQ(ipvlan_kind.check(&c, &l, &e), 0);
	l.ipvlan_mode = IPVLAN_MODE_L2;
	assert_true(ipvlan_kind.check(&c, &l, &e) < 0);
	ASSERT_HAS(e.text, "Container IPVlan mode l2 does not match expected value: l3");
	str_copy(l.kind, sizeof(l.kind), "macvlan");
	assert_true(ipvlan_kind.check(&c, &l, &e) < 0);
	ASSERT_HAS(e.text, "Error: Container interface net1 not of type ipvlan");
}

static void test_hint_depends_on_the_kernel_error(void **state)
{
	(void)state;
	ASSERT_HAS(ipvlan_kind.hint(-EBUSY), "macvlans or ipvlans, not both");
	assert_null(ipvlan_kind.hint(-EPERM));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ipvlan_modes_are_parsed),
		cmocka_unit_test(test_ipvlan_configuration_is_read),
		cmocka_unit_test(test_chained_ipvlan_uses_the_interface_of_prev_result_as_master),
		cmocka_unit_test(test_ipvlan_check_compares_kind_and_mode),
		cmocka_unit_test(test_hint_depends_on_the_kernel_error),
	};

	return T_RUN(tests, NULL, rl_teardown);
}
