/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "ipam/hostlocal/hostlocal.h"

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

/* --- which ranges overlap: a sweep in the order of their first addresses --- */

struct piece {
	const struct hostlocal_range *r;
	size_t group; /* of one group no two overlap */
};

static int by_first(const void *a, const void *b)
{
	return ip_cmp(&((const struct piece *)a)->r->first, &((const struct piece *)b)->r->first);
}

/* The lowest group that overlaps another; SIZE_MAX: none. */
static size_t first_overlapping(const struct piece *v, size_t n)
{
	const struct ipaddr *last = NULL; /* of all before */
	size_t group = SIZE_MAX;

	for (size_t i = 0; i < n; i++) {
		bool before = last && ip_cmp(&v[i].r->first, last) <= 0;
		bool after = i + 1 < n && ip_cmp(&v[i + 1].r->first, &v[i].r->last) <= 0;

		if ((before || after) && v[i].group < group)
			group = v[i].group;
		if (!last || ip_cmp(&v[i].r->last, last) > 0)
			last = &v[i].r->last;
	}
	return group;
}

/* Whether one of those, which are sorted and disjoint, overlaps r. */
static bool overlaps_any(const struct piece *v, size_t n, const struct hostlocal_range *r)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (ip_cmp(&v[mid].r->last, &r->first) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low < n && ip_cmp(&v[low].r->first, &r->last) <= 0;
}

static bool first_overlap(struct piece *v, size_t n, size_t *i, size_t *j)
{
	struct piece *own;
	size_t n_own = 0;

	if (n > 0)
		qsort(v, n, sizeof(v[0]), by_first);
	*i = first_overlapping(v, n);
	*j = SIZE_MAX;
	if (*i == SIZE_MAX)
		return false;
	own = xcalloc(n, sizeof(*own));
	for (size_t k = 0; k < n; k++)
		if (v[k].group == *i)
			own[n_own++] = v[k];
	for (size_t k = 0; k < n; k++)
		if (v[k].group != *i && v[k].group < *j && overlaps_any(own, n_own, v[k].r))
			*j = v[k].group;
	free(own);
	return true;
}

bool hostlocal_sets_overlap(const struct hostlocal_set *sets, size_t n, size_t *i, size_t *j)
{
	struct piece *v = NULL;
	size_t n_v = 0;
	bool found;

	for (size_t k = 0; k < n; k++)
		for (size_t m = 0; m < sets[k].n; m++)
			VEC_PUSH(v, n_v) = (struct piece){&sets[k].v[m], k};
	found = first_overlap(v, n_v, i, j);
	free(v);
	return found;
}

static int check_apart(const struct hostlocal_set *s, struct err *e)
{
	struct piece *v = xcalloc(s->n, sizeof(*v));
	auto_buf struct buf x, y;
	size_t i, j;
	bool found;

	buf_init(&x, ERR_TEXT_MAX);
	buf_init(&y, ERR_TEXT_MAX);
	for (size_t k = 0; k < s->n; k++)
		v[k] = (struct piece){&s->v[k], k};
	found = first_overlap(v, s->n, &i, &j);
	free(v);
	if (!found)
		return 0;
	range_str(&s->v[i], &x);
	range_str(&s->v[j], &y);
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
	return n < 0 ? n : check_apart(s, e);
}

const struct hostlocal_range *hostlocal_set_find(const struct hostlocal_set *s,
						 const struct ipaddr *a)
{
	for (size_t i = 0; i < s->n; i++)
		if (contains(&s->v[i], a))
			return &s->v[i];
	return NULL;
}
