/* SPDX-License-Identifier: Apache-2.0 */
/* The demo compares the network of a pod, as read from the kernel, with the planned one: each
 * deviation must be reported as a problem. */
#include "testlib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/table.h"
#include "cli/demo/demo.h"

/* IFF_UP; only kern/ may include the header that defines it. */
enum { UP = 1 };

static struct ipaddr ip4(uint8_t a, uint8_t b, uint8_t c, uint8_t d)
{
	return (struct ipaddr){.family = 4, .b = {a, b, c, d}};
}

struct pod {
	struct demo d;
	struct link links[4];
	struct addr addrs[3];
	struct route routes[3];
	struct rule rules[3];
};

static void nic(struct pod *p, int i)
{
	const struct demo_nic *n = &p->d.nics[i];
	struct link *l = &p->links[i];

	*l = (struct link){.index = 10 + i, .kind = "macvlan", .mtu = n->mtu, .flags = UP};
	snprintf(l->name, sizeof(l->name), "%s", n->pod_if);
	p->addrs[i] = (struct addr){.index = l->index, .net = {ip4(172, 16, (uint8_t)i, 10), 24}};
	p->rules[i] = (struct rule){
		.family = 4, .src = {ip4(172, 16, (uint8_t)i, 10), 32}, .table = 100 + (uint32_t)i};
	p->routes[i] = (struct route){.family = 4,
				      .dst.ip.family = 4,
				      .gw = n->gateway,
				      .index = l->index,
				      .table = i ? 100 + (uint32_t)i : TABLE_MAIN};
}

/* A pod without faults, with eth0 and two rails. */
static int setup(void **state)
{
	struct pod *p = xcalloc(1, sizeof(*p));
	struct demo_facts *f = &p->d.pods[0].facts;

	p->d.opt = (struct demo_options){.rails = 2, .plan = "shared", .output = "text"};
	demo_plan(&p->d);
	for (int i = 0; i < 3; i++)
		nic(p, i);
	p->links[3] = (struct link){.index = 2, .name = "veth0", .kind = "veth", .flags = UP};
	*f = (struct demo_facts){p->links, p->addrs, p->routes, p->rules, NULL, 4,
				 3,	   3,	     3,		0,	  true};
	*state = p;
	return 0;
}

static int teardown(void **state)
{
	struct pod *p = *state;

	str_list_free(p->d.problems, p->d.n_problems);
	free(p);
	return 0;
}

static void assert_problem(struct pod *p, const char *expected)
{
	demo_facts_expect(&p->d, 0);
	ASSERT_EQ(p->d.n_problems, 1);
	assert_non_null(strstr(p->d.problems[0], expected));
}

static void test_pod_without_faults_has_no_problem(void **state)
{
	struct pod *p = *state;

	demo_facts_expect(&p->d, 0);
	ASSERT_EQ(p->d.n_problems, 0);
}

static void test_missing_link_is_reported(void **state)
{
	struct pod *p = *state;

	strcpy(p->links[2].name, "other");
	assert_problem(p, "'net2' is missing");
}

static void test_link_that_is_down_is_reported(void **state)
{
	struct pod *p = *state;

	p->links[1].flags = 0;
	assert_problem(p, "'net1' is down");
}

static void test_mtu_that_differs_from_the_master_is_reported(void **state)
{
	struct pod *p = *state;

	p->links[1].mtu = 1500;
	assert_problem(p, "MTU 1500, but its master has 9000");
}

static void test_link_of_another_kind_is_reported(void **state)
{
	struct pod *p = *state;

	strcpy(p->links[1].kind, "ipvlan");
	assert_problem(p, "not a macvlan");
}

static void test_address_of_another_rail_is_reported(void **state)
{
	struct pod *p = *state;

	p->addrs[1].net.ip = ip4(172, 16, 2, 10);
	assert_problem(p, "'net1' has no IPv4 address in the subnet of its master");
}

static void test_missing_rule_is_reported(void **state)
{
	struct pod *p = *state;

	p->rules[2].src.len = 24;
	assert_problem(p, "no rule selects a routing table for packets from 'net2'");
}

static void test_default_route_through_another_gateway_is_reported(void **state)
{
	struct pod *p = *state;

	p->routes[1].gw = ip4(172, 16, 2, 1);
	assert_problem(p, "table 101 has no default route through 'net1'");
}

static void test_missing_reply_mark_rules_are_reported(void **state)
{
	struct pod *p = *state;

	p->d.pods[0].facts.marks = false;
	assert_problem(p, "rules that mark replies are missing");
}

static void test_exclusive_plan_has_a_subnet_of_prefix_length_27_per_node(void **state)
{
	struct pod *p = *state;

	p->d.opt.plan = "exclusive";
	demo_plan(&p->d);
	ASSERT_EQ(p->d.nics[0].node.len, 24);
	ASSERT_EQ(p->d.nics[1].node.len, 27);
	ASSERT_STR_EQ(p->d.nics[1].pool, "rail0-*");
}

static void test_rules_are_described_like_ip_rule(void **state)
{
	struct rule r = {.family = 4, .src = {ip4(10, 0, 0, 2), 32}, .table = 101};
	char *expected = demo_rule_describe(&r);

	(void)state;
	ASSERT_STR_EQ(expected, "from 10.0.0.2 lookup 101");
	free(expected);
	expected = demo_rule_describe(&(struct rule){.family = 4, .mark = 1, .table = TABLE_MAIN});
	ASSERT_STR_EQ(expected, "from all fwmark 0x1 lookup main");
	free(expected);
}

static void test_routes_are_described_like_ip_route(void **state)
{
	struct pod *p = *state;
	const struct demo_facts *f = &p->d.pods[0].facts;
	struct route r = {.family = 4, .dst = {ip4(10, 0, 0, 0), 8}, .index = 11};
	char *expected = demo_route_describe(f, &p->routes[1]);

	ASSERT_STR_EQ(expected, "default via 172.16.1.1 dev net1");
	free(expected);
	r.src = ip4(172, 16, 1, 10);
	expected = demo_route_describe(f, &r);
	ASSERT_STR_EQ(expected, "10.0.0.0/8 dev net1 src 172.16.1.10");
	free(expected);
}

static void test_column_has_the_width_of_its_widest_cell(void **state)
{
	auto_columns struct columns c;
	char text[128] = {0};
	FILE *f = fmemopen(text, sizeof(text) - 1, "w");

	(void)state;
	columns_init(&c, 2, "> ");
	columns_add(&c, "A");
	columns_add(&c, "B");
	columns_addf(&c, "%d", 12345);
	columns_add(&c, NULL);
	columns_print(&c, f);
	fclose(f);
	ASSERT_STR_EQ(text, "> A      B\n> 12345  -\n");
}

#define POD_TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		POD_TEST(test_pod_without_faults_has_no_problem),
		POD_TEST(test_missing_link_is_reported),
		POD_TEST(test_link_that_is_down_is_reported),
		POD_TEST(test_mtu_that_differs_from_the_master_is_reported),
		POD_TEST(test_link_of_another_kind_is_reported),
		POD_TEST(test_address_of_another_rail_is_reported),
		POD_TEST(test_missing_rule_is_reported),
		POD_TEST(test_default_route_through_another_gateway_is_reported),
		POD_TEST(test_missing_reply_mark_rules_are_reported),
		POD_TEST(test_exclusive_plan_has_a_subnet_of_prefix_length_27_per_node),
		cmocka_unit_test(test_rules_are_described_like_ip_rule),
		POD_TEST(test_routes_are_described_like_ip_route),
		cmocka_unit_test(test_column_has_the_width_of_its_widest_cell),
	};

	return T_RUN(tests, NULL, NULL);
}
