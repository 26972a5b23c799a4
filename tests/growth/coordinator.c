/* SPDX-License-Identifier: Apache-2.0 */
/* The coordinator's plan for a NIC with many addresses, on a node that knew all of them, or with many default routes. */
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "cni/plugins/coordinator/coordinator.h"
#include "growth.h"

enum { ETH0 = 2, NET1, HOST_END = 70, FORMER, UNICAST = 1 };

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

/* n routes go. */
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
