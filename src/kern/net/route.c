/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/net/route.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <linux/rtnetlink.h>

#include "base/alloc.h"
#include "kern/netlink/attr.h"

struct routes {
	int family;
	uint32_t table; /* table to list; 0: all */
	struct route *list;
	size_t n;
};

/* Reads the gateway, whose family can differ from that of the route (RFC 5549, RTA_VIA). */
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
	/* a route without RTA_DST is the default route */
	if (!get_ip(tb[RTA_DST], r->family, &r->dst.ip))
		r->dst.ip.family = r->family;
	r->dst.len = head->rtm_dst_len;
	get_ip(tb[RTA_PREFSRC], r->family, &r->src);
	parse_gateway(tb, r->family, &r->gw);
	return r->dst.len <= ip_bits(&r->dst.ip);
}

/* Returns 1 if the message is a route, whose hops the caller frees; 0 if its family is neither IPv4
 * nor IPv6, or its prefix length is invalid; -EBADMSG if the message is truncated. */
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
	/* skips cache entries (path MTU, redirects); a kernel before 4.20 does not filter by
	 * table */
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
	/* kernels with strict checks report ENOENT for a table that has never had a route */
	if (r == -ENOENT) {
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

/* Stores the first route of the response to a lookup. The kernel flags such a route of IPv4 as a
 * cloned entry, which collect() would skip. */
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
	/* Without RTM_F_LOOKUP_TABLE a response for IPv4 always names the table "main". A response
	 * for IPv6 names the real table without this flag, which kernels with strict checks refuse
	 * for IPv6. */
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
		ret->hops = NULL; /* the lookup has chosen one hop */
		ret->n_hops = 0;
	}
	route_list_free(all.list, all.n);
	return r < 0 ? err_wrap(e, r, "look up route to %s", ip_str(dst, text)) : 0;
}

/* HOP_ROOM: bytes of the message for each hop; HOPS_MAX: limit, because the length of an
 * attribute has 16 bits */
enum { HOP_ROOM = 48, HOPS_MAX = 1024 };

static void put_gateway(struct nl_msg *m, uint8_t family, const struct ipaddr *gw)
{
	struct {
		uint16_t af;
		uint8_t b[16];
	} via = {.af = af_of(gw->family)};

	if (!gw->family)
		return;
	if (gw->family == family) {
		put_ip(m, RTA_GATEWAY, gw);
		return;
	}
	memcpy(via.b, gw->b, sizeof(via.b));
	put(m, RTA_VIA, &via, sizeof(via.af) + ip_size(gw));
}

static void put_hop(struct nl_msg *m, const struct route *r, const struct route_hop *hop)
{
	size_t at = nlmsg_hdr(m)->nlmsg_len;
	struct rtnexthop nh = {.rtnh_ifindex = hop->index,
			       .rtnh_flags = r->onlink ? RTNH_F_ONLINK : 0,
			       .rtnh_hops = hop->weight ? (uint8_t)(hop->weight - 1) : 0};

	nlmsg_append(m, &nh, sizeof(nh), NLMSG_ALIGNTO);
	put_gateway(m, r->family, &hop->gw);
	nh.rtnh_len = (uint16_t)(nlmsg_hdr(m)->nlmsg_len - at);
	memcpy((char *)nlmsg_hdr(m) + at, &nh, sizeof(nh));
}

static void put_hops(struct nl_msg *m, const struct route *r)
{
	struct nlattr *list;

	if (!r->n_hops)
		return;
	list = nest(m, RTA_MULTIPATH);
	for (size_t i = 0; i < r->n_hops; i++)
		put_hop(m, r, &r->hops[i]);
	nest_end(m, list);
}

static void put_metrics(struct nl_msg *m, const struct route *r)
{
	struct nlattr *metrics;

	if (!r->mtu && !r->advmss)
		return;
	metrics = nest(m, RTA_METRICS);
	if (r->mtu)
		put_u32(m, RTAX_MTU, r->mtu);
	if (r->advmss)
		put_u32(m, RTAX_ADVMSS, r->advmss);
	nest_end(m, metrics);
}

static uint32_t table_of(const struct route *r)
{
	return r->table ? r->table : TABLE_MAIN;
}

static struct rtmsg head_of(const struct route *r, bool adding)
{
	uint32_t table = table_of(r);

	return (struct rtmsg){
		.rtm_family = af_of(r->family),
		.rtm_dst_len = r->dst.len,
		.rtm_table = table < 256 ? (uint8_t)table : RT_TABLE_UNSPEC,
		/* when deleting, protocol and type 0 match any route */
		.rtm_protocol = r->protocol || !adding ? r->protocol : RTPROT_BOOT,
		.rtm_type = r->type || !adding ? r->type : RTN_UNICAST,
		.rtm_scope = r->scope,
		.rtm_flags = r->onlink && !r->n_hops ? RTNH_F_ONLINK : 0,
	};
}

static struct nl_msg *message(int type, int flags, const struct route *r)
{
	struct rtmsg head = head_of(r, type == RTM_NEWROUTE);
	struct nl_msg *m =
		msg_new(type, flags, &head, sizeof(head), MSG_ROOM + r->n_hops * HOP_ROOM);

	if (r->dst.len)
		put_ip(m, RTA_DST, &r->dst.ip);
	if (table_of(r) > 255)
		put_u32(m, RTA_TABLE, table_of(r));
	put_gateway(m, r->family, &r->gw);
	if (r->src.family)
		put_ip(m, RTA_PREFSRC, &r->src);
	if (r->index && !r->n_hops)
		put_u32(m, RTA_OIF, (uint32_t)r->index);
	if (r->priority)
		put_u32(m, RTA_PRIORITY, r->priority);
	put_metrics(m, r);
	put_hops(m, r);
	return m;
}

static void put_dev(struct buf *b, const struct route *r, int index)
{
	if (r->dev)
		buf_printf(b, " dev %s", r->dev);
	else
		buf_printf(b, " dev %d", index);
}

/* Describes a route: "10.0.0.0/8 via 10.1.0.1 dev net1 table 100" */
static char *describe(const struct route *r)
{
	char text[IP_TEXT_MAX];
	struct buf b;

	buf_init(&b, 512);
	buf_str(&b, ipnet_is_default(&r->dst) ? "default" : ipnet_str(&r->dst, text));
	if (r->gw.family)
		buf_printf(&b, " via %s", ip_str(&r->gw, text));
	if (r->index && !r->n_hops)
		put_dev(&b, r, r->index);
	for (size_t i = 0; i < r->n_hops; i++) {
		buf_str(&b, " nexthop");
		if (r->hops[i].gw.family)
			buf_printf(&b, " via %s", ip_str(&r->hops[i].gw, text));
		put_dev(&b, r, r->hops[i].index);
	}
	buf_printf(&b, " table %u", table_of(r));
	return buf_take(&b);
}

static const char *bad_route(const struct route *r)
{
	if (r->n_hops > HOPS_MAX)
		return "more than 1024 next hops";
	if (!af_of(r->family) || r->dst.ip.family != r->family)
		return "destination and route must have the same family, IPv4 or IPv6";
	if (r->src.family && r->src.family != r->family)
		return "source and route are of different families";
	return NULL;
}

size_t route_add(struct nl_batch *b, const struct route *r, enum route_how how)
{
	static const struct {
		int nl;
		unsigned int ok;
	} flags[] = {
		[ROUTE_CREATE] = {NLM_F_CREATE, 0},
		[ROUTE_EXCL] = {NLM_F_CREATE | NLM_F_EXCL, 0},
		[ROUTE_EXCL_OK] = {NLM_F_CREATE | NLM_F_EXCL, NL_OK_EXIST},
		[ROUTE_REPLACE] = {NLM_F_CREATE | NLM_F_REPLACE, 0},
	};
	auto_free char *what = describe(r);
	const char *bad = bad_route(r);

	if (bad)
		return nl_batch_refuse(b, -EINVAL, bad, "failed to add route '%s'", what);
	return nl_batch_add(b, message(RTM_NEWROUTE, flags[how].nl, r), flags[how].ok,
			    "failed to add route '%s'", what);
}

size_t route_del(struct nl_batch *b, const struct route *r)
{
	auto_free char *what = describe(r);
	const char *bad = bad_route(r);

	if (bad)
		return nl_batch_refuse(b, -EINVAL, bad, "delete route '%s'", what);
	return nl_batch_add(b, message(RTM_DELROUTE, 0, r), NL_OK_ABSENT, "delete route '%s'",
			    what);
}

bool route_leads_to(const struct route *r, int index, const struct ipaddr *gw)
{
	bool any_gw = !gw->family;

	if (r->index == index && (any_gw || ip_eq(&r->gw, gw)))
		return true;
	for (size_t i = 0; i < r->n_hops; i++)
		if (r->hops[i].index == index && (any_gw || ip_eq(&r->hops[i].gw, gw)))
			return true;
	return false;
}
