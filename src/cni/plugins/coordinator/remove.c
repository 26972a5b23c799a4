/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cni/plugins/coordinator/internal.h"
#include "kern/net/nft.h"

/*
 * DEL of the coordinator. In underlay mode unirail made the veth pair: the name of its host end
 * follows from the container id, so prevResult is not needed; the kernel deletes the link's routes
 * and neighbours with the link.
 *
 * In overlay mode another plugin made the pair, so DEL does not delete the link, but the routes and
 * neighbours one by one. It deletes only those of this host end: another pod may have got an
 * address of this pod in the meantime.
 */

static int delete_host_veth(struct attach *a, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	char name[LINK_NAME_MAX];

	coordinator_host_veth_name(a->call->container_id, name);
	link_del(b, 0, name);
	return nl_batch_commit(a->host, b, e);
}

/* Returns the index of the host end of the veth that another plugin made as the pod's default
 * NIC, and sets *ret to that link; 0: there is none. */
static int overlay_end(struct attach *a, const struct coordinator_conf *c, struct link *ret)
{
	struct link eth0;

	if (!a->pod || link_get(a->pod, c->default_nic, &eth0, NULL) < 0 ||
	    strcmp(eth0.kind, "veth") != 0 || !eth0.parent)
		return 0;
	if (link_get_index(a->host, eth0.parent, ret, NULL) < 0 || ret->parent != eth0.index ||
	    strcmp(ret->kind, "veth") != 0)
		return 0;
	return ret->index;
}

static void delete_from_link(struct nl_batch *b, const struct coordinator_conf *c,
			     const struct link *l, const struct ipaddr *ip)
{
	const struct route r = {.dst = ipnet_host(ip),
				.family = ip->family,
				.index = l->index,
				.dev = l->name,
				.table = c->host_table,
				.scope = ip->family == 4 ? SCOPE_LINK : SCOPE_UNIVERSE};

	route_del(b, &r);
	neigh_del(b, l->index, l->name, ip);
}

/* Returns whether the rule is `to <address> lookup <table>`: older releases of the original
 * added a rule for each address instead of one rule of preference 1000. */
static bool is_legacy(const struct rule *r, const struct coordinator_conf *c,
		      const struct ipaddr *ips, size_t n)
{
	for (size_t i = 0; r->table == c->host_table && i < n; i++) {
		struct ipnet host = ipnet_host(&ips[i]);

		if (!r->invert && r->dst.ip.family && ipnet_eq(&r->dst, &host))
			return true;
	}
	return false;
}

static int delete_legacy_rules(struct attach *a, const struct coordinator_conf *c,
			       const struct ipaddr *ips, size_t n, struct nl_batch *b,
			       struct err *e)
{
	auto_free struct rule *rules = NULL;
	size_t n_rules;
	int r = n ? rule_list(a->host, 0, &rules, &n_rules, e) : 0;

	if (r < 0 || !n)
		return r;
	for (size_t i = 0; i < n_rules; i++)
		if (is_legacy(&rules[i], c, ips, n))
			rule_del(b, &rules[i]);
	return 0;
}

static bool is_from(const struct rule *r, const struct ipaddr *ips, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct ipnet host = ipnet_host(&ips[i]);

		if (!r->invert && r->src.ip.family && ipnet_eq(&r->src, &host))
			return true;
	}
	return false;
}

static bool is_mark(const struct rule *r)
{
	return r->mark == COORD_MARK && r->table == COORD_FIRST_NIC_TABLE;
}

/* Returns whether the rule is `from <eth0's address> lookup 100`, which is needed only while other
 * NICs have rules. */
static bool keeps_first(const struct rule *r)
{
	return r->src.ip.family && r->table == COORD_FIRST_NIC_TABLE;
}

/* Fills ret, which has room for n_rules entries, with the pod's rules that DEL deletes: the rules
 * from these addresses, the rule for marks, and the rule from eth0's address if no other NIC has a
 * rule. Pure.
 */
static size_t coordinator_rules_to_delete(const struct rule *rules, size_t n_rules,
					  const struct ipaddr *ips, size_t n,
					  const struct rule **ret)
{
	bool others = false;
	size_t k = 0;

	for (size_t i = 0; i < n_rules; i++)
		others |= rules[i].src.ip.family && rules[i].table > COORD_FIRST_NIC_TABLE &&
			  !is_from(&rules[i], ips, n);
	for (size_t i = 0; i < n_rules; i++)
		if (is_from(&rules[i], ips, n) || is_mark(&rules[i]) ||
		    (!others && keeps_first(&rules[i])))
			ret[k++] = &rules[i];
	return k;
}

/* Deletes the rules, because the pod may continue to run without this NIC, or its namespace may be
 * used again. */
int coordinator_delete_rules(struct attach *a, const struct ipaddr *ips, size_t n, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	auto_free struct rule *rules = NULL;
	auto_free const struct rule **deleted = NULL;
	size_t n_rules = 0, n_deleted;
	bool marks = false;
	int r = a->pod ? rule_list(a->pod, 0, &rules, &n_rules, e) : 0;

	if (r < 0 || !a->pod)
		return r;
	deleted = xcalloc(n_rules, sizeof(*deleted));
	n_deleted = coordinator_rules_to_delete(rules, n_rules, ips, n, deleted);
	for (size_t i = 0; i < n_deleted; i++) {
		rule_del(b, deleted[i]);
		marks |= is_mark(deleted[i]);
	}
	/* Deletes the marks before their rule, because a repeated DEL finds the marks by the rule.
	 * */
	if (marks)
		r = nl_open(&a->marks, NL_NETFILTER, a->netns, e);
	if (marks && r >= 0)
		r = nft_reply_marks_del(a->marks, e);
	return r < 0 || !n_deleted ? r : nl_batch_commit(a->pod, b, e);
}

int coordinator_delete(struct attach *a, const struct coordinator_conf *c, const struct ipaddr *ips,
		       size_t n, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct link l;
	int r;

	if (c->mode == COORD_DISABLED)
		return 0;
	if (overlay_end(a, c, &l))
		for (size_t i = 0; i < n; i++)
			delete_from_link(b, c, &l, &ips[i]);
	r = delete_legacy_rules(a, c, ips, n, b, e);
	if (r >= 0 && nl_batch_len(b))
		r = nl_batch_commit(a->host, b, e);
	if (r >= 0)
		r = delete_host_veth(a, e);
	return r < 0 ? r : coordinator_host_rule_release(a->host, c->host_table, e);
}

/* Returns the container id in the alias "unirail <network> <container id>" of a link that unirail
 * created for this network; NULL: another link. */
static const char *owner_of(const struct link *l, const char *network)
{
	const char *p = l->alias;
	size_t n = strlen(network);

	if (strcmp(l->kind, "veth") != 0 || strncmp(p, COORD_ALIAS, strlen(COORD_ALIAS)) != 0)
		return NULL;
	p += strlen(COORD_ALIAS);
	if (strncmp(p, network, n) != 0 || p[n] != ' ')
		return NULL;
	return p + n + 1;
}

bool coordinator_is_leftover(const struct link *l, const char *network,
			     const struct cni_attachment *valid, size_t n)
{
	const char *owner = owner_of(l, network);

	if (!owner)
		return false;
	for (size_t i = 0; i < n; i++)
		if (strcmp(valid[i].container_id, owner) == 0)
			return false;
	return true;
}

static int release_tables(struct nl_wire *w, const struct coordinator_gc_net *nets, size_t n,
			  struct err *e)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < n; i++) {
		size_t first = 0;

		while (nets[first].host_table != nets[i].host_table)
			first++;
		if (first == i)
			r = coordinator_host_rule_release(w, nets[i].host_table, e);
	}
	return r;
}

int coordinator_gc(const struct coordinator_gc_net *nets, size_t n, const struct cni_call *c,
		   struct err *e)
{
	auto_nl struct nl_wire *w = NULL;
	auto_batch struct nl_batch *b = nl_batch_new();
	auto_free struct link *links = NULL;
	size_t n_links;
	int r = nl_open(&w, NL_ROUTE, -1, e);

	if (r >= 0)
		r = link_list(w, &links, &n_links, e);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n_links; i++)
		for (size_t k = 0; k < n; k++)
			if (coordinator_is_leftover(&links[i], nets[k].name, c->valid, c->n_valid))
				link_del(b, links[i].index, links[i].name);
	r = nl_batch_len(b) ? nl_batch_commit(w, b, e) : 0;
	return r < 0 ? r : release_tables(w, nets, n, e);
}

/*
 * coordinator_host_rule_release() deletes the node's rule for the table of routes to pods if no pod
 * has a route in the table any more. The original never deletes this rule. No lock protects the
 * rule. An ADD adds its route first and then the rule, without a check. The process that deletes
 * the rule checks the table again afterwards, and restores the rule if a route was added meanwhile.
 * So in any order a table with a route has a rule.
 */

bool coordinator_host_rule_is_idle(uint8_t family, const struct route *routes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (routes[i].family == family)
			return false;
	return true;
}

/* Sets *ret to the families that have no route in the table. */
static int idle(struct nl_wire *w, uint32_t table, unsigned int *ret, struct err *e)
{
	struct route *routes;
	size_t n;
	int r = route_list(w, 0, table, &routes, &n, e);

	if (r < 0)
		return r;
	*ret = (coordinator_host_rule_is_idle(4, routes, n) ? COORD_V4 : 0) |
	       (coordinator_host_rule_is_idle(6, routes, n) ? COORD_V6 : 0);
	route_list_free(routes, n);
	return 0;
}

static int commit(struct nl_wire *w, struct nl_batch *b, struct err *e)
{
	return nl_batch_len(b) ? nl_batch_commit(w, b, e) : 0;
}

/* Deletes the coordinator's rules for the table; a user's rule with another selector stays. Sets
 * *ret to the families of the deleted rules. */
static int take_away(struct nl_wire *w, uint32_t table, unsigned int families, unsigned int *ret,
		     struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	auto_free struct rule *rules = NULL;
	size_t n;
	int r = rule_list(w, 0, &rules, &n, e);

	*ret = 0;
	for (size_t i = 0; r >= 0 && i < n; i++) {
		unsigned int bit = rules[i].family == 4 ? COORD_V4 : COORD_V6;
		const struct rule want = coordinator_host_rule(rules[i].family, table);

		if (!(families & bit) || !rule_eq(&rules[i], &want))
			continue;
		rule_del(b, &rules[i]);
		*ret |= bit;
	}
	return r < 0 ? r : commit(w, b, e);
}

static int put_back(struct nl_wire *w, uint32_t table, unsigned int families, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();

	for (uint8_t family = 4; family <= 6; family += 2) {
		const struct rule rule = coordinator_host_rule(family, table);

		if (families & (family == 4 ? COORD_V4 : COORD_V6))
			rule_add(b, &rule, NL_OK_EXIST);
	}
	return commit(w, b, e);
}

int coordinator_host_rule_release(struct nl_wire *host, uint32_t table, struct err *e)
{
	unsigned int families, deleted = 0, still = 0;
	int r = idle(host, table, &families, e);

	if (r >= 0 && families)
		r = take_away(host, table, families, &deleted, e);
	if (r < 0 || !deleted)
		return r;
	r = idle(host, table, &still, e);
	return r < 0 ? r : put_back(host, table, deleted & ~still, e);
}
