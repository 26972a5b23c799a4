/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One NIC's plan. The order of steps and what each does is the original's; where it ignores that
 * something exists already, the step is left out instead, so that undo never takes away what was
 * there before.
 */
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cni/coordinator_private.h"

const struct ipaddr *co_gateway(const struct planning *pl, int family)
{
	for (size_t i = 0; i < pl->n_host; i++)
		if (pl->host[i].family == family)
			return &pl->host[i];
	return NULL;
}

static void add_host_ip(struct planning *pl, const struct ipaddr *a)
{
	if (!co_ip_usable(a) || !(pl->families & co_family_bit(a)))
		return;
	for (size_t i = 0; i < pl->n_host; i++)
		if (ip_eq(&pl->host[i], a))
			return;
	VEC_PUSH(pl->host, pl->n_host) = *a;
}

/* An address the node reaches through the pod's own link already: for it, the kernel would name
 * any source address. */
static bool reached_already(const struct planning *pl, const struct ipaddr *pod)
{
	struct ipnet net = ipnet_host(pod);

	for (size_t i = 0; i < pl->f->n_host_routes; i++)
		if (pl->f->host_routes[i].index == pl->f->host_veth.index &&
		    ipnet_eq(&pl->f->host_routes[i].dst, &net))
			return true;
	return false;
}

/* The first NIC chose the node's address to go through; later ones keep to it. */
static void add_chosen(struct planning *pl)
{
	for (size_t i = 0; i < pl->f->n_routes; i++) {
		const struct route *r = &pl->f->routes[i];

		if (r->table == CO_FIRST_NIC_TABLE && ipnet_is_default(&r->dst) &&
		    r->index == pl->exit->index && r->gw.family)
			add_host_ip(pl, &r->gw);
	}
}

static bool pod_has(const struct planning *pl, const struct ipaddr *ip)
{
	for (size_t i = 0; i < pl->f->n_addrs; i++)
		if (ip_eq(&pl->f->addrs[i].net.ip, ip) && !co_hidden(pl->f, pl->f->addrs[i].index))
			return true;
	return false;
}

void co_host_ips(struct planning *pl)
{
	if (pl->stage.mode == CO_UNDERLAY && !pl->stage.first)
		add_chosen(pl);
	for (size_t i = 0; i < pl->f->n_lookups; i++) {
		const struct co_lookup *l = &pl->f->lookups[i];

		if (pod_has(pl, &l->pod) && !reached_already(pl, &l->pod))
			add_host_ip(pl, &l->src);
	}
	for (size_t i = 0; i < pl->f->n_host_ips; i++)
		add_host_ip(pl, &pl->f->host_ips[i]);
}

/* --- the NIC itself --- */

static int find_nic(struct planning *pl, struct err *e)
{
	pl->link = co_link(pl->f, pl->nic->ifname);
	if (!pl->link)
		return err_set(e, -ENODEV, "the pod has no interface '%s': Link not found",
			       pl->nic->ifname);
	pl->n_ips = co_link_ips(pl->f, pl->link->index, CO_V4 | CO_V6, &pl->ips);
	for (size_t i = 0; i < pl->n_ips; i++)
		pl->families |= co_family_bit(&pl->ips[i]);
	if (!pl->families)
		return err_kind(e, ERR_CONF, -EADDRNOTAVAIL,
				"no usable IP addresses on \"%s\" (give the network an IPAM, or leave "
				"the coordinator out)",
				pl->nic->ifname);
	return 0;
}

static void bring_up(struct planning *pl)
{
	struct link *l = (struct link *)pl->link;

	if (link_is_up(l))
		return;
	co_emit(pl, CO_POD, CO_LINK_UP, l->name, l->index);
	l->flags |= IFF_UP;
}

static int find_exit(struct planning *pl, struct err *e)
{
	bool underlay = pl->stage.mode == CO_UNDERLAY;
	const char *name = underlay ? CO_VETH : pl->c->default_nic;

	pl->exit = co_link(pl->f, name);
	if (!pl->exit)
		return err_set(e, -ENODEV, "the pod has no interface '%s': Link not found", name);
	if (!pl->f->host_veth.index)
		return err_set(e, -ENODEV,
			       "'%s' of the pod has no end on this node (%s mode wants a veth pair)",
			       name, underlay ? "underlay" : "overlay");
	return 0;
}

static void find_src(struct planning *pl)
{
	const struct link *eth0 = co_link(pl->f, pl->c->default_nic);
	struct ipaddr *ips = NULL;

	/* IPv4 only: the kernel loses IPv6 routes with a source (its bug 107071). */
	if (eth0 && co_link_ips(pl->f, eth0->index, CO_V4, &ips))
		pl->src4 = ips[0];
	free(ips);
}

static struct mac mac_from_ip(const struct co_conf *c, const struct ipaddr *ip)
{
	struct mac m = {.len = 6, .b = {c->mac_prefix[0], c->mac_prefix[1]}};

	memcpy(&m.b[2], &ip->b[ip_size(ip) - 4], 4);
	return m;
}

static void change_nic(struct planning *pl)
{
	struct link *l = (struct link *)pl->link;
	struct co_step *s;

	if (pl->c->has_mac_prefix) {
		struct mac m = mac_from_ip(pl->c, &pl->ips[0]);

		if (!mac_eq(&m, &l->mac)) {
			s = co_emit(pl, CO_POD, CO_LINK_MAC, l->name, l->index);
			s->old_mac = l->mac;
			s->mac = l->mac = m;
		}
		pl->nic->mac = m;
	}
	if (pl->c->txqlen && pl->c->txqlen != l->txqlen) {
		s = co_emit(pl, CO_POD, CO_LINK_TXQLEN, l->name, l->index);
		s->old_num = l->txqlen;
		s->num = l->txqlen = pl->c->txqlen;
	}
}

static void emit_sysctl(struct planning *pl, enum co_side side, const char *key, int value)
{
	struct co_step *s;

	for (size_t i = 0; i < pl->p->n; i++) {
		s = &pl->p->steps[i];
		if (s->what == CO_SYSCTL && s->side == side && strcmp(s->key, key) == 0 &&
		    atoi(s->value) == value)
			return;
	}
	s = co_emit(pl, side, CO_SYSCTL, "", 0);
	str_copy(s->key, sizeof(s->key), key);
	snprintf(s->value, sizeof(s->value), "%d", value);
}

static void sysctls(struct planning *pl)
{
	if (pl->families & CO_V6)
		emit_sysctl(pl, CO_POD, "net/ipv6/conf/all/disable_ipv6", 0);
	if (pl->c->rp_filter >= 0)
		emit_sysctl(pl, CO_POD, "net/ipv4/conf/all/rp_filter", pl->c->rp_filter);
}

static void veth_address(struct planning *pl)
{
	struct co_step *s;

	if (pl->stage.mode != CO_UNDERLAY || !pl->stage.first || !pl->c->veth_addr.family ||
	    !(pl->families & CO_V4))
		return;
	s = co_emit(pl, CO_POD, CO_ADDR_ADD, pl->exit->name, pl->exit->index);
	s->net = ipnet_host(&pl->c->veth_addr);
}

/* --- neighbours --- */

static void neighbours(struct planning *pl)
{
	const struct link *host = &pl->f->host_veth;
	struct co_step *s;

	for (size_t i = 0; i < pl->f->n_host_neighs; i++) {
		const struct neigh *n = &pl->f->host_neighs[i];

		for (size_t k = 0; k < pl->n_ips; k++) {
			if (!ip_eq(&n->ip, &pl->ips[k]))
				continue;
			s = co_emit(pl, CO_HOST, CO_NEIGH_DEL, "", n->index);
			s->net = ipnet_host(&n->ip);
		}
	}
	for (size_t i = 0; i < pl->n_ips; i++) {
		s = co_emit(pl, CO_HOST, CO_NEIGH_ADD, host->name, host->index);
		s->net = ipnet_host(&pl->ips[i]);
		s->mac = pl->exit->mac;
	}
	for (size_t i = 0; pl->stage.first && i < pl->n_host; i++) {
		s = co_emit(pl, CO_POD, CO_NEIGH_ADD, pl->exit->name, pl->exit->index);
		s->net = ipnet_host(&pl->host[i]);
		s->mac = host->mac;
	}
}

/* --- routes to the node and from it --- */

static struct route route_via_node(const struct planning *pl, const struct ipnet *dst,
				   const struct ipaddr *gw, uint32_t table)
{
	struct route r = {
		.dst = *dst,
		.family = dst->ip.family,
		.index = pl->exit->index,
		.table = table,
		.scope = gw ? SCOPE_UNIVERSE : SCOPE_LINK,
	};

	if (gw)
		r.gw = *gw;
	if (r.family == 4)
		r.src = pl->src4;
	else
		r.scope = SCOPE_UNIVERSE;
	return r;
}

static void routes_to_node(struct planning *pl)
{
	for (size_t i = 0; i < pl->n_host; i++) {
		struct ipnet dst = ipnet_host(&pl->host[i]);
		struct route r = route_via_node(pl, &dst, NULL, pl->stage.table);

		co_emit_route(pl, CO_POD, &r);
		r.table = TABLE_MAIN;
		if (pl->stage.first)
			co_emit_route(pl, CO_POD, &r);
	}
}

static void host_rule(struct planning *pl, uint8_t family)
{
	const struct rule rule = {.family = family,
				  .priority = CO_HOST_RULE_PRIORITY,
				  .has_priority = true,
				  .table = pl->c->host_table};

	for (size_t i = 0; i < pl->p->n; i++) {
		const struct co_step *s = &pl->p->steps[i];

		if (s->side == CO_HOST && s->what == CO_RULE_ADD && rule_eq(&s->rule, &rule))
			return;
	}
	co_emit(pl, CO_HOST, CO_RULE_ADD, "", 0)->rule = rule;
}

/* A former pod's entry for the address goes; ours, if it is there, stays. */
static void host_route(struct planning *pl, const struct ipaddr *ip)
{
	struct route want = {.dst = ipnet_host(ip),
			     .family = ip->family,
			     .index = pl->f->host_veth.index,
			     .table = pl->c->host_table,
			     .scope = ip->family == 4 ? SCOPE_LINK : SCOPE_UNIVERSE};

	for (size_t i = 0; i < pl->f->n_host_routes;) {
		struct route r = pl->f->host_routes[i];

		if (r.table == want.table && ipnet_eq(&r.dst, &want.dst) && r.index != want.index &&
		    !r.n_hops)
			co_emit_route_del(pl, CO_HOST, &r);
		else
			i++;
	}
	co_emit_route(pl, CO_HOST, &want);
}

static void routes_from_node(struct planning *pl)
{
	if (pl->families & CO_V4)
		host_rule(pl, 4);
	if (pl->families & CO_V6)
		host_rule(pl, 6);
	for (size_t i = 0; i < pl->n_ips; i++)
		host_route(pl, &pl->ips[i]);
}

static void hijack(struct planning *pl)
{
	for (size_t i = 0; i < pl->c->n_cidrs; i++) {
		const struct ipnet *dst = &pl->c->cidrs[i];
		const struct ipaddr *gw = co_gateway(pl, dst->ip.family);
		struct route r;
		char text[IP_TEXT_MAX];

		if (!(pl->families & co_family_bit(&dst->ip)) || !gw) {
			log_warn("no route: neither the NIC nor the node has the address family",
				 LOG_S("nic", pl->nic->ifname), LOG_S("dst", ipnet_str(dst, text)));
			continue;
		}
		r = route_via_node(pl, dst, gw, pl->stage.first ? TABLE_MAIN : pl->stage.table);
		co_emit_route(pl, CO_POD, &r);
	}
}

/* What comes in by veth0 is answered by veth0. */
static void reply_path(struct planning *pl)
{
	struct co_step *s;

	if (pl->stage.mode != CO_UNDERLAY || !pl->stage.first)
		return;
	s = co_emit(pl, CO_POD, CO_MARKS, pl->exit->name, pl->exit->index);
	s->num = CO_MARK;
	for (uint8_t family = 4; family <= 6; family += 2) {
		const struct ipaddr *gw = co_gateway(pl, family);
		struct ipnet all = {.ip = {.family = family}};
		struct route r;

		if (!(pl->families & (family == 4 ? CO_V4 : CO_V6)))
			continue;
		s = co_emit(pl, CO_POD, CO_RULE_ADD, "", 0);
		s->rule = (struct rule){.family = family,
					.mark = CO_MARK,
					.mask = 0xffffffff,
					.table = CO_FIRST_NIC_TABLE,
					.priority = CO_MARK_RULE_PRIORITY,
					.has_priority = true};
		if (!gw)
			continue;
		r = route_via_node(pl, &all, gw, CO_FIRST_NIC_TABLE);
		co_emit_route(pl, CO_POD, &r);
	}
}

static void policy_routes(struct planning *pl)
{
	bool main = pl->stage.mode == CO_UNDERLAY && pl->stage.first;

	for (size_t i = 0; i < pl->c->n_policy; i++) {
		const struct co_policy *p = &pl->c->policy[i];
		struct route r = {.dst = p->dst,
				  .gw = p->gw,
				  .family = p->dst.ip.family,
				  .index = pl->link->index,
				  .table = main ? TABLE_MAIN : pl->stage.table};

		if (pl->families & co_family_bit(&p->gw))
			co_emit_route(pl, CO_POD, &r);
	}
}

static int plan(struct planning *pl, struct err *e)
{
	int r = find_nic(pl, e);

	if (r < 0)
		return r;
	bring_up(pl);
	r = co_stage(pl->c, pl->f, pl->nic->ifname, &pl->stage, e);
	if (r >= 0)
		r = find_exit(pl, e);
	if (r < 0)
		return r;
	find_src(pl);
	co_host_ips(pl);
	veth_address(pl);
	change_nic(pl);
	sysctls(pl);
	neighbours(pl);
	routes_to_node(pl);
	routes_from_node(pl);
	hijack(pl);
	reply_path(pl);
	r = co_tune_routes(pl, e);
	if (r >= 0)
		policy_routes(pl);
	return r;
}

int co_plan_nic(struct co_nic *nic, size_t at, struct co_facts *f, struct co_plan *p,
		struct err *e)
{
	struct planning pl = {.nic = nic, .c = nic->conf, .f = f, .p = p, .at = at};
	int r = plan(&pl, e);

	free(pl.ips);
	free(pl.host);
	if (r < 0 && nic->label)
		err_wrap(e, r, "%s", nic->label);
	return r;
}
