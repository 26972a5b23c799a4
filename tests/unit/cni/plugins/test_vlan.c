/* SPDX-License-Identifier: Apache-2.0 */
/* The vlan plugin: its netconf, CHECK, and hints for errors of the kernel. */
#include "testlib.h"

#include <errno.h>

#include "base/alloc.h"
#include "cni/attach/attach.h"
#include "rail_lab.h"

static struct err e;

static void test_vlan_configuration_is_read(void **state)
{
	struct rail_conf c = rl_conf(&vlan_kind,
				     "{\"master\":\"ens1\",\"vlanID\":4094,\"mtu\":1400,"
				     "\"vlanMode\":\"manual\"}");
	const struct link master = {.name = "ens1", .mtu = 1500};
	struct link_spec s = LINK_SPEC_INIT;

	(void)state;
	vlan_kind.spec(&c, NULL, &s);
	ASSERT_EQ(s.vlan_id, 4094);
	ASSERT_EQ(vlan_kind.fits(&c, &master, &e), 0);
	c.mtu = 1501;
	assert_true(vlan_kind.fits(&c, &master, &e) < 0);
	ASSERT_HAS(e.text, "invalid MTU 1501, must be [0, master MTU(1500)]");
	ASSERT_EQ(rl_conf(&vlan_kind, "{\"master\":\"ens1\"}").vlan.id, 0);
}

static void test_invalid_vlan_configuration_is_refused(void **state)
{
	(void)state;
	rl_refused(&vlan_kind, "{\"vlanId\":7}", ERR_CONF, "\"master\" field is required");
	rl_refused(&vlan_kind, "{\"master\":\"e\",\"vlanId\":4095}", ERR_CONF,
		   "invalid VLAN ID 4095 (must be between 0 and 4094 inclusive");
	rl_refused(&vlan_kind, "{\"master\":\"e\",\"vlanId\":-1}", ERR_CONF, "invalid VLAN ID -1");
	rl_refused(&vlan_kind, "{\"master\":\"e\",\"vlanId\":70000}", ERR_CONF, "VLAN ID 70000");
	/* "auto" takes the VLAN ID from Spiderpool's IaaS provider, which unirail does not
	 * support. */
	rl_refused(&vlan_kind, "{\"master\":\"e\",\"vlanMode\":\"auto\"}", ERR_UNSUPPORTED,
		   "conf.vlanMode is 'auto'");
	rl_refused(&vlan_kind, "{\"master\":\"e\",\"vlanMode\":\"x\"}", ERR_CONF,
		   "conf.vlanMode is 'x'");
}

static void test_vlan_check_compares_kind_and_id(void **state)
{
	struct rail_conf c = rl_conf(&vlan_kind, "{\"master\":\"e\",\"vlanId\":7,\"mtu\":1400}");
	/* the tuning plugin may have changed the MTU: the original's CHECK then fails, unirail's
	 * does not */
	struct link l = {.name = "net1", .kind = "vlan", .vlan_id = 7, .mtu = 1300};

	(void)state;
	ASSERT_EQ(vlan_kind.check(&c, &l, &e), 0);
	l.vlan_id = 8;
	assert_true(vlan_kind.check(&c, &l, &e) < 0);
	ASSERT_HAS(e.text, "Container VLAN ID 8 does not match expected value: 7");
	str_copy(l.kind, sizeof(l.kind), "veth");
	assert_true(vlan_kind.check(&c, &l, &e) < 0);
	ASSERT_HAS(e.text, "Error: Container interface net1 not of type vlan");
}

static void test_hint_depends_on_the_kernel_error(void **state)
{
	(void)state;
	ASSERT_HAS(vlan_kind.hint(-EEXIST), "the node or a pod has");
	assert_null(vlan_kind.hint(-EPERM));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vlan_configuration_is_read),
		cmocka_unit_test(test_invalid_vlan_configuration_is_refused),
		cmocka_unit_test(test_vlan_check_compares_kind_and_id),
		cmocka_unit_test(test_hint_depends_on_the_kernel_error),
	};

	return T_RUN(tests, NULL, rl_teardown);
}
