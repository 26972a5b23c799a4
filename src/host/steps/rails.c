/* SPDX-License-Identifier: Apache-2.0 */
#include "host/steps/rails.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/num.h"
#include "host/steps/steps.h"

enum { NAME_SIZE = 256 };

#define OFFSET(m) offsetof(struct host_rails_want, m)

static const struct opt keys[] = {
	{"plan", 0, OPT_STR, "FILE", "file with the section [rails], the same for all nodes",
	 OFFSET(plan), 0, 0},
	{"cidr", 0, OPT_STR, "CIDR", "network of all rails of the cluster", OFFSET(cidr), 0, 0},
	{"interfaces", 0, OPT_STR, "NAME,...", "the rails' interfaces, in the order of the rails",
	 OFFSET(interfaces), 0, 0},
	{"nodes", 0, OPT_STR, "NAME,...",
	 "the cluster's nodes, in the order of their networks; append new nodes at the end",
	 OFFSET(nodes), 0, 0},
	{"node", 0, OPT_STR, "NAME", "name of this node in `nodes` (the host's name)", OFFSET(node),
	 0, 0},
	{"rail-prefix", 0, OPT_INT, "BITS", "prefix length of a rail's network (24; IPv6: 48)",
	 OFFSET(rail_prefix), 0, 126},
	{"node-prefix", 0, OPT_INT, "BITS",
	 "prefix length of a node's network on a rail (27; IPv6: 64)", OFFSET(node_prefix), 0, 126},
	{"first-rail", 0, OPT_INT, "N", "number of the first rail's network in cidr (0)",
	 OFFSET(first_rail), 0, 65535},
	{"mtu", 0, OPT_INT, "BYTES", "MTU of all rails; 0: unchanged", OFFSET(mtu), 0, 65535},
	{"pools", 0, OPT_FLAG, NULL, "print the SpiderIPPools of all nodes, and change nothing",
	 OFFSET(pools), 0, 0},
	{0},
};

/* --- the plan --- */

static size_t count(const char *list)
{
	struct span rest = span_of(list), one;
	size_t n = 0;

	while (list && span_cut(&rest, ',', &one))
		n++;
	return n;
}

/* Returns the i-th name of the list; the caller frees it. NULL: the list has fewer names. */
static char *name_at(const char *list, size_t i)
{
	struct span rest = span_of(list), one;

	for (size_t k = 0; list && span_cut(&rest, ',', &one); k++)
		if (k == i)
			return span_dup(span_trim(one));
	return NULL;
}

static int index_of(const char *list, const char *name)
{
	struct span rest = span_of(list), one;

	for (int k = 0; list && span_cut(&rest, ',', &one); k++)
		if (span_eq(span_trim(one), name))
			return k;
	return -1;
}

/* Sets the prefix lengths of a rail and of a node; 0 in the section: the default. */
static void prefixes(const struct host_rails_want *w, const struct ipnet *all, unsigned int *rail,
		     unsigned int *node)
{
	bool v6 = all->ip.family == 6;

	*rail = w->rail_prefix ? (unsigned int)w->rail_prefix : v6 ? 48 : 24;
	*node = w->node_prefix ? (unsigned int)w->node_prefix : v6 ? 64 : 27;
}

static int name_order(const void *a, const void *b)
{
	const struct span *x = a, *y = b;
	int r = memcmp(x->p, y->p, x->n < y->n ? x->n : y->n);

	return r ? r : (x->n > y->n) - (x->n < y->n);
}

static int check_names(const char *key, const char *list, size_t max, struct err *e)
{
	size_t n = count(list);
	auto_free struct span *names = NULL;
	struct span rest = span_of(list);

	if (n == 0 || n > max)
		return err_kind(e, ERR_CONF, -EINVAL, "%s has %zu names, expected 1 to %zu", key, n,
				max);
	names = xcalloc(n, sizeof(*names));
	for (size_t i = 0; i < n && span_cut(&rest, ',', &names[i]); i++) {
		names[i] = span_trim(names[i]);
		if (names[i].n == 0 || names[i].n >= NAME_SIZE)
			return err_kind(e, ERR_CONF, -EINVAL,
					"%s has a name that is empty or longer than 255 bytes",
					key);
	}
	qsort(names, n, sizeof(*names), name_order);
	for (size_t i = 1; i < n; i++)
		if (name_order(&names[i - 1], &names[i]) == 0)
			return err_kind(e, ERR_CONF, -EINVAL, "%s has '%.*s' twice", key,
					(int)names[i].n, names[i].p);
	return 0;
}

static int check_size(const struct host_rails_want *w, const struct ipnet *all, struct err *e)
{
	size_t n_rails = count(w->interfaces) + (size_t)w->first_rail, n_nodes = count(w->nodes);
	unsigned int rail, node;

	prefixes(w, all, &rail, &node);
	if (!(all->len <= rail && rail <= node && node + 2 <= ip_bits(&all->ip)))
		return err_kind(
			e, ERR_CONF, -EINVAL,
			"prefix lengths of cidr, rail and node are /%u, /%u, /%u: expected each at least as long as the one before, and at most /%u",
			all->len, rail, node, ip_bits(&all->ip) - 2);
	if (rail - all->len < 32 && n_rails > (size_t)1 << (rail - all->len))
		return err_kind(
			e, ERR_CONF, -ENOSPC,
			"the plan is too small: %zu rails of /%u fit into %s, first-rail and interfaces need %zu",
			(size_t)1 << (rail - all->len), rail, w->cidr, n_rails);
	if (node - rail < 32 && n_nodes > (size_t)1 << (node - rail))
		return err_kind(
			e, ERR_CONF, -ENOSPC,
			"the plan is too small: %zu nodes of /%u fit into a rail of /%u, the plan has %zu",
			(size_t)1 << (node - rail), node, rail, n_nodes);
	return 0;
}

/* Checks the plan. Returns 0; -ENOSPC: the plan is too small ("8 nodes of /27 fit into a rail of
 * /24, the plan has 12"); -EINVAL: it is not valid. */
static int host_rails_check(void *want, struct err *e)
{
	const struct host_rails_want *w = want;
	struct ipnet all;
	int r;

	if (!w->cidr || ipnet_parse(span_of(w->cidr), &all) < 0 || ipnet_has_host_bits(&all))
		return err_kind(e, ERR_CONF, -EINVAL,
				"cidr is '%s', expected a network, for instance 172.16.0.0/16",
				w->cidr ? w->cidr : "");
	r = check_names("interfaces", w->interfaces, HOST_RAILS_MAX, e);
	if (r >= 0)
		r = check_names("nodes", w->nodes, HOST_NODES_MAX, e);
	return r < 0 ? r : check_size(w, &all, e);
}

/* Computes the network of rail `rail` and node `node`, both counted from 0. The plan has been
 * checked. */
static int host_rails_net(const struct host_rails_want *w, size_t rail, size_t node,
			  struct host_rail_net *ret, struct err *e)
{
	unsigned int rail_len, node_len, bits;
	struct ipaddr last;
	struct ipnet all;
	u128 at;

	if (ipnet_parse(span_of(w->cidr), &all) < 0)
		return err_kind(e, ERR_CONF, -EINVAL, "cidr '%s' is not a network", w->cidr);
	prefixes(w, &all, &rail_len, &node_len);
	bits = ip_bits(&all.ip);
	at = ((u128)(rail + (size_t)w->first_rail) << (bits - rail_len)) +
	     ((u128)node << (bits - node_len));
	ret->net = (struct ipnet){.len = (uint8_t)node_len};
	if (!ip_add(&all.ip, at, &ret->net.ip))
		return err_kind(e, ERR_CONF, -ENOSPC,
				"the plan is too small: cidr has no "
				"network for one of the rails and nodes");
	last = ipnet_last(&ret->net);
	ip_add(&ret->net.ip, 1, &ret->gateway);
	ip_add(&ret->net.ip, 2, &ret->node);
	ip_add(&ret->net.ip, 3, &ret->first);
	/* Omits the last IPv4 address, which is the broadcast address. */
	ret->last = ip_from_num(last.family, ip_num(&last) - (last.family == 4));
	if (ip_cmp(&ret->first, &ret->last) > 0)
		ret->last = ret->first = (struct ipaddr){0};
	return 0;
}

/* Writes the SpiderIPPools of every rail and node as YAML documents. */
static int host_rails_pools(const struct host_rails_want *w, struct buf *b, struct err *e)
{
	size_t n_rails = count(w->interfaces), n_nodes = count(w->nodes);
	struct span rest = span_of(w->nodes), one;
	char net[IP_TEXT_MAX], gw[IP_TEXT_MAX], first[IP_TEXT_MAX], last[IP_TEXT_MAX];

	for (size_t n = 0; n < n_nodes && span_cut(&rest, ',', &one); n++) {
		one = span_trim(one);
		for (size_t i = 0; i < n_rails; i++) {
			struct host_rail_net r;
			int code = host_rails_net(w, i, n, &r, e);

			if (code < 0)
				return code;
			if (!r.first.family)
				return err_kind(e, ERR_CONF, -ENOSPC,
						"a node's network of /%u has no address for "
						"pods: choose a shorter node-prefix",
						r.net.len);
			buf_printf(
				b,
				"---\napiVersion: spiderpool.spidernet.io/v2beta1\nkind: SpiderIPPool\n"
				"metadata: {name: rail%zu-%.*s}\n",
				i, (int)one.n, one.p);
			buf_printf(b, "spec: {subnet: \"%s\", ips: [\"%s-%s\"], gateway: \"%s\"}\n",
				   ipnet_str(&r.net, net), ip_str(&r.first, first),
				   ip_str(&r.last, last), ip_str(&r.gateway, gw));
		}
	}
	return 0;
}

static int print(const void *want, struct buf *b, struct err *e)
{
	const struct host_rails_want *w = want;
	int r = w->pools ? host_rails_pools(w, b, e) : 0;

	return r < 0 ? r : w->pools;
}

/* --- this node's rails as sections of kind addr --- */

struct rail {
	struct host_addr_want want;
	char *name, ip[IP_TEXT_MAX], gw[IP_TEXT_MAX];
};

struct found {
	struct rail *rails;
	struct host_want **v;
	size_t n;
	void *addr; /* struct host_addr_found */
};

static int expand(const struct host_rails_want *w, int node, struct found *f, struct err *e)
{
	f->n = count(w->interfaces);
	f->rails = xcalloc(f->n, sizeof(*f->rails));
	f->v = xcalloc(f->n, sizeof(*f->v));
	for (size_t i = 0; i < f->n; i++) {
		struct rail *one = &f->rails[i];
		struct host_rail_net net;
		struct ipnet ip;
		int r = host_rails_net(w, i, (size_t)node, &net, e);

		if (r < 0)
			return r;
		ip = (struct ipnet){net.node, net.net.len};
		host_addr_init(&one->want);
		one->name = name_at(w->interfaces, i);
		one->want.head.name = one->name;
		one->want.head.origin = w->head.origin;
		ipnet_str(&ip, one->ip);
		ip_str(&net.gateway, one->gw);
		if (ip.ip.family == 6) {
			one->want.ipv6_ip = one->ip;
			one->want.ipv6_gateway = one->gw;
		} else {
			one->want.ipv4_ip = one->ip;
			one->want.ipv4_gateway = one->gw;
		}
		one->want.policy_route = true;
		one->want.mtu = w->mtu;
		f->v[i] = &one->want.head;
		r = host_addr_check(&one->want, e);
		if (r < 0)
			return r;
	}
	return 0;
}

static int node_index(const struct host *h, const struct host_rails_want *w, int *ret,
		      struct err *e)
{
	auto_free char *name = w->node ? xstrdup(w->node) : host_attr_read(h, "/etc/hostname");

	*ret = name ? index_of(w->nodes, name) : -1;
	if (*ret >= 0)
		return 0;
	return err_kind(
		e, ERR_CONF, -ENOENT,
		"node '%s' is not one of the plan's nodes: set 'node' to the name of this node in 'nodes'",
		name ? name : "");
}

static struct host_wants wants_of(const struct found *f)
{
	return (struct host_wants){.kind = &host_addr, .v = f->v, .n = f->n};
}

static int observe(struct host *h, const struct host_wants *w, void **found, struct err *e)
{
	struct found *f = xcalloc(1, sizeof(*f));
	struct host_wants rails;
	int r, node = 0;

	*found = f;
	if (!w->n)
		return 0;
	r = node_index(h, (const struct host_rails_want *)w->v[0], &node, e);
	if (r >= 0)
		r = expand((const struct host_rails_want *)w->v[0], node, f, e);
	rails = wants_of(f);
	return r < 0 ? r : host_addr_observe(h, &rails, &f->addr, e);
}

static void forget(void *found)
{
	struct found *f = found;

	if (!f)
		return;
	if (f->addr)
		host_addr_forget(f->addr);
	for (size_t i = 0; f->rails && i < f->n; i++)
		free(f->rails[i].name);
	free(f->rails);
	free(f->v);
	free(f);
}

/* The steps are of kind addr, whose act() carries them out. */
static int decide(const struct host_wants *w, const void *found, struct host_plan *p, struct err *e)
{
	const struct found *f = found;
	struct host_wants rails = wants_of(f);

	return w->n ? host_addr_decide(&rails, f->addr, p, e) : 0;
}

static bool covers(const struct host_wants *w, const char *kind, const char *subject)
{
	for (size_t i = 0; strcmp(kind, "addr") == 0 && i < w->n; i++) {
		const struct host_rails_want *one = (const struct host_rails_want *)w->v[i];
		struct span rest = span_of(one->interfaces), name;

		while (span_cut(&rest, ',', &name))
			if (span_eq(span_trim(name), subject))
				return true;
	}
	return strcmp(kind, "rails") == 0;
}

const struct host_kind host_rails = {
	.name = "rails",
	.section = "rails",
	.help = "addresses and policy routing of all rails of this node, from the cluster's plan",
	.keys = keys,
	.plan = offsetof(struct host_rails_want, plan),
	.size = sizeof(struct host_rails_want),
	.check = host_rails_check,
	.observe = observe,
	.forget = forget,
	.decide = decide,
	.print = print,
	.covers = covers,
};
