/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/plugins/coordinator/check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "kern/net/nft.h"

/* CHECK of the coordinator: each thing that ADD promises, looked at. */

static int check_links(struct checking *k, struct err *e)
{
	const char *exit;

	k->link = coordinator_link(k->f, k->nic->ifname);
	if (!k->link)
		return err_set(e, -ENODEV, "the pod has no interface '%s': Link not found",
			       k->nic->ifname);
	if (!link_is_up(k->link))
		return err_set(e, -ENETDOWN, "interface '%s' is down", k->nic->ifname);
	k->underlay = k->c->mode == COORD_UNDERLAY ||
		      (k->c->mode == COORD_AUTO && coordinator_link(k->f, COORD_VETH));
	k->first = k->underlay && strcmp(k->nic->ifname, k->c->default_nic) == 0;
	exit = k->underlay ? COORD_VETH : k->c->default_nic;
	k->exit = coordinator_link(k->f, exit);
	if (!k->exit || !link_is_up(k->exit))
		return err_set(e, -ENODEV, "'%s', the pod's way to its node, is %s", exit,
			       k->exit ? "down" : "gone: Link not found");
	if (!k->f->host_veth.index || !link_is_up(&k->f->host_veth))
		return err_set(e, -ENODEV, "the host end of '%s' is %s", exit,
			       k->f->host_veth.index ? "down" : "gone: Link not found");
	k->n_ips = coordinator_link_ips(k->f, k->link->index, COORD_V4 | COORD_V6, &k->ips);
	if (!k->n_ips)
		return err_set(e, -EADDRNOTAVAIL, "no usable IP addresses on \"%s\"",
			       k->nic->ifname);
	return 0;
}

static bool has_host_rule(const struct checking *k, int family)
{
	for (size_t i = 0; i < k->n_host_rules; i++) {
		const struct rule *r = &k->host_rules[i];

		if (r->family == family && r->priority == COORD_HOST_RULE_PRIORITY &&
		    r->table == k->c->host_table && !r->src.ip.family && !r->dst.ip.family)
			return true;
	}
	return false;
}

static bool has_host_route(const struct checking *k, const struct ipaddr *ip)
{
	struct ipnet dst = ipnet_host(ip);

	for (size_t i = 0; i < k->f->n_host_routes; i++) {
		const struct route *r = &k->f->host_routes[i];

		if (r->table == k->c->host_table && r->index == k->f->host_veth.index &&
		    ipnet_eq(&r->dst, &dst))
			return true;
	}
	return false;
}

static bool has_host_neigh(const struct checking *k, const struct ipaddr *ip)
{
	for (size_t i = 0; i < k->f->n_host_neighs; i++) {
		const struct neigh *n = &k->f->host_neighs[i];

		if (n->index == k->f->host_veth.index && ip_eq(&n->ip, ip))
			return neigh_is_permanent(n) && mac_eq(&n->mac, &k->exit->mac);
	}
	return false;
}

static int check_host(const struct checking *k, struct err *e)
{
	char ip[IP_TEXT_MAX];

	for (size_t i = 0; i < k->n_ips; i++) {
		ip_str(&k->ips[i], ip);
		if (!has_host_rule(k, k->ips[i].family))
			return err_set(
				e, -ENOENT,
				"the host has no rule 'from all lookup %u pref %d' for IPv%d",
				k->c->host_table, COORD_HOST_RULE_PRIORITY, k->ips[i].family);
		if (!has_host_route(k, &k->ips[i]))
			return err_set(e, -ENOENT,
				       "table %u of the host has no route to '%s' by '%s'",
				       k->c->host_table, ip, k->f->host_veth.name);
		if (!has_host_neigh(k, &k->ips[i]))
			return err_set(e, -ENOENT,
				       "the host has no permanent neighbour '%s' on '%s'", ip,
				       k->f->host_veth.name);
	}
	return 0;
}

static int check_nic(struct checking *k, struct err *e)
{
	int r = check_links(k, e);

	if (r >= 0)
		r = check_host(k, e);
	if (r >= 0)
		r = coordinator_check_pod(k, e);
	free(k->ips);
	if (r < 0 && k->nic->label)
		err_wrap(e, r, "%s", k->nic->label);
	return r;
}

static bool checks(const struct coordinator_nic *nic)
{
	return nic->conf && nic->conf->mode != COORD_DISABLED;
}

int coordinator_check(struct attach *a, const struct coordinator_nic *nics, size_t n, struct err *e)
{
	auto_free struct rule *pod = NULL, *host = NULL;
	auto_free struct neigh *neighs = NULL;
	struct coordinator_facts f = {0};
	struct checking k = {.a = a, .f = &f};
	bool any = false;
	int r;

	for (size_t i = 0; i < n; i++)
		any |= checks(&nics[i]);
	if (!any)
		return 0;
	r = coordinator_facts_gather(a, nics, n, &f, e);
	if (r >= 0)
		r = rule_list(a->pod, 0, &pod, &k.n_pod_rules, e);
	if (r >= 0)
		r = rule_list(a->host, 0, &host, &k.n_host_rules, e);
	if (r >= 0)
		r = neigh_list(a->pod, 0, 0, &neighs, &k.n_neighs, e);
	k.neighs = neighs;
	k.pod_rules = pod;
	k.host_rules = host;
	for (size_t i = 0; r >= 0 && i < n; i++) {
		if (!checks(&nics[i]))
			continue;
		k.nic = &nics[i];
		k.c = nics[i].conf;
		k.ips = NULL;
		r = check_nic(&k, e);
	}
	coordinator_facts_done(&f);
	return r < 0 ? r : 0;
}

/* CHECK of the coordinator, the pod's side: reply marks, neighbours, rules, tables. */

static bool has_mark_rule(const struct checking *k, int family)
{
	for (size_t i = 0; i < k->n_pod_rules; i++)
		if (k->pod_rules[i].family == family && k->pod_rules[i].mark == COORD_MARK &&
		    k->pod_rules[i].table == COORD_FIRST_NIC_TABLE)
			return true;
	return false;
}

static int check_replies(const struct checking *k, struct err *e)
{
	auto_nl struct nl_wire *w = NULL;
	int r;

	if (!k->first)
		return 0;
	for (size_t i = 0; i < k->n_ips; i++)
		if (!has_mark_rule(k, k->ips[i].family))
			return err_set(e, -ENOENT,
				       "the pod has no rule 'fwmark 0x1 lookup %d' for IPv%d",
				       COORD_FIRST_NIC_TABLE, k->ips[i].family);
	r = nl_open(&w, NL_NETFILTER, k->a->netns, e);
	if (r >= 0)
		r = nft_reply_marks_check(w, COORD_VETH, COORD_MARK, e);
	if (r == 0)
		return err_set(e, -ENOENT,
			       "the pod's marks of replies by '" COORD_VETH
			       "' are gone or changed");
	return r < 0 ? r : 0;
}

static bool is_default_of(const struct checking *k, const struct route *r, int family, bool own)
{
	bool ours = r->index == k->link->index;

	if (r->table != TABLE_MAIN || !ipnet_is_default(&r->dst) || r->dst.ip.family != family)
		return false;
	for (size_t i = 0; i < r->n_hops; i++)
		ours |= r->hops[i].index == k->link->index;
	return ours == own;
}

/* Only with another NIC's default route in main was there a reason to have a table. */
static bool wants_rule(const struct checking *k, int family)
{
	if (!k->c->tune_routes || k->first)
		return false;
	if (k->c->default_route_nic && strcmp(k->c->default_route_nic, k->nic->ifname) == 0)
		return false;
	for (size_t i = 0; i < k->f->n_routes; i++)
		if (is_default_of(k, &k->f->routes[i], family, false))
			return true;
	return false;
}

static bool table_reaches(const struct checking *k, uint32_t table, int index,
			  const struct ipnet *dst)
{
	for (size_t i = 0; i < k->f->n_routes; i++) {
		const struct route *r = &k->f->routes[i];
		bool by = r->index == index;

		for (size_t j = 0; j < r->n_hops; j++)
			by |= r->hops[j].index == index;
		if (by && (!table || r->table == table) && ipnet_eq(&r->dst, dst))
			return true;
	}
	return false;
}

/*
 * The node's addresses as the pod learnt them. The node may have got another one since, so only
 * those count that the pod has heard of in one place or another.
 */
static bool pod_knows(const struct checking *k, const struct ipaddr *ip)
{
	struct ipnet dst = ipnet_host(ip);

	for (size_t i = 0; i < k->n_neighs; i++)
		if (k->neighs[i].index == k->exit->index && ip_eq(&k->neighs[i].ip, ip))
			return true;
	return table_reaches(k, 0, k->exit->index, &dst);
}

static int check_way_to_node(const struct checking *k, uint32_t table, int family, struct err *e)
{
	char text[IP_TEXT_MAX];

	for (size_t i = 0; i < k->f->n_host_ips; i++) {
		const struct ipaddr *ip = &k->f->host_ips[i];
		struct ipnet dst = ipnet_host(ip);

		if (ip->family == family && pod_knows(k, ip) &&
		    !table_reaches(k, table, k->exit->index, &dst))
			return err_set(
				e, -ENOENT,
				"table %u of the pod has no route to the node's '%s' by '%s'",
				table, ip_str(ip, text), k->exit->name);
	}
	return 0;
}

static bool is_neighbour(const struct checking *k, const struct ipaddr *ip)
{
	for (size_t i = 0; i < k->n_neighs; i++)
		if (k->neighs[i].index == k->exit->index && ip_eq(&k->neighs[i].ip, ip))
			return neigh_is_permanent(&k->neighs[i]) &&
			       mac_eq(&k->neighs[i].mac, &k->f->host_veth.mac);
	return false;
}

/* The first NIC makes them, for the families that it has. */
static bool first_knew(const struct checking *k, int family)
{
	for (size_t i = 0; k->first && i < k->n_ips; i++)
		if (k->ips[i].family == family)
			return true;
	for (size_t i = 0; i < k->n_neighs; i++)
		if (k->neighs[i].index == k->exit->index && k->neighs[i].ip.family == family &&
		    neigh_is_permanent(&k->neighs[i]))
			return true;
	return false;
}

static int check_neighbours(const struct checking *k, struct err *e)
{
	char text[IP_TEXT_MAX];

	for (size_t i = 0; i < k->f->n_host_ips; i++) {
		const struct ipaddr *ip = &k->f->host_ips[i];

		if (first_knew(k, ip->family) && pod_knows(k, ip) && !is_neighbour(k, ip))
			return err_set(e, -ENOENT,
				       "the pod has no permanent neighbour '%s' on '%s'",
				       ip_str(ip, text), k->exit->name);
	}
	return 0;
}

/* Whether ADD gave the NIC a default route; unknown without prevResult. */
static bool had_default(const struct checking *k, int family)
{
	const struct cni_result *prev = k->nic->prev ? k->nic->prev : &k->a->call->prev;
	int iface = attach_prev_iface(prev, k->nic->ifname);

	for (size_t i = 0; iface >= 0 && i < prev->n_routes; i++)
		if (prev->routes[i].dst.ip.family == family &&
		    ipnet_is_default(&prev->routes[i].dst) &&
		    attach_route_is_of(prev, iface, &prev->routes[i]))
			return true;
	return false;
}

static int check_table(const struct checking *k, const struct rule *r, const char *ip,
		       struct err *e)
{
	struct ipnet all = {.ip = {.family = r->family}};

	if (r->table != COORD_FIRST_NIC_TABLE && had_default(k, r->family) &&
	    !table_reaches(k, r->table, k->link->index, &all) &&
	    !table_reaches(k, TABLE_MAIN, k->link->index, &all))
		return err_set(e, -ENOENT, "table %u of '%s' has no default route by '%s'",
			       r->table, ip, k->nic->ifname);
	if (r->table == COORD_FIRST_NIC_TABLE)
		return 0;
	return check_way_to_node(k, r->table, r->family, e);
}

/* A table of ours always has the node in it; sbr's has its own interface's routes only. */
static bool is_our_table(const struct checking *k, uint32_t table)
{
	for (size_t i = 0; i < k->f->n_routes; i++)
		if (k->f->routes[i].table == table && k->f->routes[i].index == k->exit->index)
			return true;
	return table == COORD_FIRST_NIC_TABLE;
}

/* 1: a rule for the address leads where ADD meant it to; 0: there is no rule at all. sbr behind the
 * coordinator adds rules of its own for the same address, with tables that are its own, too: a NIC
 * that wants none of ours may have those alone. */
static int check_rules(const struct checking *k, const struct ipaddr *ip, bool wanted,
		       struct err *e)
{
	struct ipnet src = ipnet_host(ip);
	char text[IP_TEXT_MAX];
	int ret = 0, r;

	ip_str(ip, text);
	for (size_t i = 0; i < k->n_pod_rules; i++) {
		const struct rule *rule = &k->pod_rules[i];

		if (!rule->src.ip.family || !ipnet_eq(&rule->src, &src) ||
		    (!wanted && !is_our_table(k, rule->table)))
			continue;
		r = check_table(k, rule, text, ret < 0 ? NULL : e);
		if (r >= 0)
			return 1;
		ret = ret < 0 ? ret : r;
	}
	return ret;
}

static int check_tables(const struct checking *k, struct err *e)
{
	char ip[IP_TEXT_MAX];

	for (size_t i = 0; i < k->n_ips; i++) {
		int family = k->ips[i].family;
		bool wanted = wants_rule(k, family);
		int r = check_rules(k, &k->ips[i], wanted, e);

		if (r == 0 && wanted)
			return err_set(e, -ENOENT, "the pod has no rule 'from %s'",
				       ip_str(&k->ips[i], ip));
		if (r >= 0 && k->first)
			r = check_way_to_node(k, TABLE_MAIN, family, e);
		if (r >= 0 && k->first)
			r = check_way_to_node(k, COORD_FIRST_NIC_TABLE + 1, family, e);
		if (r < 0)
			return r;
	}
	return 0;
}

static bool knows_host(const struct checking *k, int family)
{
	for (size_t i = 0; i < k->f->n_host_ips; i++)
		if (k->f->host_ips[i].family == family)
			return true;
	return false;
}

static bool has_hijack(const struct checking *k, const struct ipnet *dst)
{
	for (size_t i = 0; i < k->f->n_routes; i++)
		if (k->f->routes[i].index == k->exit->index && ipnet_eq(&k->f->routes[i].dst, dst))
			return true;
	return false;
}

static int check_cidrs(const struct checking *k, struct err *e)
{
	char dst[IP_TEXT_MAX];

	for (size_t i = 0; i < k->c->n_cidrs; i++) {
		const struct ipnet *net = &k->c->cidrs[i];
		bool family = false;

		for (size_t j = 0; j < k->n_ips; j++)
			family |= k->ips[j].family == net->ip.family;
		if (family && knows_host(k, net->ip.family) && !has_hijack(k, net))
			return err_set(e, -ENOENT, "the pod has no route to '%s' by '%s'",
				       ipnet_str(net, dst), k->exit->name);
	}
	return 0;
}

int coordinator_check_pod(const struct checking *k, struct err *e)
{
	int r = check_replies(k, e);

	if (r >= 0)
		r = check_neighbours(k, e);
	if (r >= 0)
		r = check_tables(k, e);
	return r < 0 ? r : check_cidrs(k, e);
}
