/* SPDX-License-Identifier: Apache-2.0 */
/* ipvlan, vlan and host-device: netconf, requests to the kernel, decisions. */
#include "testlib.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kern/net/uapi_link.h"

#include "base/alloc.h"
#include "cni/attach/attach.h"
#include "cni/multi/registry.h"

static struct err e;
static struct json_doc *doc;

static int read_text(const struct link_driver *k, const char *text, struct rail_conf *c)
{
	json_free(doc);
	doc = NULL;
	err_clear(&e);
	ASSERT_OK(json_parse(&doc, span_of(text), 1 << 16, &e), &e);
	return k->read(&(struct rail_source){doc, json_get(json_root(doc), "defaults"),
					     json_root(doc), NULL},
		       c, &e);
}

static struct rail_conf conf(const struct link_driver *k, const char *text)
{
	struct rail_conf c;

	ASSERT_OK(read_text(k, text, &c), &e);
	return c;
}

static void says(const char *word)
{
	if (!strstr(e.text, word))
		fail_msg("'%s' is not in '%s'", word, e.text);
}

static void refused(const struct link_driver *k, const char *text, enum err_kind kind,
		    const char *word)
{
	struct rail_conf c;

	assert_true(read_text(k, text, &c) < 0);
	ASSERT_EQ(e.kind, kind);
	says(word);
}

static void test_link_driver_is_found_by_type(void **state)
{
	static const char *const types[] = {"macvlan", "ipvlan", "vlan",    "host-device",
					    "sriov",   "ipoib",	 "ib-sriov"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		const struct link_driver *k = link_driver_find(types[i]);

		assert_non_null(k);
		ASSERT_STR_EQ_MSG(k->type, types[i], "types[%zu]", i);
		ASSERT_EQ_MSG(link_driver_moves(k), i >= 3 && k != &ipoib_kind, "types[%zu]", i);
	}
	assert_null(link_driver_find("coordinator"));
	assert_null(link_driver_find(""));
}

/* --- ipvlan --- */

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
		c = conf(&ipvlan_kind, text);
		ipvlan_kind.spec(&c, NULL, &s);
		ASSERT_EQ_MSG(s.ipvlan_mode, all[i].mode, "all[%zu]", i);
		ASSERT_EQ_MSG(c.no_arp, all[i].no_arp, "all[%zu]", i);
		if (*all[i].text)
			ASSERT_STR_EQ_MSG(ipvlan_mode_name(all[i].mode), all[i].text, "all[%zu]",
					  i);
	}
	refused(&ipvlan_kind, "{\"mode\":\"L2\"}", ERR_CONF, "unknown ipvlan mode: \"L2\"");
	refused(&ipvlan_kind, "{\"mode\":\"bridge\"}", ERR_CONF, "l2, l3 or l3s");
}

static void test_ipvlan_configuration_is_read(void **state)
{
	struct rail_conf c = conf(&ipvlan_kind,
				  "{\"defaults\":{\"mtu\":4200,\"mode\":\"l3\"},\"master\":"
				  "\"ens1\",\"mac\":\"x\",\"linkInContainer\":true}");
	const struct link low = {.name = "ens1", .mtu = 1500};

	(void)state;
	/* as in the original, MACs are ignored, and no MTU is too large */
	assert_true(c.mtu == 4200 && c.in_container && !c.mac.len && c.ipvlan.mode == 1);
	ASSERT_STR_EQ(c.master, "ens1");
	assert_null(ipvlan_kind.fits);
	assert_true(vlan_kind.fits(&c, &low, &e) < 0);
	assert_null(conf(&ipvlan_kind, "{\"master\":\"\"}").master);
}

static struct rail ipvlan_rail(const char *text)
{
	struct rail rail = {
		.kind = &ipvlan_kind, .ifname = "net1", .conf = conf(&ipvlan_kind, text)};

	rail.ipam.conf = json_root(doc);
	rail.ipam.type = cni_ipam_type(rail.ipam.conf);
	return rail;
}

/* ipvlan behind another plugin that created the master. */
static void test_chained_ipvlan_uses_the_previous_interface(void **state)
{
	struct cni_iface ifaces[] = {{.name = (char *)"bond0.7"}, {.name = (char *)"x"}};
	struct cni_ip ips[] = {{.iface = 0}};
	struct cni_result prev = {.ifaces = ifaces, .n_ifaces = 1, .ips = ips, .n_ips = 1};
	struct rail rail = ipvlan_rail("{}");

	(void)state;
	ASSERT_EQ(ipvlan_kind.chained(&prev, &rail, &e), 0);
	ASSERT_STR_EQ(rail.conf.master, "bond0.7");
	assert_ptr_equal(rail.given, &prev);
	/* a configured master stays; an IPAM plugin may have set it */
	rail = ipvlan_rail("{\"master\":\"ens1\",\"ipam\":{\"type\":\"static\"}}");
	prev.n_ifaces = 2;
	ASSERT_EQ(ipvlan_kind.chained(&prev, &rail, &e), 0);
	ASSERT_STR_EQ(rail.conf.master, "ens1");
	assert_null(rail.given);
	rail = ipvlan_rail("{}");
	assert_true(ipvlan_kind.chained(&prev, &rail, &e) < 0);
	says("chained master failure. PrevResult lacks a single named interface");
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
	struct rail_conf c = conf(&ipvlan_kind, "{\"mode\":\"l3\"}");
	struct link l = {.name = "net1", .kind = "ipvlan", .ipvlan_mode = IPVLAN_MODE_L3};

	(void)state;
	ASSERT_EQ(ipvlan_kind.check(&c, &l, &e), 0);
	l.ipvlan_mode = IPVLAN_MODE_L2;
	assert_true(ipvlan_kind.check(&c, &l, &e) < 0);
	says("Container IPVlan mode l2 does not match expected value: l3");
	str_copy(l.kind, sizeof(l.kind), "macvlan");
	assert_true(ipvlan_kind.check(&c, &l, &e) < 0);
	says("Error: Container interface net1 not of type ipvlan");
}

/* --- vlan --- */

static void test_vlan_configuration_is_read(void **state)
{
	struct rail_conf c = conf(&vlan_kind, "{\"master\":\"ens1\",\"vlanID\":4094,\"mtu\":1400,"
					      "\"vlanMode\":\"manual\"}");
	const struct link master = {.name = "ens1", .mtu = 1500};
	struct link_spec s = LINK_SPEC_INIT;

	(void)state;
	vlan_kind.spec(&c, NULL, &s);
	ASSERT_EQ(s.vlan_id, 4094);
	ASSERT_EQ(vlan_kind.fits(&c, &master, &e), 0);
	c.mtu = 1501;
	assert_true(vlan_kind.fits(&c, &master, &e) < 0);
	says("invalid MTU 1501, must be [0, master MTU(1500)]");
	ASSERT_EQ(conf(&vlan_kind, "{\"master\":\"ens1\"}").vlan.id, 0);
}

static void test_invalid_vlan_configuration_is_refused(void **state)
{
	(void)state;
	refused(&vlan_kind, "{\"vlanId\":7}", ERR_CONF, "\"master\" field is required");
	refused(&vlan_kind, "{\"master\":\"e\",\"vlanId\":4095}", ERR_CONF,
		"invalid VLAN ID 4095 (must be between 0 and 4094 inclusive");
	refused(&vlan_kind, "{\"master\":\"e\",\"vlanId\":-1}", ERR_CONF, "invalid VLAN ID -1");
	refused(&vlan_kind, "{\"master\":\"e\",\"vlanId\":70000}", ERR_CONF, "VLAN ID 70000");
	/* VLAN IDs of an IaaS provider: no plugin here sets one */
	refused(&vlan_kind, "{\"master\":\"e\",\"vlanMode\":\"auto\"}", ERR_UNSUPPORTED,
		"conf.vlanMode is 'auto'");
	refused(&vlan_kind, "{\"master\":\"e\",\"vlanMode\":\"x\"}", ERR_CONF,
		"conf.vlanMode is 'x'");
}

static void test_vlan_check_compares_kind_and_id(void **state)
{
	struct rail_conf c = conf(&vlan_kind, "{\"master\":\"e\",\"vlanId\":7,\"mtu\":1400}");
	/* the plugin tuning may have changed the MTU, which makes the original's CHECK fail */
	struct link l = {.name = "net1", .kind = "vlan", .vlan_id = 7, .mtu = 1300};

	(void)state;
	ASSERT_EQ(vlan_kind.check(&c, &l, &e), 0);
	l.vlan_id = 8;
	assert_true(vlan_kind.check(&c, &l, &e) < 0);
	says("Container VLAN ID 8 does not match expected value: 7");
	str_copy(l.kind, sizeof(l.kind), "veth");
	assert_true(vlan_kind.check(&c, &l, &e) < 0);
	says("Error: Container interface net1 not of type vlan");
}

/* --- several rails --- */

static struct rail rail_on(const struct link_driver *k, const char *ifname, int master)
{
	return (struct rail){.kind = k,
			     .ifname = ifname,
			     .label = ifname,
			     .master = {.index = master, .name = "ens1"}};
}

static void test_two_rails_with_one_vlan_or_device_are_refused(void **state)
{
	struct rail r[] = {rail_on(&vlan_kind, "net1", 4), rail_on(&vlan_kind, "net2", 4),
			   rail_on(&macvlan_kind, "net3", 4),
			   rail_on(&host_device_kind, "net4", 5)};

	(void)state;
	r[0].conf.vlan.id = 7;
	r[1].conf.vlan.id = 8;
	ASSERT_EQ(attach_check_devices(r, 4, &e), 0);
	r[1].conf.vlan.id = 7;
	assert_true(attach_check_devices(r, 4, &e) < 0);
	says("net2: 'ens1' is used by 'net1' of this pod too");
	/* ens1 of the pod is another device than ens1 of the host */
	r[1].conf.in_container = true;
	ASSERT_EQ(attach_check_devices(r, 4, &e), 0);
	r[3].master.index = 4;
	assert_true(attach_check_devices(r, 4, &e) < 0);
	says("net4: 'ens1' is used by 'net1'");
	r[3].no_link = true;
	ASSERT_EQ(attach_check_devices(r, 4, &e), 0);
}

/* With DPDK the pod gets no link. */
static void test_rail_without_link_may_have_a_name_in_use(void **state)
{
	struct rail r[] = {rail_on(&host_device_kind, "net1", 0)};
	const struct link pod[] = {{.index = 2, .name = "net1"}};

	(void)state;
	assert_true(attach_check_names(r, 1, pod, 1, &e) < 0);
	says("attach host-device 'net1' in the pod: File exists (EEXIST)");
	r[0].no_link = true;
	ASSERT_EQ(attach_check_names(r, 1, pod, 1, &e), 0);
}

/* A moved device is not deleted with the group, since its name is in none of the lists. */
static void test_group_with_a_moved_device_is_recognized(void **state)
{
	static const char *const made[] = {"net1", "net2"};
	struct link pod[] = {{.name = "net1", .group = LINK_GROUP},
			     {.name = "net2", .group = LINK_GROUP},
			     {.name = "net3", .alias = "ens3"}};

	(void)state;
	assert_true(attach_group_is_of_pod(pod, 3, made, 2));
	pod[2].group = LINK_GROUP;
	assert_false(attach_group_is_of_pod(pod, 3, made, 2));
}

static void test_kernel_errors_have_hints(void **state)
{
	(void)state;
	assert_non_null(strstr(ipvlan_kind.hint(-EBUSY), "macvlans or ipvlans, not both"));
	assert_non_null(strstr(vlan_kind.hint(-EEXIST), "another pod"));
	assert_non_null(strstr(host_device_kind.hint(-EINVAL), "cannot leave"));
	assert_null(ipvlan_kind.hint(-EPERM));
	assert_null(vlan_kind.hint(-EPERM));
}

/* --- host-device: which device --- */

static void test_host_device_configuration_is_read(void **state)
{
	struct rail_conf c = conf(&host_device_kind,
				  "{\"device\":\"\",\"hwaddr\":\"02:00:5E:10:00:01\",\"pciBusID\":"
				  "\"p\",\"runtimeConfig\":{\"deviceID\":\"d\"},\"mtu\":\"any\"}");

	(void)state;
	assert_null(c.host_device.device);
	assert_true(c.host_device.hwaddr.len == 6 && c.host_device.hwaddr.b[5] == 1);
	ASSERT_STR_EQ(c.host_device.pci, "p");
	ASSERT_STR_EQ(c.host_device.id, "d");
	refused(&host_device_kind, "{\"device\":\"\"}", ERR_CONF,
		"specify either \"device\", \"hwaddr\", \"kernelpath\" or \"pciBusID\"");
	refused(&host_device_kind, "{\"hwaddr\":\"02:zz\"}", ERR_CONF,
		"failed to parse MAC address \"02:zz\"");
}

/* A VLAN interface and the ports of a bond have the same MAC: the hardware device is selected. */
static void test_device_with_the_mac_is_selected(void **state)
{
	struct link l[] = {{.index = 1, .name = "ens1.7", .kind = "vlan"},
			   {.index = 2, .name = "other"},
			   {.index = 3, .name = "ens1"}};
	struct host_device_conf c = {.hwaddr = t_mac("02:00:00:00:00:01")};
	const struct host_device_files none = {0};

	(void)state;
	l[0].mac = l[2].mac = c.hwaddr;
	assert_ptr_equal(host_device_pick(&c, &none, l, 3), &l[2]);
	assert_ptr_equal(host_device_pick(&c, &none, l, 2), &l[0]);
	assert_null(host_device_pick(&c, &none, l + 1, 1));
}

static void test_device_left_by_a_deleted_namespace_is_selected(void **state)
{
	struct link l[] = {{.index = 1, .name = "net1", .alias = "ens1"},
			   {.index = 2, .name = "dev12", .alias = "ens2"},
			   {.index = 3, .name = "eth0", .alias = "ens3"}};
	struct host_device_conf c = {.device = "ens1"};
	char *names[] = {(char *)"dev12"};
	struct host_device_files none = {0}, sysfs = {names, 1, false};

	(void)state;
	assert_ptr_equal(host_device_stranded(&c, &none, "net1", l, 3), &l[0]);
	/* another pod has the device under a third name */
	assert_null(host_device_stranded(&c, &none, "net7", l, 3));
	assert_null(host_device_stranded(&c, &none, NULL, l, 3));
	c.device = "ens2";
	assert_ptr_equal(host_device_stranded(&c, &none, "net7", l, 3), &l[1]);
	c.device = NULL;
	c.pci = "p";
	assert_null(host_device_stranded(&c, &none, "net1", l, 3));
	assert_ptr_equal(host_device_stranded(&c, &sysfs, NULL, l, 3), &l[1]);
	/* its name is in use; its alias was set by the administrator */
	str_copy(l[2].name, sizeof(l[2].name), "ens2");
	assert_null(host_device_stranded(&c, &sysfs, NULL, l, 3));
	str_copy(l[2].name, sizeof(l[2].name), "eth0");
	str_copy(l[1].alias, sizeof(l[1].alias), "the uplink / left");
	assert_null(host_device_stranded(&c, &sysfs, NULL, l, 3));
	str_copy(l[1].name, sizeof(l[1].name), "device1");
	str_copy(l[1].alias, sizeof(l[1].alias), "ens2");
	names[0] = (char *)"device1";
	assert_null(host_device_stranded(&c, &sysfs, NULL, l, 3));
}

static void test_moved_device_is_found_by_its_alias(void **state)
{
	struct link l = {.name = "net1"};

	(void)state;
	assert_false(host_device_is_moved(&l));
	str_copy(l.alias, sizeof(l.alias), "ens1");
	assert_true(host_device_is_moved(&l));
	str_copy(l.alias, sizeof(l.alias), "unirail rail0 abc");
	assert_false(host_device_is_moved(&l));
}

/* --- host-device: sysfs --- */

struct tree {
	char top[64];
	struct root root;
};

static void make(const struct tree *t, const char *path)
{
	struct root host;
	char full[PATH_MAX];

	ASSERT_EQ(root_open(&host, "/", &e), 0);
	snprintf(full, sizeof(full), "%s%s", t->top, path);
	ASSERT_EQ(dir_make(&host, full, 0755, &e), 0);
	root_close(&host);
}

static void point(const struct tree *t, const char *path, const char *target)
{
	char full[PATH_MAX];

	snprintf(full, sizeof(full), "%s%s", t->top, path);
	ASSERT_EQ(symlink(target, full), 0);
}

#define PCI_DEV "/sys/devices/pci0000:5d/0000:5e:00.0"

static void tree_open(struct tree *t)
{
	snprintf(t->top, sizeof(t->top), "/tmp/unirail-sysfs-XXXXXX");
	assert_non_null(mkdtemp(t->top));
	make(t, "/sys/bus/pci/devices");
	make(t, "/sys/bus/pci/drivers/vfio-pci");
	make(t, "/sys/bus/auxiliary/devices");
	make(t, PCI_DEV "/net/ens1");
	make(t, PCI_DEV "/net/ens0");
	point(t, "/sys/bus/pci/devices/0000:5e:00.0", "../../../devices/pci0000:5d/0000:5e:00.0");
	ASSERT_EQ(root_open(&t->root, t->top, &e), 0);
}

static void tree_close(struct tree *t)
{
	char command[128];

	root_close(&t->root);
	snprintf(command, sizeof(command), "rm -r %s", t->top);
	ASSERT_EQ(system(command), 0);
}

static int read_device(const struct tree *t, const struct host_device_conf *c,
		       struct host_device_files *ret)
{
	err_clear(&e);
	return host_device_read(&t->root, c, ret, &e);
}

static void test_device_is_found_in_sysfs_by_every_key(void **state)
{
	static const struct host_device_conf all[] = {{.pci = "0000:5e:00.0"},
						      {.id = "0000:5e:00.0"},
						      {.pci = "nosuch", .id = "0000:5e:00.0"},
						      {.kernelpath = PCI_DEV}};
	struct tree t;

	(void)state;
	tree_open(&t);
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		auto_host_device struct host_device_files f = {0};

		if (read_device(&t, &all[i], &f) < 0)
			fail_msg("%zu: %s", i, e.text);
		assert_true(f.n == 2 && !f.dpdk);
		ASSERT_STR_EQ_MSG(f.names[0], "ens0", "all[%zu]", i);
	}
	tree_close(&t);
}

static void test_virtio_and_auxiliary_devices_are_found_in_sysfs(void **state)
{
	static const struct host_device_conf pci = {.pci = "0000:00:04.0"},
					     aux = {.id = "mlx5.sf.2"};
	auto_host_device struct host_device_files f = {0}, g = {0};
	struct tree t;

	(void)state;
	tree_open(&t);
	make(&t, "/sys/bus/pci/devices/0000:00:04.0/virtio3/net/eth7");
	make(&t, "/sys/bus/auxiliary/devices/mlx5.sf.2/net/sf2");
	ASSERT_EQ(read_device(&t, &pci, &f), 0);
	assert_true(f.n == 1 && strcmp(f.names[0], "eth7") == 0);
	ASSERT_EQ(read_device(&t, &aux, &g), 0);
	assert_true(g.n == 1 && strcmp(g.names[0], "sf2") == 0);
	tree_close(&t);
}

static void test_device_bound_to_a_dpdk_driver_is_detected(void **state)
{
	static const struct host_device_conf c = {.pci = "0000:5e:00.0"},
					     named = {.device = "ens1"};
	auto_host_device struct host_device_files f = {0}, g = {0};
	struct tree t;

	(void)state;
	tree_open(&t);
	point(&t, PCI_DEV "/driver", "../../../bus/pci/drivers/vfio-pci");
	ASSERT_EQ(read_device(&t, &c, &f), 0);
	assert_true(f.dpdk);
	/* the name is sufficient: files are not read */
	ASSERT_EQ(read_device(&t, &named, &g), 0);
	assert_true(!g.dpdk && !g.n);
	tree_close(&t);
}

static void test_missing_or_invalid_devices_are_refused(void **state)
{
	static const struct {
		struct host_device_conf c;
		enum err_kind kind;
		const char *word;
	} bad[] = {
		{{.pci = "0000:5e:00.9"}, ERR_UNAVAILABLE, "conf.pciBusID is '0000:5e:00.9'"},
		{{.pci = "../devices/0000:5e:00.0"}, ERR_UNAVAILABLE, "conf.pciBusID"},
		{{.pci = ".."}, ERR_UNAVAILABLE, "conf.pciBusID"},
		{{.id = "x"}, ERR_UNAVAILABLE, "runtime config DeviceID x not found or unsupported"},
		{{.kernelpath = "sys/devices/x"}, ERR_CONF, "must be absolute and begin with"},
		{{.kernelpath = "/sys/devices/../bus"}, ERR_CONF, "/sys/devices/"},
		{{.kernelpath = "/sys/devices/x"}, ERR_UNAVAILABLE, "conf.kernelpath is"},
	};
	struct host_device_files f;
	struct tree t;

	(void)state;
	tree_open(&t);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_true(read_device(&t, &bad[i].c, &f) < 0);
		ASSERT_EQ_MSG(e.kind, bad[i].kind, "bad[%zu]", i);
		says(bad[i].word);
	}
	tree_close(&t);
}

static int free_doc(void **state)
{
	(void)state;
	json_free(doc);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_link_driver_is_found_by_type),
		cmocka_unit_test(test_ipvlan_modes_are_parsed),
		cmocka_unit_test(test_ipvlan_configuration_is_read),
		cmocka_unit_test(test_chained_ipvlan_uses_the_previous_interface),
		cmocka_unit_test(test_ipvlan_check_compares_kind_and_mode),
		cmocka_unit_test(test_vlan_configuration_is_read),
		cmocka_unit_test(test_invalid_vlan_configuration_is_refused),
		cmocka_unit_test(test_vlan_check_compares_kind_and_id),
		cmocka_unit_test(test_two_rails_with_one_vlan_or_device_are_refused),
		cmocka_unit_test(test_rail_without_link_may_have_a_name_in_use),
		cmocka_unit_test(test_group_with_a_moved_device_is_recognized),
		cmocka_unit_test(test_kernel_errors_have_hints),
		cmocka_unit_test(test_host_device_configuration_is_read),
		cmocka_unit_test(test_device_with_the_mac_is_selected),
		cmocka_unit_test(test_device_left_by_a_deleted_namespace_is_selected),
		cmocka_unit_test(test_moved_device_is_found_by_its_alias),
		cmocka_unit_test(test_device_is_found_in_sysfs_by_every_key),
		cmocka_unit_test(test_virtio_and_auxiliary_devices_are_found_in_sysfs),
		cmocka_unit_test(test_device_bound_to_a_dpdk_driver_is_detected),
		cmocka_unit_test(test_missing_or_invalid_devices_are_refused),
	};

	return T_RUN(tests, NULL, free_doc);
}
