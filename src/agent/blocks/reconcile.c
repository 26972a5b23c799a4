/* SPDX-License-Identifier: Apache-2.0 */
/* Reconciles the blocks of this node: computes the demand of each pool and the plan, sends its
 * requests, and applies the answers. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/blocks/internal.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/num.h"
#include "base/sorted.h"
#include "block/codec.h"
#include "kube/kinds.h"
#include "kube/object.h"
#include "spec/annotations.h"

enum {
	REQUIRED_MS = 200, /* reconcile interval while pods wait or the watch is disconnected */
	TICK_MS = 5000,
	LOST_MS = 200, /* backoff after a request without a response */
	LOST_MOST_MS = 15000,
	RIVAL_MS = 10, /* backoff after a request that another node's request preceded */
	RIVAL_MOST_MS = 250,
	DISK_MS = 1000,
	DISK_MOST_MS = 10000,
};

void blocks_report_error(struct blocks *b, const char *pool, const struct err *e)
{
	struct blocks_pool *p = blocks_pool_get(b, pool);

	if (strncmp(p->logged, e->text, sizeof(p->logged) - 1) == 0)
		return;
	str_copy(p->logged, sizeof(p->logged), e->text);
	log_warn("blocks: request failed or not possible yet, will retry", LOG_S("pool", pool),
		 LOG_S("error", e->text));
}

static void log_failed(struct blocks *b, const struct err *e)
{
	if (!b->log_fails)
		log_error("blocks: cannot write the block log: no address is claimed or released "
			  "until it is writable",
			  LOG_S("error", e->text));
	b->log_fails = true;
	blocks_backoff_set(b, BLOCKS_DISK_KEY, DISK_MS, DISK_MOST_MS);
}

static void log_works(struct blocks *b)
{
	if (b->log_fails)
		log_info("blocks: block log is writable again");
	b->log_fails = false;
	blocks_backoff_clear(b, BLOCKS_DISK_KEY);
}

/* --- block size of a pool --- */

/* The block size is stored in an annotation of the pool. A node that finds no annotation adds it
 * by a patch that requires the resourceVersion which the node's watch delivered. So the API
 * server refuses one of two concurrent writers, and that node's watch delivers the annotation of
 * the other node. */

/* AMONG_MS: period over which nodes spread the write of the block size, since the first pods of a
 * pool may start on many nodes at once. */
enum { CUT_MS = 200, CUT_MOST_MS = 30000, AMONG_MS = 150 };

static void later(struct blocks_pool *p, const struct err *e)
{
	if (e->code != -ESTALE)
		blocks_report_error(p->b, p->name, e);
	blocks_backoff_set(p->b, p->name, CUT_MS, CUT_MOST_MS);
}

/* Reads the annotation from the answer. */
static int read_cut(struct blocks_pool *p, const struct json *object, struct err *e)
{
	const struct json *meta = json_get(object, "metadata");
	const char *text =
		json_string(json_get(json_get(meta, "annotations"), ANNOTATION_BLOCK_PREFIX));
	uint64_t prefix = 0;

	if (!text || num_u64(span_of(text), 1, 128, &prefix) < 0 ||
	    block_cut_choose(&p->subnet, (uint8_t)prefix, p->one_node, &p->cut, e) < 0)
		return err_kind(e, ERR_CONF, -EINVAL,
				"pool '%s': annotation " ANNOTATION_BLOCK_PREFIX
				" is '%.40s', which is not a prefix length that fits the pool's "
				"subnet: remove the annotation, but only while the pool has no "
				"blocks",
				p->name, text ? text : "");
	return 0;
}

static void know(struct blocks_pool *p)
{
	p->is_cut = true;
	blocks_backoff_clear(p->b, p->name);
	blocks_schedule(p->b, 0);
}

static void on_written(void *arg, int status, const struct json *object, const struct err *e)
{
	struct blocks_pool *p = arg;
	struct err bad = ERR_INIT;

	(void)status;
	p->cutting = NULL;
	/* The watch may have delivered the block size of another node before this answer. */
	if (p->is_cut)
		return;
	if (e)
		later(p, e);
	else if (read_cut(p, object, &bad) == 0)
		know(p);
	else
		later(p, &bad);
}

static void put_patch(struct json_out *o, const struct blocks_pool *p, const char *version)
{
	struct buf text;

	buf_init(&text, 8);
	buf_printf(&text, "%u", p->cut.prefix);
	kube_patch_begin(o, version);
	jo_key(o, "annotations");
	jo_obj(o);
	jo_kstr(o, ANNOTATION_BLOCK_PREFIX, text.p);
	jo_end_obj(o);
	jo_end_obj(o);
	jo_end_obj(o);
	buf_done(&text);
}

static void write_cut(struct blocks_pool *p, const char *version)
{
	struct kube_request r = {.verb = KUBE_MERGE_PATCH,
				 .on = {.kind = &kube_ippools, .name = p->name},
				 .timeout_ms = BLOCKS_REQUEST_MS};
	auto_buf struct buf body;
	struct json_out o;

	buf_init(&body, 1024);
	jo_init(&o, &body, 0);
	put_patch(&o, p, version);
	r.body = buf_span(&body);
	p->b->stats.requests++;
	p->cutting = kube_send(p->b->c.kube, &r, on_written, p);
}

/* Chooses the pool's block size and writes it. If another node has written it meanwhile, the write
 * is refused, and the watch delivers that block size (blocks_pools()). */
static void choose_cut(struct blocks *b, struct blocks_pool *p)
{
	const char *version = b->c.pool_version(b->c.arg, p->name);
	struct err e = ERR_INIT;

	if (p->cutting || blocks_backoff_until(b, p->name))
		return;
	if (!p->cut_ms) {
		p->cut_ms = blocks_now(b) + jitter_ms(0, AMONG_MS);
		blocks_schedule(b, p->cut_ms - blocks_now(b));
	}
	if (blocks_now(b) < p->cut_ms)
		return;
	if (!version)
		err_set(&e, -EAGAIN, "pool '%s' is not read from the API server yet", p->name);
	if (!version || block_cut_choose(&p->subnet, 0, p->one_node, &p->cut, &e) < 0)
		later(p, &e);
	else
		write_cut(p, version);
}

/* --- demand: how many addresses each pool lacks on this node, how many it can release --- */

/* LEAD_MS: how long a claim in flight delays this node's claims in other pools, see is_led() in
 * block/plan_acquire.c. VIEW_MS and AHEAD_MS: see struct block_facts. EXPECTED_MS: how long a
 * prediction is valid. */
enum { VIEW_MS = 1000, AHEAD_MS = 60 * 1000, LEAD_MS = 500, EXPECTED_MS = 60 * 1000 };

struct count {
	uint64_t idle;
	bool in_use;	/* addresses of the pool are used by pods on this node, or retained */
	uint32_t taken; /* number of used addresses, without retained ones */
};

/* Returns the index of the first lease whose address is not below a. */
static size_t lease_at_or_after(const struct lease_table *t, const struct ipaddr *a)
{
	return LOWER_BOUND(i, t->n, ip_cmp(&t->v[i].address.ip, a) < 0);
}

/* Counts leases, not addresses, because a pool may be a /64. Reads only the leases of the pool,
 * because it is called for each pool. */
static struct count count_pool(const struct blocks *b, const struct block_facts *f,
			       const struct blocks_pool *p)
{
	struct ip_set mine = {0};
	struct count n = {0};
	uint64_t busy = 0;

	block_usable(&b->t, p->name, &p->usable, &mine);
	for (size_t k = 0; k < p->usable.n; k++) {
		const struct ip_range *r = &p->usable.v[k];

		for (size_t i = lease_at_or_after(&b->leases, &r->first);
		     i < b->leases.n && ip_cmp(&b->leases.v[i].address.ip, &r->last) <= 0; i++) {
			const struct lease *l = &b->leases.v[i];

			n.in_use |= l->state == LEASE_USED || l->state == LEASE_RETAINED;
			n.taken += l->state == LEASE_USED;
			busy += ip_set_has(&mine, &l->address.ip) &&
				block_is_busy(f, &l->address.ip);
		}
	}
	n.idle = (uint64_t)ip_set_count(&mine) - busy;
	ip_set_done(&mine);
	return n;
}

/* Returns the lowest number of spare addresses during the last idle_ms (now: the present number),
 * so that a node does not release a block that it claims again a minute later. */
static uint32_t spare_of(struct blocks *b, struct blocks_pool *p, uint32_t now)
{
	int64_t length = b->c.idle_ms / BLOCKS_IDLE_PARTS + 1;
	int64_t part = blocks_now(b) / length;
	uint32_t least = now;

	if (!p->spare_part)
		p->spare_part = part;
	for (; p->spare_part < part; p->spare_part++)
		p->spare[(p->spare_part + 1) % BLOCKS_IDLE_PARTS] = now;
	if (now < p->spare[part % BLOCKS_IDLE_PARTS])
		p->spare[part % BLOCKS_IDLE_PARTS] = now;
	for (size_t i = 0; i < BLOCKS_IDLE_PARTS; i++)
		if (p->spare[i] < least)
			least = p->spare[i];
	return least;
}

/* Returns the number of addresses expected for pods that were scheduled here and have not
 * requested any yet. Each allocation reduces the number; after EXPECTED_MS the prediction is
 * dropped. */
static uint32_t expected_of(struct blocks *b, struct blocks_pool *p, uint32_t taken)
{
	uint32_t allocated = taken > p->taken ? taken - p->taken : 0;

	p->taken = taken;
	p->expected -= allocated < p->expected ? allocated : p->expected;
	if (blocks_now(b) - p->expected_ms >= EXPECTED_MS)
		p->expected = 0;
	return p->expected;
}

static bool is_searching(const struct blocks *b, const char *pool)
{
	for (size_t i = 0; i < b->n_in_flight; i++) {
		const struct block_op *op = &b->in_flight[i]->op;

		if (strcmp(op->pool, pool) == 0 &&
		    (op->kind == OP_CREATE || op->kind == OP_TAKE_OVER || op->kind == OP_BORROW ||
		     op->kind == OP_LIST || op->kind == OP_REQUEST))
			return true;
	}
	return blocks_backoff_until(b, pool) != 0;
}

static bool is_claiming(const struct blocks *b, const char *pool)
{
	for (size_t i = 0; i < b->n_in_flight; i++) {
		const struct blocks_in_flight *f = b->in_flight[i];

		if (f->op.kind == OP_CREATE && strcmp(f->op.pool, pool) == 0 &&
		    blocks_now(b) - f->since_ms < LEAD_MS)
			return true;
	}
	return false;
}

static uint32_t clamp(uint64_t n)
{
	return n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

static struct block_need need_of(struct blocks *b, const struct block_facts *f,
				 struct blocks_pool *p)
{
	struct count n = count_pool(b, f, p);
	int64_t now = blocks_now(b);
	uint32_t pre_allocate;

	if (n.in_use || p->want)
		p->used_ms = now;
	pre_allocate = p->used_ms && now - p->used_ms < b->c.idle_ms ? b->c.pre_allocate : 0;
	pre_allocate += expected_of(b, p, n.taken);
	p->idle = clamp(n.idle);
	return (struct block_need){
		.pool = p->name,
		.cut = p->cut,
		.usable = &p->usable,
		.adopted = &p->adopted,
		.want = p->want > p->idle ? p->want - p->idle : 0,
		.keep = p->want < p->idle ? p->want : p->idle,
		.ahead = pre_allocate > p->idle ? pre_allocate - p->idle : 0,
		.names = p->names,
		.n_names = p->n_names,
		/* Only free addresses beyond twice pre_allocate are spare: with a lower limit the
		 * node would release a block that it has just claimed. */
		.spare =
			spare_of(b, p, p->idle > 2 * pre_allocate ? p->idle - 2 * pre_allocate : 0),
		.under_way = !p->is_cut || is_searching(b, p->name),
		.claiming = is_claiming(b, p->name),
	};
}

static struct block_facts facts_of(struct blocks *b, const struct block_need *needs, size_t n)
{
	size_t n_reserved = blocks_reserved(b);

	b->seed = b->seed * 6364136223846793005u + 1442695040888963407u;
	return (struct block_facts){
		.table = &b->t,
		.log = &b->log,
		.needs = needs,
		.n_needs = n,
		.leases = &b->leases,
		.reserved = b->busy,
		.n_reserved = n_reserved,
		.seed = b->seed >> 20,
		.now_ms = blocks_now(b),
		.real_ms = blocks_real_ms(b),
		.reuse_delay_ms = b->reuse_delay_ms,
		.quarantine_ms = b->quarantine_ms,
		.view_ms = VIEW_MS,
		.ahead_ms = AHEAD_MS,
		.frozen = blocks_is_frozen(b),
		.observed_restore = b->observed_restore,
		.rescan_ms = b->log.etcd_restored ? b->rescan_ms : 0,
		.alone = b->inventory_complete && !b->other_alive,
	};
}

/* Fills needs[], which has room for all pools; returns their number. */
static size_t demand_of_all(struct blocks *b, struct block_need *needs)
{
	struct block_facts f = facts_of(b, NULL, 0);

	for (size_t i = 0; i < b->n_pools; i++) {
		struct blocks_pool *p = b->pools[i];

		if (p->known)
			needs[i] = need_of(b, &f, p);
		else
			needs[i] = (struct block_need){
				.pool = p->name, .usable = &p->usable, .spare = UINT32_MAX};
		if (p->known && !p->is_cut && (needs[i].want || needs[i].ahead || p->n_names))
			choose_cut(b, p);
	}
	return b->n_pools;
}

/* --- the end of a request --- */

static bool is_search(enum block_op_kind k)
{
	return k == OP_CREATE || k == OP_TAKE_OVER || k == OP_BORROW || k == OP_LIST ||
	       k == OP_REQUEST;
}

/* Returns the backoff key of a request. A search has one backoff per pool, because its next request
 * is for another block. */
static const char *key_of(const struct block_op *op)
{
	return is_search(op->kind) ? op->pool : op->name;
}

static void count(struct blocks *b, const struct block_op *op, enum block_outcome r)
{
	struct blocks_stats *s = &b->stats;

	s->refused += r == BLOCK_REFUSED;
	s->unanswered += r == BLOCK_UNKNOWN;
	if (r != BLOCK_OK)
		return;
	s->claimed += op->kind == OP_CREATE || op->kind == OP_TAKE_OVER;
	s->blocks_released += op->kind == OP_DELETE || op->kind == OP_DISOWN;
	s->released += op->kind == OP_RELEASE ? op->n_ips : 0;
	s->borrowed += op->kind == OP_BORROW ? op->n_ips : 0;
	s->returned += op->kind == OP_RETURN;
	s->listed += op->kind == OP_LIST;
}

static void pace(struct blocks *b, const struct block_op *op, enum block_outcome r)
{
	const char *key = key_of(op);

	if (r == BLOCK_UNKNOWN || (r == BLOCK_ABSENT && op->kind == OP_READ && !op->ip.family))
		blocks_backoff_set(b, key, LOST_MS, LOST_MOST_MS);
	else if (r == BLOCK_REFUSED)
		blocks_backoff_set(b, key, RIVAL_MS, RIVAL_MOST_MS);
	else if (op->kind != OP_LIST && op->kind != OP_READ)
		blocks_backoff_clear(b, key);
}

static void in_flight_free(struct blocks_in_flight *f)
{
	kube_cancel(f->call);
	kube_list_cancel(f->list);
	for (size_t i = 0; i < f->n_listed; i++)
		block_object_done(&f->listed[i]);
	free(f->listed);
	block_object_done(&f->object);
	block_op_done(&f->op);
	free(f);
}

static void land(struct blocks_in_flight *f)
{
	struct blocks *b = f->b;

	for (size_t i = 0; i < b->n_in_flight; i++)
		if (b->in_flight[i] == f)
			b->in_flight[i] = b->in_flight[--b->n_in_flight];
}

static int apply(struct blocks_in_flight *f, struct err *e)
{
	struct blocks *b = f->b;
	struct block_object *o = f->object.name ? &f->object : NULL;
	enum block_outcome r = f->outcome;
	int n;

	land(f);
	if (f->fn)
		f->fn(f->arg, r, o);
	n = block_op_end(&b->log, &b->t, &f->op, r, o, blocks_now(b), e);
	if (r != BLOCK_UNKNOWN)
		blocks_rescanned(b, &f->op);
	count(b, &f->op, r);
	pace(b, &f->op, r);
	if (r == BLOCK_OK)
		*blocks_pool_get(b, f->op.pool)->logged = '\0';
	return n;
}

/* Applies all answers of an iteration of the loop with one write of the log: the claims of a pod's
 * rails are answered together. */
static void on_ended(void *arg)
{
	auto_free struct blocks_in_flight **v = NULL;
	struct err e = ERR_INIT;
	struct blocks *b = arg;
	size_t n = 0;
	int r = 0;

	b->ended = NULL;
	for (size_t i = 0; i < b->n_in_flight; i++)
		if (b->in_flight[i]->has_ended)
			VEC_PUSH(v, n) = b->in_flight[i];
	block_log_batch(&b->log);
	for (size_t i = 0; i < n; i++)
		r = apply(v[i], r < 0 ? NULL : &e) < 0 ? -1 : r;
	if (block_log_commit(&b->log, &b->t, r < 0 ? NULL : &e) < 0 || r < 0)
		log_failed(b, &e);
	for (size_t i = 0; i < n; i++) {
		blocks_notify(b, v[i]->op.pool);
		in_flight_free(v[i]);
	}
	blocks_schedule(b, 0);
}

/* o: object in the answer, whose contents are moved; NULL: the answer has none. */
static void ended(struct blocks_in_flight *f, enum block_outcome r, struct block_object *o)
{
	struct blocks *b = f->b;

	f->has_ended = true;
	f->outcome = r;
	if (o) {
		f->object = *o;
		*o = (struct block_object){0};
	}
	if (!b->ended)
		b->ended = loop_add_timer(b->loop, 0, on_ended, b);
}

/* Returns the outcome of a request. A 404 for the resource type instead of the object does not
 * prove that the object is missing; neither does a response that was truncated after its head. */
static enum block_outcome outcome(const struct blocks_in_flight *f, int status, const struct err *e)
{
	if (e && ((status == 404 && e->kind == ERR_UNAVAILABLE) || status < 300))
		status = 0;
	return block_outcome_of(f->op.kind, status);
}

static void on_done(void *arg, int status, const struct json *object, const struct err *e)
{
	struct blocks_in_flight *f = arg;
	struct block_object o = {0};
	struct err bad = ERR_INIT;
	enum block_outcome r = outcome(f, status, e);

	f->call = NULL;
	if (r == BLOCK_OK && f->op.kind != OP_DELETE && block_object_read(object, &o, &bad) < 0) {
		r = BLOCK_UNKNOWN;
		e = &bad;
	}
	if (r == BLOCK_UNKNOWN && e)
		blocks_report_error(f->b, f->op.pool, e);
	ended(f, r, o.name ? &o : NULL);
	block_object_done(&o);
}

/* --- lists of a pool's blocks --- */

static int on_item(void *arg, const struct json *object, struct err *e)
{
	struct blocks_in_flight *f = arg;
	struct block_object o;
	int r = block_object_read(object, &o, e);

	if (r < 0)
		return r;
	VEC_PUSH(f->listed, f->n_listed) = o;
	return 0;
}

static void on_listed(void *arg, const char *version, const struct err *e)
{
	struct blocks_in_flight *f = arg;
	struct blocks *b = f->b;
	const struct blocks_pool *p = blocks_pool_find(b, f->op.pool);

	(void)version;
	f->list = NULL;
	if (e)
		blocks_report_error(b, f->op.pool, e);
	else if (p)
		block_view_put(&b->t, p->name, &p->cut, f->listed, f->n_listed, blocks_now(b));
	ended(f, e ? BLOCK_UNKNOWN : BLOCK_OK, NULL);
}

static void send_list(struct blocks_in_flight *f)
{
	static const struct kube_list_ops ops = {on_item, on_listed};
	char label[BLOCK_LABEL_MAX], select[sizeof(LABEL_POOL) + 1 + BLOCK_LABEL_MAX];
	const struct kube_select s = {.labels = select};

	strcpy(select, LABEL_POOL "=");
	strcat(select, block_label(f->op.pool, label));
	/* resourceVersion 0 lists from the API server's cache; a list from etcd would read the
	 * blocks of all pools. Slightly old data suffices. */
	f->list = kube_list_since(f->b->c.kube, &kube_ipblocks, &s, "0", &ops, f);
}

/* --- sending requests --- */

static enum kube_verb verb_of(const struct block_request *q)
{
	if (strcmp(q->method, "POST") == 0)
		return KUBE_CREATE;
	if (strcmp(q->method, "DELETE") == 0)
		return KUBE_DELETE;
	if (strcmp(q->method, "PATCH") == 0)
		return q->is_merge ? KUBE_MERGE_PATCH : KUBE_JSON_PATCH;
	return KUBE_GET;
}

static void send(struct blocks_in_flight *f)
{
	struct blocks *b = f->b;
	struct block_request q;
	struct kube_request r = {.on = {.kind = &kube_ipblocks, .name = f->op.name},
				 .timeout_ms = BLOCKS_REQUEST_MS,
				 .once = true};

	block_request(&f->op, b->node, *b->t.node_uid ? b->t.node_uid : "-", &q);
	r.verb = verb_of(&q);
	r.body = buf_span(&q.body);
	f->call = kube_send(b->c.kube, &r, on_done, f);
	block_request_done(&q);
}

bool blocks_is_under_way(const struct blocks *b, const char *name)
{
	for (size_t i = 0; i < b->n_in_flight; i++)
		if (strcmp(b->in_flight[i]->op.name, name) == 0)
			return true;
	return false;
}

bool blocks_start(struct blocks *b, struct block_op *op)
{
	struct blocks_in_flight *f = xcalloc(1, sizeof(*f));
	struct err e = ERR_INIT;

	*f = (struct blocks_in_flight){.b = b, .op = *op, .since_ms = blocks_now(b)};
	*op = (struct block_op){0};
	if (block_op_begin(&b->log, &b->t, &f->op, &e) < 0) {
		log_failed(b, &e);
		in_flight_free(f);
		return false;
	}
	log_works(b);
	if (f->op.kind == OP_FORGET) {
		in_flight_free(f);
		blocks_schedule(b, 0);
		return true;
	}
	VEC_PUSH(b->in_flight, b->n_in_flight) = f;
	b->stats.requests++;
	if (f->op.kind == OP_LIST)
		send_list(f);
	else
		send(f);
	return true;
}

void blocks_drop_in_flight(struct blocks *b)
{
	for (size_t i = 0; i < b->n_in_flight; i++) {
		struct blocks_in_flight *f = b->in_flight[i];

		if (f->fn)
			f->fn(f->arg, BLOCK_UNKNOWN, NULL);
		in_flight_free(f);
	}
	free(take(b->in_flight));
	b->n_in_flight = 0;
	loop_del_timer(b->ended);
	b->ended = NULL;
}

/* Sends the plan's requests. Those that search addresses of one pool share a backoff (key_of()) and
 * are sent together. */
static void carry_out(struct blocks *b, struct block_plan *plan)
{
	for (size_t i = 0; i < plan->n && b->n_in_flight < BLOCKS_IN_FLIGHT_MAX; i++) {
		struct block_op *op = &plan->v[i];

		if (op->kind != OP_LIST && blocks_is_under_way(b, op->name))
			continue;
		if (blocks_backoff_until(b, key_of(op)))
			continue;
		if (!blocks_start(b, op))
			return;
	}
}

static bool is_wanted(const struct blocks *b)
{
	for (size_t i = 0; i < b->n_pools; i++)
		if (b->pools[i]->known &&
		    (b->pools[i]->n_names || b->pools[i]->want > b->pools[i]->idle))
			return true;
	return false;
}

static void end_recovery(struct blocks *b, const struct block_facts *f)
{
	if (!b->log.etcd_restored || f->frozen || !block_has_rescanned(f))
		return;
	log_info("blocks: recovery from the etcd restore is complete");
	block_log_etcd_restored(&b->log, &b->t, false, NULL);
	b->observed_restore = false;
}

/* Delay until the next reconcile unless an event triggers it earlier: the earliest backoff expiry,
 * or the poll interval. */
static int64_t next_ms(const struct blocks *b)
{
	int64_t ms = is_wanted(b) ? REQUIRED_MS : jitter_ms(TICK_MS / 2, TICK_MS);
	int64_t now = blocks_now(b);

	for (size_t i = 0; i < b->n_backoffs; i++)
		if (b->backoffs[i].until_ms > now && b->backoffs[i].until_ms - now < ms)
			ms = b->backoffs[i].until_ms - now;
	return ms;
}

void blocks_reconcile(struct blocks *b)
{
	auto_free struct block_need *needs = xcalloc(b->n_pools + 1, sizeof(*needs));
	struct block_facts f;
	struct block_plan plan;

	if (!b->leases_known || !b->pools_known || !b->t.synced)
		return;
	/* Nothing is sent while the watch is disconnected: this node then does not know whether
	 * etcd was restored. */
	if (kube_informer_behind_ms(b->informer) > 0) {
		blocks_schedule(b, REQUIRED_MS);
		return;
	}
	if (blocks_backoff_until(b, BLOCKS_DISK_KEY)) {
		blocks_schedule(b, blocks_backoff_until(b, BLOCKS_DISK_KEY) - blocks_now(b));
		return;
	}
	block_table_stamp(&b->t, blocks_now(b));
	f = facts_of(b, needs, demand_of_all(b, needs));
	end_recovery(b, &f);
	block_plan(&f, &plan);
	carry_out(b, &plan);
	if (plan.next_ms)
		blocks_schedule(b, plan.next_ms - blocks_now(b));
	block_plan_done(&plan);
	blocks_schedule(b, next_ms(b));
}
