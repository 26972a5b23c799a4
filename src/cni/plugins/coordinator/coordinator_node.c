/* SPDX-License-Identifier: Apache-2.0 */
/* The pod's way to its node and the node's to the pod: addresses, neighbours, routes, replies. */
#include <stdlib.h>

#include "base/log.h"
#include "cni/plugins/coordinator/coordinator_private.h"

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
	const struct rule rule = co_host_rule(family, pl->c->host_table);

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

/* Routes before the rule, which another pod's DEL may just be taking away. */
static void routes_from_node(struct planning *pl)
{
	for (size_t i = 0; i < pl->n_ips; i++)
		host_route(pl, &pl->ips[i]);
	if (pl->families & CO_V4)
		host_rule(pl, 4);
	if (pl->families & CO_V6)
		host_rule(pl, 6);
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

void co_node_steps(struct planning *pl)
{
	neighbours(pl);
	routes_to_node(pl);
	routes_from_node(pl);
	hijack(pl);
	reply_path(pl);
}
