/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "ipam/hostlocal.h"

#define bad(e, ...) err_kind(e, ERR_CONF, -EINVAL, __VA_ARGS__)

static bool contains(const struct hostlocal_range *r, const struct ipaddr *a)
{
	return ipnet_contains(&r->subnet, a) && ip_cmp(a, &r->first) >= 0 &&
	       ip_cmp(a, &r->last) <= 0;
}

static int check_subnet(const struct ipnet *n, struct err *e)
{
	char text[IP_TEXT_MAX];
	struct ipaddr first;

	if (n->ip.family == 0)
		return bad(e, "IP <nil> not v4 nor v6");
	/* Two bits at least: a network, an address, a broadcast. */
	if (n->len > ip_bits(&n->ip) - 2)
		return bad(e, "Network %s too small to allocate from", ipnet_str(n, text));
	if (!ipnet_has_host_bits(n))
		return 0;
	first = ipnet_first(n);
	return bad(e,
		   "Network has host bits set. For a subnet mask of length %d the network address "
		   "is %s",
		   n->len, ip_str(&first, text));
}

static struct ipaddr offset(struct ipaddr a, int by)
{
	return ip_from_num(a.family, ip_num(&a) + (u128)by);
}

static int outside(const char *what, const struct ipaddr *a, const struct ipnet *n, struct err *e)
{
	char ip[IP_TEXT_MAX], net[IP_TEXT_MAX];

	return bad(e, "%s %s not in network %s", what, ip_str(a, ip), ipnet_str(n, net));
}

static int range_check(struct hostlocal_range *r, struct err *e)
{
	int n = check_subnet(&r->subnet, e);

	if (n < 0)
		return n;
	if (r->gateway.family == 0)
		r->gateway = offset(r->subnet.ip, 1);
	/* Of a range turned round the original blames the side that it looks at first. */
	if (r->first.family && (!ipnet_contains(&r->subnet, &r->first) ||
				(r->last.family && ip_cmp(&r->first, &r->last) > 0)))
		return outside("RangeStart", &r->first, &r->subnet, e);
	if (r->first.family == 0)
		r->first = offset(r->subnet.ip, 1);
	if (r->last.family &&
	    (!ipnet_contains(&r->subnet, &r->last) || ip_cmp(&r->last, &r->first) < 0))
		return outside("RangeEnd", &r->last, &r->subnet, e);
	if (r->last.family == 0)
		r->last = offset(ipnet_last(&r->subnet), r->subnet.ip.family == 4 ? -1 : 0);
	return 0;
}

static bool ranges_meet(const struct hostlocal_range *a, const struct hostlocal_range *b)
{
	return a->first.family == b->first.family &&
	       (contains(a, &b->first) || contains(a, &b->last) || contains(b, &a->first) ||
		contains(b, &a->last));
}

bool hostlocal_sets_meet(const struct hostlocal_set *a, const struct hostlocal_set *b)
{
	for (size_t i = 0; i < a->n; i++)
		for (size_t j = 0; j < b->n; j++)
			if (ranges_meet(&a->v[i], &b->v[j]))
				return true;
	return false;
}

static void range_str(const struct hostlocal_range *r, struct buf *b)
{
	char first[IP_TEXT_MAX], last[IP_TEXT_MAX];

	buf_printf(b, "%s-%s", ip_str(&r->first, first), ip_str(&r->last, last));
}

void hostlocal_set_str(const struct hostlocal_set *s, struct buf *b)
{
	for (size_t i = 0; i < s->n; i++) {
		if (i)
			buf_char(b, ',');
		range_str(&s->v[i], b);
	}
}

static int check_apart(const struct hostlocal_range *a, const struct hostlocal_range *b,
		       struct err *e)
{
	auto_buf struct buf x, y;

	buf_init(&x, ERR_TEXT_MAX);
	buf_init(&y, ERR_TEXT_MAX);
	if (!ranges_meet(a, b))
		return 0;
	range_str(a, &x);
	range_str(b, &y);
	return bad(e, "subnets %s and %s overlap", x.p, y.p);
}

int hostlocal_set_check(struct hostlocal_set *s, struct err *e)
{
	int n = 0;

	if (s->n == 0)
		return bad(e, "empty range set");
	for (size_t i = 0; i < s->n && n == 0; i++) {
		n = range_check(&s->v[i], e);
		if (n == 0 && s->v[i].first.family != s->v[0].first.family)
			return bad(e, "mixed address families");
	}
	for (size_t i = 0; i < s->n && n == 0; i++)
		for (size_t j = i + 1; j < s->n && n == 0; j++)
			n = check_apart(&s->v[i], &s->v[j], e);
	return n;
}

const struct hostlocal_range *hostlocal_set_find(const struct hostlocal_set *s,
						 const struct ipaddr *a)
{
	for (size_t i = 0; i < s->n; i++)
		if (contains(&s->v[i], a))
			return &s->v[i];
	return NULL;
}
