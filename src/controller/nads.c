/* SPDX-License-Identifier: Apache-2.0 */
/* Which SpiderMultusConfigs are to be looked at, and when. */
#include <stdlib.h>
#include <string.h>

#include "controller/nad_diff.h"
#include "controller/nads_priv.h"

enum { AT_ONCE = 8, AGAIN_MS = 1000, AGAIN_MOST_MS = 60 * 1000 };

/* --- jobs --- */

static struct nads_job *find(const struct nads *n, const char *ns, const char *name)
{
	for (size_t i = 0; i < n->n; i++)
		if (strcmp(n->v[i]->name, name) == 0 && strcmp(n->v[i]->ns, ns) == 0)
			return n->v[i];
	return NULL;
}

static void drop(struct nads_job *j)
{
	kube_cancel(j->call);
	loop_del_timer(j->again);
	free(j->ns);
	free(j->name);
	free(j->nad);
	free(j->about);
	free(j->said);
	free(j);
}

static void remove_job(struct nads *n, struct nads_job *j)
{
	if (j->call)
		n->flying--;
	for (size_t i = 0; i < n->n; i++)
		if (n->v[i] == j) {
			n->v[i] = n->v[--n->n];
			break;
		}
	drop(j);
}

static bool is_known(const struct nads *n)
{
	return world_synced(n->c.world, WORLD_MULTUSCONFIGS) &&
	       world_synced(n->c.world, WORLD_NADS);
}

static void pump(void *arg)
{
	struct nads *n = arg;

	n->pump = NULL;
	for (size_t i = 0; i < n->n && n->flying < AT_ONCE && is_known(n); i++)
		if (n->v[i]->due && !n->v[i]->call)
			nads_look_at(n->v[i]);
}

void nads_pump_soon(struct nads *n)
{
	if (!n->pump)
		n->pump = loop_add_timer(n->loop, 0, pump, n);
}

static void mark(struct nads_job *j)
{
	j->due = true;
	nads_pump_soon(j->n);
}

static void on_again(void *arg)
{
	struct nads_job *j = arg;

	j->again = NULL;
	mark(j);
}

void nads_again(struct nads_job *j, int64_t ms)
{
	loop_del_timer(j->again);
	j->again = loop_add_timer(j->n->loop, ms, on_again, j);
}

/* --- what happens in the cluster --- */

static void add(struct nads *n, const struct kube_object *o)
{
	struct nads_job *j = find(n, o->ns, o->name);

	if (!j) {
		j = xcalloc(1, sizeof(*j));
		*j = (struct nads_job){.n = n,
				       .ns = xstrdup(o->ns),
				       .name = xstrdup(o->name),
				       .backoff = {AGAIN_MS, AGAIN_MOST_MS, 0}};
		VEC_PUSH(n->v, n->n) = j;
	}
	mark(j);
}

static void add_all(struct nads *n)
{
	for (size_t i = 0; i < world_count(n->c.world, WORLD_MULTUSCONFIGS); i++)
		add(n, world_at(n->c.world, WORLD_MULTUSCONFIGS, i));
}

static void on_smc(void *arg, const struct kube_object *was, const struct kube_object *is)
{
	struct nads *n = arg;
	struct nads_job *j;

	if (is) {
		add(n, is);
	} else if (was) {
		j = find(n, was->ns, was->name);
		if (j)
			remove_job(n, j);
	} else {
		add_all(n);
	}
	/* Who waited for the name. */
	if (was && !is)
		for (size_t i = 0; i < n->n; i++)
			if (n->v[i]->wrong)
				mark(n->v[i]);
}

/* Whose NAD it is, was, or is to be. */
static void on_nad(void *arg, const struct kube_object *was, const struct kube_object *is)
{
	const struct kube_object *o = is ? is : was;
	const char *uid, *now = is ? nad_owner(world_json(is), &uid) : NULL;
	const char *before = was ? nad_owner(world_json(was), &uid) : NULL;
	struct nads *n = arg;

	if (!o) {
		add_all(n);
		return;
	}
	for (size_t i = 0; i < n->n; i++) {
		struct nads_job *j = n->v[i];

		if (strcmp(j->ns, o->ns) == 0 && ((j->nad && strcmp(j->nad, o->name) == 0) ||
						  (now && strcmp(now, j->name) == 0) ||
						  (before && strcmp(before, j->name) == 0)))
			mark(j);
	}
}

/* --- life --- */

struct nads *nads_new(const struct nads_conf *c)
{
	struct nads *n = xcalloc(1, sizeof(*n));

	n->c = *c;
	n->loop = kube_loop(c->kube);
	world_on(c->world, WORLD_MULTUSCONFIGS, on_smc, n);
	world_on(c->world, WORLD_NADS, on_nad, n);
	add_all(n);
	return n;
}

void nads_free(struct nads *n)
{
	if (!n)
		return;
	world_off(n->c.world, n);
	loop_del_timer(n->pump);
	for (size_t i = 0; i < n->n; i++)
		drop(n->v[i]);
	free(n->v);
	free(n);
}

struct nads_counts nads_counts(const struct nads *n)
{
	struct nads_counts c = n->counts;

	for (size_t i = 0; i < n->n; i++)
		c.wrong += n->v[i]->wrong;
	return c;
}
