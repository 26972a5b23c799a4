/* SPDX-License-Identifier: Apache-2.0 */
/* Which attributes of a VF are set and restored, and the location of a VF. */
#include "host_lab.h"
#include "kern_lab.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cni/device/vf_place.h"
#include "cni/device/vf_plan.h"

static struct vf_info plain(void)
{
	struct vf_info v = {.vf = 2, .n_vlans = 1, .spoofchk = 1};

	v.mac = t_mac("02:00:00:00:00:03");
	v.vlans[0].proto = VF_VLAN_8021Q;
	return v;
}

struct turn {
	const char *what;
	void (*change)(struct vf_info *v);
	unsigned int attr;
};

static void vlan(struct vf_info *v)
{
	v->vlans[0].id = 7;
}

static void qos(struct vf_info *v)
{
	v->vlans[0] = (struct vf_vlan){0, 3, VF_VLAN_8021Q};
}

static void mac(struct vf_info *v)
{
	v->mac.b[5]++;
}

static void max_rate(struct vf_info *v)
{
	v->max_rate = 10;
}

static void min_rate(struct vf_info *v)
{
	v->min_rate = 10;
}

static void spoofchk(struct vf_info *v)
{
	v->spoofchk = 0;
}

static void trust(struct vf_info *v)
{
	v->trust = 1;
}

static void link_state(struct vf_info *v)
{
	v->link_state = VF_LINK_ENABLE;
}

static void guid(struct vf_info *v)
{
	v->port_guid = 5;
}

static const struct turn turns[] = {
	{"vlan", vlan, VF_ATTR_VLAN},
	{"vlan", qos, VF_ATTR_VLAN},
	{"mac", mac, VF_ATTR_MAC},
	{"min_tx_rate/max_tx_rate", max_rate, VF_ATTR_RATE},
	{"min_tx_rate/max_tx_rate", min_rate, VF_ATTR_RATE},
	{"spoofchk", spoofchk, VF_ATTR_SPOOFCHK},
	{"trust", trust, VF_ATTR_TRUST},
	{"link_state", link_state, VF_ATTR_LINK_STATE},
	{"guid", guid, VF_ATTR_GUID},
};

/* Each attribute is compared, set if requested, and restored. */
static void test_each_attribute_is_set_and_restored(void **state)
{
	struct vf_info was = plain();

	(void)state;
	was.has_guid = true;
	for (size_t i = 0; i < ARRAY_LEN(turns); i++) {
		struct vf_attrs want = {VF_ATTR_ALL, was}, back;

		turns[i].change(&want.to);
		ASSERT_EQ_MSG(vf_plan_missing(&want, &was), turns[i].attr, "turns[%zu]", i);
		ASSERT_STR_EQ_MSG(vf_attr_name(turns[i].attr), turns[i].what, "turns[%zu]", i);
		back = vf_plan_restore(&was, &want.to, 0);
		ASSERT_EQ_MSG(back.set, turns[i].attr, "turns[%zu]", i);
		ASSERT_EQ_MSG(vf_plan_missing(&back, &was), 0, "turns[%zu]", i);
		want.set &= ~turns[i].attr;
		ASSERT_EQ_MSG(vf_plan_missing(&want, &was), 0, "turns[%zu]", i);
	}
}

static void test_equal_attributes_need_no_change(void **state)
{
	struct vf_info was = plain(), now = plain();

	(void)state;
	/* some drivers report no VLAN at all, others VLAN 0 without a protocol */
	now.n_vlans = 0;
	now.vlans[0] = (struct vf_vlan){0};
	ASSERT_EQ(vf_plan_restore(&was, &now, VF_ATTR_ALL).set, 0);
	ASSERT_EQ(vf_plan_restore(&now, &was, VF_ATTR_ALL).set, 0);
}

static void test_unreported_spoofchk_and_trust_are_restored_if_add_set_them(void **state)
{
	struct vf_info was = plain(), now = plain();
	struct vf_attrs want = {VF_ATTR_TRUST, was}, back;

	(void)state;
	was.spoofchk = was.trust = now.spoofchk = now.trust = -1;
	ASSERT_EQ(vf_plan_missing(&want, &now), VF_ATTR_TRUST);
	ASSERT_EQ(vf_plan_restore(&was, &now, 0).set, 0);
	back = vf_plan_restore(&was, &now, VF_ATTR_TRUST | VF_ATTR_VLAN);
	ASSERT_EQ(back.set, VF_ATTR_TRUST);
	ASSERT_EQ(back.to.trust, 0);
	back = vf_plan_restore(&was, &now, VF_ATTR_SPOOFCHK);
	ASSERT_EQ(back.set, VF_ATTR_SPOOFCHK);
	ASSERT_EQ(back.to.spoofchk, 1);
	/* spoofchk and trust were reported when the VF was recorded, and are not reported now */
	was = plain();
	ASSERT_EQ(vf_plan_restore(&was, &now, 0).set, 0);
	ASSERT_EQ(vf_plan_restore(&was, &now, VF_ATTR_TRUST).set, VF_ATTR_TRUST);
}

static void test_unreported_mac_is_not_restored(void **state)
{
	struct vf_info was = plain(), now = plain();

	(void)state;
	was.mac.len = 0;
	was.node_guid = 3; /* GUIDs without has_guid are not restored either */
	ASSERT_EQ(vf_plan_restore(&was, &now, VF_ATTR_ALL).set, 0);
}

static void test_unrecorded_attributes_are_derived_from_another_vf_or_defaults(void **state)
{
	struct vf_info now = plain(), sibling = {.vf = 5, .spoofchk = 0, .trust = 1}, was;
	struct mac perm = t_mac("02:00:00:00:00:09"), none = {.len = 6};

	(void)state;
	now.vlans[0].id = 7;
	now.max_rate = 10;
	now.trust = 1;
	was = vf_plan_guess(&now, NULL, &perm);
	assert_true(was.vf == 2 && !was.vlans[0].id && !was.max_rate && was.spoofchk == 1 &&
		    was.trust == 0 && was.link_state == VF_LINK_AUTO && mac_eq(&was.mac, &none));
	sibling.mac = none;
	was = vf_plan_guess(&now, &sibling, &perm);
	assert_true(was.vf == 2 && was.spoofchk == 0 && was.trust == 1 && mac_eq(&was.mac, &none));
	sibling.mac = t_mac("02:00:00:00:00:07");
	was = vf_plan_guess(&now, &sibling, &perm);
	assert_true(mac_eq(&was.mac, &perm));
	now.spoofchk = now.trust = -1;
	was = vf_plan_guess(&now, &sibling, &perm);
	ASSERT_EQ(vf_plan_restore(&was, &now, 0).set & (VF_ATTR_TRUST | VF_ATTR_SPOOFCHK), 0);
}

/* The messages are in the original's order, as tests/replay/make_vf.py composed them. */
static void test_attributes_are_set_in_the_order_of_the_original(void **state)
{
	auto_nl struct nl_wire *w = kern_replay("vf_set.nl");
	auto_batch struct nl_batch *b = nl_batch_new();
	const struct vf_ref ref = {7, "ens1f0np0", 3};
	struct vf_attrs want = {.set = VF_ATTR_ALL};
	unsigned int attrs[VF_ATTRS_MAX];

	(void)state;
	want.to.vlans[0] = (struct vf_vlan){103, 5, VF_VLAN_8021AD};
	want.to.mac = t_mac("02:00:00:00:00:03");
	want.to.min_rate = 100;
	want.to.max_rate = 2000;
	want.to.spoofchk = 1;
	want.to.link_state = VF_LINK_DISABLE;
	want.to.node_guid = 0x0c42a1030016051c;
	want.to.port_guid = 0x0c42a1030016051d;
	ASSERT_EQ(vf_plan_batch(&want, &ref, b, attrs), 8);
	ASSERT_EQ(attrs[4], VF_ATTR_TRUST);
	ASSERT_EQ(attrs[7], VF_ATTR_GUID);
	FAILS(nl_batch_commit(w, b, &e), -EOPNOTSUPP,
	      "set VF 3 of 'ens1f0np0': trust off: Operation not supported (EOPNOTSUPP)");
	OK(nl_replay_finished(w, &e));
}

/* --- location of a VF --- */

static void test_location_of_a_vf_is_read(void **state)
{
	struct vf_place p;
	struct host_lab h;

	(void)state;
	host_unpack(&h, "qemu_igb.tree");
	OK(vf_place_read(&h.root, NULL, "0000:01:10.0", &p, &e));
	ASSERT_STR_EQ(p.pci.bdf, "0000:01:10.0");
	ASSERT_STR_EQ(p.pci.physfn, "0000:01:00.0");
	ASSERT_STR_EQ(p.netdev, "eth2");
	ASSERT_STR_EQ(p.pf.name, "eth1");
	assert_true(p.number == 0 && !p.dpdk && p.pf.index == 0);
	/* the second VF has no driver */
	OK(vf_place_read(&h.root, NULL, "0000:01:10.2", &p, &e));
	assert_true(p.number == 1 && !p.dpdk && !*p.netdev);
	host_remove(&h);
}

static void test_device_ids_that_name_no_vf_are_refused(void **state)
{
	struct vf_place p;
	struct host_lab h;

	(void)state;
	host_unpack(&h, "qemu_igb.tree");
	FAILS(vf_place_read(&h.root, NULL, "eth2", &p, &e), -EINVAL,
	      "conf.deviceID is 'eth2', expected a VF's PCI address such as 0000:3b:00.2");
	ASSERT_EQ(e.kind, ERR_CONF);
	FAILS(vf_place_read(&h.root, NULL, "0000:01:00.0", &p, &e), -EINVAL,
	      "conf.deviceID '0000:01:00.0' is not a VF: its directory below /sys/bus/pci/devices has "
	      "no physfn (it is a PF)");
	FAILS(vf_place_read(&h.root, NULL, "0000:01:10.4", &p, &e), -ENODEV,
	      "PCI device '0000:01:10.4' does not exist");
	ASSERT_EQ(e.kind, ERR_UNAVAILABLE);
	host_remove(&h);
}

static void link_to(struct host_lab *h, const char *path, const char *target)
{
	char full[256];

	snprintf(full, sizeof(full), "%s%s", h->dir, path);
	ASSERT_EQ(symlink(target, full), 0);
}

#define IGB "/sys/devices/pci0000:00/0000:00:02.0/"

/* First only the VF has a userspace driver; then its PF has no netdev either. */
static void test_vf_with_a_userspace_driver_has_no_netdev(void **state)
{
	struct vf_place p;
	struct host_lab h;

	(void)state;
	host_unpack(&h, "qemu_igb.tree");
	link_to(&h, IGB "0000:01:10.2/driver", "../../../../bus/pci/drivers/vfio-pci");
	OK(vf_place_read(&h.root, NULL, "0000:01:10.2", &p, &e));
	assert_true(p.dpdk && !*p.netdev);
	ASSERT_STR_EQ(p.pf.name, "eth1");
	ASSERT_EQ(file_rename(&h.root, IGB "0000:01:00.0/net/eth1", IGB "eth1", true, NULL), 0);
	OK(vf_place_read(&h.root, NULL, "0000:01:10.2", &p, &e));
	assert_true(p.dpdk && !*p.pf.name);
	FAILS(vf_place_no_pf(&p, &e), -ENODEV,
	      "PF network device not found: PF '0000:01:00.0' of VF '0000:01:10.2' has no netdev "
	      "(is it bound to vfio-pci, or in another namespace?)");
	host_remove(&h);
}

/* In switchdev mode, the PF's directory in sysfs lists representors as well as the PF's netdev,
 * and some of their names sort before the name of the PF's netdev. */
static void test_representors_are_not_taken_for_the_pf(void **state)
{
	struct vf_place p;
	struct host_lab h;

	(void)state;
	host_unpack(&h, "qemu_igb.tree");
	host_write(&h, IGB "0000:01:00.0/net/aaa/ifindex", "9");
	host_write(&h, IGB "0000:01:00.0/net/aaa/phys_port_name", "pf0vf3");
	link_to(&h, "/sys/class/net/aaa",
		"../../devices/pci0000:00/0000:00:02.0/0000:01:00.0/net/aaa");
	host_write(&h, IGB "0000:01:00.0/net/eth1/phys_port_name", "p0");
	OK(vf_place_read(&h.root, NULL, "0000:01:10.0", &p, &e));
	ASSERT_STR_EQ(p.pf.name, "eth1");
	host_remove(&h);
}

/* A PF whose netdevs cannot be listed is an error, not a PF without netdevs. */
static void test_unreadable_pf_is_an_error(void **state)
{
	struct vf_place p;
	struct host_lab h;

	(void)state;
	host_unpack(&h, "qemu_igb.tree");
	ASSERT_EQ(file_rename(&h.root, IGB "0000:01:00.0/net", IGB "net", true, NULL), 0);
	link_to(&h, IGB "0000:01:00.0/net", "net");
	ASSERT_EQ(vf_place_read(&h.root, NULL, "0000:01:10.0", &p, &e), -ELOOP);
	assert_false(vf_place_is_removed(-ELOOP));
	host_remove(&h);
}

/* A PF in switchdev mode, a PF bound to vfio-pci, and an InfiniBand VF bound to vfio-pci. */
static void test_vfs_of_switchdev_userspace_and_infiniband_pfs_are_located(void **state)
{
	struct vf_place p;
	struct host_lab h;

	(void)state;
	host_unpack(&h, "mlx5_switchdev.tree");
	OK(vf_place_read(&h.root, NULL, "0000:81:00.3", &p, &e));
	ASSERT_STR_EQ(p.pf.name, "ens2f0np0");
	ASSERT_STR_EQ(p.netdev, "ens2f0v1");
	assert_true(p.number == 1 && !p.dpdk);
	OK(vf_place_read(&h.root, NULL, "0000:81:00.4", &p, &e));
	assert_true(p.number == 2 && p.dpdk);
	/* the netdev of this VF is in a pod */
	OK(vf_place_read(&h.root, NULL, "0000:81:00.5", &p, &e));
	assert_true(p.number == 3 && !p.dpdk && !*p.netdev);
	host_remove(&h);
	host_unpack(&h, "mlx5_vfio.tree");
	OK(vf_place_read(&h.root, NULL, "0000:c1:00.3", &p, &e));
	assert_true(p.number == 1 && p.dpdk && !*p.pf.name);
	host_remove(&h);
	host_unpack(&h, "mlx5_ib_vfio.tree");
	OK(vf_place_read(&h.root, NULL, "0000:19:00.2", &p, &e));
	assert_true(p.number == 1 && p.dpdk);
	ASSERT_STR_EQ(p.pf.name, "ibs2");
	host_remove(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_attribute_is_set_and_restored),
		cmocka_unit_test(test_equal_attributes_need_no_change),
		cmocka_unit_test(test_unreported_spoofchk_and_trust_are_restored_if_add_set_them),
		cmocka_unit_test(test_unreported_mac_is_not_restored),
		cmocka_unit_test(
			test_unrecorded_attributes_are_derived_from_another_vf_or_defaults),
		cmocka_unit_test(test_attributes_are_set_in_the_order_of_the_original),
		cmocka_unit_test(test_location_of_a_vf_is_read),
		cmocka_unit_test(test_device_ids_that_name_no_vf_are_refused),
		cmocka_unit_test(test_vf_with_a_userspace_driver_has_no_netdev),
		cmocka_unit_test(test_representors_are_not_taken_for_the_pf),
		cmocka_unit_test(test_unreadable_pf_is_an_error),
		cmocka_unit_test(test_vfs_of_switchdev_userspace_and_infiniband_pfs_are_located),
	};

	return T_RUN(tests, NULL, NULL);
}
