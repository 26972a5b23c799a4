/* SPDX-License-Identifier: Apache-2.0 */
#include "host/steps/addr.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/num.h"
#include "host/steps/steps.h"

enum { MTU_MIN = 68, MTU_MAX = 65535, ARP_INFINIBAND = 32, PRIORITY_LOWEST = 1000 };

#define OFFSET(m) offsetof(struct host_addr_want, m)

static const struct opt keys[] = {
	{"ipv4-ip", 0, OPT_STR, "CIDR", "IPv4 address with its prefix length", OFFSET(ipv4_ip), 0,
	 0},
	{"ipv4-gateway", 0, OPT_STR, "ADDRESS", "IPv4 gateway", OFFSET(ipv4_gateway), 0, 0},
	{"ipv6-ip", 0, OPT_STR, "CIDR", "IPv6 address with its prefix length", OFFSET(ipv6_ip), 0,
	 0},
	{"ipv6-gateway", 0, OPT_STR, "ADDRESS", "IPv6 gateway", OFFSET(ipv6_gateway), 0, 0},
	{"mtu", 0, OPT_INT, "BYTES", "MTU; 0: unchanged", OFFSET(mtu), 0, MTU_MAX},
	{"dhcp4", 0, OPT_FLAG, NULL,
	 "IPv4 address by DHCP, at the next start of the program that owns the interface",
	 OFFSET(dhcp4), 0, 0},
	{"dhcp6", 0, OPT_FLAG, NULL,
	 "IPv6 address by DHCP, at the next start of the program that owns the interface",
	 OFFSET(dhcp6), 0, 0},
	{"policy-route", 0, OPT_FLAG, NULL,
	 "use the gateway only for packets from the interface's address, by a separate table and "
	 "a rule",
	 OFFSET(policy_route), 0, 0},
	{"table", 0, OPT_INT, "N",
	 "routing table of policy-route; 0: the first free one from 151 on", OFFSET(table), 0,
	 UINT32_MAX},
	{"rdma-default-route", 0, OPT_FLAG, NULL, "route rdma-subnet through the gateway",
	 OFFSET(rdma_default_route), 0, 0},
	{"rdma-subnet", 0, OPT_STR, "CIDR,...", "networks of all rails of all nodes",
	 OFFSET(rdma_subnet), 0, 0},
	{"persist", 0, OPT_CHOICE, "auto|netplan|networkmanager|networkd|none",
	 "program whose file is written for the next boot; auto: the interface's owner",
	 OFFSET(persist), 0, 0},
	{"bond-ports", 0, OPT_STR, "NAME,...",
	 "make the interface a bond of these ports; a bond that does not exist is created",
	 OFFSET(bond_ports), 0, 0},
	{"bond-mode", 0, OPT_CHOICE, "802.3ad|active-backup|balance-xor",
	 "how the bond uses its ports (default: 802.3ad)", OFFSET(bond_mode), 0, 0},
	{"mode", 0, OPT_CHOICE, "set|clean",
	 "clean: remove addresses, their routes and rules, and the files for the next boot",
	 OFFSET(mode), 0, 0},
	{0},
};
static const char *const env[] = {
	"IPV4_IP",
	"IPV4_GATEWAY",
	"IPV6_IP",
	"IPV6_GATEWAY",
	"MTU",
	"DHCP4",
	"DHCP6",
	"ENABLE_POLICY_ROUTE",
	"POLICY_ROUTE_TABLE",
	"ENABLE_RDMA_DEFAULT_ROUTE",
	"RDMA_SUBNET",
	NULL,
	NULL,
	NULL,
	"mode",
};

void host_addr_init(void *want)
{
	struct host_addr_want *w = want;

	w->persist = "auto";
	w->mode = "set";
}

/* --- parsing of a section --- */

static bool is_policy(const struct host_addr_want *w)
{
	return w->policy_route || w->table;
}

static int parse_gateway(const char *key, const char *text, struct host_addr_family *f,
			 uint8_t family, struct err *e)
{
	char net[IP_TEXT_MAX];

	if (!text)
		return 0;
	if (ip_parse(span_of(text), &f->gw) < 0 || f->gw.family != family)
		return err_kind(e, ERR_CONF, -EINVAL, "%s '%s' is not an IPv%u address", key, text,
				family);
	if (!f->has)
		return err_kind(e, ERR_CONF, -EINVAL, "%s is set without ipv%u-ip", key, family);
	if (!ipnet_contains(&f->ip, &f->gw) && !ip_is_link_local(&f->gw))
		return err_kind(e, ERR_CONF, -EINVAL, "%s %s is outside %s", key, text,
				ipnet_str(&f->ip, net));
	if (ip_eq(&f->gw, &f->ip.ip))
		return err_kind(e, ERR_CONF, -EINVAL, "%s %s is the interface's own address", key,
				text);
	return 0;
}

static int parse_family(const struct host_addr_want *w, uint8_t family, struct host_addr_family *f,
			struct err *e)
{
	const char *ip = family == 4 ? w->ipv4_ip : w->ipv6_ip;
	const char *gw = family == 4 ? w->ipv4_gateway : w->ipv6_gateway;

	*f = (struct host_addr_family){.dhcp = family == 4 ? w->dhcp4 : w->dhcp6};
	if (f->dhcp)
		return 0; /* DHCP overrides a static address, as in the original script */
	if (ip && (ipnet_parse(span_of(ip), &f->ip) < 0 || f->ip.ip.family != family))
		return err_kind(
			e, ERR_CONF, -EINVAL,
			"ipv%u-ip '%s' is not an address with a prefix length, or has the wrong "
			"family; expected for instance %s",
			family, ip, family == 4 ? "172.16.1.10/24" : "fd00:16:1::10/64");
	f->has = ip != NULL;
	f->policy = is_policy(w);
	return parse_gateway(family == 4 ? "ipv4-gateway" : "ipv6-gateway", gw, f, family, e);
}

static int parse_subnets(const struct host_addr_want *w, struct host_addr_plan *a, struct err *e)
{
	struct span rest = span_of(w->rdma_subnet), one;

	while (w->rdma_default_route && w->rdma_subnet && span_cut(&rest, ',', &one)) {
		struct ipnet *net = &a->subnets[a->n_subnets];

		one = span_trim(one);
		if (a->n_subnets == ARRAY_LEN(a->subnets) || ipnet_parse(one, net) < 0)
			return err_kind(
				e, ERR_CONF, -EINVAL,
				"rdma-subnet: '%.*s' is not a CIDR, or the list has more than 8 "
				"entries",
				(int)one.n, one.p);
		*net = ipnet_network(net);
		if (!a->f[net->ip.family == 6].gw.family)
			return err_kind(e, ERR_CONF, -EINVAL,
					"rdma-subnet %.*s needs an ipv%u-gateway, without DHCP "
					"for this family",
					(int)one.n, one.p, net->ip.family);
		a->n_subnets++;
	}
	if (w->rdma_default_route && !w->rdma_subnet)
		return err_kind(e, ERR_CONF, -EINVAL, "rdma-default-route needs rdma-subnet");
	return 0;
}

/* Parses the section, without the host's state. */
static int parse(const struct host_addr_want *w, struct host_addr_plan *a, struct err *e)
{
	int r;

	*a = (struct host_addr_plan){.dev = w->head.name, .mtu = (uint32_t)w->mtu};
	r = parse_family(w, 4, &a->f[0], e);
	if (r >= 0)
		r = parse_family(w, 6, &a->f[1], e);
	if (r >= 0 && is_policy(w) && !a->f[0].gw.family && !a->f[1].gw.family)
		r = err_kind(e, ERR_CONF, -EINVAL,
			     "policy-route needs ipv4-ip with ipv4-gateway, or ipv6-ip with "
			     "ipv6-gateway, without DHCP for that family (table implies "
			     "policy-route)");
	if (r >= 0 && w->table >= TABLE_MAIN - 1 && w->table <= TABLE_LOCAL)
		r = err_kind(
			e, ERR_CONF, -EINVAL,
			"table is %lld, and the kernel's own tables are 253 (default), 254 (main) "
			"and 255 (local); choose another, or 0 for the first free one from %d on",
			(long long)w->table, HOST_TABLE_FIRST);
	if (r >= 0 && w->mtu && w->mtu < MTU_MIN)
		r = err_kind(e, ERR_CONF, -EINVAL, "mtu is %lld, expected 0 or %d to %d",
			     (long long)w->mtu, MTU_MIN, MTU_MAX);
	if (r >= 0 && w->mtu && w->mtu < 1280 && (a->f[1].has || a->f[1].dhcp))
		r = err_kind(e, ERR_CONF, -EINVAL, "mtu is %lld, IPv6 needs at least 1280",
			     (long long)w->mtu);
	if (r >= 0)
		r = host_bond_parse(w->head.name, w->bond_ports, w->bond_mode, &a->bond, e);
	return r < 0 ? r : parse_subnets(w, a, e);
}

static bool is_clean(const void *want)
{
	return strcmp(((const struct host_addr_want *)want)->mode, "clean") == 0;
}

static bool covers(const struct host_wants *w, const char *kind, const char *subject)
{
	for (size_t i = 0; strcmp(kind, "addr") == 0 && i < w->n; i++)
		if (strcmp(w->v[i]->name, subject) == 0)
			return true;
	return false;
}

int host_addr_check(void *want, struct err *e)
{
	const struct host_addr_want *w = want;
	struct host_addr_plan a;

	if (!link_name_ok(w->head.name))
		return err_kind(
			e, ERR_CONF, -EINVAL,
			"invalid interface name '%s': expected 1 to 15 bytes without '/', ':' or whitespace",
			w->head.name);
	return is_clean(w) ? 0 : parse(w, &a, e);
}

/* --- state of the interface and the host --- */

/* Sets *ret to the ports that the section names; if it names none (usual with `mode = clean`),
 * to the current ports of the interface if this is a bond, else to no ports. */
static void ports_of(const struct host_net *n, const struct host_addr_want *w,
		     struct host_bond *ret)
{
	const struct link *l = host_link(n, w->head.name);

	if (w->bond_ports && host_bond_parse(w->head.name, w->bond_ports, NULL, ret, NULL) >= 0)
		return;
	*ret = (struct host_bond){.n = 0};
	for (size_t i = 0; l && i < n->n_links && ret->n < HOST_BOND_PORTS_MAX; i++)
		if (n->links[i].master == l->index && strcmp(l->kind, "bond") == 0)
			str_copy(ret->ports[ret->n++], LINK_NAME_MAX, n->links[i].name);
}

int host_addr_observe(struct host *h, const struct host_wants *w, void **found, struct err *e)
{
	struct host_addr_found *f = xcalloc(1, sizeof(*f));
	int r;

	*found = f;
	f->has_net = h->kernel || h->recorded;
	r = host_net_read(h, &f->net, e);
	f->v = xcalloc(w->n, sizeof(*f->v));
	f->n = w->n;
	for (size_t i = 0; i < w->n && r >= 0; i++) {
		struct host_bond bond;

		ports_of(f->net, (const struct host_addr_want *)w->v[i], &bond);
		r = host_addr_files_read(h, w->v[i]->name, host_link(f->net, w->v[i]->name), &bond,
					 &f->v[i], e);
	}
	return r;
}

void host_addr_forget(void *found)
{
	struct host_addr_found *f = found;

	for (size_t i = 0; f && i < f->n; i++)
		host_addr_if_done(&f->v[i]);
	if (f)
		free(f->v);
	free(f);
}

/* --- tables and priorities --- */

static const char *name_of(const struct host_net *n, int index)
{
	const struct link *l = link_find_index(n->links, n->n_links, index);

	return l ? l->name : NULL;
}

/* The tables and priorities that this plan already uses: each interface gets its own. */
struct taken {
	uint32_t *tables, *priorities;
	size_t n_tables, n_priorities;
};

static bool has(const uint32_t *v, size_t n, uint32_t x)
{
	for (size_t i = 0; i < n; i++)
		if (v[i] == x)
			return true;
	return false;
}

static bool is_from(const struct rule *r, const struct ipnet *ip)
{
	return r->src.ip.family == ip->ip.family && !r->dst.ip.family && !r->invert && !r->more &&
	       r->src.len == ip_bits(&ip->ip) && ip_eq(&r->src.ip, &ip->ip);
}

static const struct rule *rule_from(const struct host_net *n, const struct ipnet *ip,
				    uint32_t table)
{
	for (size_t i = 0; i < n->n_rules; i++)
		if (is_from(&n->rules[i], ip) && (!table || n->rules[i].table == table))
			return &n->rules[i];
	return NULL;
}

static bool table_is_used(const struct host_net *n, uint32_t table)
{
	for (size_t i = 0; i < n->n_rules; i++)
		if (n->rules[i].table == table)
			return true;
	for (size_t i = 0; i < n->n_routes; i++)
		if (n->routes[i].table == table)
			return true;
	return false;
}

/* Returns whether the route is a default route of the interface through a requested gateway. The
 * table of such a route belongs to the interface, even if the rule was deleted. */
static bool is_gateway(const struct host_net *n, const struct host_addr_plan *a,
		       const struct route *r)
{
	const struct ipaddr *gw = &a->f[r->family == 6].gw;
	const char *dev = name_of(n, r->index);

	return gw->family && ipnet_is_default(&r->dst) && ip_eq(&r->gw, gw) && dev &&
	       strcmp(dev, a->dev) == 0;
}

static uint32_t choose_table(const struct host_net *n, const struct host_addr_plan *a,
			     struct taken *t)
{
	uint32_t table = HOST_TABLE_FIRST;

	/* Reuses the table of a rule from the same address: an earlier run added this rule. */
	for (size_t i = 0; i < 2; i++) {
		const struct rule *r = a->f[i].has ? rule_from(n, &a->f[i].ip, 0) : NULL;

		if (r && r->table >= HOST_TABLE_FIRST && r->table < TABLE_MAIN - 1)
			return r->table;
	}
	for (size_t i = 0; i < n->n_routes; i++)
		if (n->routes[i].table >= HOST_TABLE_FIRST && n->routes[i].table < TABLE_MAIN - 1 &&
		    is_gateway(n, a, &n->routes[i]))
			return n->routes[i].table;
	while (table_is_used(n, table) || has(t->tables, t->n_tables, table) ||
	       (table >= TABLE_MAIN - 1 && table <= TABLE_LOCAL))
		table++;
	return table;
}

static bool priority_is_used(const struct host_net *n, uint8_t family, uint32_t priority)
{
	for (size_t i = 0; i < n->n_rules; i++)
		if (n->rules[i].family == family && n->rules[i].priority == priority)
			return true;
	return false;
}

static int choose_priority(const struct host_net *n, struct host_addr_family *f, struct taken *t,
			   struct err *e)
{
	const struct rule *r = rule_from(n, &f->ip, f->table);
	const uint32_t family_bit = f->ip.ip.family == 6 ? 1U << 31 : 0;

	f->priority = r ? r->priority : HOST_ADDR_RULE_PRIORITY;
	while (!r && (priority_is_used(n, f->ip.ip.family, f->priority) ||
		      has(t->priorities, t->n_priorities, f->priority | family_bit)))
		if (--f->priority < PRIORITY_LOWEST)
			return err_kind(e, ERR_CONF, -ENOSPC,
					"no rule priority from %d to %d is free", PRIORITY_LOWEST,
					HOST_ADDR_RULE_PRIORITY);
	VEC_PUSH(t->priorities, t->n_priorities) = f->priority | family_bit;
	return 0;
}

/* --- routes --- */

static uint32_t metric_of(const struct route *r)
{
	return r->family == 6 && !r->priority ? HOST_V6_METRIC : r->priority;
}

static bool same_dst(const struct route *a, const struct route *b)
{
	struct ipnet x = ipnet_network(&a->dst), y = ipnet_network(&b->dst);

	return a->family == b->family && a->table == b->table && ipnet_eq(&x, &y);
}

static bool same_route(const struct host_net *n, const struct route *a, const struct route *want)
{
	const char *dev = name_of(n, a->index);

	return same_dst(a, want) && ip_eq(&a->gw, &want->gw) && dev &&
	       strcmp(dev, want->dev) == 0 && metric_of(a) == metric_of(want);
}

static bool route_exists(const struct host_net *n, const struct route *want)
{
	for (size_t i = 0; i < n->n_routes; i++)
		if (same_route(n, &n->routes[i], want))
			return true;
	return false;
}

static int taken_by(const struct host_net *n, const struct route *r, const char *what,
		    struct err *e)
{
	auto_free char *desc = host_route_describe(r, name_of(n, r->index));

	return err_kind(e, ERR_CONF, -EEXIST, "%s is taken by route '%s'", what, desc);
}

static int plan_route(const struct host_net *n, const struct route *want, const char *what,
		      struct host_plan *p, struct err *e)
{
	if (route_exists(n, want))
		return 0;
	for (size_t i = 0; i < n->n_routes; i++)
		if (same_dst(&n->routes[i], want) && metric_of(&n->routes[i]) == metric_of(want))
			return taken_by(n, &n->routes[i], what, e);
	host_plan_route_add(p, "addr", want);
	return 0;
}

/* Fails if the table has other routes than `want` (the user may name a used table): packets from
 * the section's address would use them. */
static int check_table(const struct host_net *n, const struct host_addr_plan *a, uint8_t family,
		       const struct route *want, struct err *e)
{
	auto_free char *what = xasprintf("table %u", want->table);

	(void)a;
	for (size_t i = 0; i < n->n_routes; i++) {
		const struct route *r = &n->routes[i];

		if (r->table == want->table && r->family == family && !same_route(n, r, want))
			return taken_by(n, r, what, e);
	}
	return 0;
}

static int plan_gateway(const struct host_net *n, const struct host_addr_plan *a,
			const struct host_addr_family *f, struct host_plan *p, struct err *e)
{
	struct route want = {.dev = a->dev,
			     .gw = f->gw,
			     .family = f->gw.family,
			     .dst = {.ip = {.family = f->gw.family}},
			     .table = f->policy ? f->table : TABLE_MAIN,
			     .priority = f->policy ? 0 : HOST_GATEWAY_METRIC};
	auto_free char *what =
		f->policy ? xasprintf("the default route of table %u", f->table)
			  : xasprintf("the default route of metric %d", HOST_GATEWAY_METRIC);
	int r;

	if (!f->gw.family)
		return 0;
	r = f->policy ? check_table(n, a, f->gw.family, &want, e) : 0;
	return r < 0 ? r : plan_route(n, &want, what, p, e);
}

static int plan_subnets(const struct host_net *n, const struct host_addr_plan *a,
			struct host_plan *p, struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < a->n_subnets && r >= 0; i++) {
		uint8_t family = a->subnets[i].ip.family;
		struct route want = {.dev = a->dev,
				     .gw = a->f[family == 6].gw,
				     .family = family,
				     .dst = a->subnets[i],
				     .table = TABLE_MAIN,
				     .onlink = true};

		r = plan_route(n, &want, "the route of rdma-subnet", p, e);
	}
	return r;
}

/* --- rules --- */

static void plan_rule(const struct host_net *n, const struct host_addr_family *f,
		      struct host_plan *p, const char *dev)
{
	const struct rule want = {.family = f->ip.ip.family,
				  .src = ipnet_host(&f->ip.ip),
				  .table = f->table,
				  .priority = f->priority,
				  .has_priority = true};

	if (!f->policy || !f->gw.family)
		return;
	/* Adds steps that delete rules from this address to another table, for example those of
	 * an earlier run. */
	for (size_t i = 0; i < n->n_rules; i++)
		if (is_from(&n->rules[i], &f->ip) && n->rules[i].table != f->table)
			host_plan_rule_del(p, "addr", dev, &n->rules[i]);
	if (!rule_from(n, &f->ip, f->table))
		host_plan_rule_add(p, "addr", dev, &want);
}

/* --- addresses --- */

static void plan_address(const struct host_net *n, const struct link *l,
			 const struct host_addr_family *f, struct host_plan *p)
{
	bool exists = false;

	if (!f->has)
		return;
	for (size_t i = 0; i < n->n_addrs; i++) {
		const struct addr *a = &n->addrs[i];

		if (a->index != l->index || !ip_eq(&a->net.ip, &f->ip.ip))
			continue;
		if (a->net.len == f->ip.len)
			exists = true;
		else
			host_plan_addr_del(p, "addr", l->name, &a->net);
	}
	if (!exists)
		host_plan_addr_add(p, "addr", l->name, &f->ip);
}

static int check_elsewhere(const struct host_net *n, const struct link *l,
			   const struct host_addr_family *f, struct err *e)
{
	char text[IP_TEXT_MAX];

	for (size_t i = 0; f->has && i < n->n_addrs; i++)
		if (n->addrs[i].index != l->index && ip_eq(&n->addrs[i].net.ip, &f->ip.ip))
			return err_kind(e, ERR_CONF, -EEXIST,
					"address %s is taken by interface '%s'",
					ip_str(&f->ip.ip, text), name_of(n, n->addrs[i].index));
	return 0;
}

/* --- plan of all steps of a section --- */

static int resolve(const struct host_net *n, const struct host_addr_want *w,
		   struct host_addr_plan *a, struct taken *t, struct err *e)
{
	uint32_t table = (uint32_t)w->table;
	int r = 0;

	if (!is_policy(w))
		return 0;
	if (!table)
		table = choose_table(n, a, t);
	if (has(t->tables, t->n_tables, table))
		return err_kind(e, ERR_CONF, -EEXIST,
				"table %u is also the table of another interface", table);
	VEC_PUSH(t->tables, t->n_tables) = table;
	for (size_t i = 0; i < 2 && r >= 0; i++) {
		a->f[i].table = table;
		if (a->f[i].gw.family)
			r = choose_priority(n, &a->f[i], t, e);
	}
	return r;
}

static int decide_kernel(const struct host_net *n, const struct host_addr_plan *a,
			 const struct link *l, struct host_plan *p, struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < 2 && r >= 0; i++)
		r = check_elsewhere(n, l, &a->f[i], e);
	if (r < 0)
		return r;
	if (a->mtu && l->mtu != a->mtu)
		host_plan_mtu(p, "addr", l, a->mtu);
	if (!link_is_up(l))
		host_plan_up(p, "addr", l->name);
	for (size_t i = 0; i < 2 && r >= 0; i++) {
		plan_address(n, l, &a->f[i], p);
		r = plan_gateway(n, a, &a->f[i], p, e);
	}
	if (r >= 0)
		r = plan_subnets(n, a, p, e);
	for (size_t i = 0; i < 2 && r >= 0; i++)
		plan_rule(n, &a->f[i], p, l->name);
	return r;
}

/* Adds steps that delete the addresses of the interface (except link-local ones), the rules from
 * them, and the interface's routes in the tables of these rules. */
static void clean_kernel(const struct host_net *n, const struct link *l, struct host_plan *p)
{
	for (size_t i = 0; i < n->n_addrs; i++) {
		const struct addr *a = &n->addrs[i];

		if (a->index != l->index || ip_is_link_local(&a->net.ip))
			continue;
		for (size_t k = 0; k < n->n_rules; k++) {
			const struct rule *r = &n->rules[k];

			if (!is_from(r, &a->net))
				continue;
			host_plan_rule_del(p, "addr", l->name, r);
			for (size_t m = 0; m < n->n_routes; m++) {
				struct route route = n->routes[m];

				route.dev = l->name;
				if (route.table == r->table && route.family == r->family &&
				    route.index == l->index && r->table != TABLE_MAIN)
					host_plan_route_del(p, "addr", &route);
			}
		}
	}
	/* Adds steps that delete the routes through a gateway in table main, which the kernel would
	 * delete together with the address: without a step of their own, the undo would not restore
	 * them. */
	for (size_t m = 0; m < n->n_routes; m++) {
		struct route route = n->routes[m];

		route.dev = l->name;
		if (route.index == l->index && route.table == TABLE_MAIN && route.gw.family)
			host_plan_route_del(p, "addr", &route);
	}
	for (size_t i = 0; i < n->n_addrs; i++)
		if (n->addrs[i].index == l->index && !ip_is_link_local(&n->addrs[i].net.ip))
			host_plan_addr_del(p, "addr", l->name, &n->addrs[i].net);
}

static int decide_one(const struct host_addr_want *w, const struct host_addr_found *f, size_t i,
		      struct taken *t, struct host_plan *p, struct err *e)
{
	const struct link *l = f->has_net ? host_link(f->net, w->head.name) : NULL;
	struct host_addr_plan a;
	struct link made;
	int r;

	if (f->has_net && !l && (is_clean(w) || !w->bond_ports))
		return host_no_link(f->net, w->head.name, e);
	if (is_clean(w)) {
		host_addr_files_clean(w->head.name, &f->v[i], p);
		if (l)
			clean_kernel(f->net, l, p);
		return 0;
	}
	r = parse(w, &a, e);
	if (r >= 0)
		r = resolve(f->net, w, &a, t, e);
	if (r < 0)
		return r;
	a.infiniband = l && l->arptype == ARP_INFINIBAND;
	r = host_addr_files_plan(&a, w->persist, &f->v[i], p, e);
	if (r >= 0 && f->has_net && a.bond.n)
		r = host_bond_plan(f->net, w->head.name, &a.bond, &made, &l, p, e);
	return r >= 0 && l ? decide_kernel(f->net, &a, l, p, e) : r;
}

/* A port of a bond must not have a section of its own, except one with `mode = clean`: the files
 * for the section would have the same names as the bond's files for the port. */
static int check_ports(const struct host_wants *w, size_t section, struct err *e)
{
	const struct host_addr_want *one = (const struct host_addr_want *)w->v[section];
	struct host_bond b;

	if (is_clean(one) || host_bond_parse(one->head.name, one->bond_ports, NULL, &b, NULL) < 0)
		return 0;
	for (size_t i = 0; i < w->n; i++)
		for (size_t k = 0; k < b.n; k++)
			if (strcmp(w->v[i]->name, b.ports[k]) == 0 && !is_clean(w->v[i]))
				return err_kind(
					e, ERR_CONF, -EINVAL,
					"its port '%s' must not have a section (%s): remove that section",
					b.ports[k], w->v[i]->origin);
	return 0;
}

/* Returns whether `persist` is auto, but the interface has no owner and the unit of `unirail
 * host persist` does not exist, so that no program restores the settings at boot. */
static bool is_lost_at_boot(const struct host_addr_want *w, const struct host_addr_if *i)
{
	return !is_clean(w) && strcmp(w->persist, "auto") == 0 && i->owner == HOST_OWNER_NONE &&
	       !i->unit;
}

int host_addr_decide(const struct host_wants *w, const void *found, struct host_plan *p,
		     struct err *e)
{
	const struct host_addr_found *f = found;
	size_t before = p->n, lost = 0;
	struct taken t = {0};
	int r = 0;

	for (size_t i = 0; i < w->n && r >= 0; i++) {
		r = check_ports(w, i, e);
		if (r >= 0)
			r = decide_one((const struct host_addr_want *)w->v[i], found, i, &t, p, e);
		if (r < 0)
			err_wrap(e, r, "interface %s", w->v[i]->name);
		lost += is_lost_at_boot((const struct host_addr_want *)w->v[i], &f->v[i]);
	}
	if (r >= 0 && lost && p->n > before)
		host_plan_remark(
			p, "addr", "host",
			"neither netplan, NetworkManager nor systemd-networkd is on this host to "
			"set the addresses at the next boot: run 'unirail host persist'");
	free(t.tables);
	free(t.priorities);
	return r;
}

static void show(const void *found, struct host_rows *rows)
{
	const struct host_net *n = ((const struct host_addr_found *)found)->net;
	char text[IP_TEXT_MAX];

	for (size_t i = 0; i < n->n_links; i++) {
		const struct link *l = &n->links[i];

		host_rows_add(rows, l->name, "state", "%s", link_is_up(l) ? "up" : "down");
		host_rows_add(rows, l->name, "mtu", "%u", l->mtu);
		for (size_t k = 0; k < n->n_addrs; k++)
			if (n->addrs[k].index == l->index)
				host_rows_add(rows, l->name, "address", "%s",
					      ipnet_str(&n->addrs[k].net, text));
	}
}

const struct host_kind host_addr = {
	.name = "addr",
	.section = "interface",
	.help = "addresses, gateway, MTU, policy routing and RDMA route of an interface",
	.flags = HOST_NAMED,
	.keys = keys,
	.env = env,
	.env_name = "INTERFACE",
	.size = sizeof(struct host_addr_want),
	.init = host_addr_init,
	.check = host_addr_check,
	.observe = host_addr_observe,
	.forget = host_addr_forget,
	.decide = host_addr_decide,
	.act = host_net_act,
	.in_effect = host_net_in_effect,
	.clears = is_clean,
	.covers = covers,
	.show = show,
};
