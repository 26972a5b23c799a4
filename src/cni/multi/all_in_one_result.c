/* SPDX-License-Identifier: Apache-2.0 */
/* One result from those of all networks, and a network's part of it again. */
#include <stdlib.h>
#include <string.h>

#include "cni/multi/all_in_one.h"
#include "base/range.h"

static struct ipaddr gateway_of(const struct cni_result *r, int family)
{
	for (size_t i = 0; i < r->n_ips; i++)
		if (r->ips[i].gateway.family == family)
			return r->ips[i].gateway;
	return (struct ipaddr){0};
}

static void copy_iface(const struct cni_iface *from, struct cni_result *into)
{
	struct cni_iface *f = cni_result_iface(into, from->name, from->mac, from->sandbox);

	f->mtu = from->mtu;
	f->rdma = from->rdma;
	f->socket_path = from->socket_path ? xstrdup(from->socket_path) : NULL;
	f->pci_id = from->pci_id ? xstrdup(from->pci_id) : NULL;
}

static bool has_dns(const struct cni_dns *d)
{
	return d->domain || d->n_nameservers || d->n_search || d->n_options;
}

/* The first network that has any names the servers: a pod has one resolv.conf. */
static void merge_dns(const struct cni_result *from, struct cni_result *into)
{
	struct cni_result copy = {0};

	if (has_dns(&into->dns) || !has_dns(&from->dns))
		return;
	cni_result_copy(&copy, from);
	into->dns = copy.dns;
	copy.dns = (struct cni_dns){0};
	cni_result_done(&copy);
}

void aio_merge(const struct cni_result *from, struct cni_result *into)
{
	int first = (int)into->n_ifaces;

	for (size_t i = 0; i < from->n_ifaces; i++)
		copy_iface(&from->ifaces[i], into);
	for (size_t i = 0; i < from->n_ips; i++) {
		struct cni_ip ip = from->ips[i];

		/* One that is not there must not become another network's. */
		ip.iface = ip.iface >= 0 && (size_t)ip.iface < from->n_ifaces ? ip.iface + first
									      : -1;
		cni_result_ip(into, &ip);
	}
	for (size_t i = 0; i < from->n_routes; i++) {
		struct cni_route rt = from->routes[i];

		if (!rt.gw.family)
			rt.gw = gateway_of(from, rt.dst.ip.family);
		cni_result_route(into, &rt);
	}
	merge_dns(from, into);
}

static bool in_pod(const struct cni_iface *f)
{
	return f->sandbox && *f->sandbox;
}

static size_t net_of_name(const struct aio *x, const char *ifname, size_t other)
{
	for (size_t i = 0; i < x->n_nets; i++)
		if (strcmp(x->nets[i].ifname, ifname) == 0)
			return i;
	return other;
}

/* Which network each interface belongs to. Host ends stand before their pod's end. */
static void owners(const struct aio *x, const struct cni_result *all, size_t *owner)
{
	size_t now = 0, pending = 0;

	for (size_t i = 0; i < all->n_ifaces; i++) {
		owner[i] = now;
		if (!in_pod(&all->ifaces[i]))
			continue;
		now = net_of_name(x, all->ifaces[i].name, now);
		while (pending <= i)
			owner[pending++] = now;
	}
}

/* --- whose a route is: attach_route_is_of() of many at once --- */

struct reach {
	bool all;	     /* no other interface has addresses */
	struct ip_set to[2]; /* what the interfaces' own networks reach: IPv4, IPv6 */
};

static void reach_ips(const struct cni_result *all, const size_t *owner, size_t net,
		      struct reach *ret)
{
	for (size_t i = 0; i < all->n_ips; i++) {
		const struct ipnet *a = &all->ips[i].address;
		int f = all->ips[i].iface;

		if (f >= 0 && (size_t)f < all->n_ifaces && owner[f] == net &&
		    in_pod(&all->ifaces[f]))
			ip_set_collect(&ret->to[a->ip.family == 6],
				       &(struct ip_range){ipnet_first(a), ipnet_last(a)});
	}
	ip_set_merge(&ret->to[0]);
	ip_set_merge(&ret->to[1]);
}

static bool has_all(const struct cni_result *all, const size_t *owner, size_t net)
{
	size_t *has = xcalloc(all->n_ifaces + 1, sizeof(*has)), named = 0;
	bool found = false;

	for (size_t i = 0; i < all->n_ips; i++) {
		int f = all->ips[i].iface;

		named += f >= 0;
		if (f >= 0 && (size_t)f < all->n_ifaces)
			has[f]++;
	}
	for (size_t i = 0; i < all->n_ifaces; i++)
		found |= owner[i] == net && in_pod(&all->ifaces[i]) && has[i] == named;
	free(has);
	return found;
}

static void slice_routes(const struct cni_result *all, const size_t *owner, size_t net,
			 struct cni_result *ret)
{
	struct reach r = {.all = has_all(all, owner, net)};

	reach_ips(all, owner, net, &r);
	for (size_t i = 0; i < all->n_routes; i++) {
		const struct ipaddr *gw = &all->routes[i].gw;

		if (r.all || (gw->family && ip_set_has(&r.to[gw->family == 6], gw)))
			cni_result_route(ret, &all->routes[i]);
	}
	ip_set_done(&r.to[0]);
	ip_set_done(&r.to[1]);
}

void aio_set_prev(struct aio *x, size_t net, struct cni_result *prev)
{
	struct aio_net *n = &x->nets[net];

	cni_result_done(&n->prev);
	if (prev)
		n->prev = *prev;
	if (prev)
		*prev = (struct cni_result){0};
	n->call.prev = n->prev; /* borrowed */
	n->call.has_prev = prev != NULL;
	n->own_prev = true;
}

bool aio_prev(const struct aio *x, size_t net, struct cni_result *ret)
{
	const struct aio_net *n = &x->nets[net];

	if (!n->call.has_prev)
		return false;
	if (n->own_prev)
		cni_result_copy(ret, &n->prev);
	else
		aio_slice(x, &n->call.prev, net, ret);
	return true;
}

void aio_slice(const struct aio *x, const struct cni_result *all, size_t net,
	       struct cni_result *ret)
{
	size_t *owner = xcalloc(all->n_ifaces, sizeof(*owner));
	int *place = xcalloc(all->n_ifaces, sizeof(*place));

	owners(x, all, owner);
	for (size_t i = 0; i < all->n_ifaces; i++) {
		place[i] = (int)ret->n_ifaces;
		if (owner[i] == net)
			copy_iface(&all->ifaces[i], ret);
	}
	for (size_t i = 0; i < all->n_ips; i++) {
		struct cni_ip ip = all->ips[i];
		bool named = ip.iface >= 0 && (size_t)ip.iface < all->n_ifaces;

		if (named ? owner[ip.iface] != net : net != 0)
			continue;
		ip.iface = named ? place[ip.iface] : -1;
		cni_result_ip(ret, &ip);
	}
	slice_routes(all, owner, net, ret);
	free(owner);
	free(place);
}
