/* SPDX-License-Identifier: Apache-2.0 */
/* A pool lacks addresses: a block that nobody has, one that is nobody's, an address that others
 * cede, a wish. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "ipam/block_plan_priv.h"
#include "ipam/journal_line.h"

/*
 * Wishes go out in rounds, to 3 blocks first and to more each time, as long as nothing is ceded: in a
 * pool with room somewhere the first round mostly finds it, and one that is full to the last address
 * is not written to by every node that waits.
 */
enum {
	GUESSES = 2,
	BORROW_MOST = 64,
	WISH_FIRST = 3,
	WISH_MOST = 32,
	WISH_AGAIN_MS = 500,
	WISH_AGAIN_MOST = 8
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

/* Where this node's wishes begin in a list of others' blocks. */
static size_t wish_start(const struct planner *p)
{
	return (size_t)xxh64(p->f->table->node, strlen(p->f->table->node));
}

static bool has_wished(const struct planner *p, const struct block_view *v, const char *block)
{
	for (size_t i = 0; i < v->wished && i < v->n_others; i++)
		if (strcmp(v->others[(wish_start(p) + i) % v->n_others], block) == 0)
			return true;
	return false;
}

/* Those of one block go into one request, as long as their entries read the same. */
static bool add_offer(struct planner *p, const struct block_need *need, const struct block_offer *x)
{
	struct block_op *op = NULL;

	for (size_t i = 0; i < p->ret->n; i++)
		if (p->ret->v[i].kind == OP_BORROW && !*p->ret->v[i].token &&
		    strcmp(p->ret->v[i].name, x->block) == 0)
			op = &p->ret->v[i];
	if (!op)
		op = plan_add(p, OP_BORROW, need->pool, x->block);
	if (!op || (op->n_ips && strcmp(op->from, x->to) != 0) || op->n_ips >= BORROW_MOST)
		return false;
	VEC_PUSH(op->ips, op->n_ips) = x->ip;
	str_copy(op->from, sizeof(op->from), x->to);
	return true;
}

static size_t borrow_some(struct planner *p, const struct block_need *need,
			  const struct block_view *v, bool wished, size_t asked)
{
	for (size_t i = 0; i < v->n_offers && asked < need->want; i++) {
		const struct block_offer *x = &v->offers[(i + p->f->seed) % v->n_offers];

		if (ip_set_has(need->usable, &x->ip) && !block_loan_find(p->f->table, &x->ip) &&
		    has_wished(p, v, x->block) == wished)
			asked += add_offer(p, need, x);
	}
	return asked;
}

/* What was likely given up for us first: others go for theirs. */
static bool borrow(struct planner *p, const struct block_need *need, const struct block_view *v)
{
	size_t asked = borrow_some(p, need, v, true, 0);

	return asked || borrow_some(p, need, v, false, 0);
}

static size_t wish_round(const struct block_view *v)
{
	size_t n = v->wished < WISH_FIRST ? WISH_FIRST : v->wished;

	return n < WISH_MOST ? n : WISH_MOST;
}

static bool may_wish(const struct planner *p, const struct block_view *v)
{
	size_t rounds = v->wished / WISH_FIRST;

	if (rounds > WISH_AGAIN_MOST)
		rounds = WISH_AGAIN_MOST;
	return !v->wished_ms || p->f->now_ms - v->wished_ms >= WISH_AGAIN_MS * (int64_t)rounds;
}

/* One after the other, from a place of this node's own. */
static void wish(struct planner *p, const struct block_need *need, const struct block_view *v)
{
	size_t n = wish_round(v), from = wish_start(p);

	for (size_t i = 0; i < v->n_others && i < n; i++) {
		const char *name = v->others[(from + v->wished + i) % v->n_others];
		struct block_op *op = plan_add(p, OP_WISH, need->pool, name);

		if (op)
			op->count = need->want;
	}
}

void plan_list(struct planner *p, const struct block_need *need)
{
	struct block_op *op = &VEC_PUSH(p->ret->v, p->ret->n);

	op->kind = OP_LIST;
	str_copy(op->pool, sizeof(op->pool), need->pool);
}

/* What is known serves for a guess, unless guesses have failed: a list costs the API server more than
 * some claims that come too late. */
static bool may_guess(const struct block_view *v)
{
	return !v || !v->stale || v->misses < GUESSES;
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
	else if (!may_guess(v))
		return false;
	else if (pick_alike(p, need, v, &index))
		claim(p, need, index);
	else if (!pick(p, need, v, &index))
		return false;
	else if (!is_led(p, need))
		claim(p, need, index);
	return true;
}

static void plan_ahead(struct planner *p, const struct block_need *need)
{
	const struct block_view *v = block_view_find(p->f->table, need->pool);

	if (!claim_some(p, need, v) &&
	    (!v || v->stale || p->f->now_ms - v->at_ms >= p->f->ahead_ms))
		plan_list(p, need);
}

static void plan_asks(struct planner *p, const struct block_need *need)
{
	const struct block_view *v = block_view_find(p->f->table, need->pool);
	bool fresh = v && !v->stale && p->f->now_ms - v->at_ms < p->f->view_ms;

	if (claim_some(p, need, v))
		return;
	if (!fresh)
		plan_list(p, need);
	else if (!borrow(p, need, v) && may_wish(p, v))
		wish(p, need, v);
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
