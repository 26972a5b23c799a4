/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of others' blocks: what is offered, and wishes for some. */
#include <string.h>

#include "base/cleanup.h"
#include "block/block_plan_priv.h"
#include "ipam/journal/journal_line.h"

/*
 * Wishes go out in rounds. First one owner is asked for all that is wanted: in a pool with room
 * somewhere it mostly has it, and promises it. It says no: more are asked for a part each, later and
 * later. With each answer an owner says how many it has left, so that the next ones do not ask in vain:
 * those that say they have some are asked for just these, and while nobody does, a list a round looks
 * who is the first; others are asked now and then all the same, for what an owner could not say. So a
 * pool that is full to the last address is not written to all the time by every node that waits.
 */
enum {
	BORROW_MOST = 64,
	WISH_MOST = 4,
	FIRST_MS = 600,
	ROUND_MS = 200,
	ROUND_MOST = 15,      /* times as long */
	LOOK_MS = 150,	      /* for an answer; then twice as long each time */
	ANSWER_MS = 5 * 1000, /* after which none will come */
	WISH_AGAIN_MS = 3 * 1000,
	IN_VAIN = 4, /* rounds from one wish without hope to the next */
	WISH_FORGET_MS = 60 * 1000,
	PROMISED_MS = 4000, /* as long as that lasts for certain */
};

static const struct block_other *other(const struct block_view *v, const char *block)
{
	for (size_t i = 0; i < v->n_others; i++)
		if (strcmp(v->others[i].name, block) == 0)
			return &v->others[i];
	return NULL;
}

static bool was_asked(const struct planner *p, const struct block_other *x, int64_t ms)
{
	return x && x->wished_ms && p->f->now_ms - x->wished_ms < ms;
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

enum offer_kind { PROMISED, OF_ASKED, OF_ANY };

static enum offer_kind kind_of(const struct planner *p, const struct block_view *v,
			       const struct block_offer *x)
{
	if (strcmp(x->to, "*") != 0)
		return PROMISED;
	return was_asked(p, other(v, x->block), WISH_FORGET_MS) ? OF_ASKED : OF_ANY;
}

static bool lasts(const struct planner *p, const struct block_offer *x, enum offer_kind kind)
{
	return p->f->now_ms - x->at_ms < (kind == PROMISED ? PROMISED_MS : p->f->view_ms);
}

/* What was given up for us first; others go for theirs. */
static bool borrow(struct planner *p, const struct block_need *need, const struct block_view *v)
{
	size_t asked = 0;

	for (enum offer_kind kind = PROMISED; kind <= OF_ANY; kind++) {
		for (size_t i = 0; i < v->n_offers && asked < need->want; i++) {
			const struct block_offer *x = &v->offers[(i + p->f->seed) % v->n_offers];

			if (kind_of(p, v, x) == kind && lasts(p, x, kind) &&
			    ip_set_has(need->usable, &x->ip) &&
			    !block_loan_find(p->f->table, &x->ip))
				asked += add_offer(p, need, x);
		}
		if (asked)
			return true;
	}
	return false;
}

/* --- wishes --- */

/* Nodes that lack addresses at the same time shall not ask the same owners: each has times of its own,
 * and sees whom others have asked by then. */
static int64_t of_this_node(const struct planner *p, int64_t ms, unsigned int round)
{
	uint64_t n = xxh64(p->f->table->node, strlen(p->f->table->node)) + round;

	return ms * (int64_t)(xxh64((const char *)&n, sizeof(n)) % 101) / 100;
}

static int64_t round_ms(const struct planner *p, const struct block_view *v)
{
	int64_t ms = ROUND_MS * (int64_t)(1 + (v->rounds < ROUND_MOST ? v->rounds : ROUND_MOST));

	return ms / 2 + of_this_node(p, ms, v->rounds);
}

/* What it says of others is not so any more, likely. */
static bool is_old(const struct planner *p, const struct block_view *v)
{
	int64_t ms = round_ms(p, v) > p->f->view_ms ? round_ms(p, v) : p->f->view_ms;

	return p->f->now_ms - v->at_ms >= ms;
}

/* The first list was to find a block; another one, some time later, is to find whom to ask. */
static bool is_first(const struct planner *p, const struct block_view *v)
{
	return !v->again && !v->wished_ms && p->f->now_ms - v->at_ms < FIRST_MS;
}

static bool is_due(const struct planner *p, const struct block_view *v)
{
	if (is_first(p, v))
		return p->f->now_ms - v->at_ms >= of_this_node(p, FIRST_MS, 0);
	return v->at_ms <= v->wished_ms || is_old(p, v);
}

/* Whether somebody may answer yet; each is looked at now and then. */
static bool is_asking(struct planner *p, const struct block_need *need, const struct block_view *v)
{
	bool pending = false;

	for (size_t i = 0; i < v->n_others; i++) {
		const struct block_other *x = &v->others[i];

		if (!x->pending || !was_asked(p, x, ANSWER_MS))
			continue;
		pending = true;
		if (p->f->now_ms - x->looked_ms >= (int64_t)LOOK_MS << x->looks)
			plan_add(p, OP_READ, need->pool, x->name);
	}
	return pending || (v->wished_ms && p->f->now_ms - v->wished_ms < round_ms(p, v));
}

/* What it says that it has, less what others ask for. Who says nothing: the fewer of its addresses others
 * have, the more it has to give, likely. */
static int64_t hope(const struct block_other *x)
{
	return (int64_t)x->spare - x->crowd;
}

/* By what it says; or nobody knows, and it was not asked yet. */
static bool is_hopeful(const struct planner *p, const struct block_other *x)
{
	return x->told ? hope(x) > 0 : !was_asked(p, x, WISH_FORGET_MS);
}

/* Of those with hope, the one with the most; else whoever was asked longest ago: only the owner knows
 * what its pods have. */
static bool is_better(const struct planner *p, const struct block_other *x,
		      const struct block_other *than)
{
	bool hopeful = is_hopeful(p, x), before = is_hopeful(p, than);

	if (hopeful && before)
		return hope(x) > hope(than);
	return hopeful == before ? x->wished_ms < than->wished_ms : hopeful;
}

/* Of those that were not asked lately; of equals, the first from a place of this node's own. */
static const struct block_other *best(const struct planner *p, const struct block_view *v)
{
	size_t from = (size_t)xxh64(p->f->table->node, strlen(p->f->table->node));
	const struct block_other *ret = NULL;

	for (size_t i = 0; i < v->n_others; i++) {
		const struct block_other *x = &v->others[(from + i) % v->n_others];

		if (x->room && !was_asked(p, x, WISH_AGAIN_MS) && !plan_has(p, x->name) &&
		    (!ret || is_better(p, x, ret)))
			ret = x;
	}
	return ret;
}

/* What it is asked for: what it says that it has, or a part. */
static uint32_t part(const struct block_other *x, uint32_t want, uint32_t left, uint32_t n)
{
	uint32_t part = (want + n - 1) / n;

	if (x->told && hope(x) > 0)
		part = (uint32_t)hope(x);
	return part < left ? part : left;
}

static void wish(struct planner *p, const struct block_need *need, const struct block_view *v)
{
	uint32_t n = v->rounds < 6 ? 1u << (v->rounds / 3) : WISH_MOST, left = need->want;
	bool in_vain = p->f->now_ms - v->wished_ms >= IN_VAIN * round_ms(p, v);
	const struct block_other *x;

	for (uint32_t i = 0; i < WISH_MOST && left && (x = best(p, v)); i++) {
		bool sure = x->told && hope(x) > 0;
		struct block_op *op;

		if ((!sure && i >= n) || (x->told && !sure && !in_vain))
			return;
		op = plan_add(p, OP_WISH, need->pool, x->name);
		if (!op)
			return;
		op->count = part(x, need->want, left, n);
		left -= op->count;
	}
}

/* A round begins with a list: who has room by now. */
void plan_ask_others(struct planner *p, const struct block_need *need, const struct block_view *v)
{
	if (borrow(p, need, v) || is_asking(p, need, v))
		return;
	if (is_due(p, v))
		plan_list(p, need);
	else if (!is_first(p, v))
		wish(p, need, v);
}
