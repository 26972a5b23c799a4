/* SPDX-License-Identifier: Apache-2.0 */
/* CHECK of the coordinator: each thing that ADD promises, looked at. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cni/plugins/coordinator/coordinator_check.h"

static int check_links(struct checking *k, struct err *e)
{
	const char *exit;

	k->link = co_link(k->f, k->nic->ifname);
	if (!k->link)
		return err_set(e, -ENODEV, "the pod has no interface '%s': Link not found",
			       k->nic->ifname);
	if (!link_is_up(k->link))
		return err_set(e, -ENETDOWN, "interface '%s' is down", k->nic->ifname);
	k->underlay = k->c->mode == CO_UNDERLAY ||
		      (k->c->mode == CO_AUTO && co_link(k->f, CO_VETH));
	k->first = k->underlay && strcmp(k->nic->ifname, k->c->default_nic) == 0;
	exit = k->underlay ? CO_VETH : k->c->default_nic;
	k->exit = co_link(k->f, exit);
	if (!k->exit || !link_is_up(k->exit))
		return err_set(e, -ENODEV, "'%s', the pod's way to its node, is %s", exit,
			       k->exit ? "down" : "gone: Link not found");
	if (!k->f->host_veth.index || !link_is_up(&k->f->host_veth))
		return err_set(e, -ENODEV, "the host end of '%s' is %s", exit,
			       k->f->host_veth.index ? "down" : "gone: Link not found");
	k->n_ips = co_link_ips(k->f, k->link->index, CO_V4 | CO_V6, &k->ips);
	if (!k->n_ips)
		return err_set(e, -EADDRNOTAVAIL, "no usable IP addresses on \"%s\"",
			       k->nic->ifname);
	return 0;
}

static bool has_host_rule(const struct checking *k, int family)
{
	for (size_t i = 0; i < k->n_host_rules; i++) {
		const struct rule *r = &k->host_rules[i];

		if (r->family == family && r->priority == CO_HOST_RULE_PRIORITY &&
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
				k->c->host_table, CO_HOST_RULE_PRIORITY, k->ips[i].family);
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
		r = co_check_pod(k, e);
	free(k->ips);
	if (r < 0 && k->nic->label)
		err_wrap(e, r, "%s", k->nic->label);
	return r;
}

static bool checks(const struct co_nic *nic)
{
	return nic->conf && nic->conf->mode != CO_DISABLED;
}

int co_check(struct attach *a, const struct co_nic *nics, size_t n, struct err *e)
{
	auto_free struct rule *pod = NULL, *host = NULL;
	auto_free struct neigh *neighs = NULL;
	struct co_facts f = {0};
	struct checking k = {.a = a, .f = &f};
	bool any = false;
	int r;

	for (size_t i = 0; i < n; i++)
		any |= checks(&nics[i]);
	if (!any)
		return 0;
	r = co_facts_gather(a, nics, n, &f, e);
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
	co_facts_done(&f);
	return r < 0 ? r : 0;
}
