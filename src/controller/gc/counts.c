/* SPDX-License-Identifier: Apache-2.0 */
/* Which pools are to be looked at, and all endpoints once for these. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "controller/gc/counts_priv.h"

/* HINTS: rails of a pod; the next endpoint has mostly the same pools in the same order. */
enum { TICK_MS = 15 * 1000, SOON_MS = 200, HINTS = 16, SHOWN_MS = 5000 };

static void on_timer(void *arg);

int64_t counts_now(const struct counts *c)
{
	return loop_now_ms(kube_loop(c->conf.kube));
}

/* Never later than it was to be. */
void counts_soon(struct counts *c, int64_t ms)
{
	if (c->timer && c->at <= counts_now(c) + ms)
		return;
	loop_del_timer(c->timer);
	c->at = counts_now(c) + ms;
	c->timer = loop_add_timer(kube_loop(c->conf.kube), ms, on_timer, c);
}

/* --- pools --- */

static void pool_free(struct counts_pool *p)
{
	kube_cancel(p->call);
	counts_freed(p, false);
	records_done(&p->own);
	free(p->name);
	free(p->base);
	free(p->got);
	free(p->got_version);
	free(p->said);
	free(p);
}

static struct counts_pool *find(const struct counts *c, const char *name)
{
	size_t low = 0, high = c->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		int r = strcmp(c->v[mid]->name, name);

		if (r == 0)
			return c->v[mid];
		if (r < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return NULL;
}

static struct counts_pool *pool_new(struct counts *c, const char *name)
{
	struct counts_pool *p = xcalloc(1, sizeof(*p));

	*p = (struct counts_pool){.c = c, .name = xstrdup(name), .dirty = true};
	return p;
}

/* Those that there are, in the same order. */
static void take_pools(struct counts *c)
{
	size_t n = world_count(c->conf.world, WORLD_POOLS), at = 0;
	struct counts_pool **v = xcalloc(n + 1, sizeof(struct counts_pool *));

	for (size_t i = 0; i < n; i++) {
		const char *name = world_at(c->conf.world, WORLD_POOLS, i)->name;

		while (at < c->n && strcmp(c->v[at]->name, name) < 0)
			pool_free(c->v[at++]);
		if (at < c->n && strcmp(c->v[at]->name, name) == 0)
			v[i] = c->v[at++];
		else
			v[i] = pool_new(c, name);
	}
	while (at < c->n)
		pool_free(c->v[at++]);
	free(c->v);
	c->v = v;
	c->n = n;
}

void counts_said(struct counts_pool *p, const struct err *e)
{
	if (p->said && strcmp(p->said, e->text) == 0)
		return;
	free(p->said);
	p->said = xstrdup(e->text);
	log_warn("a pool's status is not kept for now", LOG_S("pool", p->name),
		 LOG_S("error", e->text));
}

/* --- a pass --- */

/* What was written has to be seen first: else it would be written again. */
static bool is_shown(struct counts_pool *p, const struct kube_object *o)
{
	if (p->base && strcmp(p->base, o->version) == 0 && counts_now(p->c) < p->base_until)
		return false;
	free(take(p->base));
	return true;
}

static size_t choose(struct counts *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n; i++) {
		struct counts_pool *p = c->v[i];

		p->due = p->dirty && !p->call && p->next_ms <= counts_now(c) &&
			 is_shown(p, world_at(c->conf.world, WORLD_POOLS, i));
		n += p->due;
	}
	return n;
}

static void collect_one(struct counts *c, const struct kube_object *o,
			struct counts_pool *hints[static HINTS])
{
	const struct census_endpoint *x = census_endpoint(o);

	for (size_t i = 0; i < x->n; i++) {
		struct counts_pool **p = &hints[i % HINTS];

		if (!*p || strcmp((*p)->name, x->v[i].pool) != 0)
			*p = find(c, x->v[i].pool);
		if (*p && (*p)->due)
			records_add(&(*p)->own,
				    &(struct record){x->v[i].ip, o->ns, o->name, x->uid});
	}
}

/* Others' endpoints are Spiderpool's: what these have is in the old records. */
static void collect(struct counts *c)
{
	struct counts_pool *hints[HINTS] = {0};

	for (size_t i = 0; i < census_count(c->conf.census, CENSUS_ENDPOINTS); i++) {
		const struct kube_object *o = census_at(c->conf.census, CENSUS_ENDPOINTS, i);

		if (census_endpoint(o)->ours)
			collect_one(c, o, hints);
	}
}

static void tick(struct counts *c)
{
	if (counts_now(c) - c->ticked < TICK_MS)
		return;
	c->ticked = counts_now(c);
	for (size_t i = 0; i < c->n; i++)
		c->v[i]->dirty |= c->v[i]->adopted;
}

static int64_t wait_of(const struct counts *c)
{
	int64_t wait = TICK_MS;

	for (size_t i = 0; i < c->n; i++) {
		const struct counts_pool *p = c->v[i];
		int64_t ms = p->next_ms - counts_now(c);

		if (!p->dirty || p->call)
			continue;
		if (ms < SOON_MS)
			ms = SOON_MS;
		if (ms < wait)
			wait = ms;
	}
	return wait;
}

static void on_timer(void *arg)
{
	struct counts *c = arg;

	c->timer = NULL;
	if (!world_synced(c->conf.world, WORLD_POOLS) || !census_is_whole(c->conf.census) ||
	    world_hold(c->conf.world) == WORLD_HEARS) {
		counts_soon(c, SOON_MS);
		return;
	}
	take_pools(c);
	tick(c);
	if (choose(c) > 0)
		collect(c);
	for (size_t i = 0; i < c->n; i++) {
		struct counts_pool *p = c->v[i];

		if (!p->due)
			continue;
		p->dirty = false;
		counts_act(p, world_at(c->conf.world, WORLD_POOLS, i));
		records_done(&p->own);
	}
	counts_soon(c, wait_of(c));
}

/* --- what changes --- */

static void mark(struct counts *c, const struct kube_object *o)
{
	const struct census_endpoint *x = o ? census_endpoint(o) : NULL;

	for (size_t i = 0; x && x->ours && i < x->n; i++) {
		struct counts_pool *p = find(c, x->v[i].pool);

		if (p)
			p->dirty = true;
	}
}

void counts_changed(struct counts *c, enum census_kind kind, const struct kube_object *was,
		    const struct kube_object *is)
{
	if (kind == CENSUS_ENDPOINTS) {
		mark(c, was);
		mark(c, is);
		counts_soon(c, SOON_MS);
	}
	/* A pod that came again has its record back, one that went may lose it. */
	if (kind == CENSUS_PODS && (!was || !is))
		counts_answered(c);
}

void counts_answered(struct counts *c)
{
	bool any = false;

	for (size_t i = 0; i < c->n; i++) {
		c->v[i]->dirty |= c->v[i]->adopted;
		any |= c->v[i]->adopted;
	}
	if (any)
		counts_soon(c, SOON_MS);
}

static void on_pool(void *arg, const struct kube_object *was, const struct kube_object *is)
{
	struct counts *c = arg;
	struct counts_pool *p = is ? find(c, is->name) : NULL;

	(void)was;
	if (p)
		p->dirty = true;
	counts_soon(c, SOON_MS);
}

/* --- life --- */

struct counts *counts_new(const struct counts_conf *conf)
{
	struct counts *c = xcalloc(1, sizeof(*c));

	c->conf = *conf;
	world_on(conf->world, WORLD_POOLS, on_pool, c);
	counts_soon(c, 0);
	return c;
}

void counts_free(struct counts *c)
{
	if (!c)
		return;
	world_off(c->conf.world, c);
	loop_del_timer(c->timer);
	for (size_t i = 0; i < c->n; i++)
		pool_free(c->v[i]);
	free(c->v);
	free(c);
}

struct counts_stats counts_stats(const struct counts *c)
{
	return c->stats;
}

bool counts_pool_at(const struct counts *c, size_t i, struct counts_pool_stats *ret)
{
	if (i >= c->n)
		return false;
	*ret = (struct counts_pool_stats){c->v[i]->name, c->v[i]->looked, c->v[i]->total,
					  c->v[i]->allocated};
	return true;
}
