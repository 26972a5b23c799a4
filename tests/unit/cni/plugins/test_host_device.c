/* SPDX-License-Identifier: Apache-2.0 */
/* host-device: netconf, and which device becomes the interface of the pod. */
#include "testlib.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cni/attach/attach.h"
#include "rail_lab.h"

static struct err e;

/* --- which device --- */

static void test_host_device_configuration_is_read(void **state)
{
	struct rail_conf c = rl_conf(
		&host_device_kind, "{\"device\":\"\",\"hwaddr\":\"02:00:5E:10:00:01\",\"pciBusID\":"
				   "\"p\",\"runtimeConfig\":{\"deviceID\":\"d\"},\"mtu\":\"any\"}");

	(void)state;
	assert_null(c.host_device.device);
	assert_true(c.host_device.hwaddr.len == 6 && c.host_device.hwaddr.b[5] == 1);
	ASSERT_STR_EQ(c.host_device.pci, "p");
	ASSERT_STR_EQ(c.host_device.id, "d");
	rl_refused(&host_device_kind, "{\"device\":\"\"}", ERR_CONF,
		   "specify either \"device\", \"hwaddr\", \"kernelpath\" or \"pciBusID\"");
	rl_refused(&host_device_kind, "{\"hwaddr\":\"02:zz\"}", ERR_CONF,
		   "failed to parse MAC address \"02:zz\"");
}

/* A VLAN interface has the MAC of its hardware device: the hardware device is selected. */
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
	/* Not selected: the present name of the link, net1, is neither the name of the pod's
	 * interface nor dev<index>. */
	assert_null(host_device_stranded(&c, &none, "net7", l, 3));
	assert_null(host_device_stranded(&c, &none, NULL, l, 3));
	c.device = "ens2";
	assert_ptr_equal(host_device_stranded(&c, &none, "net7", l, 3), &l[1]);
	c.device = NULL;
	c.pci = "p";
	assert_null(host_device_stranded(&c, &none, "net1", l, 3));
	assert_ptr_equal(host_device_stranded(&c, &sysfs, NULL, l, 3), &l[1]);
	/* Not selected: a device whose alias is the name of another link or not a valid
	 * interface name, or whose present name is not dev<index>. */
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

static void test_link_whose_alias_is_an_interface_name_is_a_moved_device(void **state)
{
	struct link l = {.name = "net1"};

	(void)state;
	assert_false(host_device_is_moved(&l));
	str_copy(l.alias, sizeof(l.alias), "ens1");
	assert_true(host_device_is_moved(&l));
	str_copy(l.alias, sizeof(l.alias), "unirail rail0 abc");
	assert_false(host_device_is_moved(&l));
}

static void test_einval_of_the_kernel_has_a_hint(void **state)
{
	(void)state;
	ASSERT_HAS(host_device_kind.hint(-EINVAL), "cannot leave");
}

/* --- sysfs --- */

struct tree {
	char top[T_DIR_MAX];
	struct root root;
};

static void make(const struct tree *t, const char *path)
{
	ASSERT_OK(dir_make(&t->root, path, 0755, &e), &e);
}

static void point(const struct tree *t, const char *path, const char *target)
{
	ASSERT_EQ(symlinkat(target, t->root.fd, path + 1), 0);
}

#define PCI_DEV "/sys/devices/pci0000:5d/0000:5e:00.0"

static void tree_open(struct tree *t)
{
	t_dir_make(t->top, &t->root);
	make(t, "/sys/bus/pci/devices");
	make(t, "/sys/bus/pci/drivers/vfio-pci");
	make(t, "/sys/bus/auxiliary/devices");
	make(t, PCI_DEV "/net/ens1");
	make(t, PCI_DEV "/net/ens0");
	point(t, "/sys/bus/pci/devices/0000:5e:00.0", "../../../devices/pci0000:5d/0000:5e:00.0");
}

static void tree_close(struct tree *t)
{
	t_dir_remove(t->top, &t->root);
}

static int read_device(const struct tree *t, const struct host_device_conf *c,
		       struct host_device_files *ret)
{
	err_clear(&e);
	return host_device_read(&t->root, c, ret, &e);
}

static void test_device_is_found_in_sysfs_by_pci_bus_id_device_id_and_kernelpath(void **state)
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
	/* conf.device is the interface's name: sysfs is not read */
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
		ASSERT_HAS(e.text, bad[i].word);
	}
	tree_close(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_host_device_configuration_is_read),
		cmocka_unit_test(test_device_with_the_mac_is_selected),
		cmocka_unit_test(test_device_left_by_a_deleted_namespace_is_selected),
		cmocka_unit_test(test_link_whose_alias_is_an_interface_name_is_a_moved_device),
		cmocka_unit_test(test_einval_of_the_kernel_has_a_hint),
		cmocka_unit_test(
			test_device_is_found_in_sysfs_by_pci_bus_id_device_id_and_kernelpath),
		cmocka_unit_test(test_virtio_and_auxiliary_devices_are_found_in_sysfs),
		cmocka_unit_test(test_device_bound_to_a_dpdk_driver_is_detected),
		cmocka_unit_test(test_missing_or_invalid_devices_are_refused),
	};

	return T_RUN(tests, NULL, rl_teardown);
}
