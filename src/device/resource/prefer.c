/* SPDX-License-Identifier: Apache-2.0 */
#include "device/resource/prefer.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum { NO_NUMBER = -1 };

/* An available id. */
struct candidate {
	const char *id;
	int64_t number; /* NO_NUMBER: the resource does not have the id */
	size_t rail;	/* index in struct choosing.rails; n_rails: none */
	bool taken;
};

/* A rail: the ids of one PF or HCA, which all have the same distance to the GPUs. */
struct rail_load {
	const char *key;
	enum node_distance distance; /* distance to the nearest GPU */
	/* total: number of the resource's ids on this rail; available: how many of them are
	 * available and not chosen yet */
	size_t total, available;
	size_t chosen; /* number of ids chosen for this container */
	/* index from which next_of() searches the rail's next candidate that is not chosen */
	size_t next;
};

struct choosing {
	const struct resources *s;
	const struct resource *r;
	const struct prefer_request *q;
	struct candidate *v; /* sorted by rail, then by number */
	size_t n;
	struct rail_load *rails; /* sorted by key */
	size_t n_rails;
};

/* Returns the key of an id's rail: the address of the PF, or of the device if it has no PF. */
static const char *rail_key(const struct resource *r, size_t number)
{
	size_t from, n;
	const struct node_device *d;

	resource_id_members(r, number, &from, &n);
	d = r->v[from].device;
	/* an id that stands for several HCAs belongs to no single PF or HCA */
	return n > 1 ? "" : *d->pf ? d->pf : d->bdf;
}

static enum node_distance distance_to_gpus(const struct choosing *x, const struct node_device *d)
{
	enum node_distance best = NODE_FAR;

	for (size_t g = 0; g < x->q->n_gpus; g++) {
		const struct node_gpu *gpu = node_gpu_find(x->s->node, x->q->gpus[g]);
		enum node_distance at;

		if (!gpu)
			continue;
		at = node_distance(gpu->path, gpu->numa, d->path, d->numa);
		best = at < best ? at : best;
	}
	return best;
}

static int by_key(const void *a, const void *b)
{
	return strcmp(((const struct rail_load *)a)->key, ((const struct rail_load *)b)->key);
}

static struct rail_load *rail_find(const struct choosing *x, const char *key)
{
	struct rail_load wanted = {.key = key};

	return x->n_rails ? bsearch(&wanted, x->rails, x->n_rails, sizeof(wanted), by_key) : NULL;
}

/* Lists all rails of the resource, also those without an available id: the allocated ids are their load. */
static void list_rails(struct choosing *x)
{
	size_t n = resource_ids(x->r), n_unique = 0;
	auto_free struct rail_load *all = xcalloc(n, sizeof(*all));

	for (size_t i = 0; i < n; i++)
		all[i].key = rail_key(x->r, i);
	qsort(all, n, sizeof(*all), by_key);
	for (size_t i = 0; i < n; i++) {
		if (!n_unique || strcmp(all[n_unique - 1].key, all[i].key) != 0)
			all[n_unique++] =
				(struct rail_load){.key = all[i].key, .distance = NODE_FAR};
		all[n_unique - 1].total++;
	}
	x->rails = take(all);
	x->n_rails = n_unique;
	for (size_t i = 0; i < x->r->n; i++) {
		const struct node_device *d = x->r->v[i].device;
		struct rail_load *rail = rail_find(x, *d->pf ? d->pf : d->bdf);

		if (rail)
			rail->distance = distance_to_gpus(x, d);
	}
}

static int by_rail(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->rail != y->rail)
		return x->rail < y->rail ? -1 : 1;
	if (x->number != y->number)
		return x->number < y->number ? -1 : 1;
	return strcmp(x->id, y->id);
}

struct numbered {
	char id[RESOURCE_ID_MAX];
	int64_t number;
};

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct numbered *)a)->id, ((const struct numbered *)b)->id);
}

/* Sorts all ids once, because resource_id_number() compares an id of resourceList with all ids,
 * one after the other. */
static struct numbered *index_ids(const struct resource *r, size_t *n)
{
	struct numbered *v = xcalloc(resource_ids(r), sizeof(*v));
	struct resource_id at;

	*n = resource_ids(r);
	for (size_t i = 0; i < *n; i++) {
		resource_id_at(r, i, &at);
		str_copy(v[i].id, sizeof(v[i].id), at.id);
		v[i].number = (int64_t)i;
	}
	qsort(v, *n, sizeof(*v), by_name);
	return v;
}

static void list_candidates(struct choosing *x)
{
	size_t n = 0;
	auto_free struct numbered *index = index_ids(x->r, &n);

	x->v = xcalloc(x->q->n_available, sizeof(*x->v));
	for (size_t i = 0; i < x->q->n_available; i++) {
		struct candidate *c = &x->v[x->n++];
		struct numbered key, *at = NULL;

		c->id = x->q->available[i];
		c->number = NO_NUMBER;
		c->rail = x->n_rails;
		if (n && str_copy(key.id, sizeof(key.id), c->id))
			at = bsearch(&key, index, n, sizeof(key), by_name);
		if (!at)
			continue;
		c->number = at->number;
		c->rail = (size_t)(rail_find(x, rail_key(x->r, (size_t)at->number)) - x->rails);
		x->rails[c->rail].available++;
	}
	if (x->n)
		qsort(x->v, x->n, sizeof(*x->v), by_rail);
	for (size_t i = x->n; i-- > 0;)
		if (x->v[i].rail < x->n_rails)
			x->rails[x->v[i].rail].next = i;
}

static void choose(struct choosing *x, struct candidate *c, const char **ret, size_t *n)
{
	c->taken = true;
	ret[(*n)++] = c->id;
	if (c->rail < x->n_rails) {
		x->rails[c->rail].chosen++;
		x->rails[c->rail].available--;
	}
}

static bool is_wanted(const struct prefer_request *q, const char *id)
{
	for (size_t i = 0; i < q->n_must; i++)
		if (strcmp(q->must[i], id) == 0)
			return true;
	return false;
}

static void choose_must(struct choosing *x, const char **ret, size_t *n)
{
	for (size_t i = 0; x->q->n_must && i < x->n && *n < x->q->size; i++)
		if (is_wanted(x->q, x->v[i].id))
			choose(x, &x->v[i], ret, n);
}

static struct candidate *next_of(const struct choosing *x, struct rail_load *rail)
{
	size_t number = (size_t)(rail - x->rails);

	while (rail->next < x->n && x->v[rail->next].rail == number && x->v[rail->next].taken)
		rail->next++;
	return rail->next < x->n && x->v[rail->next].rail == number ? &x->v[rail->next] : NULL;
}

/* Compares allocated / total of two rails without division. */
static bool less_loaded(const struct rail_load *a, const struct rail_load *b)
{
	return (a->total - a->available) * b->total < (b->total - b->available) * a->total;
}

static bool is_better(const struct rail_load *a, const struct rail_load *b)
{
	if (a->distance != b->distance)
		return a->distance < b->distance;
	return a->chosen != b->chosen ? a->chosen < b->chosen : less_loaded(a, b);
}

static struct candidate *best_of(struct choosing *x)
{
	struct rail_load *best = NULL;

	for (size_t i = 0; i < x->n_rails; i++)
		if (x->rails[i].available && next_of(x, &x->rails[i]) &&
		    (!best || is_better(&x->rails[i], best)))
			best = &x->rails[i];
	return best ? next_of(x, best) : NULL;
}

void resource_prefer(const struct resources *s, const struct resource *r,
		     const struct prefer_request *q, const char ***ret, size_t *n)
{
	struct choosing x = {.s = s, .r = r, .q = q};
	struct candidate *c;

	*ret = xcalloc(q->size < q->n_available ? q->size : q->n_available, sizeof(**ret));
	*n = 0;
	list_rails(&x);
	list_candidates(&x);
	choose_must(&x, *ret, n);
	while (*n < q->size && (c = best_of(&x)))
		choose(&x, c, *ret, n);
	for (size_t i = 0; i < x.n && *n < q->size; i++)
		if (!x.v[i].taken)
			choose(&x, &x.v[i], *ret, n);
	free(x.v);
	free(x.rails);
}
