/* SPDX-License-Identifier: Apache-2.0 */
/* VF attributes are set with replayed netlink answers of PFs (composed by
 * tests/replay/make_vf.py); netdevs are restored in the running kernel, with veth ends in place
 * of VFs. */
#include "host_lab.h"
#include "kern_lab.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cni/device/vf_apply.h"
#include "cni/device/vf_restore.h"
#include "kern/net/altname.h"
#include "kern/sys/netns.h"

enum { PF = 7 };

static struct vf_job job(unsigned int set, const char *mac)
{
	struct vf_job j = {.ref = {PF, "pf0", 3}, .want = {.set = set, .to.trust = 1}};

	j.want.to.mac = t_mac(mac);
	return j;
}

/* An attribute for which the driver returns EBUSY, or which is not active yet, is set again;
 * other attributes are not. */
static void test_busy_attributes_are_set_again(void **state)
{
	auto_nl struct nl_wire *w = kern_replay("vf_apply_late.nl");
	struct vf_job j = job(VF_ATTR_MAC | VF_ATTR_TRUST, "02:00:00:00:07:01");

	(void)state;
	OK(vf_apply(w, &j, 1, NULL, &e));
	OK(nl_replay_finished(w, &e));
}

/* The permanent failure is reported, not the preceding temporary one. */
static void test_attribute_the_driver_cannot_set_is_an_error(void **state)
{
	auto_nl struct nl_wire *w = kern_replay("vf_apply_cannot.nl");
	struct vf_job j = job(VF_ATTR_MAC | VF_ATTR_TRUST, "02:00:00:00:07:01");
	size_t bad = 9;

	(void)state;
	FAILS(vf_apply(w, &j, 1, &bad, &e), -EOPNOTSUPP,
	      "set VF 3 of 'pf0': trust: Operation not supported (EOPNOTSUPP) (the PF's driver "
	      "does not support it: remove conf.trust)");
	ASSERT_EQ(e.kind, ERR_UNSUPPORTED);
	ASSERT_EQ(bad, 0);
	OK(nl_replay_finished(w, &e));
}

static void test_mac_that_the_driver_refuses_to_clear_is_replaced(void **state)
{
	auto_nl struct nl_wire *w = kern_replay("vf_apply_zero.nl");
	struct vf_job j = job(VF_ATTR_MAC, "00:00:00:00:00:00");

	(void)state;
	j.instead = t_mac("02:00:00:00:00:03");
	OK(vf_apply(w, &j, 1, NULL, &e));
	OK(nl_replay_finished(w, &e));
}

static void test_attribute_that_stays_busy_is_an_error(void **state)
{
	auto_nl struct nl_wire *w = kern_replay("vf_apply_busy.nl");
	struct vf_job j = job(VF_ATTR_TRUST, "02:00:00:00:07:01");

	(void)state;
	OK(vf_apply(w, &j, 1, NULL, &e));
	j = job(VF_ATTR_MAC, "02:00:00:00:07:01");
	FAILS(vf_apply(w, &j, 1, NULL, &e), -EBUSY,
	      "set VF 3 of 'pf0': mac 02:00:00:00:07:01: Device or resource busy (EBUSY) (retried "
	      "for 2 s)");
	ASSERT_EQ(e.kind, ERR_AGAIN);
	OK(nl_replay_finished(w, &e));
	OK(vf_apply(w, NULL, 0, NULL, &e));
}

/* --- restore of the netdev --- */

struct way {
	struct kern_lab node, pod;
	struct netns_visit visit;
	struct vf_restore_state target;
	struct vf_record r;
	struct root root;
};

static void open_way(struct way *w)
{
	*w = (struct way){.visit = NETNS_VISIT_INIT};
	kern_open(&w->node);
	kern_open(&w->pod);
	OK(root_open(&w->root, NULL, &e));
	OK(netns_enter(w->node.ns, &w->visit, &e));
	w->target = (struct vf_restore_state){&w->root, w->node.w, w->pod.w};
	kern_veth(&w->node, "vf0", "other");
	w->r.by_unirail = true;
	w->r.ifname = xstrdup("net1");
	w->r.container = xstrdup("c1");
	strcpy(w->r.device, "0000:3b:00.2");
	strcpy(w->r.name, "vf0");
	w->r.mac = kern_link(&w->node, "vf0").mac;
	w->r.link_mtu = 1400;
}

static void close_way(struct way *w)
{
	vf_record_done(&w->r);
	netns_leave(&w->visit);
	root_close(&w->root);
	kern_close(&w->pod);
	kern_close(&w->node);
}

/* Brings vf0 into its state after ADD: moved to the pod, renamed, with the pod's MAC and MTU,
 * up. */
static void into_pod(struct way *w)
{
	struct link_change in = {.set = LINK_SET_NETNS | LINK_SET_NAME | LINK_SET_ALIAS,
				 .netns_fd = w->pod.ns,
				 .name = "net1",
				 .alias = "vf0"};
	struct link_change then = {.set = LINK_SET_MAC | LINK_SET_MTU | LINK_SET_UP, .mtu = 1300};
	auto_batch struct nl_batch *b = nl_batch_new();

	then.mac = t_mac("02:00:00:00:07:01");
	link_set(b, kern_link(&w->node, "vf0").index, "vf0", &in);
	kern_commit(&w->node, b);
	link_set(b, kern_link(&w->pod, "net1").index, "net1", &then);
	kern_commit(&w->pod, b);
}

static struct vf_found found_in(struct kern_lab *l, enum vf_where where, const char *name)
{
	return (struct vf_found){where, kern_link(l, name), where == VF_ON_NODE};
}

static void expect_restored(struct way *w, const char *alias)
{
	struct link l = kern_link(&w->node, "vf0");

	assert_true(mac_eq(&l.mac, &w->r.mac));
	ASSERT_EQ(l.mtu, 1400);
	ASSERT_STR_EQ(l.alias, alias);
	assert_false(link_is_up(&l));
}

static void test_netdev_is_restored_from_the_pod(void **state)
{
	struct way w;
	struct vf_found f;
	char **names = NULL;
	size_t n = 0;

	(void)state;
	open_way(&w);
	VEC_PUSH(w.r.altnames, w.r.n_altnames) = xstrdup("enp59s0v0");
	VEC_PUSH(w.r.altnames, w.r.n_altnames) = xstrdup("net1");
	strcpy(w.r.alias, "uplink");
	into_pod(&w);
	f = found_in(&w.pod, VF_IN_POD, "net1");
	OK(vf_restore_netdev(&w.target, &w.r, &f, &e));
	expect_restored(&w, "uplink");
	OK(altname_list(w.node.w, kern_link(&w.node, "vf0").index, &names, &n, &e));
	ASSERT_EQ(n, 2);
	str_list_free(names, n);
	close_way(&w);
}

/* An alternative name equal to the netdev's name on the node (systemd adds such names) does not
 * prevent the rename. */
static void
test_alternative_name_equal_to_the_name_on_the_node_does_not_prevent_the_restore(void **state)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct vf_found f;
	struct way w;

	(void)state;
	open_way(&w);
	into_pod(&w);
	f = found_in(&w.pod, VF_IN_POD, "net1");
	altname_add(b, f.link.index, "net1", "vf0");
	kern_commit(&w.pod, b);
	OK(vf_restore_netdev(&w.target, &w.r, &f, &e));
	expect_restored(&w, "");
	close_way(&w);
}

/* The kernel moved the netdev of a deleted namespace to the node; the alias that ADD set
 * remains, for example because the restore was killed. The netdev has the pod's name (net1), a
 * name given by the kernel (dev7) or its original name (vf0). */
static void test_netdev_left_by_a_deleted_namespace_is_restored(void **state)
{
	struct link_change half = {.set = LINK_SET_NAME | LINK_SET_ALIAS, .alias = "vf0"};
	auto_batch struct nl_batch *b = nl_batch_new();
	static const char *const names[] = {"net1", "dev7", "vf0"};
	struct vf_found f;
	struct way w;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		open_way(&w);
		half.name = names[i];
		link_set(b, kern_link(&w.node, "vf0").index, "vf0", &half);
		kern_commit(&w.node, b);
		f = found_in(&w.node, VF_ON_NODE, names[i]);
		OK(vf_restore_netdev(&w.target, &w.r, &f, &e));
		expect_restored(&w, "");
		close_way(&w);
	}
}

static void test_unchanged_netdev_is_not_modified(void **state)
{
	struct vf_found f;
	struct way w;

	(void)state;
	open_way(&w);
	f = found_in(&w.node, VF_ON_NODE, "vf0");
	f.leftover = false;
	OK(vf_restore_netdev(&w.target, &w.r, &f, &e));
	assert_true(link_is_up(&(struct link){.flags = kern_link(&w.node, "vf0").flags}));
	close_way(&w);
}

static void test_restore_fails_while_another_link_of_the_node_has_the_name(void **state)
{
	struct vf_found f;
	struct way w;

	(void)state;
	open_way(&w);
	into_pod(&w);
	kern_veth(&w.node, "vf0", "x");
	f = found_in(&w.pod, VF_IN_POD, "net1");
	FAILS(vf_restore_netdev(&w.target, &w.r, &f, &e), -EEXIST,
	      "failed to rename link net1 to host name vf0: File exists (EEXIST): the node has another link of that "
	      "name (rename that one, and this is tried again)");
	/* the netdev is still in the pod, for the next attempt */
	kern_link(&w.pod, "net1");
	close_way(&w);
}

static void test_removed_or_recreated_function_needs_no_restore(void **state)
{
	struct vf_record r = {.by_unirail = true};
	struct vf_restore_state target;
	struct host_lab h;

	(void)state;
	host_unpack(&h, "qemu_igb.tree");
	target = (struct vf_restore_state){.root = &h.root};
	strcpy(r.device, "0000:01:10.4");
	OK(vf_restore(&target, &r, 0, &e));
	/* the PCI address now belongs to a PF instead of the VF */
	strcpy(r.device, "0000:01:00.0");
	OK(vf_restore(&target, &r, 0, &e));
	strcpy(r.device, "0000:01:10.0");
	r.instance = xstrdup("1");
	OK(vf_restore(&target, &r, 0, &e));
	free(r.instance);
	r.instance = NULL;
	host_write(&h, "/proc/sys/kernel/random/boot_id", "b-2");
	r.boot = xstrdup("b-1");
	OK(vf_restore(&target, &r, 0, &e));
	free(r.boot);
	host_remove(&h);
}

/* If a driver refuses an attribute, here because the port has no carrier, vf_restore() returns
 * 1, so the pod's DEL does not fail. With VF_RESTORE_STRICT, which the next ADD sets,
 * vf_restore() fails. */
static void test_attribute_refused_by_the_driver_does_not_fail_the_pods_del(void **state)
{
	auto_nl struct nl_wire *w = kern_replay("vf_home_rate.nl");
	struct vf_record r = {.dpdk = true, .was = {.spoofchk = -1, .trust = -1}};
	struct vf_restore_state target;
	struct host_lab h;

	(void)state;
	host_unpack(&h, "qemu_igb.tree");
	target = (struct vf_restore_state){.root = &h.root, .host = w};
	strcpy(r.device, "0000:01:10.0");
	ASSERT_EQ(vf_restore(&target, &r, 0, &e), 1);
	FAILS(vf_restore(&target, &r, VF_RESTORE_STRICT, &e), -EINVAL,
	      "set VF 0 of 'eth1': min_tx_rate 0 max_tx_rate 0: Invalid argument (EINVAL) (more "
	      "than the link's rate, or "
	      "PF 'eth1' has no carrier)");
	ASSERT_EQ(vf_restore(&target, &r, VF_RESTORE_STRICT, &e), 0);
	OK(nl_replay_finished(w, &e));
	host_remove(&h);
}

/*
 * A read error does not mean that the function is missing: here the PF's directory is unreadable.
 */
static void test_vf_with_unreadable_sysfs_is_not_reported_as_missing(void **state)
{
	struct vf_record r = {.by_unirail = true};
	auto_free char *pf = NULL;
	struct vf_restore_state target;
	struct host_lab h;

	(void)state;
	host_unpack(&h, "qemu_igb.tree");
	target = (struct vf_restore_state){.root = &h.root};
	pf = xasprintf("%s/sys/bus/pci/devices/0000:01:00.0", h.dir);
	ASSERT_EQ(unlink(pf), 0);
	ASSERT_EQ(symlink("0000:01:00.0", pf), 0);
	strcpy(r.device, "0000:01:10.0");
	ASSERT_EQ(vf_restore(&target, &r, 0, &e), -ELOOP);
	assert_non_null(strstr(e.text, "find VF '0000:01:10.0'"));
	host_remove(&h);
}

static void test_names_given_by_the_kernel_are_recognized(void **state)
{
	(void)state;
	assert_true(link_name_is_kernels("dev12"));
	assert_false(link_name_is_kernels("dev"));
	assert_false(link_name_is_kernels("dev1a"));
	assert_false(link_name_is_kernels("eth1"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_busy_attributes_are_set_again),
		cmocka_unit_test(test_attribute_the_driver_cannot_set_is_an_error),
		cmocka_unit_test(test_mac_that_the_driver_refuses_to_clear_is_replaced),
		cmocka_unit_test(test_attribute_that_stays_busy_is_an_error),
		cmocka_unit_test(test_netdev_is_restored_from_the_pod),
		cmocka_unit_test(
			test_alternative_name_equal_to_the_name_on_the_node_does_not_prevent_the_restore),
		cmocka_unit_test(test_netdev_left_by_a_deleted_namespace_is_restored),
		cmocka_unit_test(test_unchanged_netdev_is_not_modified),
		cmocka_unit_test(test_restore_fails_while_another_link_of_the_node_has_the_name),
		cmocka_unit_test(test_removed_or_recreated_function_needs_no_restore),
		cmocka_unit_test(test_attribute_refused_by_the_driver_does_not_fail_the_pods_del),
		cmocka_unit_test(test_vf_with_unreadable_sysfs_is_not_reported_as_missing),
		cmocka_unit_test(test_names_given_by_the_kernel_are_recognized),
	};

	return T_RUN(tests, NULL, NULL);
}
