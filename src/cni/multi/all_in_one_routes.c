/* SPDX-License-Identifier: Apache-2.0 */
/*
 * defaultRoute: which network has the pod's default route. As Multus does it, but each family for
 * itself: its default routes of the main table that go by the pod's networks are deleted, and one by the
 * gateway asked for is added. Tables that a coordinator made stay as they are.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cni/multi/all_in_one_private.h"

int aio_check_gateways(const struct aio *x, struct err *e)
{
	const struct aio_net *by[7] = {NULL};

	for (size_t i = 0; i < x->n_nets; i++)
		for (size_t k = 0; k < x->nets[i].n_gateways; k++) {
			const struct aio_net **seen = &by[x->nets[i].gateways[k].family];

			if (*seen)
				return err_kind(e, ERR_CONF, -EINVAL,
						"multus does not support ECMP for default-route: "
						"%s and %s both have one",
						(*seen)->label, x->nets[i].label);
			*seen = &x->nets[i];
		}
	return 0;
}

/* Whether some network asks for the family's default route. */
static bool is_asked(const struct aio *x, uint8_t family)
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

static bool is_networks(const struct aio *x, const struct attach *a, const struct route *rt)
{
	int index = rt->n_hops ? rt->hops[0].index : rt->index;

	for (size_t i = 0; i < x->n_nets; i++)
		if (index && index_of(a, x->nets[i].ifname) == index)
			return true;
	return false;
}

/* --- one change, and its reverse --- */

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

	/* A route by several ways at once is nobody's to put back: no network of a pod has one. */
	if (r >= 0 && !rt->n_hops)
		undo_push(&a->undo, "a default route", undo_change, &c, sizeof(c));
	return r;
}

static int delete_others(const struct aio *x, struct attach *a, struct err *e)
{
	struct route *list = NULL;
	size_t n = 0;
	int r = route_list(a->pod, 0, TABLE_MAIN, &list, &n, e);

	for (size_t i = 0; r >= 0 && i < n; i++)
		if (ipnet_is_default(&list[i].dst) && is_asked(x, list[i].family) &&
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

static int add_own(const struct aio_net *net, struct attach *a, struct err *e)
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

/* --- the result --- */

/* What a CHECK, and Multus' own notes, are to find. */
static void edit_result(const struct aio *x, struct aio_net *net)
{
	struct cni_result *r = &net->result;
	size_t kept = 0;

	cni_result_copy(&net->told, r);
	for (size_t i = 0; i < r->n_routes; i++)
		if (!ipnet_is_default(&r->routes[i].dst) ||
		    !is_asked(x, r->routes[i].dst.ip.family))
			r->routes[kept++] = r->routes[i];
	r->n_routes = kept;
	for (size_t k = 0; k < net->n_gateways; k++)
		cni_result_route(r, &(struct cni_route){.dst = default_of(net->gateways[k].family),
							.gw = net->gateways[k]});
}

int aio_default_routes(struct aio *x, struct attach *a, struct err *e)
{
	int r;

	if (!is_asked(x, 4) && !is_asked(x, 6))
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
