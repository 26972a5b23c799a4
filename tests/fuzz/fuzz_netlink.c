/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers of the kernel, live or from a snapshot. This file replaces kern/netlink/replay.c: any
 * request is answered by the next datagrams of the input, each of which follows its length (two
 * bytes, little endian); length 0 ends the answers to one request. The first byte selects the
 * request, or an event, which is then the rest of the input.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kern/net/uapi_link.h"

#include "base/alloc.h"
#include "kern/net/addr.h"
#include "kern/net/link.h"
#include "kern/net/internal.h"
#include "kern/netlink/internal.h"
#include "kern/probe/packet.h"
#include "kern/rdma/rdma.h"
#include "kern/net/route.h"
#include "netlink.h"

struct nl_replay {
	struct feed feed;
	bool asked;
};

static struct feed input;

int nl_replay_load(struct nl_wire *w, const char *file, struct err *e)
{
	(void)file;
	(void)e;
	w->replay = xcalloc(1, sizeof(*w->replay));
	w->replay->feed = input;
	w->proto = NL_ROUTE;
	return 0;
}

int nl_replay_check(struct nl_wire *w, const void *p, size_t n, struct err *e)
{
	const struct nlmsghdr *h = p;

	(void)e;
	must(n >= sizeof(*h) && h->nlmsg_len >= sizeof(*h) && h->nlmsg_len <= n);
	must(h->nlmsg_flags & NLM_F_REQUEST);
	w->replay->asked = true;
	return 0;
}

int nl_replay_next(struct nl_wire *w, size_t *n)
{
	struct feed *f = &w->replay->feed;
	size_t low = feed_byte(f), len = low | (size_t)feed_byte(f) << 8;

	if (len == 0)
		return -EAGAIN;
	len = len < f->n ? len : f->n;
	/* A buffer of exactly this size: the sanitizer finds reads beyond its end. */
	free(w->buf);
	w->buf = xmalloc(len);
	w->cap = len;
	memcpy(w->buf, f->p, len);
	f->p += len;
	f->n -= len;
	nl_renumber(w->buf, len, w->base);
	*n = len;
	return 0;
}

void nl_replay_free(struct nl_replay *r)
{
	free(r);
}

int nl_replay_finished(struct nl_wire *w, struct err *e)
{
	(void)w;
	(void)e;
	return 0;
}

struct span netlink_bytes(void)
{
	return (struct span){(const char *)input.p, input.n};
}

static int query_links(struct nl_wire *w, struct err *e)
{
	auto_free struct link *v = NULL;
	size_t n = 0;
	int r = link_list(w, &v, &n, e);

	for (size_t i = 0; i < n; i++) {
		must(i == 0 || v[i - 1].index <= v[i].index);
		must(ended(v[i].name, sizeof(v[i].name)) && ended(v[i].kind, sizeof(v[i].kind)));
		must(ended(v[i].alias, sizeof(v[i].alias)) && v[i].mac.len <= MAC_MAX);
		must(link_find_index(v, n, v[i].index) && link_find(v, n, v[i].name));
	}
	return r;
}

static int query_link(struct nl_wire *w, struct err *e)
{
	struct link l;
	int r = link_get(w, "net1", &l, e);

	if (r == 0)
		must(ended(l.name, sizeof(l.name)) && l.mac.len <= MAC_MAX);
	return r;
}

static bool net_ok(const struct ipnet *n)
{
	return n->ip.family == 0 || n->len <= ip_bits(&n->ip);
}

static bool ip_ok(const struct ipaddr *a)
{
	return a->family == 0 || a->family == 4 || a->family == 6;
}

static int query_addrs(struct nl_wire *w, struct err *e)
{
	auto_free struct addr *v = NULL;
	size_t n = 0;
	int r = addr_list(w, 0, 0, &v, &n, e);

	for (size_t i = 0; i < n; i++)
		must(ip_ok(&v[i].net.ip) && net_ok(&v[i].net));
	return r;
}

static int query_neighs(struct nl_wire *w, struct err *e)
{
	auto_free struct neigh *v = NULL;
	size_t n = 0;
	int r = neigh_list(w, 4, 0, &v, &n, e);

	for (size_t i = 0; i < n; i++)
		must(v[i].ip.family == 4 && v[i].mac.len <= MAC_MAX);
	return r;
}

static int query_routes(struct nl_wire *w, struct err *e)
{
	struct route *v = NULL;
	size_t n = 0;
	int r = route_list(w, 0, 0, &v, &n, e);

	for (size_t i = 0; i < n; i++) {
		must(net_ok(&v[i].dst) && ip_ok(&v[i].gw) && ip_ok(&v[i].src));
		must(v[i].family == 4 || v[i].family == 6);
		for (size_t k = 0; k < v[i].n_hops; k++)
			must(ip_ok(&v[i].hops[k].gw));
	}
	route_list_free(v, n);
	return r;
}

static int query_route(struct nl_wire *w, struct err *e)
{
	const struct ipaddr to = {.family = 4, .b = {192, 0, 2, 1}};
	struct route rt = {0};
	int r = route_lookup(w, &to, &rt, e);

	must(r != 0 || (!rt.hops && ip_ok(&rt.src) && net_ok(&rt.dst)));
	return r;
}

static int query_rules(struct nl_wire *w, struct err *e)
{
	auto_free struct rule *v = NULL;
	size_t n = 0;
	int r = rule_list(w, 0, &v, &n, e);

	for (size_t i = 0; i < n; i++) {
		must(net_ok(&v[i].src) && net_ok(&v[i].dst) && ended(v[i].iif, sizeof(v[i].iif)));
		must(rule_eq(&v[i], &v[i]));
	}
	return r;
}

static int query_rdma(struct nl_wire *w, struct err *e)
{
	auto_free struct rdma_dev *v = NULL;
	size_t n = 0;
	int r;

	w->proto = NL_RDMA;
	r = rdma_nl_list(w, &v, &n, e);
	for (size_t i = 0; i < n; i++) {
		must(ended(v[i].name, sizeof(v[i].name)) && ended(v[i].fw, sizeof(v[i].fw)));
		must(ended(v[i].driver, sizeof(v[i].driver)));
		must(ended(v[i].uverbs, sizeof(v[i].uverbs)));
		for (size_t k = 0; k < RDMA_PORTS_MAX; k++) {
			must(ended(v[i].ports[k].netdev, sizeof(v[i].ports[k].netdev)));
			must(*rdma_port_state_name(v[i].ports[k].state));
		}
	}
	return r;
}

static int query_rdma_mode(struct nl_wire *w, struct err *e)
{
	enum rdma_netns_mode mode = RDMA_NETNS_SHARED;
	int r;

	w->proto = NL_RDMA;
	r = rdma_nl_netns_mode(w, &mode, e);
	must(mode == RDMA_NETNS_SHARED || mode == RDMA_NETNS_EXCLUSIVE);
	return r;
}

static int query_nft(struct nl_wire *w, struct err *e)
{
	int r;

	w->proto = NL_NETFILTER;
	r = nft_reply_marks_check(w, "veth0", 1, e);
	must(r <= 1);
	return r;
}

static int query_packet_links(struct nl_wire *w, struct err *e)
{
	auto_free struct packet_link *v = NULL;
	size_t n = 0;
	int r = packet_links(w, &v, &n, e);

	for (size_t i = 0; i < n; i++)
		must(v[i].mac.len <= MAC_MAX && v[i].broadcast.len <= MAC_MAX);
	return r;
}

/* A batch of changes: every message has an outcome, and the first error is the error of the
 * batch. */
static int change(struct nl_wire *w, bool netfilter, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	const struct ipnet net = {{4, {10, 0, 0, 2}}, 24};
	int r, first = 0;

	w->proto = netfilter ? NL_NETFILTER : NL_ROUTE;
	addr_add(b, 3, "net1", &net, ADDR_NODAD);
	link_set(b, 3, "net1", &(struct link_change){.set = LINK_SET_UP});
	route_add(b, &(struct route){.dst = {{4, {0}}, 0}, .index = 3, .family = 4}, ROUTE_EXCL_OK);
	link_del(b, 7, "net2");
	r = nl_batch_commit(w, b, e);
	for (size_t i = 0; i < nl_batch_len(b); i++) {
		must(nl_batch_result(b, i) <= 0);
		if (!first)
			first = nl_batch_result(b, i);
	}
	must(r == first);
	return r;
}

static int query_change(struct nl_wire *w, struct err *e)
{
	return change(w, false, e);
}

static int query_transaction(struct nl_wire *w, struct err *e)
{
	return change(w, true, e);
}

/* New queries are appended: the corpus refers to them by number. */
static netlink_query *const queries[] = {
	query_links,	    query_link,		query_addrs,
	query_neighs,	    query_routes,	query_route,
	query_rules,	    query_rdma,		query_rdma_mode,
	query_nft,	    query_packet_links, query_change,
	query_transaction,  netlink_vfs,	netlink_vf,
	netlink_devlink,    netlink_rdma_used,	netlink_rdma_counters,
	netlink_altnames,   netlink_rdma_event, netlink_uevent,
	netlink_rdma_stats,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err e = ERR_INIT;
	auto_nl struct nl_wire *w = NULL;
	size_t which;

	input = (struct feed){data, size};
	which = feed_byte(&input) % ARRAY_LEN(queries);
	must(nl_open_replay(&w, "", &e) == 0);
	fuzz_refused(queries[which](w, &e), &e);
	return 0;
}
