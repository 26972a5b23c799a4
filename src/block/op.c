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
	free(d->released);
}

/* more: number of further entries for which `released` gets room. */
static struct draft op_draft_of(const struct block_claim *c, size_t more)
{
	struct draft d = {.c = *c};

	d.released = xcalloc(c->n_released + more + 1, sizeof(*d.released));
	if (c->n_released)
		memcpy(d.released, c->released, c->n_released * sizeof(*d.released));
	d.c.released = d.released;
	return d;
}

static int begin_release_block(struct block_log *l, struct block_table *t,
			       const struct block_op *op, struct err *e)
{
	const struct block_claim *c = block_claim_find(t, op->name);
	struct block_claim n;

	if (!c || c->state == CLAIM_RELEASING)
		return 0;
	n = *c;
	n.state = CLAIM_RELEASING;
	return block_log_claim(l, t, &n, e);
}

static int begin_release(struct block_log *l, struct block_table *t, const struct block_op *op,
			 struct err *e)
{
	const struct block_claim *c = block_claim_find(t, op->name);
	auto_draft struct draft d = {0};
	size_t before;

	if (!c || c->state != CLAIM_HELD)
		return err_set(e, -ESTALE,
			       "release addresses of block '%s': this node no longer owns it, or "
			       "is already releasing the whole block",
			       op->name);
	d = op_draft_of(c, op->n_ips);
	before = d.c.n_released;
	for (size_t i = 0; i < op->n_ips; i++)
		if (!block_is_released(c, &op->ips[i]))
			d.released[d.c.n_released++] = op->ips[i];
	return d.c.n_released == before ? 0 : block_log_claim(l, t, &d.c, e);
}

/* Logs the given state of op->ip, if this node borrows it. */
static int op_put_borrowed(struct block_log *l, struct block_table *t, const struct block_op *op,
			   enum borrow_state state, struct err *e)
{
	const struct block_borrowed *was = block_borrowed_find(t, &op->ip);
	struct block_borrowed n = {
		.block = (char *)op->name, .pool = (char *)op->pool, .ip = op->ip, .state = state};

	if ((!was && state != BORROW_REQUESTED) || (was && was->state == state))
		return 0;
	str_copy(n.token, sizeof(n.token), was ? was->token : op->token);
	n.asserted = was && was->asserted;
	return block_log_borrowed(l, t, &n, e);
}

/* Drops the object of a peer's block if this node no longer borrows addresses from that block. */
static void op_forget(struct block_table *t, const char *name)
{
	const struct block_object *o = block_object_find(t, name);

	if (!o || strcmp(o->node, t->node) == 0 || block_claim_find(t, name))
		return;
	for (size_t i = 0; i < t->n_borrowed; i++)
		if (strcmp(t->borrowed[i].block, name) == 0)
			return;
	block_object_remove(t, name);
}

static int op_drop_claim(struct block_log *l, struct block_table *t, const struct block_claim *c,
			 struct err *e)
{
	struct block_claim n = *c;

	n.state = CLAIM_REMOVED;
	return block_log_claim(l, t, &n, e);
}

static int forget_local(struct block_log *l, struct block_table *t, const struct block_op *op,
			struct err *e)
{
	const struct block_claim *c = block_claim_find(t, op->name);
	int r = 0;

	if (op->ip.family)
		r = op_put_borrowed(l, t, op, BORROW_REMOVED, e);
	else if (c)
		r = op_drop_claim(l, t, c, e);
	op_forget(t, op->name);
	return r;
}

/* Addresses of one request share one token. OP_ASSERT without a token gets a new one, also for
 * addresses that this node already borrows, since an older request may be in flight. */
static int begin_borrowed(struct block_log *l, struct block_table *t, struct block_op *op,
			  struct err *e)
{
	auto_free struct block_borrowed *v = xcalloc(op->n_ips + 1, sizeof(*v));
	size_t n = 0;

	op->first = !*op->token;
	if (op->first)
		block_log_token(l, op->token);
	block_entry_local(t->node, op->token, op->to);
	for (size_t i = 0; i < op->n_ips; i++) {
		if (block_borrowed_find(t, &op->ips[i]) && (op->kind == OP_BORROW || !op->first))
			continue;
		v[n].block = op->name;
		v[n].pool = op->pool;
		v[n].ip = op->ips[i];
		v[n].state = BORROW_REQUESTED;
		v[n].asserted = op->kind == OP_ASSERT;
		str_copy(v[n++].token, sizeof(v->token), op->token);
	}
	return n ? block_log_borrowed_all(l, t, v, n, e) : 0;
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
	case OP_DISOWN: return begin_release_block(l, t, op, e);
	case OP_RELEASE: return begin_release(l, t, op, e);
	case OP_BORROW:
	case OP_ASSERT: return begin_borrowed(l, t, op, e);
	case OP_FORGET: return forget_local(l, t, op, e);
	case OP_RETURN: return op_put_borrowed(l, t, op, BORROW_RETURNING, e);
	default: return 0;
	}
}

/* --- end of a request: its outcome changes log and table --- */

enum { REQUEST_FORGET_MS = 60 * 1000 };

/*
 * Applies an object that belongs to this node and has a token of this log. Without a claim only the
 * answer to a request that obtains the block counts: any other object may be an old version (etcd
 * was restored), and another node may have owned the block since. If the object of a claim was
 * lost, its released addresses stay released. A claim in state CLAIM_RELEASING is never held again.
 */
static int gained(struct block_log *l, struct block_table *t, const struct block_object *o,
		  enum block_op_kind kind, struct err *e)
{
	const struct block_claim *was = block_claim_find(t, o->name);
	struct block_claim new = {.name = o->name, .pool = o->pool};
	bool requested = kind == OP_CREATE || kind == OP_TAKE_OVER || kind == OP_ADOPT;
	auto_draft struct draft d = {0};

	if (strcmp(o->node, t->node) != 0 || !block_log_has_token(l, o->claim) ||
	    (was && block_is_of(t, was, o)) || (was && was->state == CLAIM_RELEASING) ||
	    (!was && !requested))
		return 0;
	d = op_draft_of(was ? was : &new, o->n_released);
	for (size_t i = 0; i < o->n_released; i++)
		if (!was || !block_is_released(was, &o->released[i].ip))
			d.released[d.c.n_released++] = o->released[i].ip;
	d.c.uid = o->uid;
	d.c.net = o->net;
	d.c.state = CLAIM_HELD;
	d.c.absent = false;
	str_copy(d.c.token, sizeof(d.c.token), o->claim);
	return block_log_claim(l, t, &d.c, e);
}

/*
 * Returns the state of a borrowed address according to a recently read object. A held address stays
 * held even if the object contradicts (etcd may have been restored): block_plan() asserts it, or
 * ends the borrowing if no pod uses the address.
 */
static enum borrow_state borrowed_of(const struct block_log *l, const struct block_table *t,
				     const struct block_borrowed *x, const struct block_object *o)
{
	const struct block_entry *entry = block_entry_find(o, &x->ip);
	char local[BLOCK_ENTRY_MAX];

	if (x->state == BORROW_HELD ||
	    (entry && strcmp(entry->to, block_entry_local(t->node, x->token, local)) == 0))
		return BORROW_HELD;
	if (entry &&
	    (block_entry_free_for(entry, t->node) || block_log_has_made(l, t->node, entry)))
		return BORROW_REQUESTED;
	return BORROW_REMOVED;
}

static int put_borrowed_all(struct block_log *l, struct block_table *t, struct block_borrowed *v,
			    size_t n, struct err *e)
{
	int r = 0;

	/* Copies the strings: the table frees its own when the state changes. */
	for (size_t i = 0; i < n; i++) {
		v[i].block = xstrdup(v[i].block);
		v[i].pool = xstrdup(v[i].pool);
	}
	if (n)
		r = block_log_borrowed_all(l, t, v, n, e);
	for (size_t i = 0; i < n; i++) {
		free(v[i].block);
		free(v[i].pool);
	}
	return r;
}

static int settle_borrowed(struct block_log *l, struct block_table *t, const struct block_object *o,
			   struct err *e)
{
	auto_free struct block_borrowed *v = xcalloc(t->n_borrowed + 1, sizeof(*v));
	size_t n = 0;

	for (size_t i = 0; i < t->n_borrowed; i++) {
		const struct block_borrowed *x = &t->borrowed[i];
		enum borrow_state state = x->state;

		if (state != BORROW_RETURNING && strcmp(x->block, o->name) == 0)
			state = borrowed_of(l, t, x, o);
		if (state == x->state)
			continue;
		v[n] = *x;
		v[n++].state = state;
	}
	return put_borrowed_all(l, t, v, n, e);
}

/* Drops the addresses of a block that this node requested under the token: the request was refused.
 * token NULL: the block does not exist; drops all its addresses that this node requested or is
 * returning. */
static int drop_borrowed(struct block_log *l, struct block_table *t, const char *block,
			 const char *token, struct err *e)
{
	auto_free struct block_borrowed *v = xcalloc(t->n_borrowed + 1, sizeof(*v));
	size_t n = 0;

	for (size_t i = 0; i < t->n_borrowed; i++) {
		const struct block_borrowed *x = &t->borrowed[i];

		if (x->state == BORROW_HELD || strcmp(x->block, block) != 0 ||
		    (token && strcmp(x->token, token) != 0))
			continue;
		v[n] = *x;
		v[n++].state = BORROW_REMOVED;
	}
	return put_borrowed_all(l, t, v, n, e);
}

/* Records whether the block exists, according to the answer to a request. */
static void mark(struct block_table *t, const char *block, bool absent)
{
	struct block_claim *c = block_claim_find(t, block);

	if (c)
		c->absent = absent;
	for (size_t i = 0; i < t->n_borrowed; i++)
		if (strcmp(t->borrowed[i].block, block) == 0)
			t->borrowed[i].absent = absent;
}

/* Applies a recently read object. */
static int learn(struct block_log *l, struct block_table *t, const struct block_object *o,
		 enum block_op_kind kind, struct err *e)
{
	int r = gained(l, t, o, kind, e);

	mark(t, o->name, false);
	return r < 0 ? r : settle_borrowed(l, t, o, e);
}

static int claim_removed(struct block_log *l, struct block_table *t, const char *name,
			 struct err *e)
{
	const struct block_claim *c = block_claim_find(t, name);

	return c && c->state == CLAIM_RELEASING ? op_drop_claim(l, t, c, e) : 0;
}

/*
 * After an answered write, this node may allocate again the addresses that are released in its own
 * log but not in the object. OP_RECLAIM: only the address that it reclaims; OP_TOUCH: all of them.
 * OP_TOUCH is not sent while claims are frozen after a restore of etcd, when the object may be an
 * old version.
 */
static int reclaimed(struct block_log *l, struct block_table *t, const struct block_op *op,
		     const struct block_object *o, struct err *e)
{
	const struct block_claim *c = o ? block_claim_find(t, o->name) : NULL;
	auto_draft struct draft d = {0};
	size_t n = 0;

	if (!c || c->state != CLAIM_HELD || !block_agrees(t, c, o))
		return 0;
	d = op_draft_of(c, 0);
	for (size_t i = 0; i < d.c.n_released; i++)
		if (block_entry_find(o, &d.released[i]) ||
		    (op->kind == OP_RECLAIM && !ip_eq(&d.released[i], &op->ip)))
			d.released[n++] = d.released[i];
	if (n == d.c.n_released)
		return 0;
	d.c.n_released = n;
	return block_log_claim(l, t, &d.c, e);
}

/* The object now shows the addresses as borrowed by this node for local pods. The former claim of
 * the block ends. */
static int asserted(struct block_log *l, struct block_table *t, const struct block_op *op,
		    struct err *e)
{
	const struct block_claim *c = block_claim_find(t, op->name);
	auto_free struct block_borrowed *v = xcalloc(op->n_ips + 1, sizeof(*v));
	int r;

	for (size_t i = 0; i < op->n_ips; i++) {
		v[i].block = (char *)op->name;
		v[i].pool = (char *)op->pool;
		v[i].ip = op->ips[i];
		v[i].state = BORROW_HELD;
		v[i].asserted = true;
		str_copy(v[i].token, sizeof(v[i].token), op->token);
	}
	r = block_log_borrowed_all(l, t, v, op->n_ips, e);
	return r >= 0 && c ? op_drop_claim(l, t, c, e) : r;
}

static int answered(struct block_log *l, struct block_table *t, const struct block_op *op,
		    const struct block_object *o, struct err *e)
{
	switch (op->kind) {
	case OP_DELETE:
	case OP_DISOWN: return claim_removed(l, t, op->name, e);
	case OP_RECLAIM:
	case OP_TOUCH: return reclaimed(l, t, op, o, e);
	case OP_RETURN: return op_put_borrowed(l, t, op, BORROW_REMOVED, e);
	case OP_ASSERT: return asserted(l, t, op, e);
	default: return o ? learn(l, t, o, op->kind, e) : 0;
	}
}

/* Applies a refusal: after most refusals the stored object is outdated, so it is dropped and read
 * again. */
static int refused(struct block_log *l, struct block_table *t, const struct block_op *op,
		   struct err *e)
{
	if (op->kind == OP_CREATE || op->kind == OP_BORROW || op->kind == OP_TAKE_OVER)
		block_view_stale(t, op->pool);
	if (op->kind == OP_CREATE)
		block_view_taken(t, op->pool, op->name);
	mark(t, op->name, false);
	if (op->kind == OP_BORROW && op->first)
		return drop_borrowed(l, t, op->name, op->token, e);
	/* A refused OP_CREATE does not show that a stored object is outdated. After a refused
	 * OP_ADOPT the watch delivers the newer version. */
	if (op->kind != OP_CREATE && op->kind != OP_ADOPT)
		block_object_remove(t, op->name);
	return op->kind == OP_RETURN ? op_put_borrowed(l, t, op, BORROW_REMOVED, e) : 0;
}

static int absent(struct block_log *l, struct block_table *t, const struct block_op *op,
		  struct err *e)
{
	const struct block_claim *c = block_claim_find(t, op->name);

	if (op->kind == OP_BORROW || op->kind == OP_TAKE_OVER)
		block_view_stale(t, op->pool);
	block_object_remove(t, op->name);
	if (c && c->state == CLAIM_RELEASING)
		return claim_removed(l, t, op->name, e);
	mark(t, op->name, true);
	return drop_borrowed(l, t, op->name, NULL, e);
}

/* If the previous request was sent long ago, the counts of requests and rounds restart at 0. */
static void requested(struct block_view *v, const char *block, int64_t now_ms)
{
	if (now_ms - v->requested_ms >= REQUEST_FORGET_MS)
		v->requested = v->rounds = 0;
	v->requested++;
	v->requested_ms = now_ms;
	for (size_t i = 0; i < v->n_peers; i++)
		if (strcmp(v->peers[i].name, block) == 0) {
			v->peers[i].requested_ms = now_ms;
			v->peers[i].read_ms = now_ms;
			v->peers[i].reads = 0;
		}
}

/* After a return that succeeded, was refused or found no block, the leftover entry is not
 * returned again before the next list. */
static void drop_leftover(struct block_view *v, const struct ipaddr *a)
{
	for (size_t i = 0; i < v->n_leftovers; i++)
		if (ip_eq(&v->leftovers[i].ip, a)) {
			free(v->leftovers[i].block);
			free(v->leftovers[i].to);
			v->leftovers[i] = v->leftovers[--v->n_leftovers];
			return;
		}
}

/* After an OP_READ or OP_REQUEST for one particular address, records which node has it. After
 * any other request, or without an answer, drops the stored lookups of the block, which may have
 * changed. */
static void lookup_named(struct block_table *t, const struct block_op *op, enum block_outcome r,
			 const struct block_object *o, int64_t now_ms)
{
	bool rescan = op->ip.family && (op->kind == OP_READ || op->kind == OP_REQUEST);

	if (rescan && ((r == BLOCK_OK && o) || r == BLOCK_ABSENT))
		block_lookup_put(t, op->name, &op->ip, r == BLOCK_OK ? o : NULL,
				 op->kind == OP_REQUEST, now_ms);
	else if (*op->name)
		block_lookup_drop(t, op->name);
}

int block_op_end(struct block_log *l, struct block_table *t, const struct block_op *op,
		 enum block_outcome r, struct block_object *o, int64_t now_ms, struct err *e)
{
	struct block_view *v = block_view_find(t, op->pool);
	int n = 0;

	lookup_named(t, op, r, o, now_ms);
	if (r == BLOCK_ABSENT || (r == BLOCK_OK && o && op->kind != OP_LIST))
		block_view_see(t, op->pool, op->name, r == BLOCK_OK ? o : NULL, now_ms);
	if (v && op->kind == OP_REQUEST && !op->ip.family)
		requested(v, op->name, now_ms);
	if (v && op->kind == OP_BORROW && r == BLOCK_OK)
		v->rounds = 0;
	if (v && op->kind == OP_RETURN && r != BLOCK_UNKNOWN)
		drop_leftover(v, &op->ip);
	if (op->kind == OP_LIST || op->kind == OP_REQUEST)
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
