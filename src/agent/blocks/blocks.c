/* SPDX-License-Identifier: Apache-2.0 */
/* What is known from outside: pools, leases, wants. */
#include "agent/blocks/blocks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/blocks/blocks_priv.h"
#include "base/cleanup.h"
#include "base/random.h"

enum { LOCK_MS = 5000 };

/* --- pools --- */

struct blocks_pool *blocks_pool_find(const struct blocks *b, const char *name)
{
	for (size_t i = 0; i < b->n_pools; i++)
		if (strcmp(b->pools[i]->name, name) == 0)
			return b->pools[i];
	return NULL;
}

struct blocks_pool *blocks_pool_get(struct blocks *b, const char *name)
{
	struct blocks_pool *p = blocks_pool_find(b, name);

	if (p)
		return p;
	p = xcalloc(1, sizeof(*p));
	p->b = b;
	p->name = xstrdup(name);
	VEC_PUSH(b->pools, b->n_pools) = p;
	return p;
}

static void copy_set(struct ip_set *to, const struct ip_set *s)
{
	ip_set_done(to);
	*to = (struct ip_set){.family = s->family};
	for (size_t i = 0; i < s->n; i++)
		ip_set_add(to, &s->v[i]);
}

static void take_pool(struct blocks *b, const struct pool *x)
{
	struct blocks_pool *p = blocks_pool_get(b, x->name);
	struct ipnet subnet = ipnet_network(&x->subnet);

	/* Another pool of the same name. */
	if (!p->known || !ipnet_eq(&p->subnet, &subnet)) {
		p->is_cut = false;
		p->cut_ms = 0;
	}
	p->known = true;
	p->subnet = subnet;
	p->one_node = x->n_nodes == 1;
	/* The set may be cut to what is ours already. */
	copy_set(&p->usable, x->open.n ? &x->open : &x->usable);
	copy_set(&p->adopted, &x->adopted);
	if (p->is_cut || !x->cut_is_written)
		return;
	p->cut = x->cut;
	p->is_cut = true;
}

void blocks_pools(struct blocks *b, const struct pool_set *set)
{
	b->pools_known = true;
	b->rest_ms = set->rest_ms;
	b->quarantine_ms = set->quarantine_ms;
	for (size_t i = 0; i < b->n_pools; i++)
		b->pools[i]->known &= pool_find(set, b->pools[i]->name) != NULL;
	for (size_t i = 0; i < set->n; i++)
		take_pool(b, &set->v[i]);
	/* Those of the log whose pool is gone are left as they become idle. */
	for (size_t i = 0; i < b->t.n_claims; i++)
		blocks_pool_get(b, b->t.claims[i].pool);
	for (size_t i = 0; i < b->t.n_loans; i++)
		blocks_pool_get(b, b->t.loans[i].pool);
	blocks_soon(b, 0);
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

/* --- leases and wants --- */

/* Only address, state and time: the strings are the store's. */
void blocks_leases(struct blocks *b, const struct lease_table *t)
{
	struct lease l = LEASE_INIT;

	lease_table_done(&b->leases);
	lease_table_reserve(&b->leases, t->n);
	for (size_t i = 0; i < t->n; i++) {
		l.address = t->v[i].address;
		l.state = t->v[i].state;
		l.at_ms = t->v[i].at_ms;
		lease_put(&b->leases, &l);
	}
	b->leases_known = true;
	blocks_soon(b, 0);
}

void blocks_want(struct blocks *b, const char *pool, uint32_t count)
{
	struct blocks_pool *p = blocks_pool_get(b, pool);

	if (count)
		p->used_ms = blocks_now(b);
	p->want = count;
	blocks_soon(b, 0);
}

void blocks_expect(struct blocks *b, const char *pool, uint32_t count)
{
	struct blocks_pool *p = blocks_pool_get(b, pool);

	p->used_ms = blocks_now(b);
	if (count) {
		p->expected_ms = blocks_now(b);
		p->expected += count;
	}
	if (p->expected > BLOCKS_EXPECTED_MAX)
		p->expected = BLOCKS_EXPECTED_MAX;
	blocks_soon(b, 0);
}

void blocks_mine(const struct blocks *b, const char *pool, const struct ip_set *usable,
		 struct ip_set *ret)
{
	block_mine(&b->t, pool, usable, ret);
}

void blocks_only_said(const struct blocks *b, const char *pool, const struct ip_set *usable,
		      struct ip_set *ret)
{
	block_said(&b->t, pool, usable, ret);
}

bool blocks_ready(const struct blocks *b)
{
	return b->t.synced || b->trusted;
}

void blocks_tell(struct blocks *b, const char *pool)
{
	if (b->c.changed)
		b->c.changed(b->c.arg, pool);
}

void blocks_tell_all(struct blocks *b)
{
	for (size_t i = 0; i < b->n_pools; i++)
		blocks_tell(b, b->pools[i]->name);
}

int64_t blocks_real_ms(const struct blocks *b)
{
	return b->c.now_ms ? b->c.now_ms() : now_real_ms();
}

/* --- when --- */

static void on_tick(void *arg)
{
	struct blocks *b = arg;

	b->tick = NULL;
	blocks_work(b);
}

void blocks_soon(struct blocks *b, int64_t ms)
{
	int64_t due = blocks_now(b) + ms;

	if (b->tick && b->tick_ms <= due)
		return;
	loop_del_timer(b->tick);
	b->tick = loop_add_timer(b->loop, ms, on_tick, b);
	b->tick_ms = due;
}

/* --- from the start to the end --- */

int blocks_lock(const struct root *root, const char *state_dir, int *fd, struct err *e)
{
	auto_free char *path = xasprintf("%s/blocks.lock", state_dir);
	int r = dir_make(root, state_dir, 0700, e);

	if (r >= 0)
		r = lock_take(root, path, LOCK_MS, fd, e);
	if (r == -EWOULDBLOCK)
		return err_kind(e, ERR_AGAIN, r,
				"another agent runs with the state folder '%s': one of the two "
				"must end, or have a folder and a node of its own",
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
	b->made_anew = *b->t.node_uid && strcmp(b->t.node_uid, b->node_uid) != 0;
	return block_log_node(&b->log, &b->t, b->node_uid, e);
}

int blocks_new(struct blocks **ret, const struct blocks_conf *c, struct err *e)
{
	struct blocks *b = xcalloc(1, sizeof(*b));
	int r;

	*b = (struct blocks){.c = *c, .loop = kube_loop(c->kube), .lock = -1, .seed = c->seed};
	b->node = xstrdup(c->node);
	b->node_uid = xstrdup(c->node_uid ? c->node_uid : "");
	if (!b->c.reserve)
		b->c.reserve = BLOCKS_RESERVE;
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
	blocks_drop_flights(b);
	blocks_set_back_stop(b);
	kube_informer_free(b->informer);
	loop_del_timer(b->tick);
	loop_del_timer(b->trust);
	loop_del_timer(b->look);
	for (size_t i = 0; i < b->n_pools; i++)
		pool_free(b->pools[i]);
	free(b->pools);
	for (size_t i = 0; i < b->n_rests; i++)
		free(b->rests[i].key);
	free(b->rests);
	lease_table_done(&b->leases);
	free(b->pins);
	free(b->named);
	free(b->busy);
	blocks_drop_holders(b);
	block_table_done(&b->t);
	block_log_close(&b->log);
	if (b->lock >= 0)
		close(b->lock);
	free(b->node);
	free(b->node_uid);
	free(b);
}
