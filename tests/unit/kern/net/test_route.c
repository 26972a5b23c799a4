/* SPDX-License-Identifier: Apache-2.0 */
#include "kern_lab.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "kern/net/addr.h"
#include "kern/net/route.h"

enum { PROTOCOL_KERNEL = 2, PROTOCOL_BOOT = 3, TYPE_UNICAST = 1, TYPE_BLACKHOLE = 6 };

static const struct route *find(const struct route *list, size_t n, const char *dst, uint32_t table)
{
	struct ipnet net = t_net(dst);

	for (size_t i = 0; i < n; i++) {
		if (ipnet_eq(&list[i].dst, &net) && list[i].table == table)
			return &list[i];
	}
	return NULL;
}

static bool goes_via(const struct ipaddr *gw, const char *text)
{
	struct ipaddr want = t_ip(text);

	return ip_eq(gw, &want);
}

static void check_multipath(const struct route *r, const char *one, const char *two)
{
	ASSERT_EQ(r->index, 0);
	ASSERT_EQ(r->n_hops, 2);
	ASSERT_EQ(r->hops[0].index, 3);
	ASSERT_EQ(r->hops[1].index, 5);
	assert_true(goes_via(&r->hops[0].gw, one));
	assert_true(goes_via(&r->hops[1].gw, two));
	ASSERT_EQ(r->hops[0].weight, 1);
	ASSERT_EQ(r->hops[1].weight, 3);
}

static void test_recorded_route_dump_is_decoded(void **state)
{
	auto_nl struct nl_wire *w = kern_replay("route_list.nl");
	const struct route *r;
	struct route *list;
	size_t n;

	(void)state;
	OK(route_list(w, 0, 0, &list, &n, &e));
	OK(nl_replay_finished(w, &e));
	ASSERT_EQ(n, 29);
	r = find(list, n, "0.0.0.0/0", 101);
	assert_true(ipnet_is_default(&r->dst) && goes_via(&r->gw, "10.1.0.1"));
	assert_true(goes_via(&r->src, "10.1.0.2"));
	ASSERT_EQ(r->index, 3);
	ASSERT_EQ(r->priority, 50);
	ASSERT_EQ(r->mtu, 1400);
	ASSERT_EQ(r->advmss, 1360);
	ASSERT_EQ(r->protocol, PROTOCOL_BOOT);
	ASSERT_EQ(r->type, TYPE_UNICAST);
	r = find(list, n, "10.9.0.0/16", 70000);
	assert_true(r->onlink);
	ASSERT_EQ(r->index, 5);
	r = find(list, n, "10.1.0.1/32", 101);
	ASSERT_EQ(r->scope, SCOPE_LINK);
	ASSERT_EQ(r->gw.family, 0);
	check_multipath(find(list, n, "10.10.0.0/16", 101), "10.1.0.1", "10.2.0.1");
	check_multipath(find(list, n, "::/0", 101), "fd00:1::1", "fd00:2::1");
	r = find(list, n, "10.11.0.0/16", 101);
	ASSERT_EQ(r->family, 4);
	assert_true(goes_via(&r->gw, "fd00:1::1"));
	r = find(list, n, "10.1.0.0/24", TABLE_MAIN);
	ASSERT_EQ(r->protocol, PROTOCOL_KERNEL);
	assert_true(goes_via(&r->src, "10.1.0.2"));
	assert_non_null(find(list, n, "127.0.0.0/8", TABLE_LOCAL));
	route_list_free(list, n);
}

static void use_list(struct nl_wire *w)
{
	struct route *list = NULL;
	size_t n = 0;

	if (route_list(w, 0, 0, &list, &n, NULL) == 0) {
		for (size_t i = 0; i < n; i++)
			assert_true(list[i].dst.len <= ip_bits(&list[i].dst.ip));
		route_list_free(list, n);
	}
}

static void test_mutated_route_dumps_do_not_crash(void **state)
{
	(void)state;
	kern_mutate("route_list.nl", 3000, use_list);
}

/* --- this kernel --- */

struct routed {
	struct kern_lab lab;
	int one, two;
	struct nl_batch *b;
};

static int setup(void **state)
{
	static const char *const nets[] = {"10.1.0.2/24", "fd00:1::2/64"};
	struct routed *r = calloc(1, sizeof(*r));

	kern_open(&r->lab);
	r->b = nl_batch_new();
	r->one = kern_veth(&r->lab, "net1", "far1");
	r->two = kern_veth(&r->lab, "net2", "far2");
	for (size_t i = 0; i < ARRAY_LEN(nets); i++) {
		struct ipnet net = t_net(nets[i]);

		addr_add(r->b, r->one, "net1", &net, i ? ADDR_NODAD : 0);
		net.ip.b[i ? 3 : 1] = 2;
		addr_add(r->b, r->two, "net2", &net, i ? ADDR_NODAD : 0);
	}
	kern_commit(&r->lab, r->b);
	*state = r;
	return 0;
}

static int teardown(void **state)
{
	struct routed *r = *state;

	nl_batch_free(r->b);
	kern_close(&r->lab);
	free(r);
	return 0;
}

static struct route simple(const char *dst, const char *gw, int index, uint32_t table)
{
	struct route r = {.dst = t_net(dst), .index = index, .table = table};

	r.family = r.dst.ip.family;
	if (gw)
		r.gw = t_ip(gw);
	return r;
}

/* Expects one route in the table and returns it. */
static struct route only(struct routed *r, int family, uint32_t table)
{
	struct route *list, ret;
	size_t n;

	OK(route_list(r->lab.w, family, table, &list, &n, &e));
	ASSERT_EQ(n, 1);
	ret = list[0];
	if (ret.n_hops)
		ret.hops = memcpy(malloc(sizeof(*ret.hops) * ret.n_hops), ret.hops,
				  sizeof(*ret.hops) * ret.n_hops);
	route_list_free(list, n);
	return ret;
}

static size_t count(struct routed *r, int family, uint32_t table)
{
	struct route *list;
	size_t n;

	OK(route_list(r->lab.w, family, table, &list, &n, &e));
	route_list_free(list, n);
	return n;
}

static void test_added_route_is_listed_with_its_members(void **state)
{
	struct routed *r = *state;
	struct route in = simple("10.9.0.0/16", "10.99.0.1", r->one, 70000), out;

	in.src = t_ip("10.1.0.2");
	in.priority = 17;
	in.mtu = 1300;
	in.advmss = 1200;
	in.protocol = 99;
	in.onlink = true;
	route_add(r->b, &in, ROUTE_EXCL);
	kern_commit(&r->lab, r->b);
	out = only(r, 4, 70000);
	assert_memory_equal(&in.dst, &out.dst, sizeof(in.dst));
	assert_true(ip_eq(&in.gw, &out.gw) && ip_eq(&in.src, &out.src));
	ASSERT_EQ(out.index, r->one);
	ASSERT_EQ(out.priority, 17);
	ASSERT_EQ(out.mtu, 1300);
	ASSERT_EQ(out.advmss, 1200);
	ASSERT_EQ(out.protocol, 99);
	ASSERT_EQ(out.type, TYPE_UNICAST);
	assert_true(out.onlink);
	/* Routes of other families and tables are not counted. */
	ASSERT_EQ(count(r, 6, 70000), 0);
	ASSERT_EQ(count(r, 4, 70001), 0);
	ASSERT_EQ(count(r, 0, 70000), 1);
	route_del(r->b, &out);
	route_del(r->b, &out);
	kern_commit(&r->lab, r->b);
	ASSERT_EQ(count(r, 4, 70000), 0);
}

static void test_omitted_members_of_a_route_have_defaults(void **state)
{
	struct routed *r = *state;
	struct route in = simple("0.0.0.0/0", "10.1.0.1", r->one, 0), *list;
	const struct route *out;
	size_t n;

	route_add(r->b, &in, ROUTE_CREATE);
	kern_commit(&r->lab, r->b);
	OK(route_list(r->lab.w, 4, TABLE_MAIN, &list, &n, &e));
	out = find(list, n, "0.0.0.0/0", TABLE_MAIN);
	ASSERT_EQ(out->protocol, PROTOCOL_BOOT);
	ASSERT_EQ(out->scope, SCOPE_UNIVERSE);
	route_list_free(list, n);
}

static void test_multipath_route_is_added_and_deleted(void **state)
{
	static const char *const gws[][2] = {{"10.1.0.1", "10.2.0.1"}, {"fd00:1::1", "fd00:2::1"}};
	struct routed *r = *state;

	for (size_t i = 0; i < ARRAY_LEN(gws); i++) {
		struct route_hop hops[] = {{r->one, t_ip(gws[i][0]), 1},
					   {r->two, t_ip(gws[i][1]), 3}};
		struct route in = simple(i ? "::/0" : "0.0.0.0/0", NULL, 0, 101), out;

		in.hops = hops;
		in.n_hops = 2;
		route_add(r->b, &in, ROUTE_EXCL);
		kern_commit(&r->lab, r->b);
		out = only(r, in.family, 101);
		check_multipath(&out, gws[i][0], gws[i][1]);
		/* A listed route can be deleted with the same struct. */
		route_del(r->b, &out);
		kern_commit(&r->lab, r->b);
		ASSERT_EQ_MSG(count(r, in.family, 101), 0, "gws[%zu]", i);
		free(out.hops);
	}
}

static void test_ipv4_route_with_an_ipv6_gateway_is_added(void **state)
{
	struct routed *r = *state;
	struct route in = simple("10.9.0.0/16", "fd00:1::1", r->one, 101), out;

	route_add(r->b, &in, ROUTE_EXCL);
	kern_commit(&r->lab, r->b);
	out = only(r, 4, 101);
	assert_true(goes_via(&out.gw, "fd00:1::1"));
}

static void test_flags_decide_whether_an_existing_route_is_replaced(void **state)
{
	struct routed *r = *state;
	struct route a = simple("10.9.0.0/16", "10.1.0.1", r->one, 101);
	struct route b = simple("10.9.0.0/16", "10.1.0.7", r->one, 101), out;

	route_add(r->b, &a, ROUTE_EXCL);
	route_add(r->b, &b, ROUTE_EXCL_OK);
	kern_commit(&r->lab, r->b);
	out = only(r, 4, 101);
	assert_true(goes_via(&out.gw, "10.1.0.1"));
	route_add(r->b, &b, ROUTE_REPLACE);
	kern_commit(&r->lab, r->b);
	out = only(r, 4, 101);
	assert_true(goes_via(&out.gw, "10.1.0.7"));
	/* CREATE without EXCL adds another route before the existing one. */
	route_add(r->b, &a, ROUTE_CREATE);
	kern_commit(&r->lab, r->b);
	ASSERT_EQ(count(r, 4, 101), 2);
}

static void test_error_names_the_refused_route(void **state)
{
	struct routed *r = *state;
	struct route in = simple("10.9.0.0/16", NULL, 4711, 101);
	char expected[256];

	route_add(r->b, &in, ROUTE_CREATE);
	FAILS(nl_batch_commit(r->lab.w, r->b, &e), -ENODEV,
	      "failed to add route '10.9.0.0/16 dev 4711 table 101': No such device (ENODEV)");
	nl_batch_reset(r->b);
	in.dev = "net1";
	route_add(r->b, &in, ROUTE_CREATE);
	FAILS(nl_batch_commit(r->lab.w, r->b, &e), -ENODEV,
	      "failed to add route '10.9.0.0/16 dev net1 table 101': No such device (ENODEV)");
	nl_batch_reset(r->b);
	in = simple("0.0.0.0/0", "10.77.0.1", r->one, 0);
	route_add(r->b, &in, ROUTE_CREATE);
	snprintf(
		expected, sizeof(expected),
		"failed to add route 'default via 10.77.0.1 dev %d table 254': Network is unreachable (ENETUNREACH): "
		"Nexthop has invalid gateway",
		r->one);
	FAILS(nl_batch_commit(r->lab.w, r->b, &e), -ENETUNREACH, expected);
	nl_batch_reset(r->b);
	in.family = 6;
	route_add(r->b, &in, ROUTE_CREATE);
	ASSERT_EQ(nl_batch_commit(r->lab.w, r->b, &e), -EINVAL);
}

static void test_route_of_an_address_is_found(void **state)
{
	struct ipaddr near = t_ip("10.1.0.77"), far = t_ip("8.8.8.8"), six = t_ip("fd00:2::7");
	struct routed *r = *state;
	struct route out;

	OK(route_lookup(r->lab.w, &near, &out, &e));
	ASSERT_EQ(out.index, r->one);
	assert_true(goes_via(&out.src, "10.1.0.2"));
	ASSERT_EQ(out.gw.family, 0);
	ASSERT_EQ(out.table, TABLE_MAIN);
	OK(route_lookup(r->lab.w, &six, &out, &e));
	ASSERT_EQ(out.index, r->two);
	assert_true(goes_via(&out.src, "fd00:2::2"));
	FAILS(route_lookup(r->lab.w, &far, &out, &e), -ENETUNREACH,
	      "look up route to 8.8.8.8: Network is unreachable (ENETUNREACH)");
}

static void test_blackhole_route_is_added(void **state)
{
	struct routed *r = *state;
	struct route in = simple("10.8.0.0/16", NULL, 0, 101), out;

	in.type = TYPE_BLACKHOLE;
	route_add(r->b, &in, ROUTE_EXCL);
	kern_commit(&r->lab, r->b);
	out = only(r, 4, 101);
	ASSERT_EQ(out.type, TYPE_BLACKHOLE);
}

/* The kernel's answer has many datagrams. */
static void test_2000_routes_are_listed(void **state)
{
	struct routed *r = *state;
	struct route in = simple("10.0.0.0/32", "10.1.0.1", r->one, 102);

	for (int i = 0; i < 2000; i++) {
		in.dst.ip.b[2] = (uint8_t)(i >> 8);
		in.dst.ip.b[3] = (uint8_t)i;
		route_add(r->b, &in, ROUTE_EXCL);
	}
	kern_commit(&r->lab, r->b);
	ASSERT_EQ(count(r, 4, 102), 2000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_recorded_route_dump_is_decoded),
		cmocka_unit_test(test_mutated_route_dumps_do_not_crash),
		cmocka_unit_test_setup_teardown(test_added_route_is_listed_with_its_members, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_omitted_members_of_a_route_have_defaults,
						setup, teardown),
		cmocka_unit_test_setup_teardown(test_multipath_route_is_added_and_deleted, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_ipv4_route_with_an_ipv6_gateway_is_added,
						setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_flags_decide_whether_an_existing_route_is_replaced, setup, teardown),
		cmocka_unit_test_setup_teardown(test_error_names_the_refused_route, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_route_of_an_address_is_found, setup, teardown),
		cmocka_unit_test_setup_teardown(test_blackhole_route_is_added, setup, teardown),
		cmocka_unit_test_setup_teardown(test_2000_routes_are_listed, setup, teardown),
	};

	return T_RUN(tests, NULL, NULL);
}
