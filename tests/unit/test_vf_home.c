/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes set through replayed PFs; the restore of netdevs, on this kernel, with veth ends for
 * VFs. */
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

	j.want.to.mac = kern_mac(mac);
	return j;
}

/* Attributes that are busy or not yet in effect are set again, no others. */
static void late(void **state)
{
	auto_nl struct nl_wire *w = kern_replay("vf_apply_late.nl");
	struct vf_job j = job(VF_ATTR_MAC | VF_ATTR_TRUST, "02:00:00:00:07:01");

	(void)state;
	OK(vf_apply(w, &j, 1, NULL, &e));
	OK(nl_replay_finished(w, &e));
}

/* The failure that counts is not the first: busy would pass. */
static void cannot(void **state)
{
	auto_nl struct nl_wire *w = kern_replay("vf_apply_cannot.nl");
	struct vf_job j = job(VF_ATTR_MAC | VF_ATTR_TRUST, "02:00:00:00:07:01");
	size_t bad = 9;

	(void)state;
	FAILS(vf_apply(w, &j, 1, &bad, &e), -EOPNOTSUPP,
	      "set VF 3 of 'pf0': trust: Operation not supported (EOPNOTSUPP) (the PF's driver cannot: leave conf.trust out)");
	assert_int_equal(e.kind, ERR_UNSUPPORTED);
	assert_int_equal(bad, 0);
	OK(nl_replay_finished(w, &e));
}

static void no_way_back_to_no_mac(void **state)
{
	auto_nl struct nl_wire *w = kern_replay("vf_apply_zero.nl");
	struct vf_job j = job(VF_ATTR_MAC, "00:00:00:00:00:00");

	(void)state;
	j.instead = kern_mac("02:00:00:00:00:03");
	OK(vf_apply(w, &j, 1, NULL, &e));
	OK(nl_replay_finished(w, &e));
}

static void busy_for_ever(void **state)
{
	auto_nl struct nl_wire *w = kern_replay("vf_apply_busy.nl");
	struct vf_job j = job(VF_ATTR_TRUST, "02:00:00:00:07:01");

	(void)state;
	OK(vf_apply(w, &j, 1, NULL, &e));
	j = job(VF_ATTR_MAC, "02:00:00:00:07:01");
	FAILS(vf_apply(w, &j, 1, NULL, &e), -EBUSY,
	      "set VF 3 of 'pf0': mac 02:00:00:00:07:01: Device or resource busy (EBUSY) (still so after 2 s)");
	assert_int_equal(e.kind, ERR_AGAIN);
	OK(nl_replay_finished(w, &e));
	OK(vf_apply(w, NULL, 0, NULL, &e));
}

/* --- the way home --- */

struct way {
	struct kern_lab node, pod;
	struct netns_visit visit;
	struct vf_restore_state home;
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
	w->home = (struct vf_restore_state){&w->root, w->node.w, w->pod.w};
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

/* As an ADD leaves it: moved, named, with the pod's MAC and MTU, up. */
static void into_pod(struct way *w)
{
	struct link_change in = {.set = LINK_SET_NETNS | LINK_SET_NAME | LINK_SET_ALIAS,
				 .netns_fd = w->pod.ns,
				 .name = "net1",
				 .alias = "vf0"};
	struct link_change then = {.set = LINK_SET_MAC | LINK_SET_MTU | LINK_SET_UP, .mtu = 1300};
	auto_batch struct nl_batch *b = nl_batch_new();

	then.mac = kern_mac("02:00:00:00:07:01");
	link_set(b, kern_link(&w->node, "vf0").index, "vf0", &in);
	kern_commit(&w->node, b);
	link_set(b, kern_link(&w->pod, "net1").index, "net1", &then);
	kern_commit(&w->pod, b);
}

static struct vf_found found_in(struct kern_lab *l, enum vf_where where, const char *name)
{
	return (struct vf_found){where, kern_link(l, name), where == VF_ON_NODE};
}

static void is_home(struct way *w, const char *alias)
{
	struct link l = kern_link(&w->node, "vf0");

	assert_true(mac_eq(&l.mac, &w->r.mac));
	assert_int_equal(l.mtu, 1400);
	assert_string_equal(l.alias, alias);
	assert_false(link_is_up(&l));
}

static void from_the_pod(void **state)
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
	OK(vf_restore_netdev(&w.home, &w.r, &f, &e));
	is_home(&w, "uplink");
	OK(altname_list(w.node.w, kern_link(&w.node, "vf0").index, &names, &n, &e));
	assert_int_equal(n, 2);
	str_list_free(names, n);
	close_way(&w);
}

/* An alternative name that is the old name (systemd adds such ones) does not keep it out. */
static void own_name_as_alternative(void **state)
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
	OK(vf_restore_netdev(&w.home, &w.r, &f, &e));
	is_home(&w, "");
	close_way(&w);
}

/* The namespace was deleted first; then killed before the alias was removed. */
static void from_the_node(void **state)
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
		OK(vf_restore_netdev(&w.home, &w.r, &f, &e));
		is_home(&w, "");
		close_way(&w);
	}
}

/* On the host and unchanged: it is not modified. */
static void untouched(void **state)
{
	struct vf_found f;
	struct way w;

	(void)state;
	open_way(&w);
	f = found_in(&w.node, VF_ON_NODE, "vf0");
	f.leftover = false;
	OK(vf_restore_netdev(&w.home, &w.r, &f, &e));
	assert_true(link_is_up(&(struct link){.flags = kern_link(&w.node, "vf0").flags}));
	close_way(&w);
}

static void name_is_taken(void **state)
{
	struct vf_found f;
	struct way w;

	(void)state;
	open_way(&w);
	into_pod(&w);
	kern_veth(&w.node, "vf0", "x");
	f = found_in(&w.pod, VF_IN_POD, "net1");
	FAILS(vf_restore_netdev(&w.home, &w.r, &f, &e), -EEXIST,
	      "failed to rename link net1 to host name vf0: File exists (EEXIST): the node has another link of that "
	      "name (rename that one, and this is tried again)");
	/* and it can be tried again */
	kern_link(&w.pod, "net1");
	close_way(&w);
}

/* A function that was removed or recreated has nothing to restore. */
static void gone_or_anew(void **state)
{
	struct vf_record r = {.by_unirail = true};
	struct vf_restore_state home;
	struct host_lab h;

	(void)state;
	host_unpack(&h, "qemu_igb.tree");
	home = (struct vf_restore_state){.root = &h.root};
	strcpy(r.device, "0000:01:10.4");
	OK(vf_restore(&home, &r, 0, &e));
	/* another kind of function has the address by now */
	strcpy(r.device, "0000:01:00.0");
	OK(vf_restore(&home, &r, 0, &e));
	strcpy(r.device, "0000:01:10.0");
	r.instance = xstrdup("1");
	OK(vf_restore(&home, &r, 0, &e));
	free(r.instance);
	r.instance = NULL;
	host_write(&h, "/proc/sys/kernel/random/boot_id", "b-2");
	r.boot = xstrdup("b-1");
	OK(vf_restore(&home, &r, 0, &e));
	free(r.boot);
	host_remove(&h);
}

/*
 * A permanent refusal of a driver does not block the pod's deletion, and the VF is not allocated
 * again.
 */
static void refused_for_now(void **state)
{
	auto_nl struct nl_wire *w = kern_replay("vf_home_rate.nl");
	struct vf_record r = {.dpdk = true, .was = {.spoofchk = -1, .trust = -1}};
	struct vf_restore_state home;
	struct host_lab h;

	(void)state;
	host_unpack(&h, "qemu_igb.tree");
	home = (struct vf_restore_state){.root = &h.root, .host = w};
	strcpy(r.device, "0000:01:10.0");
	assert_int_equal(vf_restore(&home, &r, 0, &e), 1);
	FAILS(vf_restore(&home, &r, VF_RESTORE_STRICT, &e), -EINVAL,
	      "set VF 0 of 'eth1': min_tx_rate 0 max_tx_rate 0: Invalid argument (EINVAL) (more than the link has, or "
	      "PF 'eth1' has no carrier)");
	assert_int_equal(vf_restore(&home, &r, VF_RESTORE_STRICT, &e), 0);
	OK(nl_replay_finished(w, &e));
	host_remove(&h);
}

/* A read error does not mean that there is none: the PF's directory cannot be read. */
static void unknown(void **state)
{
	struct vf_record r = {.by_unirail = true};
	auto_free char *pf = NULL;
	struct vf_restore_state home;
	struct host_lab h;

	(void)state;
	host_unpack(&h, "qemu_igb.tree");
	home = (struct vf_restore_state){.root = &h.root};
	pf = xasprintf("%s/sys/bus/pci/devices/0000:01:00.0", h.dir);
	assert_int_equal(unlink(pf), 0);
	assert_int_equal(symlink("0000:01:00.0", pf), 0);
	strcpy(r.device, "0000:01:10.0");
	assert_int_equal(vf_restore(&home, &r, 0, &e), -ELOOP);
	assert_non_null(strstr(e.text, "find VF '0000:01:10.0'"));
	host_remove(&h);
}

static void names_of_the_kernel(void **state)
{
	(void)state;
	assert_true(vf_restore_is_kernel_name("dev12"));
	assert_false(vf_restore_is_kernel_name("dev"));
	assert_false(vf_restore_is_kernel_name("dev1a"));
	assert_false(vf_restore_is_kernel_name("eth1"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(late),
		cmocka_unit_test(cannot),
		cmocka_unit_test(no_way_back_to_no_mac),
		cmocka_unit_test(busy_for_ever),
		cmocka_unit_test(from_the_pod),
		cmocka_unit_test(own_name_as_alternative),
		cmocka_unit_test(from_the_node),
		cmocka_unit_test(untouched),
		cmocka_unit_test(name_is_taken),
		cmocka_unit_test(gone_or_anew),
		cmocka_unit_test(refused_for_now),
		cmocka_unit_test(unknown),
		cmocka_unit_test(names_of_the_kernel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
