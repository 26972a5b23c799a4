/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that decide for ADD, DEL and CHECK of rails, on plain structs without a kernel. */
#include "testlib.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cni/attach/attach.h"

enum { NET1 = 4, NET2 = 5 };

static struct err e;

static void says(const char *word)
{
	if (!strstr(e.text, word))
		fail_msg("'%s' is not in '%s'", word, e.text);
}

/* --- names --- */

static int names(const char *a, const char *b, const char *there)
{
	const struct rail rails[] = {
		{.kind = &macvlan_kind, .ifname = a, .label = "rail 'a' (one)"},
		{.kind = &macvlan_kind, .ifname = b, .label = "rail 'b' (two)"}};
	struct link pod[2] = {{.index = 1, .name = "lo"}, {.index = 2}};

	err_clear(&e);
	str_copy(pod[1].name, sizeof(pod[1].name), there);
	return attach_check_names(rails, 2, pod, 2, &e);
}

static void test_interface_names_in_use_or_invalid_are_refused(void **state)
{
	(void)state;
	ASSERT_EQ(names("net1", "net2", "eth0"), 0);
	ASSERT_EQ(names("net1", "net2", "net2"), -EEXIST);
	says("rail 'b' (two): create macvlan 'net2' in the pod: File exists (EEXIST)");
	ASSERT_EQ(names("net1", "net1", "eth0"), -EEXIST);
	says("another network");
	ASSERT_EQ(names("net1", "a/b", "eth0"), -EINVAL);
	says("'a/b' is not an interface name");
	ASSERT_EQ(names("", "net2", "eth0"), -EINVAL);
	ASSERT_EQ(names("lo", "net2", "eth0"), -EEXIST);
}

static struct rail rail_on(const struct link_driver *k, const char *ifname, int master)
{
	return (struct rail){.kind = k,
			     .ifname = ifname,
			     .label = ifname,
			     .master = {.index = master, .name = "ens1"}};
}

static void test_second_rail_with_the_same_vlan_or_moved_device_is_refused(void **state)
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
	says("net2: 'ens1' is already used by 'net1' of this pod");
	/* ens1 of the pod is another device than ens1 of the host */
	r[1].conf.in_container = true;
	ASSERT_EQ(attach_check_devices(r, 4, &e), 0);
	r[3].master.index = 4;
	assert_true(attach_check_devices(r, 4, &e) < 0);
	says("net4: 'ens1' is already used by 'net1'");
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

/* --- routes --- */

static void test_route_without_gateway_gets_the_first_gateway_of_its_family(void **state)
{
	struct cni_ip ips[] = {{t_net("172.16.1.20/24"), t_ip("172.16.1.1"), -1},
			       {t_net("172.16.1.21/24"), t_ip("172.16.1.2"), -1},
			       {t_net("fd00::20/64"), {0}, -1}};
	struct cni_route routes[] = {
		{.dst = t_net("0.0.0.0/0")},
		{.dst = t_net("10.0.0.0/8"),
		 .gw = t_ip("172.16.1.9"),
		 .mtu = 1400,
		 .advmss = 1300,
		 .priority = 7,
		 .has_table = true,
		 .table = 42,
		 .has_scope = true,
		 .scope = SCOPE_LINK},
		{.dst = t_net("::/0")},
	};
	const struct cni_result got = {.ips = ips, .n_ips = 3, .routes = routes, .n_routes = 3};
	struct route *list;
	struct ipaddr first = t_ip("172.16.1.1"), own = t_ip("172.16.1.9");

	(void)state;
	ASSERT_EQ(attach_routes(&got, NET1, &list), 3);
	assert_true(ip_eq(&list[0].gw, &first) && list[0].index == NET1 && !list[0].table);
	assert_true(ip_eq(&list[1].gw, &own) && list[1].table == 42 && list[1].priority == 7);
	/* CNI plugins 1.1.1 ignore these fields */
	assert_true(list[1].mtu == 1400 && list[1].advmss == 1300 && list[1].scope == SCOPE_LINK);
	assert_true(list[2].family == 6 && !list[2].gw.family);
	free(list);
}

/* --- group delete --- */

/* A device that was moved into the pod is not in LINK_GROUP, so a deletion of the group does not
 * affect it. */
static void test_moved_device_does_not_prevent_the_deletion_of_the_link_group(void **state)
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

static void test_group_with_a_link_of_another_program_is_not_deleted(void **state)
{
	struct link pod[] = {{.name = "lo"},
			     {.name = "net1", .group = LINK_GROUP},
			     {.name = "net2", .group = LINK_GROUP},
			     {.name = "veth0", .group = LINK_GROUP},
			     {.name = "eth0"}};
	static const char *const both[] = {"net1", "net2", "veth0"};

	(void)state;
	assert_true(attach_group_is_of_pod(pod, 5, both, 3));
	/* another program created one link of the group */
	assert_false(attach_group_is_of_pod(pod, 5, both, 2));
	/* fewer than two links of the group: they are deleted by name */
	assert_false(attach_group_is_of_pod(pod, 2, both, 3));
	assert_false(attach_group_is_of_pod(pod, 1, both, 3));
}

/* --- CHECK --- */

struct fixture {
	struct link links[2];
	struct addr addrs[2];
	struct route routes[3];
	struct attach_seen seen;
	struct cni_iface ifaces[2];
	struct cni_ip ips[2];
	struct cni_route result_routes[2];
	struct cni_result prev;
	struct rail rail;
};

static void fixture(struct fixture *f)
{
	*f = (struct fixture){0};
	f->links[0] = (struct link){.index = NET1,
				    .name = "net1",
				    .kind = "macvlan",
				    .parent = 9,
				    .macvlan_mode = MACVLAN_BRIDGE};
	ASSERT_EQ(mac_parse(span_of("0a:00:00:00:00:01"), &f->links[0].mac), 0);
	f->links[1] = (struct link){.index = NET2, .name = "net2", .kind = "macvlan"};
	f->addrs[0] = (struct addr){.index = NET1, .net = t_net("172.16.1.20/24")};
	f->addrs[1] = (struct addr){.index = NET2, .net = t_net("172.16.2.20/24")};
	/*
	 * as the coordinator leaves the routes: connected routes in main, net1's default route in
	 * table 101
	 */
	f->routes[0] = (struct route){
		.dst = t_net("172.16.1.0/24"), .index = NET1, .table = TABLE_MAIN, .family = 4};
	f->routes[1] = (struct route){.dst = t_net("0.0.0.0/0"),
				      .gw = t_ip("172.16.1.1"),
				      .index = NET1,
				      .table = 101,
				      .family = 4};
	f->routes[2] = (struct route){
		.dst = t_net("172.16.2.0/24"), .index = NET2, .table = TABLE_MAIN, .family = 4};
	f->seen = (struct attach_seen){f->links, 2, f->addrs, 2, f->routes, 3};
	f->ifaces[0] = (struct cni_iface){.name = (char *)"cni0"};
	f->ifaces[1] = (struct cni_iface){.name = (char *)"net1",
					  .mac = (char *)"0a:00:00:00:00:01",
					  .sandbox = (char *)"/run/netns/p"};
	f->ips[0] = (struct cni_ip){t_net("172.16.1.20/24"), t_ip("172.16.1.1"), 1};
	f->result_routes[0] = (struct cni_route){.dst = t_net("0.0.0.0/0")};
	f->prev = (struct cni_result){.ifaces = f->ifaces,
				      .n_ifaces = 2,
				      .ips = f->ips,
				      .n_ips = 1,
				      .routes = f->result_routes,
				      .n_routes = 1};
	f->rail.kind = &macvlan_kind;
	f->rail.ifname = "net1";
	f->rail.conf.macvlan.mode = MACVLAN_BRIDGE;
}

static int check(struct fixture *f, const char *netns)
{
	int r;

	err_clear(&e);
	r = attach_check(&f->seen, &f->rail, 9, &f->prev, netns, &e);
	return r < 0 ? r : attach_check_routes(&f->seen, &f->prev, "net1", &e);
}

/* The originals read only table main, so their CHECK fails after sbr or the coordinator has moved
 * a route. */
static void test_check_accepts_routes_moved_to_another_table(void **state)
{
	struct fixture f;

	(void)state;
	fixture(&f);
	ASSERT_OK(check(&f, "/run/netns/p"), &e);
	f.routes[0].table = 101; /* sbr also moves the connected route */
	ASSERT_EQ(check(&f, "/run/netns/p"), 0);
}

static void test_check_reports_each_difference_from_prev_result_and_netconf(void **state)
{
	struct fixture f;

	(void)state;
	fixture(&f);
	assert_true(check(&f, "/run/netns/q") < 0);
	says("sandbox in prevResult /run/netns/p doesn't match configured netns: /run/netns/q");
	fixture(&f);
	f.links[0].index = 77;
	str_copy(f.links[0].name, sizeof(f.links[0].name), "other");
	assert_true(check(&f, "/run/netns/p") < 0);
	says("'net1': Link not found");
	fixture(&f);
	str_copy(f.links[0].kind, sizeof(f.links[0].kind), "veth");
	assert_true(check(&f, "/run/netns/p") < 0);
	says("error: Container interface net1 not of type macvlan");
	fixture(&f);
	f.links[0].macvlan_mode = MACVLAN_VEPA;
	assert_true(check(&f, "/run/netns/p") < 0);
	says("container macvlan mode vepa does not match expected value: bridge");
	fixture(&f);
	f.links[0].parent = 8;
	assert_true(check(&f, "/run/netns/p") < 0);
	fixture(&f);
	f.links[0].mac.b[5] = 9;
	assert_true(check(&f, "/run/netns/p") < 0);
	says("Mac 0a:00:00:00:00:01 doesn't match container Mac: 0a:00:00:00:00:09");
	fixture(&f);
	f.addrs[0].index = NET2;
	assert_true(check(&f, "/run/netns/p") < 0);
	says("Failed to match addr 172.16.1.20/24 on interface net1");
	fixture(&f);
	f.routes[0].index = NET2;
	assert_true(check(&f, "/run/netns/p") < 0);
	says("Failed to find Gateway 172.16.1.1 for interface net1");
	fixture(&f);
	f.routes[1].index = NET2;
	assert_true(check(&f, "/run/netns/p") < 0);
	says("Expected Route 0.0.0.0/0 not found in routing table");
}

static void test_check_expects_no_connected_route_of_an_address_with_prefix_length_32(void **state)
{
	struct fixture f;

	(void)state;
	fixture(&f);
	f.addrs[0].net = f.ips[0].address = t_net("172.16.1.20/32");
	f.routes[0].index = NET2;
	ASSERT_EQ(check(&f, "/run/netns/p"), 0);
}

/* The kernel lists IPv6 default routes of several NICs as one route with several hops. */
static void test_check_finds_a_route_among_multipath_hops(void **state)
{
	struct route_hop hops[] = {{NET2, t_ip("fd01::1"), 1}, {NET1, t_ip("fd00::1"), 1}};
	struct fixture f;

	(void)state;
	fixture(&f);
	f.routes[1] = (struct route){
		.dst = t_net("::/0"), .family = 6, .table = TABLE_MAIN, .hops = hops, .n_hops = 2};
	f.result_routes[0] = (struct cni_route){.dst = t_net("::/0"), .gw = t_ip("fd00::1")};
	ASSERT_EQ(check(&f, "/run/netns/p"), 0);
	hops[1].gw = t_ip("fd00::2");
	assert_true(check(&f, "/run/netns/p") < 0);
}

/* In a result of several networks, a route belongs to the network that contains its gateway. */
static void test_route_belongs_to_the_network_of_its_gateway(void **state)
{
	struct cni_ip ips[] = {{t_net("172.16.1.20/24"), {0}, 0},
			       {t_net("172.16.2.20/24"), {0}, 1}};
	const struct cni_result prev = {.ips = ips, .n_ips = 2};
	const struct cni_route first = {.dst = t_net("0.0.0.0/0"), .gw = t_ip("172.16.1.1")};
	const struct cni_route nobodys = {.dst = t_net("0.0.0.0/0")};
	struct cni_result alone = prev;

	(void)state;
	assert_true(attach_route_is_of(&prev, 0, &first));
	assert_false(attach_route_is_of(&prev, 1, &first));
	assert_false(attach_route_is_of(&prev, 0, &nobodys));
	alone.n_ips = 1;
	assert_true(attach_route_is_of(&alone, 0, &nobodys));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_interface_names_in_use_or_invalid_are_refused),
		cmocka_unit_test(test_second_rail_with_the_same_vlan_or_moved_device_is_refused),
		cmocka_unit_test(test_rail_without_link_may_have_a_name_in_use),
		cmocka_unit_test(test_moved_device_does_not_prevent_the_deletion_of_the_link_group),
		cmocka_unit_test(test_route_without_gateway_gets_the_first_gateway_of_its_family),
		cmocka_unit_test(test_group_with_a_link_of_another_program_is_not_deleted),
		cmocka_unit_test(test_check_accepts_routes_moved_to_another_table),
		cmocka_unit_test(test_check_reports_each_difference_from_prev_result_and_netconf),
		cmocka_unit_test(
			test_check_expects_no_connected_route_of_an_address_with_prefix_length_32),
		cmocka_unit_test(test_check_finds_a_route_among_multipath_hops),
		cmocka_unit_test(test_route_belongs_to_the_network_of_its_gateway),
	};

	return T_RUN(tests, NULL, NULL);
}
