/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <net/if.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/sorted.h"
#include "cni/plugins/coordinator/internal.h"

/*
 * Plans one NIC. The steps and their order are those of the original. For a route that exists
 * already the plan has no step (the original ignores the kernel's EEXIST), so that undo does not
 * remove a route that existed before.
 */

static int find_nic(struct planning *pl, struct err *e)
{
	pl->link = coordinator_link(pl->f, pl->nic->ifname);
	if (!pl->link)
		return err_set(e, -ENODEV, "the pod has no interface '%s': Link not found",
			       pl->nic->ifname);
	pl->n_ips = coordinator_link_ips(pl->f, pl->link->index, COORD_V4 | COORD_V6, &pl->ips);
	for (size_t i = 0; i < pl->n_ips; i++)
		pl->families |= coordinator_family_bit(&pl->ips[i]);
	if (!pl->families)
		return err_kind(
			e, ERR_CONF, -EADDRNOTAVAIL,
			"no usable IP addresses on \"%s\" (give the network an IPAM, or leave "
			"the coordinator out)",
			pl->nic->ifname);
	return 0;
}

/* Appends a step to the plan and returns it; the caller sets the step's values, and updates the
 * facts that later steps read. */
static struct coordinator_step *coordinator_emit(struct planning *pl, enum coordinator_side side,
						 enum coordinator_do what, const char *ifname,
						 int index)
{
	enum { CHUNK = 64 }; /* a pod of eight rails has some 120 steps */
	struct coordinator_plan *p = pl->p;
	struct coordinator_step *s;

	if (p->n == p->room) {
		p->room += p->room > CHUNK ? p->room / 2 : CHUNK;
		p->steps = xrealloc(p->steps, p->room * sizeof(*p->steps));
	}
	s = &p->steps[p->n++];
	*s = (struct coordinator_step){0};
	s->side = side;
	s->what = what;
	s->nic = pl->at;
	s->index = index;
	str_copy(s->ifname, sizeof(s->ifname), ifname);
	return s;
}

static void bring_up(struct planning *pl)
{
	struct link *l = (struct link *)pl->link;

	if (link_is_up(l))
		return;
	coordinator_emit(pl, COORD_POD, COORD_LINK_UP, l->name, l->index);
	l->flags |= IFF_UP;
}

static int find_exit(struct planning *pl, struct err *e)
{
	bool underlay = pl->stage.mode == COORD_UNDERLAY;
	const char *name = underlay ? COORD_VETH : pl->c->default_nic;

	pl->exit = coordinator_link(pl->f, name);
	if (!pl->exit)
		return err_set(e, -ENODEV, "the pod has no interface '%s': Link not found", name);
	if (!pl->f->host_veth.index)
		return err_set(
			e, -ENODEV,
			"'%s' of the pod has no end on this node (%s mode requires a veth pair)",
			name, underlay ? "underlay" : "overlay");
	return 0;
}

static void find_src(struct planning *pl)
{
	const struct link *eth0 = coordinator_link(pl->f, pl->c->default_nic);
	struct ipaddr *ips = NULL;

	/* Only IPv4 routes get a source address, because the kernel loses IPv6 routes with a
	 * source address (kernel bug 107071). */
	if (eth0 && coordinator_link_ips(pl->f, eth0->index, COORD_V4, &ips))
		pl->src4 = ips[0];
	free(ips);
}

static struct mac mac_from_ip(const struct coordinator_conf *c, const struct ipaddr *ip)
{
	struct mac m = {.len = 6, .b = {c->mac_prefix[0], c->mac_prefix[1]}};

	memcpy(&m.b[2], &ip->b[ip_size(ip) - 4], 4);
	return m;
}

static void change_nic(struct planning *pl)
{
	struct link *l = (struct link *)pl->link;
	struct coordinator_step *s;

	if (pl->c->has_mac_prefix) {
		struct mac m = mac_from_ip(pl->c, &pl->ips[0]);

		if (!mac_eq(&m, &l->mac)) {
			s = coordinator_emit(pl, COORD_POD, COORD_LINK_MAC, l->name, l->index);
			s->old_mac = l->mac;
			s->mac = l->mac = m;
		}
		pl->nic->mac = m;
	}
	if (pl->c->txqlen && pl->c->txqlen != l->txqlen) {
		s = coordinator_emit(pl, COORD_POD, COORD_LINK_TXQLEN, l->name, l->index);
		s->old_num = l->txqlen;
		s->num = l->txqlen = pl->c->txqlen;
	}
}

static void emit_sysctl(struct planning *pl, enum coordinator_side side, const char *key, int value)
{
	struct coordinator_step *s;

	for (size_t i = 0; i < pl->p->n; i++) {
		s = &pl->p->steps[i];
		if (s->what == COORD_SYSCTL && s->side == side && strcmp(s->key, key) == 0 &&
		    atoi(s->value) == value)
			return;
	}
	s = coordinator_emit(pl, side, COORD_SYSCTL, "", 0);
	str_copy(s->key, sizeof(s->key), key);
	snprintf(s->value, sizeof(s->value), "%d", value);
}

static void sysctls(struct planning *pl)
{
	if (pl->families & COORD_V6)
		emit_sysctl(pl, COORD_POD, "net/ipv6/conf/all/disable_ipv6", 0);
	if (pl->c->rp_filter >= 0)
		emit_sysctl(pl, COORD_POD, "net/ipv4/conf/all/rp_filter", pl->c->rp_filter);
}

static void veth_address(struct planning *pl)
{
	struct coordinator_step *s;

	if (pl->stage.mode != COORD_UNDERLAY || !pl->stage.first || !pl->c->veth_addr.family ||
	    !(pl->families & COORD_V4))
		return;
	s = coordinator_emit(pl, COORD_POD, COORD_ADDR_ADD, pl->exit->name, pl->exit->index);
	s->net = ipnet_host(&pl->c->veth_addr);
}

static void coordinator_emit_route(struct planning *pl, enum coordinator_side side,
				   const struct route *r);

static void policy_routes(struct planning *pl)
{
	bool main = pl->stage.mode == COORD_UNDERLAY && pl->stage.first;

	for (size_t i = 0; i < pl->c->n_policy; i++) {
		const struct coordinator_policy *p = &pl->c->policy[i];
		struct route r = {.dst = p->dst,
				  .gw = p->gw,
				  .family = p->dst.ip.family,
				  .index = pl->link->index,
				  .table = main ? TABLE_MAIN : pl->stage.table};

		if (pl->families & coordinator_family_bit(&p->gw))
			coordinator_emit_route(pl, COORD_POD, &r);
	}
}

static void coordinator_host_ips(struct planning *pl);

static void coordinator_node_steps(struct planning *pl);

static int coordinator_tune_routes(struct planning *pl, struct err *e);

static int plan(struct planning *pl, struct err *e)
{
	int r = find_nic(pl, e);

	if (r < 0)
		return r;
	bring_up(pl);
	r = coordinator_stage(pl->c, pl->f, pl->nic->ifname, &pl->stage, e);
	if (r >= 0)
		r = find_exit(pl, e);
	if (r < 0)
		return r;
	find_src(pl);
	coordinator_host_ips(pl);
	veth_address(pl);
	change_nic(pl);
	sysctls(pl);
	coordinator_node_steps(pl);
	r = coordinator_tune_routes(pl, e);
	if (r >= 0)
		policy_routes(pl);
	return r;
}

int coordinator_plan_nic(struct coordinator_nic *nic, size_t at, struct coordinator_facts *f,
			 struct coordinator_plan *p, struct err *e)
{
	struct planning pl = {.nic = nic, .c = nic->conf, .f = f, .p = p, .at = at};
	int r = plan(&pl, e);

	free(pl.ips);
	free(pl.host);
	if (r < 0 && nic->label)
		err_wrap(e, r, "%s", nic->label);
	return r;
}

/* --- connects the pod and its node in both directions: addresses, neighbours, routes, rules for
 * replies --- */

static const struct ipaddr *coordinator_gateway(const struct planning *pl, int family)
{
	for (size_t i = 0; i < pl->n_host; i++)
		if (pl->host[i].family == family)
			return &pl->host[i];
	return NULL;
}

static void add_host_ip(struct planning *pl, const struct ipaddr *a)
{
	if (coordinator_ip_usable(a) && (pl->families & coordinator_family_bit(a)))
		pl->host[pl->n_host++] = *a;
}

static int by_address_then_place(const void *a, const void *b)
{
	const struct ipaddr *const *x = a, *const *y = b;
	int order = ip_cmp(*x, *y);

	return order ? order : (*x > *y) - (*x < *y);
}

/* Removes duplicate addresses of the node; the first occurrence remains. */
static void drop_repeated_host_ips(struct planning *pl)
{
	auto_free struct ipaddr **v = xcalloc(pl->n_host + 1, sizeof(*v));
	size_t n = 0, last = 0;

	for (size_t i = 0; i < pl->n_host; i++)
		v[i] = &pl->host[i];
	if (pl->n_host > 1)
		qsort(v, pl->n_host, sizeof(*v), by_address_then_place);
	for (size_t i = 1; i < pl->n_host; i++)
		if (ip_eq(v[i], v[last]))
			v[i]->family = 0;
		else
			last = i;
	for (size_t i = 0; i < pl->n_host; i++)
		if (pl->host[i].family)
			pl->host[n++] = pl->host[i];
	pl->n_host = n;
}

/* Sorted addresses: a network's configuration may give a pod thousands. */
struct addresses {
	struct ipaddr *v;
	size_t n;
};

static void sort(struct addresses *l)
{
	if (l->n > 0)
		qsort(l->v, l->n, sizeof(*l->v), ip_order);
}

static bool has(const struct addresses *l, const struct ipaddr *a)
{
	return l->n > 0 && bsearch(a, l->v, l->n, sizeof(*l->v), ip_order);
}

static struct addresses own_ips(const struct planning *pl)
{
	struct addresses l = {xcalloc(pl->n_ips + 1, sizeof(*l.v)), pl->n_ips};

	for (size_t i = 0; i < l.n; i++)
		l.v[i] = pl->ips[i];
	sort(&l);
	return l;
}

/* Returns the addresses that the node already reaches through the pod's link. The lookups of these
 * addresses are ignored, because the kernel may report any source address for them. */
static struct addresses reached_already(const struct planning *pl)
{
	struct addresses l = {.v = xcalloc(pl->f->n_host_routes + 1, sizeof(*l.v))};

	for (size_t i = 0; i < pl->f->n_host_routes; i++) {
		const struct route *r = &pl->f->host_routes[i];

		if (r->index == pl->f->host_veth.index && r->dst.len == ip_bits(&r->dst.ip))
			l.v[l.n++] = r->dst.ip;
	}
	sort(&l);
	return l;
}

/* The first NIC chose the node's address that serves as gateway; later NICs use the same one. */
static void add_chosen(struct planning *pl)
{
	for (size_t i = 0; i < pl->f->n_routes; i++) {
		const struct route *r = &pl->f->routes[i];

		if (r->table == COORD_FIRST_NIC_TABLE && ipnet_is_default(&r->dst) &&
		    r->index == pl->exit->index && r->gw.family)
			add_host_ip(pl, &r->gw);
	}
}

static struct addresses of_pod(const struct planning *pl)
{
	struct addresses l = {.v = xcalloc(pl->f->n_addrs + 1, sizeof(*l.v))};

	for (size_t i = 0; i < pl->f->n_addrs; i++)
		if (!coordinator_hidden(pl->f, pl->f->addrs[i].index))
			l.v[l.n++] = pl->f->addrs[i].net.ip;
	sort(&l);
	return l;
}

/* Lists the node's addresses for this NIC; the first of each family is the gateway. */
static void coordinator_host_ips(struct planning *pl)
{
	struct addresses pod = of_pod(pl), reached = reached_already(pl);
	const struct coordinator_facts *f = pl->f;

	pl->host = xcalloc(f->n_routes + f->n_lookups + f->n_host_ips + 1, sizeof(*pl->host));
	if (pl->stage.mode == COORD_UNDERLAY && !pl->stage.first)
		add_chosen(pl);
	for (size_t i = 0; i < pl->f->n_lookups; i++) {
		const struct coordinator_lookup *l = &pl->f->lookups[i];

		if (has(&pod, &l->pod) && !has(&reached, &l->pod))
			add_host_ip(pl, &l->src);
	}
	free(pod.v);
	free(reached.v);
	for (size_t i = 0; i < pl->f->n_host_ips; i++)
		add_host_ip(pl, &pl->f->host_ips[i]);
	drop_repeated_host_ips(pl);
}

/* --- permanent neighbours of pod and node --- */

static void neighbours(struct planning *pl)
{
	const struct link *host = &pl->f->host_veth;
	struct addresses own = own_ips(pl);
	struct coordinator_step *s;

	for (size_t i = 0; i < pl->f->n_host_neighs; i++) {
		const struct neigh *n = &pl->f->host_neighs[i];

		if (!has(&own, &n->ip))
			continue;
		s = coordinator_emit(pl, COORD_HOST, COORD_NEIGH_DEL, "", n->index);
		s->net = ipnet_host(&n->ip);
	}
	free(own.v);
	for (size_t i = 0; i < pl->n_ips; i++) {
		s = coordinator_emit(pl, COORD_HOST, COORD_NEIGH_ADD, host->name, host->index);
		s->net = ipnet_host(&pl->ips[i]);
		s->mac = pl->exit->mac;
	}
	for (size_t i = 0; pl->stage.first && i < pl->n_host; i++) {
		s = coordinator_emit(pl, COORD_POD, COORD_NEIGH_ADD, pl->exit->name,
				     pl->exit->index);
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

		coordinator_emit_route(pl, COORD_POD, &r);
		r.table = TABLE_MAIN;
		if (pl->stage.first)
			coordinator_emit_route(pl, COORD_POD, &r);
	}
}

struct rule coordinator_host_rule(uint8_t family, uint32_t table)
{
	return (struct rule){.family = family,
			     .priority = COORD_HOST_RULE_PRIORITY,
			     .has_priority = true,
			     .table = table};
}

static void host_rule(struct planning *pl, uint8_t family)
{
	const struct rule rule = coordinator_host_rule(family, pl->c->host_table);

	for (size_t i = 0; i < pl->p->n; i++) {
		const struct coordinator_step *s = &pl->p->steps[i];

		if (s->side == COORD_HOST && s->what == COORD_RULE_ADD && rule_eq(&s->rule, &rule))
			return;
	}
	coordinator_emit(pl, COORD_HOST, COORD_RULE_ADD, "", 0)->rule = rule;
}

static int by_dst(const void *a, const void *b)
{
	return ip_cmp(&((const struct route *)a)->dst.ip, &((const struct route *)b)->dst.ip);
}

/* Returns, sorted by address, the routes in the node's table to addresses of this NIC through
 * other links: former pods left these routes. */
static struct route *former_routes(const struct planning *pl, size_t *n)
{
	struct addresses own = own_ips(pl);
	struct route *v = NULL;

	*n = 0;
	for (size_t i = 0; i < pl->f->n_host_routes; i++) {
		const struct route *r = &pl->f->host_routes[i];

		if (r->table == pl->c->host_table && r->index != pl->f->host_veth.index &&
		    !r->n_hops && r->dst.len == ip_bits(&r->dst.ip) && has(&own, &r->dst.ip))
			VEC_PUSH(v, *n) = *r;
	}
	free(own.v);
	if (*n > 0)
		qsort(v, *n, sizeof(*v), by_dst);
	return v;
}

static void coordinator_emit_route_del(struct planning *pl, enum coordinator_side side,
				       const struct route *r);

/* Deletes the routes of former pods to the address, and adds this pod's route unless it exists. */
static void host_route(struct planning *pl, const struct ipaddr *ip, const struct route *former,
		       size_t n)
{
	struct route want = {.dst = ipnet_host(ip),
			     .family = ip->family,
			     .index = pl->f->host_veth.index,
			     .table = pl->c->host_table,
			     .scope = ip->family == 4 ? SCOPE_LINK : SCOPE_UNIVERSE};

	size_t low = LOWER_BOUND(i, n, ip_cmp(&former[i].dst.ip, ip) < 0);

	for (; low < n && ip_eq(&former[low].dst.ip, ip); low++)
		coordinator_emit_route_del(pl, COORD_HOST, &former[low]);
	coordinator_emit_route(pl, COORD_HOST, &want);
}

/* Routes are added before the rule, because the DEL of another pod may be deleting the rule
 * (coordinator_host_rule_release()). */
static void routes_from_node(struct planning *pl)
{
	size_t n;
	struct route *former = former_routes(pl, &n);

	for (size_t i = 0; i < pl->n_ips; i++)
		host_route(pl, &pl->ips[i], former, n);
	free(former);
	if (pl->families & COORD_V4)
		host_rule(pl, 4);
	if (pl->families & COORD_V6)
		host_rule(pl, 6);
}

static void hijack(struct planning *pl)
{
	for (size_t i = 0; i < pl->c->n_cidrs; i++) {
		const struct ipnet *dst = &pl->c->cidrs[i];
		const struct ipaddr *gw = coordinator_gateway(pl, dst->ip.family);
		struct route r;
		char text[IP_TEXT_MAX];

		if (!(pl->families & coordinator_family_bit(&dst->ip)) || !gw) {
			log_warn("adding no route to the subnet: the NIC or the node has no "
				 "address of the subnet's family",
				 LOG_S("nic", pl->nic->ifname), LOG_S("dst", ipnet_str(dst, text)));
			continue;
		}
		r = route_via_node(pl, dst, gw, pl->stage.first ? TABLE_MAIN : pl->stage.table);
		coordinator_emit_route(pl, COORD_POD, &r);
	}
}

/* Replies to packets that arrive at veth0 leave through veth0. */
static void reply_path(struct planning *pl)
{
	struct coordinator_step *s;

	if (pl->stage.mode != COORD_UNDERLAY || !pl->stage.first)
		return;
	s = coordinator_emit(pl, COORD_POD, COORD_MARKS, pl->exit->name, pl->exit->index);
	s->num = COORD_MARK;
	for (uint8_t family = 4; family <= 6; family += 2) {
		const struct ipaddr *gw = coordinator_gateway(pl, family);
		struct ipnet all = {.ip = {.family = family}};
		struct route r;

		if (!(pl->families & (family == 4 ? COORD_V4 : COORD_V6)))
			continue;
		s = coordinator_emit(pl, COORD_POD, COORD_RULE_ADD, "", 0);
		s->rule = (struct rule){.family = family,
					.mark = COORD_MARK,
					.mask = 0xffffffff,
					.table = COORD_FIRST_NIC_TABLE,
					.priority = COORD_MARK_RULE_PRIORITY,
					.has_priority = true};
		if (!gw)
			continue;
		r = route_via_node(pl, &all, gw, COORD_FIRST_NIC_TABLE);
		coordinator_emit_route(pl, COORD_POD, &r);
	}
}

/* Steps 13 and 15 to 17 of the original: neighbours, routes in both directions, CIDRs, rules for
 * replies. */
static void coordinator_node_steps(struct planning *pl)
{
	neighbours(pl);
	routes_to_node(pl);
	routes_from_node(pl);
	hijack(pl);
	reply_path(pl);
}

/* --- podDefaultRouteNic: the NIC that keeps the main table's default route ---
 *
 * The owner is the first other NIC that has a default route in the main table. The plan moves one
 * NIC's default routes from the main table to the planned NIC's table, and copies that NIC's
 * remaining routes to that table. The NIC is the owner if podDefaultRouteNic names the planned NIC,
 * or an interface that is neither the owner nor a later NIC of the call; otherwise it is the
 * planned NIC.
 */

enum { TYPE_UNICAST = 1 /* RTN_UNICAST; routes that this plan adds have type 0 */ };

static bool counts(const struct planning *pl, const struct route *r)
{
	return r->table == TABLE_MAIN && r->type <= TYPE_UNICAST &&
	       (pl->families & coordinator_family_bit(&r->dst.ip));
}

static const struct route_hop *hop_on(const struct route *r, int index)
{
	for (size_t i = 0; i < r->n_hops; i++)
		if (r->hops[i].index == index)
			return &r->hops[i];
	return NULL;
}

static int by_index(const void *a, const void *b)
{
	const int *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Sets *ret to the sorted indexes of the links that have a default route in the main table, one
 * index for each next hop, and returns their number; the caller frees *ret. */
static size_t default_links(const struct planning *pl, int **ret)
{
	size_t n = 0;

	*ret = NULL;
	for (size_t i = 0; i < pl->f->n_routes; i++) {
		const struct route *r = &pl->f->routes[i];

		if (!counts(pl, r) || !ipnet_is_default(&r->dst))
			continue;
		for (size_t k = 0; k < r->n_hops; k++)
			VEC_PUSH(*ret, n) = r->hops[k].index;
		if (!r->n_hops)
			VEC_PUSH(*ret, n) = r->index;
	}
	if (n > 1)
		qsort(*ret, n, sizeof(**ret), by_index);
	return n;
}

static const struct link *default_owner(const struct planning *pl)
{
	auto_free int *v = NULL;
	size_t n = default_links(pl, &v);

	for (size_t i = 0; n > 0 && i < pl->f->n_links; i++) {
		const struct link *l = &pl->f->links[i];

		if (!link_is_loopback(l) && l != pl->link && !coordinator_hidden(pl->f, l->index) &&
		    bsearch(&l->index, v, n, sizeof(*v), by_index))
			return l;
	}
	return NULL;
}

/* Returns whether a route is not moved to another table: each link needs its own route to
 * link-local addresses. */
static bool stays(const struct route *r)
{
	return r->dst.ip.family == 6 && ip_is_link_local(&r->dst.ip);
}

/* Copies a route as the original does: without its metric and MTU and, if it is a default route,
 * without its source. */
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

/* Builds the single route that corresponds to one hop of a multipath route. */
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
	struct route old = single(from, hop), r;

	r = in_table(pl, &old);
	r.mtu = from->mtu;
	coordinator_emit_route(pl, COORD_POD, &r);
	coordinator_emit_route_del(pl, COORD_POD, &old);
}

static void move_default(struct planning *pl, const struct route *from)
{
	struct route old = *from, r = in_table(pl, from);

	coordinator_emit_route(pl, COORD_POD, &r);
	coordinator_emit_route_del(pl, COORD_POD, &old);
}

static void copy_route(struct planning *pl, const struct route *from)
{
	struct route r = in_table(pl, from);

	coordinator_emit_route(pl, COORD_POD, &r);
}

/* The list of routes changes with each step, so the routes to move are collected first. */
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

/* Sets no priority: the kernel then takes the priority of its second rule minus 1, as for the
 * original. */
static void coordinator_emit_from_rule(struct planning *pl, const struct ipaddr *from,
				       uint32_t table)
{
	struct coordinator_step *s = coordinator_emit(pl, COORD_POD, COORD_RULE_ADD, "", 0);

	s->rule = (struct rule){.family = from->family, .src = ipnet_host(from), .table = table};
}

static void from_rules(struct planning *pl, const struct link *l, uint32_t table)
{
	struct ipaddr *ips = NULL;
	size_t n = coordinator_link_ips(pl->f, l->index, pl->families, &ips);

	for (size_t i = 0; i < n; i++)
		coordinator_emit_from_rule(pl, &ips[i], table);
	free(ips);
}

/* Replies from eth0's address leave through eth0, whatever the main table contains later. The
 * kernel joins the IPv6 default routes of eth0 and of the new NIC into one multipath route; only
 * eth0's hop is then copied. */
static void keep_first(struct planning *pl, const struct link *owner)
{
	const struct link *eth0 = coordinator_link(pl->f, pl->c->default_nic);
	size_t n = pl->f->n_routes;

	from_rules(pl, owner, COORD_FIRST_NIC_TABLE);
	for (size_t i = 0; eth0 && i < n; i++) {
		const struct route *r = &pl->f->routes[i];
		const struct route_hop *hop = hop_on(r, eth0->index);
		struct route from, copy;

		if (!counts(pl, r) || !ipnet_is_default(&r->dst) ||
		    (r->n_hops ? !hop : r->index != eth0->index))
			continue;
		from = hop ? single(r, hop) : *r;
		copy = in_table(pl, &from);
		copy.table = COORD_FIRST_NIC_TABLE;
		if (hop)
			copy.mtu = r->mtu;
		coordinator_emit_route(pl, COORD_POD, &copy);
	}
}

/* Sets *ret to the NIC that conf.podDefaultRouteNic names. NULL: the key is not set, or names the
 * owner, or names a later NIC of the same call (the plan of that NIC moves the default route). */
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
	if (!coordinator_hidden(pl->f, l->index))
		*ret = l;
	return 0;
}

/* Step 18 of the original: decides whether the routes of this NIC or those of the owner leave
 * the main table, and moves them. */
static int coordinator_tune_routes(struct planning *pl, struct err *e)
{
	const struct link *owner, *wanted;
	int r;

	if (!pl->c->tune_routes || (pl->stage.first && pl->stage.mode == COORD_UNDERLAY))
		return 0;
	owner = default_owner(pl);
	if (!owner) {
		log_warn("no other NIC of the pod has a default route of this NIC's address "
			 "families, routes stay as they are",
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
		if (pl->stage.mode == COORD_OVERLAY && pl->stage.first)
			keep_first(pl, owner);
	}
	move_routes(pl, wanted ? owner->index : pl->link->index);
	return 0;
}

/* --- steps that add or delete routes, and the routes in the facts --- */

enum {
	V6_DEFAULT_METRIC = 1024 /* IP6_RT_PRIO_USER: the kernel's metric for a route without one */
};

static uint32_t table_of(const struct route *r)
{
	return r->table ? r->table : TABLE_MAIN;
}

static uint32_t metric_of(const struct route *r)
{
	return r->dst.ip.family == 6 && !r->priority ? V6_DEFAULT_METRIC : r->priority;
}

static struct route *list_of(struct planning *pl, enum coordinator_side side, size_t **n)
{
	*n = side == COORD_POD ? &pl->f->n_routes : &pl->f->n_host_routes;
	return side == COORD_POD ? pl->f->routes : pl->f->host_routes;
}

/* Returns the name of a link; "": unknown. */
static const char *name_of(const struct planning *pl, enum coordinator_side side, int index)
{
	const struct link *veth = &pl->f->host_veth;

	if (side == COORD_HOST)
		return veth->index == index ? veth->name : "";
	for (size_t i = 0; i < pl->f->n_links; i++)
		if (pl->f->links[i].index == index)
			return pl->f->links[i].name;
	return "";
}

static void emit_route(struct planning *pl, enum coordinator_side side, enum coordinator_do what,
		       const struct route *r)
{
	coordinator_emit(pl, side, what, name_of(pl, side, r->index), r->index)->route = *r;
}

/* --- index of existing routes, because a configuration may name thousands of routes --- */

/* Index entry of a route. Its key is table, metric and destination: the kernel refuses a route with
 * the key of an existing route (EEXIST to NLM_F_EXCL), whatever its next hops are. */
struct known_route {
	uint32_t table, metric;
	struct ipnet dst;
	size_t at;		  /* position in the list */
	struct known_route *next; /* next entry with the same key, such as a deleted route */
};

static int by_key(const void *a, const void *b)
{
	const struct known_route *x = a, *y = b;

	if (x->table != y->table)
		return x->table < y->table ? -1 : 1;
	if (x->metric != y->metric)
		return x->metric < y->metric ? -1 : 1;
	if (x->dst.len != y->dst.len)
		return x->dst.len < y->dst.len ? -1 : 1;
	return ip_cmp(&x->dst.ip, &y->dst.ip);
}

static struct known_route key_of(const struct route *r)
{
	return (struct known_route){.table = table_of(r), .metric = metric_of(r), .dst = r->dst};
}

static void known_route_add(void **tree, const struct route *r, size_t at)
{
	struct known_route *x = xcalloc(1, sizeof(*x)), **found, *last;

	*x = key_of(r);
	x->at = at;
	found = xtsearch(x, tree, by_key);
	for (last = *found; last->next; last = last->next)
		;
	if (last != x)
		last->next = x;
}

static void known_route_free(void *route)
{
	struct known_route *x = route;

	while (x) {
		struct known_route *next = x->next;

		free(x);
		x = next;
	}
}

void coordinator_known_routes_done(struct coordinator_known_routes *k)
{
	tdestroy(k->tree, known_route_free);
}

/* Returns the routes of a list that have the key of r, including those that a plan has deleted
 * (COORD_HOLE). */
static const struct known_route *known_routes(struct planning *pl, enum coordinator_side side,
					      const struct route *r)
{
	struct coordinator_known_routes *k = &pl->f->known[side];
	const struct known_route key = key_of(r);
	struct known_route *const *found;
	size_t *n;
	const struct route *list = list_of(pl, side, &n);

	for (; k->n < *n; k->n++)
		known_route_add(&k->tree, &list[k->n], k->n);
	found = tfind(&key, &k->tree, by_key);
	return found ? *found : NULL;
}

static bool exists(struct planning *pl, enum coordinator_side side, const struct route *r)
{
	size_t *n;
	const struct route *list = list_of(pl, side, &n);

	for (const struct known_route *x = known_routes(pl, side, r); x; x = x->next)
		if (list[x->at].index != COORD_HOLE)
			return true;
	return false;
}

static void coordinator_emit_route(struct planning *pl, enum coordinator_side side,
				   const struct route *r)
{
	struct route *now;

	if (exists(pl, side, r))
		return;
	emit_route(pl, side, COORD_ROUTE_ADD, r);
	now = side == COORD_POD ? &VEC_PUSH(pl->f->routes, pl->f->n_routes)
				: &VEC_PUSH(pl->f->host_routes, pl->f->n_host_routes);
	*now = *r;
	now->table = table_of(r);
	now->priority = metric_of(r);
}

/* Removes one next hop of an IPv6 multipath route; false: the route does not have the hop. If one
 * hop remains, the route becomes a plain route. */
static bool drop_hop(struct route *there, const struct route *r)
{
	size_t k = 0, before = there->n_hops;

	for (size_t i = 0; i < there->n_hops; i++)
		if (there->hops[i].index != r->index || !ip_eq(&there->hops[i].gw, &r->gw))
			there->hops[k++] = there->hops[i];
	there->n_hops = k;
	if (k != 1 || before == 1)
		return k < before;
	there->index = there->hops[0].index;
	there->gw = there->hops[0].gw;
	free(there->hops);
	there->hops = NULL;
	there->n_hops = 0;
	return true;
}

static void coordinator_emit_route_del(struct planning *pl, enum coordinator_side side,
				       const struct route *r)
{
	struct route old = *r;
	size_t *n;
	struct route *list = list_of(pl, side, &n);

	old.hops = NULL;
	old.n_hops = 0;
	emit_route(pl, side, COORD_ROUTE_DEL, &old);
	for (const struct known_route *x = known_routes(pl, side, r); x; x = x->next) {
		struct route *there = &list[x->at];

		if (there->n_hops && drop_hop(there, &old))
			return;
		if (there->n_hops || there->index != old.index || !ip_eq(&there->gw, &old.gw))
			continue;
		*there = (struct route){.index = COORD_HOLE, .table = UINT32_MAX};
		return;
	}
}
