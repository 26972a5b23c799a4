/* SPDX-License-Identifier: Apache-2.0 */
/* An address asked for by name: its block is claimed when nobody has it, or its owner is asked. */
#include <string.h>

#include "base/cleanup.h"
#include "block/block_plan_priv.h"

/* How often its block is looked at: for an answer, and when somebody has it. */
enum { ANSWER_MS = 200, AGAIN_MS = BLOCK_SEEN_MS };

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

static void borrow(struct planner *p, const struct block_need *need, const struct block_seen *s)
{
	struct block_op *op = plan_add(p, OP_BORROW, need->pool, s->block);

	if (!op)
		return;
	VEC_PUSH(op->ips, op->n_ips) = s->ip;
	str_copy(op->from, sizeof(op->from), s->to);
}

/* Of a block that nobody has, or that is nobody's. */
static void claim(struct planner *p, const struct block_need *need, const struct block_seen *s,
		  u128 index)
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
		borrow(p, need, s);
	else if (s->absent || !*s->node)
		claim(p, need, s, index);
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
