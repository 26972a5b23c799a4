/* SPDX-License-Identifier: Apache-2.0 */
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "netconf.h"

enum { LO = 1, ETH0, NET1, HOST_END = 70, UNICAST = 1 };

static struct ipaddr ip4(uint8_t a, uint8_t b, uint8_t c, uint8_t d)
{
	return (struct ipaddr){.family = 4, .b = {a, b, c, d}};
}

static void add_link(struct coordinator_facts *f, int index, const char *name)
{
	struct link *l = &VEC_PUSH(f->links, f->n_links);

	l->index = index;
	str_copy(l->name, sizeof(l->name), name);
	l->flags = IFF_UP | (index == LO ? IFF_LOOPBACK : IFF_BROADCAST | IFF_MULTICAST);
	l->mac = (struct mac){.len = 6, .b = {2, [5] = (uint8_t)index}};
	l->txqlen = 1000;
}

static void add_addr(struct coordinator_facts *f, int index, struct ipaddr a, struct ipaddr gw)
{
	struct route *r;

	VEC_PUSH(f->addrs, f->n_addrs) = (struct addr){.index = index, .net = {a, 24}};
	r = &VEC_PUSH(f->routes, f->n_routes);
	*r = (struct route){.dst = {a, 24}, .family = 4, .index = index, .table = TABLE_MAIN};
	r->dst = ipnet_network(&r->dst);
	r->src = a;
	r->type = UNICAST;
	r->scope = SCOPE_LINK;
	VEC_PUSH(f->routes, f->n_routes) = (struct route){.dst = {{.family = 4}, 0},
							  .family = 4,
							  .gw = gw,
							  .index = index,
							  .table = TABLE_MAIN,
							  .type = UNICAST};
	VEC_PUSH(f->lookups, f->n_lookups) = (struct coordinator_lookup){a, ip4(172, 16, 0, 2)};
}

static void a_pod(struct coordinator_facts *f)
{
	add_link(f, LO, "lo");
	add_link(f, ETH0, "eth0");
	add_link(f, NET1, "net1");
	add_addr(f, ETH0, ip4(10, 233, 70, 5), ip4(10, 233, 70, 1));
	add_addr(f, NET1, ip4(172, 16, 1, 20), ip4(172, 16, 1, 1));
	VEC_PUSH(f->host_ips, f->n_host_ips) = ip4(172, 16, 0, 2);
	f->host_veth.index = HOST_END;
	f->host_veth.mac = (struct mac){.len = 6, .b = {2, [5] = HOST_END}};
	str_copy(f->host_veth.name, sizeof(f->host_veth.name), "cali0");
}

static void check_plan(const struct coordinator_plan *p)
{
	for (size_t i = 0; i < p->n; i++) {
		const struct coordinator_step *s = &p->steps[i];

		must(s->nic == 0 && !s->done && memchr(s->ifname, '\0', sizeof(s->ifname)));
		if (s->what == COORD_ROUTE_ADD || s->what == COORD_ROUTE_DEL)
			must(s->route.table && !s->route.hops);
		if (s->what == COORD_SYSCTL)
			must(*s->key && *s->value);
	}
}

int netconf_plan(const struct coordinator_conf *c, struct err *e)
{
	struct coordinator_nic nic = {.conf = c, .ifname = "net1", .network = "rails"};
	struct coordinator_facts f = {0};
	struct coordinator_plan *p = xcalloc(1, sizeof(*p));
	int r;

	a_pod(&f);
	r = coordinator_plan_nic(&nic, 0, &f, p, e);
	if (r >= 0)
		check_plan(p);
	coordinator_plan_free(p);
	coordinator_facts_done(&f);
	return r;
}

int netconf_coordinator(struct cni_call *c, struct cni_result *out, struct err *e)
{
	struct coordinator_conf conf;
	int r = coordinator_conf_read(c->doc, c->conf, &conf, e);

	if (r < 0)
		return r;
	for (size_t i = 0; i < conf.n_cidrs; i++)
		must(!ipnet_has_host_bits(&conf.cidrs[i]));
	for (size_t i = 0; i < conf.n_policy; i++)
		must(conf.policy[i].dst.ip.family == conf.policy[i].gw.family);
	must(conf.rp_filter >= -1 && conf.rp_filter <= 2 && conf.host_table);
	r = netconf_plan(&conf, e);
	coordinator_conf_done(&conf);
	if (r >= 0)
		cni_result_copy(out, &c->prev);
	return r;
}
