/* SPDX-License-Identifier: Apache-2.0 */
/* The sbr plugin: configuration, plan (compared as text), rules that DEL deletes, CHECK, and ADD
 * with its undo. */
#include "meta_lab.h"

#include <errno.h>
#include <time.h>

#include "base/loop.h"
#include "cni/plugins/sbr.h"
#include "kern/net/addr.h"

enum { NET1 = 4, NET2 = 5 };

/* --- state of the pod --- */

static struct rule *add_rule(struct sbr_facts *f, const char *from, uint32_t table)
{
	struct rule *r = &VEC_PUSH(f->rules, f->n_rules);

	r->family = 4;
	r->table = table;
	r->action = 1;
	r->has_priority = true;
	r->priority = 32000 - (uint32_t)f->n_rules;
	if (from) {
		r->src = t_net(from);
		r->family = r->src.ip.family;
	}
	return r;
}

static struct route *add_route(struct sbr_facts *f, const char *dst, const char *gw, int index,
			       uint32_t table)
{
	struct route *r = &VEC_PUSH(f->routes, f->n_routes);

	r->dst = t_net(dst);
	r->family = r->dst.ip.family;
	if (gw)
		r->gw = t_ip(gw);
	else
		r->scope = r->family == 4 ? SCOPE_LINK : 0;
	r->index = index;
	r->table = table;
	r->type = 1;
	return r;
}

/* A pod with net1 (10.1.0.5/24, default route), and with a route of another interface. */
static struct sbr_facts pod(void)
{
	struct sbr_facts f = {.ifname = "net1", .index = NET1};

	add_rule(&f, NULL, TABLE_LOCAL);
	add_rule(&f, NULL, TABLE_MAIN);
	add_route(&f, "0.0.0.0/0", "10.1.0.1", NET1, TABLE_MAIN);
	add_route(&f, "10.1.0.0/24", NULL, NET1, TABLE_MAIN)->src = t_ip("10.1.0.5");
	add_route(&f, "10.1.0.5/32", NULL, NET1, TABLE_LOCAL);
	add_route(&f, "10.2.0.0/24", NULL, NET2, TABLE_MAIN);
	return f;
}

static void facts_done(struct sbr_facts *f)
{
	free(f->rules);
	route_list_free(f->routes, f->n_routes);
	*f = (struct sbr_facts){0};
}

static struct cni_ip ip_of(const char *net, const char *gw)
{
	struct cni_ip ip = {.address = t_net(net)};

	if (gw)
		ip.gateway = t_ip(gw);
	return ip;
}

/* --- plans as text --- */

static void put_route(struct buf *b, const struct route *r)
{
	char text[IP_TEXT_MAX];

	buf_str(b, ipnet_is_default(&r->dst) ? "default" : ipnet_str(&r->dst, text));
	if (r->gw.family)
		buf_printf(b, " via %s", ip_str(&r->gw, text));
	for (size_t i = 0; i < r->n_hops; i++)
		buf_printf(b, " hop %d", r->hops[i].index);
	if (r->src.family)
		buf_printf(b, " src %s", ip_str(&r->src, text));
	buf_printf(b, " in %u\n", r->table);
}

static char *text_of(const struct sbr_plan *p)
{
	char text[IP_TEXT_MAX];
	struct buf b;

	buf_init(&b, 8192);
	for (size_t i = 0; i < p->n; i++) {
		const struct sbr_step *s = &p->steps[i];

		assert_true((s->what == SBR_ROUTE_DEL) == (i >= p->n_adds));
		switch (s->what) {
		case SBR_RULE_ADD:
			assert_false(s->rule.has_priority || s->rule.priority);
			buf_printf(&b, "rule %s to %u\n", ipnet_str(&s->rule.src, text),
				   s->rule.table);
			break;
		case SBR_DEFAULT_ADD: buf_str(&b, "new "), put_route(&b, &s->route); break;
		case SBR_ROUTE_PUT: buf_str(&b, "put "), put_route(&b, &s->route); break;
		case SBR_ROUTE_DEL: buf_str(&b, "del "), put_route(&b, &s->route); break;
		}
	}
	return buf_take(&b);
}

static void expect_plan(const struct sbr_conf *c, const struct sbr_facts *f,
			const struct cni_ip *ips, size_t n, const char *want)
{
	auto_free char *got = NULL;
	struct sbr_plan p;

	sbr_plan(c, f, ips, n, &p);
	got = text_of(&p);
	ASSERT_STR_EQ(got, want);
	free(p.steps);
}

static void test_routes_of_one_address_move_to_its_table(void **state)
{
	const struct cni_ip ip = ip_of("10.1.0.5/24", "10.1.0.1");
	struct sbr_facts f = pod();

	(void)state;
	expect_plan(&(struct sbr_conf){0}, &f, &ip, 1,
		    "rule 10.1.0.5/32 to 100\n"
		    "new default via 10.1.0.1 in 100\n"
		    "put default via 10.1.0.1 in 100\n"
		    "put 10.1.0.0/24 src 10.1.0.5 in 100\n"
		    "del default via 10.1.0.1 in 254\n"
		    "del 10.1.0.0/24 src 10.1.0.5 in 254\n");
	facts_done(&f);
}

/*
 * Each address has its own table. A route is copied to the tables of the addresses whose subnet
 * contains the route's source or gateway; a route with neither is copied to the tables of all
 * addresses.
 */
static void test_each_address_gets_its_own_table(void **state)
{
	const struct cni_ip ips[] = {ip_of("10.1.0.5/24", "10.1.0.1"), ip_of("10.9.0.5/24", NULL),
				     ip_of("fd00::5/64", "fd00::1")};
	struct sbr_facts f = pod();

	(void)state;
	add_route(&f, "fd00::/64", NULL, NET1, TABLE_MAIN);
	expect_plan(&(struct sbr_conf){0}, &f, ips, 3,
		    "rule 10.1.0.5/32 to 100\n"
		    "new default via 10.1.0.1 in 100\n"
		    "put default via 10.1.0.1 in 100\n"
		    "put 10.1.0.0/24 src 10.1.0.5 in 100\n"
		    "put fd00::/64 in 100\n"
		    "rule 10.9.0.5/32 to 101\n"
		    "put fd00::/64 in 101\n"
		    "rule fd00::5/128 to 102\n"
		    "new default via fd00::1 in 102\n"
		    "put fd00::/64 in 102\n"
		    "del default via 10.1.0.1 in 254\n"
		    "del 10.1.0.0/24 src 10.1.0.5 in 254\n"
		    "del fd00::/64 in 254\n");
	facts_done(&f);
}

/* The original skips only tables that a rule uses, not those that have routes. */
static void test_tables_in_use_are_skipped(void **state)
{
	const struct cni_ip ips[] = {ip_of("10.1.0.5/24", NULL), ip_of("10.1.0.6/24", NULL)};
	struct sbr_facts f = {.ifname = "net1", .index = NET1};

	(void)state;
	add_rule(&f, "10.3.0.1/32", 100);
	add_route(&f, "10.3.0.0/24", NULL, NET2, 101);
	add_rule(&f, "10.3.0.1/32", 103);
	expect_plan(&(struct sbr_conf){0}, &f, ips, 2,
		    "rule 10.1.0.5/32 to 102\nrule 10.1.0.6/32 to 104\n");
	facts_done(&f);
}

static void test_configured_table_is_used(void **state)
{
	const struct cni_ip ips[] = {ip_of("10.1.0.5/24", "10.1.0.1"), ip_of("10.1.0.6/24", NULL)};
	struct sbr_facts f = pod();

	(void)state;
	expect_plan(&(struct sbr_conf){.table = 300}, &f, ips, 2,
		    "rule 10.1.0.5/32 to 300\nrule 10.1.0.6/32 to 300\n");
	/* A rule for the address is added unless the same rule exists; a rule with more conditions
	 * is another rule. */
	add_rule(&f, "10.1.0.5/32", 300);
	add_rule(&f, "10.1.0.6/32", 300)->more = true;
	expect_plan(&(struct sbr_conf){.table = 300}, &f, ips, 2, "rule 10.1.0.6/32 to 300\n");
	facts_done(&f);
}

static void test_configured_gateways_replace_those_of_the_result(void **state)
{
	const struct cni_ip ips[] = {ip_of("10.1.0.5/24", "10.1.0.1"), ip_of("fd00::5/64", NULL)};
	const struct sbr_conf c = {.gw4 = t_ip("10.1.0.9"), .gw6 = t_ip("fd00::9")};
	struct sbr_facts f = pod();

	(void)state;
	expect_plan(&c, &f, ips, 2,
		    "rule 10.1.0.5/32 to 100\n"
		    "new default via 10.1.0.9 in 100\n"
		    "put 10.1.0.0/24 src 10.1.0.5 in 100\n"
		    "rule fd00::5/128 to 101\n"
		    "new default via fd00::9 in 101\n"
		    "del default via 10.1.0.1 in 254\n"
		    "del 10.1.0.0/24 src 10.1.0.5 in 254\n");
	facts_done(&f);
}

static void test_routes_with_source_hints_stay_in_table_main(void **state)
{
	const struct cni_ip ips[] = {ip_of("10.1.0.5/24", "10.1.0.1"), ip_of("10.7.0.1/32", NULL)};
	const struct sbr_conf c = {.hints = true};
	struct sbr_facts f = pod();
	struct sbr_plan p;

	(void)state;
	expect_plan(&c, &f, ips, 2,
		    "rule 10.1.0.5/32 to 100\n"
		    "new default via 10.1.0.1 in 100\n"
		    "put default via 10.1.0.1 in 100\n"
		    "put 10.1.0.0/24 src 10.1.0.5 in 100\n"
		    "rule 10.7.0.1/32 to 101\n"
		    "put 10.1.0.0/24 src 10.1.0.5 in 254\n"
		    "del default via 10.1.0.1 in 254\n");
	/* the route that the hint replaces is restored if the ADD fails */
	sbr_plan(&c, &f, ips, 1, &p);
	assert_true(p.steps[4].has_old && p.steps[4].old.scope == SCOPE_LINK);
	assert_true(ip_eq(&p.steps[4].old.src, &f.routes[1].src));
	free(p.steps);
	facts_done(&f);
}

/* A route with several next hops belongs to the interface if all of these hops use the
 * interface. */
static void test_multipath_route_moves_if_all_hops_are_on_the_interface(void **state)
{
	const struct cni_ip ip = ip_of("10.1.0.5/24", NULL);
	struct sbr_facts f = {.ifname = "net1", .index = NET1};
	struct route *own, *shared;

	(void)state;
	own = add_route(&f, "10.8.0.0/16", NULL, 0, TABLE_MAIN);
	VEC_PUSH(own->hops, own->n_hops) = (struct route_hop){NET1, t_ip("10.1.0.1"), 1};
	VEC_PUSH(own->hops, own->n_hops) = (struct route_hop){NET1, t_ip("10.1.0.2"), 1};
	shared = add_route(&f, "10.9.0.0/16", NULL, 0, TABLE_MAIN);
	VEC_PUSH(shared->hops, shared->n_hops) = (struct route_hop){NET1, t_ip("10.1.0.1"), 1};
	VEC_PUSH(shared->hops, shared->n_hops) = (struct route_hop){NET2, t_ip("10.2.0.1"), 1};
	expect_plan(&(struct sbr_conf){0}, &f, &ip, 1,
		    "rule 10.1.0.5/32 to 100\n"
		    "put 10.8.0.0/16 hop 4 hop 4 in 100\n"
		    "del 10.8.0.0/16 hop 4 hop 4 in 254\n");
	facts_done(&f);
}

/* --- addresses that the plugin uses, rules that DEL deletes --- */

static void test_addresses_of_an_interface_are_selected(void **state)
{
	auto_result struct cni_result r = {0};
	auto_free struct cni_ip *ips = NULL;
	static const int ifaces[] = {0, 1, -1, 7};

	(void)state;
	cni_result_iface(&r, "net1", NULL, "/ns");
	cni_result_iface(&r, "net2", NULL, "/ns");
	for (size_t i = 0; i < ARRAY_LEN(ifaces); i++) {
		struct cni_ip ip = ip_of("10.0.0.0/24", NULL);

		ip.iface = ifaces[i];
		ip.address.ip.b[3] = (uint8_t)i;
		cni_result_ip(&r, &ip);
	}
	/* selected: addresses of net1, addresses without an interface, and addresses whose
	 * `interface` is not an index into the result's interfaces */
	ASSERT_EQ(sbr_ips(&r, "net1", &ips), 3);
	ASSERT_EQ(ips[0].address.ip.b[3], 0);
	ASSERT_EQ(ips[1].address.ip.b[3], 2);
	ASSERT_EQ(ips[2].address.ip.b[3], 3);
}

static void test_del_removes_rules_of_its_addresses_only(void **state)
{
	const struct ipaddr ips[] = {t_ip("10.1.0.5"), t_ip("fd00::5")};
	const struct rule *found[8];
	struct sbr_facts f = {0};

	(void)state;
	add_rule(&f, NULL, TABLE_MAIN);
	add_rule(&f, "10.1.0.5/32", 100);
	add_rule(&f, "10.1.0.0/24", 101);
	add_rule(&f, "fd00::5/128", 102);
	add_rule(&f, "10.1.0.6/32", 103);
	add_rule(&f, "10.1.0.5/32", 104)->more = true;
	ASSERT_EQ(sbr_rules_of(&(struct sbr_conf){0}, f.rules, f.n_rules, ips, 2, found), 2);
	ASSERT_EQ(found[0]->table, 100);
	ASSERT_EQ(found[1]->table, 102);
	ASSERT_EQ(sbr_rules_of(&(struct sbr_conf){.table = 102}, f.rules, f.n_rules, ips, 2, found),
		  1);
	ASSERT_EQ(found[0]->table, 102);
	facts_done(&f);
}

/* --- CHECK --- */

static void test_check_reports_missing_rules_and_routes(void **state)
{
	const struct cni_ip ip = ip_of("10.1.0.5/24", "10.1.0.1"),
			    host = ip_of("10.1.0.5/32", NULL);
	const struct sbr_conf c = {0}, table = {.table = 300};
	struct sbr_facts f = {.ifname = "net1", .index = NET1};

	(void)state;
	FAILS(sbr_check(&c, &f, &ip, 1, &e), -ENOENT,
	      "rule 'from 10.1.0.5' is missing (interface net1)");
	FAILS(sbr_check(&table, &f, &ip, 1, &e), -ENOENT,
	      "rule 'from 10.1.0.5 lookup 300' is missing (interface net1)");
	add_rule(&f, "10.1.0.5/32", 100);
	OK(sbr_check(&c, &f, &host, 1, &e));
	FAILS(sbr_check(&c, &f, &ip, 1, &e), -ENOENT,
	      "table 100 has no default route via 10.1.0.1 on interface net1");
	add_route(&f, "0.0.0.0/0", "10.1.0.1", NET2, 100);
	FAILS(sbr_check(&c, &f, &ip, 1, &e), -ENOENT,
	      "table 100 has no default route via 10.1.0.1 on interface net1");
	add_route(&f, "0.0.0.0/0", "10.1.0.1", NET1, 100);
	FAILS(sbr_check(&c, &f, &ip, 1, &e), -ENOENT,
	      "table 100 has no route to 10.1.0.0/24 on interface net1");
	add_route(&f, "10.1.0.0/24", NULL, NET1, 100);
	OK(sbr_check(&c, &f, &ip, 1, &e));
	/* CHECK finds unirail's rule even if another program has a rule for the same address */
	add_rule(&f, "10.1.0.5/32", 700);
	OK(sbr_check(&c, &f, &ip, 1, &e));
	add_rule(&f, "10.1.0.5/32", 300);
	OK(sbr_check(&table, &f, &ip, 1, &e));
	facts_done(&f);
}

/* --- configuration --- */

static int read_conf(const char *text, struct sbr_conf *c)
{
	struct chained_lab l;
	int r;

	chained_open(&l, false, text);
	err_clear(&e);
	r = sbr_conf_read(l.m.doc, l.m.conf, c, &e);
	chained_close(&l);
	return r;
}

static void test_sbr_configuration_is_read(void **state)
{
	struct sbr_conf c;

	(void)state;
	ASSERT_EQ(read_conf("{}", &c), 0);
	assert_false(c.table || c.gw4.family || c.gw6.family || c.hints);
	ASSERT_EQ(read_conf("{'TABLE':4294967295,'gateways':['fd00::1','10.0.0.1'],"
			    "'addSourceHints':true}",
			    &c),
		  0);
	assert_true(c.table == UINT32_MAX && c.gw4.family == 4 && c.gw6.family == 6 && c.hints);
	ASSERT_EQ(read_conf("{'table':0}", &c), -EINVAL);
	ASSERT_EQ(read_conf("{'gateways':['10.0.0.1','10.0.0.2']}", &c), -EINVAL);
	ASSERT_STR_EQ(e.text, "conf.gateways[1] is '10.0.0.2': multiple IPv4 addresses in "
			      "gateways, expected one at most");
	ASSERT_EQ(read_conf("{'gateways':['x']}", &c), -EINVAL);
	ASSERT_EQ(e.kind, ERR_CONF);
}

/* --- ADD and undo, in the test's process --- */

struct pod_state {
	struct rule *rules;
	struct route *routes;
	size_t n_rules, n_routes;
};

static void read_state(struct chained_lab *l, struct pod_state *s)
{
	OK(rule_list(l->lab.w, 0, &s->rules, &s->n_rules, &e));
	OK(route_list(l->lab.w, 0, 0, &s->routes, &s->n_routes, &e));
}

static bool has_route(const struct pod_state *s, const struct route *r)
{
	for (size_t i = 0; i < s->n_routes; i++) {
		const struct route *o = &s->routes[i];

		if (ipnet_eq(&o->dst, &r->dst) && o->table == r->table && o->index == r->index &&
		    ip_eq(&o->gw, &r->gw) && ip_eq(&o->src, &r->src) && o->scope == r->scope &&
		    o->protocol == r->protocol && o->priority == r->priority &&
		    o->n_hops == r->n_hops && o->mtu == r->mtu)
			return true;
	}
	return false;
}

static void missing(const struct pod_state *of, const struct pod_state *in, const char *expected)
{
	for (size_t i = 0; i < of->n_routes; i++) {
		auto_buf struct buf b;

		buf_init(&b, 256);
		if (has_route(in, &of->routes[i]))
			continue;
		put_route(&b, &of->routes[i]);
		fail_msg("%s %s", b.p, expected);
	}
}

static void same(struct pod_state *a, struct pod_state *b)
{
	ASSERT_EQ(a->n_rules, b->n_rules);
	missing(a, b, "is missing");
	missing(b, a, "is new");
	ASSERT_EQ(a->n_routes, b->n_routes);
	free(a->rules);
	free(b->rules);
	route_list_free(a->routes, a->n_routes);
	route_list_free(b->routes, b->n_routes);
}

static size_t count_local(struct chained_lab *l, const struct ipnet *dst)
{
	struct route *list;
	size_t n, found = 0;

	OK(route_list(l->lab.w, 6, TABLE_LOCAL, &list, &n, &e));
	for (size_t i = 0; i < n; i++)
		found += ipnet_eq(&list[i].dst, dst);
	route_list_free(list, n);
	return found;
}

/* The kernel creates the local route of an IPv6 address later, in a work queue, even if the
 * address is added without DAD. */
static void wait_for_local(struct chained_lab *l, const struct ipaddr *ip)
{
	struct ipnet host = ipnet_host(ip);
	int64_t limit = now_mono_ms() + 10000;

	while (!count_local(l, &host)) {
		assert_true(now_mono_ms() < limit);
		nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
	}
}

/* Creates net1 with its addresses and routes in the pod. Returns the interface index of net1. */
static int fill_pod(struct chained_lab *l)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct route_hop hops[] = {{0, t_ip("10.1.0.1"), 1}, {0, t_ip("10.1.0.2"), 1}};
	struct ipnet net = t_net("10.1.0.5/24"), net6 = t_net("fd00::5/64");
	struct route r = {.family = 4, .dst.ip.family = 4, .gw = t_ip("10.1.0.1")};
	int index = kern_veth(&l->lab, "net1", "far1");

	addr_add(b, index, "net1", &net, 0);
	addr_add(b, index, "net1", &net6, ADDR_NODAD);
	r.index = index;
	r.mtu = 1400;
	route_add(b, &r, ROUTE_EXCL);
	hops[0].index = hops[1].index = index;
	r = (struct route){.family = 4, .dst = t_net("10.8.0.0/16"), .hops = hops, .n_hops = 2};
	route_add(b, &r, ROUTE_EXCL);
	r = (struct route){.family = 6, .dst.ip.family = 6, .gw = t_ip("fd00::1"), .index = index};
	route_add(b, &r, ROUTE_EXCL);
	kern_commit(&l->lab, b);
	wait_for_local(l, &net6.ip);
	return index;
}

/* Replaces the subnet's route in table main with a multipath route, so that sbr has to replace a
 * multipath route when it adds the source hint. */
static void replace_subnet_route(struct chained_lab *l, int index)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct route_hop hops[] = {{index, {0}, 1}, {index, {0}, 2}};
	struct route r = {.family = 4, .dst = t_net("10.1.0.0/24"), .scope = SCOPE_LINK};

	r.hops = hops;
	r.n_hops = ARRAY_LEN(hops);
	route_add(b, &r, ROUTE_REPLACE);
	kern_commit(&l->lab, b);
}

/* If a later plugin of the chain fails, undo restores the previous rules and routes, including
 * the next hops and metrics of the routes. */
static void test_failed_chain_restores_table_main(void **state)
{
	static const struct {
		const char *conf;
		bool multipath;
	} confs[] = {{"{}", false},
		     {"{'addSourceHints':true}", false},
		     {"{'addSourceHints':true}", true},
		     {"{'table':300}", false},
		     {"{'gateways':['10.1.0.9']}", false}};
	static const struct chained_ip ips[] = {{"10.1.0.5/24", "10.1.0.1"},
						{"fd00::5/64", "fd00::1"}};
	struct pod_state before, middle, after;
	struct cni_result r;
	struct chained_lab l;
	int index;

	(void)state;
	chained_prev(&r, ips, ARRAY_LEN(ips));
	for (size_t i = 0; i < ARRAY_LEN(confs); i++) {
		chained_open(&l, true, confs[i].conf);
		index = fill_pod(&l);
		if (confs[i].multipath)
			replace_subnet_route(&l, index);
		read_state(&l, &before);
		OK(chained_sbr.add(&l.m, &r, &l.undo, &e));
		read_state(&l, &middle);
		ASSERT_EQ_MSG(middle.n_rules, before.n_rules + 2, "confs[%zu]", i);
		free(middle.rules);
		route_list_free(middle.routes, middle.n_routes);
		OK(chained_sbr.check(&l.m, &r, &e));
		ASSERT_EQ_MSG(undo_run(&l.undo), 0, "confs[%zu]", i);
		read_state(&l, &after);
		same(&before, &after);
		chained_close(&l);
	}
	cni_result_done(&r);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_routes_of_one_address_move_to_its_table),
		cmocka_unit_test(test_each_address_gets_its_own_table),
		cmocka_unit_test(test_tables_in_use_are_skipped),
		cmocka_unit_test(test_configured_table_is_used),
		cmocka_unit_test(test_configured_gateways_replace_those_of_the_result),
		cmocka_unit_test(test_routes_with_source_hints_stay_in_table_main),
		cmocka_unit_test(test_multipath_route_moves_if_all_hops_are_on_the_interface),
		cmocka_unit_test(test_addresses_of_an_interface_are_selected),
		cmocka_unit_test(test_del_removes_rules_of_its_addresses_only),
		cmocka_unit_test(test_check_reports_missing_rules_and_routes),
		cmocka_unit_test(test_sbr_configuration_is_read),
		cmocka_unit_test(test_failed_chain_restores_table_main),
	};

	return T_RUN(tests, NULL, NULL);
}
