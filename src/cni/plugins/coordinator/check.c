/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/plugins/coordinator/check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/sorted.h"
#include "kern/net/nft.h"

/* CHECK of the coordinator: verifies the links, rules, routes, neighbours and reply marks that ADD
 * made; not sysctls, MAC and queue length. */

/* --- index of routes, neighbours and rules --- */

/* A path to a destination: a route, or a hop of a multipath route. */
struct reach {
	struct ipnet dst;
	int index;
	bool hop;
	uint32_t table;
};

struct by_link {
	struct ipaddr ip;
	int index;
	size_t at; /* position in the list */
};

struct check_index {
	struct reach *pod, *host;
	struct by_link *pod_neighs, *host_neighs, *rules; /* rules: of the pod, by source */
	size_t n_pod, n_host, n_pod_neighs, n_host_neighs, n_rules;
};

static int compare(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int by_reach(const void *a, const void *b)
{
	const struct reach *x = a, *y = b;
	int r = ip_cmp(&x->dst.ip, &y->dst.ip);

	if (r == 0)
		r = compare(x->dst.len, y->dst.len);
	if (r == 0)
		r = compare((uint32_t)x->index, (uint32_t)y->index);
	if (r == 0)
		r = compare(x->hop, y->hop);
	return r ? r : compare(x->table, y->table);
}

static int by_link(const void *a, const void *b)
{
	const struct by_link *x = a, *y = b;
	int r = ip_cmp(&x->ip, &y->ip);

	if (r == 0)
		r = compare((uint32_t)x->index, (uint32_t)y->index);
	return r ? r : compare(x->at, y->at);
}

static struct reach *reaches_of(const struct route *v, size_t n, size_t *n_ret)
{
	struct reach *ret = NULL;

	for (size_t i = 0; i < n; i++) {
		VEC_PUSH(ret, *n_ret) = (struct reach){v[i].dst, v[i].index, false, v[i].table};
		for (size_t j = 0; j < v[i].n_hops; j++)
			VEC_PUSH(ret, *n_ret) =
				(struct reach){v[i].dst, v[i].hops[j].index, true, v[i].table};
	}
	if (*n_ret > 0)
		qsort(ret, *n_ret, sizeof(*ret), by_reach);
	return ret;
}

static struct by_link *neighs_of(const struct neigh *v, size_t n, size_t *n_ret)
{
	struct by_link *ret = NULL;

	for (size_t i = 0; i < n; i++)
		VEC_PUSH(ret, *n_ret) = (struct by_link){v[i].ip, v[i].index, i};
	if (n > 0)
		qsort(ret, n, sizeof(*ret), by_link);
	return ret;
}

static struct by_link *sources_of(const struct rule *v, size_t n, size_t *n_ret)
{
	struct by_link *ret = NULL;

	for (size_t i = 0; i < n; i++)
		if (v[i].src.ip.family && v[i].src.len == ip_bits(&v[i].src.ip))
			VEC_PUSH(ret, *n_ret) = (struct by_link){v[i].src.ip, 0, i};
	if (*n_ret > 0)
		qsort(ret, *n_ret, sizeof(*ret), by_link);
	return ret;
}

void coordinator_check_index(struct checking *k)
{
	struct check_index *x = k->index = xcalloc(1, sizeof(*x));
	const struct coordinator_facts *f = k->f;

	x->pod = reaches_of(f->routes, f->n_routes, &x->n_pod);
	x->host = reaches_of(f->host_routes, f->n_host_routes, &x->n_host);
	x->pod_neighs = neighs_of(k->neighs, k->n_neighs, &x->n_pod_neighs);
	x->host_neighs = neighs_of(f->host_neighs, f->n_host_neighs, &x->n_host_neighs);
	x->rules = sources_of(k->pod_rules, k->n_pod_rules, &x->n_rules);
}

void coordinator_check_index_free(struct checking *k)
{
	struct check_index *x = k->index;

	k->index = NULL;
	if (!x)
		return;
	free(x->pod);
	free(x->host);
	free(x->pod_neighs);
	free(x->host_neighs);
	free(x->rules);
	free(x);
}

/* Returns the index of the first element that is not less than *key. */
static size_t first_of(const void *v, size_t n, size_t size, const void *key,
		       int (*order)(const void *a, const void *b))
{
	return LOWER_BOUND(i, n, order((const char *)v + i * size, key) < 0);
}

/* Returns whether the table (0: any table) has a route to dst through the link. `hop` false:
 * a route with a single next hop; true: a multipath route with a hop on the link. */
static bool has_reach(const struct reach *v, size_t n, const struct ipnet *dst, int index, bool hop,
		      uint32_t table)
{
	const struct reach want = {*dst, index, hop, table};
	size_t i = first_of(v, n, sizeof(*v), &want, by_reach);

	return i < n && ipnet_eq(&v[i].dst, dst) && v[i].index == index && v[i].hop == hop &&
	       (!table || v[i].table == table);
}

/* Returns the index of the first neighbour of the link with the address; n: none. */
static size_t neigh_at(const struct by_link *v, size_t n, const struct ipaddr *ip, int index)
{
	const struct by_link want = {*ip, index, 0};
	size_t i = first_of(v, n, sizeof(*v), &want, by_link);

	return i < n && ip_eq(&v[i].ip, ip) && v[i].index == index ? v[i].at : n;
}

/* --- the NIC's links, and the node's rules, routes and neighbours --- */

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
		return err_set(e, -ENODEV, "'%s', the pod's interface to its node, is %s", exit,
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
	const struct ipnet dst = ipnet_host(ip);

	return has_reach(k->index->host, k->index->n_host, &dst, k->f->host_veth.index, false,
			 k->c->host_table);
}

static bool has_host_neigh(const struct checking *k, const struct ipaddr *ip)
{
	size_t n = k->index->n_host_neighs,
	       at = neigh_at(k->index->host_neighs, n, ip, k->f->host_veth.index);

	return at < n && neigh_is_permanent(&k->f->host_neighs[at]) &&
	       mac_eq(&k->f->host_neighs[at].mac, &k->exit->mac);
}

int coordinator_check_host(const struct checking *k, struct err *e)
{
	unsigned int families = 0; /* families (COORD_*) whose rule was found */
	char ip[IP_TEXT_MAX];

	for (size_t i = 0; i < k->n_ips; i++) {
		unsigned int family = coordinator_family_bit(&k->ips[i]);

		ip_str(&k->ips[i], ip);
		if (!(families & family) && !has_host_rule(k, k->ips[i].family))
			return err_set(
				e, -ENOENT,
				"the host has no rule 'from all lookup %u pref %d' for IPv%d",
				k->c->host_table, COORD_HOST_RULE_PRIORITY, k->ips[i].family);
		families |= family;
		if (!has_host_route(k, &k->ips[i]))
			return err_set(e, -ENOENT,
				       "table %u of the host has no route to '%s' through '%s'",
				       k->c->host_table, ip, k->f->host_veth.name);
		if (!has_host_neigh(k, &k->ips[i]))
			return err_set(e, -ENOENT,
				       "the host has no permanent neighbour '%s' on '%s' with "
				       "the MAC of the pod's interface to its node",
				       ip, k->f->host_veth.name);
	}
	return 0;
}

static int check_nic(struct checking *k, struct err *e)
{
	int r = check_links(k, e);

	if (r >= 0)
		r = coordinator_check_host(k, e);
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
	r = coordinator_facts_collect(a, nics, n, &f, e);
	if (r >= 0)
		r = rule_list(a->pod, 0, &pod, &k.n_pod_rules, e);
	if (r >= 0)
		r = rule_list(a->host, 0, &host, &k.n_host_rules, e);
	if (r >= 0)
		r = neigh_list(a->pod, 0, 0, &neighs, &k.n_neighs, e);
	k.neighs = neighs;
	k.pod_rules = pod;
	k.host_rules = host;
	coordinator_check_index(&k);
	for (size_t i = 0; r >= 0 && i < n; i++) {
		if (!checks(&nics[i]))
			continue;
		k.nic = &nics[i];
		k.c = nics[i].conf;
		k.ips = NULL;
		r = check_nic(&k, e);
	}
	coordinator_check_index_free(&k);
	coordinator_facts_done(&f);
	return r < 0 ? r : 0;
}

/* --- CHECK of the coordinator, the pod's side: reply marks, neighbours, rules, tables --- */

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
	unsigned int families = 0; /* families (COORD_*) whose rule was found */
	int r;

	if (!k->first)
		return 0;
	for (size_t i = 0; i < k->n_ips; i++) {
		unsigned int family = coordinator_family_bit(&k->ips[i]);

		if (!(families & family) && !has_mark_rule(k, k->ips[i].family))
			return err_set(e, -ENOENT,
				       "the pod has no rule 'fwmark 0x1 lookup %d' for IPv%d",
				       COORD_FIRST_NIC_TABLE, k->ips[i].family);
		families |= family;
	}
	r = nl_open(&w, NL_NETFILTER, k->a->netns, e);
	if (r >= 0)
		r = nft_reply_marks_check(w, COORD_VETH, COORD_MARK, e);
	if (r == 0)
		return err_set(
			e, -ENOENT,
			"the pod's nf_tables rules that mark replies which leave through '" COORD_VETH
			"' are missing or changed");
	return r < 0 ? r : 0;
}

static bool is_default_of(const struct checking *k, const struct route *r, int family, bool own)
{
	bool on_link = r->index == k->link->index;

	if (r->table != TABLE_MAIN || !ipnet_is_default(&r->dst) || r->dst.ip.family != family)
		return false;
	for (size_t i = 0; i < r->n_hops; i++)
		on_link |= r->hops[i].index == k->link->index;
	return on_link == own;
}

/* Returns whether ADD added rules from the NIC's addresses: it added none unless the main table had
 * a default route of another NIC. */
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

/* table 0: a route in any table is accepted. */
static bool table_reaches(const struct checking *k, uint32_t table, int index,
			  const struct ipnet *dst)
{
	const struct check_index *x = k->index;

	return has_reach(x->pod, x->n_pod, dst, index, false, table) ||
	       has_reach(x->pod, x->n_pod, dst, index, true, table);
}

/* Returns the neighbour entry of the pod for an address of the node; NULL: none. */
static const struct neigh *neighbour(const struct checking *k, const struct ipaddr *ip)
{
	size_t n = k->index->n_pod_neighs,
	       at = neigh_at(k->index->pod_neighs, n, ip, k->exit->index);

	return at < n ? &k->neighs[at] : NULL;
}

/*
 * Returns whether the pod has a neighbour entry for, or a route to, an address of the node. CHECK
 * skips other addresses, because the node may have got them after the ADD.
 */
static bool pod_knows(const struct checking *k, const struct ipaddr *ip)
{
	struct ipnet dst = ipnet_host(ip);

	return neighbour(k, ip) || table_reaches(k, 0, k->exit->index, &dst);
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
				"table %u of the pod has no route to the node's address '%s' "
				"through '%s'",
				table, ip_str(ip, text), k->exit->name);
	}
	return 0;
}

static bool is_neighbour(const struct checking *k, const struct ipaddr *ip)
{
	const struct neigh *n = neighbour(k, ip);

	return n && neigh_is_permanent(n) && mac_eq(&n->mac, &k->f->host_veth.mac);
}

/* Returns whether the pod must have permanent neighbours of the family: this is so if this NIC
 * is the first and has addresses of the family, or if the pod has such a neighbour. ADD of the
 * pod's first NIC makes these neighbours for all NICs. */
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
	const bool knew4 = first_knew(k, 4), knew6 = first_knew(k, 6);
	char text[IP_TEXT_MAX];

	for (size_t i = 0; i < k->f->n_host_ips; i++) {
		const struct ipaddr *ip = &k->f->host_ips[i];

		if ((ip->family == 4 ? knew4 : knew6) && pod_knows(k, ip) && !is_neighbour(k, ip))
			return err_set(e, -ENOENT,
				       "the pod has no permanent neighbour '%s' on '%s' with the "
				       "MAC of the link's host end",
				       ip_str(ip, text), k->exit->name);
	}
	return 0;
}

/* Returns whether prevResult has a default route of the NIC; false without prevResult. */
static bool had_default(const struct checking *k, int family)
{
	const struct cni_result *prev = k->nic->prev ? k->nic->prev : &k->a->call->prev;
	int iface = cni_result_pod_iface(prev, k->nic->ifname);

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
		return err_set(e, -ENOENT,
			       "neither table %u (of the rule 'from %s') nor the "
			       "main table has a default route through '%s'",
			       r->table, ip, k->nic->ifname);
	if (r->table == COORD_FIRST_NIC_TABLE)
		return 0;
	return check_way_to_node(k, r->table, r->family, e);
}

/* Returns whether the coordinator made the table: it then contains a route to the node. A table of
 * sbr has only routes of its own interface. */
static bool is_our_table(const struct checking *k, uint32_t table)
{
	for (size_t i = 0; i < k->f->n_routes; i++)
		if (k->f->routes[i].table == table && k->f->routes[i].index == k->exit->index)
			return true;
	return table == COORD_FIRST_NIC_TABLE;
}

/* Result for one family, which applies to all addresses of the family. */
struct family_checked {
	bool is_known, wanted;
	bool has_table; /* `table` passed check_table() and, unless `wanted`, is_our_table() */
	uint32_t table;
};

/* Returns 1 if a rule for the address leads to a table with ADD's routes, 0 if there is no rule,
 * -errno if the tables of all rules lack a route. Unless f->wanted, rules to tables that the
 * coordinator did not make are ignored. If sbr runs after the coordinator, it adds rules and
 * tables of its own for the same address, and a NIC that needs no table of the coordinator may
 * have only those. */
static int check_rules(const struct checking *k, const struct ipaddr *ip, struct family_checked *f,
		       struct err *e)
{
	const struct check_index *x = k->index;
	const struct by_link first = {*ip, 0, 0};
	char text[IP_TEXT_MAX];
	int ret = 0, r;

	ip_str(ip, text);
	for (size_t i = first_of(x->rules, x->n_rules, sizeof(*x->rules), &first, by_link);
	     i < x->n_rules && ip_eq(&x->rules[i].ip, ip); i++) {
		const struct rule *rule = &k->pod_rules[x->rules[i].at];

		if (f->has_table && f->table == rule->table)
			return 1;
		if (!f->wanted && !is_our_table(k, rule->table))
			continue;
		r = check_table(k, rule, text, ret < 0 ? NULL : e);
		if (r >= 0) {
			f->has_table = true;
			f->table = rule->table;
			return 1;
		}
		ret = ret < 0 ? ret : r;
	}
	return ret;
}

/* Checks the routes to the node in the main table and in table 101 (COORD_FIRST_NIC_TABLE + 1),
 * where the first NIC's ADD put them. */
static int check_first(const struct checking *k, int family, struct err *e)
{
	int r = check_way_to_node(k, TABLE_MAIN, family, e);

	return r < 0 ? r : check_way_to_node(k, COORD_FIRST_NIC_TABLE + 1, family, e);
}

static int check_tables(const struct checking *k, struct err *e)
{
	struct family_checked families[2] = {0};
	char ip[IP_TEXT_MAX];

	for (size_t i = 0; i < k->n_ips; i++) {
		int family = k->ips[i].family, r;
		struct family_checked *f = &families[family == 6];
		bool is_first = !f->is_known;

		if (is_first)
			f->wanted = wants_rule(k, family);
		f->is_known = true;
		r = check_rules(k, &k->ips[i], f, e);
		if (r == 0 && f->wanted)
			return err_set(e, -ENOENT, "the pod has no rule 'from %s'",
				       ip_str(&k->ips[i], ip));
		if (r >= 0 && k->first && is_first)
			r = check_first(k, family, e);
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
	return has_reach(k->index->pod, k->index->n_pod, dst, k->exit->index, false, 0);
}

static int check_cidrs(const struct checking *k, struct err *e)
{
	const bool host4 = knows_host(k, 4), host6 = knows_host(k, 6);
	unsigned int families = 0;
	char dst[IP_TEXT_MAX];

	for (size_t i = 0; i < k->n_ips; i++)
		families |= coordinator_family_bit(&k->ips[i]);
	for (size_t i = 0; i < k->c->n_cidrs; i++) {
		const struct ipnet *net = &k->c->cidrs[i];

		if ((families & coordinator_family_bit(&net->ip)) &&
		    (net->ip.family == 4 ? host4 : host6) && !has_hijack(k, net))
			return err_set(e, -ENOENT, "the pod has no route to '%s' through '%s'",
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
