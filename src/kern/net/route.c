/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/net/route.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <linux/rtnetlink.h>

#include "kern/netlink/attr.h"

struct routes {
	int family;
	uint32_t table; /* 0: all */
	struct route *list;
	size_t n;
};

/* A gateway of the route's family, or of the other one (RFC 5549) in RTA_VIA. */
static void parse_gateway(struct nlattr *const *tb, uint8_t family, struct ipaddr *ret)
{
	const struct nlattr *via = tb[RTA_VIA];
	uint16_t af;

	if (get_ip(tb[RTA_GATEWAY], family, ret) || !via || nla_len(via) < (int)sizeof(af))
		return;
	memcpy(&af, nla_data(via), sizeof(af));
	*ret = (struct ipaddr){.family = family_of(af)};
	if (!ret->family || nla_len(via) < (int)(sizeof(af) + ip_size(ret)))
		*ret = (struct ipaddr){0};
	else
		memcpy(ret->b, (const char *)nla_data(via) + sizeof(af), ip_size(ret));
}

static void parse_hop(const struct rtnexthop *nh, uint8_t family, struct route_hop *hop)
{
	struct nlattr *tb[RTA_MAX + 1];
	const char *attrs = (const char *)nh + sizeof(*nh);

	nla_parse(tb, RTA_MAX, (struct nlattr *)(uintptr_t)attrs, (int)(nh->rtnh_len - sizeof(*nh)),
		  NULL);
	hop->index = nh->rtnh_ifindex;
	hop->weight = (uint8_t)(nh->rtnh_hops + 1);
	parse_gateway(tb, family, &hop->gw);
}

static void parse_hops(const struct nlattr *a, struct route *r)
{
	const char *p = a ? nla_data(a) : NULL;
	size_t rest = a ? (size_t)nla_len(a) : 0;

	while (rest >= sizeof(struct rtnexthop)) {
		const struct rtnexthop *nh = (const void *)p;
		size_t step = NLA_ALIGN(nh->rtnh_len);

		if (nh->rtnh_len < sizeof(*nh) || nh->rtnh_len > rest)
			return;
		parse_hop(nh, r->family, &VEC_PUSH(r->hops, r->n_hops));
		if (step >= rest)
			return;
		p += step;
		rest -= step;
	}
}

static bool parse_nets(const struct rtmsg *head, struct nlattr *const *tb, struct route *r)
{
	r->family = family_of(head->rtm_family);
	if (!r->family)
		return false;
	/* No RTA_DST: the default route. */
	if (!get_ip(tb[RTA_DST], r->family, &r->dst.ip))
		r->dst.ip.family = r->family;
	r->dst.len = head->rtm_dst_len;
	get_ip(tb[RTA_PREFSRC], r->family, &r->src);
	parse_gateway(tb, r->family, &r->gw);
	return r->dst.len <= ip_bits(&r->dst.ip);
}

/* 1: a route (its hops are the caller's), 0: not one of ours. */
static int parse_route(const struct nlmsghdr *h, struct route *r)
{
	const struct rtmsg *head = nlmsg_data(h);
	struct nlattr *tb[RTA_MAX + 1], *metrics[RTAX_MAX + 1];
	int code = msg_attrs(h, sizeof(*head), tb, RTA_MAX);

	if (code < 0)
		return code;
	*r = (struct route){.protocol = head->rtm_protocol, .type = head->rtm_type};
	if (!parse_nets(head, tb, r))
		return 0;
	r->scope = head->rtm_scope;
	r->onlink = head->rtm_flags & RTNH_F_ONLINK;
	r->index = (int)get_u32(tb[RTA_OIF], 0);
	r->table = get_u32(tb[RTA_TABLE], head->rtm_table);
	r->priority = get_u32(tb[RTA_PRIORITY], 0);
	nested_attrs(tb[RTA_METRICS], metrics, RTAX_MAX);
	r->mtu = get_u32(metrics[RTAX_MTU], 0);
	r->advmss = get_u32(metrics[RTAX_ADVMSS], 0);
	parse_hops(tb[RTA_MULTIPATH], r);
	return 1;
}

static bool wanted(const struct routes *all, const struct route *r)
{
	return (!all->family || r->family == all->family) &&
	       (!all->table || r->table == all->table);
}

static int collect(void *msg, void *arg)
{
	const struct nlmsghdr *h = msg;
	struct routes *all = arg;
	struct route route;
	int r = h->nlmsg_type == RTM_NEWROUTE ? parse_route(h, &route) : 0;

	if (r <= 0)
		return r;
	/* Cache entries (path MTU, redirects) are no routes; a kernel before 4.20 does not filter. */
	if (((struct rtmsg *)nlmsg_data(h))->rtm_flags & RTM_F_CLONED || !wanted(all, &route)) {
		free(route.hops);
		return 0;
	}
	VEC_PUSH(all->list, all->n) = route;
	return 0;
}

static void forget(void *arg)
{
	struct routes *all = arg;

	for (size_t i = 0; i < all->n; i++)
		free(all->list[i].hops);
	all->n = 0;
}

void route_list_free(struct route *list, size_t n)
{
	struct routes all = {.list = list, .n = n};

	forget(&all);
	free(list);
}

int route_list(struct nl_wire *w, int family, uint32_t table, struct route **ret, size_t *n,
	       struct err *e)
{
	struct rtmsg head = {.rtm_family = af_of(family),
			     .rtm_table = table < 256 ? (uint8_t)table : RT_TABLE_UNSPEC};
	struct nl_msg *m = msg_new(RTM_GETROUTE, NLM_F_DUMP, &head, sizeof(head), MSG_ROOM);
	struct routes all = {.family = family, .table = table};
	int r;

	if (table > 255)
		put_u32(m, RTA_TABLE, table);
	r = nl_request(w, m, collect, forget, &all, e);
	if (r == -ENOENT) { /* strict kernels say so of a table that has never had a route */
		err_clear(e);
		r = 0;
	}
	if (r < 0) {
		route_list_free(all.list, all.n);
		return err_wrap(e, r, "list routes");
	}
	*ret = all.list;
	*n = all.n;
	return 0;
}

/* The answer to a look-up: a cloned entry, by nature. */
static int keep_first(void *msg, void *arg)
{
	struct routes *all = arg;
	const struct nlmsghdr *h = msg;
	struct route route;
	int r = h->nlmsg_type == RTM_NEWROUTE && !all->n ? parse_route(h, &route) : 0;

	if (r > 0)
		VEC_PUSH(all->list, all->n) = route;
	return r < 0 ? r : 0;
}

int route_lookup(struct nl_wire *w, const struct ipaddr *dst, struct route *ret, struct err *e)
{
	/* Without the flag an IPv4 answer says "main"; a strict kernel refuses it for IPv6, whose
	 * answers always have the table. */
	struct rtmsg head = {.rtm_family = af_of(dst->family),
			     .rtm_dst_len = (uint8_t)ip_bits(dst),
			     .rtm_flags = dst->family == 4 ? RTM_F_LOOKUP_TABLE : 0};
	struct nl_msg *m = msg_new(RTM_GETROUTE, 0, &head, sizeof(head), MSG_ROOM);
	struct routes all = {0};
	char text[IP_TEXT_MAX];
	int r;

	put_ip(m, RTA_DST, dst);
	r = nl_request(w, m, keep_first, forget, &all, e);
	if (r == 0 && !all.n)
		r = -ENETUNREACH;
	if (r == 0) {
		*ret = all.list[0];
		ret->hops = NULL; /* one hop was chosen */
		ret->n_hops = 0;
	}
	route_list_free(all.list, all.n);
	return r < 0 ? err_wrap(e, r, "look up route to %s", ip_str(dst, text)) : 0;
}
