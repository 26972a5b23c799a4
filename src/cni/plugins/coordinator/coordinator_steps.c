/* SPDX-License-Identifier: Apache-2.0 */
/* Steps onto the plan, and the facts as they will be afterwards. */
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "cni/plugins/coordinator/coordinator_private.h"

enum { V6_DEFAULT_METRIC = 1024 /* IP6_RT_PRIO_USER: what the kernel takes for 0 */ };

struct co_step *co_emit(struct planning *pl, enum co_side side, enum co_do what, const char *ifname,
			int index)
{
	enum { CHUNK = 64 }; /* a pod of eight rails has some 120 steps */
	struct co_plan *p = pl->p;
	struct co_step *s;

	if (p->n == p->room) {
		p->room += CHUNK;
		p->steps = xrealloc(p->steps, p->room * sizeof(*p->steps));
	}
	s = &p->steps[p->n++];
	*s = (struct co_step){0};
	s->side = side;
	s->what = what;
	s->nic = pl->at;
	s->index = index;
	str_copy(s->ifname, sizeof(s->ifname), ifname);
	return s;
}

static uint32_t table_of(const struct route *r)
{
	return r->table ? r->table : TABLE_MAIN;
}

static uint32_t metric_of(const struct route *r)
{
	return r->dst.ip.family == 6 && !r->priority ? V6_DEFAULT_METRIC : r->priority;
}

static bool same_dst(const struct route *a, const struct route *b)
{
	return table_of(a) == table_of(b) && ipnet_eq(&a->dst, &b->dst);
}

/* What makes the kernel say EEXIST to NLM_F_EXCL: whatever the next hop is. */
static bool in_the_way(const struct route *there, const struct route *r)
{
	return same_dst(there, r) && metric_of(there) == metric_of(r);
}

static struct route *list_of(struct planning *pl, enum co_side side, size_t **n)
{
	*n = side == CO_POD ? &pl->f->n_routes : &pl->f->n_host_routes;
	return side == CO_POD ? pl->f->routes : pl->f->host_routes;
}

/* "": not known. */
static const char *name_of(const struct planning *pl, enum co_side side, int index)
{
	const struct link *veth = &pl->f->host_veth;

	if (side == CO_HOST)
		return veth->index == index ? veth->name : "";
	for (size_t i = 0; i < pl->f->n_links; i++)
		if (pl->f->links[i].index == index)
			return pl->f->links[i].name;
	return "";
}

static void emit_route(struct planning *pl, enum co_side side, enum co_do what,
		       const struct route *r)
{
	co_emit(pl, side, what, name_of(pl, side, r->index), r->index)->route = *r;
}

/* --- what is in the way: a configuration may name thousands of routes --- */

struct way {
	uint32_t table, metric;
	struct ipnet dst;
	size_t n; /* routes of the list */
};

static struct way way_of(const struct route *r)
{
	return (struct way){table_of(r), metric_of(r), r->dst, 1};
}

static int by_way(const void *a, const void *b)
{
	const struct way *x = a, *y = b;
	int r = ip_cmp(&x->dst.ip, &y->dst.ip);

	if (r == 0)
		r = x->dst.len - y->dst.len;
	if (r == 0)
		r = x->table < y->table ? -1 : x->table > y->table;
	return r ? r : x->metric < y->metric ? -1 : x->metric > y->metric;
}

static struct way *way_find(const struct co_ways *w, const struct route *r)
{
	const struct way want = way_of(r);
	struct way *const *found = tfind(&want, &w->tree, by_way);

	return found ? *found : NULL;
}

static void way_add(struct co_ways *w, const struct route *r)
{
	struct way *x = way_find(w, r);

	if (x) {
		x->n++;
		return;
	}
	x = xcalloc(1, sizeof(*x));
	*x = way_of(r);
	if (!tsearch(x, &w->tree, by_way))
		abort(); /* as any other lack of memory */
}

static void way_remove(struct co_ways *w, const struct route *r)
{
	struct way *x = way_find(w, r);

	if (!x || --x->n > 0)
		return;
	tdelete(x, &w->tree, by_way);
	free(x);
}

static struct co_ways *ways_of(struct planning *pl, enum co_side side)
{
	struct co_ways *w = &pl->ways[side];
	size_t *n;
	const struct route *list = list_of(pl, side, &n);

	for (size_t i = 0; !w->is_known && i < *n; i++)
		way_add(w, &list[i]);
	w->is_known = true;
	return w;
}

void co_ways_done(struct planning *pl)
{
	tdestroy(pl->ways[CO_POD].tree, free);
	tdestroy(pl->ways[CO_HOST].tree, free);
}

void co_emit_route(struct planning *pl, enum co_side side, const struct route *r)
{
	struct co_ways *w = ways_of(pl, side);
	struct route *now;

	if (way_find(w, r))
		return;
	emit_route(pl, side, CO_ROUTE_ADD, r);
	now = side == CO_POD ? &VEC_PUSH(pl->f->routes, pl->f->n_routes)
			     : &VEC_PUSH(pl->f->host_routes, pl->f->n_host_routes);
	*now = *r;
	now->table = table_of(r);
	now->priority = metric_of(r);
	way_add(w, now);
}

/* Of an IPv6 multipath route one hop goes; the last one left is a plain route. */
static bool drop_hop(struct route *there, const struct route *r)
{
	size_t k = 0, before = there->n_hops;

	for (size_t i = 0; i < there->n_hops; i++)
		if (there->hops[i].index != r->index || !ip_eq(&there->hops[i].gw, &r->gw))
			there->hops[k++] = there->hops[i];
	there->n_hops = k;
	if (k != 1 || before == 1)
		return k < before;
	there->index = there->hops[0].index;
	there->gw = there->hops[0].gw;
	free(there->hops);
	there->hops = NULL;
	there->n_hops = 0;
	return true;
}

static bool drop(struct route *list, size_t *n, size_t i, const struct route *gone)
{
	struct route *there = &list[i];

	if (!in_the_way(there, gone))
		return false;
	if (there->n_hops)
		return drop_hop(there, gone);
	if (there->index != gone->index || !ip_eq(&there->gw, &gone->gw))
		return false;
	memmove(there, there + 1, (*n - i - 1) * sizeof(*there));
	--*n;
	return true;
}

void co_emit_route_del(struct planning *pl, enum co_side side, const struct route *r)
{
	struct route gone = *r;
	struct co_ways *w = ways_of(pl, side);
	size_t *n;
	struct route *list = list_of(pl, side, &n);
	size_t before = *n;

	gone.hops = NULL;
	gone.n_hops = 0;
	emit_route(pl, side, CO_ROUTE_DEL, &gone);
	for (size_t i = 0; i < *n; i++)
		if (drop(list, n, i, &gone))
			break;
	if (*n < before)
		way_remove(w, &gone);
}

/* No priority: the kernel takes one less than the second rule's, as for the original. */
void co_emit_from_rule(struct planning *pl, const struct ipaddr *from, uint32_t table)
{
	struct co_step *s = co_emit(pl, CO_POD, CO_RULE_ADD, "", 0);

	s->rule = (struct rule){.family = from->family, .src = ipnet_host(from), .table = table};
}
