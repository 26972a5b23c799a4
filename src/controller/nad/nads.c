/* SPDX-License-Identifier: Apache-2.0 */
/* Which SpiderMultusConfigs are to be looked at, and when. */
#include <stdlib.h>
#include <string.h>

#include "controller/nad/nad_diff.h"
#include "controller/nad/nads_priv.h"

/* LOOKS: of one turn of the loop. */
enum { AT_ONCE = 8, LOOKS = 64, AGAIN_MS = 1000, AGAIN_MOST_MS = 60 * 1000 };

/* --- jobs --- */

static struct nads_job *find(const struct nads *n, const char *ns, const char *name)
{
	size_t at = nads_index_at(&n->jobs, ns, "", name);

	return nads_index_is(&n->jobs, at, ns, "") && strcmp(n->jobs.v[at]->name, name) == 0
		       ? n->jobs.v[at]->job
		       : NULL;
}

static void unqueue(struct nads_job *j)
{
	if (!j->queued)
		return;
	*(j->before ? &j->before->after : &j->n->first) = j->after;
	*(j->after ? &j->after->before : &j->n->last) = j->before;
	j->before = j->after = NULL;
	j->queued = false;
}

static void queue(struct nads_job *j)
{
	if (j->queued)
		return;
	j->queued = true;
	j->before = j->n->last;
	*(j->before ? &j->before->after : &j->n->first) = j;
	j->n->last = j;
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

static void forget_want(struct nads_job *j)
{
	if (j->nad)
		nads_index_remove(&j->n->wants, j->ns, j->nad, j->name);
}

void nads_want(struct nads_job *j, const char *nad)
{
	if (j->nad && strcmp(j->nad, nad) == 0)
		return;
	forget_want(j);
	free(j->nad);
	j->nad = xstrdup(nad);
	nads_index_add(&j->n->wants, j->ns, nad, j->name, j);
}

static void remove_job(struct nads *n, struct nads_job *j)
{
	if (j->call)
		n->flying--;
	unqueue(j);
	forget_want(j);
	nads_index_remove(&n->jobs, j->ns, "", j->name);
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
	for (int looks = 0; n->first && n->flying < AT_ONCE && is_known(n); looks++) {
		struct nads_job *j = n->first;

		if (looks == LOOKS) {
			nads_pump_soon(n);
			return;
		}
		unqueue(j);
		if (!j->call)
			nads_look_at(j);
	}
}

void nads_pump_soon(struct nads *n)
{
	if (!n->pump)
		n->pump = loop_add_timer(n->loop, 0, pump, n);
}

static void mark(struct nads_job *j)
{
	j->due = true;
	queue(j);
	nads_pump_soon(j->n);
}

void nads_answered(struct nads_job *j)
{
	if (j->due)
		queue(j);
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
		nads_index_add(&n->jobs, o->ns, "", o->name, j);
	}
	mark(j);
}

static void add_all(struct nads *n)
{
	for (size_t i = 0; i < world_count(n->c.world, WORLD_MULTUSCONFIGS); i++)
		add(n, world_at(n->c.world, WORLD_MULTUSCONFIGS, i));
}

static void mark_name(struct nads *n, const char *ns, const char *name)
{
	struct nads_job *j = find(n, ns, name);

	if (j)
		mark(j);
}

static void mark_wants(struct nads *n, const char *ns, const char *nad)
{
	for (size_t i = nads_index_at(&n->wants, ns, nad, ""); nads_index_is(&n->wants, i, ns, nad);
	     i++)
		mark(n->wants.v[i]->job);
}

/* It is gone: who waited for the name of a NAD that it has. */
static void leave(struct nads *n, const struct kube_object *was)
{
	for (size_t i = nads_index_at(&n->owned, was->ns, was->uid, "");
	     nads_index_is(&n->owned, i, was->ns, was->uid); i++)
		mark_wants(n, was->ns, n->owned.v[i]->name);
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
		leave(n, was);
	} else {
		add_all(n);
	}
}

/* --- NADs --- */

static void know(struct nads *n, const struct kube_object *o)
{
	const char *uid = "";

	if (nad_owner(world_json(o), &uid))
		nads_index_add(&n->owned, o->ns, uid, o->name, NULL);
}

/* Whose NAD it is, was, or is to be. */
static void on_nad(void *arg, const struct kube_object *was, const struct kube_object *is)
{
	const struct kube_object *o = is ? is : was;
	const char *uid = "", *owner;
	struct nads *n = arg;

	if (!o) {
		add_all(n);
		return;
	}
	owner = was ? nad_owner(world_json(was), &uid) : NULL;
	if (owner) {
		nads_index_remove(&n->owned, o->ns, uid, o->name);
		mark_name(n, o->ns, owner);
	}
	owner = is ? nad_owner(world_json(is), &uid) : NULL;
	if (owner) {
		know(n, is);
		mark_name(n, o->ns, owner);
	}
	mark_wants(n, o->ns, o->name);
}

/* --- life --- */

struct nads *nads_new(const struct nads_conf *c)
{
	struct nads *n = xcalloc(1, sizeof(*n));

	n->c = *c;
	n->loop = kube_loop(c->kube);
	world_on(c->world, WORLD_MULTUSCONFIGS, on_smc, n);
	world_on(c->world, WORLD_NADS, on_nad, n);
	for (size_t i = 0; i < world_count(c->world, WORLD_NADS); i++)
		know(n, world_at(c->world, WORLD_NADS, i));
	add_all(n);
	return n;
}

void nads_free(struct nads *n)
{
	if (!n)
		return;
	world_off(n->c.world, n);
	loop_del_timer(n->pump);
	for (size_t i = 0; i < n->jobs.n; i++)
		drop(n->jobs.v[i]->job);
	nads_index_done(&n->jobs);
	nads_index_done(&n->wants);
	nads_index_done(&n->owned);
	free(n);
}

struct nads_counts nads_counts(const struct nads *n)
{
	struct nads_counts c = n->counts;

	for (size_t i = 0; i < n->jobs.n; i++)
		c.wrong += n->jobs.v[i]->job->wrong;
	return c;
}
