/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/table.h"
#include "cli/demo/demo.h"
#include "kern/net/route.h"
#include "wire/json/json.h"

static const char *plan_describe(const struct demo *d)
{
	return strcmp(d->opt.plan, "shared") == 0
		       ? "shared subnets: each rail has one /24 for all nodes"
		       : "exclusive subnets: each rail has a /27 for each node";
}

void demo_show_head(const struct demo *d)
{
	printf("a fabric, a node with %d rails (MTU %u), %d pods\n%s\n", (int)d->opt.rails,
	       d->nics[1].mtu, DEMO_PODS, plan_describe(d));
}

static void cost(const char *verb, const struct demo_call *c)
{
	printf("%s in %.1f ms, %.1f ms of CPU, one process", verb, (double)c->wall_us / 1000,
	       (double)c->cpu_us / 1000);
}

static const char *master_of(const struct demo *d, const struct link *l)
{
	for (size_t i = 0; i < d->n_nics; i++)
		if (strcmp(d->nics[i].pod_if, l->name) == 0)
			return d->nics[i].name;
	return strcmp(l->kind, "veth") == 0 ? "node" : NULL;
}

static void show_interfaces(const struct demo *d, const struct demo_facts *f)
{
	auto_columns struct columns c;
	static const char *const head[] = {"INTERFACE", "KIND", "MASTER", "MTU", "MAC", "ADDRESS"};

	columns_init(&c, 6, "  ");
	for (size_t i = 0; i < 6; i++)
		columns_add(&c, head[i]);
	for (size_t i = 0; i < f->n_links; i++) {
		const struct link *l = &f->links[i];
		struct ipnet ip;
		char mac[MAC_TEXT_MAX], text[IP_TEXT_MAX];

		if (link_is_loopback(l))
			continue;
		columns_add(&c, l->name);
		columns_add(&c, l->kind);
		columns_add(&c, master_of(d, l));
		columns_addf(&c, "%u", l->mtu);
		columns_add(&c, mac_str(&l->mac, mac));
		columns_add(&c, demo_link_ip(f, l->name, &ip) ? ipnet_str(&ip, text) : NULL);
	}
	columns_print(&c, stdout);
}

static void show_rules(const struct demo_facts *f)
{
	auto_columns struct columns c;

	columns_init(&c, 2, "  ");
	columns_add(&c, "PRIORITY");
	columns_add(&c, "RULE");
	for (size_t i = 0; i < f->n_rules; i++) {
		char *desc;

		if (f->rules[i].family != 4)
			continue;
		desc = demo_rule_describe(&f->rules[i]);
		columns_addf(&c, "%u", f->rules[i].priority);
		columns_add(&c, desc);
		free(desc);
	}
	columns_print(&c, stdout);
}

/* Returns whether a route leads to one of the node's addresses. add_node() shows these routes once,
 * because usually every table has them. */
static bool is_to_node(const struct route *r)
{
	return r->dst.len == 32 && !r->gw.family;
}

static size_t routes_to_node(const struct demo_facts *f, uint32_t table, const struct route **ret)
{
	size_t n = 0;

	for (size_t i = 0; i < f->n_routes; i++) {
		const struct route *r = &f->routes[i];

		if (r->family == 4 && r->table == table && is_to_node(r) && n++ == 0)
			*ret = r;
	}
	return n;
}

static void add_table(struct columns *c, const struct demo_facts *f, uint32_t table)
{
	for (size_t i = 0; i < f->n_routes; i++) {
		const struct route *r = &f->routes[i];
		char *desc, name[16];

		if (r->family != 4 || r->table != table || is_to_node(r))
			continue;
		desc = demo_route_describe(f, r);
		columns_add(c, demo_table_name(table, name));
		columns_add(c, desc);
		free(desc);
	}
}

/* Returns the lowest table number above `after`, without the local table; 0: none. */
static uint32_t next_table(const struct demo_facts *f, uint32_t after)
{
	uint32_t least = 0;

	for (size_t i = 0; i < f->n_routes; i++) {
		uint32_t t = f->routes[i].table;

		if (t > after && t != TABLE_LOCAL && (!least || t < least))
			least = t;
	}
	return least;
}

/* Appends the tables that have `count` routes to the node: "101-108, main". */
static void put_tables(const struct demo_facts *f, size_t count, struct buf *b)
{
	const struct route *r;
	uint32_t first = 0, last = 0;
	char name[16];

	for (uint32_t t = next_table(f, 0); t; t = next_table(f, t)) {
		if (routes_to_node(f, t, &r) != count)
			continue;
		if (first && t == last + 1) {
			last = t;
			continue;
		}
		if (last > first)
			buf_printf(b, "-%s", demo_table_name(last, name));
		buf_printf(b, "%s%s", b->len ? ", " : "", demo_table_name(t, name));
		first = last = t;
	}
	if (last > first)
		buf_printf(b, "-%s", demo_table_name(last, name));
}

/*
 * Routes to the node's addresses are usually equal in all tables: tables with the same number of
 * these routes share one line, printed for the first of these tables.
 */
static void add_node(struct columns *c, const struct demo_facts *f, uint32_t table)
{
	const struct route *r, *other;
	size_t n = routes_to_node(f, table, &r);
	struct buf tables;
	char *desc;

	for (uint32_t t = next_table(f, 0); n && t < table; t = next_table(f, t))
		if (routes_to_node(f, t, &other) == n)
			return;
	if (n == 0)
		return;
	buf_init(&tables, 4096);
	put_tables(f, n, &tables);
	desc = demo_route_describe(f, r);
	columns_add(c, tables.p);
	columns_add(c, desc);
	if (n > 1) {
		columns_add(c, " ");
		columns_addf(c, "(and the same for the node's %zu other addresses)", n - 1);
	}
	free(desc);
	buf_done(&tables);
}

static void show_routes(const struct demo_facts *f)
{
	auto_columns struct columns c;

	columns_init(&c, 2, "  ");
	columns_add(&c, "TABLE");
	columns_add(&c, "ROUTE");
	for (uint32_t t = next_table(f, 0); t; t = next_table(f, t))
		add_table(&c, f, t);
	for (uint32_t t = next_table(f, 0); t; t = next_table(f, t))
		add_node(&c, f, t);
	columns_print(&c, stdout);
}

void demo_show_pod(const struct demo *d, size_t pod)
{
	const struct demo_pod *p = &d->pods[pod];

	printf("\n%s: ", p->name);
	cost("attached", &p->add);
	printf("\n       no address conflict, all gateways answer\n");
	if (pod > 0)
		return;
	printf("\n");
	show_interfaces(d, &p->facts);
	printf("\n");
	show_rules(&p->facts);
	printf("\n");
	show_routes(&p->facts);
}

static void add_answer(struct columns *c, const struct demo_ping *p)
{
	char ip[IP_TEXT_MAX];

	columns_add(c, ip_str(&p->target, ip));
	if (p->us < 0)
		columns_add(c, "no answer");
	else
		columns_addf(c, "%.2f ms", (double)p->us / 1000);
}

static const struct demo_ping *ping_of(const struct demo *d, size_t nic, const char *to)
{
	for (size_t i = 0; i < d->n_pings; i++)
		if (d->pings[i].pod == 0 && d->pings[i].nic == nic &&
		    strcmp(d->pings[i].to, to) == 0)
			return &d->pings[i];
	return NULL;
}

void demo_show_pings(const struct demo *d)
{
	auto_columns struct columns c;
	static const char *const head[] = {"PING FROM POD-1 BY", "GATEWAY", "GATEWAY RTT", "POD-2",
					   "POD-2 RTT"};

	columns_init(&c, 5, "  ");
	for (size_t i = 0; i < 5; i++)
		columns_add(&c, head[i]);
	for (size_t i = 0; i < d->n_nics; i++) {
		const struct demo_ping *gw = ping_of(d, i, "gateway"),
				       *pod = ping_of(d, i, "pod-2");

		if (!gw || !pod)
			continue;
		columns_add(&c, d->nics[i].pod_if);
		add_answer(&c, gw);
		add_answer(&c, pod);
	}
	printf("\n");
	columns_print(&c, stdout);
}

static void show_retained(const struct demo *d)
{
	printf("\nkept:    %s; ip netns: unirail-demo-", d->dir);
	for (enum demo_ns i = 0; i < NS_COUNT; i++)
		printf("%s%s", i ? ", -" : "", demo_ns_name(i));
	printf("\nlook:    ip netns exec unirail-demo-pod-1 ip address\n"
	       "remove:  unirail demo --clean\n");
}

static void show_verdict(const struct demo *d)
{
	size_t answered = 0;

	for (size_t i = 0; i < d->n_pings; i++)
		answered += d->pings[i].us >= 0;
	printf("\ndemo %s: %d pods on %d rails, %zu of %zu pings answered",
	       d->n_problems ? "FAILED" : "passed", DEMO_PODS, (int)d->opt.rails, answered,
	       d->n_pings);
	if (!d->opt.keep && d->n_leftovers)
		printf(", %zu differences from the state before the attachment", d->n_leftovers);
	else if (!d->opt.keep)
		printf(", nothing left behind");
	if (d->n_problems)
		printf("\n             %zu problem%s, named above", d->n_problems,
		       d->n_problems == 1 ? "" : "s");
	printf("\n");
}

void demo_show_end(const struct demo *d)
{
	if (d->opt.keep)
		show_retained(d);
	else {
		for (size_t i = 0; i < DEMO_PODS; i++) {
			printf("%s%s: ", i ? "" : "\n", d->pods[i].name);
			cost("detached", &d->pods[i].del);
			printf("\n");
		}
		if (d->n_leftovers == 0)
			printf("left on the node, in the pods and in the address store: nothing\n"
			       "(links, addresses, rules, routes, neighbours, nf_tables as "
			       "before)\n");
	}
	for (size_t i = 0; i < d->n_problems; i++)
		printf("%sPROBLEM: %s\n", i ? "" : "\n", d->problems[i]);
	show_verdict(d);
}

enum { JSON_OUT_MAX = 16 << 20 };

static void call(struct json_out *o, const char *key, const struct demo_call *c)
{
	jo_key(o, key);
	jo_obj(o);
	jo_key(o, "wall_ms");
	jo_real(o, (double)c->wall_us / 1000);
	jo_key(o, "cpu_ms");
	jo_real(o, (double)c->cpu_us / 1000);
	jo_end_obj(o);
}

static void interfaces(struct json_out *o, const struct demo_facts *f)
{
	char text[MAC_TEXT_MAX], ip_text[IP_TEXT_MAX];

	jo_key(o, "interfaces");
	jo_arr(o);
	for (size_t i = 0; i < f->n_links; i++) {
		const struct link *l = &f->links[i];
		struct ipnet ip;

		if (link_is_loopback(l))
			continue;
		jo_obj(o);
		jo_kstr(o, "name", l->name);
		jo_kstr(o, "kind", l->kind);
		jo_kint(o, "mtu", l->mtu);
		jo_kstr(o, "mac", mac_str(&l->mac, text));
		if (demo_link_ip(f, l->name, &ip))
			jo_kstr(o, "address", ipnet_str(&ip, ip_text));
		jo_end_obj(o);
	}
	jo_end_arr(o);
}

static void rules_and_routes(struct json_out *o, const struct demo_facts *f)
{
	jo_key(o, "rules");
	jo_arr(o);
	for (size_t i = 0; i < f->n_rules; i++) {
		char *desc = demo_rule_describe(&f->rules[i]);

		jo_obj(o);
		jo_kint(o, "family", f->rules[i].family);
		jo_kint(o, "priority", f->rules[i].priority);
		jo_kstr(o, "rule", desc);
		jo_end_obj(o);
		free(desc);
	}
	jo_end_arr(o);
	jo_key(o, "routes");
	jo_arr(o);
	for (size_t i = 0; i < f->n_routes; i++) {
		char *desc;

		if (f->routes[i].table == TABLE_LOCAL)
			continue;
		desc = demo_route_describe(f, &f->routes[i]);
		jo_obj(o);
		jo_kint(o, "table", f->routes[i].table);
		jo_kstr(o, "route", desc);
		jo_end_obj(o);
		free(desc);
	}
	jo_end_arr(o);
}

static void pod(struct json_out *o, const struct demo *d, const struct demo_pod *p)
{
	jo_obj(o);
	jo_kstr(o, "name", p->name);
	jo_kstr(o, "container_id", p->container_id);
	call(o, "attach", &p->add);
	if (!d->opt.keep)
		call(o, "detach", &p->del);
	interfaces(o, &p->facts);
	rules_and_routes(o, &p->facts);
	jo_end_obj(o);
}

static void pings(struct json_out *o, const struct demo *d)
{
	char ip[IP_TEXT_MAX];

	jo_key(o, "pings");
	jo_arr(o);
	for (size_t i = 0; i < d->n_pings; i++) {
		const struct demo_ping *p = &d->pings[i];

		jo_obj(o);
		jo_kstr(o, "from", d->pods[p->pod].name);
		jo_kstr(o, "interface", d->nics[p->nic].pod_if);
		jo_kstr(o, "to", p->to);
		jo_kstr(o, "target", ip_str(&p->target, ip));
		jo_key(o, "ms");
		if (p->us < 0)
			jo_null(o);
		else
			jo_real(o, (double)p->us / 1000);
		jo_end_obj(o);
	}
	jo_end_arr(o);
}

static void document(struct json_out *o, const struct demo *d)
{
	jo_obj(o);
	jo_kbool(o, "ok", d->n_problems == 0);
	jo_kstr(o, "plan", d->opt.plan);
	jo_kint(o, "rails", d->opt.rails);
	jo_key(o, "pods");
	jo_arr(o);
	for (size_t i = 0; i < DEMO_PODS; i++)
		pod(o, d, &d->pods[i]);
	jo_end_arr(o);
	pings(o, d);
	jo_kint(o, "leftovers", (int64_t)d->n_leftovers);
	jo_kstrs(o, "problems", d->problems, d->n_problems);
	jo_end_obj(o);
}

void demo_json(const struct demo *d)
{
	struct json_out o;
	struct buf b;

	buf_init(&b, JSON_OUT_MAX);
	jo_init(&o, &b, 2);
	document(&o, d);
	printf("%s\n", b.p);
	buf_done(&b);
}
