/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/blocks/pools.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "ipam/pool/pool_cluster.h"

struct node_pools {
	struct node_pools_conf conf;
	struct blocks *blocks; /* blocks of this node; NULL: this node's UID is unknown */
	char *node_uid;
};

static void on_blocks(void *arg, const char *pool)
{
	struct node_pools *l = arg;

	l->conf.changed(l->conf.arg, pool);
}

static const char *pool_version(void *arg, const char *pool)
{
	const struct node_pools *l = arg;

	return cluster_pool_version(l->conf.cluster, pool);
}

static void set_up(const struct node_pools *l, struct pool_set *s)
{
	s->reuse_delay_ms = l->conf.reuse_delay_ms;
	s->quarantine_ms = l->conf.quarantine_ms;
	s->conflict_detection = l->conf.conflict_detection;
	s->gateway_detection = l->conf.gateway_detection;
}

static void report_pools(struct node_pools *l)
{
	struct pool_set *s = cluster_pools(l->conf.cluster);

	if (!s)
		return;
	set_up(l, s);
	if (l->blocks)
		blocks_pools(l->blocks, s);
}

/* Blocks carry the UID of the Node object: if the Node was recreated, the blocks are opened
 * again with the new UID. */
static int open_blocks(struct node_pools *l, struct err *e)
{
	const char *uid = cluster_node_uid(l->conf.cluster);
	const struct blocks_conf c = {
		.kube = l->conf.kube,
		.root = l->conf.root,
		.state_dir = l->conf.state_dir,
		.node = l->conf.node,
		.node_uid = uid,
		.pre_allocate = l->conf.pre_allocate,
		.idle_ms = l->conf.idle_ms,
		.changed = on_blocks,
		.pool_version = pool_version,
		.arg = l,
	};

	if (!uid || (l->node_uid && strcmp(l->node_uid, uid) == 0))
		return 0;
	free(l->node_uid);
	l->node_uid = xstrdup(uid);
	blocks_free(take(l->blocks));
	return blocks_new(&l->blocks, &c, e);
}

int node_pools_new(struct node_pools **ret, const struct node_pools_conf *c, struct err *e)
{
	struct node_pools *l = xcalloc(1, sizeof(*l));
	int r;

	l->conf = *c;
	r = open_blocks(l, e);
	if (r < 0) {
		node_pools_free(l);
		return r;
	}
	report_pools(l);
	*ret = l;
	return 0;
}

void node_pools_free(struct node_pools *l)
{
	if (!l)
		return;
	blocks_free(l->blocks);
	free(l->node_uid);
	free(l);
}

void node_pools_settings(struct node_pools *l, const struct node_pools_conf *c)
{
	l->conf.reuse_delay_ms = c->reuse_delay_ms;
	l->conf.quarantine_ms = c->quarantine_ms;
	l->conf.conflict_detection = c->conflict_detection;
	l->conf.gateway_detection = c->gateway_detection;
	report_pools(l);
}

void node_pools_pools_changed(struct node_pools *l, bool addresses)
{
	report_pools(l);
	if (addresses)
		l->conf.changed(l->conf.arg, NULL);
}

int node_pools_node_changed(struct node_pools *l, struct err *e)
{
	int r = open_blocks(l, e);

	if (r == 0) {
		report_pools(l);
		l->conf.changed(l->conf.arg, NULL);
	}
	return r;
}

int node_pools_ready(const struct node_pools *l, struct err *e)
{
	int r;

	if (!cluster_pools(l->conf.cluster)) {
		r = kube_cache_error(cluster_objects(l->conf.cluster), CLUSTER_POOLS, e);
		if (r == 0)
			r = kube_cache_error(cluster_objects(l->conf.cluster), CLUSTER_RESERVED, e);
		return r < 0 ? r
			     : err_kind(e, ERR_AGAIN, -EAGAIN,
					"pools are not read from the API server yet");
	}
	if (!l->blocks) {
		r = kube_cache_error(cluster_objects(l->conf.cluster), CLUSTER_NODE, e);
		return r < 0 ? r
			     : err_kind(e, ERR_AGAIN, -EAGAIN,
					"the API server has no node '%s': set NODE_NAME, or "
					"'node' in the agent's settings, to the name of this "
					"node's Node object",
					l->conf.node);
	}
	if (!blocks_ready(l->blocks))
		return err_kind(e, ERR_AGAIN, -EAGAIN,
				"this node's blocks are not read from the API server yet");
	return 0;
}

/* --- attaching pools to the store --- */

static void cut(const struct node_pools *l, struct pool *p)
{
	struct ip_set open = {.family = p->family}, adopted = {.family = p->family};

	if (l->blocks) {
		blocks_usable(l->blocks, p->name, &p->open, &open);
		blocks_usable(l->blocks, p->name, &p->adopted, &adopted);
		/* Adopted and asserted addresses stay with their owner and are never allocated to
		 * another pod. */
		blocks_reserved_only(l->blocks, p->name, &p->open, &adopted);
		blocks_reserved_only(l->blocks, p->name, &p->adopted, &adopted);
	}
	pool_kube_cut(p, &open, &adopted);
}

static int no_pools(const struct node_pools *l, struct err *e)
{
	const struct pool_set *s = cluster_pools(l->conf.cluster);

	if (s->n_out > 0)
		return err_kind(e, ERR_CONF, -ENOENT, "none of the %zu pools can be used: %s: %s",
				s->n_out, s->out[0].name, s->out[0].cause);
	return err_kind(e, ERR_CONF, -ENOENT,
			"the cluster has no SpiderIPPool: create one (kubectl apply)");
}

void node_pools_take(struct node_pools *l, struct ipam_pools *ret)
{
	struct pool_set *s = cluster_pools(l->conf.cluster);

	*ret = (struct ipam_pools){0};
	if (!s || s->n == 0) {
		ret->r = s ? no_pools(l, &ret->cause) : node_pools_ready(l, &ret->cause);
		return;
	}
	for (size_t i = 0; i < s->n; i++)
		cut(l, &s->v[i]);
	ret->set = *s;
}

void node_pools_detach(struct node_pools *l, struct ipam_pools *p)
{
	if (p->r == 0)
		*cluster_pools(l->conf.cluster) = p->set;
	*p = (struct ipam_pools){0};
}

void node_pools_describe_name(const struct node_pools *l, const struct ipaddr *a, struct buf *w)
{
	auto_buf struct buf b;
	char text[IP_TEXT_MAX];

	buf_init(&b, 400);
	blocks_describe_name(l->blocks, a, &b);
	if (b.len)
		buf_printf(w, " (%s: %s)", ip_str(a, text), b.p);
}

void node_pools_describe(const struct node_pools *l, const char *pool, struct buf *w)
{
	auto_buf struct buf b;

	buf_init(&b, 400);
	blocks_describe(l->blocks, pool, &b);
	if (b.len)
		buf_printf(w, " (pool '%s': %s)", pool, b.p);
}

struct blocks *node_pools_blocks(struct node_pools *l)
{
	return l->blocks;
}
