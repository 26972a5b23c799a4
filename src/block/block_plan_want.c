/* SPDX-License-Identifier: Apache-2.0 */
/* A pool lacks addresses: a block that nobody has, one that is nobody's; then those of others. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "block/block_plan_priv.h"
#include "ipam/journal/journal_line.h"

enum {
	GUESSES = 2,
	FEW = 4096, /* addresses: a list of their blocks costs less than another guess that fails */
};

/* A claim, or a foreign block of this node. */
static bool claims_index(const struct block_table *t, const struct block_need *need, u128 index)
{
	char name[BLOCK_NAME_MAX + 1];
	const struct block_object *o;

	if (block_name(need->pool, index, name) < 0)
		return true;
	o = block_object_find(t, name);
	return block_claim_find(t, name) || (o && strcmp(o->node, t->node) == 0);
}

static bool is_taken(const struct block_view *v, u128 index)
{
	for (size_t i = 0; v && i < v->n_taken; i++)
		if (v->taken[i] == index)
			return true;
	return false;
}

/* The block at that place among the pool's. */
static bool at_place(const struct block_need *need, u128 place, u128 *ret)
{
	u128 first = 0, found;

	if (!block_next(&need->cut, need->usable, &first) ||
	    place >= block_count(&need->cut) - first)
		return false;
	found = *ret = first + place;
	return block_next(&need->cut, need->usable, &found) && found == *ret;
}

static bool place_of(const struct block_need *need, const struct block_claim *c, u128 *ret)
{
	u128 first = 0, index;

	if (!block_index(&need->cut, &c->net.ip, &index) ||
	    !block_next(&need->cut, need->usable, &first) || index < first)
		return false;
	*ret = index - first;
	return true;
}

/*
 * Rails are alike: where a node has got a block in one pool, past all others who tried, nobody else
 * looks for the same place in the next pools. So one search serves all of them, mostly.
 */
static bool pick_alike(const struct planner *p, const struct block_need *need,
		       const struct block_view *v, u128 *ret)
{
	const struct block_table *t = p->f->table;
	u128 place;

	for (size_t i = 0; i < t->n_claims; i++) {
		const struct block_claim *c = &t->claims[i];
		const struct block_need *n = plan_need(p->f, c->pool);

		if (n && n != need && n->cut.prefix && c->state == CLAIM_HELD &&
		    place_of(n, c, &place) && at_place(need, place, ret) && !is_taken(v, *ret) &&
		    !claims_index(t, need, *ret))
			return true;
	}
	return false;
}

/* A claim in another pool is under way: where that succeeds is the place to look in this one. */
static bool is_led(const struct planner *p, const struct block_need *need)
{
	for (size_t i = 0; i < p->ret->n; i++)
		if (p->ret->v[i].kind == OP_CREATE && strcmp(p->ret->v[i].pool, need->pool) != 0)
			return true;
	for (size_t i = 0; i < p->f->n_needs; i++)
		if (p->f->needs[i].claiming)
			return true;
	return false;
}

/* A block that nobody has, as far as is known. */
static bool pick(const struct planner *p, const struct block_need *need, const struct block_view *v,
		 u128 *ret)
{
	const struct block_table *t = p->f->table;
	auto_free u128 *taken = xcalloc((v ? v->n_taken : 0) + 1, sizeof(*taken));
	size_t n = v ? v->n_taken : 0;
	/* Who meets another node in one pool shall not do so in all. */
	uint64_t seed = p->f->seed ^ xxh64(need->pool, strlen(need->pool));

	if (n)
		memcpy(taken, v->taken, n * sizeof(*taken));
	while (block_pick(&need->cut, need->usable, taken, n, seed, ret)) {
		size_t at = n;

		if (!claims_index(t, need, *ret))
			return true;
		taken = xrealloc(taken, (n + 2) * sizeof(*taken));
		for (; at > 0 && taken[at - 1] > *ret; at--)
			taken[at] = taken[at - 1];
		taken[at] = *ret;
		n++;
	}
	return false;
}

static void claim(struct planner *p, const struct block_need *need, u128 index)
{
	char name[BLOCK_NAME_MAX + 1];
	struct block_op *op;

	block_name(need->pool, index, name);
	op = plan_add(p, OP_CREATE, need->pool, name);
	if (op)
		op->net = block_net(&need->cut, index);
}

/* One that is nobody's, as the last list has it. NULL: there is none. */
static const struct block_orphan *orphan(const struct planner *p, const struct block_view *v)
{
	for (size_t i = 0; v && i < v->n_orphans; i++) {
		const struct block_orphan *x = &v->orphans[(i + p->f->seed) % v->n_orphans];

		if (!block_claim_find(p->f->table, x->name))
			return x;
	}
	return NULL;
}

static void take_over(struct planner *p, const struct block_need *need,
		      const struct block_orphan *x)
{
	struct block_op *op = plan_add(p, OP_TAKE_OVER, need->pool, x->name);

	if (!op)
		return;
	op->net = x->net;
	str_copy(op->version, sizeof(op->version), x->version);
}

void plan_list(struct planner *p, const struct block_need *need)
{
	struct block_op *op = &VEC_PUSH(p->ret->v, p->ret->n);

	op->kind = OP_LIST;
	str_copy(op->pool, sizeof(op->pool), need->pool);
}

/* What is known serves for a guess, unless guesses have failed: a list costs the API server more than
 * some claims that come too late. */
static bool may_guess(const struct block_need *need, const struct block_view *v)
{
	unsigned int most = ip_set_count(need->usable) <= FEW ? 1 : GUESSES;

	return !v || !v->stale || v->misses < most;
}

/*
 * What nobody is known to have: a block that was left and still lies there, before a new one. Others
 * may have been faster, which the claim then says; so a list that shows room serves for long. The
 * first claims are guesses: in a pool with room they mostly hit, and save the list.
 */
static bool claim_some(struct planner *p, const struct block_need *need, const struct block_view *v)
{
	const struct block_orphan *x = v && v->stale ? NULL : orphan(p, v);
	u128 index;

	if (x)
		take_over(p, need, x);
	else if (!may_guess(need, v))
		return false;
	else if (pick_alike(p, need, v, &index))
		claim(p, need, index);
	else if (!pick(p, need, v, &index))
		return false;
	else if (!is_led(p, need))
		claim(p, need, index);
	return true;
}

/* Others have addresses of ours, or we of theirs: there is nothing to spare for a reserve. */
static bool is_scarce(const struct planner *p, const struct block_need *need)
{
	const struct block_table *t = p->f->table;

	for (size_t i = 0; i < t->n_claims; i++)
		if (t->claims[i].n_ceded && strcmp(t->claims[i].pool, need->pool) == 0)
			return true;
	for (size_t i = 0; i < t->n_loans; i++)
		if (strcmp(t->loans[i].pool, need->pool) == 0)
			return true;
	return false;
}

static void plan_ahead(struct planner *p, const struct block_need *need)
{
	const struct block_view *v = block_view_find(p->f->table, need->pool);
	bool shown = v && !v->stale && v->at_ms;

	if ((shown || !is_scarce(p, need)) && claim_some(p, need, v))
		return;
	if (is_scarce(p, need) && (!v || !v->at_ms))
		return;
	if (!v || (v->stale && !is_scarce(p, need)) || p->f->now_ms - v->at_ms >= p->f->ahead_ms)
		plan_list(p, need);
}

static void plan_asks(struct planner *p, const struct block_need *need)
{
	const struct block_view *v = block_view_find(p->f->table, need->pool);

	if (claim_some(p, need, v))
		return;
	if (!v || v->stale)
		plan_list(p, need);
	else
		plan_ask_others(p, need, v);
}

void plan_want(struct planner *p, const struct block_need *need)
{
	for (size_t i = 0; i < need->n_names; i++)
		plan_named(p, need, &need->names[i]);
	if (need->want)
		plan_asks(p, need);
	else if (!plan_look(p, need) && need->ahead)
		plan_ahead(p, need);
}
