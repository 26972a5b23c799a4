/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "agent/blocks/internal.h"
#include "base/alloc.h"
#include "base/num.h"
#include "base/sorted.h"

/* State of each pool on this node: how many addresses it lacks, how many it can release. */

/* LEAD_MS: how long the other pools wait for the result of the first claim. */
enum { VIEW_MS = 1000, AHEAD_MS = 60 * 1000, LEAD_MS = 500, EXPECTED_MS = 60 * 1000 };

struct count {
	uint64_t idle;
	bool in_use;	/* pods have addresses of it */
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

/* Returns the lowest number of addresses that was free during all of idle_ms, so that a node does
 * not release a block that it claims again a minute later. */
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

/* Addresses expected for pods that were scheduled here and have not requested any yet. Each
 * allocation reduces the number; after EXPECTED_MS the prediction is dropped. */
static uint32_t expected_of(struct blocks *b, struct blocks_pool *p, uint32_t taken)
{
	uint32_t came = taken > p->taken ? taken - p->taken : 0;

	p->taken = taken;
	p->expected -= came < p->expected ? came : p->expected;
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
	uint32_t reserve;

	if (n.in_use || p->want)
		p->used_ms = now;
	reserve = p->used_ms && now - p->used_ms < b->c.idle_ms ? b->c.reserve : 0;
	reserve += expected_of(b, p, n.taken);
	p->idle = clamp(n.idle);
	return (struct block_need){
		.pool = p->name,
		.cut = p->cut,
		.usable = &p->usable,
		.adopted = &p->adopted,
		.want = p->want > p->idle ? p->want - p->idle : 0,
		.keep = p->want < p->idle ? p->want : p->idle,
		.ahead = reserve > p->idle ? reserve - p->idle : 0,
		.names = p->names,
		.n_names = p->n_names,
		/* Twice the reserve: a node that has just claimed a block does not release it
		 * again. */
		.spare = spare_of(b, p, p->idle > 2 * reserve ? p->idle - 2 * reserve : 0),
		.under_way = !p->is_cut || is_searching(b, p->name),
		.claiming = is_claiming(b, p->name),
	};
}

static void blocks_cut(struct blocks *b, struct blocks_pool *p);

size_t blocks_demand(struct blocks *b, struct block_need *needs)
{
	struct block_facts f = blocks_facts(b, NULL, 0);

	for (size_t i = 0; i < b->n_pools; i++) {
		struct blocks_pool *p = b->pools[i];

		if (p->known)
			needs[i] = need_of(b, &f, p);
		else
			needs[i] = (struct block_need){
				.pool = p->name, .usable = &p->usable, .spare = UINT32_MAX};
		if (p->known && !p->is_cut && (needs[i].want || needs[i].ahead || p->n_names))
			blocks_cut(b, p);
	}
	return b->n_pools;
}

struct block_facts blocks_facts(struct blocks *b, const struct block_need *needs, size_t n)
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
		.rest_ms = b->rest_ms,
		.quarantine_ms = b->quarantine_ms,
		.view_ms = VIEW_MS,
		.ahead_ms = AHEAD_MS,
		.hold = blocks_is_held(b),
		.observed_restore = b->observed_restore,
		.rescan_ms = b->log.etcd_restored ? b->rescan_ms : 0,
		.alone = b->accounted && !b->other_alive,
	};
}

/* The block size is stored in an annotation of the pool. A node that finds no annotation writes one
 * with the resourceVersion it has read, so of two concurrent writers one is refused, and reads the
 * annotation of the other. */

#define CUT_ANNOTATION "unirail.io/block-prefix"

/* AMONG_MS: the first pods of a pool start on many nodes at once, and one node should write the
 * block size. */
enum { CUT_MS = 200, CUT_MOST_MS = 30000, AMONG_MS = 150 };

const struct kube_kind blocks_pools_kind = {"spiderpool.spidernet.io", "v2beta1", "spiderippools",
					    "ippool", false};

static void later(struct blocks_pool *p, const struct err *e)
{
	if (e->code != -ESTALE)
		blocks_report_error(p->b, p->name, e);
	blocks_backoff_set(p->b, p->name, CUT_MS, CUT_MOST_MS);
}

/* Returns 0 if the annotation exists and fits, 1 if there is none. */
static int read_cut(struct blocks_pool *p, const struct json *object, struct err *e)
{
	const struct json *meta = json_get(object, "metadata");
	const char *text = json_string(json_get(json_get(meta, "annotations"), CUT_ANNOTATION));
	uint64_t prefix = 0;

	if (!text)
		return 1;
	if (num_u64(span_of(text), 1, 128, &prefix) < 0 ||
	    block_cut_choose(&p->subnet, (uint8_t)prefix, p->one_node, &p->cut, e) < 0)
		return err_kind(e, ERR_CONF, -EINVAL,
				"pool '%s': annotation " CUT_ANNOTATION
				" is '%.40s', which does not fit its subnet: remove it while "
				"the pool has no blocks",
				p->name, text);
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
	jo_obj(o);
	jo_key(o, "metadata");
	jo_obj(o);
	jo_kstr(o, "resourceVersion", version);
	jo_key(o, "annotations");
	jo_obj(o);
	jo_kstr(o, CUT_ANNOTATION, text.p);
	jo_end_obj(o);
	jo_end_obj(o);
	jo_end_obj(o);
	buf_done(&text);
}

static void write_cut(struct blocks_pool *p, const char *version)
{
	struct kube_request r = {.verb = KUBE_MERGE_PATCH,
				 .on = {.kind = &blocks_pools_kind, .name = p->name},
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

static void on_read(void *arg, int status, const struct json *object, const struct err *e)
{
	struct blocks_pool *p = arg;
	const char *version =
		json_string(json_get(json_get(object, "metadata"), "resourceVersion"));
	struct err bad = ERR_INIT;
	int r = e ? e->code : read_cut(p, object, &bad);

	(void)status;
	p->cutting = NULL;
	if (r == 1 && version)
		r = block_cut_choose(&p->subnet, 0, p->one_node, &p->cut, &bad) < 0 ? bad.code : 1;
	if (r == 1 && version)
		write_cut(p, version);
	else if (r == 0)
		know(p);
	else
		later(p, e ? e : &bad);
}

/* Reads the pool's block size, or chooses and writes it. */
static void blocks_cut(struct blocks *b, struct blocks_pool *p)
{
	const struct kube_request r = {.verb = KUBE_GET,
				       .on = {.kind = &blocks_pools_kind, .name = p->name},
				       .timeout_ms = BLOCKS_REQUEST_MS};

	if (p->cutting || blocks_backoff_until(b, p->name))
		return;
	if (!p->cut_ms) {
		p->cut_ms = blocks_now(b) + kube_jitter(0, AMONG_MS);
		blocks_schedule(b, p->cut_ms - blocks_now(b));
	}
	if (blocks_now(b) < p->cut_ms)
		return;
	b->stats.requests++;
	p->cutting = kube_send(b->c.kube, &r, on_read, p);
}
