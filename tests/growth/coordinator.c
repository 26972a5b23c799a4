/* SPDX-License-Identifier: Apache-2.0 */
/* The coordinator's plan in each of these cases: the NIC has many addresses, and the node has
 * stale routes and neighbour entries for them; the NIC has many default routes; the pod has many
 * links; the node has many addresses. Also the coordinator's CHECK of a pod that has the state
 * that ADD configured. */
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "cni/plugins/coordinator/check.h"
#include "growth.h"

enum { ETH0 = 2, NET1, HOST_END = 70, FORMER, UNICAST = 1, PERMANENT = 0x80 /* NUD_PERMANENT */ };

static struct ipaddr address(size_t i)
{
	return ip_from_num(4, ((u128)10 << 24) + 256 + i);
}

static void add_link(struct coordinator_facts *f, int index, const char *name)
{
	struct link *l = &VEC_PUSH(f->links, f->n_links);

	l->index = index;
	str_copy(l->name, sizeof(l->name), name);
	l->flags = IFF_UP | IFF_BROADCAST | IFF_MULTICAST;
	l->mac = (struct mac){.len = 6, .b = {2, [5] = (uint8_t)index}};
}

static void add_addr(struct coordinator_facts *f, int index, struct ipaddr a)
{
	VEC_PUSH(f->addrs, f->n_addrs) = (struct addr){.index = index, .net = {a, 8}};
	VEC_PUSH(f->lookups, f->n_lookups) =
		(struct coordinator_lookup){a, ip_from_num(4, ((u128)172 << 24) + 2)};
}

static void add_default(struct coordinator_facts *f, int index, size_t i)
{
	VEC_PUSH(f->routes, f->n_routes) = (struct route){.dst = {{.family = 4}, 0},
							  .family = 4,
							  .gw = address(i),
							  .index = index,
							  .priority = (uint32_t)i,
							  .table = TABLE_MAIN,
							  .type = UNICAST};
}

static void a_pod(struct coordinator_facts *f)
{
	add_link(f, ETH0, "eth0");
	add_link(f, NET1, "net1");
	add_addr(f, ETH0, ip_from_num(4, ((u128)11 << 24) + 5));
	add_default(f, ETH0, 0);
	f->host_veth.index = HOST_END;
	f->host_veth.mac = (struct mac){.len = 6, .b = {2, [5] = HOST_END}};
	str_copy(f->host_veth.name, sizeof(f->host_veth.name), "cali0");
}

static size_t deletions(const struct coordinator_plan *p)
{
	size_t n = 0;

	for (size_t i = 0; i < p->n; i++)
		n += p->steps[i].what == COORD_ROUTE_DEL;
	return n;
}

/* Returns the cost of the plan of net1, which must delete n routes. */
static uint64_t plan(struct coordinator_facts *f, size_t n)
{
	static const char text[] = "{\"type\":\"coordinator\",\"mode\":\"overlay\"}";
	struct coordinator_plan *p = xcalloc(1, sizeof(*p));
	auto_json struct json_doc *doc = NULL;
	struct coordinator_nic nic = {.ifname = "net1", .network = "rails"};
	struct coordinator_conf conf;
	uint64_t before;

	if (json_parse(&doc, span_of(text), sizeof(text), NULL) < 0 ||
	    coordinator_conf_read(doc, json_root(doc), &conf, NULL) < 0)
		abort();
	for (size_t i = 0; i < f->n_host_routes; i++)
		f->host_routes[i].table = conf.host_table;
	nic.conf = &conf;
	before = count_work;
	if (coordinator_plan_nic(&nic, 0, f, p, NULL) < 0)
		abort();
	before = count_work - before;
	if (deletions(p) != n)
		abort();
	coordinator_plan_free(p);
	coordinator_facts_done(f);
	coordinator_conf_done(&conf);
	return before;
}

uint64_t growth_plan_addresses(size_t n)
{
	struct coordinator_facts f = {0};

	a_pod(&f);
	for (size_t i = 0; i < n; i++) {
		const struct ipaddr a = address(n - i);

		add_addr(&f, NET1, a);
		VEC_PUSH(f.host_routes, f.n_host_routes) =
			(struct route){.dst = ipnet_host(&a), .family = 4, .index = FORMER};
		VEC_PUSH(f.host_neighs, f.n_host_neighs) = (struct neigh){.ip = a, .index = FORMER};
	}
	return plan(&f, n);
}

uint64_t growth_plan_default_routes(size_t n)
{
	struct coordinator_facts f = {0};

	a_pod(&f);
	add_addr(&f, NET1, address(1));
	for (size_t i = 0; i < n; i++)
		add_default(&f, NET1, i + 1);
	return plan(&f, n);
}

/* The link of the pod's default route is the last of n + 2 links, and the NIC has n default
 * routes. */
uint64_t growth_plan_links(size_t n)
{
	struct coordinator_facts f = {0};

	add_link(&f, NET1, "net1");
	for (size_t i = 0; i < n; i++) {
		char name[16];

		snprintf(name, sizeof(name), "d%zu", i);
		add_link(&f, (int)(1000 + i), name);
	}
	add_link(&f, ETH0, "eth0");
	add_addr(&f, ETH0, ip_from_num(4, ((u128)11 << 24) + 5));
	add_addr(&f, NET1, address(1));
	for (size_t i = 0; i < n; i++)
		add_default(&f, NET1, i + 1);
	add_default(&f, ETH0, 0);
	f.host_veth = (struct link){.index = HOST_END, .mac = {.len = 6, .b = {2, [5] = HOST_END}}};
	str_copy(f.host_veth.name, sizeof(f.host_veth.name), "cali0");
	return plan(&f, n);
}

/* For its packets to each of the pod's addresses, the node has a different source address. */
uint64_t growth_plan_host_addresses(size_t n)
{
	struct coordinator_facts f = {0};

	a_pod(&f);
	for (size_t i = 0; i < n; i++) {
		add_addr(&f, NET1, address(i));
		f.lookups[f.n_lookups - 1].src = ip_from_num(4, ((u128)172 << 24) + n - i);
	}
	return plan(&f, 0);
}

/* --- CHECK --- */

enum { TABLE = 100 };

static void add_route(struct coordinator_facts *f, struct ipaddr a, int index, uint32_t table)
{
	VEC_PUSH(f->routes, f->n_routes) = (struct route){.dst = ipnet_host(&a),
							  .family = 4,
							  .index = index,
							  .table = table,
							  .type = UNICAST};
}

/* n addresses of the pod, n addresses of the node, n CIDRs; their routes, rules and neighbour
 * entries are in reverse order. */
static void configured_state(struct coordinator_facts *f, struct checking *k,
			     struct coordinator_conf *c, struct rule *rules, struct neigh *neighs,
			     size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct ipaddr own = address(n - i),
				    host = ip_from_num(4, ((u128)11 << 24) + n - i);
		const struct ipaddr cidr = ip_from_num(4, ((u128)12 << 24) + n - i);

		VEC_PUSH(k->ips, k->n_ips) = address(i + 1);
		VEC_PUSH(f->host_routes, f->n_host_routes) = (struct route){.dst = ipnet_host(&own),
									    .family = 4,
									    .index = HOST_END,
									    .table = c->host_table};
		VEC_PUSH(f->host_neighs, f->n_host_neighs) = (struct neigh){
			.ip = own, .index = HOST_END, .mac = k->exit->mac, .state = PERMANENT};
		VEC_PUSH(f->host_ips, f->n_host_ips) = ip_from_num(4, ((u128)11 << 24) + i + 1);
		neighs[i] = (struct neigh){
			.ip = host, .index = ETH0, .mac = f->host_veth.mac, .state = PERMANENT};
		rules[i] = (struct rule){.family = 4, .src = ipnet_host(&own), .table = TABLE};
		add_route(f, host, ETH0, TABLE);
		add_route(f, cidr, ETH0, TABLE);
		c->cidrs[i] = (struct ipnet){ip_from_num(4, ((u128)12 << 24) + i + 1), 32};
	}
}

uint64_t growth_check(size_t n)
{
	const struct rule host = {.family = 4, .priority = COORD_HOST_RULE_PRIORITY, .table = 500};
	auto_free struct rule *rules = xcalloc(n, sizeof(*rules));
	auto_free struct neigh *neighs = xcalloc(n, sizeof(*neighs));
	auto_free struct ipnet *cidrs = xcalloc(n, sizeof(*cidrs));
	struct coordinator_conf c = {
		.tune_routes = true, .host_table = 500, .cidrs = cidrs, .n_cidrs = n};
	struct cni_result prev = {0};
	struct coordinator_nic nic = {.ifname = "net1", .conf = &c, .prev = &prev};
	struct coordinator_facts f = {0};
	struct checking k = {.f = &f, .nic = &nic, .c = &c, .host_rules = &host, .n_host_rules = 1};
	uint64_t before;

	a_pod(&f);
	k.exit = &f.links[0];
	k.link = &f.links[1];
	k.pod_rules = rules;
	k.neighs = neighs;
	k.n_pod_rules = k.n_neighs = n;
	configured_state(&f, &k, &c, rules, neighs, n);
	before = count_work;
	coordinator_check_index(&k);
	if (coordinator_check_host(&k, NULL) < 0 || coordinator_check_pod(&k, NULL) < 0)
		abort();
	coordinator_check_index_free(&k);
	before = count_work - before;
	free(k.ips);
	coordinator_facts_done(&f);
	return before;
}
