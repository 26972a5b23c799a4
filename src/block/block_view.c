/* SPDX-License-Identifier: Apache-2.0 */
/* What lists of pools' blocks told, and what was asked of others since. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "block/block_table.h"

static void view_done(struct block_view *v)
{
	free(v->pool);
	free(v->taken);
	for (size_t i = 0; i < v->n_others; i++)
		free(v->others[i].name);
	free(v->others);
	for (size_t i = 0; i < v->n_offers; i++) {
		free(v->offers[i].block);
		free(v->offers[i].to);
	}
	free(v->offers);
	for (size_t i = 0; i < v->n_strays; i++) {
		free(v->strays[i].block);
		free(v->strays[i].to);
	}
	free(v->strays);
	for (size_t i = 0; i < v->n_orphans; i++) {
		free(v->orphans[i].name);
		free(v->orphans[i].version);
	}
	free(v->orphans);
}

void block_views_done(struct block_table *t)
{
	for (size_t i = 0; i < t->n_views; i++)
		view_done(&t->views[i]);
	free(t->views);
	t->views = NULL;
	t->n_views = 0;
}

struct block_view *block_view_find(const struct block_table *t, const char *pool)
{
	for (size_t i = 0; i < t->n_views; i++)
		if (strcmp(t->views[i].pool, pool) == 0)
			return &t->views[i];
	return NULL;
}

void block_view_stale(struct block_table *t, const char *pool)
{
	struct block_view *v = block_view_find(t, pool);

	if (!v) {
		v = &VEC_PUSH(t->views, t->n_views);
		v->pool = xstrdup(pool);
	}
	v->stale = true;
	v->misses++;
}

static int by_index(const void *a, const void *b)
{
	const u128 *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

void block_view_taken(struct block_table *t, const char *pool, const char *block)
{
	struct block_view *v = block_view_find(t, pool);
	u128 index;

	if (!v || !block_name_parse(block, pool, &index))
		return;
	v->taken = xrealloc(v->taken, (v->n_taken + 1) * sizeof(*v->taken));
	v->taken[v->n_taken++] = index;
	qsort(v->taken, v->n_taken, sizeof(*v->taken), by_index);
}

static void add_offers(struct block_view *v, const struct block_object *o, const char *node,
		       int64_t now_ms)
{
	/* What is for this node alone is for one pod of it (handover.h). */
	for (size_t i = 0; i < o->n_ceded; i++) {
		const struct block_entry *x = &o->ceded[i];

		if (block_entry_open(x) ||
		    (block_entry_promised(x) && block_entry_free_for(x, node)))
			VEC_PUSH(v->offers, v->n_offers) = (struct block_offer){
				xstrdup(o->name), x->ip, xstrdup(x->to), now_ms};
	}
}

uint32_t block_room(const struct block_object *o)
{
	unsigned int bits = ip_bits(&o->net.ip) - o->net.len;
	uint32_t size = bits < 31 ? 1u << bits : 1u << 31;

	return size > o->n_ceded ? size - (uint32_t)o->n_ceded : 0;
}

uint32_t block_spare(const struct block_object *o)
{
	uint32_t room = block_room(o);

	return room > o->busy ? room - o->busy : 0;
}

static bool has_wish(const struct block_object *o, const char *node)
{
	char key[BLOCK_WISH_MAX];

	block_wish_any(node, key);
	for (size_t i = 0; i < o->n_wanted; i++)
		if (strcmp(o->wanted[i].node, key) == 0)
			return true;
	return false;
}

/* Nobody answers for one that is nobody's. */
static void set_room(struct block_other *x, const struct block_object *o, const char *node)
{
	uint64_t crowd = 0;

	x->room = *o->node ? block_room(o) : 0;
	x->spare = *o->node ? block_spare(o) : 0;
	x->told = o->told;
	for (size_t i = 0; i < o->n_wanted; i++)
		if (!block_wish_is_of(o->wanted[i].node, node))
			crowd += o->wanted[i].count;
	x->pending = *o->node && has_wish(o, node);
	x->crowd = crowd < UINT32_MAX ? (uint32_t)crowd : UINT32_MAX;
}

static void view_add(struct block_view *v, const struct block_object *o, const char *node,
		     int64_t now_ms)
{
	struct block_other *x;

	if (strcmp(o->node, node) == 0)
		return;
	if (!*o->node)
		VEC_PUSH(v->orphans, v->n_orphans) =
			(struct block_orphan){xstrdup(o->name), xstrdup(o->version), o->net};
	x = &VEC_PUSH(v->others, v->n_others);
	*x = (struct block_other){.name = xstrdup(o->name)};
	set_room(x, o, node);
	add_offers(v, o, node, now_ms);
	for (size_t i = 0; i < o->n_ceded; i++)
		if (block_entry_is_of(&o->ceded[i], node))
			VEC_PUSH(v->strays, v->n_strays) = (struct block_offer){
				xstrdup(o->name), o->ceded[i].ip, xstrdup(o->ceded[i].to), now_ms};
}

static struct block_other *find_other(const struct block_view *v, const char *block)
{
	for (size_t i = 0; i < v->n_others; i++)
		if (strcmp(v->others[i].name, block) == 0)
			return &v->others[i];
	return NULL;
}

static void drop_offers(struct block_view *v, const char *block)
{
	for (size_t i = v->n_offers; i-- > 0;)
		if (strcmp(v->offers[i].block, block) == 0) {
			free(v->offers[i].block);
			free(v->offers[i].to);
			v->offers[i] = v->offers[--v->n_offers];
		}
}

void block_view_see(struct block_table *t, const char *pool, const char *block,
		    const struct block_object *o, int64_t now_ms)
{
	struct block_view *v = block_view_find(t, pool);
	struct block_other *x = v ? find_other(v, block) : NULL;

	if (!x)
		return;
	x->looked_ms = now_ms;
	x->looks++;
	x->room = x->spare = 0;
	x->pending = false;
	drop_offers(v, block);
	if (!o || strcmp(o->node, t->node) == 0)
		return;
	set_room(x, o, t->node);
	add_offers(v, o, t->node, now_ms);
}

/* Who was asked, and when. */
static void keep_wishes(struct block_view *is, const struct block_view *was)
{
	is->wished_ms = was->wished_ms;
	is->wished = was->wished;
	is->again = was->at_ms != 0;
	is->rounds = was->rounds + (was->wished_ms != 0);
	for (size_t i = 0; i < was->n_others; i++) {
		const struct block_other *x = &was->others[i];
		struct block_other *same = x->wished_ms ? find_other(is, x->name) : NULL;

		if (same) {
			same->wished_ms = x->wished_ms;
			same->looked_ms = x->looked_ms;
			same->looks = x->looks;
		}
	}
}

void block_view_put(struct block_table *t, const char *pool, const struct block_cut *c,
		    const struct block_object *v, size_t n, int64_t now_ms)
{
	struct block_view *x = block_view_find(t, pool),
			  new = {.pool = xstrdup(pool), .at_ms = now_ms};

	new.taken = xcalloc(n + 1, sizeof(*new.taken));
	for (size_t i = 0; i < n; i++) {
		if (strcmp(v[i].pool, pool) != 0 ||
		    (!block_index(c, &v[i].net.ip, &new.taken[new.n_taken]) &&
		     !block_name_parse(v[i].name, pool, &new.taken[new.n_taken])))
			continue;
		new.n_taken++;
		view_add(&new, &v[i], t->node, now_ms);
	}
	qsort(new.taken, new.n_taken, sizeof(*new.taken), by_index);
	if (x) {
		keep_wishes(&new, x);
		view_done(x);
	} else {
		x = &VEC_PUSH(t->views, t->n_views);
	}
	*x = new;
}
