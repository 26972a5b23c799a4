/* SPDX-License-Identifier: Apache-2.0 */
#include "ipam/pool/pool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/num.h"
#include "base/option.h"
#include "base/sorted.h"
#include "ipam/pool/pool_draft.h"

/* The set of pools: its index, the constraints between its pools, its directory, and drafts. */

enum { POOL_FILE_MAX = 4 << 20, PATH_BYTES = 4096 };

void pool_done(struct pool *p)
{
	free(p->name);
	free(p->origin);
	free(p->auto_pool_key);
	free(p->routes);
	ip_set_done(&p->ips);
	ip_set_done(&p->usable);
	ip_set_done(&p->open);
	ip_set_done(&p->adopted);
	ip_set_done(&p->adopted_here);
	free(p->records);
	str_list_free(p->nodes, p->n_nodes);
	str_list_free(p->namespaces, p->n_namespaces);
	str_list_free(p->networks, p->n_networks);
	selector_done(&p->node_affinity);
	selector_done(&p->namespace_affinity);
	selector_done(&p->pod_affinity);
	*p = (struct pool){0};
}

/* --- index of the pool set --- */

struct pool_index {
	const struct pool **names; /* by name */
	struct indexed {
		struct ip_range range;
		const struct pool *pool;
	} * ranges; /* ranges of all pools, ascending, disjoint */
	size_t n_ranges;
};

static int by_name(const void *a, const void *b)
{
	return strcmp((*(const struct pool *const *)a)->name,
		      (*(const struct pool *const *)b)->name);
}

static int by_range(const void *a, const void *b)
{
	return ip_cmp(&((const struct indexed *)a)->range.first,
		      &((const struct indexed *)b)->range.first);
}

void pool_set_index(struct pool_set *s)
{
	struct pool_index *x;

	if (s->n == 0)
		return;
	x = s->index = xcalloc(1, sizeof(*x));
	x->names = xcalloc(s->n, sizeof(const struct pool *));
	for (size_t i = 0; i < s->n; i++) {
		const struct pool *p = &s->v[i];

		x->names[i] = p;
		for (size_t k = 0; k < p->ips.n; k++)
			VEC_PUSH(x->ranges, x->n_ranges) = (struct indexed){p->ips.v[k], p};
	}
	qsort(x->names, s->n, sizeof(const struct pool *), by_name);
	if (x->n_ranges > 0)
		qsort(x->ranges, x->n_ranges, sizeof(*x->ranges), by_range);
}

static void index_free(struct pool_index *x)
{
	if (!x)
		return;
	free(x->names);
	free(x->ranges);
	free(x);
}

static int name_is(const void *name, const void *pool)
{
	return strcmp(name, (*(const struct pool *const *)pool)->name);
}

static int range_has(const void *address, const void *entry)
{
	const struct ip_range *r = &((const struct indexed *)entry)->range;

	return ip_cmp(address, &r->first) < 0 ? -1 : ip_cmp(address, &r->last) > 0;
}

void pool_set_done(struct pool_set *s)
{
	index_free(s->index);
	for (size_t i = 0; i < s->n; i++)
		pool_done(&s->v[i]);
	free(s->v);
	for (size_t i = 0; i < s->n_out; i++) {
		free(s->out[i].name);
		free(s->out[i].cause);
	}
	free(s->out);
	ip_set_done(&s->reserved4);
	ip_set_done(&s->reserved6);
	*s = (struct pool_set){0};
}

const struct pool *pool_find(const struct pool_set *s, const char *name)
{
	const struct pool **found;

	if (s->index) {
		found = bsearch(name, s->index->names, s->n, sizeof(const struct pool *), name_is);
		return found ? *found : NULL;
	}
	for (size_t i = 0; i < s->n; i++)
		if (strcmp(s->v[i].name, name) == 0)
			return &s->v[i];
	return NULL;
}

const char *pool_reason_out(const struct pool_set *s, const char *name)
{
	for (size_t i = 0; i < s->n_out; i++)
		if (strcmp(s->out[i].name, name) == 0)
			return s->out[i].cause;
	return NULL;
}

const struct pool *pool_of(const struct pool_set *s, const struct ipaddr *a)
{
	const struct indexed *found;

	if (s->index) {
		found = s->index->n_ranges ? bsearch(a, s->index->ranges, s->index->n_ranges,
						     sizeof(*s->index->ranges), range_has)
					   : NULL;
		return found ? found->pool : NULL;
	}
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i].family == a->family && ip_set_has(&s->v[i].ips, a))
			return &s->v[i];
	return NULL;
}

const char *pool_suggest(const struct pool_set *s, const char *name)
{
	auto_free const char **names = xcalloc(s->n + 1, sizeof(*names));

	for (size_t i = 0; i < s->n; i++)
		names[i] = s->v[i].name;
	return opt_suggest(name, names, s->n);
}

int64_t pool_reuse_delay_ms(const struct pool_set *s, const struct pool *p)
{
	return p->reuse_delay_ms >= 0 ? p->reuse_delay_ms : s->reuse_delay_ms;
}

/* --- pools that cannot be used together --- */

int pool_conflict_error(const struct pool *a, const struct pool *b, struct err *e)
{
	char x[IP_TEXT_MAX], y[IP_TEXT_MAX];
	struct ipaddr both;

	if (strcmp(a->name, b->name) == 0)
		return err_kind(e, ERR_CONF, -EEXIST, "%s: pool '%s' already exists in %s",
				b->origin, b->name, a->origin);
	if (a->family != b->family || !ipnet_overlaps(&a->subnet, &b->subnet))
		return 0;
	if (!ipnet_eq(&a->subnet, &b->subnet))
		return err_kind(
			e, ERR_CONF, -EINVAL,
			"%s: pool '%s': subnet %s overlaps subnet %s of pool '%s' in %s: make "
			"them equal or disjoint",
			b->origin, b->name, ipnet_str(&b->subnet, x), ipnet_str(&a->subnet, y),
			a->name, a->origin);
	if (ip_set_meets(&a->ips, &b->ips, &both))
		return err_kind(
			e, ERR_CONF, -EINVAL,
			"%s: pool '%s': address %s is also in pool '%s' in %s: exclude it in "
			"one of them",
			b->origin, b->name, ip_str(&both, x), a->name, a->origin);
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

/* --- conflicts: pools of the same name --- */

static int by_name_and_age(const void *a, const void *b)
{
	const struct aged *x = a, *y = b;
	int r = strcmp(x->pool->name, y->pool->name);

	return r ? r : by_age(x, y);
}

static void same_names(const struct pool *const *v, size_t n, size_t *ret)
{
	auto_free struct aged *s = sorted(v, n, by_name_and_age);

	for (size_t i = 1, oldest = 0; i < n; i++)
		if (strcmp(s[i].pool->name, s[oldest].pool->name) == 0)
			ret[s[i].age] = lower(ret[s[i].age], s[oldest].age);
		else
			oldest = i;
}

/* --- conflicts: subnets that overlap without being equal --- */

/*
 * A subnet and its oldest pool. outside: the oldest pool of all subnets that contain this one;
 * inside: the oldest pool of all subnets that this one contains. Two subnets are disjoint or one
 * contains the other, so they form a forest.
 */
struct subnet {
	const struct ipnet *net;
	/* parent: index of the smallest subnet that contains this one, SIZE_MAX: none; oldest,
	 * outside, inside: indices of pools */
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

/* Finds the parent of v[k] among the elements before it, and computes `outside` of v[k] from the
 * parent; if v[k] has no parent, `outside` becomes `none`. */
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

/* --- conflicts: addresses that several pools have --- */

/* Copies the addresses of one family to ret, in the order of v (the oldest pool first) or with the
 * youngest first; an address that several pools have goes to the first of them in that order. */
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

/* Ranges of addresses, each with the oldest pool that has it. least: a binary tree of the minima
 * of `oldest` of neighbouring ranges; its elements n to 2n - 1 are the leaves. */
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

/* Returns the index of the first piece whose last address is not below *a. */
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

/* --- reading a directory of pool files; drafts --- */

static int check_pairs(const struct pool_set *s, struct err *e)
{
	auto_free const struct pool **v = xcalloc(s->n + 1, sizeof(*v));
	auto_free size_t *other = xcalloc(s->n + 1, sizeof(*other));
	size_t i = 0;

	for (size_t k = 0; k < s->n; k++)
		v[k] = &s->v[k];
	pool_conflicts(v, s->n, other);
	while (i < s->n && other[i] == s->n)
		i++;
	return i < s->n ? pool_conflict_error(v[other[i]], v[i], e) : 0;
}

/* Computes `usable` of all pools; call it once, when the set is complete. */
static void pool_set_take_out_reserved(struct pool_set *s)
{
	for (size_t i = 0; i < s->n; i++) {
		struct pool *p = &s->v[i];
		const struct ip_set *out = p->family == 4 ? &s->reserved4 : &s->reserved6;

		p->usable.family = p->family;
		for (size_t j = 0; j < p->ips.n; j++)
			VEC_PUSH(p->usable.v, p->usable.n) = p->ips.v[j];
		ip_set_minus(&p->usable, out);
	}
}

static bool ends_with(const char *name, const char *end)
{
	size_t n = strlen(name), m = strlen(end);

	return n > m && strcmp(name + n - m, end) == 0;
}

static int read_file(struct pool_set *s, const struct root *r, const char *dir, const char *name,
		     struct err *e)
{
	bool ini = ends_with(name, ".conf"), json = ends_with(name, ".json");
	char path[PATH_BYTES];
	auto_buf struct buf text;
	int n;

	buf_init(&text, POOL_FILE_MAX);
	if (name[0] == '.')
		return 0;
	if (ends_with(name, ".yaml") || ends_with(name, ".yml"))
		return err_kind(e, ERR_CONF, -EINVAL,
				"%s: YAML is not supported here: convert it with 'kubectl create "
				"--dry-run=client -o json -f %s'",
				name, name);
	if (!ini && !json)
		return 0;
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	n = file_read(r, path, POOL_FILE_MAX, &text, e);
	if (n < 0)
		return n;
	return ini ? pool_read_ini(s, name, buf_span(&text), e)
		   : pool_read_json(s, name, buf_span(&text), e);
}

static int load(struct pool_set *s, const struct root *r, const char *dir, struct err *e)
{
	char **names = NULL;
	size_t count = 0;
	int n = dir_list(r, dir, &names, &count, e);

	if (n == -ENOENT) {
		err_clear(e);
		return 0;
	}
	for (size_t i = 0; i < count && n == 0; i++)
		n = read_file(s, r, dir, names[i], e);
	str_list_free(names, count);
	return n < 0 ? n : check_pairs(s, e);
}

int pool_set_load(const struct root *r, const char *dir, struct pool_set *ret, struct err *e)
{
	struct pool_set s = {.reuse_delay_ms = 60 * 1000, .quarantine_ms = 600 * 1000};
	int n = load(&s, r, dir, e);

	if (n < 0) {
		pool_set_done(&s);
		err_default_kind(e, ERR_IO);
		return err_wrap(e, n, "pool directory '%s'", dir);
	}
	pool_set_take_out_reserved(&s);
	pool_set_index(&s);
	*ret = s;
	return 0;
}

void pool_text_done(struct pool_text *t)
{
	free(t->place);
	free(t->text);
	*t = (struct pool_text){0};
}

void pool_texts_add(struct pool_texts *l, const char *place, struct span text)
{
	VEC_PUSH(l->v, l->n) = (struct pool_text){xstrdup(place), span_dup(text)};
}

void pool_texts_done(struct pool_texts *l)
{
	for (size_t i = 0; i < l->n; i++)
		pool_text_done(&l->v[i]);
	free(l->v);
	*l = (struct pool_texts){0};
}

void pool_draft_done(struct pool_draft *d)
{
	struct pool_text *one[] = {&d->subnet,	&d->gateway,	 &d->is_default,
				   &d->disable, &d->reuse_delay, &d->version};
	struct pool_texts *lists[] = {&d->ips,	 &d->exclude,	 &d->routes,
				      &d->nodes, &d->namespaces, &d->networks};

	free(d->name);
	free(d->origin);
	for (size_t i = 0; i < sizeof(one) / sizeof(one[0]); i++)
		pool_text_done(one[i]);
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		pool_texts_done(lists[i]);
	selector_done(&d->node_affinity);
	selector_done(&d->namespace_affinity);
	selector_done(&d->pod_affinity);
	*d = (struct pool_draft){0};
}

static struct selector take_selector(struct selector *s)
{
	struct selector r = *s;

	*s = (struct selector){0};
	return r;
}

static int pool_build(const struct pool_draft *d, struct pool *ret, struct err *e);

int pool_set_add(struct pool_set *s, struct pool_draft *d, struct err *e)
{
	struct pool p;
	int n = pool_build(d, &p, e);

	if (n == 0) {
		p.node_affinity = take_selector(&d->node_affinity);
		p.namespace_affinity = take_selector(&d->namespace_affinity);
		p.pod_affinity = take_selector(&d->pod_affinity);
		VEC_PUSH(s->v, s->n) = p;
	}
	pool_draft_done(d);
	return n;
}

int pool_reserve(struct pool_set *s, const struct pool_texts *ips, struct err *e)
{
	int ret = 0;

	for (size_t i = 0; i < ips->n; i++) {
		const char *text = ips->v[i].text;
		uint8_t family = strchr(text, ':') ? 6 : 4;
		struct err cause = ERR_INIT;
		struct ip_range r;
		int n = ip_range_parse(span_of(text), family, &r, &cause);

		if (n == 0) {
			ip_set_collect(family == 4 ? &s->reserved4 : &s->reserved6, &r);
		} else if (ret == 0) {
			ret = n;
			if (e)
				*e = cause;
			err_wrap(e, n, "%s", ips->v[i].place);
		}
	}
	ip_set_merge(&s->reserved4);
	ip_set_merge(&s->reserved6);
	return ret;
}

/* --- a pool from a draft; refuses the same errors as the webhook of SpiderIPPool --- */

int pool_wrong(const struct pool_text *t, struct err *e, const char *fmt, ...)
{
	char text[ERR_TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return err_kind(e, ERR_CONF, -EINVAL, "%s: %s", t->place, text);
}

int pool_text_bool(const struct pool_text *t, bool *ret, struct err *e)
{
	int v;

	if (!t->place)
		return 0;
	if (num_bool(span_of(t->text), &v) < 0)
		return pool_wrong(t, e, "'%s' is not yes or no", t->text);
	*ret = v;
	return 0;
}

int pool_text_ms(const struct pool_text *t, int64_t max, int64_t *ret, struct err *e)
{
	if (!t->place || num_duration_ms(span_of(t->text), max, ret) == 0)
		return 0;
	return pool_wrong(t, e, "'%s' is not a time from 0s to %lldh (such as 60s or 10m)", t->text,
			  (long long)(max / 3600000));
}

static int build_subnet(const struct pool_draft *d, struct pool *p, struct err *e)
{
	const struct pool_text *t = &d->subnet;
	struct ipnet as_written;
	char buf[IP_TEXT_MAX];
	uint64_t version;

	if (!t->place)
		return err_kind(e, ERR_CONF, -EINVAL,
				"%s: no subnet: add one, such as 'subnet = 172.16.1.0/24'",
				d->origin);
	if (ipnet_parse(span_of(t->text), &as_written) < 0)
		return pool_wrong(t, e, "'%s' is not a subnet such as 172.16.1.0/24", t->text);
	p->subnet = ipnet_network(&as_written);
	p->family = p->subnet.ip.family;
	if (ipnet_has_host_bits(&as_written) && !d->from_cluster)
		log_warn("subnet has host bits set, using its network", LOG_S("origin", t->place),
			 LOG_S("subnet", t->text), LOG_S("network", ipnet_str(&p->subnet, buf)));
	if (d->version.place &&
	    (num_u64(span_of(d->version.text), 4, 6, &version) < 0 || version != p->family))
		return pool_wrong(&d->version, e, "is %s, but the subnet '%s' is IPv%u",
				  d->version.text, t->text, p->family);
	return 0;
}

static int build_gateway(const struct pool_draft *d, struct pool *p, struct err *e)
{
	const struct pool_text *t = &d->gateway;
	char buf[IP_TEXT_MAX];

	if (!t->place || !*t->text)
		return 0;
	if (ip_parse(span_of(t->text), &p->gateway) < 0)
		return pool_wrong(t, e, "'%s' is not an address", t->text);
	if (!ipnet_contains(&p->subnet, &p->gateway))
		return pool_wrong(t, e, "'%s' is not in the subnet %s", t->text,
				  ipnet_str(&p->subnet, buf));
	return 0;
}

/* Returns the error for a range that reaches outside the subnet. The error suggests the part of
 * the range inside the subnet, if any, without the addresses that all_usable() excludes at both
 * ends of the subnet. */
static int outside(const struct pool *p, const struct pool_text *t, const struct ip_range *r,
		   struct err *e)
{
	struct ip_range in = {ipnet_first(&p->subnet), ipnet_last(&p->subnet)};
	char net[IP_TEXT_MAX], first[IP_TEXT_MAX], last[IP_TEXT_MAX];

	if (ip_bits(&in.first) - p->subnet.len >= 2) {
		ip_add(&in.first, 1, &in.first);
		in.last = ip_from_num(p->family, ip_num(&in.last) - (p->family == 4));
	}
	ipnet_str(&p->subnet, net);
	if (ip_cmp(&r->last, &in.first) < 0 || ip_cmp(&r->first, &in.last) > 0)
		return pool_wrong(t, e, "'%s' reaches outside the subnet %s", t->text, net);
	ip_str(ip_cmp(&r->first, &in.first) < 0 ? &in.first : &r->first, first);
	ip_str(ip_cmp(&r->last, &in.last) > 0 ? &in.last : &r->last, last);
	return pool_wrong(t, e, "'%s' reaches outside the subnet %s: did you mean '%s-%s'?",
			  t->text, net, first, last);
}

static int range_in(const struct pool *p, const struct pool_text *t, struct ip_range *r,
		    struct err *e)
{
	int n = ip_range_parse(span_of(t->text), p->family, r, e);

	if (n < 0)
		return err_wrap(e, n, "%s", t->place);
	if (!ipnet_contains(&p->subnet, &r->first) || !ipnet_contains(&p->subnet, &r->last))
		return outside(p, t, r, e);
	return 0;
}

/* Adds all addresses of the subnet, except the gateway and, if there are more than two addresses,
 * the network and broadcast address (IPv6: the subnet-router anycast address). */
static void all_usable(struct pool *p)
{
	struct ip_range r = {ipnet_first(&p->subnet), ipnet_last(&p->subnet)};
	unsigned int host = ip_bits(&r.first) - p->subnet.len;

	if (host >= 2) {
		ip_add(&r.first, 1, &r.first);
		if (p->family == 4)
			r.last = ip_from_num(4, ip_num(&r.last) - 1);
	}
	ip_set_add(&p->ips, &r);
	if (p->gateway.family)
		ip_set_subtract(&p->ips, &(struct ip_range){p->gateway, p->gateway});
}

static int read_ranges(const struct pool *p, const struct pool_texts *l, struct ip_set *ret,
		       struct err *e)
{
	struct ip_range r;
	int n = 0;

	for (size_t i = 0; i < l->n && n == 0; i++) {
		n = range_in(p, &l->v[i], &r, e);
		if (n == 0)
			ip_set_collect(ret, &r);
	}
	ip_set_merge(ret);
	return n;
}

static int build_ips(const struct pool_draft *d, struct pool *p, struct err *e)
{
	struct ip_set exclude = {0};
	int n;

	p->ips.family = p->family;
	if (d->ips.n == 0 && d->ips_optional)
		all_usable(p);
	else if ((n = read_ranges(p, &d->ips, &p->ips, e)) < 0)
		return n;
	n = read_ranges(p, &d->exclude, &exclude, e);
	if (n == 0 && exclude.n > 0)
		ip_set_minus(&p->ips, &exclude);
	ip_set_done(&exclude);
	if (n < 0)
		return n;
	if (p->gateway.family && ip_set_has(&p->ips, &p->gateway))
		return pool_wrong(&d->gateway, e,
				  "'%s' is among the pool's addresses: exclude this address or "
				  "remove the gateway",
				  d->gateway.text);
	return 0;
}

static int route_parse(const struct pool *p, const struct pool_text *t, struct pool_route *ret,
		       struct err *e)
{
	char buf[IP_TEXT_MAX];
	const char *via = strstr(t->text, " via ");
	struct span dst = {t->text, via ? (size_t)(via - t->text) : 0};
	struct ipnet net;

	if (!via || ipnet_parse(span_trim(dst), &net) < 0 ||
	    ip_parse(span_trim(span_of(via + 5)), &ret->gw) < 0)
		return pool_wrong(t, e, "'%s' is not 'DESTINATION/LEN via GATEWAY'", t->text);
	ret->dst = ipnet_network(&net);
	if (ipnet_is_default(&ret->dst))
		return pool_wrong(t, e, "'%s' is a default route: set 'gateway' instead", t->text);
	if (ret->dst.ip.family != p->family)
		return pool_wrong(t, e, "'%s' is not an IPv%u route, as the subnet %s requires",
				  t->text, (unsigned int)p->family, ipnet_str(&p->subnet, buf));
	if (!ipnet_contains(&p->subnet, &ret->gw))
		return pool_wrong(t, e, "'%s' needs a gateway in the subnet %s", t->text,
				  ipnet_str(&p->subnet, buf));
	return 0;
}

struct route_at {
	struct ipnet dst;
	size_t i;
};

static int by_destination(const void *a, const void *b)
{
	const struct route_at *x = a, *y = b;
	int r = ip_cmp(&x->dst.ip, &y->dst.ip);

	if (r == 0)
		r = (int)x->dst.len - (int)y->dst.len;
	return r ? r : x->i < y->i ? -1 : 1;
}

/* Returns the index of the first route whose destination an earlier route has; p->n_routes:
 * none. */
static size_t repeated_route(const struct pool *p)
{
	auto_free struct route_at *v = xcalloc(p->n_routes, sizeof(*v));
	size_t first = p->n_routes;

	for (size_t i = 0; i < p->n_routes; i++)
		v[i] = (struct route_at){p->routes[i].dst, i};
	if (p->n_routes > 1)
		qsort(v, p->n_routes, sizeof(*v), by_destination);
	for (size_t i = 1; i < p->n_routes; i++)
		if (ipnet_eq(&v[i - 1].dst, &v[i].dst) && v[i].i < first)
			first = v[i].i;
	return first;
}

static int build_routes(const struct pool_draft *d, struct pool *p, struct err *e)
{
	size_t again;

	for (size_t i = 0; i < d->routes.n; i++) {
		struct pool_route rt;
		int n = route_parse(p, &d->routes.v[i], &rt, e);

		if (n < 0)
			return n;
		VEC_PUSH(p->routes, p->n_routes) = rt;
	}
	again = repeated_route(p);
	if (again == p->n_routes)
		return 0;
	return pool_wrong(&d->routes.v[again], e,
			  "'%s' has the same destination as an earlier route",
			  d->routes.v[again].text);
}

static void build_names(const struct pool_texts *l, char ***v, size_t *n)
{
	for (size_t i = 0; i < l->n; i++)
		VEC_PUSH(*v, *n) = xstrdup(l->v[i].text);
}

/* Accepts the characters of Kubernetes names, uppercase letters and '_'; refuses names that contain
 * characters of wildcards or lists. */
static int check_name(const struct pool_draft *d, struct err *e)
{
	size_t n = strlen(d->name);

	if (n > 0 && n <= POOL_NAME_MAX &&
	    strspn(d->name, "abcdefghijklmnopqrstuvwxyz"
			    "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
			    "0123456789-._") == n)
		return 0;
	return err_kind(
		e, ERR_CONF, -EINVAL,
		"%s: pool name is '%.100s', expected 1 to %d letters, digits, '-', '.' or '_'",
		d->origin, d->name, POOL_NAME_MAX);
}

static int pool_build(const struct pool_draft *d, struct pool *ret, struct err *e)
{
	struct pool p = {.reuse_delay_ms = -1};
	int n = check_name(d, e);

	if (n == 0)
		n = build_subnet(d, &p, e);
	if (n == 0)
		n = build_gateway(d, &p, e);
	if (n == 0)
		n = build_ips(d, &p, e);
	if (n == 0)
		n = build_routes(d, &p, e);
	if (n == 0)
		n = pool_text_bool(&d->is_default, &p.is_default, e);
	if (n == 0)
		n = pool_text_bool(&d->disable, &p.disabled, e);
	if (n == 0)
		n = pool_text_ms(&d->reuse_delay, POOL_REUSE_DELAY_MAX_MS, &p.reuse_delay_ms, e);
	if (n < 0) {
		pool_done(&p);
		return n;
	}
	build_names(&d->nodes, &p.nodes, &p.n_nodes);
	build_names(&d->namespaces, &p.namespaces, &p.n_namespaces);
	build_names(&d->networks, &p.networks, &p.n_networks);
	p.name = xstrdup(d->name);
	p.origin = xstrdup(d->origin);
	*ret = p;
	return 0;
}
