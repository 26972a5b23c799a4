/* SPDX-License-Identifier: Apache-2.0 */
#include "block/block_op_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

void block_op_done(struct block_op *op)
{
	free(op->ips);
	*op = (struct block_op){0};
}

void op_draft_done(struct draft *d)
{
	free(d->ceded);
}

struct draft op_draft_of(const struct block_claim *c, size_t more)
{
	struct draft d = {.c = *c};

	d.ceded = xcalloc(c->n_ceded + more + 1, sizeof(*d.ceded));
	if (c->n_ceded)
		memcpy(d.ceded, c->ceded, c->n_ceded * sizeof(*d.ceded));
	d.c.ceded = d.ceded;
	return d;
}

static int begin_leave(struct block_log *l, struct block_table *t, const struct block_op *op,
		       struct err *e)
{
	const struct block_claim *c = block_claim_find(t, op->name);
	struct block_claim n;

	if (!c || c->state == CLAIM_LEAVING)
		return 0;
	n = *c;
	n.state = CLAIM_LEAVING;
	return block_log_claim(l, t, &n, e);
}

static int begin_cede(struct block_log *l, struct block_table *t, const struct block_op *op,
		      struct err *e)
{
	const struct block_claim *c = block_claim_find(t, op->name);
	auto_draft struct draft d = {0};
	size_t before;

	if (!c || c->state != CLAIM_HELD)
		return err_set(e, -ESTALE, "cede of '%s': it is not ours any more", op->name);
	d = op_draft_of(c, op->n_ips);
	before = d.c.n_ceded;
	for (size_t i = 0; i < op->n_ips; i++)
		if (!block_is_ceded(c, &op->ips[i]))
			d.ceded[d.c.n_ceded++] = op->ips[i];
	return d.c.n_ceded == before ? 0 : block_log_claim(l, t, &d.c, e);
}

int op_put_loan(struct block_log *l, struct block_table *t, const struct block_op *op,
		enum loan_state state, struct err *e)
{
	const struct block_loan *was = block_loan_find(t, &op->ip);
	struct block_loan n = {
		.block = (char *)op->name, .pool = (char *)op->pool, .ip = op->ip, .state = state};

	if ((!was && state != LOAN_ASKING) || (was && was->state == state))
		return 0;
	str_copy(n.token, sizeof(n.token), was ? was->token : op->token);
	n.said = was && was->said;
	return block_log_loan(l, t, &n, e);
}

/* Others' blocks are of interest as long as there are loans of them. */
void op_forget(struct block_table *t, const char *name)
{
	const struct block_object *o = block_object_find(t, name);

	if (!o || strcmp(o->node, t->node) == 0 || block_claim_find(t, name))
		return;
	for (size_t i = 0; i < t->n_loans; i++)
		if (strcmp(t->loans[i].block, name) == 0)
			return;
	block_object_remove(t, name);
}

int op_drop_claim(struct block_log *l, struct block_table *t, const struct block_claim *c,
		  struct err *e)
{
	struct block_claim n = *c;

	n.state = CLAIM_GONE;
	return block_log_claim(l, t, &n, e);
}

static int forget_ours(struct block_log *l, struct block_table *t, const struct block_op *op,
		       struct err *e)
{
	const struct block_claim *c = block_claim_find(t, op->name);
	int r = 0;

	if (op->ip.family)
		r = op_put_loan(l, t, op, LOAN_GONE, e);
	else if (c)
		r = op_drop_claim(l, t, c, e);
	op_forget(t, op->name);
	return r;
}

/*
 * With one token: they were asked for together. Those that the claim's pods have and that another's
 * object is to say get a new one, whatever loans there are: an older request may be under way.
 */
static int begin_loans(struct block_log *l, struct block_table *t, struct block_op *op,
		       struct err *e)
{
	auto_free struct block_loan *v = xcalloc(op->n_ips + 1, sizeof(*v));
	size_t n = 0;

	op->first = !*op->token;
	if (op->first)
		block_log_token(l, op->token);
	block_entry_ours(t->node, op->token, op->to);
	for (size_t i = 0; i < op->n_ips; i++) {
		if (block_loan_find(t, &op->ips[i]) && (op->kind == OP_BORROW || !op->first))
			continue;
		v[n].block = op->name;
		v[n].pool = op->pool;
		v[n].ip = op->ips[i];
		v[n].state = LOAN_ASKING;
		v[n].said = op->kind == OP_ASSERT;
		str_copy(v[n++].token, sizeof(v->token), op->token);
	}
	return n ? block_log_loans(l, t, v, n, e) : 0;
}

int block_op_begin(struct block_log *l, struct block_table *t, struct block_op *op, struct err *e)
{
	int r = block_log_sync(l, t, e);

	if (r < 0)
		return r;
	switch (op->kind) {
	case OP_CREATE:
	case OP_ADOPT:
	case OP_TAKE_OVER: block_log_token(l, op->token); return 0;
	case OP_DELETE:
	case OP_DISOWN: return begin_leave(l, t, op, e);
	case OP_CEDE: return begin_cede(l, t, op, e);
	case OP_BORROW:
	case OP_ASSERT: return begin_loans(l, t, op, e);
	case OP_FORGET: return forget_ours(l, t, op, e);
	case OP_RETURN: return op_put_loan(l, t, op, LOAN_RETURNING, e);
	default: return 0;
	}
}
