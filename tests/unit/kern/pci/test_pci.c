/* SPDX-License-Identifier: Apache-2.0 */
/* PCI functions, read from the sysfs files of hosts in tests/hosts/. */
#include "host_lab.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/loop.h"
#include "kern/pci/pci.h"
#include "kern/pci/uevent.h"

static struct err e;

#define HAS(part)                                                                                  \
	do {                                                                                       \
		if (!strstr(e.text, part))                                                         \
			fail_msg("'%s' is not in '%s'", part, e.text);                             \
	} while (0)

static void test_pci_addresses_are_checked(void **state)
{
	(void)state;
	assert_true(pci_bdf_ok("0000:3b:00.2"));
	assert_true(pci_bdf_ok("10000:e1:1f.7"));
	assert_false(pci_bdf_ok("3b:00.2"));
	assert_false(pci_bdf_ok("0000:3b:00.8"));
	assert_false(pci_bdf_ok("0000:3B:00.2"));
	assert_false(pci_bdf_ok("0000:3b:00.2/.."));
	assert_false(pci_bdf_ok(""));
	assert_true(pci_driver_is_dpdk("vfio-pci"));
	assert_false(pci_driver_is_dpdk("mlx5_core"));
}

static void test_attributes_of_functions_are_read(void **state)
{
	auto_free struct pci_dev *list = NULL;
	struct host_lab h;
	struct pci_dev d;
	size_t n;

	(void)state;
	host_unpack(&h, "mlx5_roce.tree");
	ASSERT_EQ(pci_read(&h.root, "0000:3d:00.0", &d, &e), 0);
	ASSERT_EQ(d.vendor, 0x15b3);
	ASSERT_EQ(d.device, 0x1021);
	ASSERT_EQ(d.subdevice, 0x0041);
	ASSERT_EQ(d.class, 0x020000);
	ASSERT_STR_EQ(d.driver, "mlx5_core");
	ASSERT_STR_EQ(d.physfn, "");
	assert_true(d.is_pf);
	ASSERT_EQ(d.total_vfs, 16);
	ASSERT_EQ(d.num_vfs, 12);
	ASSERT_EQ(d.numa, 1);
	ASSERT_EQ(d.iommu_group, 40);
	ASSERT_EQ(pci_read(&h.root, "0000:3d:00.5", &d, &e), 0);
	ASSERT_STR_EQ(d.driver, "vfio-pci");
	ASSERT_STR_EQ(d.physfn, "0000:3d:00.0");
	assert_false(d.is_pf);
	ASSERT_EQ(pci_list(&h.root, &list, &n, &e), 0);
	ASSERT_EQ(n, 16);
	ASSERT_EQ(pci_read(&h.root, "0000:ff:00.0", &d, &e), -ENODEV);
	ASSERT_EQ(pci_read(&h.root, "../../../etc", &d, &e), -EINVAL);
	HAS("is not a PCI address such as 0000:3b:00.2");
	host_remove(&h);
	host_unpack(&h, "qemu_igb.tree");
	ASSERT_EQ(pci_read(&h.root, "0000:01:10.2", &d, &e), 0);
	ASSERT_STR_EQ(d.driver, "");
	ASSERT_EQ(d.numa, -1);
	ASSERT_EQ(d.iommu_group, -1);
	host_remove(&h);
}

/* A function that cannot be read, here because its entry is a symbolic link to itself, is not
 * reported as missing. */
static void test_unreadable_function_is_an_error(void **state)
{
	struct host_lab h;
	struct pci_dev d;
	char path[128], pf[PCI_BDF_MAX];
	uint32_t vf;

	(void)state;
	host_unpack(&h, "qemu_igb.tree");
	snprintf(path, sizeof(path), "%s/sys/bus/pci/devices/0000:01:10.0", h.dir);
	ASSERT_EQ(unlink(path), 0);
	ASSERT_EQ(symlink("0000:01:10.0", path), 0);
	ASSERT_EQ(pci_read(&h.root, "0000:01:10.0", &d, &e), -ELOOP);
	ASSERT_EQ(pci_vf_number(&h.root, "0000:01:10.0", pf, &vf, &e), -ELOOP);
	host_remove(&h);
}

static void test_vfs_are_listed_by_number(void **state)
{
	auto_free struct pci_vf *list = NULL;
	char pf[PCI_BDF_MAX];
	struct host_lab h;
	uint32_t vf;
	size_t n;

	(void)state;
	host_unpack(&h, "mlx5_roce.tree");
	ASSERT_EQ(pci_vf_list(&h.root, "0000:3d:00.0", &list, &n, &e), 0);
	ASSERT_EQ(n, 12);
	for (uint32_t i = 0; i < n; i++)
		ASSERT_EQ(list[i].vf, i);
	ASSERT_STR_EQ(list[10].bdf, "0000:3d:01.4");
	ASSERT_EQ(pci_vf_number(&h.root, "0000:3d:01.4", pf, &vf, &e), 0);
	ASSERT_STR_EQ(pf, "0000:3d:00.0");
	ASSERT_EQ(vf, 10);
	ASSERT_EQ(pci_vf_number(&h.root, "0000:3d:00.1", pf, &vf, &e), -EINVAL);
	HAS("is not a VF");
	host_remove(&h);
}

static void expect(struct host_lab *h, const char *device, enum pci_child what, size_t want,
		   const char *first)
{
	char **names = NULL;
	size_t n = 4711;

	ASSERT_EQ(pci_children(&h->root, device, what, &names, &n, &e), 0);
	ASSERT_EQ(n, want);
	if (n)
		ASSERT_STR_EQ(names[0], first);
	str_list_free(names, n);
}

static void test_interfaces_and_devices_of_a_function_are_listed(void **state)
{
	char device[PCI_NAME_MAX], **names = NULL;
	struct host_lab h;
	size_t n;

	(void)state;
	host_unpack(&h, "mlx5_roce.tree");
	expect(&h, "0000:3d:00.2", PCI_NETDEV, 1, "ens1f0v0");
	expect(&h, "0000:3d:00.2", PCI_RDMA, 1, "mlx5_2");
	expect(&h, "0000:3d:00.2", PCI_UVERBS, 1, "uverbs2");
	expect(&h, "0000:3d:00.0", PCI_UMAD, 1, "umad0");
	expect(&h, "0000:3d:00.5", PCI_NETDEV, 0, NULL);
	expect(&h, "mlx5_core.sf.4", PCI_NETDEV, 1, "ens1f0s4");
	ASSERT_EQ(pci_children(&h.root, "../x", PCI_NETDEV, &names, &n, &e), -EINVAL);
	ASSERT_EQ(pci_auxiliary(&h.root, "0000:3d:00.0", &names, &n, &e), 0);
	ASSERT_EQ(n, 2);
	ASSERT_STR_EQ(names[1], "mlx5_core.sf.4");
	str_list_free(names, n);
	ASSERT_EQ(pci_of(&h.root, PCI_NETDEV, "ens1f0np0", device, &e), 0);
	host_remove(&h);
}

static void test_common_bridge_of_functions_is_found(void **state)
{
	struct pci_path nic, gpu, disk;
	struct host_lab h;

	(void)state;
	host_unpack(&h, "mlx5_roce.tree");
	ASSERT_EQ(pci_path_read(&h.root, "0000:3d:00.2", &nic, &e), 0);
	ASSERT_EQ(pci_path_read(&h.root, "0000:3e:00.0", &gpu, &e), 0);
	ASSERT_EQ(pci_path_read(&h.root, "10000:e1:00.0", &disk, &e), 0);
	ASSERT_STR_EQ(nic.root, "pci0000:3a");
	ASSERT_EQ(nic.n, 3);
	ASSERT_STR_EQ(nic.ports[2], "0000:3c:04.0");
	ASSERT_EQ(pci_path_common(&nic, &gpu), 2);
	ASSERT_EQ(pci_path_common(&nic, &nic), 3);
	/* The disk is behind a VMD: its sysfs path contains two root complexes, and the path
	 * must start at the second. */
	ASSERT_STR_EQ(disk.root, "pci10000:e0");
	ASSERT_EQ(disk.n, 1);
	ASSERT_EQ(pci_path_common(&nic, &disk), -1);
	host_remove(&h);
}

#define PF "/sys/bus/pci/devices/0000:01:00.0/"

static void test_number_of_vfs_is_checked_before_it_is_set(void **state)
{
	struct host_lab h;
	char line[64];

	(void)state;
	host_unpack(&h, "qemu_igb.tree");
	ASSERT_EQ(pci_set_vfs(&h.root, "0000:01:00.0", 8, &e), -ERANGE);
	HAS("its maximum is 7");
	ASSERT_EQ(pci_set_vfs(&h.root, "0000:01:10.0", 1, &e), -EOPNOTSUPP);
	HAS("no SR-IOV");
	ASSERT_EQ(pci_set_vfs(&h.root, "0000:01:10.0", 0, &e), 0);
	ASSERT_EQ(pci_set_vfs(&h.root, "0000:01:00.0", 2, &e), 0);
	ASSERT_EQ(pci_set_vfs(&h.root, "0000:01:00.0", 4, &e), 0);
	host_read(&h, PF "sriov_numvfs", line, sizeof(line));
	ASSERT_STR_EQ(line, "4");
	host_remove(&h);
}

static void test_driver_is_bound_and_unbound(void **state)
{
	struct host_lab h;
	char line[64];

	(void)state;
	host_unpack(&h, "qemu_igb.tree");
	ASSERT_EQ(pci_bind(&h.root, "0000:01:10.0", "igbvf", &e), 0);
	ASSERT_EQ(pci_bind(&h.root, "0000:01:10.0", "vfio-pci", &e), -EBUSY);
	HAS("unbind it first");
	ASSERT_EQ(pci_bind(&h.root, "0000:01:10.2", "uio_pci_generic", &e), -ENOENT);
	HAS("load its module");
	ASSERT_EQ(pci_bind(&h.root, "0000:01:10.2", "../x", &e), -EINVAL);
	ASSERT_EQ(pci_bind(&h.root, "0000:01:10.2", "igbvf", &e), 0);
	host_read(&h, "/sys/bus/pci/drivers/igbvf/bind", line, sizeof(line));
	ASSERT_STR_EQ(line, "0000:01:10.2");
	ASSERT_EQ(pci_unbind(&h.root, "0000:01:10.2", &e), 0);
	ASSERT_EQ(pci_unbind(&h.root, "0000:01:10.0", &e), 0);
	host_read(&h, "/sys/bus/pci/drivers/igbvf/unbind", line, sizeof(line));
	ASSERT_STR_EQ(line, "0000:01:10.0");
	/* No kernel acts on a write to drivers_probe in this unpacked tree, so no driver binds:
	 * pci_rebind() must clear driver_override again. */
	ASSERT_EQ(pci_rebind(&h.root, "0000:01:10.2", "vfio-pci", &e), -ENODEV);
	HAS("intel_iommu=on");
	host_read(&h, "/sys/bus/pci/drivers_probe", line, sizeof(line));
	ASSERT_STR_EQ(line, "0000:01:10.2");
	host_read(&h, "/sys/bus/pci/devices/0000:01:10.2/driver_override", line, sizeof(line));
	ASSERT_STR_EQ(line, "");
	host_remove(&h);
}

static void test_wait_for_a_child_device_ends_with_the_device_or_the_timeout(void **state)
{
	char name[PCI_NAME_MAX];
	struct host_lab h;
	int fd;

	(void)state;
	host_unpack(&h, "mlx5_ib.tree");
	ASSERT_EQ(uevent_open(&fd, &e), 0);
	ASSERT_EQ(uevent_wait_child(fd, now_mono_ms() + 5000, &h.root, "0000:18:00.1", PCI_RDMA,
				    name, &e),
		  0);
	ASSERT_STR_EQ(name, "mlx5_1");
	ASSERT_EQ(uevent_wait_child(fd, now_mono_ms() + 20, &h.root, "0000:17:00.0", PCI_NETDEV,
				    name, &e),
		  -ETIMEDOUT);
	HAS("wait for a network device of '0000:17:00.0'");
	ASSERT_EQ(e.kind, ERR_AGAIN);
	close(fd);
	host_remove(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pci_addresses_are_checked),
		cmocka_unit_test(test_attributes_of_functions_are_read),
		cmocka_unit_test(test_unreadable_function_is_an_error),
		cmocka_unit_test(test_vfs_are_listed_by_number),
		cmocka_unit_test(test_interfaces_and_devices_of_a_function_are_listed),
		cmocka_unit_test(test_common_bridge_of_functions_is_found),
		cmocka_unit_test(test_number_of_vfs_is_checked_before_it_is_set),
		cmocka_unit_test(test_driver_is_bound_and_unbound),
		cmocka_unit_test(test_wait_for_a_child_device_ends_with_the_device_or_the_timeout),
	};

	return T_RUN(tests, NULL, NULL);
}
