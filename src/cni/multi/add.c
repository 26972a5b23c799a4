/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/ipset.h"
#include "cni/attach/rdma_info.h"
#include "cni/multi/internal.h"
#include "cni/multi/multi.h"
#include "cni/protocol/delegate.h"

/* --- ADD of every network of a pod --- */

struct undo_chain {
	struct multi *x;
	size_t net;
	struct multi_plugin plugin;
};

static int undo_chain(void *arg, struct err *e)
{
	const struct undo_chain *u = arg;
	const struct cni_result *prev = &u->x->nets[u->net].result;
	struct chain_call c =
		multi_chain_call(u->x, u->net, &u->plugin, prev->n_ifaces ? prev : NULL);

	return chain_run(&c, "DEL", e);
}

static int run_meta(struct multi *x, struct attach *a, size_t i, const struct multi_plugin *p,
		    struct err *e)
{
	struct cni_result *now = &x->nets[i].result;
	const struct chained_call m = multi_chained_call(x, a, i, p, now->n_ifaces || now->n_ips);
	int r = p->meta->add(&m, now, &a->undo, e);

	if (r >= 0)
		return 0;
	err_wrap(e, r, "plugin '%s'", p->type);
	return err_wrap(e, r, "%s", x->nets[i].label);
}

/* Runs a plugin; its result replaces the result of the network. */
static int execute(struct multi *x, struct attach *a, size_t i, const struct multi_plugin *p,
		   struct err *e)
{
	struct cni_result *now = &x->nets[i].result, next = {0};
	const struct undo_chain u = {x, i, *p};
	/* A plugin that runs after the network's main plugin gets prevResult, even if it is
	 * empty. */
	bool has_prev = p != &x->nets[i].main || now->n_ifaces || now->n_ips;
	struct chain_call c = multi_chain_call(x, i, p, has_prev ? now : NULL);
	int r;

	/* The undo is pushed before the call, because a plugin that fails may have made some of its
	 * changes. */
	undo_push(&a->undo, p->type, undo_chain, &u, sizeof(u));
	r = chain_add(&c, &next, e);
	if (r < 0)
		return r;
	cni_result_done(now);
	*now = next;
	return 0;
}

static int run_plugin(struct multi *x, struct attach *a, size_t i, const struct multi_plugin *p,
		      struct err *e)
{
	return p->meta ? run_meta(x, a, i, p, e) : execute(x, a, i, p, e);
}

static int run_plugins(struct multi *x, struct attach *a, enum multi_place place, struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < x->n_nets; i++) {
		const struct multi_list list = multi_plugins_at(&x->nets[i], place);

		for (size_t k = 0; r >= 0 && k < list.n; k++)
			r = run_plugin(x, a, i, &list.v[k], e);
	}
	return r;
}

static int take_results(struct multi *x, const struct attach *a, struct err *e)
{
	const struct rail *rail = a->rails;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < x->n_nets; i++)
		if (x->nets[i].kind)
			r = attach_result(a, rail++, &x->nets[i].result, e);
	return r;
}

static void set_mac(struct cni_result *r, const char *ifname, const struct mac *mac)
{
	char text[MAC_TEXT_MAX];

	for (size_t i = 0; i < r->n_ifaces; i++) {
		struct cni_iface *f = &r->ifaces[i];

		if (!f->sandbox || !*f->sandbox || strcmp(f->name, ifname) != 0)
			continue;
		free(f->mac);
		f->mac = xstrdup(mac_str(mac, text));
	}
}

/* Copies to results and attachments the MACs that the coordinator has set (podMACPrefix). */
static void take_macs(struct multi *x, struct attach *a)
{
	size_t rail = 0;

	for (size_t i = 0; i < x->n_nets; i++) {
		const struct mac *mac = &x->nics[i].mac;

		if (mac->len)
			set_mac(&x->nets[i].result, x->nets[i].ifname, mac);
		if (mac->len && x->nets[i].kind)
			a->rails[rail].mac = *mac;
		rail += x->nets[i].kind != NULL;
	}
}

static int find_plugin(void *arg, size_t net, const struct multi_plugin *p, struct err *e)
{
	const struct multi *x = arg;
	auto_buf struct buf path;
	int r;

	buf_init(&path, PATH_MAX);
	if (p->meta)
		return 0;
	r = cni_delegate_find(p->type, x->call->path, &path, e);
	return r < 0 ? err_wrap(e, r, "%s", x->nets[net].label) : 0;
}

/* Reports plugins that are not installed, before any change. */
static int find_plugins(struct multi *x, struct err *e)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < x->n_nets; i++)
		r = multi_each_plugin(x, i, find_plugin, x, e);
	return r;
}

static int multi_default_routes(struct multi *x, struct attach *a, struct err *e);

static int add_all(struct multi *x, struct attach *a, struct err *e)
{
	int r = find_plugins(x, e);

	if (r >= 0)
		r = multi_keep(x, &a->undo, e);
	if (r >= 0)
		r = run_plugins(x, a, MULTI_AHEAD, e);
	if (r >= 0)
		r = attach_facts(a, e);
	if (r >= 0)
		r = run_plugins(x, a, MULTI_MAIN, e);
	if (r >= 0)
		r = attach_make(a, e);
	if (r >= 0)
		r = take_results(x, a, e);
	if (r >= 0)
		r = run_plugins(x, a, MULTI_BEFORE, e);
	if (r >= 0)
		r = coordinator_run(a, x->nics, x->n_nets, e);
	if (r < 0)
		return r;
	take_macs(x, a);
	r = run_plugins(x, a, MULTI_AFTER, e);
	if (r >= 0)
		r = multi_default_routes(x, a, e);
	return r < 0 ? r : multi_keep_results(x, e);
}

static void report_rdma(struct multi *x, struct attach *a)
{
	const struct rail *rail = a->rails;

	rdma_info_wait(a);
	for (size_t i = 0; i < x->n_nets; i++)
		if (x->nets[i].kind)
			rdma_info_add(rail++, &x->nets[i].result);
	rails_write(a);
}

int multi_add(struct multi *x, struct cni_result *out, struct err *e)
{
	auto_attach struct attach a = ATTACH_INIT;
	int r = attach_open(&a, x->call, false, e);

	if (r < 0)
		return r;
	a.rails = x->rails;
	a.n_rails = x->n_rails;
	a.detect_ms = x->timeout_ms;
	r = add_all(x, &a, e);
	if (r < 0) {
		attach_rollback(&a);
		return r;
	}
	attach_announce(&a);
	report_rdma(x, &a);
	attach_done(&a);
	for (size_t i = 0; i < x->n_nets; i++)
		multi_merge(&x->nets[i].result, out);
	return 0;
}

/* --- merge of the networks' results, and the parts of a merged result --- */

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

/* The first network with DNS settings supplies them: a pod has one resolv.conf. */
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

void multi_merge(const struct cni_result *from, struct cni_result *into)
{
	int first = (int)into->n_ifaces;

	for (size_t i = 0; i < from->n_ifaces; i++)
		copy_iface(&from->ifaces[i], into);
	for (size_t i = 0; i < from->n_ips; i++) {
		struct cni_ip ip = from->ips[i];

		/* Omits an invalid index, which could otherwise refer to another network's
		 * interface. */
		ip.iface = ip.iface >= 0 && (size_t)ip.iface < from->n_ifaces ? ip.iface + first
									      : -1;
		cni_result_ip(into, &ip);
	}
	for (size_t i = 0; i < from->n_routes; i++) {
		struct cni_route rt = from->routes[i];

		if (!rt.gw.family)
			rt.gw = cni_result_gateway(from, rt.dst.ip.family);
		cni_result_route(into, &rt);
	}
	merge_dns(from, into);
}

static size_t net_of_name(const struct multi *x, const char *ifname, size_t other)
{
	for (size_t i = 0; i < x->n_nets; i++)
		if (strcmp(x->nets[i].ifname, ifname) == 0)
			return i;
	return other;
}

/* Determines the network of each interface. Host-side interfaces precede their pod interface. */
static void owners(const struct multi *x, const struct cni_result *all, size_t *owner)
{
	size_t now = 0, pending = 0;

	for (size_t i = 0; i < all->n_ifaces; i++) {
		owner[i] = now;
		if (!cni_iface_in_pod(&all->ifaces[i]))
			continue;
		now = net_of_name(x, all->ifaces[i].name, now);
		while (pending <= i)
			owner[pending++] = now;
	}
}

/* --- the interface of a route: attach_route_is_of() for many routes at once --- */

struct reach {
	bool all;	     /* no other interface has addresses */
	struct ip_set to[2]; /* networks connected to the interface, for IPv4 and IPv6 */
};

static void reach_ips(const struct cni_result *all, const size_t *owner, size_t net,
		      struct reach *ret)
{
	for (size_t i = 0; i < all->n_ips; i++) {
		const struct ipnet *a = &all->ips[i].address;
		int f = all->ips[i].iface;

		if (f >= 0 && (size_t)f < all->n_ifaces && owner[f] == net &&
		    cni_iface_in_pod(&all->ifaces[f]))
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
		found |= owner[i] == net && cni_iface_in_pod(&all->ifaces[i]) && has[i] == named;
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

void multi_set_prev(struct multi *x, size_t net, struct cni_result *prev)
{
	struct multi_net *n = &x->nets[net];

	cni_result_done(&n->prev);
	if (prev)
		n->prev = *prev;
	if (prev)
		*prev = (struct cni_result){0};
	n->call.prev = n->prev; /* borrowed */
	n->call.has_prev = prev != NULL;
	n->own_prev = true;
}

bool multi_prev(const struct multi *x, size_t net, struct cni_result *ret)
{
	const struct multi_net *n = &x->nets[net];

	if (!n->call.has_prev)
		return false;
	if (n->own_prev)
		cni_result_copy(ret, &n->prev);
	else
		multi_slice(x, &n->call.prev, net, ret);
	return true;
}

void multi_slice(const struct multi *x, const struct cni_result *all, size_t net,
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

/*
 * --- defaultRoute: which network has the pod's default routes ---
 *
 * As in Multus, but only in the families that a network requests: the default routes of all
 * networks in the main table are deleted, and a default route via each requested gateway is added.
 * Tables created by a coordinator are not changed.
 */

int multi_check_gateways(const struct multi *x, struct err *e)
{
	const struct multi_net *by[7] = {NULL};

	for (size_t i = 0; i < x->n_nets; i++)
		for (size_t k = 0; k < x->nets[i].n_gateways; k++) {
			const struct multi_net **seen = &by[x->nets[i].gateways[k].family];

			if (*seen)
				return err_kind(e, ERR_CONF, -EINVAL,
						"multus does not support ECMP for default-route: "
						"%s and %s have gateways of the same family",
						(*seen)->label, x->nets[i].label);
			*seen = &x->nets[i];
		}
	return 0;
}

/* Returns whether a network requests the default route of this family. */
static bool is_requested(const struct multi *x, uint8_t family)
{
	for (size_t i = 0; i < x->n_nets; i++)
		for (size_t k = 0; k < x->nets[i].n_gateways; k++)
			if (x->nets[i].gateways[k].family == family)
				return true;
	return false;
}

static int index_of(const struct attach *a, const char *ifname)
{
	for (size_t i = 0; i < a->n_pod_links; i++)
		if (strcmp(a->pod_links[i].name, ifname) == 0)
			return a->pod_links[i].index;
	return 0;
}

static bool is_networks(const struct multi *x, const struct attach *a, const struct route *rt)
{
	int index = rt->n_hops ? rt->hops[0].index : rt->index;

	for (size_t i = 0; i < x->n_nets; i++)
		if (index && index_of(a, x->nets[i].ifname) == index)
			return true;
	return false;
}

/* --- one change of a default route, and its reverse --- */

struct change {
	struct attach *a;
	struct route route;
	bool was_there;
};

static int commit(struct attach *a, const struct route *rt, bool add, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();

	if (add)
		route_add(b, rt, ROUTE_EXCL_OK);
	else
		route_del(b, rt);
	return nl_batch_commit(a->pod, b, e);
}

static int undo_change(void *arg, struct err *e)
{
	const struct change *c = arg;

	return commit(c->a, &c->route, c->was_there, e);
}

static int apply(struct attach *a, const struct route *rt, bool add, struct err *e)
{
	const struct change c = {a, *rt, !add};
	int r = commit(a, rt, add, e);

	/* Multipath routes are not restored, because no plugin creates one for a pod. */
	if (r >= 0 && !rt->n_hops)
		undo_push(&a->undo, "reverse the change of a default route", undo_change, &c,
			  sizeof(c));
	return r;
}

static int delete_others(const struct multi *x, struct attach *a, struct err *e)
{
	struct route *list = NULL;
	size_t n = 0;
	int r = route_list(a->pod, 0, TABLE_MAIN, &list, &n, e);

	for (size_t i = 0; r >= 0 && i < n; i++)
		if (ipnet_is_default(&list[i].dst) && is_requested(x, list[i].family) &&
		    is_networks(x, a, &list[i]))
			r = apply(a, &list[i], false, e);
	if (n)
		route_list_free(list, n);
	return r;
}

static struct ipnet default_of(uint8_t family)
{
	return (struct ipnet){.ip.family = family};
}

static int add_own(const struct multi_net *net, struct attach *a, struct err *e)
{
	int r = 0;

	for (size_t k = 0; r >= 0 && k < net->n_gateways; k++) {
		const struct ipaddr *gw = &net->gateways[k];
		const struct route rt = {.dst = default_of(gw->family),
					 .gw = *gw,
					 .family = gw->family,
					 .index = index_of(a, net->ifname)};

		r = apply(a, &rt, true, e);
	}
	return r < 0 ? err_wrap(e, r, "%s: default-route", net->label) : 0;
}

/* --- default routes in a network's result --- */

/* Changes the default routes of net->result as those of the pod were changed, because CHECK
 * compares the result with the pod. net->plugin_result retains the unchanged result of the
 * plugins. */
static void edit_result(const struct multi *x, struct multi_net *net)
{
	struct cni_result *r = &net->result;
	size_t n_retained = 0;

	cni_result_copy(&net->plugin_result, r);
	for (size_t i = 0; i < r->n_routes; i++)
		if (!ipnet_is_default(&r->routes[i].dst) ||
		    !is_requested(x, r->routes[i].dst.ip.family))
			r->routes[n_retained++] = r->routes[i];
	r->n_routes = n_retained;
	for (size_t k = 0; k < net->n_gateways; k++)
		cni_result_route(r, &(struct cni_route){.dst = default_of(net->gateways[k].family),
							.gw = net->gateways[k]});
}

/* Sets the default routes according to `defaultRoute` (multi.h), as the last change of an ADD in
 * the pod. */
static int multi_default_routes(struct multi *x, struct attach *a, struct err *e)
{
	int r;

	if (!is_requested(x, 4) && !is_requested(x, 6))
		return 0;
	r = attach_list_pod(a, e);
	if (r >= 0)
		r = delete_others(x, a, e);
	for (size_t i = 0; r >= 0 && i < x->n_nets; i++)
		r = add_own(&x->nets[i], a, e);
	for (size_t i = 0; r >= 0 && i < x->n_nets; i++)
		edit_result(x, &x->nets[i]);
	return r;
}
