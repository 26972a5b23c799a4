/* SPDX-License-Identifier: Apache-2.0 */
#include "ipam/pool/pool_conflict.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/sorted.h"

int pool_conflict_error(const struct pool *a, const struct pool *b, struct err *e)
{
	char x[IP_TEXT_MAX], y[IP_TEXT_MAX];
	struct ipaddr both;

	if (strcmp(a->name, b->name) == 0)
		return err_kind(e, ERR_CONF, -EEXIST, "%s: pool '%s' already exists in %s",
				b->where, b->name, a->where);
	if (a->family != b->family || !ipnet_overlaps(&a->subnet, &b->subnet))
		return 0;
	if (!ipnet_eq(&a->subnet, &b->subnet))
		return err_kind(
			e, ERR_CONF, -EINVAL,
			"%s: pool '%s': subnet %s overlaps subnet %s of pool '%s' in %s: make "
			"them equal or disjoint",
			b->where, b->name, ipnet_str(&b->subnet, x), ipnet_str(&a->subnet, y),
			a->name, a->where);
	if (ip_set_meets(&a->ips, &b->ips, &both))
		return err_kind(
			e, ERR_CONF, -EINVAL,
			"%s: pool '%s': address %s is also in pool '%s' in %s: exclude it in "
			"one of them",
			b->where, b->name, ip_str(&both, x), a->name, a->where);
	return 0;
}

static size_t lower(size_t a, size_t b)
{
	return a < b ? a : b;
}

struct aged {
	const struct pool *pool;
	size_t age;
};

static struct aged *sorted(const struct pool *const *v, size_t n,
			   int (*order)(const void *a, const void *b))
{
	struct aged *s = xcalloc(n, sizeof(*s));

	for (size_t i = 0; i < n; i++)
		s[i] = (struct aged){v[i], i};
	qsort(s, n, sizeof(*s), order);
	return s;
}

static int by_age(const struct aged *a, const struct aged *b)
{
	return a->age < b->age ? -1 : a->age > b->age;
}

/* --- names --- */

static int by_name(const void *a, const void *b)
{
	const struct aged *x = a, *y = b;
	int r = strcmp(x->pool->name, y->pool->name);

	return r ? r : by_age(x, y);
}

static void same_names(const struct pool *const *v, size_t n, size_t *ret)
{
	auto_free struct aged *s = sorted(v, n, by_name);

	for (size_t i = 1, oldest = 0; i < n; i++)
		if (strcmp(s[i].pool->name, s[oldest].pool->name) == 0)
			ret[s[i].age] = lower(ret[s[i].age], s[oldest].age);
		else
			oldest = i;
}

/* --- subnets --- */

/*
 * A subnet and its oldest pool. outside: the oldest pool of all subnets that contain this one;
 * inside: the oldest of all subnets that it contains. Two subnets are disjoint or one contains the
 * other, so they form a forest.
 */
struct subnet {
	const struct ipnet *net;
	/* indices of subnets or pools; parent SIZE_MAX: no subnet contains this one */
	size_t parent, oldest, outside, inside;
};

static int by_subnet(const void *a, const void *b)
{
	const struct aged *x = a, *y = b;
	int r = ip_cmp(&x->pool->subnet.ip, &y->pool->subnet.ip);

	if (r == 0)
		r = (int)x->pool->subnet.len - (int)y->pool->subnet.len;
	return r ? r : by_age(x, y);
}

/* Sets the parent of v[k], an earlier element of v, and takes `outside` from the parent. */
static void nest(struct subnet *v, size_t k, size_t none)
{
	size_t p = k ? k - 1 : SIZE_MAX;

	while (p != SIZE_MAX && !ipnet_contains(v[p].net, &v[k].net->ip))
		p = v[p].parent;
	v[k].parent = p;
	v[k].outside = p == SIZE_MAX ? none : lower(v[p].outside, v[p].oldest);
}

static void nested_subnets(const struct pool *const *v, size_t n, size_t *ret)
{
	auto_free struct aged *s = sorted(v, n, by_subnet);
	auto_free struct subnet *nets = xcalloc(n, sizeof(*nets));
	auto_free size_t *of = xcalloc(n, sizeof(*of));
	size_t count = 0;

	for (size_t i = 0; i < n; i++) {
		if (i == 0 || !ipnet_eq(&s[i - 1].pool->subnet, &s[i].pool->subnet)) {
			nets[count] = (struct subnet){
				.net = &s[i].pool->subnet, .oldest = s[i].age, .inside = n};
			nest(nets, count++, n);
		}
		of[i] = count - 1;
	}
	for (size_t k = count; k-- > 0;)
		if (nets[k].parent != SIZE_MAX) {
			struct subnet *p = &nets[nets[k].parent];

			p->inside = lower(p->inside, lower(nets[k].inside, nets[k].oldest));
		}
	for (size_t i = 0; i < n; i++) {
		size_t other = lower(nets[of[i]].outside, nets[of[i]].inside);

		if (other < s[i].age)
			ret[s[i].age] = lower(ret[s[i].age], other);
	}
}

/* --- addresses --- */

/* Copies the addresses of one family; an address that several pools have is assigned to the first
 * of them in the list. */
static void part(const struct pool *const *v, size_t n, uint8_t family, bool youngest_first,
		 struct ip_set *ret)
{
	for (size_t i = 0; i < n; i++) {
		const struct pool *p = v[youngest_first ? n - 1 - i : i];

		for (size_t k = 0; p->family == family && k < p->ips.n; k++)
			ip_set_collect(&ret[i], &p->ips.v[k]);
	}
	ip_sets_part(ret, n);
}

void pool_conflicts_open(const struct pool *const *v, size_t n, struct ip_set *ret)
{
	auto_free struct ip_set *sets = xcalloc(n, sizeof(*sets));

	for (uint8_t family = 4; family <= 6; family += 2) {
		part(v, n, family, true, sets);
		for (size_t i = 0; i < n; i++) {
			if (v[n - 1 - i]->family == family) {
				ret[n - 1 - i] = sets[i];
				ret[n - 1 - i].family = family;
			} else {
				ip_set_done(&sets[i]);
			}
			sets[i] = (struct ip_set){0};
		}
	}
}

/*
 * Addresses and the oldest pool of each. least: a tree of minimum ages over neighbouring pieces,
 * with the leaves last.
 */
struct owned {
	struct piece {
		struct ip_range range;
		size_t oldest;
	} * v; /* ascending, disjoint */
	size_t n, *least;
};

static int by_first(const void *a, const void *b)
{
	return ip_cmp(&((const struct piece *)a)->range.first,
		      &((const struct piece *)b)->range.first);
}

static void owned_init(struct owned *o, const struct ip_set *sets, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < sets[i].n; k++)
			VEC_PUSH(o->v, o->n) = (struct piece){sets[i].v[k], i};
	if (o->n > 0)
		qsort(o->v, o->n, sizeof(*o->v), by_first);
	o->least = xcalloc(2 * o->n + 1, sizeof(*o->least));
	for (size_t i = 0; i < o->n; i++)
		o->least[o->n + i] = o->v[i].oldest;
	for (size_t i = o->n; i-- > 1;)
		o->least[i] = lower(o->least[2 * i], o->least[2 * i + 1]);
}

/* The first piece whose last address is *a or higher. */
static size_t piece_at(const struct owned *o, const struct ipaddr *a)
{
	return LOWER_BOUND(i, o->n, ip_cmp(&o->v[i].range.last, a) < 0);
}

/* Returns the oldest pool that has an address of the range. Every address of the range is in some
 * pool. */
static size_t oldest_of(const struct owned *o, const struct ip_range *r)
{
	size_t from = piece_at(o, &r->first) + o->n, to = piece_at(o, &r->last) + o->n + 1;
	size_t ret = SIZE_MAX;

	for (; from < to; from /= 2, to /= 2) {
		if (from & 1)
			ret = lower(ret, o->least[from++]);
		if (to & 1)
			ret = lower(ret, o->least[--to]);
	}
	return ret;
}

static void shared_addresses(const struct pool *const *v, size_t n, uint8_t family, size_t *ret)
{
	auto_free struct ip_set *sets = xcalloc(n, sizeof(*sets));
	struct owned o = {0};

	part(v, n, family, false, sets);
	owned_init(&o, sets, n);
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; v[i]->family == family && k < v[i]->ips.n; k++) {
			size_t oldest = oldest_of(&o, &v[i]->ips.v[k]);

			if (oldest < i)
				ret[i] = lower(ret[i], oldest);
		}
	for (size_t i = 0; i < n; i++)
		ip_set_done(&sets[i]);
	free(o.v);
	free(o.least);
}

void pool_conflicts(const struct pool *const *v, size_t n, size_t *ret)
{
	for (size_t i = 0; i < n; i++)
		ret[i] = n;
	if (n < 2)
		return;
	same_names(v, n, ret);
	nested_subnets(v, n, ret);
	shared_addresses(v, n, 4, ret);
	shared_addresses(v, n, 6, ret);
}
