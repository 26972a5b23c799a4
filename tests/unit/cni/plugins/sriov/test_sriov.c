/* SPDX-License-Identifier: Apache-2.0 */
/* sriov: netconf, STATUS on a node, and CHECK of a link. */
#include "host_lab.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cni/attach/attach.h"
#include "rail_lab.h"

static struct err e;

static struct rail_conf conf(const char *text)
{
	return rl_conf(&sriov_kind, text);
}

static void test_omitted_attributes_are_not_requested(void **state)
{
	struct rail_conf c =
		conf("{\"deviceID\":\"0000:3b:00.2\",\"vlan\":null,\"spoofchk\":\"\"}");

	(void)state;
	ASSERT_STR_EQ(c.sriov.device_id, "0000:3b:00.2");
	ASSERT_EQ(c.sriov.want.set, 0);
	assert_true(!c.mtu && !c.mac.len);
	/* the netconf may lack the device, because the runtime calls STATUS and GC without a
	 * device */
	assert_null(conf("{}").sriov.device_id);
}

static void test_every_vf_attribute_is_read(void **state)
{
	struct rail_conf c = conf(
		"{\"DeviceId\":\"0000:3b:00.2\",\"VLAN\":103,\"vlanQoS\":5,\"vlanProto\":\"802.1AD\","
		"\"mac\":\"02:00:00:00:00:03\",\"mtu\":4200,\"min_tx_rate\":100,\"max_tx_rate\":2000,"
		"\"spoofchk\":\"off\",\"trust\":\"on\",\"link_state\":\"disable\"}");
	const struct vf_info *to = &c.sriov.want.to;

	(void)state;
	ASSERT_EQ(c.sriov.want.set, VF_ATTR_ALL & ~VF_ATTR_GUID);
	assert_true(to->vlans[0].id == 103 && to->vlans[0].qos == 5 &&
		    to->vlans[0].proto == VF_VLAN_8021AD);
	assert_true(to->min_rate == 100 && to->max_rate == 2000);
	assert_true(to->spoofchk == 0 && to->trust == 1 && to->link_state == VF_LINK_DISABLE);
	assert_true(mac_eq(&to->mac, &c.mac) && c.mac.b[5] == 3 && c.mtu == 4200);
}

/* VLAN 0 is requested, unlike an omitted VLAN; if only one rate limit is given, the other is 0. */
static void test_zero_is_requested_unlike_an_omitted_value(void **state)
{
	struct rail_conf c = conf("{\"vlan\":0}");

	(void)state;
	ASSERT_EQ(c.sriov.want.set, VF_ATTR_VLAN);
	ASSERT_EQ(c.sriov.want.to.vlans[0].proto, VF_VLAN_8021Q);
	c = conf("{\"min_tx_rate\":10}");
	ASSERT_EQ(c.sriov.want.set, VF_ATTR_RATE);
	assert_true(c.sriov.has_min && !c.sriov.has_max && c.sriov.want.to.max_rate == 0);
	/* a value that is neither on nor off means off, as in the original */
	c = conf("{\"trust\":\"yes\"}");
	assert_true(c.sriov.want.set == VF_ATTR_TRUST && c.sriov.want.to.trust == 0);
}

static void test_runtime_config_takes_precedence_over_args(void **state)
{
	static const char text[] = "{\"mac\":\"02:00:00:00:00:01\",\"runtimeConfig\":{\"mac\":"
				   "\"02:00:00:00:00:03\",\"deviceID\":\"0000:3b:00.3\"}}";
	struct rail_conf c;

	(void)state;
	ASSERT_EQ(rl_read(&sriov_kind, text, "02:00:00:00:00:02", &c, &e), 0);
	ASSERT_EQ(c.mac.b[5], 3);
	ASSERT_STR_EQ(c.sriov.device_id, "0000:3b:00.3");
	ASSERT_EQ(rl_read(&sriov_kind, "{\"mac\":\"02:00:00:00:00:01\"}", "02:00:00:00:00:02", &c,
			  &e),
		  0);
	ASSERT_EQ(c.mac.b[5], 2);
	ASSERT_EQ(conf("{\"mac\":\"02:00:00:00:00:01\"}").mac.b[5], 1);
	c = conf("{\"deviceID\":\"0000:3b:00.2\",\"runtimeConfig\":{\"deviceID\":\"x\"}}");
	ASSERT_STR_EQ(c.sriov.device_id, "0000:3b:00.2");
	c = conf("{\"defaults\":{\"trust\":\"on\",\"mtu\":1400},\"mtu\":1300}");
	assert_true(c.sriov.want.set == VF_ATTR_TRUST && c.mtu == 1300);
}

static void test_invalid_sriov_configuration_is_refused(void **state)
{
	static const struct {
		const char *text, *expected;
	} all[] = {
		{"{\"vlan\":4095}",
		 "LoadConf(): vlan id 4095 invalid: value must be in the range 0-4094"},
		{"{\"vlan\":-1}", "vlan id -1 invalid"},
		{"{\"vlan\":\"5\"}", "conf.vlan"},
		{"{\"vlanQoS\":1}",
		 "vlan id must be configured to set vlan QoS to a non-nil value"},
		{"{\"vlanProto\":\"802.1q\"}", "vlan id must be configured to set vlan proto"},
		{"{\"vlan\":1,\"vlanQoS\":8}",
		 "vlan QoS PCP 8 invalid: value must be in the range 0-7"},
		{"{\"vlan\":0,\"vlanQoS\":1}",
		 "non-zero vlan id must be configured to set vlan QoS to a non-zero value"},
		{"{\"vlan\":1,\"vlanProto\":\"x\"}",
		 "vlan Proto x invalid: value must be '802.1Q' or '802.1ad'"},
		{"{\"vlan\":0,\"vlanProto\":\"802.1ad\"}",
		 "non-zero vlan id must be configured to set vlan proto 802.1ad"},
		{"{\"min_tx_rate\":-1}", "conf.min_tx_rate is -1"},
		{"{\"max_tx_rate\":4294967296}", "conf.max_tx_rate is 4294967296"},
		{"{\"min_tx_rate\":20,\"max_tx_rate\":10}",
		 "conf.min_tx_rate is 20, more than conf.max_tx_rate, which is 10"},
		{"{\"link_state\":\"up\"}", "LoadConf(): invalid link_state value: up"},
		{"{\"mac\":\"zz\"}", "failed to parse MAC address zz (conf.mac"},
		{"{\"mac\":\"01:00:5e:00:00:01\"}", "failed to parse MAC address"},
		{"{\"runtimeConfig\":{\"mac\":\"zz\"}}", "runtimeConfig.mac"},
		{"{\"mtu\":67}", "conf.mtu is 67"},
		{"{\"deviceID\":7}", "conf.deviceID"},
	};
	struct rail_conf c;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		assert_true(rl_read(&sriov_kind, all[i].text, NULL, &c, &e) < 0);
		ASSERT_EQ_MSG(e.kind, ERR_CONF, "all[%zu]", i);
		if (!strstr(e.text, all[i].expected) ||
		    strncmp(e.text, "SRIOV-CNI failed to load netconf: ", 34) != 0)
			fail_msg("'%s' is not in '%s'", all[i].expected, e.text);
	}
}

/* DEL reads the device even from a configuration that ADD refuses. */
static void test_device_is_read_from_an_invalid_configuration(void **state)
{
	struct rail_conf c;

	(void)state;
	assert_true(rl_read(&sriov_kind,
			    "{\"deviceID\":\"0000:3b:00.2\",\"vlan\":9999,\"ipam\":{}}", NULL, &c,
			    &e) < 0);
	ASSERT_STR_EQ(c.sriov.device_id, "0000:3b:00.2");
	assert_non_null(c.ipam);
	ASSERT_EQ(c.sriov.want.set, 0);
}

static void test_check_compares_the_device_of_the_link(void **state)
{
	struct rail_conf c = conf("{\"deviceID\":\"0000:3b:00.2\"}");
	struct link l = {.name = "net1", .device = "0000:3b:00.2"};

	(void)state;
	ASSERT_EQ(sriov_kind.check(&c, &l, &e), 0);
	strcpy(l.device, "0000:3b:00.3");
	assert_true(sriov_kind.check(&c, &l, &e) < 0);
	ASSERT_STR_EQ(e.text,
		      "interface 'net1' is device '0000:3b:00.3', expected VF '0000:3b:00.2'");
	/* CHECK succeeds if the kernel does not report the link's device */
	l.device[0] = '\0';
	ASSERT_EQ(sriov_kind.check(&c, &l, &e), 0);
}

#define IGB "/sys/devices/pci0000:00/0000:00:02.0/"

static int status(struct host_lab *h, const char *text, bool *no_link)
{
	struct rail rail = {.kind = &sriov_kind, .conf = conf(text)};
	int r = sriov_kind.status(&h->root, &rail, &e);

	*no_link = rail.no_link;
	return r;
}

static void status_says(struct host_lab *h, const char *text, const char *expected)
{
	bool no_link;

	assert_true(status(h, text, &no_link) < 0);
	ASSERT_EQ(e.kind, ERR_UNAVAILABLE);
	if (!strstr(e.text, expected))
		fail_msg("'%s' is not in '%s'", expected, e.text);
}

static void test_status_reports_unusable_vfs(void **state)
{
	struct host_lab h;
	char path[PATH_MAX];
	bool no_link;

	(void)state;
	host_unpack(&h, "qemu_igb.tree");
	ASSERT_EQ(status(&h, "{}", &no_link), 0);
	ASSERT_EQ(status(&h, "{\"deviceID\":\"0000:01:10.0\"}", &no_link), 0);
	assert_false(no_link);
	status_says(&h, "{\"deviceID\":\"0000:01:10.4\"}", "'0000:01:10.4' does not exist");
	status_says(&h, "{\"deviceID\":\"0000:01:10.2\"}", "VF '0000:01:10.2' has no driver");
	snprintf(path, sizeof(path), "%s" IGB "0000:01:10.2/driver", h.dir);
	ASSERT_EQ(symlink("../../../../bus/pci/drivers/vfio-pci", path), 0);
	ASSERT_EQ(status(&h, "{\"deviceID\":\"0000:01:10.2\"}", &no_link), 0);
	assert_true(no_link);
	/* the PF is bound to vfio as well: a pod that requests no attribute does not need the PF's
	 * netdev */
	ASSERT_EQ(file_rename(&h.root, IGB "0000:01:00.0/net/eth1", IGB "eth1", true, NULL), 0);
	ASSERT_EQ(status(&h, "{\"deviceID\":\"0000:01:10.2\"}", &no_link), 0);
	status_says(&h, "{\"deviceID\":\"0000:01:10.2\",\"vlan\":7}",
		    "PF network device not found");
	host_remove(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_omitted_attributes_are_not_requested),
		cmocka_unit_test(test_every_vf_attribute_is_read),
		cmocka_unit_test(test_zero_is_requested_unlike_an_omitted_value),
		cmocka_unit_test(test_runtime_config_takes_precedence_over_args),
		cmocka_unit_test(test_invalid_sriov_configuration_is_refused),
		cmocka_unit_test(test_device_is_read_from_an_invalid_configuration),
		cmocka_unit_test(test_check_compares_the_device_of_the_link),
		cmocka_unit_test(test_status_reports_unusable_vfs),
	};

	return T_RUN(tests, NULL, rl_teardown);
}
