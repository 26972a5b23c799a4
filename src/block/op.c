/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "block/internal.h"

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

/* Objects of peers are needed only while there are loans from them. */
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

/* All get one token, because they are requested together. Asserted addresses and those of a
 * claim's pods get a new token whatever loans exist, since an older request may be in flight. */
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

/* The end of a request, and what follows from it. */

enum { WISH_FORGET_MS = 60 * 1000 };

static void add_ceded(struct draft *d, const struct ipaddr *a)
{
	if (!block_is_ceded(&d->c, a))
		d->ceded[d->c.n_ceded++] = *a;
}

/*
 * The object belongs to this node by a token of this log. Without a claim only the answer to the
 * request that obtains it counts: the object may be an old version (etcd was restored), and another
 * node may have owned the block since. If the object of a claim was lost, its released addresses
 * stay released. A claim that is being left is never taken again.
 */
static int gained(struct block_log *l, struct block_table *t, const struct block_object *o,
		  enum block_op_kind kind, struct err *e)
{
	const struct block_claim *was = block_claim_find(t, o->name);
	struct block_claim fresh = {.name = o->name, .pool = o->pool};
	bool asked = kind == OP_CREATE || kind == OP_TAKE_OVER || kind == OP_ADOPT;
	auto_draft struct draft d = {0};

	if (strcmp(o->node, t->node) != 0 || !block_log_is_ours(l, o->claim) ||
	    (was && block_is_of(t, was, o)) || (was && was->state == CLAIM_LEAVING) ||
	    (!was && !asked))
		return 0;
	d = op_draft_of(was ? was : &fresh, o->n_ceded);
	for (size_t i = 0; i < o->n_ceded; i++)
		add_ceded(&d, &o->ceded[i].ip);
	d.c.uid = o->uid;
	d.c.net = o->net;
	d.c.state = CLAIM_HELD;
	d.c.absent = false;
	str_copy(d.c.token, sizeof(d.c.token), o->claim);
	return block_log_claim(l, t, &d.c, e);
}

/*
 * The state of a loan according to a recently read object. A held loan stays held whatever the
 * object says (etcd may have been restored): it ends when no pod has the address, which
 * block_plan() checks.
 */
static enum loan_state loan_of(const struct block_log *l, const struct block_table *t,
			       const struct block_loan *x, const struct block_object *o)
{
	const struct block_entry *entry = block_entry_find(o, &x->ip);
	char ours[BLOCK_ENTRY_MAX];

	if (x->state == LOAN_HELD ||
	    (entry && strcmp(entry->to, block_entry_ours(t->node, x->token, ours)) == 0))
		return LOAN_HELD;
	if (entry &&
	    (block_entry_free_for(entry, t->node) || block_log_has_made(l, t->node, entry)))
		return LOAN_ASKING;
	return LOAN_GONE;
}

static int put_loans(struct block_log *l, struct block_table *t, struct block_loan *v, size_t n,
		     struct err *e)
{
	int r = 0;

	/* Copies the strings: the table frees its own when the loan changes. */
	for (size_t i = 0; i < n; i++) {
		v[i].block = xstrdup(v[i].block);
		v[i].pool = xstrdup(v[i].pool);
	}
	if (n)
		r = block_log_loans(l, t, v, n, e);
	for (size_t i = 0; i < n; i++) {
		free(v[i].block);
		free(v[i].pool);
	}
	return r;
}

static int settle_loans(struct block_log *l, struct block_table *t, const struct block_object *o,
			struct err *e)
{
	auto_free struct block_loan *v = xcalloc(t->n_loans + 1, sizeof(*v));
	size_t n = 0;

	for (size_t i = 0; i < t->n_loans; i++) {
		const struct block_loan *x = &t->loans[i];
		enum loan_state state = x->state;

		if (state != LOAN_RETURNING && strcmp(x->block, o->name) == 0)
			state = loan_of(l, t, x, o);
		if (state == x->state)
			continue;
		v[n] = *x;
		v[n++].state = state;
	}
	return put_loans(l, t, v, n, e);
}

/* Drops the loans of a block that were not obtained: the request was refused, or the block does
 * not exist. */
static int drop_loans(struct block_log *l, struct block_table *t, const char *block,
		      const char *token, struct err *e)
{
	auto_free struct block_loan *v = xcalloc(t->n_loans + 1, sizeof(*v));
	size_t n = 0;

	for (size_t i = 0; i < t->n_loans; i++) {
		const struct block_loan *x = &t->loans[i];

		if (x->state == LOAN_HELD || strcmp(x->block, block) != 0 ||
		    (token && strcmp(x->token, token) != 0))
			continue;
		v[n] = *x;
		v[n++].state = LOAN_GONE;
	}
	return put_loans(l, t, v, n, e);
}

/* Records whether the block exists, according to a recent read. */
static void mark(struct block_table *t, const char *block, bool absent)
{
	struct block_claim *c = block_claim_find(t, block);

	if (c)
		c->absent = absent;
	for (size_t i = 0; i < t->n_loans; i++)
		if (strcmp(t->loans[i].block, block) == 0)
			t->loans[i].absent = absent;
}

/* Applies a recently read object. */
static int learn(struct block_log *l, struct block_table *t, const struct block_object *o,
		 enum block_op_kind kind, struct err *e)
{
	int r = gained(l, t, o, kind, e);

	mark(t, o->name, false);
	return r < 0 ? r : settle_loans(l, t, o, e);
}

static int claim_gone(struct block_log *l, struct block_table *t, const char *name, struct err *e)
{
	const struct block_claim *c = block_claim_find(t, name);

	return c && c->state == CLAIM_LEAVING ? op_drop_claim(l, t, c, e) : 0;
}

/*
 * Addresses that an answered write made usable again: those the object no longer shows. OP_UNCEDE
 * recovers only the address it was sent for, OP_TOUCH all; it is not sent while the object may be
 * an old version.
 */
static int unceded(struct block_log *l, struct block_table *t, const struct block_op *op,
		   const struct block_object *o, struct err *e)
{
	const struct block_claim *c = o ? block_claim_find(t, o->name) : NULL;
	auto_draft struct draft d = {0};
	size_t n = 0;

	if (!c || c->state != CLAIM_HELD || !block_agrees(t, c, o))
		return 0;
	d = op_draft_of(c, 0);
	for (size_t i = 0; i < d.c.n_ceded; i++)
		if (block_entry_find(o, &d.ceded[i]) ||
		    (op->kind == OP_UNCEDE && !ip_eq(&d.ceded[i], &op->ip)))
			d.ceded[n++] = d.ceded[i];
	if (n == d.c.n_ceded)
		return 0;
	d.c.n_ceded = n;
	return block_log_claim(l, t, &d.c, e);
}

/* Local pods have the addresses, and the owner of the block sees that. The claim that they came
 * from ends. */
static int asserted(struct block_log *l, struct block_table *t, const struct block_op *op,
		    struct err *e)
{
	const struct block_claim *c = block_claim_find(t, op->name);
	auto_free struct block_loan *v = xcalloc(op->n_ips + 1, sizeof(*v));
	int r;

	for (size_t i = 0; i < op->n_ips; i++) {
		v[i].block = (char *)op->name;
		v[i].pool = (char *)op->pool;
		v[i].ip = op->ips[i];
		v[i].state = LOAN_HELD;
		v[i].said = true;
		str_copy(v[i].token, sizeof(v[i].token), op->token);
	}
	r = block_log_loans(l, t, v, op->n_ips, e);
	return r >= 0 && c ? op_drop_claim(l, t, c, e) : r;
}

static int answered(struct block_log *l, struct block_table *t, const struct block_op *op,
		    const struct block_object *o, struct err *e)
{
	switch (op->kind) {
	case OP_DELETE:
	case OP_DISOWN: return claim_gone(l, t, op->name, e);
	case OP_UNCEDE:
	case OP_TOUCH: return unceded(l, t, op, o, e);
	case OP_RETURN: return op_put_loan(l, t, op, LOAN_GONE, e);
	case OP_ASSERT: return asserted(l, t, op, e);
	default: return o ? learn(l, t, o, op->kind, e) : 0;
	}
}

/* What was known of the object is wrong: forget it, so that it is read again. */
static int refused(struct block_log *l, struct block_table *t, const struct block_op *op,
		   struct err *e)
{
	if (op->kind == OP_CREATE || op->kind == OP_BORROW || op->kind == OP_TAKE_OVER)
		block_view_stale(t, op->pool);
	if (op->kind == OP_CREATE)
		block_view_taken(t, op->pool, op->name);
	mark(t, op->name, false);
	if (op->kind == OP_BORROW && op->first)
		return drop_loans(l, t, op->name, op->token, e);
	/* These learn only that the object exists. */
	if (op->kind != OP_CREATE && op->kind != OP_ADOPT)
		block_object_remove(t, op->name);
	return op->kind == OP_RETURN ? op_put_loan(l, t, op, LOAN_GONE, e) : 0;
}

static int absent(struct block_log *l, struct block_table *t, const struct block_op *op,
		  struct err *e)
{
	const struct block_claim *c = block_claim_find(t, op->name);

	if (op->kind == OP_BORROW || op->kind == OP_TAKE_OVER)
		block_view_stale(t, op->pool);
	block_object_remove(t, op->name);
	if (c && c->state == CLAIM_LEAVING)
		return claim_gone(l, t, op->name, e);
	mark(t, op->name, true);
	return drop_loans(l, t, op->name, NULL, e);
}

/* Long after the last request, the search starts over. */
static void wished(struct block_view *v, const char *block, int64_t now_ms)
{
	if (now_ms - v->wished_ms >= WISH_FORGET_MS)
		v->wished = v->rounds = 0;
	v->wished++;
	v->wished_ms = now_ms;
	for (size_t i = 0; i < v->n_others; i++)
		if (strcmp(v->others[i].name, block) == 0) {
			v->others[i].wished_ms = now_ms;
			v->others[i].looked_ms = now_ms;
			v->others[i].looks = 0;
		}
}

/* Whatever the answer was, the stray is not returned again before the next list. */
static void drop_stray(struct block_view *v, const struct ipaddr *a)
{
	for (size_t i = 0; i < v->n_strays; i++)
		if (ip_eq(&v->strays[i].ip, a)) {
			free(v->strays[i].block);
			free(v->strays[i].to);
			v->strays[i] = v->strays[--v->n_strays];
			return;
		}
}

/* Records which node has an address that was requested by name. Any other request may have changed
 * the block. */
static void look_for_named(struct block_table *t, const struct block_op *op, enum block_outcome r,
			   const struct block_object *o, int64_t now_ms)
{
	bool look = op->ip.family && (op->kind == OP_READ || op->kind == OP_WISH);

	if (look && ((r == BLOCK_OK && o) || r == BLOCK_ABSENT))
		block_seen_put(t, op->name, &op->ip, r == BLOCK_OK ? o : NULL, op->kind == OP_WISH,
			       now_ms);
	else if (*op->name)
		block_seen_drop(t, op->name);
}

int block_op_end(struct block_log *l, struct block_table *t, const struct block_op *op,
		 enum block_outcome r, struct block_object *o, int64_t now_ms, struct err *e)
{
	struct block_view *v = block_view_find(t, op->pool);
	int n = 0;

	look_for_named(t, op, r, o, now_ms);
	if (r == BLOCK_ABSENT || (r == BLOCK_OK && o && op->kind != OP_LIST))
		block_view_see(t, op->pool, op->name, r == BLOCK_OK ? o : NULL, now_ms);
	if (v && op->kind == OP_WISH && !op->ip.family)
		wished(v, op->name, now_ms);
	if (v && op->kind == OP_BORROW && r == BLOCK_OK)
		v->rounds = 0;
	if (v && op->kind == OP_RETURN && r != BLOCK_UNKNOWN)
		drop_stray(v, &op->ip);
	if (op->kind == OP_LIST || op->kind == OP_WISH)
		return 0;
	if (r == BLOCK_OK)
		n = answered(l, t, op, o, e);
	else if (r == BLOCK_REFUSED)
		n = refused(l, t, op, e);
	else if (r == BLOCK_ABSENT)
		n = absent(l, t, op, e);
	if (r == BLOCK_OK && (op->kind == OP_DELETE || op->kind == OP_DISOWN))
		block_object_remove(t, op->name);
	else if (r == BLOCK_OK && o && o->name)
		block_object_put(t, o);
	op_forget(t, op->name);
	return n;
}
