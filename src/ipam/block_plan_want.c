/* SPDX-License-Identifier: Apache-2.0 */
/* A pool lacks addresses: a block that nobody has, one that is nobody's, an address that others
 * cede, a wish. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "ipam/block_plan_priv.h"

enum { WISH_TO = 3, WISH_AGAIN_MS = 5000 };

static bool claims_index(const struct block_table *t, const struct block_need *need, u128 index)
{
	char name[BLOCK_NAME_MAX + 1];

	return block_name(need->pool, index, name) < 0 || block_claim_find(t, name);
}

/* A block that nobody has, as far as is known. */
static bool pick(const struct planner *p, const struct block_need *need, const struct block_view *v,
		 u128 *ret)
{
	const struct block_table *t = p->f->table;
	auto_free u128 *taken = xcalloc((v ? v->n_taken : 0) + 1, sizeof(*taken));
	size_t n = v ? v->n_taken : 0;

	if (n)
		memcpy(taken, v->taken, n * sizeof(*taken));
	while (block_pick(&need->cut, need->usable, taken, n, p->f->seed, ret)) {
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

static void take_over(struct planner *p, const struct block_need *need,
		      const struct block_orphan *x)
{
	struct block_op *op = plan_add(p, OP_TAKE_OVER, need->pool, x->name);

	if (!op)
		return;
	op->net = x->net;
	str_copy(op->version, sizeof(op->version), x->version);
}

static bool borrow(struct planner *p, const struct block_need *need, const struct block_view *v)
{
	struct block_op *op;
	size_t asked = 0;

	for (size_t i = 0; i < v->n_offers && asked < need->want; i++) {
		const struct block_offer *x = &v->offers[(i + p->f->seed) % v->n_offers];

		if (block_loan_find(p->f->table, &x->ip))
			continue;
		op = plan_add(p, OP_BORROW, need->pool, x->block);
		if (!op)
			continue;
		op->ip = x->ip;
		str_copy(op->from, sizeof(op->from), x->to);
		asked++;
	}
	return asked > 0;
}

static void wish(struct planner *p, const struct block_need *need, const struct block_view *v)
{
	for (size_t i = 0; i < v->n_others && i < WISH_TO; i++) {
		const char *name = v->others[(i + p->f->seed) % v->n_others];
		struct block_op *op = plan_add(p, OP_WISH, need->pool, name);

		if (op)
			op->count = need->want;
	}
}

static void plan_list(struct planner *p, const struct block_need *need)
{
	struct block_op *op = &VEC_PUSH(p->ret->v, p->ret->n);

	op->kind = OP_LIST;
	str_copy(op->pool, sizeof(op->pool), need->pool);
}

/* The first claim is a guess: in a pool with room it mostly hits, and saves the list. */
void plan_want(struct planner *p, const struct block_need *need)
{
	const struct block_view *v = block_view_find(p->f->table, need->pool);
	bool fresh = v && !v->stale && p->f->now_ms - v->at_ms < p->f->view_ms;
	u128 index;

	if ((!v || fresh) && pick(p, need, v, &index)) {
		claim(p, need, index);
		return;
	}
	if (!fresh) {
		plan_list(p, need);
		return;
	}
	if (v->n_orphans)
		take_over(p, need, &v->orphans[p->f->seed % v->n_orphans]);
	else if (!borrow(p, need, v) &&
		 (!v->wished_ms || p->f->now_ms - v->wished_ms >= WISH_AGAIN_MS))
		wish(p, need, v);
}
