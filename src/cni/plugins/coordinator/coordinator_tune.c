/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which NIC keeps the main table's default route (D), and which NIC's routes move to the table of
 * the NIC being planned (M): by default D stays what it was and M is the new NIC.
 */
#include <errno.h>
#include <string.h>
#include <stdlib.h>

#include "base/log.h"
#include "cni/plugins/coordinator/coordinator_private.h"

enum { TYPE_UNICAST = 1 /* RTN_UNICAST; 0 is what we plan ourselves */ };

static bool counts(const struct planning *pl, const struct route *r)
{
	return r->table == TABLE_MAIN && r->type <= TYPE_UNICAST &&
	       (pl->families & co_family_bit(&r->dst.ip));
}

static const struct route_hop *hop_on(const struct route *r, int index)
{
	for (size_t i = 0; i < r->n_hops; i++)
		if (r->hops[i].index == index)
			return &r->hops[i];
	return NULL;
}

static bool owns_default(const struct planning *pl, int index)
{
	for (size_t i = 0; i < pl->f->n_routes; i++) {
		const struct route *r = &pl->f->routes[i];

		if (counts(pl, r) && ipnet_is_default(&r->dst) &&
		    (r->n_hops ? hop_on(r, index) != NULL : r->index == index))
			return true;
	}
	return false;
}

static const struct link *default_owner(const struct planning *pl)
{
	for (size_t i = 0; i < pl->f->n_links; i++) {
		const struct link *l = &pl->f->links[i];

		if (!link_is_loopback(l) && l != pl->link && !co_hidden(pl->f, l->index) &&
		    owns_default(pl, l->index))
			return l;
	}
	return NULL;
}

/* fe80::/64 is every link's own. */
static bool stays(const struct route *r)
{
	return r->dst.ip.family == 6 && ip_is_link_local(&r->dst.ip);
}

/* What the original keeps of a route: metric, MTU, and of a default route the source are lost. */
static struct route in_table(const struct planning *pl, const struct route *from)
{
	struct route r = {.dst = from->dst,
			  .gw = from->gw,
			  .index = from->index,
			  .scope = from->scope,
			  .onlink = from->onlink,
			  .family = from->dst.ip.family,
			  .table = pl->stage.table};

	if (!ipnet_is_default(&from->dst))
		r.src = from->src;
	return r;
}

/* The one route that a hop of a multipath route stands for. */
static struct route single(const struct route *from, const struct route_hop *hop)
{
	struct route r = *from;

	r.hops = NULL;
	r.n_hops = 0;
	r.index = hop->index;
	r.gw = hop->gw;
	return r;
}

static void move_hop(struct planning *pl, const struct route *from, const struct route_hop *hop)
{
	struct route gone = single(from, hop), r;

	r = in_table(pl, &gone);
	r.mtu = from->mtu;
	co_emit_route(pl, CO_POD, &r);
	co_emit_route_del(pl, CO_POD, &gone);
}

static void move_default(struct planning *pl, const struct route *from)
{
	struct route gone = *from, r = in_table(pl, from);

	co_emit_route(pl, CO_POD, &r);
	co_emit_route_del(pl, CO_POD, &gone);
}

static void copy_route(struct planning *pl, const struct route *from)
{
	struct route r = in_table(pl, from);

	co_emit_route(pl, CO_POD, &r);
}

/* The list changes while it is walked, so what is to be done is noted first. */
static void move_routes(struct planning *pl, int index)
{
	size_t n = pl->f->n_routes, n_todo = 0;
	struct route *todo = xcalloc(n, sizeof(*todo));

	for (size_t i = 0; i < n; i++) {
		const struct route *r = &pl->f->routes[i];

		if (!counts(pl, r) || stays(r))
			continue;
		if (r->n_hops ? r->family == 6 && ipnet_is_default(&r->dst) && hop_on(r, index)
			      : r->index == index)
			todo[n_todo++] = *r;
	}
	for (size_t i = 0; i < n_todo; i++) {
		if (todo[i].n_hops) {
			struct route_hop hop = *hop_on(&todo[i], index);

			move_hop(pl, &todo[i], &hop);
		} else if (ipnet_is_default(&todo[i].dst)) {
			move_default(pl, &todo[i]);
		} else {
			copy_route(pl, &todo[i]);
		}
	}
	free(todo);
}

static void from_rules(struct planning *pl, const struct link *l, uint32_t table)
{
	struct ipaddr *ips = NULL;
	size_t n = co_link_ips(pl->f, l->index, pl->families, &ips);

	for (size_t i = 0; i < n; i++)
		co_emit_from_rule(pl, &ips[i], table);
	free(ips);
}

/* Replies from eth0's address keep to eth0, whatever becomes of the main table. The kernel joins the IPv6
 * default routes of eth0 and of the new NIC into one multipath route, of which eth0's hop is copied. */
static void keep_first(struct planning *pl, const struct link *owner)
{
	const struct link *eth0 = co_link(pl->f, pl->c->default_nic);
	size_t n = pl->f->n_routes;

	from_rules(pl, owner, CO_FIRST_NIC_TABLE);
	for (size_t i = 0; eth0 && i < n; i++) {
		const struct route *r = &pl->f->routes[i];
		const struct route_hop *hop = hop_on(r, eth0->index);
		struct route from, copy;

		if (!counts(pl, r) || !ipnet_is_default(&r->dst) ||
		    (r->n_hops ? !hop : r->index != eth0->index))
			continue;
		from = hop ? single(r, hop) : *r;
		copy = in_table(pl, &from);
		copy.table = CO_FIRST_NIC_TABLE;
		if (hop)
			copy.mtu = r->mtu;
		co_emit_route(pl, CO_POD, &copy);
	}
}

/* conf.podDefaultRouteNic; a NIC of the same call that comes later has its turn then. */
static int wanted_owner(const struct planning *pl, const struct link *owner,
			const struct link **ret, struct err *e)
{
	const char *name = pl->c->default_route_nic;
	const struct link *l;

	*ret = NULL;
	if (!name || strcmp(name, owner->name) == 0)
		return 0;
	l = link_find(pl->f->links, pl->f->n_links, name);
	if (!l)
		return err_kind(e, ERR_CONF, -ENODEV, "podDefaultRouteNIC: %s don't exist in pod",
				name);
	if (!co_hidden(pl->f, l->index))
		*ret = l;
	return 0;
}

int co_tune_routes(struct planning *pl, struct err *e)
{
	const struct link *owner, *wanted;
	int r;

	if (!pl->c->tune_routes || (pl->stage.first && pl->stage.mode == CO_UNDERLAY))
		return 0;
	owner = default_owner(pl);
	if (!owner) {
		log_warn("no other NIC of the pod has a default route, routes stay as they are",
			 LOG_S("nic", pl->nic->ifname));
		return 0;
	}
	r = wanted_owner(pl, owner, &wanted, e);
	if (r < 0)
		return r;
	if (wanted == pl->link) {
		from_rules(pl, owner, pl->stage.table);
	} else {
		from_rules(pl, pl->link, pl->stage.table);
		if (pl->stage.mode == CO_OVERLAY && pl->stage.first)
			keep_first(pl, owner);
	}
	move_routes(pl, wanted ? owner->index : pl->link->index);
	return 0;
}
