/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/plugins/sbr.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "kern/sys/netns.h"

enum { LOCK_MS = 10000 };

struct raw {
	const char *unused;
	int64_t table;
	bool has_table, hints;
	struct json_strs gateways;
};

static const struct json_field fields[] = {
	JSON_FIELD("table", J_INT, struct raw, table, .has = offsetof(struct raw, has_table),
		   .min = 1, .max = UINT32_MAX,
		   JSON_DOC(NULL,
			    "routing table that ADD's rules refer to; if set, ADD creates only the "
			    "rules, and the user maintains the table's routes")),
	JSON_FIELD("gateways", J_STRS, struct raw, gateways,
		   JSON_DOC(NULL,
			    "gateways, at most one per family, instead of those of prevResult")),
	JSON_FIELD("addSourceHints", J_BOOL, struct raw, hints,
		   JSON_DOC("false",
			    "the main table keeps the interface's link-scope routes and gets, "
			    "for each address, a route to its subnet with the address as source")),
	{0},
};
static const struct json_table conf_table = {fields, JSON_GO, sizeof(struct raw)};

static int read_gateway(const char *text, size_t i, struct sbr_conf *c, struct err *e)
{
	struct ipaddr ip, *into;

	if (ip_parse(span_of(text), &ip) < 0)
		return err_kind(e, ERR_CONF, -EINVAL,
				"conf.gateways[%zu] is '%s', expected an IP address", i, text);
	into = ip.family == 4 ? &c->gw4 : &c->gw6;
	if (into->family)
		return err_kind(e, ERR_CONF, -EINVAL,
				"conf.gateways[%zu] is '%s': multiple IPv%d addresses in gateways, "
				"expected one at most",
				i, text, ip.family);
	*into = ip;
	return 0;
}

int sbr_conf_read(struct json_doc *d, const struct json *conf, struct sbr_conf *ret, struct err *e)
{
	struct sbr_conf c = {0};
	struct raw raw = {0};
	int r = json_read(d, conf, &conf_table, &raw, "conf", e);

	for (size_t i = 0; r >= 0 && i < raw.gateways.n; i++)
		r = read_gateway(raw.gateways.v[i], i, &c, e);
	if (r < 0)
		return r;
	c.table = (uint32_t)raw.table;
	c.hints = raw.hints;
	*ret = c;
	return 0;
}

static void facts_done(struct sbr_facts *f)
{
	free(f->rules);
	route_list_free(f->routes, f->n_routes);
}
#define auto_facts __attribute__((cleanup(facts_done)))

static int collect(const struct chained_call *m, struct sbr_facts *f, struct err *e)
{
	struct link l;
	int r = link_get(m->pod, m->ifname, &l, e);

	if (r < 0)
		return err_wrap(e, r, "Cannot find network interface %s", m->ifname);
	f->ifname = m->ifname;
	f->index = l.index;
	r = rule_list(m->pod, 0, &f->rules, &f->n_rules, e);
	if (r >= 0)
		r = route_list(m->pod, 0, 0, &f->routes, &f->n_routes, e);
	return r < 0 ? r : 0;
}

/* Locks the pod's namespace, as the original does, because two sbr processes that run for one
 * pod at the same time would choose the same table. Closing the descriptor releases the lock. */
static int lock(const struct chained_call *m, int *fd, struct err *e)
{
	int r = netns_open(m->call->netns, fd, e);

	if (r < 0)
		return r;
	r = lock_fd(*fd, LOCK_MS);
	if (r < 0)
		return err_kind(e, r == -EWOULDBLOCK ? ERR_AGAIN : ERR_OTHER, r,
				"lock namespace '%s': %s%s", m->call->netns, errno_text(r),
				r == -EWOULDBLOCK ? ": another sbr holds the lock" : "");
	return 0;
}

/* --- steps and their undo --- */

static void emit(struct nl_batch *b, const struct sbr_step *s)
{
	switch (s->what) {
	case SBR_RULE_ADD: rule_add(b, &s->rule, 0); break;
	case SBR_DEFAULT_ADD: route_add(b, &s->route, ROUTE_EXCL); break;
	case SBR_ROUTE_PUT: route_add(b, &s->route, ROUTE_REPLACE); break;
	case SBR_ROUTE_DEL: route_del(b, &s->route); break;
	}
}

/* A copy of a step for the undo list. `hops` has the next hops of the step's route, then those of
 * the replaced route. */
struct done {
	struct nl_wire *w;
	struct sbr_step step;
	struct route_hop hops[];
};

static int undo_step(void *arg, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct done *d = arg;

	d->step.route.hops = d->hops;
	d->step.old.hops = d->hops + d->step.route.n_hops;
	switch (d->step.what) {
	case SBR_RULE_ADD: rule_del(b, &d->step.rule); break;
	case SBR_DEFAULT_ADD: route_del(b, &d->step.route); break;
	case SBR_ROUTE_PUT:
		if (d->step.has_old)
			route_add(b, &d->step.old, ROUTE_REPLACE);
		else
			route_del(b, &d->step.route);
		break;
	/* NLM_F_EXCL is not set, because the IPv6 route fe80::/64 of another link would make the
	 * request fail. */
	case SBR_ROUTE_DEL: route_add(b, &d->step.route, ROUTE_CREATE); break;
	}
	return nl_batch_commit(d->w, b, e);
}

static void push_done(const struct chained_call *m, const struct sbr_step *s, struct undo *u)
{
	size_t n = s->route.n_hops, n_old = s->old.n_hops;
	size_t size = sizeof(struct done) + (n + n_old) * sizeof(struct route_hop);
	auto_free struct done *d = xcalloc(1, size);

	d->w = m->pod;
	d->step = *s;
	for (size_t i = 0; i < n + n_old; i++)
		d->hops[i] = i < n ? s->route.hops[i] : s->old.hops[i - n];
	undo_push(u, "reverse the change of a rule or route", undo_step, d, size);
}

static int step_err(const struct sbr_step *s, int code, struct err *e)
{
	char text[IP_TEXT_MAX];

	switch (s->what) {
	case SBR_RULE_ADD: return err_wrap(e, code, "Failed to add rule");
	case SBR_DEFAULT_ADD:
		return err_wrap(e, code, "Failed to add default route to %s",
				ip_str(&s->route.gw, text));
	case SBR_ROUTE_PUT: return err_wrap(e, code, "Failed to readd route");
	case SBR_ROUTE_DEL: return err_wrap(e, code, "Failed to delete route");
	}
	return code;
}

static int apply(const struct chained_call *m, const struct sbr_step *steps, size_t n,
		 struct undo *u, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	const struct sbr_step *failed = NULL;
	int r;

	for (size_t i = 0; i < n; i++)
		emit(b, &steps[i]);
	r = n ? nl_batch_commit(m->pod, b, e) : 0;
	for (size_t i = 0; i < n; i++) {
		int one = nl_batch_result(b, i);

		/* Also pushes the undo of a step that failed: the kernel may have carried it out
		 * and only its reply was lost. The undo of a step that had no effect is
		 * harmless. */
		if (one != -EEXIST)
			push_done(m, &steps[i], u);
		if (one < 0 && !failed)
			failed = &steps[i];
	}
	return r < 0 && failed ? step_err(failed, r, e) : r;
}

/* --- verbs of the plugin sbr --- */

static int want_ips(const struct chained_call *m, const struct cni_result *prev,
		    struct cni_ip **ips, size_t *n, struct err *e)
{
	if (!m->has_prev)
		return err_kind(e, ERR_CONF, -EINVAL,
				"This plugin must be called as chained plugin (prevResult is "
				"missing)");
	*n = sbr_ips(prev, m->ifname, ips);
	if (!*n)
		return err_kind(e, ERR_CONF, -EINVAL, "No IP addresses supplied on interface: %s",
				m->ifname);
	return 0;
}

static int add(const struct chained_call *m, struct cni_result *prev, struct undo *u, struct err *e)
{
	auto_facts struct sbr_facts f = {0};
	auto_free struct cni_ip *ips = NULL;
	auto_fd int locked = -1;
	struct sbr_plan plan;
	struct sbr_conf c;
	size_t n = 0;
	int r = sbr_conf_read(m->doc, m->conf, &c, e);

	if (r >= 0)
		r = want_ips(m, prev, &ips, &n, e);
	if (r >= 0)
		r = lock(m, &locked, e);
	if (r >= 0)
		r = collect(m, &f, e);
	if (r < 0)
		return r;
	sbr_plan(&c, &f, ips, n, &plan);
	r = apply(m, plan.steps, plan.n_adds, u, e);
	/* Routes are deleted from the main table only after all rules and tables were added. */
	if (r >= 0)
		r = apply(m, plan.steps + plan.n_adds, plan.n - plan.n_adds, u, e);
	free(plan.steps);
	return r;
}

/* Collects the addresses in prevResult and those of the link; either may be missing. */
static size_t known_ips(const struct chained_call *m, const struct cni_result *prev,
			struct ipaddr **ret)
{
	auto_free struct cni_ip *of_prev = NULL;
	auto_free struct addr *addrs = NULL;
	size_t n = 0, n_addrs = 0, n_prev = sbr_ips(prev, m->ifname, &of_prev);
	struct ipaddr *list = NULL;
	struct link l;

	for (size_t i = 0; i < n_prev; i++)
		VEC_PUSH(list, n) = of_prev[i].address.ip;
	if (link_get(m->pod, m->ifname, &l, NULL) >= 0 &&
	    addr_list(m->pod, 0, l.index, &addrs, &n_addrs, NULL) >= 0)
		for (size_t i = 0; i < n_addrs; i++)
			VEC_PUSH(list, n) = addrs[i].net.ip;
	*ret = list;
	return n;
}

static int delete_rules(const struct chained_call *m, const struct sbr_conf *c,
			const struct ipaddr *ips, size_t n, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	auto_free const struct rule **owned = NULL;
	auto_free struct rule *rules = NULL;
	size_t n_rules = 0, n_owned;
	int r = rule_list(m->pod, 0, &rules, &n_rules, e);

	if (r < 0)
		return r;
	owned = xcalloc(n_rules, sizeof(*owned));
	n_owned = sbr_rules_of(c, rules, n_rules, ips, n, owned);
	for (size_t i = 0; i < n_owned; i++)
		rule_del(b, owned[i]);
	return n_owned ? nl_batch_commit(m->pod, b, e) : 0;
}

/* Routes are not deleted, because the kernel deletes them with the link. */
static int del(const struct chained_call *m, const struct cni_result *prev, struct err *e)
{
	auto_free struct ipaddr *ips = NULL;
	struct sbr_conf c = {0};
	size_t n;

	if (!m->pod)
		return 0;
	/* If the configuration is invalid or names no table, deletes the rules from the
	 * interface's addresses, whatever table they name. */
	sbr_conf_read(m->doc, m->conf, &c, NULL);
	n = known_ips(m, prev, &ips);
	return n ? delete_rules(m, &c, ips, n, e) : 0;
}

static int check(const struct chained_call *m, const struct cni_result *prev, struct err *e)
{
	auto_facts struct sbr_facts f = {0};
	auto_free struct cni_ip *ips = NULL;
	struct sbr_conf c;
	size_t n = 0;
	int r = sbr_conf_read(m->doc, m->conf, &c, e);

	if (r >= 0)
		r = want_ips(m, prev, &ips, &n, e);
	if (r >= 0)
		r = collect(m, &f, e);
	return r < 0 ? r : sbr_check(&c, &f, ips, n, e);
}

/* STATUS succeeds if the configuration is valid and the kernel lists rules. A kernel without policy
 * routing cannot list them. */
static int status(const struct chained_call *m, struct err *e)
{
	auto_free struct rule *rules = NULL;
	auto_nl struct nl_wire *w = NULL;
	struct sbr_conf c;
	size_t n;
	int r = sbr_conf_read(m->doc, m->conf, &c, e);

	if (r < 0)
		return r;
	r = nl_open(&w, NL_ROUTE, -1, e);
	if (r >= 0)
		r = rule_list(w, 4, &rules, &n, e);
	if (r < 0)
		err_default_kind(e, ERR_UNAVAILABLE);
	return r < 0 ? r : 0;
}

const struct cni_meta chained_sbr = {
	.type = "sbr",
	.add = add,
	.del = del,
	.check = check,
	.status = status,
};
const struct cni_plugin cni_sbr = META_PLUGIN(sbr, &conf_table);

/* --- plan of the rules and routes --- */

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

/* Returns the first table, from `table` on, that no rule and no route uses. The original checks
 * only the rules and the main table's routes, and so adds routes to tables of other programs. */
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

/* Returns whether the route is in the main table and uses only this link. */
static bool is_of_interface(const struct sbr_facts *f, const struct route *r)
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

/* Returns whether the route belongs in the table of an address with this subnet: the subnet
 * contains the route's source or a gateway. A route without source and gateway belongs in the
 * tables of all addresses. */
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

/* Returns whether the route is a default route of a family for which the configuration gives a
 * gateway. The plan omits such a route, because it would replace the default route through that
 * gateway. */
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

		if (!is_of_interface(f, r) || !is_for(r, &ip->address) || gives_way(c, r))
			continue;
		s = push(p, SBR_ROUTE_PUT);
		s->route = *r;
		s->route.table = table;
	}
}

/* Returns the route of the main table that SBR_ROUTE_PUT of r would replace: it has the same
 * destination and metric. */
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
		/*
		 * Sets the metric that the kernel gives an IPv6 route without one, so that undo
		 * identifies this route.
		 */
		.priority = ip->address.ip.family == 6 ? IPV6_PRIORITY : 0,
		.scope = SCOPE_LINK,
	};
	old = standing(f, &s->route);
	s->has_old = old != NULL;
	if (old)
		s->old = *old;
}

/* Plans the deletion of the interface's routes in the main table: with `gateways` those through
 * a gateway, otherwise the others. If c->hints is set, link-scope routes stay. Routes through a
 * gateway are deleted first, so that undo, in reverse order, first adds the routes to the
 * subnets that contain the gateways. */
static void plan_leave(const struct sbr_conf *c, const struct sbr_facts *f, bool gateways,
		       struct sbr_plan *p)
{
	for (size_t i = 0; i < f->n_routes; i++) {
		const struct route *r = &f->routes[i];

		if (!is_of_interface(f, r) || has_gateway(r) != gateways)
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
	/* The routes of all steps are on the interface. An `old` route may be on another interface,
	 * so its `dev` stays NULL. */
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

		/* Skips an inverted rule and a rule with conditions that struct rule does not
		 * contain: sbr has not added it, and struct rule cannot describe it exactly
		 * enough to delete only this rule. */
		if (rules[i].more || rules[i].invert || (c->table && rules[i].table != c->table))
			continue;
		for (size_t k = 0; k < n; k++)
			from |= is_from(&rules[i], &ips[k]);
		if (from)
			ret[found++] = &rules[i];
	}
	return found;
}

/* --- CHECK --- */

static bool has_route(const struct sbr_facts *f, uint32_t table, const struct ipnet *dst,
		      const struct ipaddr *gw)
{
	for (size_t i = 0; i < f->n_routes; i++)
		if (f->routes[i].table == table && ipnet_eq(&f->routes[i].dst, dst) &&
		    route_leads_to(&f->routes[i], f->index, gw))
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

/* Checks that the address has a rule. Unless the configuration names the table, the table of one of
 * the address's rules must have the routes that ADD wrote; other rules of this address may be
 * the coordinator's. */
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
