/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "block/internal.h"

/* A pool lacks addresses: a block that nobody has, one that is nobody's; then those of others. */

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

/* Addresses of others' blocks: what is offered, and wishes for some. */

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

/* An address asked for by name: its block is claimed when nobody has it, or its owner is asked. */

/* How often its block is looked at: for an answer, and when somebody has it. */
enum { BLOCK_PLAN_NAMED_ANSWER_MS = 200, AGAIN_MS = BLOCK_SEEN_MS };

/* Of a block of ours: back, unless somebody took it. */
static void take_back(struct planner *p, const struct block_claim *c, const struct block_object *o,
		      const struct ipaddr *a)
{
	const struct block_entry *x = o ? block_entry_find(o, a) : NULL;
	struct block_op *op;

	if (c->state != CLAIM_HELD || !x || !block_entry_open(x) ||
	    !block_agrees(p->f->table, c, o))
		return;
	op = plan_add(p, OP_UNCEDE, c->pool, c->name);
	if (!op)
		return;
	op->ip = *a;
	str_copy(op->from, sizeof(op->from), x->to);
}

static void ask(struct planner *p, enum block_op_kind kind, const struct block_need *need,
		const char *block, const struct ipaddr *a)
{
	struct block_op *op = plan_add(p, kind, need->pool, block);

	if (!op)
		return;
	op->ip = *a;
	op->count = kind == OP_WISH;
}

static void block_plan_named_borrow(struct planner *p, const struct block_need *need,
				    const struct block_seen *s)
{
	struct block_op *op = plan_add(p, OP_BORROW, need->pool, s->block);

	if (!op)
		return;
	VEC_PUSH(op->ips, op->n_ips) = s->ip;
	str_copy(op->from, sizeof(op->from), s->to);
}

/* Of a block that nobody has, or that is nobody's. */
static void block_plan_named_claim(struct planner *p, const struct block_need *need,
				   const struct block_seen *s, u128 index)
{
	struct block_op *op =
		plan_add(p, s->absent ? OP_CREATE : OP_TAKE_OVER, need->pool, s->block);

	if (!op)
		return;
	op->net = s->absent ? block_net(&need->cut, index) : s->net;
	str_copy(op->version, sizeof(op->version), s->version);
}

void plan_named(struct planner *p, const struct block_need *need, const struct ipaddr *a)
{
	const struct block_table *t = p->f->table;
	const struct block_seen *s = block_seen_find(t, a);
	const struct block_object *o;
	const struct block_claim *c;
	char name[BLOCK_NAME_MAX + 1];
	int64_t age = s ? p->f->now_ms - s->at_ms : 0;
	u128 index;

	if (block_loan_find(t, a) || !block_index(&need->cut, a, &index) ||
	    block_name(need->pool, index, name) < 0)
		return;
	o = block_object_find(t, name);
	c = block_claim_find(t, name);
	if (c)
		take_back(p, c, o, a);
	/* Of another log of this node. */
	if (c || (o && strcmp(o->node, t->node) == 0))
		return;
	if (s && s->to && age < AGAIN_MS)
		plan_stray(p, need->pool, name, &(struct block_entry){.ip = s->ip, .to = s->to});
	if (!s || age >= (s->wished ? ANSWER_MS : AGAIN_MS))
		ask(p, OP_READ, need, name, a);
	else if (s->refused || s->wished)
		return;
	else if (s->to)
		block_plan_named_borrow(p, need, s);
	else if (s->absent || !*s->node)
		block_plan_named_claim(p, need, s, index);
	else if (strcmp(s->node, t->node) != 0)
		ask(p, OP_WISH, need, name, a);
}

/* --- the owner's side --- */

/* It is not to be had of us, now or soon; or it is on offer already. */
static bool is_void(const struct planner *p, const struct block_claim *c,
		    const struct block_object *o, const struct block_need *need, const char *key,
		    const struct ipaddr *a)
{
	const struct lease *l = lease_find(p->f->leases, a);
	size_t n = strlen(p->f->table->node);

	return !ipnet_contains(&c->net, a) ||
	       !(ip_set_has(need->usable, a) || (need->adopted && ip_set_has(need->adopted, a))) ||
	       block_is_ceded(c, a) || block_entry_find(o, a) || block_has_pod(p->f, a) ||
	       (l && l->state == LEASE_QUARANTINED && block_is_busy(p->f, a)) ||
	       (strncmp(key, p->f->table->node, n) == 0 && key[n] == '@');
}

/*
 * It is given up for anyone: if the asker is gone by now, it is no worse than any other that is on
 * offer. A wish that cannot be granted goes without it, which is the answer. What rests, or what we
 * are short of ourselves, is answered later.
 */
bool plan_grant_named(struct planner *p, const struct block_claim *c, const struct block_object *o,
		      const struct block_need *need)
{
	for (size_t i = 0; i < o->n_wanted; i++) {
		const char *key = o->wanted[i].node;
		struct block_op *op;
		struct ipaddr a;
		bool no;

		if (!block_wish_named(key, &a))
			continue;
		no = is_void(p, c, o, need, key, &a);
		if (!no && (need->want || block_is_busy(p->f, &a)))
			continue;
		op = plan_bound(p, OP_CEDE, o);
		if (!op)
			return true;
		if (!no)
			VEC_PUSH(op->ips, op->n_ips) = a;
		str_copy(op->to, sizeof(op->to), "*");
		str_copy(op->wish_of, sizeof(op->wish_of), key);
		return true;
	}
	return false;
}
