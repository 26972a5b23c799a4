/* SPDX-License-Identifier: Apache-2.0 */
/* Releases blocks of deleted nodes: sends the operations that block/release.h decides. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "block/codec.h"
#include "block/release.h"
#include "controller/gc/internal.h"
#include "kube/kinds.h"

/*
 * RECREATED_GRACES: number of grace periods after which a block that a recreated node has not
 * renewed is released: ten minutes with the default grace period. A node renews its blocks as soon
 * as its agent runs.
 */
enum { RECREATED_GRACES = 10 };

/* --- state of a block's entries --- */

static bool has_in(const struct gc_cache_endpoint *x, const struct ipnet *net)
{
	for (size_t i = 0; i < x->n; i++)
		if (ipnet_contains(net, &x->v[i].ip))
			return true;
	return false;
}

/* Returns whether an endpoint of the node has an address in net; node NULL: an endpoint of any
 * node. */
static bool is_used(const struct cluster_gc *g, const char *node, const struct ipnet *net)
{
	const struct kube_cache *c = g->conf.gc_cache;

	for (size_t i = 0; i < kube_cache_count(c, GC_CACHE_ENDPOINTS); i++) {
		const struct gc_cache_endpoint *x =
			gc_cache_endpoint(kube_cache_at(c, GC_CACHE_ENDPOINTS, i));

		if ((!node || strcmp(x->node, node) == 0) && has_in(x, net))
			return true;
	}
	return false;
}

/* Returns whether to release the block of a node that was recreated under the same name (other
 * UID): the node has not renewed the block for RECREATED_GRACES, and no endpoint of the node has
 * an address in it. */
static bool is_left_behind(struct cluster_gc *g, struct gc_cache_block *b)
{
	const struct kube_object *n =
		kube_cache_get(g->conf.gc_cache, GC_CACHE_NODES, "", b->o.node);

	if (!n || !*b->o.node_uid || strcmp(n->uid, b->o.node_uid) == 0) {
		b->since = 0;
		return false;
	}
	if (!b->since)
		b->since = cluster_gc_now(g);
	return cluster_gc_now(g) - b->since >= RECREATED_GRACES * g->conf.grace_ms &&
	       !is_used(g, b->o.node, &b->o.net);
}

static bool is_deleted(void *arg, const char *node, const char *uid)
{
	const struct cluster_gc *g = arg;

	return cluster_gc_node_is_deleted(g, node) || (*uid && g->recreated);
}

static bool is_lost(void *arg, const struct ipaddr *ip)
{
	const struct cluster_gc *g = arg;
	const struct ipnet one = ipnet_host(ip);
	int64_t from = block_entry_find(&g->block->o, ip)->since_ms;

	if (!g->ready_since)
		return false;
	if (g->ready_since > from)
		from = g->ready_since;
	return cluster_gc_now(g) - from >= GC_SCANS * g->conf.interval_ms &&
	       !is_used(g, NULL, &one);
}

static bool is_unknown(const struct block_entry *x)
{
	return strcmp(x->to, "?") == 0;
}

size_t cluster_gc_unknown(const struct block_object *o)
{
	size_t n = 0;

	for (size_t i = 0; i < o->n_released; i++)
		n += is_unknown(&o->released[i]);
	return n;
}

static void watch_lost(struct cluster_gc *g, struct gc_cache_block *b)
{
	for (size_t i = 0; i < b->o.n_released; i++) {
		struct block_entry *x = &b->o.released[i];

		if (is_unknown(x) && !x->since_ms)
			x->since_ms = cluster_gc_now(g) > 0 ? cluster_gc_now(g) : 1;
	}
}

/* Without this function, each change of a block would reset `since` and since_ms to 0, and peers
 * change blocks all the time by requests and entries. */
void cluster_gc_block_changed(const struct gc_cache_block *was, struct gc_cache_block *is)
{
	if (strcmp(was->o.node, is->o.node) == 0 && strcmp(was->o.node_uid, is->o.node_uid) == 0)
		is->since = was->since;
	for (size_t i = 0; i < is->o.n_released; i++) {
		struct block_entry *x = &is->o.released[i];
		const struct block_entry *y = block_entry_find(&was->o, &x->ip);

		if (is_unknown(x) && y && is_unknown(y))
			x->since_ms = y->since_ms;
	}
}

/* --- retained addresses --- */

static bool is_wanted(struct cluster_gc *g, const struct kube_object *o)
{
	const struct gc_cache_endpoint *x = gc_cache_endpoint(o);

	return !x->owned && x->n > 0 &&
	       !(cluster_gc_node_is_deleted(g, x->node) &&
		 liveness_name(g->conf.requests, o->ns, o->name) == LIVENESS_DELETED);
}

static void collect_retained(struct cluster_gc *g)
{
	const struct kube_cache *c = g->conf.gc_cache;

	free(take(g->retained));
	g->n_retained = 0;
	for (size_t i = 0; i < kube_cache_count(c, GC_CACHE_ENDPOINTS); i++) {
		const struct kube_object *o = kube_cache_at(c, GC_CACHE_ENDPOINTS, i);
		const struct gc_cache_endpoint *x = gc_cache_endpoint(o);

		for (size_t k = 0; is_wanted(g, o) && k < x->n; k++)
			VEC_PUSH(g->retained, g->n_retained) = x->v[k].ip;
	}
	if (g->n_retained)
		qsort(g->retained, g->n_retained, sizeof(*g->retained), ip_order);
}

/* --- requests to change blocks --- */

static void describe(struct cluster_gc_request *f, const struct block_object *o,
		     const struct block_op *op)
{
	char text[IP_TEXT_MAX];

	f->about = xstrdup(o->pool);
	if (op->kind == OP_RETURN) {
		f->count = &f->g->stats.entries;
		f->reason = xstrdup("AddressFreed");
		f->message = xasprintf("garbage collection removed the entry of address %s in "
				       "block '%s', or retains the address for a pod name; the "
				       "entry was '%s'",
				       ip_str(&op->ip, text), o->name, op->from);
		return;
	}
	f->count = &f->g->stats.blocks;
	f->reason = xstrdup("BlockReleased");
	if (*o->node)
		f->message = xasprintf("block '%s' (%s) is released: node '%s' was deleted or "
				       "recreated, or is out of service",
				       o->name, ipnet_str(&o->net, text), o->node);
	else
		f->message = xasprintf("block '%s' (%s) is free: no pod has an address of it",
				       o->name, ipnet_str(&o->net, text));
}

static void begin(struct cluster_gc *g, const struct kube_object *k, const struct block_op *op)
{
	const struct block_object *o = &gc_cache_block(k)->o;
	struct kube_request r = {.verb = op->kind == OP_DELETE ? KUBE_DELETE : KUBE_JSON_PATCH,
				 .on = {.kind = &kube_ipblocks, .name = op->name},
				 .once = true};
	struct block_request q;

	block_request(op, "", "", &q);
	r.body = buf_span(&q.body);
	describe(cluster_gc_begin(g, GC_CACHE_BLOCKS, k, &r), o, op);
	block_request_done(&q);
}

/*
 * Returns whether a block may have to be released or has a retained entry. Otherwise the pass does
 * not collect the retained addresses.
 */
static bool may_need_retained(const struct cluster_gc *g)
{
	const struct kube_cache *c = g->conf.gc_cache;

	if (g->stats.nodes_deleted)
		return true;
	for (size_t i = 0; i < kube_cache_count(c, GC_CACHE_BLOCKS); i++) {
		const struct block_object *o =
			&gc_cache_block(kube_cache_at(c, GC_CACHE_BLOCKS, i))->o;

		for (size_t k = 0; k < o->n_released; k++)
			if (strcmp(o->released[k].to, BLOCK_ENTRY_RETAINED) == 0)
				return true;
		if (*o->node_uid && gc_cache_block(kube_cache_at(c, GC_CACHE_BLOCKS, i))->since)
			return true;
	}
	return false;
}

static void scan(struct cluster_gc *g, const struct kube_object *k)
{
	struct gc_cache_block *b = gc_cache_block(k);
	const struct block_release f = {.is_deleted = is_deleted,
					.is_lost = is_lost,
					.arg = g,
					.retained = g->retained,
					.n_retained = g->n_retained};
	struct block_op op;

	watch_lost(g, b);
	g->block = b;
	g->recreated = is_left_behind(g, b);
	if (block_release_next(&b->o, &f, &op) && cluster_gc_is_free(g, GC_CACHE_BLOCKS, k))
		begin(g, k, &op);
	block_op_done(&op);
}

void cluster_gc_blocks_pass(struct cluster_gc *g)
{
	const struct kube_cache *c = g->conf.gc_cache;

	free(take(g->retained));
	g->n_retained = 0;
	if (may_need_retained(g))
		collect_retained(g);
	for (size_t i = 0; i < kube_cache_count(c, GC_CACHE_BLOCKS); i++)
		scan(g, kube_cache_at(c, GC_CACHE_BLOCKS, i));
}
