/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/blocks/blocks.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/blocks/internal.h"
#include "base/alloc.h"
#include "base/random.h"

/* Inputs from other parts of the agent: pools, leases, demand. */

enum { LOCK_MS = 5000 };

/* --- pools of the cluster --- */

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct blocks_pool *)a)->name, ((const struct blocks_pool *)b)->name);
}

struct blocks_pool *blocks_pool_find(const struct blocks *b, const char *name)
{
	const struct blocks_pool key = {.name = (char *)name};
	struct blocks_pool *const *found = tfind(&key, &b->pools_by_name, by_name);

	return found ? *found : NULL;
}

struct blocks_pool *blocks_pool_get(struct blocks *b, const char *name)
{
	struct blocks_pool *p = blocks_pool_find(b, name);

	if (p)
		return p;
	p = xcalloc(1, sizeof(*p));
	p->b = b;
	p->name = xstrdup(name);
	xtsearch(p, &b->pools_by_name, by_name);
	VEC_PUSH(b->pools, b->n_pools) = p;
	return p;
}

static void copy_set(struct ip_set *to, const struct ip_set *s)
{
	ip_set_done(to);
	*to = (struct ip_set){.family = s->family};
	for (size_t i = 0; i < s->n; i++)
		ip_set_collect(to, &s->v[i]);
}

static void take_pool(struct blocks *b, const struct pool *x)
{
	struct blocks_pool *p = blocks_pool_get(b, x->name);
	struct ipnet subnet = ipnet_network(&x->subnet);

	/* the pool is new, or another pool with the same name replaced it */
	if (!p->known || !ipnet_eq(&p->subnet, &subnet)) {
		p->is_cut = false;
		p->cut_ms = 0;
	}
	p->known = true;
	p->subnet = subnet;
	p->one_node = x->n_nodes == 1;
	/* x->usable may already be limited to this node's addresses; x->open is not. */
	copy_set(&p->usable, x->open.n ? &x->open : &x->usable);
	copy_set(&p->adopted, &x->adopted);
	if (p->is_cut || !x->cut_is_written)
		return;
	p->cut = x->cut;
	p->is_cut = true;
	blocks_backoff_clear(b, p->name);
}

void blocks_pools(struct blocks *b, const struct pool_set *set)
{
	b->pools_known = true;
	b->reuse_delay_ms = set->reuse_delay_ms;
	b->quarantine_ms = set->quarantine_ms;
	for (size_t i = 0; i < b->n_pools; i++)
		b->pools[i]->known &= pool_find(set, b->pools[i]->name) != NULL;
	for (size_t i = 0; i < set->n; i++)
		take_pool(b, &set->v[i]);
	/* Adds deleted pools of which this node still has claims or borrowed addresses to b->pools:
	 * idle blocks and addresses are released only for pools of that list. */
	for (size_t i = 0; i < b->t.n_claims; i++)
		blocks_pool_get(b, b->t.claims[i].pool);
	for (size_t i = 0; i < b->t.n_borrowed; i++)
		blocks_pool_get(b, b->t.borrowed[i].pool);
	blocks_schedule(b, 0);
}

/* Called by tdestroy() for each pool. Frees nothing, since b->pools owns the pools. */
static void keep_pool(void *p)
{
	(void)p;
}

static void pool_free(struct blocks_pool *p)
{
	kube_cancel(p->cutting);
	ip_set_done(&p->usable);
	ip_set_done(&p->adopted);
	free(p->names);
	free(p->name);
	free(p);
}

/* --- leases and demand --- */

static int by_lease_address(const void *a, const void *b)
{
	const struct lease *const *x = a, *const *y = b;

	return ip_cmp(&(*x)->address.ip, &(*y)->address.ip);
}

/* Copies only address, state and time: the strings belong to the store. Sorts the copies by
 * address, so that the leases of one pool are found without reading all leases (reconcile.c). */
void blocks_leases(struct blocks *b, const struct lease_table *t)
{
	auto_free const struct lease **v = xcalloc(t->n + 1, sizeof(*v));
	struct lease l = LEASE_INIT;

	lease_table_done(&b->leases);
	lease_table_reserve(&b->leases, t->n);
	for (size_t i = 0; i < t->n; i++)
		v[i] = &t->v[i];
	if (t->n > 0)
		qsort(v, t->n, sizeof(*v), by_lease_address);
	for (size_t i = 0; i < t->n; i++) {
		l.address = v[i]->address;
		l.state = v[i]->state;
		l.at_ms = v[i]->at_ms;
		lease_put(&b->leases, &l);
	}
	b->leases_known = true;
	blocks_schedule(b, 0);
}

void blocks_want(struct blocks *b, const char *pool, uint32_t count)
{
	struct blocks_pool *p = blocks_pool_get(b, pool);

	if (count)
		p->used_ms = blocks_now(b);
	p->want = count;
	blocks_schedule(b, 0);
}

void blocks_prefetch(struct blocks *b, const char *pool, uint32_t count)
{
	struct blocks_pool *p = blocks_pool_get(b, pool);

	p->used_ms = blocks_now(b);
	if (count) {
		p->expected_ms = blocks_now(b);
		p->expected += count;
	}
	if (p->expected > BLOCKS_EXPECTED_MAX)
		p->expected = BLOCKS_EXPECTED_MAX;
	blocks_schedule(b, 0);
}

void blocks_usable(const struct blocks *b, const char *pool, const struct ip_set *usable,
		   struct ip_set *ret)
{
	block_usable(&b->t, pool, usable, ret);
}

void blocks_reserved_only(const struct blocks *b, const char *pool, const struct ip_set *usable,
			  struct ip_set *ret)
{
	block_asserted(&b->t, pool, usable, ret);
}

bool blocks_ready(const struct blocks *b)
{
	return b->t.synced || b->trusted;
}

void blocks_notify(struct blocks *b, const char *pool)
{
	if (b->c.changed)
		b->c.changed(b->c.arg, pool);
}

void blocks_notify_all(struct blocks *b)
{
	for (size_t i = 0; i < b->n_pools; i++)
		blocks_notify(b, b->pools[i]->name);
}

int64_t blocks_real_ms(const struct blocks *b)
{
	return b->c.now_ms ? b->c.now_ms() : now_real_ms();
}

/* --- timer of the next reconcile --- */

static void on_tick(void *arg)
{
	blocks_reconcile(arg);
}

void blocks_schedule(struct blocks *b, int64_t ms)
{
	loop_alarm_within(&b->tick, ms);
}

/* --- lock and log, creation and destruction --- */

int blocks_lock(const struct root *root, const char *state_dir, int *fd, struct err *e)
{
	auto_free char *path = xasprintf("%s/blocks.lock", state_dir);
	int r = dir_make(root, state_dir, 0700, e);

	if (r >= 0)
		r = lock_take(root, path, LOCK_MS, fd, e);
	if (r == -EWOULDBLOCK)
		return err_kind(e, ERR_AGAIN, r,
				"state directory '%s' is locked by another agent: stop one of them "
				"or use a separate --state-dir and --node",
				state_dir);
	return r;
}

char *blocks_log_path(const char *state_dir)
{
	return xasprintf("%s/blocks.json", state_dir);
}

static int open_all(struct blocks *b, struct err *e)
{
	auto_free char *path = blocks_log_path(b->c.state_dir);
	int r = blocks_lock(b->c.root, b->c.state_dir, &b->lock, e);

	if (r < 0)
		return r;
	file_sweep(b->c.root, path);
	r = block_log_open(&b->log, b->c.root, path, b->node, &b->t, e);
	if (r < 0 || !*b->node_uid)
		return r;
	b->recreated = *b->t.node_uid && strcmp(b->t.node_uid, b->node_uid) != 0;
	return block_log_node(&b->log, &b->t, b->node_uid, e);
}

int blocks_new(struct blocks **ret, const struct blocks_conf *c, struct err *e)
{
	struct blocks *b = xcalloc(1, sizeof(*b));
	int r;

	*b = (struct blocks){.c = *c,
			     .loop = kube_loop(c->kube),
			     .lock = -1,
			     .seed = c->seed,
			     .tick = LOOP_ALARM(kube_loop(c->kube), on_tick, b)};
	b->node = xstrdup(c->node);
	b->node_uid = xstrdup(c->node_uid ? c->node_uid : "");
	if (!b->c.pre_allocate)
		b->c.pre_allocate = BLOCKS_PRE_ALLOCATE;
	if (!b->c.idle_ms)
		b->c.idle_ms = BLOCKS_IDLE_MS;
	if (!b->seed)
		random_bytes(&b->seed, sizeof(b->seed));
	r = open_all(b, e);
	b->c.state_dir = NULL;
	if (r < 0) {
		blocks_free(b);
		return r;
	}
	blocks_watch(b);
	*ret = b;
	return 0;
}

void blocks_free(struct blocks *b)
{
	if (!b)
		return;
	blocks_drop_in_flight(b);
	blocks_etcd_restored_stop(b);
	kube_informer_free(b->informer);
	loop_alarm_cancel(&b->tick);
	loop_alarm_cancel(&b->trust);
	loop_alarm_cancel(&b->scan);
	tdestroy(b->pools_by_name, keep_pool);
	for (size_t i = 0; i < b->n_pools; i++)
		pool_free(b->pools[i]);
	free(b->pools);
	for (size_t i = 0; i < b->n_backoffs; i++)
		free(b->backoffs[i].key);
	free(b->backoffs);
	lease_table_done(&b->leases);
	free(b->reserved);
	free(b->named);
	free(b->busy);
	blocks_drop_owners(b);
	block_table_done(&b->t);
	block_log_close(&b->log);
	if (b->lock >= 0)
		close(b->lock);
	free(b->node);
	free(b->node_uid);
	free(b);
}

/* --- requests of the migration, in addition to those of the plan --- */

const struct block_table *blocks_table(const struct blocks *b)
{
	return &b->t;
}

static bool may_request(struct blocks *b, const struct block_op *op)
{
	return b->leases_known && b->pools_known && b->t.synced &&
	       kube_informer_behind_ms(b->informer) == 0 &&
	       !blocks_backoff_until(b, BLOCKS_DISK_KEY) && b->n_in_flight < BLOCKS_IN_FLIGHT_MAX &&
	       (op->kind == OP_READ || !blocks_is_frozen(b)) && !blocks_is_under_way(b, op->name);
}

bool blocks_request(struct blocks *b, struct block_op *op, blocks_done_fn fn, void *arg)
{
	struct blocks_in_flight *f;

	if (!may_request(b, op)) {
		block_op_done(op);
		return false;
	}
	if (!blocks_start(b, op))
		return false;
	f = b->in_flight[b->n_in_flight - 1];
	f->fn = fn;
	f->arg = arg;
	return true;
}

void blocks_cancel(struct blocks *b, const void *arg)
{
	for (size_t i = 0; i < b->n_in_flight; i++)
		if (b->in_flight[i]->arg == arg)
			b->in_flight[i]->fn = NULL;
}

void blocks_reservation(struct blocks *b, const struct ipaddr *v, size_t n)
{
	free(b->reserved);
	b->reserved = n ? xcalloc(n, sizeof(*v)) : NULL;
	b->n_reserved = n;
	if (n)
		memcpy(b->reserved, v, n * sizeof(*v));
	blocks_schedule(b, 0);
}

/* --- addresses that pending requests name --- */

/*
 * PIN_NAMED_MS: how long an address in a list passed to blocks_names() stays reserved. PIN_MS: how
 * long it stays reserved after a later list omits it; the request that named the address is retried
 * within that time, because the retry takes one iteration of the event loop, or one batch of the
 * store.
 */
enum { PIN_MS = 3000, PIN_NAMED_MS = 60 * 1000 };

/* Orders reservations of one address as they were added, so that the merge can retain the last
 * one. */
static int by_address(const void *a, const void *b)
{
	const struct blocks_reservation *x = a, *y = b;
	int r = ip_cmp(&x->ip, &y->ip);

	return r ? r : x->seq < y->seq ? -1 : x->seq > y->seq;
}

void blocks_reservations_add(struct blocks_reservation **v, size_t *n, const struct ipaddr *a,
			     int64_t until_ms)
{
	VEC_PUSH(*v, *n) = (struct blocks_reservation){.ip = *a, .until_ms = until_ms, .seq = *n};
}

void blocks_reservations_merge(struct blocks_reservation *v, size_t *n)
{
	size_t n_unique = 0;

	if (*n > 1)
		qsort(v, *n, sizeof(*v), by_address);
	for (size_t i = 0; i < *n; i++) {
		n_unique -= n_unique > 0 && ip_eq(&v[n_unique - 1].ip, &v[i].ip);
		v[n_unique] = v[i];
		v[n_unique].seq = n_unique;
		n_unique++;
	}
	*n = n_unique;
}

size_t blocks_reserved(struct blocks *b)
{
	size_t n = b->n_reserved;

	size_t n_left = 0;

	for (size_t i = 0; i < b->n_named; i++)
		if (b->named[i].until_ms > blocks_now(b))
			b->named[n_left++] = b->named[i];
	b->n_named = n_left;
	free(b->busy);
	b->busy = xcalloc(n + b->n_named + 1, sizeof(*b->busy));
	if (n)
		memcpy(b->busy, b->reserved, n * sizeof(*b->busy));
	for (size_t i = 0; i < b->n_named; i++)
		b->busy[n++] = b->named[i].ip;
	if (n > 1)
		qsort(b->busy, n, sizeof(*b->busy), ip_order);
	return n;
}

static void drop_names(struct blocks *b, struct blocks_pool *p)
{
	for (size_t i = 0; i < p->n_names; i++)
		blocks_reservations_add(&b->named, &b->n_named, &p->names[i],
					blocks_now(b) + PIN_MS);
	free(p->names);
	p->names = NULL;
	p->n_names = 0;
}

void blocks_names(struct blocks *b, const struct need_name *v, size_t n)
{
	for (size_t i = 0; i < b->n_pools; i++)
		drop_names(b, b->pools[i]);
	for (size_t i = 0; i < n; i++) {
		struct blocks_pool *p = blocks_pool_get(b, v[i].pool);

		VEC_PUSH(p->names, p->n_names) = v[i].ip;
		blocks_reservations_add(&b->named, &b->n_named, &v[i].ip,
					blocks_now(b) + PIN_NAMED_MS);
	}
	blocks_reservations_merge(b->named, &b->n_named);
	if (n)
		blocks_schedule(b, 0);
}

/* --- backoffs for a block, for the search of a pool, and for the log --- */

static struct blocks_backoff_set *backoff_find(const struct blocks *b, const char *key)
{
	for (size_t i = 0; i < b->n_backoffs; i++)
		if (strcmp(b->backoffs[i].key, key) == 0)
			return &b->backoffs[i];
	return NULL;
}

void blocks_backoff_set(struct blocks *b, const char *key, int64_t base_ms, int64_t most_ms)
{
	struct blocks_backoff_set *x = backoff_find(b, key);
	int64_t ms;

	if (!x) {
		x = &VEC_PUSH(b->backoffs, b->n_backoffs);
		x->key = xstrdup(key);
	}
	x->backoff.base = base_ms;
	x->backoff.most = most_ms;
	ms = backoff_next(&x->backoff);
	x->until_ms = blocks_now(b) + ms;
	blocks_schedule(b, ms);
}

void blocks_backoff_clear(struct blocks *b, const char *key)
{
	struct blocks_backoff_set *x = backoff_find(b, key);

	if (!x)
		return;
	free(x->key);
	*x = b->backoffs[--b->n_backoffs];
}

int64_t blocks_backoff_until(const struct blocks *b, const char *key)
{
	const struct blocks_backoff_set *x = backoff_find(b, key);

	return x && x->until_ms > blocks_now(b) ? x->until_ms : 0;
}
