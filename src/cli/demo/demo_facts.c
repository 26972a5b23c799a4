/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cni/plugins/coordinator/coordinator.h"
#include "ipam/ipam.h"
#include "kern/net/nft.h"
#include "cli/demo/demo.h"

enum { REPLY_MARK = 1, WORDS_MAX = 4096, TABLE_DEFAULT = 253 };

static int read_routes_side(struct nl_wire *w, struct demo_facts *f, struct err *e)
{
	int r = link_list(w, &f->links, &f->n_links, e);

	if (r == 0)
		r = addr_list(w, 0, 0, &f->addrs, &f->n_addrs, e);
	if (r == 0)
		r = route_list(w, 0, 0, &f->routes, &f->n_routes, e);
	if (r == 0)
		r = rule_list(w, 0, &f->rules, &f->n_rules, e);
	if (r == 0)
		r = neigh_list(w, 0, 0, &f->neighs, &f->n_neighs, e);
	return r;
}

int demo_facts_read(int netns_fd, struct demo_facts *ret, struct err *e)
{
	auto_nl struct nl_wire *w = NULL, *nf = NULL;
	int r = nl_open(&w, NL_ROUTE, netns_fd, e);

	if (r == 0)
		r = read_routes_side(w, ret, e);
	if (r == 0)
		r = nl_open(&nf, NL_NETFILTER, netns_fd, e);
	if (r == 0)
		r = nft_reply_marks_check(nf, "veth0", REPLY_MARK, e);
	ret->marks = r == 1;
	return r < 0 ? r : 0;
}

void demo_facts_done(struct demo_facts *f)
{
	free(f->links);
	free(f->addrs);
	route_list_free(f->routes, f->n_routes);
	free(f->rules);
	free(f->neighs);
	memset(f, 0, sizeof(*f));
}

const char *demo_link_name(const struct demo_facts *f, int index)
{
	const struct link *l = link_find_index(f->links, f->n_links, index);

	return l ? l->name : "?";
}

bool demo_link_ip(const struct demo_facts *f, const char *name, struct ipnet *ret)
{
	const struct link *l = link_find(f->links, f->n_links, name);

	for (size_t i = 0; l && i < f->n_addrs; i++)
		if (f->addrs[i].index == l->index && f->addrs[i].net.ip.family == 4) {
			*ret = f->addrs[i].net;
			return true;
		}
	return false;
}

static void net_words(struct buf *b, const char *word, const struct ipnet *n)
{
	char text[IP_TEXT_MAX];

	if (!n->ip.family || ipnet_is_default(n))
		return;
	if (n->len == ip_bits(&n->ip))
		buf_printf(b, "%s %s ", word, ip_str(&n->ip, text));
	else
		buf_printf(b, "%s %s ", word, ipnet_str(n, text));
}

const char *demo_table_name(uint32_t table, char buf[static 16])
{
	if (table == TABLE_MAIN)
		return "main";
	if (table == TABLE_LOCAL)
		return "local";
	if (table == TABLE_DEFAULT)
		return "default";
	snprintf(buf, 16, "%u", table);
	return buf;
}

char *demo_rule_words(const struct rule *r)
{
	char name[16];
	struct buf b;

	buf_init(&b, WORDS_MAX);
	net_words(&b, "from", &r->src);
	if (!b.len)
		buf_str(&b, "from all ");
	net_words(&b, "to", &r->dst);
	if (r->mark)
		buf_printf(&b, "fwmark 0x%x ", r->mark);
	if (r->iif[0])
		buf_printf(&b, "iif %s ", r->iif);
	buf_printf(&b, "lookup %s", demo_table_name(r->table, name));
	return buf_take(&b);
}

static void hop_words(const struct demo_facts *f, struct buf *b, const struct ipaddr *gw, int index)
{
	char ip[IP_TEXT_MAX];

	if (gw->family)
		buf_printf(b, " via %s", ip_str(gw, ip));
	if (index)
		buf_printf(b, " dev %s", demo_link_name(f, index));
}

char *demo_route_words(const struct demo_facts *f, const struct route *r)
{
	char text[IP_TEXT_MAX];
	struct buf b;

	buf_init(&b, WORDS_MAX);
	if (ipnet_is_default(&r->dst))
		buf_str(&b, "default");
	else if (r->dst.len == ip_bits(&r->dst.ip))
		buf_str(&b, ip_str(&r->dst.ip, text));
	else
		buf_str(&b, ipnet_str(&r->dst, text));
	hop_words(f, &b, &r->gw, r->index);
	for (size_t i = 0; i < r->n_hops; i++)
		hop_words(f, &b, &r->hops[i].gw, r->hops[i].index);
	if (r->src.family)
		buf_printf(&b, " src %s", ip_str(&r->src, text));
	return buf_take(&b);
}

/* --- as lines, before and after --- */

struct lines {
	char **v;
	size_t n;
};

static void add_line(struct lines *l, const char *what, char *words)
{
	VEC_PUSH(l->v, l->n) = xasprintf("%s %s", what, words);
	free(words);
}

static void address_lines(struct lines *l, const struct demo_facts *f)
{
	char a[IP_TEXT_MAX], m[MAC_TEXT_MAX];

	for (size_t i = 0; i < f->n_addrs; i++)
		if (!ip_is_link_local(&f->addrs[i].net.ip))
			add_line(l, "address",
				 xasprintf("%s on %s", ipnet_str(&f->addrs[i].net, a),
					   demo_link_name(f, f->addrs[i].index)));
	for (size_t i = 0; i < f->n_neighs; i++)
		if (neigh_is_permanent(&f->neighs[i]))
			add_line(l, "neighbour",
				 xasprintf("%s %s dev %s", ip_str(&f->neighs[i].ip, a),
					   mac_str(&f->neighs[i].mac, m),
					   demo_link_name(f, f->neighs[i].index)));
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Everything but what comes and goes by itself: learnt neighbours, link-local addresses and
 * the kernel's own routes for addresses (they follow the addresses). */
static struct lines lines_of(const struct demo_facts *f)
{
	struct lines l = {0};

	for (size_t i = 0; i < f->n_links; i++)
		add_line(&l, "link",
			 xasprintf("%s %s mtu %u%s", f->links[i].name, f->links[i].kind,
				   f->links[i].mtu, link_is_up(&f->links[i]) ? " up" : ""));
	for (size_t i = 0; i < f->n_rules; i++) {
		char *words = demo_rule_words(&f->rules[i]);

		add_line(&l, "rule",
			 xasprintf("%u (IPv%d) %s", f->rules[i].priority, f->rules[i].family,
				   words));
		free(words);
	}
	for (size_t i = 0; i < f->n_routes; i++)
		if (f->routes[i].table != TABLE_LOCAL && !ip_is_link_local(&f->routes[i].dst.ip)) {
			char *words = demo_route_words(f, &f->routes[i]);

			add_line(&l, "route", xasprintf("table %u: %s", f->routes[i].table, words));
			free(words);
		}
	address_lines(&l, f);
	if (f->marks)
		add_line(&l, "nf_tables", xstrdup("table 'inet unirail'"));
	qsort(l.v, l.n, sizeof(*l.v), by_text);
	return l;
}

static int read_lines(int netns_fd, struct lines *ret, struct err *e)
{
	struct demo_facts f = {0};
	int r = demo_facts_read(netns_fd, &f, e);

	if (r == 0)
		*ret = lines_of(&f);
	demo_facts_done(&f);
	return r;
}

int demo_facts_remember(struct demo *d, struct err *e)
{
	for (enum demo_ns i = NS_NODE; i < NS_COUNT; i++) {
		struct lines l = {0};
		int r = read_lines(d->ns[i], &l, e);

		if (r < 0)
			return err_wrap(e, r, "look at %s", demo_ns_name(i));
		d->before[i] = l.v;
		d->n_before[i] = l.n;
	}
	return 0;
}

/* What is only in one of two sorted lists is a problem each. */
static size_t differences(struct demo *d, enum demo_ns ns, const struct lines *after)
{
	char **was = d->before[ns];
	size_t i = 0, k = 0, n = 0;

	while (i < d->n_before[ns] || k < after->n) {
		int c = i == d->n_before[ns] ? 1 : k == after->n ? -1 : strcmp(was[i], after->v[k]);

		if (c < 0)
			demo_problem(d, "%s: gone after DEL: %s", demo_ns_name(ns), was[i]);
		else if (c > 0)
			demo_problem(d, "%s: left after DEL: %s", demo_ns_name(ns), after->v[k]);
		n += c != 0;
		i += c <= 0;
		k += c >= 0;
	}
	return n;
}

static int addresses_held(struct demo *d, struct err *e)
{
	auto_ipam struct ipam *store = NULL;
	struct ipam_record *v = NULL;
	char pools[96], state[96], hostlocal[96], ip[IP_TEXT_MAX];
	struct ipam_paths p = {.pool_dir = pools, .state_dir = state, .hostlocal_dir = hostlocal};
	int held = 0, r;
	size_t n;

	snprintf(pools, sizeof(pools), "%s/pools", d->dir);
	snprintf(state, sizeof(state), "%s/state", d->dir);
	snprintf(hostlocal, sizeof(hostlocal), "%s/host-local", d->dir);
	r = ipam_open(&store, &d->root, &p, e);
	if (r == 0)
		r = ipam_records(store, &v, &n, e);
	for (size_t i = 0; r == 0 && i < n; i++) {
		if (strcmp(v[i].state, "used") != 0)
			continue;
		demo_problem(d, "address store: left after DEL: %s of pool '%s'",
			     ip_str(&v[i].ip, ip), v[i].pool);
		held++;
	}
	free(v);
	return r < 0 ? r : held;
}

int demo_facts_compare(struct demo *d, struct err *e)
{
	int r = 0;

	for (enum demo_ns i = NS_NODE; i < NS_COUNT; i++) {
		struct lines l = {0};

		r = read_lines(d->ns[i], &l, e);
		if (r < 0)
			return err_wrap(e, r, "look at %s", demo_ns_name(i));
		d->n_left += differences(d, i, &l);
		str_list_free(l.v, l.n);
	}
	r = addresses_held(d, e);
	d->n_left += r > 0 ? (size_t)r : 0;
	return r < 0 ? r : 0;
}
