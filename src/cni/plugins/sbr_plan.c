/* SPDX-License-Identifier: Apache-2.0 */
/* sbr's decisions. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cni/plugins/sbr.h"

enum { IPV6_PRIORITY = 1024 };

size_t sbr_ips(const struct cni_result *prev, const char *ifname, struct cni_ip **ret)
{
	struct cni_ip *list = NULL;
	size_t n = 0;

	for (size_t i = 0; i < prev->n_ips; i++) {
		int k = prev->ips[i].iface;

		if (k < 0 || (size_t)k >= prev->n_ifaces ||
		    strcmp(prev->ifaces[k].name, ifname) == 0)
			VEC_PUSH(list, n) = prev->ips[i];
	}
	*ret = list;
	return n;
}

static struct rule rule_of(const struct ipaddr *ip, uint32_t table)
{
	return (struct rule){.family = ip->family, .src = ipnet_host(ip), .table = table};
}

/* The original asks only whether a rule has the table, and fills others' routes into it. */
static uint32_t free_table(const struct sbr_facts *f, uint32_t table)
{
	for (;; table++) {
		bool used = false;

		for (size_t i = 0; i < f->n_rules; i++)
			used |= f->rules[i].table == table;
		for (size_t i = 0; i < f->n_routes; i++)
			used |= f->routes[i].table == table;
		if (!used)
			return table;
	}
}

static struct sbr_step *push(struct sbr_plan *p, enum sbr_do what)
{
	struct sbr_step *s = &VEC_PUSH(p->steps, p->n);

	s->what = what;
	return s;
}

/* A route of the main table that only this link carries. */
static bool is_ours(const struct sbr_facts *f, const struct route *r)
{
	for (size_t i = 0; i < r->n_hops; i++)
		if (r->hops[i].index != f->index)
			return false;
	return r->table == TABLE_MAIN && (r->n_hops || r->index == f->index);
}

static bool has_gateway(const struct route *r)
{
	for (size_t i = 0; i < r->n_hops; i++)
		if (r->hops[i].gw.family)
			return true;
	return r->gw.family;
}

/* Routes without source and gateway are everybody's. */
static bool is_for(const struct route *r, const struct ipnet *net)
{
	for (size_t i = 0; i < r->n_hops; i++)
		if (ipnet_contains(net, &r->hops[i].gw))
			return true;
	if (!r->src.family && !has_gateway(r))
		return true;
	return ipnet_contains(net, &r->src) || ipnet_contains(net, &r->gw);
}

static const struct ipaddr *given(const struct sbr_conf *c, int family)
{
	return family == 4 ? &c->gw4 : &c->gw6;
}

static struct ipaddr gateway_of(const struct sbr_conf *c, const struct cni_ip *ip)
{
	const struct ipaddr *gw = given(c, ip->address.ip.family);

	return gw->family ? *gw : ip->gateway;
}

/* The interface's default route would replace that of a gateway of the configuration. */
static bool gives_way(const struct sbr_conf *c, const struct route *r)
{
	return ipnet_is_default(&r->dst) && given(c, r->family)->family;
}

static struct route default_route(const struct sbr_facts *f, int family, const struct ipaddr *gw,
				  uint32_t table)
{
	return (struct route){
		.family = (uint8_t)family,
		.dst.ip.family = (uint8_t)family,
		.gw = *gw,
		.index = f->index,
		.table = table,
	};
}

static void plan_table(const struct sbr_conf *c, const struct sbr_facts *f, const struct cni_ip *ip,
		       uint32_t table, struct sbr_plan *p)
{
	struct ipaddr gw = gateway_of(c, ip);

	push(p, SBR_RULE_ADD)->rule = rule_of(&ip->address.ip, table);
	if (gw.family)
		push(p, SBR_DEFAULT_ADD)->route =
			default_route(f, ip->address.ip.family, &gw, table);
	for (size_t i = 0; i < f->n_routes; i++) {
		const struct route *r = &f->routes[i];
		struct sbr_step *s;

		if (!is_ours(f, r) || !is_for(r, &ip->address) || gives_way(c, r))
			continue;
		s = push(p, SBR_ROUTE_PUT);
		s->route = *r;
		s->route.table = table;
	}
}

/* What a replace in the main table would meet: same destination and metric. */
static const struct route *standing(const struct sbr_facts *f, const struct route *r)
{
	for (size_t i = 0; i < f->n_routes; i++)
		if (f->routes[i].table == TABLE_MAIN && ipnet_eq(&f->routes[i].dst, &r->dst) &&
		    f->routes[i].priority == r->priority)
			return &f->routes[i];
	return NULL;
}

static void plan_hint(const struct sbr_facts *f, const struct cni_ip *ip, struct sbr_plan *p)
{
	const struct route *old;
	struct sbr_step *s;

	if (ip->address.len == ip_bits(&ip->address.ip))
		return;
	s = push(p, SBR_ROUTE_PUT);
	s->route = (struct route){
		.family = ip->address.ip.family,
		.dst = ipnet_network(&ip->address),
		.src = ip->address.ip,
		.index = f->index,
		.table = TABLE_MAIN,
		/* What the kernel takes for IPv6 without one; said, so that undo names this route. */
		.priority = ip->address.ip.family == 6 ? IPV6_PRIORITY : 0,
		.scope = SCOPE_LINK,
	};
	old = standing(f, &s->route);
	s->has_old = old != NULL;
	if (old)
		s->old = *old;
}

/* By way of a gateway first: taken back in the other order, the gateways' subnets come first. */
static void plan_leave(const struct sbr_conf *c, const struct sbr_facts *f, bool gateways,
		       struct sbr_plan *p)
{
	for (size_t i = 0; i < f->n_routes; i++) {
		const struct route *r = &f->routes[i];

		if (!is_ours(f, r) || has_gateway(r) != gateways)
			continue;
		if (!c->hints || r->scope != SCOPE_LINK)
			push(p, SBR_ROUTE_DEL)->route = *r;
	}
}

static void plan_rules(const struct sbr_conf *c, const struct sbr_facts *f,
		       const struct cni_ip *ips, size_t n, struct sbr_plan *p)
{
	for (size_t i = 0; i < n; i++) {
		struct rule want = rule_of(&ips[i].address.ip, c->table);
		bool there = false;

		for (size_t k = 0; k < f->n_rules; k++)
			there |= rule_eq(&f->rules[k], &want);
		if (!there)
			push(p, SBR_RULE_ADD)->rule = want;
	}
}

void sbr_plan(const struct sbr_conf *c, const struct sbr_facts *f, const struct cni_ip *ips,
	      size_t n, struct sbr_plan *ret)
{
	uint32_t table = SBR_FIRST_TABLE;

	*ret = (struct sbr_plan){0};
	if (c->table) {
		plan_rules(c, f, ips, n, ret);
		ret->n_adds = ret->n;
		return;
	}
	for (size_t i = 0; i < n; i++, table++) {
		table = free_table(f, table);
		plan_table(c, f, &ips[i], table, ret);
	}
	for (size_t i = 0; c->hints && i < n; i++)
		plan_hint(f, &ips[i], ret);
	ret->n_adds = ret->n;
	plan_leave(c, f, true, ret);
	plan_leave(c, f, false, ret);
	/* Every route is the interface's; one that stood in the way may be another's. */
	for (size_t i = 0; i < ret->n; i++)
		ret->steps[i].route.dev = f->ifname;
}

static bool is_from(const struct rule *r, const struct ipaddr *ip)
{
	return r->src.len == ip_bits(ip) && ip_eq(&r->src.ip, ip);
}

size_t sbr_rules_of(const struct sbr_conf *c, const struct rule *rules, size_t n_rules,
		    const struct ipaddr *ips, size_t n, const struct rule **ret)
{
	size_t found = 0;

	for (size_t i = 0; i < n_rules; i++) {
		bool from = false;

		/* A rule with more conditions is not ours, and could not be named exactly. */
		if (rules[i].more || (c->table && rules[i].table != c->table))
			continue;
		for (size_t k = 0; k < n; k++)
			from |= is_from(&rules[i], &ips[k]);
		if (from)
			ret[found++] = &rules[i];
	}
	return found;
}

/* --- CHECK --- */

static bool leads(const struct route *r, int index, const struct ipaddr *gw)
{
	bool any = !gw->family;

	if (r->index == index && (any || ip_eq(&r->gw, gw)))
		return true;
	for (size_t i = 0; i < r->n_hops; i++)
		if (r->hops[i].index == index && (any || ip_eq(&r->hops[i].gw, gw)))
			return true;
	return false;
}

static bool has_route(const struct sbr_facts *f, uint32_t table, const struct ipnet *dst,
		      const struct ipaddr *gw)
{
	for (size_t i = 0; i < f->n_routes; i++)
		if (f->routes[i].table == table && ipnet_eq(&f->routes[i].dst, dst) &&
		    leads(&f->routes[i], f->index, gw))
			return true;
	return false;
}

static int check_table(const struct sbr_conf *c, const struct sbr_facts *f, const struct cni_ip *ip,
		       uint32_t table, struct err *e)
{
	const struct ipaddr none = {0};
	struct ipaddr gw = gateway_of(c, ip);
	struct ipnet all = {.ip.family = ip->address.ip.family};
	struct ipnet subnet = ipnet_network(&ip->address);
	char text[IP_TEXT_MAX];

	if (gw.family && !has_route(f, table, &all, &gw))
		return err_set(e, -ENOENT, "table %u has no default route via %s on interface %s",
			       table, ip_str(&gw, text), f->ifname);
	if (ip->address.len < ip_bits(&ip->address.ip) && !has_route(f, table, &subnet, &none))
		return err_set(e, -ENOENT, "table %u has no route to %s on interface %s", table,
			       ipnet_str(&subnet, text), f->ifname);
	return 0;
}

/* One of the address' tables must be as we made it: the coordinator may have rules as well. */
static int check_ip(const struct sbr_conf *c, const struct sbr_facts *f, const struct cni_ip *ip,
		    struct err *e)
{
	char text[IP_TEXT_MAX];
	bool found = false;
	int r = 0;

	for (size_t i = 0; i < f->n_rules; i++) {
		const struct rule *rule = &f->rules[i];
		struct rule want = rule_of(&ip->address.ip, c->table ? c->table : rule->table);

		if (!rule_eq(rule, &want))
			continue;
		found = true;
		r = c->table ? 0 : check_table(c, f, ip, rule->table, e);
		if (r == 0) {
			err_clear(e);
			return 0;
		}
	}
	if (found)
		return r;
	if (c->table)
		return err_set(e, -ENOENT, "rule 'from %s lookup %u' is missing (interface %s)",
			       ip_str(&ip->address.ip, text), c->table, f->ifname);
	return err_set(e, -ENOENT, "rule 'from %s' is missing (interface %s)",
		       ip_str(&ip->address.ip, text), f->ifname);
}

int sbr_check(const struct sbr_conf *c, const struct sbr_facts *f, const struct cni_ip *ips,
	      size_t n, struct err *e)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++)
		r = check_ip(c, f, &ips[i], e);
	return r;
}
