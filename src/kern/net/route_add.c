/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/net/route.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <linux/rtnetlink.h>

#include "base/cleanup.h"
#include "kern/netlink/attr.h"

enum { HOP_ROOM = 48, HOPS_MAX = 1024 }; /* an attribute's length has 16 bits */

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
		/* Protocol and type 0 match any when deleting. */
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

/* "10.0.0.0/8 via 10.1.0.1 dev net1 table 100" */
static char *words(const struct route *r)
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
		return "destination and route are of different families";
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
	auto_free char *what = words(r);
	const char *bad = bad_route(r);

	if (bad)
		return nl_batch_refuse(b, -EINVAL, bad, "failed to add route '%s'", what);
	return nl_batch_add(b, message(RTM_NEWROUTE, flags[how].nl, r), flags[how].ok,
			    "failed to add route '%s'", what);
}

size_t route_del(struct nl_batch *b, const struct route *r)
{
	auto_free char *what = words(r);
	const char *bad = bad_route(r);

	if (bad)
		return nl_batch_refuse(b, -EINVAL, bad, "delete route '%s'", what);
	return nl_batch_add(b, message(RTM_DELROUTE, 0, r), NL_OK_ABSENT, "delete route '%s'",
			    what);
}
