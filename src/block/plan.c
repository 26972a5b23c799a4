/* SPDX-License-Identifier: Apache-2.0 */
#include "block/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "block/internal.h"

/* Time after which a reservation ends: much longer than a node needs to borrow the addresses. */
enum { RESERVED_MAX_MS = 6000 };

/* --- state of an address, demand of a pool --- */

bool block_is_busy(const struct block_facts *f, const struct ipaddr *a)
{
	return (f->n_reserved > 0 &&
		bsearch(a, f->reserved, f->n_reserved, sizeof(*f->reserved), ip_order) != NULL) ||
	       block_has_lease(f, a);
}

bool block_has_lease(const struct block_facts *f, const struct ipaddr *a)
{
	const struct lease *l = lease_find(f->leases, a);

	if (!l)
		return false;
	if (l->state == LEASE_FREE)
		return lease_lasts(l, f->real_ms, f->reuse_delay_ms);
	if (l->state == LEASE_QUARANTINED)
		return lease_lasts(l, f->real_ms, f->quarantine_ms);
	return true;
}

bool block_has_pod(const struct block_facts *f, const struct ipaddr *a)
{
	const struct lease *l = lease_find(f->leases, a);

	return l && (l->state == LEASE_USED || l->state == LEASE_RETAINED);
}

const struct block_need *plan_need(const struct block_facts *f, const char *pool)
{
	for (size_t i = 0; i < f->n_needs; i++)
		if (strcmp(f->needs[i].pool, pool) == 0)
			return &f->needs[i];
	return NULL;
}

/* --- adding requests to the plan --- */

bool plan_has(const struct planner *p, const char *name)
{
	for (size_t i = 0; i < p->ret->n; i++)
		if (strcmp(p->ret->v[i].name, name) == 0)
			return true;
	return false;
}

struct block_op *plan_add(struct planner *p, enum block_op_kind kind, const char *pool,
			  const char *name)
{
	struct block_op *op;

	if (plan_has(p, name))
		return NULL;
	op = &VEC_PUSH(p->ret->v, p->ret->n);
	op->kind = kind;
	str_copy(op->name, sizeof(op->name), name);
	str_copy(op->pool, sizeof(op->pool), pool);
	return op;
}

struct block_op *plan_bound(struct planner *p, enum block_op_kind kind,
			    const struct block_object *o)
{
	struct block_op *op = plan_add(p, kind, o->pool, o->name);

	if (!op)
		return NULL;
	str_copy(op->uid, sizeof(op->uid), o->uid);
	str_copy(op->version, sizeof(op->version), o->version);
	str_copy(op->token, sizeof(op->token), o->claim);
	op->net = o->net;
	return op;
}

/* Like plan_add(), for the entry of address *a; precondition of the request: the entry reads
 * `from`. */
static struct block_op *plan_entry(struct planner *p, enum block_op_kind kind, const char *pool,
				   const char *block, const struct ipaddr *a, const char *from)
{
	struct block_op *op = plan_add(p, kind, pool, block);

	if (!op)
		return NULL;
	op->ip = *a;
	str_copy(op->from, sizeof(op->from), from);
	return op;
}

/* --- requests of peers for addresses of this node's blocks --- */

/* Sets *ret to at most max addresses of a claim that are neither released nor busy, highest first
 * (the lowest are allocated first), and returns their number. The caller frees *ret. */
static size_t plan_idle_of(const struct block_facts *f, const struct block_claim *c,
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

/* Returns the first request that is not for a named address. NULL: there is none. */
static const struct block_requested *first_requested(const struct block_object *o)
{
	struct ipaddr a;

	for (size_t i = 0; i < o->n_requested; i++)
		if (!block_requested_named(o->requested[i].key, &a))
			return &o->requested[i];
	return NULL;
}

/*
 * Each answer to a request that names no address reports the remaining free capacity, so that peers
 * ask owners that have some. The report is stored as the number of addresses that cannot be
 * released (unavailable), so it stays correct after further releases and returns without another
 * write. A capacity above IDLE_MOST is not reported exactly.
 */
enum { IDLE_MOST = 64 };

/* Like plan_idle_of(), but the returned number excludes addresses that waiting allocations of
 * local pods are about to get, and is 0 while these allocations lack addresses. */
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
	uint32_t unreleased = block_unreleased(o);

	op->report = true;
	op->count = unreleased > op->n_ips + idle ? unreleased - (uint32_t)(op->n_ips + idle) : 0;
}

/* Plans the answer to request w: the first n of the `idle` addresses in ips get the entry `to`,
 * the others are reported as free. Frees ips, or stores it in the plan. */
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
	str_copy(op->request_of, sizeof(op->request_of), w->key);
	report(op, o, idle - n);
}

/* Answers one request per write. The answer to a request that names no address reserves
 * addresses for the requester, so that no other node tries to take them; an answer without a
 * reservation is a refusal. */
static void plan_answer_requested(struct planner *p, const struct block_claim *c,
				  const struct block_object *o, const struct block_need *need)
{
	const struct block_requested *w;
	char to[BLOCK_NAME_MAX + 3];
	struct ipaddr *ips;
	size_t idle, n = 0;

	if (plan_answer_named(p, c, o, need) || !(w = first_requested(o)))
		return;
	idle = to_give(p, c, o, need, (size_t)w->count + IDLE_MOST, &ips);
	/* Refuse an invalid key, and this node's own request, sent while another node owned the
	 * block. */
	if (block_requested_reservation(w->key, to) &&
	    !block_requested_is_of(w->key, p->f->table->node))
		n = w->count < idle ? w->count : idle;
	answer(p, o, w, to, ips, idle, n);
}

/* When this node has free capacity again, updates its report, which waiting nodes read. */
static void plan_report_idle(struct planner *p, const struct block_claim *c,
			     const struct block_object *o, const struct block_need *need)
{
	struct ipaddr *ips;
	struct block_op *op;
	size_t idle;

	if (!o->reports || block_spare(o) || !block_unreleased(o))
		return;
	idle = to_give(p, c, o, need, IDLE_MOST, &ips);
	free(ips);
	op = idle ? plan_bound(p, OP_RELEASE, o) : NULL;
	if (op)
		report(op, o, idle);
}

/* --- addresses of peers' blocks: borrowed ones, and leftover entries of this node --- */

/* Returns whether the entry shows that another node, or an earlier log of this node, borrowed the
 * address. After a restore of etcd that this agent observed, such an entry is outdated and does not
 * count. */
static bool plan_is_anothers(const struct planner *p, const struct block_entry *x)
{
	return strchr(x->to, '/') && !block_log_has_made(p->f->log, p->f->table->node, x) &&
	       !(p->f->frozen && p->f->observed_restore);
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

/* Removes an entry of this node for an address that no local pod has. After a restore of etcd
 * another node may have the address, so the entry becomes "?" instead. */
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
	else if (made || !p->f->frozen)
		plan_again(p, l, x->to);
}

/* Asserts an address that a local pod has and that the object does not show as borrowed by this
 * node. Plans nothing if another node borrows it (plan_is_anothers()). */
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

/* Ends the borrowing of an address that no local pod has, or that is now an ordinary address of
 * a block of this node. If the entry is "?", the node borrows the address first, so that it can
 * be returned. */
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

/* Adds the pool's addresses in op->net, except those of local pods, to op->ips. */
static void plan_all_but_pods(const struct planner *p, const struct ip_set *usable,
			      struct block_op *op)
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
 * The block does not exist and its owner has not recreated it (for instance, etcd was restored and
 * the owner was lost): a node that borrows from it claims it. It is unknown which nodes have the
 * other addresses, so they get "?": the nodes of their pods assert them, and the controller removes
 * the entries of unused ones.
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

/* Returns whether the address can be returned: it is not busy, and no waiting allocation of a
 * local pod needs it. An asserted address is never allocated to another pod, so waiting
 * allocations do not count for it. */
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
		/* A borrowed address is not kept for pre-allocation: peers could not request it. */
		if (!p->f->frozen && is_to_spare(p, l, need))
			plan_entry(p, OP_RETURN, l->pool, l->block, &l->ip, local);
	} else if (!x && is_of_our_own(p, l, o)) {
		end_borrowed(p, l, NULL);
	} else if (block_has_pod(p->f, &l->ip)) {
		assert_borrowed(p, l, o, x);
	} else {
		end_borrowed(p, l, x);
	}
}

static void plan_borrowed_entry(struct planner *p, const struct block_borrowed *l)
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

/* Returns whether the entry is of this log (or, if block_facts.alone, of any log of this node), the
 * log does not show the address as borrowed, and no local pod has it: the address was returned long
 * ago, or a request was carried out late. */
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

static void plan_leftovers(struct planner *p)
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

/* Returns whether the pool was listed since rescan_ms. A pool without a block size has no blocks to
 * list. */
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

/* --- held claims: entries of their objects, recreation of a lost object --- */

/* Returns whether the block must become an orphan instead of being deleted: a node borrows an
 * address (only that node can return it), an address is reserved for one pod or retained for a
 * name, or it is unknown which node has an address. */
static bool lends_any(const struct block_object *o)
{
	for (size_t i = 0; i < o->n_released; i++)
		if (strchr(o->released[i].to, '/') ||
		    (strchr("?@", o->released[i].to[0]) && !block_entry_reserved(&o->released[i])))
			return true;
	return false;
}

static void release_block(struct planner *p, const struct block_object *o)
{
	plan_bound(p, lends_any(o) ? OP_DISOWN : OP_DELETE, o);
}

static bool lacks_entry(const struct block_claim *c, const struct block_object *o)
{
	for (size_t i = 0; i < c->n_released; i++)
		if (!block_entry_find(o, &c->released[i]))
			return true;
	return false;
}

static const struct block_entry *reclaimable(const struct block_object *o)
{
	for (size_t i = 0; i < o->n_released; i++)
		if (block_entry_open(&o->released[i]))
			return &o->released[i];
	return NULL;
}

/* Returns whether the entry shows the address as released although a local pod uses it. */
static bool is_used_locally(const struct planner *p, const struct block_entry *x)
{
	bool made = block_log_has_made(p->f->log, p->f->table->node, x);

	return block_has_pod(p->f, &x->ip) &&
	       (strchr("*?", *x->to) || block_entry_reserved(x) ||
		(strchr(x->to, '/') && !made && !plan_is_anothers(p, x)));
}

/* Returns an entry to be removed. Either a local pod uses the released address, or this log did not
 * release it: then the object is an old version from before this node owned the block. */
static const struct block_entry *released_by_mistake(const struct planner *p,
						     const struct block_claim *c,
						     const struct block_object *o)
{
	const char *open = p->f->frozen ? "*@" : "*@?";

	for (size_t i = 0; i < o->n_released; i++)
		if (is_used_locally(p, &o->released[i]))
			return &o->released[i];
	for (size_t i = 0; i < o->n_released; i++)
		if (strchr(open, *o->released[i].to) && !block_is_released(c, &o->released[i].ip))
			return &o->released[i];
	return NULL;
}

/* Returns a reservation that ended: the requester did not borrow the address in time. */
static const struct block_entry *expired_reservation(const struct planner *p,
						     const struct block_object *o)
{
	for (size_t i = 0; i < o->n_released; i++)
		if (block_entry_reserved(&o->released[i]) && o->released[i].since_ms &&
		    p->f->now_ms - o->released[i].since_ms >= RESERVED_MAX_MS)
			return &o->released[i];
	return NULL;
}

/* Releases addresses again because the object, an old version, does not show their release. Which
 * node has them is unknown ("?"); that node asserts them. */
static void release_retry(struct planner *p, const struct block_claim *c,
			  const struct block_object *o)
{
	struct block_op *op = plan_bound(p, OP_RELEASE, o);

	if (!op)
		return;
	for (size_t i = 0; i < c->n_released; i++)
		if (!block_entry_find(o, &c->released[i]))
			VEC_PUSH(op->ips, op->n_ips) = c->released[i];
	str_copy(op->to, sizeof(op->to), "?");
}

static void plan_held(struct planner *p, const struct block_claim *c, const struct block_object *o)
{
	const struct block_need *need = plan_need(p->f, c->pool);
	const struct block_entry *wrong = released_by_mistake(p, c, o), *back = reclaimable(o);
	const struct block_entry *broken = expired_reservation(p, o);

	if (wrong)
		plan_entry(p, OP_RECLAIM, c->pool, c->name, &wrong->ip, wrong->to);
	else if (lacks_entry(c, o) && p->f->frozen)
		release_retry(p, c, o);
	else if (lacks_entry(c, o))
		plan_bound(p, OP_TOUCH, o);
	else if (broken && !p->f->frozen)
		plan_entry(p, OP_RECLAIM, c->pool, c->name, &broken->ip, broken->to);
	else if (need && need->want && back && !p->f->frozen)
		plan_entry(p, OP_RECLAIM, c->pool, c->name, &back->ip, back->to);
	else if (need && o->n_requested && !p->f->frozen)
		plan_answer_requested(p, c, o, need);
	else if (need && !p->f->frozen)
		plan_report_idle(p, c, o, need);
}

static bool has_ip(const struct block_op *op, const struct ipaddr *a)
{
	for (size_t i = 0; i < op->n_ips; i++)
		if (ip_eq(&op->ips[i], a))
			return true;
	return false;
}

/* Recreates a lost object. Released addresses stay released. After a restore of etcd, another node
 * may have owned the block since the backup, and the pods of that node are not known yet. Then
 * all addresses without a local pod are marked "?", as for a block from which this node only
 * borrowed. */
static void recreate(struct planner *p, const struct block_claim *c)
{
	const struct block_need *need = plan_need(p->f, c->pool);
	struct block_op *op = plan_add(p, OP_CREATE, c->pool, c->name);

	if (!op)
		return;
	op->net = c->net;
	str_copy(op->to, sizeof(op->to), "?");
	if (p->f->frozen && need)
		plan_all_but_pods(p, need->usable, op);
	for (size_t i = 0; i < c->n_released; i++)
		if (!has_ip(op, &c->released[i]))
			VEC_PUSH(op->ips, op->n_ips) = c->released[i];
}

/* --- claims whose object is missing or has another owner or token; releasing idle blocks --- */

/* Local pods keep their addresses as borrowed from the block's owner: the owner, or a node that
 * takes the block over, sees the entries and does not allocate these addresses. */
static void assert_pods(struct planner *p, const struct block_claim *c,
			const struct block_object *o)
{
	struct block_op *op = plan_bound(p, OP_ASSERT, o);

	if (!op)
		return;
	*op->token = '\0';
	for (size_t i = 0; i < p->f->leases->n; i++) {
		const struct ipaddr *a = &p->f->leases->v[i].address.ip;
		const struct block_entry *x = block_entry_find(o, a);

		if (ipnet_contains(&c->net, a) && block_has_pod(p->f, a) &&
		    !(x && plan_is_anothers(p, x)))
			VEC_PUSH(op->ips, op->n_ips) = *a;
	}
	/* The object shows that other nodes, or earlier logs of this node, borrow all addresses
	 * of local pods in this block: this log has nothing to assert, and the node removes its
	 * claim from the log. */
	if (!op->n_ips)
		op->kind = OP_FORGET;
}

static bool plan_net_has_pods(const struct block_facts *f, const struct ipnet *net)
{
	for (size_t i = 0; i < f->leases->n; i++) {
		const struct ipaddr *a = &f->leases->v[i].address.ip;

		if (ipnet_contains(net, a) && block_has_pod(f, a))
			return true;
	}
	return false;
}

static void plan_disputed(struct planner *p, const struct block_claim *c,
			  const struct block_object *o)
{
	bool local = strcmp(o->node, p->f->table->node) == 0 &&
		     block_log_has_token(p->f->log, o->claim);

	if (local && c->state == CLAIM_RELEASING)
		release_block(p, o);
	else if (local)
		plan_add(p, OP_READ, c->pool, c->name);
	else if (c->state == CLAIM_RELEASING || !plan_net_has_pods(p->f, &c->net))
		plan_add(p, OP_FORGET, c->pool, c->name);
	else if (!*o->node)
		plan_bound(p, OP_TAKE_OVER, o);
	else
		assert_pods(p, c, o);
}

static void plan_absent(struct planner *p, const struct block_claim *c)
{
	if (c->n_released || plan_net_has_pods(p->f, &c->net))
		recreate(p, c);
	else
		plan_add(p, OP_FORGET, c->pool, c->name);
}

/*
 * The object has a token of this log, but the log has no such claim: an abandoned request was
 * carried out, or the object is an old version. Or the object has the UID of an earlier Node
 * object, or (if block_facts.alone) a token of another log. This node releases the block unless
 * local pods have addresses of it. After a restore of etcd it retains only these addresses.
 */
static void plan_unclaimed(struct planner *p, const struct block_object *o)
{
	const struct block_need *need = plan_need(p->f, o->pool);
	struct block_op *op;
	size_t n = 0;

	if (!plan_net_has_pods(p->f, &o->net)) {
		release_block(p, o);
		return;
	}
	op = plan_bound(p, OP_ADOPT, o);
	if (!op || !need || !(p->f->frozen || p->f->rescan_ms))
		return;
	str_copy(op->to, sizeof(op->to), "?");
	plan_all_but_pods(p, need->usable, op);
	for (size_t i = 0; i < op->n_ips; i++)
		if (!block_entry_find(o, &op->ips[i]))
			op->ips[n++] = op->ips[i];
	op->n_ips = n;
}

static void plan_claim(struct planner *p, const struct block_claim *c)
{
	const struct block_object *o = block_object_find(p->f->table, c->name);

	if (!o && !p->f->table->synced)
		return;
	if (!o && c->absent && c->state == CLAIM_HELD)
		plan_absent(p, c);
	else if (!o)
		plan_add(p, OP_READ, c->pool, c->name);
	else if (!block_is_of(p->f->table, c, o))
		plan_disputed(p, c, o);
	else if (c->state == CLAIM_RELEASING)
		release_block(p, o);
	else if (!block_agrees(p->f->table, c, o))
		plan_unclaimed(p, o);
	else
		plan_held(p, c, o);
}

/* Returns whether any address of the net is busy. */
static bool block_net_is_busy(const struct block_facts *f, const struct ipnet *net)
{
	for (size_t i = 0; i < f->leases->n; i++) {
		const struct ipaddr *a = &f->leases->v[i].address.ip;

		if (ipnet_contains(net, a) && block_is_busy(f, a))
			return true;
	}
	for (size_t i = 0; i < f->n_reserved; i++)
		if (ipnet_contains(net, &f->reserved[i]))
			return true;
	return false;
}

/* Releases a block without pods if the pool has enough free addresses without it. */
static void plan_release_idle(struct planner *p, const struct block_claim *c)
{
	const struct block_object *o = block_object_find(p->f->table, c->name);
	const struct block_need *need = plan_need(p->f, c->pool);
	struct ipaddr *idle;
	size_t n;

	if (c->state != CLAIM_HELD || !o || !need || need->want || need->keep ||
	    p->releases_block || p->f->frozen || block_net_is_busy(p->f, &c->net) ||
	    !block_agrees(p->f->table, c, o))
		return;
	n = plan_idle_of(p->f, c, o, need->usable, SIZE_MAX, &idle);
	free(idle);
	if (n > need->spare || plan_has(p, c->name))
		return;
	release_block(p, o);
	p->releases_block = true;
}

/* --- the whole plan --- */

/*
 * Returns whether the object belongs to this node but not to this log: it is unknown which of its
 * addresses pods use. A caller that has the complete inventory of the node's pods may delete or
 * adopt it.
 */
static bool block_is_unadopted(const struct block_facts *f, const struct block_object *o)
{
	return strcmp(o->node, f->table->node) == 0 && !block_log_has_token(f->log, o->claim);
}

void block_plan(const struct block_facts *f, struct block_plan *ret)
{
	struct planner p = {.f = f, .ret = ret};
	const struct block_table *t = f->table;

	*ret = (struct block_plan){0};
	for (size_t i = 0; i < t->n_claims; i++)
		plan_claim(&p, &t->claims[i]);
	for (size_t i = 0; i < t->n_objects; i++)
		if (strcmp(t->objects[i].node, t->node) == 0 &&
		    !block_claim_find(t, t->objects[i].name) &&
		    (f->alone || !block_is_unadopted(f, &t->objects[i])))
			plan_unclaimed(&p, &t->objects[i]);
	for (size_t i = 0; i < t->n_borrowed; i++)
		plan_borrowed_entry(&p, &t->borrowed[i]);
	if (!f->frozen || f->rescan_ms)
		plan_leftovers(&p);
	for (size_t i = 0; i < f->n_needs; i++)
		if (f->needs[i].under_way)
			continue;
		else if (f->frozen)
			plan_rescan(&p, &f->needs[i]);
		else
			plan_want(&p, &f->needs[i]);
	for (size_t i = 0; i < t->n_claims; i++)
		plan_release_idle(&p, &t->claims[i]);
}

void block_plan_done(struct block_plan *p)
{
	for (size_t i = 0; i < p->n; i++)
		block_op_done(&p->v[i]);
	free(p->v);
	*p = (struct block_plan){0};
}
