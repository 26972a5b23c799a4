/* SPDX-License-Identifier: Apache-2.0 */
/* CHECK: compares prevResult with the state of the pod. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cni/attach/internal.h"

int attach_inspect(struct attach *a, struct attach_seen *ret, struct err *e)
{
	struct attach_seen s = {0};
	int r = link_list(a->pod, &s.links, &s.n_links, e);

	if (r >= 0)
		r = addr_list(a->pod, 0, 0, &s.addrs, &s.n_addrs, e);
	if (r >= 0)
		r = route_list(a->pod, 0, 0, &s.routes, &s.n_routes, e);
	if (r < 0) {
		attach_seen_done(&s);
		return r;
	}
	*ret = s;
	return 0;
}

void attach_seen_done(struct attach_seen *s)
{
	free(s->links);
	free(s->addrs);
	route_list_free(s->routes, s->n_routes);
	*s = (struct attach_seen){0};
}

static int check_link(const struct link *l, const struct rail *rail, int parent,
		      const struct cni_iface *iface, struct err *e)
{
	char mac[MAC_TEXT_MAX];
	struct mac want;
	int r = rail->kind->check(&rail->conf, l, e);

	if (r < 0)
		return r;
	if (parent && l->parent != parent)
		return err_set(
			e, -EINVAL,
			"container interface %s has the link of index %d as its parent, expected %d",
			l->name, l->parent, parent);
	if (!iface->mac || !*iface->mac)
		return 0;
	if (mac_parse(span_of(iface->mac), &want) < 0 || !mac_eq(&want, &l->mac))
		return err_set(e, -EINVAL, "interface %s Mac %s doesn't match container Mac: %s",
			       l->name, iface->mac, mac_str(&l->mac, mac));
	return 0;
}

static bool has_addr(const struct attach_seen *s, int index, const struct ipnet *net)
{
	for (size_t i = 0; i < s->n_addrs; i++)
		if (s->addrs[i].index == index && ipnet_eq(&s->addrs[i].net, net))
			return true;
	return false;
}

/* Any table counts, because sbr and the coordinator move routes out of the main table. */
static bool has_route(const struct attach_seen *s, int index, const struct ipnet *dst,
		      const struct ipaddr *gw)
{
	for (size_t i = 0; i < s->n_routes; i++)
		if (ipnet_eq(&s->routes[i].dst, dst) && route_leads_to(&s->routes[i], index, gw))
			return true;
	return false;
}

static int check_ip(const struct attach_seen *s, int index, const char *ifname,
		    const struct cni_ip *ip, struct err *e)
{
	char text[IP_TEXT_MAX];

	if (has_addr(s, index, &ip->address))
		return 0;
	return err_set(e, -ENOENT, "Failed to match addr %s on interface %s",
		       ipnet_str(&ip->address, text), ifname);
}

static int check_connected(const struct attach_seen *s, int index, const char *ifname,
			   const struct cni_ip *ip, struct err *e)
{
	const struct ipaddr none = {0};
	struct ipnet net = ipnet_network(&ip->address);
	char text[IP_TEXT_MAX], subnet[IP_TEXT_MAX];

	/* An address with the full prefix length has no connected route. */
	if (ip->address.len == ip_bits(&ip->address.ip) || has_route(s, index, &net, &none))
		return 0;
	return err_set(e, -ENOENT, "Failed to find Gateway %s for interface %s: no route to %s",
		       ip_str(ip->gateway.family ? &ip->gateway : &ip->address.ip, text), ifname,
		       ipnet_str(&net, subnet));
}

bool attach_route_is_of(const struct cni_result *prev, int iface, const struct cni_route *rt)
{
	bool others = false;

	for (size_t i = 0; i < prev->n_ips; i++)
		others |= prev->ips[i].iface >= 0 && prev->ips[i].iface != iface;
	if (!others)
		return true;
	if (!rt->gw.family)
		return false;
	for (size_t i = 0; i < prev->n_ips; i++)
		if (prev->ips[i].iface == iface && ipnet_contains(&prev->ips[i].address, &rt->gw))
			return true;
	return false;
}

int attach_check_routes(const struct attach_seen *s, const struct cni_result *prev,
			const char *ifname, struct err *e)
{
	int iface = cni_result_pod_iface(prev, ifname), r = 0;
	const struct link *l = link_find(s->links, s->n_links, ifname);
	char text[IP_TEXT_MAX];

	if (iface < 0 || !l)
		return 0;
	for (size_t i = 0; r >= 0 && i < prev->n_ips; i++)
		if (prev->ips[i].iface == iface)
			r = check_connected(s, l->index, ifname, &prev->ips[i], e);
	for (size_t i = 0; r >= 0 && i < prev->n_routes; i++) {
		const struct cni_route *rt = &prev->routes[i];

		if (attach_route_is_of(prev, iface, rt) &&
		    !has_route(s, l->index, &rt->dst, &rt->gw))
			r = err_set(e, -ENOENT,
				    "Expected Route %s not found in routing table (interface %s)",
				    ipnet_str(&rt->dst, text), ifname);
	}
	return r;
}

int attach_check(const struct attach_seen *s, const struct rail *rail, int parent,
		 const struct cni_result *prev, const char *netns, struct err *e)
{
	const char *ifname = rail->ifname;
	int iface = cni_result_pod_iface(prev, ifname);
	const struct link *l = link_find(s->links, s->n_links, ifname);
	int r;

	if (iface < 0)
		return err_set(e, -ENOENT, "prevResult has no interface '%s' in the pod", ifname);
	if (strcmp(prev->ifaces[iface].sandbox, netns) != 0)
		return err_set(e, -EINVAL,
			       "sandbox in prevResult %s doesn't match configured netns: %s",
			       prev->ifaces[iface].sandbox, netns);
	if (rail->no_link)
		return 0;
	if (!l)
		return err_set(e, -ENODEV, "interface '%s': Link not found", ifname);
	r = check_link(l, rail, parent, &prev->ifaces[iface], e);
	for (size_t i = 0; r >= 0 && i < prev->n_ips; i++)
		if (prev->ips[i].iface == iface)
			r = check_ip(s, l->index, ifname, &prev->ips[i], e);
	return r;
}

/* Returns the ifindex of the master that CHECK expects; 0: CHECK does not compare the master. A
 * driver with chained() may have taken the master from a prevResult that CHECK does not have. */
static int find_parent(struct attach *a, struct rail *rail, struct err *e)
{
	struct link master;
	int r;

	if (link_driver_moves(rail->kind)) {
		r = rail->kind->status(&a->call->root, rail, e);
		return r < 0 ? r : 0;
	}
	if (rail->kind->chained && !rail->conf.master)
		return 0;
	r = attach_master(attach_wire(a, rail), &rail->conf, &master, e);
	return r < 0 ? r : master.index;
}

int attach_check_rail(struct attach *a, const struct attach_seen *s, struct rail *rail,
		      struct err *e)
{
	int r = find_parent(a, rail, e);

	if (r >= 0)
		r = attach_check(s, rail, r, &rail->ipam.call->prev, a->call->netns, e);
	if (r >= 0 && rail->kind->verify)
		r = rail->kind->verify(a, rail, e);
	return r < 0 ? rail_err(rail, r, e) : 0;
}
