/* SPDX-License-Identifier: Apache-2.0 */
/* Links: recorded lists, links that this kernel creates and changes, and the messages for kinds
 * that this kernel may lack. */
#include "kern_lab.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/if.h>
#include <linux/if_arp.h>
#include <linux/rtnetlink.h>

#include "base/alloc.h"
#include "base/file.h"
#include "kern/netlink/attr.h"
#include "kern/sys/netns.h"
#include "kern/sys/sysctl.h"

enum { OPERSTATE_UP = 6 };

static bool has_carrier(const struct link *l)
{
	return l->flags & IFF_LOWER_UP;
}

/* --- lists --- */

static void test_recorded_link_dump_is_decoded(void **state)
{
	auto_nl struct nl_wire *w = kern_replay("link_list.nl");
	auto_free struct link *list = NULL;
	const struct link *l;
	size_t n;

	(void)state;
	OK(link_list(w, &list, &n, &e));
	OK(nl_replay_finished(w, &e));
	ASSERT_EQ(n, 5);
	for (size_t i = 1; i < n; i++)
		assert_true(list[i - 1].index < list[i].index);
	l = link_find(list, n, "lo");
	ASSERT_EQ(l->index, 1);
	assert_true(link_is_loopback(l) && link_is_up(l) && has_carrier(l));
	ASSERT_EQ(l->arptype, ARPHRD_LOOPBACK);
	ASSERT_EQ(l->mtu, 65536);
	ASSERT_STR_EQ(l->kind, "");
	ASSERT_EQ(l->parent_netnsid, -1);
	l = link_find(list, n, "rail0");
	ASSERT_STR_EQ(l->kind, "veth");
	ASSERT_STR_EQ(l->alias, "first rail");
	ASSERT_EQ(l->mtu, 9000);
	ASSERT_EQ(l->txqlen, 500);
	ASSERT_EQ(l->group, LINK_GROUP);
	assert_true(link_is_up(l) && has_carrier(l) && !link_is_loopback(l));
	ASSERT_EQ(l->operstate, OPERSTATE_UP);
	ASSERT_EQ(l->parent, link_find(list, n, "far0")->index);
	ASSERT_EQ(l->mac.len, 6);
	ASSERT_EQ(l->master, 0);
	l = link_find(list, n, "far0");
	ASSERT_EQ(l->master, link_find(list, n, "br0")->index);
	ASSERT_EQ(l->promisc, 1);
	l = link_find(list, n, "mv0");
	ASSERT_STR_EQ(l->kind, "macvlan");
	ASSERT_EQ(l->macvlan_mode, MACVLAN_VEPA);
	assert_false(link_is_up(l));
	assert_ptr_equal(link_find_index(list, n, l->index), l);
	assert_null(link_find(list, n, "gone"));
	assert_null(link_find_index(list, n, 4711));
}

static void use_list(struct nl_wire *w)
{
	struct link *list = NULL;
	size_t n = 0;

	if (link_list(w, &list, &n, NULL) == 0) {
		for (size_t i = 0; i < n; i++)
			assert_true(strlen(list[i].name) < LINK_NAME_MAX);
	}
	free(list);
}

static void test_mutated_link_dumps_do_not_crash(void **state)
{
	(void)state;
	kern_mutate("link_list.nl", 3000, use_list);
}

static void test_link_name_is_ok_if_the_kernel_accepts_it(void **state)
{
	static const char *const good[] = {"a", "net1", "ens1.100", "123456789012345", "..."};
	static const char *const bad[] = {
		"", ".", "..", "1234567890123456", "a/b", "a:b", "a b", "a\tb", "a\nb", "a\xa0"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		assert_true(link_name_ok(good[i]));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_false(link_name_ok(bad[i]));
}

static void test_link_is_found_by_name_or_index(void **state)
{
	struct link l;
	struct kern_lab lab;

	(void)state;
	kern_open(&lab);
	OK(link_get(lab.w, "lo", &l, &e));
	ASSERT_EQ(l.index, 1);
	OK(link_get_index(lab.w, 1, &l, &e));
	ASSERT_STR_EQ(l.name, "lo");
	FAILS(link_get(lab.w, "net1", &l, &e), -ENODEV, "look up link 'net1': Link not found");
	FAILS(link_get(lab.w, "", &l, &e), -ENODEV, "look up link '': Link not found");
	FAILS(link_get(lab.w, "a-name-that-only-altnames-have", &l, &e), -ENODEV,
	      "look up link 'a-name-that-only-altnames-have': Link not found");
	FAILS(link_get_index(lab.w, 4711, &l, &e), -ENODEV, "look up link 4711: Link not found");
	FAILS(link_get_index(lab.w, 0, &l, &e), -ENODEV, "look up link 0: Link not found");
	kern_close(&lab);
}

/* --- creation by this kernel --- */

/* The host's socket creates a macvlan link directly in the pod's namespace; one message sets all
 * its attributes. */
static void test_macvlan_is_created_in_the_pods_namespace(void **state)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct link_spec s = LINK_SPEC_INIT;
	struct kern_lab host, pod;
	struct link l;
	int parent;

	(void)state;
	kern_open(&host);
	kern_open(&pod);
	parent = kern_veth(&host, "ens1", "wire1");
	s.name = "net1";
	s.kind = "macvlan";
	s.parent = parent;
	s.netns_fd = pod.ns;
	s.mac = t_mac("02:00:00:00:00:17");
	s.mtu = 1400;
	s.txqlen = 321;
	s.group = LINK_GROUP;
	s.up = true;
	s.macvlan_mode = MACVLAN_PRIVATE;
	s.macvlan_bcqueuelen = 2000;
	link_add(b, &s);
	kern_commit(&host, b);
	l = kern_link(&pod, "net1");
	ASSERT_STR_EQ(l.kind, "macvlan");
	assert_true(mac_eq(&l.mac, &s.mac));
	ASSERT_EQ(l.mtu, 1400);
	ASSERT_EQ(l.txqlen, 321);
	ASSERT_EQ(l.group, LINK_GROUP);
	ASSERT_EQ(l.macvlan_mode, MACVLAN_PRIVATE);
	ASSERT_EQ(l.parent, parent);
	assert_true(l.parent_netnsid >= 0);
	assert_true(link_is_up(&l) && has_carrier(&l));
	/* The name now exists in the pod, so creating it again fails. */
	s.mac.b[5]++;
	link_add(b, &s);
	FAILS(nl_batch_commit(host.w, b, &e), -EEXIST,
	      "create macvlan 'net1': File exists (EEXIST)");
	nl_batch_reset(b);
	/* One message deletes the whole group; deleting an empty group is not an error. */
	link_del_group(b, LINK_GROUP);
	link_del_group(b, LINK_GROUP);
	kern_commit(&pod, b);
	ASSERT_EQ(link_get(pod.w, "net1", &l, NULL), -ENODEV);
	kern_link(&host, "ens1");
	kern_close(&host);
	kern_close(&pod);
}

static void test_macvlan_is_created_in_every_mode(void **state)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	static const uint32_t modes[] = {0, MACVLAN_PRIVATE, MACVLAN_VEPA, MACVLAN_BRIDGE,
					 MACVLAN_PASSTHRU};
	struct link_spec s = LINK_SPEC_INIT;
	struct kern_lab lab;

	(void)state;
	kern_open(&lab);
	s.parent = kern_veth(&lab, "ens1", "wire1");
	s.name = "net1";
	s.kind = "macvlan";
	for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
		struct link l;

		s.macvlan_mode = modes[i];
		link_add(b, &s);
		kern_commit(&lab, b);
		l = kern_link(&lab, "net1");
		ASSERT_EQ_MSG(l.macvlan_mode, modes[i] ? modes[i] : MACVLAN_BRIDGE, "modes[%zu]",
			      i);
		link_del(b, 0, "net1");
		kern_commit(&lab, b);
	}
	kern_close(&lab);
}

/* One message creates both ends, with their names and MAC addresses, in two namespaces. The
 * process is in a third one. */
static void test_veth_is_created_between_namespaces(void **state)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct link_spec s = LINK_SPEC_INIT;
	struct kern_lab host, pod;
	struct link l, p;

	(void)state;
	kern_open(&host);
	kern_open(&pod);
	s.name = "eth0";
	s.kind = "veth";
	s.netns_fd = pod.ns;
	s.mac = t_mac("02:00:00:00:00:01");
	s.mtu = 1234;
	s.group = LINK_GROUP;
	s.up = true;
	s.peer_name = "veth0123456789a";
	s.peer_mac = t_mac("02:00:00:00:00:02");
	s.peer_up = true;
	link_add(b, &s);
	kern_commit(&host, b);
	l = kern_link(&pod, "eth0");
	/* peer_netns_fd -1 is the namespace of the socket, not that of the first end. */
	p = kern_link(&host, "veth0123456789a");
	assert_true(mac_eq(&l.mac, &s.mac) && mac_eq(&p.mac, &s.peer_mac));
	ASSERT_EQ(l.mtu, 1234);
	ASSERT_EQ(p.mtu, 1234);
	ASSERT_EQ(l.group, LINK_GROUP);
	ASSERT_EQ(p.group, 0);
	assert_true(has_carrier(&l) && has_carrier(&p));
	ASSERT_EQ(l.parent, p.index);
	ASSERT_EQ(p.parent, l.index);
	kern_close(&host);
	kern_close(&pod);
}

/* The message that creates the pair also sets the peer's state to up: link_add() describes the
 * peer in the message itself and the link in VETH_INFO_PEER. A second message would not reach
 * the peer's namespace. */
static void test_veth_peer_in_another_namespace_has_state_up(void **state)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct link_spec s = LINK_SPEC_INIT;
	struct kern_lab host, pod;
	struct link l, p;

	(void)state;
	kern_open(&host);
	kern_open(&pod);
	s.name = "here";
	s.kind = "veth";
	s.mac = t_mac("02:00:00:00:00:01");
	s.group = LINK_GROUP;
	s.up = true;
	s.peer_name = "there";
	s.peer_mac = t_mac("02:00:00:00:00:02");
	s.peer_netns_fd = pod.ns;
	s.peer_up = true;
	ASSERT_EQ(link_add(b, &s), 0);
	kern_commit(&host, b);
	l = kern_link(&host, "here");
	p = kern_link(&pod, "there");
	assert_true(mac_eq(&l.mac, &s.mac) && mac_eq(&p.mac, &s.peer_mac));
	ASSERT_EQ(l.group, LINK_GROUP);
	ASSERT_EQ(p.group, 0);
	assert_true(has_carrier(&l) && has_carrier(&p));
	s.name = "eth1";
	s.netns_fd = pod.ns;
	link_add(b, &s);
	FAILS(nl_batch_commit(host.w, b, &e), -EINVAL,
	      "create veth 'eth1': Invalid argument (EINVAL): if the peer is to be up in another namespace, the link "
	      "itself can neither be up in another namespace nor be a bridge port");
	kern_close(&host);
	kern_close(&pod);
}

static void test_veth_is_created_as_port_of_a_bridge(void **state)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct link_spec s = LINK_SPEC_INIT;
	struct kern_lab lab;

	(void)state;
	kern_open(&lab);
	s.name = "br0";
	s.kind = "bridge";
	link_add(b, &s);
	kern_commit(&lab, b);
	s.name = "port0";
	s.kind = "veth";
	s.peer_name = "far0";
	s.master = kern_link(&lab, "br0").index;
	link_add(b, &s);
	kern_commit(&lab, b);
	ASSERT_EQ(kern_link(&lab, "port0").master, s.master);
	kern_close(&lab);
}

static void test_link_kind_missing_in_the_kernel_is_unsupported(void **state)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct link_spec s = LINK_SPEC_INIT;
	struct kern_lab lab;

	(void)state;
	kern_open(&lab);
	s.name = "net1";
	s.kind = "smokesignal";
	link_add(b, &s);
	FAILS(nl_batch_commit(lab.w, b, &e), -EOPNOTSUPP,
	      "create smokesignal 'net1': Operation not supported (EOPNOTSUPP): Unknown device type: load the kernel module "
	      "of this device type");
	ASSERT_EQ(e.kind, ERR_UNAVAILABLE);
	kern_close(&lab);
}

static void test_invalid_link_specs_are_refused(void **state)
{
	struct link_spec rows[] = {LINK_SPEC_INIT, LINK_SPEC_INIT, LINK_SPEC_INIT, LINK_SPEC_INIT};
	struct kern_lab lab;

	(void)state;
	kern_open(&lab);
	rows[0].name = "1234567890123456", rows[0].kind = "bridge";
	rows[1].name = "net1", rows[1].kind = "sixteen-letters!";
	rows[2].name = "net1", rows[2].kind = "veth";
	rows[3].name = "net1", rows[3].kind = "veth", rows[3].peer_name = "a/b";
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_batch struct nl_batch *b = nl_batch_new();

		link_add(b, &rows[i]);
		ASSERT_EQ_MSG(nl_batch_commit(lab.w, b, &e), -EINVAL, "rows[%zu]", i);
	}
	ASSERT_STR_EQ(
		e.text,
		"create veth 'net1': Invalid argument (EINVAL): not an interface name: expected 1 to 15 "
		"bytes without '/', ':' or white space");
	kern_close(&lab);
}

static void test_group_zero_is_never_deleted(void **state)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct kern_lab lab;

	(void)state;
	kern_open(&lab);
	kern_veth(&lab, "ens1", "wire1");
	link_del_group(b, 0);
	FAILS(nl_batch_commit(lab.w, b, &e), -EINVAL,
	      "delete links of group 0: Invalid argument (EINVAL): group 0 is the default group of all links");
	kern_link(&lab, "ens1");
	kern_close(&lab);
}

/* --- messages for kinds that this kernel may lack, as sent on the socket --- */

/* Stores in `msg` the message that link_add() makes, as sent on the socket. */
static void sent(const struct link_spec *s, struct buf *msg)
{
	auto_fd int fd = memfd_create("record", MFD_CLOEXEC);
	auto_batch struct nl_batch *b = nl_batch_new();
	struct kern_lab lab;
	char text[4096];
	ssize_t n;

	kern_open(&lab);
	OK(nl_record_to(lab.w, fd, &e));
	link_add(b, s);
	nl_batch_commit(lab.w, b, NULL);
	n = pread(fd, text, sizeof(text) - 1, 0);
	assert_true(n > 0);
	text[n] = '\0';
	buf_init(msg, sizeof(text));
	for (const char *p = strstr(text, "> ") + 2; *p != '\n'; p += 2) {
		unsigned int byte;

		ASSERT_EQ(sscanf(p, "%2x", &byte), 1);
		buf_char(msg, (char)byte);
	}
	kern_close(&lab);
}

static uint16_t info_data(const struct link_spec *s, int type)
{
	struct nlattr *tb[IFLA_MAX + 1], *info[IFLA_INFO_MAX + 1], *data[IFLA_MACVLAN_MAX + 1];
	auto_buf struct buf msg = {0};
	char kind[32];

	sent(s, &msg);
	ASSERT_EQ(msg_attrs((struct nlmsghdr *)msg.p, sizeof(struct ifinfomsg), tb, IFLA_MAX), 0);
	ASSERT_EQ(get_u32(tb[IFLA_LINK], 0), s->parent);
	nested_attrs(tb[IFLA_LINKINFO], info, IFLA_INFO_MAX);
	get_str(info[IFLA_INFO_KIND], kind, sizeof(kind));
	ASSERT_STR_EQ(kind, s->kind);
	nested_attrs(info[IFLA_INFO_DATA], data, IFLA_MACVLAN_MAX);
	ASSERT_EQ(nla_len(data[type]), sizeof(uint16_t));
	return get_u16(data[type], 0);
}

static void test_ipvlan_and_vlan_messages_have_mode_and_id(void **state)
{
	struct link_spec s = LINK_SPEC_INIT;

	(void)state;
	s.name = "net1";
	s.parent = 4711;
	s.kind = "ipvlan";
	s.ipvlan_mode = IPVLAN_MODE_L3S;
	ASSERT_EQ(info_data(&s, IFLA_IPVLAN_MODE), IPVLAN_MODE_L3S);
	s.kind = "vlan";
	s.vlan_id = 4094;
	ASSERT_EQ(info_data(&s, IFLA_VLAN_ID), 4094);
}

/* --- changes --- */

static char *devconf(int ns, const char *key)
{
	struct netns_visit v = NETNS_VISIT_INIT;
	static char value[64];
	struct root root;

	OK(root_open(&root, "/", &e));
	OK(netns_enter(ns, &v, &e));
	OK(sysctl_get(&root, key, value, sizeof(value), &e));
	netns_leave(&v);
	root_close(&root);
	return value;
}

static void test_changes_of_a_link_in_one_message_are_applied(void **state)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct link_change c = {
		.set = LINK_SET_UP | LINK_SET_NAME | LINK_SET_MAC | LINK_SET_MTU | LINK_SET_TXQLEN |
		       LINK_SET_ARP_NOTIFY | LINK_SET_ALIAS | LINK_SET_GROUP | LINK_SET_RP_FILTER,
		.name = "net1",
		.alias = "ens1",
		.mac = {6, {2, 0, 0, 0, 0, 9}},
		.mtu = 2000,
		.txqlen = 77,
		.group = LINK_GROUP,
		.rp_filter = 2,
	};
	struct kern_lab lab;
	struct link l;
	int index;

	(void)state;
	kern_open(&lab);
	index = kern_veth(&lab, "ens1", "wire1");
	link_set(b, index, "ens1", &(struct link_change){.set = LINK_SET_DOWN});
	kern_commit(&lab, b);
	l = kern_link(&lab, "ens1");
	assert_false(link_is_up(&l));
	link_set(b, index, "ens1", &c);
	kern_commit(&lab, b);
	l = kern_link(&lab, "net1");
	ASSERT_EQ(l.index, index);
	assert_true(link_is_up(&l));
	assert_true(mac_eq(&l.mac, &c.mac));
	ASSERT_EQ(l.mtu, 2000);
	ASSERT_EQ(l.txqlen, 77);
	ASSERT_EQ(l.group, LINK_GROUP);
	ASSERT_STR_EQ(l.alias, "ens1");
	ASSERT_STR_EQ(devconf(lab.ns, "net/ipv4/conf/net1/arp_notify"), "1");
	ASSERT_STR_EQ(devconf(lab.ns, "net/ipv4/conf/net1/rp_filter"), "2");
	ASSERT_STR_EQ(devconf(lab.ns, "net/ipv4/conf/wire1/arp_notify"), "0");
	/* "" deletes the alias; index 0 selects the link by its name. */
	c = (struct link_change){.set = LINK_SET_ALIAS, .alias = ""};
	link_set(b, 0, "net1", &c);
	kern_commit(&lab, b);
	ASSERT_STR_EQ(kern_link(&lab, "net1").alias, "");
	kern_close(&lab);
}

static void test_link_is_moved_to_another_namespace(void **state)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct link_change c = {.set = LINK_SET_NETNS | LINK_SET_NAME | LINK_SET_UP,
				.name = "net1"};
	struct kern_lab host, pod;
	struct link l;
	int index;

	(void)state;
	kern_open(&host);
	kern_open(&pod);
	index = kern_veth(&host, "ens1", "wire1");
	c.netns_fd = pod.ns;
	link_set(b, index, "ens1", &c);
	kern_commit(&host, b);
	l = kern_link(&pod, "net1");
	assert_true(link_is_up(&l));
	ASSERT_EQ(link_get(host.w, "ens1", &l, NULL), -ENODEV);
	kern_close(&host);
	kern_close(&pod);
}

static void test_error_names_the_refused_change_of_a_link(void **state)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct link_change c = {
		.set = LINK_SET_UP | LINK_SET_MTU | LINK_SET_NAME, .mtu = 9000, .name = "net1"};
	char alias[LINK_ALIAS_MAX + 1] = {0};
	struct kern_lab lab;

	(void)state;
	kern_open(&lab);
	link_set(b, 4711, "ens1", &c);
	FAILS(nl_batch_commit(lab.w, b, &e), -ENODEV,
	      "set link 'ens1' name 'net1', mtu 9000, up: No such device (ENODEV)");
	nl_batch_reset(b);
	memset(alias, 'a', LINK_ALIAS_MAX);
	c = (struct link_change){.set = LINK_SET_ALIAS, .alias = alias};
	link_set(b, 1, "lo", &c);
	ASSERT_EQ(nl_batch_commit(lab.w, b, NULL), -EINVAL);
	nl_batch_reset(b);
	c = (struct link_change){.set = LINK_SET_NAME, .name = "a b"};
	link_set(b, 1, "lo", &c);
	ASSERT_EQ(nl_batch_commit(lab.w, b, NULL), -EINVAL);
	nl_batch_reset(b);
	c = (struct link_change){.set = LINK_SET_NAME, .name = "net1"};
	link_set(b, 0, "lo", &c);
	FAILS(nl_batch_commit(lab.w, b, &e), -EINVAL,
	      "set link 'lo' name 'net1': Invalid argument (EINVAL): a new name needs the link's index");
	kern_close(&lab);
}

static void test_random_macs_are_local_unicast(void **state)
{
	struct mac a = mac_random(), b = mac_random();

	(void)state;
	ASSERT_EQ(a.len, 6);
	ASSERT_EQ(a.b[0] & 3, 2);
	ASSERT_EQ(b.b[0] & 3, 2);
	assert_false(mac_eq(&a, &b));
}

static void test_ipoib_child_is_created(void **state)
{
	auto_nl struct nl_wire *w = kern_replay("ipoib.nl");
	auto_batch struct nl_batch *b = nl_batch_new();
	struct link_spec s = LINK_SPEC_INIT;
	enum { PF = 7 };
	struct link link;

	(void)state;
	s.name = "net1";
	s.kind = "ipoib";
	s.parent = PF;
	s.ipoib_pkey = 0x8005;
	s.ipoib_mode = LINK_IPOIB_CONNECTED;
	s.ipoib_umcast = true;
	link_add(b, &s);
	OK(nl_batch_commit(w, b, &e));
	OK(link_get(w, "net1", &link, &e));
	OK(nl_replay_finished(w, &e));
	ASSERT_STR_EQ(link.kind, "ipoib");
	ASSERT_EQ(link.ipoib_pkey, 0x8005);
	ASSERT_EQ(link.ipoib_mode, LINK_IPOIB_CONNECTED);
	assert_true(link.ipoib_umcast);
	ASSERT_EQ(link.mac.len, 20);
	ASSERT_EQ(link.parent, PF);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_recorded_link_dump_is_decoded),
		cmocka_unit_test(test_mutated_link_dumps_do_not_crash),
		cmocka_unit_test(test_link_name_is_ok_if_the_kernel_accepts_it),
		cmocka_unit_test(test_link_is_found_by_name_or_index),
		cmocka_unit_test(test_macvlan_is_created_in_the_pods_namespace),
		cmocka_unit_test(test_macvlan_is_created_in_every_mode),
		cmocka_unit_test(test_veth_is_created_between_namespaces),
		cmocka_unit_test(test_veth_peer_in_another_namespace_has_state_up),
		cmocka_unit_test(test_veth_is_created_as_port_of_a_bridge),
		cmocka_unit_test(test_link_kind_missing_in_the_kernel_is_unsupported),
		cmocka_unit_test(test_invalid_link_specs_are_refused),
		cmocka_unit_test(test_group_zero_is_never_deleted),
		cmocka_unit_test(test_ipvlan_and_vlan_messages_have_mode_and_id),
		cmocka_unit_test(test_changes_of_a_link_in_one_message_are_applied),
		cmocka_unit_test(test_link_is_moved_to_another_namespace),
		cmocka_unit_test(test_error_names_the_refused_change_of_a_link),
		cmocka_unit_test(test_random_macs_are_local_unicast),
		cmocka_unit_test(test_ipoib_child_is_created),
	};

	return T_RUN(tests, NULL, NULL);
}
