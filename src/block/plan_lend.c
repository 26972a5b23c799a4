/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "block/internal.h"

/* Requests of peers for addresses of this node's blocks. */

size_t plan_idle_of(const struct block_facts *f, const struct block_claim *c,
		    const struct block_object *o, const struct ip_set *usable, size_t max,
		    struct ipaddr **ret)
{
	struct ip_set s = {.family = usable->family};
	struct ipaddr a;
	size_t n = 0;

	*ret = NULL;
	block_addresses(usable, &c->net, &s);
	for (size_t i = s.n; i-- > 0 && n < max;)
		for (u128 k = ip_num(&s.v[i].last) + 1; k > ip_num(&s.v[i].first) && n < max; k--) {
			a = ip_from_num(s.family, k - 1);
			if (!block_is_released(c, &a) && !block_entry_find(o, &a) &&
			    !block_is_busy(f, &a))
				VEC_PUSH(*ret, n) = a;
		}
	ip_set_done(&s);
	return n;
}

static size_t offered(const struct block_object *o)
{
	size_t n = 0;

	for (size_t i = 0; i < o->n_released; i++)
		n += block_entry_open(&o->released[i]);
	return n;
}

/* The first request for any addresses. NULL: there is none. */
static const struct block_requested *first_requested(const struct block_object *o)
{
	struct ipaddr a;

	for (size_t i = 0; i < o->n_wanted; i++)
		if (!block_requested_named(o->wanted[i].node, &a))
			return &o->wanted[i];
	return NULL;
}

/*
 * Each answer reports the remaining free capacity, so that peers ask owners that have some. The
 * report is stored as the number of addresses that cannot be released (busy), so it stays correct
 * after further releases and returns without another write. A capacity above IDLE_MOST is not
 * reported exactly.
 */
enum { IDLE_MOST = 64 };

/* Addresses that peers may get, at most max: not those that pending requests of this node are
 * about to get. */
static size_t to_give(const struct planner *p, const struct block_claim *c,
		      const struct block_object *o, const struct block_need *need, size_t max,
		      struct ipaddr **ret)
{
	size_t n;

	*ret = NULL;
	if (need->want)
		return 0;
	n = plan_idle_of(p->f, c, o, need->usable, max + need->keep, ret);
	return n > need->keep ? n - need->keep : 0;
}

static void report(struct block_op *op, const struct block_object *o, size_t idle)
{
	uint32_t room = block_room(o);

	op->report = true;
	op->count = room > op->n_ips + idle ? room - (uint32_t)(op->n_ips + idle) : 0;
}

/* Releases n of the idle addresses to the entry text `to`. */
static void answer(struct planner *p, const struct block_object *o, const struct block_requested *w,
		   const char *to, struct ipaddr *ips, size_t idle, size_t n)
{
	struct block_op *op = plan_bound(p, OP_RELEASE, o);

	if (!op) {
		free(ips);
		return;
	}
	op->ips = ips;
	op->n_ips = n;
	str_copy(op->to, sizeof(op->to), to);
	str_copy(op->request_of, sizeof(op->request_of), w->node);
	report(op, o, idle - n);
}

/* Answers a node of an older release, which borrows only entries for any node ("*"). Such entries
 * that exist already count, and the request stays until there are enough. */
static void answer_any(struct planner *p, const struct block_claim *c, const struct block_object *o,
		       const struct block_need *need, const struct block_requested *w)
{
	size_t there = offered(o), n = w->count > there ? w->count - there : 0, idle;
	struct ipaddr *ips;

	idle = to_give(p, c, o, need, n + IDLE_MOST, &ips);
	n = n < idle ? n : idle;
	if ((n || there) && !need->want)
		answer(p, o, w, "*", ips, idle, n);
	else
		free(ips);
}

/*
 * Answers one request per write. The requester reads the answer at once, so the addresses are
 * reserved for it and no other node tries to take them. A request that is removed without a
 * reservation is refused.
 */
void plan_answer_requested(struct planner *p, const struct block_claim *c,
			   const struct block_object *o, const struct block_need *need)
{
	const struct block_requested *w;
	char to[BLOCK_NAME_MAX + 3];
	struct ipaddr *ips;
	size_t idle, n;

	if (plan_answer_named(p, c, o, need) || !(w = first_requested(o)))
		return;
	if (!block_requested_may_reserve(w->node, to)) {
		answer_any(p, c, o, need, w);
		return;
	}
	idle = to_give(p, c, o, need, (size_t)w->count + IDLE_MOST, &ips);
	n = w->count < idle ? w->count : idle;
	/* Refuse this node's own request, sent while another node owned the block. */
	if (block_requested_is_of(w->node, p->f->table->node))
		n = 0;
	answer(p, o, w, to, ips, idle, n);
}

/* Updates the report that waiting nodes read, when this node had no free capacity and has some
 * again. */
void plan_report_idle(struct planner *p, const struct block_claim *c, const struct block_object *o,
		      const struct block_need *need)
{
	struct ipaddr *ips;
	struct block_op *op;
	size_t idle;

	if (!o->reports || block_spare(o) || !block_room(o))
		return;
	idle = to_give(p, c, o, need, IDLE_MOST, &ips);
	free(ips);
	op = idle ? plan_bound(p, OP_RELEASE, o) : NULL;
	if (op)
		report(op, o, idle);
}

/* Addresses of peers' blocks: borrowed ones, and leftover entries of this node. */

bool plan_is_anothers(const struct planner *p, const struct block_entry *x)
{
	return strchr(x->to, '/') && !block_log_has_made(p->f->log, p->f->table->node, x) &&
	       !(p->f->hold && p->f->observed_restore);
}

static void plan_again(struct planner *p, const struct block_borrowed *l, const char *from)
{
	struct block_op *op = plan_add(p, OP_BORROW, l->pool, l->block);

	if (!op)
		return;
	VEC_PUSH(op->ips, op->n_ips) = l->ip;
	str_copy(op->from, sizeof(op->from), from);
	str_copy(op->token, sizeof(op->token), l->token);
}

/* Removes an outdated entry of this node. Its address was returned or reclaimed since, so another
 * node may have it. */
static void release_all(struct planner *p, const char *pool, const char *block,
			const struct block_entry *x)
{
	struct block_op *op = plan_entry(p, OP_RETURN, pool, block, &x->ip, x->to);

	if (op && p->f->rescan_ms)
		str_copy(op->to, sizeof(op->to), "?");
}

static void plan_requested(struct planner *p, const struct block_borrowed *l,
			   const struct block_object *o)
{
	const struct block_entry *x = o ? block_entry_find(o, &l->ip) : NULL;
	bool made = x && block_log_has_made(p->f->log, p->f->table->node, x);

	if (!x || (!made && !block_entry_free_for(x, p->f->table->node)))
		plan_add(p, OP_READ, l->pool, l->block);
	else if (made && p->f->rescan_ms && !block_has_pod(p->f, &l->ip))
		release_all(p, l->pool, l->block, x);
	else if (made || !p->f->hold)
		plan_again(p, l, x->to);
}

/* Asserts an address that a local pod has and that the object does not show as borrowed by this
 * node. */
static void assert_borrowed(struct planner *p, const struct block_borrowed *l,
			    const struct block_object *o, const struct block_entry *x)
{
	struct block_op *op;

	if (x && plan_is_anothers(p, x))
		return;
	if (x) {
		plan_again(p, l, x->to);
		return;
	}
	op = plan_bound(p, OP_ASSERT, o);
	if (!op)
		return;
	VEC_PUSH(op->ips, op->n_ips) = l->ip;
	str_copy(op->token, sizeof(op->token), l->token);
}

/* Ends the borrowing of an unused address that the object does not show as borrowed by this node.
 * An entry "?" is borrowed first, so that it can be returned. */
static void end_borrowed(struct planner *p, const struct block_borrowed *l,
			 const struct block_entry *x)
{
	struct block_op *op;

	if (x && strcmp(x->to, "?") == 0) {
		plan_again(p, l, x->to);
		return;
	}
	op = plan_add(p, OP_FORGET, l->pool, l->block);
	if (op)
		op->ip = l->ip;
}

void plan_all_but_pods(const struct planner *p, const struct ip_set *usable, struct block_op *op)
{
	struct ip_set s = {.family = usable->family};

	block_addresses(usable, &op->net, &s);
	for (size_t i = 0; i < s.n; i++)
		for (u128 k = ip_num(&s.v[i].first); k <= ip_num(&s.v[i].last); k++) {
			struct ipaddr a = ip_from_num(s.family, k);

			if (!block_has_pod(p->f, &a))
				VEC_PUSH(op->ips, op->n_ips) = a;
		}
	ip_set_done(&s);
}

/*
 * The block does not exist and its owner does not recreate it (etcd was restored, and the owner was
 * lost): a node that borrows from it claims it. It is unknown which nodes have the other addresses,
 * so they get "?": the nodes of their pods assert them, and the controller removes the entries of
 * unused ones.
 */
static void claim_lost(struct planner *p, const struct block_borrowed *l,
		       const struct block_need *need)
{
	struct block_op *op;
	u128 index;

	if (!block_name_parse(l->block, l->pool, &index))
		return;
	op = plan_add(p, OP_CREATE, l->pool, l->block);
	if (!op)
		return;
	op->net = block_net(&need->cut, index);
	str_copy(op->to, sizeof(op->to), "?");
	plan_all_but_pods(p, need->usable, op);
}

static void plan_unseen(struct planner *p, const struct block_borrowed *l)
{
	const struct block_need *need = plan_need(p->f, l->pool);

	if (l->absent && !block_has_pod(p->f, &l->ip))
		end_borrowed(p, l, NULL);
	else if (l->absent && need)
		claim_lost(p, l, need);
	else
		plan_add(p, OP_READ, l->pool, l->block);
}

/* Returns whether this node now owns the block and the address is not released: then it is an
 * ordinary address of the block. */
static bool is_of_our_own(const struct planner *p, const struct block_borrowed *l,
			  const struct block_object *o)
{
	const struct block_claim *c = block_claim_find(p->f->table, l->block);

	return c && c->state == CLAIM_HELD && block_agrees(p->f->table, c, o) &&
	       !block_is_released(c, &l->ip);
}

/* Returns whether the address can be returned: no local pod needs it. An asserted address is never
 * allocated to another pod, so pending requests do not count. */
static bool is_to_spare(const struct planner *p, const struct block_borrowed *l,
			const struct block_need *need)
{
	if (l->asserted)
		return !block_has_lease(p->f, &l->ip);
	return (!need || !(need->want || need->keep)) && !block_is_busy(p->f, &l->ip);
}

static void plan_borrowed(struct planner *p, const struct block_borrowed *l,
			  const struct block_object *o)
{
	const struct block_need *need = plan_need(p->f, l->pool);
	const struct block_entry *x = block_entry_find(o, &l->ip);
	char local[BLOCK_ENTRY_MAX];

	block_entry_local(p->f->table->node, l->token, local);
	if (x && strcmp(x->to, local) == 0) {
		/* Borrowed addresses are not pre-allocated: peers could not request them. */
		if (!p->f->hold && is_to_spare(p, l, need))
			plan_entry(p, OP_RETURN, l->pool, l->block, &l->ip, local);
	} else if (!x && is_of_our_own(p, l, o)) {
		end_borrowed(p, l, NULL);
	} else if (block_has_pod(p->f, &l->ip)) {
		assert_borrowed(p, l, o, x);
	} else {
		end_borrowed(p, l, x);
	}
}

void plan_borrowed_entry(struct planner *p, const struct block_borrowed *l)
{
	const struct block_object *o = block_object_find(p->f->table, l->block);
	char local[BLOCK_ENTRY_MAX];

	if (l->state == BORROW_REQUESTED) {
		plan_requested(p, l, o);
	} else if (l->state == BORROW_HELD && !o) {
		plan_unseen(p, l);
	} else if (l->state == BORROW_HELD) {
		plan_borrowed(p, l, o);
	} else {
		block_entry_local(p->f->table->node, l->token, local);
		plan_entry(p, OP_RETURN, l->pool, l->block, &l->ip, local);
	}
}

/* Returns whether the entry is of this log, which does not show the address as borrowed: the
 * address was returned long ago, or a request was carried out late. */
static bool is_leftover(const struct block_facts *f, const struct block_entry *x)
{
	return (block_log_has_made(f->log, f->table->node, x) ||
		(f->alone && block_entry_is_of(x, f->table->node))) &&
	       !block_borrowed_find(f->table, &x->ip) && !block_has_pod(f, &x->ip);
}

void plan_leftover(struct planner *p, const char *pool, const char *block,
		   const struct block_entry *x)
{
	if (is_leftover(p->f, x))
		release_all(p, pool, block, x);
}

void plan_leftovers(struct planner *p)
{
	const struct block_table *t = p->f->table;

	for (size_t i = 0; i < t->n_objects; i++)
		for (size_t k = 0; k < t->objects[i].n_released; k++)
			plan_leftover(p, t->objects[i].pool, t->objects[i].name,
				      &t->objects[i].released[k]);
	for (size_t i = 0; i < t->n_views; i++)
		for (size_t k = 0; k < t->views[i].n_leftovers; k++) {
			const struct block_offer *x = &t->views[i].leftovers[k];
			const struct block_entry entry = {.ip = x->ip, .to = x->to};

			plan_leftover(p, t->views[i].pool, x->block, &entry);
		}
}

/* Returns whether the pool was listed since the restore. A pool without a block size has no blocks
 * to list. */
static bool was_listed(const struct block_facts *f, const struct block_need *need)
{
	const struct block_view *v = block_view_find(f->table, need->pool);

	return !need->cut.prefix || (v && v->at_ms >= f->rescan_ms);
}

/* Returns whether the view shows entries of this node that must be returned. */
static bool has_leftovers(const struct block_facts *f, const struct block_view *v)
{
	for (size_t i = 0; i < v->n_leftovers; i++)
		if (is_leftover(f, &(struct block_entry){.ip = v->leftovers[i].ip,
							 .to = v->leftovers[i].to}))
			return true;
	return false;
}

bool block_has_rescanned(const struct block_facts *f)
{
	const struct block_table *t = f->table;

	for (size_t i = 0; i < f->n_needs; i++)
		if (!was_listed(f, &f->needs[i]))
			return false;
	for (size_t i = 0; i < t->n_views; i++)
		if (has_leftovers(f, &t->views[i]))
			return false;
	return true;
}

bool plan_rescan(struct planner *p, const struct block_need *need)
{
	bool due = p->f->rescan_ms && p->f->now_ms >= p->f->rescan_ms && !was_listed(p->f, need);

	if (due)
		plan_list(p, need);
	return due;
}
