/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "block/internal.h"

/* If a pool lacks addresses, this node claims a free block, takes over an orphan, or borrows from
 * peers. */

enum {
	GUESSES = 2,
	/* in a pool of at most FEW addresses a list costs less than a second failed claim, so
	 * the pool is listed after one failed claim instead of GUESSES */
	FEW = 4096,
};

/* Returns whether this node has a claim or an unadopted block at this index. */
static bool has_block_at(const struct block_table *t, const struct block_need *need, u128 index)
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

/* Sets *ret to the index of the block at position `place`, counted from the pool's first usable
 * block. Returns false if there is no such block or it has no usable address. */
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

/* The pools of the rails are divided alike, and nodes claim the same position in each pool. So a
 * position that this node won in one pool is usually free in the other pools. */
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
		    !has_block_at(t, need, *ret))
			return true;
	}
	return false;
}

/* Returns whether a claim in another pool is planned, or a claim is in flight: its result shows the
 * position to use in this pool. */
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

/* Selects a block without a known owner. */
static bool pick(const struct planner *p, const struct block_need *need, const struct block_view *v,
		 u128 *ret)
{
	const struct block_table *t = p->f->table;
	auto_free u128 *taken = xcalloc((v ? v->n_taken : 0) + 1, sizeof(*taken));
	size_t n = v ? v->n_taken : 0;
	/* The seed differs in each pool, so nodes that collide in one pool do not collide in all
	 * pools. */
	uint64_t seed = p->f->seed ^ xxh64(need->pool, strlen(need->pool));

	if (n)
		memcpy(taken, v->taken, n * sizeof(*taken));
	while (block_pick(&need->cut, need->usable, taken, n, seed, ret)) {
		size_t at = n;

		if (!has_block_at(t, need, *ret))
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

/* Returns an orphan in the last list of blocks. NULL: there is none. */
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

/* Returns whether a block may be claimed without a new list: the last list is not stale, or few
 * claims have failed since. In a pool of more than FEW addresses a list costs the API server
 * more than GUESSES failed claims. */
static bool may_guess(const struct block_need *need, const struct block_view *v)
{
	unsigned int most = ip_set_count(need->usable) <= FEW ? 1 : GUESSES;

	return !v || !v->stale || v->misses < most;
}

/*
 * Takes over an orphan, or claims a block without a known owner. If another node was faster, the
 * answer shows that, so a list with free blocks stays valid for a long time. The first claims are
 * guesses: in a pool with free blocks they mostly succeed and save the list. Returns true if it
 * plans a request, or plans nothing because a claim in another pool comes first (is_led()); false
 * if the pool has no free block, or must be listed first.
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

/* Returns whether this node has released addresses of its blocks in the pool, or borrows
 * addresses of the pool: then the pool probably has none left to pre-allocate. */
static bool is_scarce(const struct planner *p, const struct block_need *need)
{
	const struct block_table *t = p->f->table;

	for (size_t i = 0; i < t->n_claims; i++)
		if (t->claims[i].n_released && strcmp(t->claims[i].pool, need->pool) == 0)
			return true;
	for (size_t i = 0; i < t->n_borrowed; i++)
		if (strcmp(t->borrowed[i].pool, need->pool) == 0)
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

static void plan_request_from_peers(struct planner *p, const struct block_need *need,
				    const struct block_view *v);

static void plan_peer_requests(struct planner *p, const struct block_need *need)
{
	const struct block_view *v = block_view_find(p->f->table, need->pool);

	if (claim_some(p, need, v))
		return;
	if (!v || v->stale)
		plan_list(p, need);
	else
		plan_request_from_peers(p, need, v);
}

static void plan_named(struct planner *p, const struct block_need *need, const struct ipaddr *a);

/*
 * Returns whether a block of the pool that this node owns was deleted, and the node is about to
 * recreate it: its free addresses are available again then. Another block claimed meanwhile could
 * be a deleted block of a peer that has not recreated it yet.
 */
static bool is_recreating(const struct planner *p, const char *pool)
{
	const struct block_table *t = p->f->table;

	for (size_t i = 0; t->synced && i < t->n_claims; i++) {
		const struct block_claim *c = &t->claims[i];

		if (c->state == CLAIM_HELD && strcmp(c->pool, pool) == 0 &&
		    !block_object_find(t, c->name) && (!c->absent || plan_has(p, c->name)))
			return true;
	}
	return false;
}

void plan_want(struct planner *p, const struct block_need *need)
{
	for (size_t i = 0; i < need->n_names; i++)
		plan_named(p, need, &need->names[i]);
	if (need->want)
		plan_peer_requests(p, need);
	else if (!plan_rescan(p, need) && need->ahead && !is_recreating(p, need->pool))
		plan_ahead(p, need);
}

/* --- addresses of peers: borrowing available ones, requesting others --- */

/*
 * Requests are sent in rounds. The first goes to one owner, for all addresses needed (or to at most
 * REQUEST_MAX owners, while their reports show that one does not have enough): in a pool with free
 * addresses this owner usually reserves them. If it refuses, the next round follows at once: in a
 * pool with as many addresses as pods, another waiting node was faster. After FAST_ROUNDS the node
 * requests a part from each of several owners, at growing intervals. With each answer an owner
 * reports its free capacity, and no request exceeds it. While no owner reports any, one list per
 * round detects the first owner that has free addresses again. Reports may be outdated, so an owner
 * without free capacity also gets a request, but only once in several rounds. So the nodes that
 * wait for an exhausted pool rarely write to its blocks.
 */
enum {
	BORROW_MOST = 64,
	REQUEST_MAX = 4,
	ROUND_MS = 200,
	ROUND_MOST = 15,      /* the interval grows by ROUND_MS in each of this many rounds */
	FAST_ROUNDS = 4,      /* rounds without an interval */
	RESCAN_MS = 100,      /* delay before the answer is read; doubled after each read */
	ANSWER_MS = 5 * 1000, /* no answer is expected after this time */
	REQUEST_RETRY_MS = 3 * 1000,
	IN_VAIN = 4, /* rounds between requests to owners that report no free capacity */
	REQUEST_FORGET_MS = 60 * 1000,
	/* for how long after a list or read this node borrows the addresses that the list or
	 * read showed as reserved for this node (the owner ends a reservation after
	 * RESERVED_MAX_MS) */
	RESERVED_MIN_MS = 4000,
};

static bool was_requested(const struct planner *p, const struct block_peer *x, int64_t ms)
{
	return x && x->requested_ms && p->f->now_ms - x->requested_ms < ms;
}

/* Addresses of one block with the same entry text go into one request. */
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

enum offer_kind { OFFER_RESERVED, OFFER_OF_REQUESTED, OFFER_OF_ANY };

static enum offer_kind kind_of(const struct planner *p, const struct block_view *v,
			       const struct block_offer *x)
{
	if (strcmp(x->to, "*") != 0)
		return OFFER_RESERVED;
	return was_requested(p, block_peer_find(v, x->block), REQUEST_FORGET_MS)
		       ? OFFER_OF_REQUESTED
		       : OFFER_OF_ANY;
}

static bool lasts(const struct planner *p, const struct block_offer *x, enum offer_kind kind)
{
	return p->f->now_ms - x->at_ms < (kind == OFFER_RESERVED ? RESERVED_MIN_MS : p->f->view_ms);
}

/* Addresses reserved for this node come first; other nodes compete for the rest. */
static bool borrow(struct planner *p, const struct block_need *need, const struct block_view *v)
{
	size_t requested = 0;

	for (enum offer_kind kind = OFFER_RESERVED; kind <= OFFER_OF_ANY; kind++) {
		for (size_t i = 0; i < v->n_available && requested < need->want; i++) {
			const struct block_offer *x =
				&v->available[(i + p->f->seed) % v->n_available];

			if (kind_of(p, v, x) == kind && lasts(p, x, kind) &&
			    ip_set_has(need->usable, &x->ip) &&
			    !block_borrowed_find(p->f->table, &x->ip))
				requested += add_offer(p, need, x);
		}
		if (requested)
			return true;
	}
	return false;
}

/* --- requests to peers --- */

/* Spreads nodes that lack addresses at the same time: each waits for a different time, and then
 * sees which owners the other nodes have asked. */
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

/* Returns whether a list is due: a request was sent since the last list, or that list is old. */
static bool is_list_due(const struct planner *p, const struct block_view *v)
{
	int64_t ms = round_ms(p, v) > p->f->view_ms ? round_ms(p, v) : p->f->view_ms;

	return v->at_ms <= v->requested_ms || p->f->now_ms - v->at_ms >= ms;
}

/* Returns whether the time ms is reached; if not, the next plan is due at ms or earlier. */
static bool is_reached(struct planner *p, int64_t ms)
{
	if (p->f->now_ms >= ms)
		return true;
	if (!p->ret->next_ms || ms < p->ret->next_ms)
		p->ret->next_ms = ms;
	return false;
}

/* Returns whether an answer is still expected, or the interval before the next round has not
 * passed. Plans a read of each block whose owner was asked, at growing intervals. */
static bool is_requesting(struct planner *p, const struct block_need *need,
			  const struct block_view *v)
{
	bool pending = false;

	for (size_t i = 0; i < v->n_peers; i++) {
		const struct block_peer *x = &v->peers[i];

		if (!x->pending || !was_requested(p, x, ANSWER_MS))
			continue;
		pending = true;
		if (is_reached(p, x->read_ms + ((int64_t)RESCAN_MS << x->reads)))
			plan_add(p, OP_READ, need->pool, x->name);
	}
	return pending ||
	       (v->rounds >= FAST_ROUNDS && !is_reached(p, v->requested_ms + round_ms(p, v)));
}

/* Returns how many addresses the owner can probably give to this node. This is the capacity that
 * it reports or, without a report, the number of unreleased addresses of the block; in both
 * cases minus the number of addresses that other nodes request from the block. */
static int64_t hope(const struct block_peer *x)
{
	return (int64_t)x->spare - x->requested_by_others;
}

/* Returns whether the owner reports more free addresses than other nodes request from it. */
static bool is_sure(const struct block_peer *x)
{
	return x->reports && hope(x) > 0;
}

/* Returns whether the owner probably has free addresses: by its report, or (without one) if it was
 * not asked recently. */
static bool is_hopeful(const struct planner *p, const struct block_peer *x)
{
	return x->reports ? is_sure(x) : !was_requested(p, x, REQUEST_FORGET_MS);
}

/* Returns whether peer x is preferred to `than`: it probably has more free addresses or, if
 * neither peer has any, this node asked it longer ago. */
static bool is_better(const struct planner *p, const struct block_peer *x,
		      const struct block_peer *than)
{
	bool hopeful = is_hopeful(p, x), before = is_hopeful(p, than);

	if (hopeful && before)
		return hope(x) > hope(than);
	return hopeful == before ? x->requested_ms < than->requested_ms : hopeful;
}

/* Returns the best peer (is_better()) that reports free capacity or was not asked recently.
 * Peers that are equally good have a different order on each node. */
static const struct block_peer *best(const struct planner *p, const struct block_view *v)
{
	size_t from = (size_t)xxh64(p->f->table->node, strlen(p->f->table->node));
	const struct block_peer *ret = NULL;

	for (size_t i = 0; i < v->n_peers; i++) {
		const struct block_peer *x = &v->peers[(from + i) % v->n_peers];

		if (x->unreleased && !plan_has(p, x->name) &&
		    (is_sure(x) || !was_requested(p, x, REQUEST_RETRY_MS)) &&
		    (!ret || is_better(p, x, ret)))
			ret = x;
	}
	return ret;
}

/* Returns the number of addresses to request from the peer, at most `left`: the result of hope()
 * if is_sure(), otherwise an n-th part of `want`. */
static uint32_t part(const struct block_peer *x, uint32_t want, uint32_t left, uint32_t n)
{
	uint32_t part = (want + n - 1) / n;

	if (is_sure(x))
		part = (uint32_t)hope(x);
	return part < left ? part : left;
}

static void request_spread(struct planner *p, const struct block_need *need,
			   const struct block_view *v)
{
	uint32_t n = v->rounds < 2 * FAST_ROUNDS ? 1u << (v->rounds / FAST_ROUNDS) : REQUEST_MAX;
	uint32_t left = need->want;
	bool in_vain = p->f->now_ms - v->requested_ms >= IN_VAIN * round_ms(p, v);
	const struct block_peer *x;

	for (uint32_t i = 0; i < REQUEST_MAX && left && (x = best(p, v)); i++) {
		bool sure = is_sure(x);
		struct block_op *op;

		if ((!sure && i >= n) || (x->reports && !sure && !in_vain))
			return;
		op = plan_add(p, OP_REQUEST, need->pool, x->name);
		if (!op)
			return;
		op->count = part(x, need->want, left, n);
		left -= op->count;
	}
}

/* Each round begins with a list, which shows the peers with free addresses. */
static void plan_request_from_peers(struct planner *p, const struct block_need *need,
				    const struct block_view *v)
{
	if (borrow(p, need, v) || is_requesting(p, need, v))
		return;
	if (is_list_due(p, v))
		plan_list(p, need);
	else
		request_spread(p, need, v);
}

/* To get an address requested by name, this node borrows it if the address's entry permits that,
 * claims the block if the block does not exist or has no owner, and otherwise sends the owner a
 * request. */

/* Intervals at which this node reads the block of a named address. BLOCK_PLAN_NAMED_ANSWER_MS:
 * while the owner's answer is expected. AGAIN_MS: otherwise, for instance while another node has
 * the address. */
enum { BLOCK_PLAN_NAMED_ANSWER_MS = 200, AGAIN_MS = BLOCK_LOOKUP_MS };

/* Reclaims an address that is in a block of this node and has the entry "*" (any node may borrow
 * it). */
static void reclaim(struct planner *p, const struct block_claim *c, const struct block_object *o,
		    const struct ipaddr *a)
{
	const struct block_entry *x = o ? block_entry_find(o, a) : NULL;
	struct block_op *op;

	if (c->state != CLAIM_HELD || !x || !block_entry_open(x) ||
	    !block_agrees(p->f->table, c, o))
		return;
	op = plan_add(p, OP_RECLAIM, c->pool, c->name);
	if (!op)
		return;
	op->ip = *a;
	str_copy(op->from, sizeof(op->from), x->to);
}

static void request_named(struct planner *p, enum block_op_kind kind, const struct block_need *need,
			  const char *block, const struct ipaddr *a)
{
	struct block_op *op = plan_add(p, kind, need->pool, block);

	if (!op)
		return;
	op->ip = *a;
	op->count = kind == OP_REQUEST;
}

static void block_plan_named_borrow(struct planner *p, const struct block_need *need,
				    const struct block_lookup *s)
{
	struct block_op *op = plan_add(p, OP_BORROW, need->pool, s->block);

	if (!op)
		return;
	VEC_PUSH(op->ips, op->n_ips) = s->ip;
	str_copy(op->from, sizeof(op->from), s->to);
}

/* Claims the block of the address: it does not exist yet, or is an orphan. */
static void block_plan_named_claim(struct planner *p, const struct block_need *need,
				   const struct block_lookup *s, u128 index)
{
	struct block_op *op =
		plan_add(p, s->absent ? OP_CREATE : OP_TAKE_OVER, need->pool, s->block);

	if (!op)
		return;
	op->net = s->absent ? block_net(&need->cut, index) : s->net;
	str_copy(op->version, sizeof(op->version), s->version);
}

/* Plans how to obtain an address that was requested by name. */
static void plan_named(struct planner *p, const struct block_need *need, const struct ipaddr *a)
{
	const struct block_table *t = p->f->table;
	const struct block_lookup *s = block_lookup_find(t, a);
	const struct block_object *o;
	const struct block_claim *c;
	char name[BLOCK_NAME_MAX + 1];
	int64_t age = s ? p->f->now_ms - s->at_ms : 0;
	u128 index;

	if (block_borrowed_find(t, a) || !block_index(&need->cut, a, &index) ||
	    block_name(need->pool, index, name) < 0)
		return;
	o = block_object_find(t, name);
	c = block_claim_find(t, name);
	if (c)
		reclaim(p, c, o, a);
	/* The object names this node but the log has no claim: another log of this node claimed
	 * the block, or an abandoned request of this log was carried out. */
	if (c || (o && strcmp(o->node, t->node) == 0))
		return;
	if (s && s->to && age < AGAIN_MS)
		plan_leftover(p, need->pool, name, &(struct block_entry){.ip = s->ip, .to = s->to});
	if (!s || age >= (s->requested ? BLOCK_PLAN_NAMED_ANSWER_MS : AGAIN_MS))
		request_named(p, OP_READ, need, name, a);
	else if (s->refused || s->requested)
		return;
	else if (s->to)
		block_plan_named_borrow(p, need, s);
	else if (s->absent || !*s->node)
		block_plan_named_claim(p, need, s, index);
	else if (strcmp(s->node, t->node) != 0)
		request_named(p, OP_REQUEST, need, name, a);
}

/* --- requests of peers for named addresses --- */

/* Returns whether the request is refused: the address is not a pool address in this block, a
 * local pod has it, it is in quarantine, it was released already, or the request is this node's
 * own, sent when a peer owned the block. */
static bool is_void(const struct planner *p, const struct block_claim *c,
		    const struct block_object *o, const struct block_need *need, const char *key,
		    const struct ipaddr *a)
{
	const struct lease *l = lease_find(p->f->leases, a);
	size_t n = strlen(p->f->table->node);

	return !ipnet_contains(&c->net, a) ||
	       !(ip_set_has(need->usable, a) || (need->adopted && ip_set_has(need->adopted, a))) ||
	       block_is_released(c, a) || block_entry_find(o, a) || block_has_pod(p->f, a) ||
	       (l && l->state == LEASE_QUARANTINED && block_is_busy(p->f, a)) ||
	       (strncmp(key, p->f->table->node, n) == 0 && key[n] == '@');
}

/*
 * The address is released for any node: if the requester no longer exists, the address stays
 * available. A request that cannot be granted is removed: this is the refusal. While the address is
 * in its reuse delay, or this node itself lacks addresses, the request stays and is answered later.
 */
bool plan_answer_named(struct planner *p, const struct block_claim *c, const struct block_object *o,
		       const struct block_need *need)
{
	for (size_t i = 0; i < o->n_requested; i++) {
		const char *key = o->requested[i].key;
		struct block_op *op;
		struct ipaddr a;
		bool no;

		if (!block_requested_named(key, &a))
			continue;
		no = is_void(p, c, o, need, key, &a);
		if (!no && (need->want || block_is_busy(p->f, &a)))
			continue;
		op = plan_bound(p, OP_RELEASE, o);
		if (!op)
			return true;
		if (!no)
			VEC_PUSH(op->ips, op->n_ips) = a;
		str_copy(op->to, sizeof(op->to), "*");
		str_copy(op->request_of, sizeof(op->request_of), key);
		return true;
	}
	return false;
}
