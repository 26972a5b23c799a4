/* SPDX-License-Identifier: Apache-2.0 */
#include "device/serve/pod_gpus.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

void pod_gpus_done(struct pod_gpus *g)
{
	for (size_t i = 0; i < g->n; i++) {
		free(g->v[i].ns);
		free(g->v[i].name);
	}
	free(g->v);
	g->v = NULL;
	g->n = 0;
}

static int by_pod(const void *a, const void *b)
{
	const struct pod_gpus_seen *x = a, *y = b;
	int r = strcmp(x->ns, y->ns);

	return r ? r : strcmp(x->name, y->name);
}

/* --- devices of a container --- */

static bool has_resource(const struct podres_container *c, const char *resource)
{
	for (size_t i = 0; i < c->n_devices; i++)
		if (!strcmp(c->devices[i].resource, resource))
			return true;
	return false;
}

static size_t add_gpus(const struct podres_container *c, const struct node_devices *node,
		       const char ***ids, size_t *n)
{
	size_t before = *n;

	for (size_t i = 0; i < c->n_devices; i++)
		for (size_t k = 0; k < c->devices[i].n_ids; k++)
			if (node_gpu_find(node, c->devices[i].ids[k]))
				VEC_PUSH(*ids, *n) = c->devices[i].ids[k];
	return *n - before;
}

/* Appends the pod's GPUs; returns whether a container with GPUs may still wait for the resource. */
static bool read_pod(const struct podres_pod *p, const struct node_devices *node,
		     const char *resource, const char ***ids, size_t *n)
{
	size_t with_gpus = 0, with_resource = 0;

	for (size_t i = 0; i < p->n_containers; i++) {
		with_gpus += add_gpus(&p->containers[i], node, ids, n) > 0;
		with_resource += has_resource(&p->containers[i], resource);
	}
	return with_resource < with_gpus;
}

/* --- the pods of one list --- */

struct candidate {
	const char **ids;
	size_t n;
	uint64_t list;
	bool ambiguous; /* another pod with the same `list` matches as well */
};

static uint64_t first_list(const struct pod_gpus *g, const struct pod_gpus_seen *key)
{
	const struct pod_gpus_seen *k = g->n ? bsearch(key, g->v, g->n, sizeof(*key), by_pod)
					     : NULL;

	return k ? k->list : g->list;
}

static void take_candidate(struct candidate *best, const char **ids, size_t n, uint64_t list)
{
	if (best->ids && list < best->list) {
		free(ids);
		return;
	}
	best->ambiguous = best->ids && list == best->list;
	free(best->ids);
	best->ids = ids;
	best->n = n;
	best->list = list;
}

size_t pod_gpus_choose(struct pod_gpus *g, const struct podres_list *l,
		       const struct node_devices *node, const char *resource, const char ***ret)
{
	struct pod_gpus next = {.list = g->list + 1};
	struct candidate best = {0};

	for (size_t i = 0; node->n_gpus && i < l->n_pods && next.n < POD_GPUS_PODS_MAX; i++) {
		const struct podres_pod *p = &l->pods[i];
		struct pod_gpus_seen key = {.ns = p->ns, .name = p->name};
		const char **ids = NULL;
		size_t n = 0;
		bool waits = read_pod(p, node, resource, &ids, &n);

		if (!n)
			continue;
		key.list = first_list(g, &key);
		key.ns = xstrdup(p->ns);
		key.name = xstrdup(p->name);
		VEC_PUSH(next.v, next.n) = key;
		if (waits)
			take_candidate(&best, ids, n, key.list);
		else
			free(ids);
	}
	if (next.n)
		qsort(next.v, next.n, sizeof(*next.v), by_pod);
	pod_gpus_done(g);
	*g = next;
	if (best.ambiguous) {
		free(best.ids);
		best = (struct candidate){0};
	}
	*ret = best.ids;
	return best.n;
}
