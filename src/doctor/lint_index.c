/* SPDX-License-Identifier: Apache-2.0 */
/* Indexes by which lint finds objects without a search through all of them. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/ip.h"
#include "controller/nad/render.h"
#include "doctor/lint_internal.h"
#include "spec/multusconfig.h"

/* Index entry of a SpiderMultusConfig; the key is the NetworkAttachmentDefinition that the
 * controller creates from it. */
struct maker {
	const char *ns, *nad;
	const struct object *o;
};

/* A pool or a subnet with its CIDR, in the list that index_ranges() sorts. */
struct range {
	struct ipnet net;
	const struct object *o;
	bool is_subnet;
};

/* Pools and subnets within `net`; no CIDR of another range_cluster overlaps `net`. */
struct range_cluster {
	struct ipnet net;
	size_t pool, n_pools, subnet, n_subnets;
};

struct lint_index {
	struct maker *makers;
	size_t n_makers;
	const struct json **pools, **subnets; /* those of one range_cluster are adjacent */
	struct range_cluster *clusters;
	size_t n_clusters;
	struct inject_net *nets;
	size_t n_nets;
	struct inject_index *inject;
};

/* --- networks --- */

static int compare_maker(const struct maker *x, const char *ns, const char *nad)
{
	int r = strcmp(x->ns, ns);

	return r ? r : strcmp(x->nad, nad);
}

static int by_nad(const void *a, const void *b)
{
	const struct maker *x = a, *y = b;
	int r = compare_maker(x, y->ns, y->nad);

	return r ? r : (x->o > y->o) - (x->o < y->o);
}

static void index_makers(struct lint_index *x, const struct objects *in)
{
	const struct object *all = objects_kind(in, "SpiderMultusConfig", &x->n_makers);
	auto_free const struct inject_net **list = NULL;

	x->makers = xcalloc(x->n_makers + 1, sizeof(*x->makers));
	for (size_t i = 0; i < x->n_makers; i++)
		x->makers[i] = (struct maker){all[i].ns, multus_nad_name(all[i].v), &all[i]};
	qsort(x->makers, x->n_makers, sizeof(*x->makers), by_nad);
	x->n_nets = x->n_makers;
	x->nets = xcalloc(x->n_nets + 1, sizeof(*x->nets));
	list = xcalloc(x->n_nets + 1, sizeof(*list));
	for (size_t i = 0; i < x->n_nets; i++) {
		inject_net_read(all[i].v, &x->nets[i]);
		if (!*x->nets[i].ns) {
			free(x->nets[i].ns);
			x->nets[i].ns = xstrdup(all[i].ns);
		}
		list[i] = &x->nets[i];
	}
	x->inject = inject_index_new(list, x->n_nets);
}

/* Returns the index of the first entry that is not less than (ns, nad); if `after` is set: the
 * first that is greater. */
static size_t maker_at(const struct lint_index *x, const char *ns, const char *nad, bool after)
{
	size_t from = 0, to = x->n_makers;

	while (from < to) {
		size_t mid = from + (to - from) / 2;
		int r = compare_maker(&x->makers[mid], ns, nad);

		if (r < 0 || (r == 0 && after))
			from = mid + 1;
		else
			to = mid;
	}
	return from;
}

const struct object *lint_maker_of(const struct lint *l, const char *ns, const char *nad,
				   const char *other_than)
{
	const struct lint_index *x = l->index;
	size_t from = maker_at(x, ns, nad, false), to = maker_at(x, ns, nad, true);

	if (from == to)
		return NULL;
	/* The entries from `from` to `to` - 1 are sorted by the names of their objects: if one
	 * of these names differs from `other_than`, the first or the last name differs. */
	if (!other_than || strcmp(x->makers[from].o->name, other_than) != 0)
		return x->makers[from].o;
	return strcmp(x->makers[to - 1].o->name, other_than) != 0 ? x->makers[to - 1].o : NULL;
}

const struct inject_index *lint_inject_index(const struct lint *l)
{
	return l->index->inject;
}

/* --- pools and subnets --- */

static bool net_of(const struct json *object, struct ipnet *ret)
{
	const char *text = json_string(json_get(json_get(object, "spec"), "subnet"));

	if (!text || ipnet_parse(span_of(text), ret) < 0)
		return false;
	*ret = ipnet_network(ret);
	return true;
}

/* A network sorts before the networks within it. */
static int by_net(const void *a, const void *b)
{
	const struct range *x = a, *y = b;
	int r = ip_cmp(&x->net.ip, &y->net.ip);

	if (!r)
		r = (x->net.len > y->net.len) - (x->net.len < y->net.len);
	return r ? r : (x->o > y->o) - (x->o < y->o);
}

static void add_ranges(const struct objects *in, const char *kind, bool is_subnet,
		       struct range **list, size_t *n)
{
	size_t count;
	const struct object *all = objects_kind(in, kind, &count);

	for (size_t i = 0; i < count; i++) {
		struct range r = {.o = &all[i], .is_subnet = is_subnet};

		if (net_of(all[i].v, &r.net))
			VEC_PUSH(*list, *n) = r;
	}
}

static void index_ranges(struct lint_index *x, const struct objects *in)
{
	auto_free struct range *list = NULL;
	size_t n = 0, pools = 0, subnets = 0;

	add_ranges(in, "SpiderIPPool", false, &list, &n);
	add_ranges(in, "SpiderSubnet", true, &list, &n);
	if (n)
		qsort(list, n, sizeof(*list), by_net);
	x->pools = xcalloc(n + 1, sizeof(*x->pools));
	x->subnets = xcalloc(n + 1, sizeof(*x->subnets));
	for (size_t i = 0; i < n; i++) {
		struct range_cluster *c = x->n_clusters ? &x->clusters[x->n_clusters - 1] : NULL;

		if (!c || !ipnet_overlaps(&c->net, &list[i].net)) {
			c = &VEC_PUSH(x->clusters, x->n_clusters);
			*c = (struct range_cluster){list[i].net, pools, 0, subnets, 0};
		}
		if (list[i].is_subnet) {
			x->subnets[subnets++] = list[i].o->v;
			c->n_subnets++;
		} else {
			x->pools[pools++] = list[i].o->v;
			c->n_pools++;
		}
	}
}

void lint_overlapping(const struct lint *l, const struct object *o, struct admit_cache *ret)
{
	const struct lint_index *x = l->index;
	size_t from = 0, to = x->n_clusters;
	const struct range_cluster *c;
	struct ipnet net;

	ret->n_pools = ret->n_subnets = 0;
	if (!net_of(o->v, &net))
		return;
	while (from < to) {
		size_t mid = from + (to - from) / 2;

		if (ip_cmp(&x->clusters[mid].net.ip, &net.ip) <= 0)
			from = mid + 1;
		else
			to = mid;
	}
	if (!from)
		return;
	c = &x->clusters[from - 1];
	if (!ipnet_overlaps(&c->net, &net))
		return;
	ret->pools = x->pools + c->pool;
	ret->n_pools = c->n_pools;
	ret->subnets = x->subnets + c->subnet;
	ret->n_subnets = c->n_subnets;
}

/* --- creation and removal of the index --- */

void lint_index_make(struct lint *l)
{
	l->index = xcalloc(1, sizeof(*l->index));
	index_makers(l->index, l->in);
	index_ranges(l->index, l->in);
}

void lint_index_done(struct lint *l)
{
	struct lint_index *x = l->index;

	if (!x)
		return;
	for (size_t i = 0; i < x->n_nets; i++)
		inject_net_done(&x->nets[i]);
	free(x->nets);
	inject_index_free(x->inject);
	free(x->makers);
	free(x->pools);
	free(x->subnets);
	free(x->clusters);
	free(x);
	l->index = NULL;
}
