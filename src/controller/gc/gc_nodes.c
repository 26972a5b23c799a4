/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/sorted.h"
#include "controller/gc/internal.h"
#include "kube/kinds.h"
#include "kube/object.h"

/* Detects deleted nodes. */

static bool find(const struct cluster_gc *g, const char *name, size_t *at)
{
	*at = LOWER_BOUND(i, g->n_nodes, strcmp(g->nodes[i].name, name) < 0);
	return *at < g->n_nodes && strcmp(g->nodes[*at].name, name) == 0;
}

static const struct gc_cache_node *node_of(const struct cluster_gc *g, const char *name)
{
	const struct kube_object *o = kube_cache_get(g->conf.gc_cache, GC_CACHE_NODES, "", name);

	return o ? gc_cache_node(o) : NULL;
}

static bool is_there(const struct cluster_gc *g, const char *name)
{
	const struct gc_cache_node *n = node_of(g, name);

	return n && !(n->fenced && !n->ready);
}

bool cluster_gc_node_is_cut_off(const struct cluster_gc *g, const char *name)
{
	const struct gc_cache_node *n = node_of(g, name);

	return n && !n->ready && !n->fenced;
}

static void suspect(struct cluster_gc *g, const char *name)
{
	size_t at;

	if (!find(g, name, &at)) {
		VEC_PUSH(g->nodes, g->n_nodes) = (struct cluster_gc_node){0};
		memmove(&g->nodes[at + 1], &g->nodes[at],
			(g->n_nodes - 1 - at) * sizeof(*g->nodes));
		g->nodes[at] =
			(struct cluster_gc_node){.name = xstrdup(name), .since = cluster_gc_now(g)};
	}
	g->nodes[at].seen = true;
}

/* Skips repeated lookups: consecutive objects mostly name the same node. */
struct looker {
	struct cluster_gc *g;
	const char *last;
};

static void inspect(struct looker *l, const char *name)
{
	if (!*name || strcmp(name, "-") == 0 || (l->last && strcmp(l->last, name) == 0))
		return;
	l->last = name;
	if (!is_there(l->g, name))
		suspect(l->g, name);
}

static void inspect_entry(struct looker *l, const char *to)
{
	const struct block_entry x = {.to = (char *)to};
	char name[BLOCK_NAME_MAX + 1];

	if (!block_entry_node(&x, name))
		return;
	l->last = NULL;
	inspect(l, name);
	l->last = NULL;
}

static void inspect_all(struct cluster_gc *g)
{
	const struct kube_cache *c = g->conf.gc_cache;
	struct looker l = {.g = g};

	for (size_t i = 0; i < kube_cache_count(c, GC_CACHE_BLOCKS); i++) {
		const struct block_object *o =
			&gc_cache_block(kube_cache_at(c, GC_CACHE_BLOCKS, i))->o;

		inspect(&l, o->node);
		for (size_t k = 0; k < o->n_released; k++)
			inspect_entry(&l, o->released[k].to);
	}
	for (size_t i = 0; i < kube_cache_count(c, GC_CACHE_ENDPOINTS); i++)
		inspect(&l, gc_cache_endpoint(kube_cache_at(c, GC_CACHE_ENDPOINTS, i))->node);
}

/* Removes from g->nodes each node that exists and is Ready or not fenced, or that no object names
 * any more. */
static void clear(struct cluster_gc *g)
{
	size_t retained = 0;

	for (size_t i = 0; i < g->n_nodes; i++) {
		if (g->nodes[i].seen)
			g->nodes[retained++] = g->nodes[i];
		else
			free(g->nodes[i].name);
	}
	g->n_nodes = retained;
}

/*
 * A pod bound to the node may run until its object is deleted. On a fenced node Kubernetes does not
 * evict pods that tolerate the taint, such as DaemonSet pods including the agent's own: these count
 * only if they have addresses.
 */
static bool may_have_addresses(const struct cluster_gc *g, const struct kube_object *o)
{
	const struct gc_cache_pod *p = gc_cache_pod(o);
	const struct kube_object *x;

	if (p->finished || p->host_network)
		return false;
	if (p->deleting || !node_of(g, p->node))
		return true;
	x = kube_cache_get(g->conf.gc_cache, GC_CACHE_ENDPOINTS, o->ns, o->name);
	return x && gc_cache_endpoint(x)->n > 0;
}

static void find_pods(struct cluster_gc *g)
{
	const struct kube_cache *c = g->conf.gc_cache;
	size_t at;

	for (size_t i = 0; g->n_nodes && i < kube_cache_count(c, GC_CACHE_PODS); i++) {
		const struct kube_object *o = kube_cache_at(c, GC_CACHE_PODS, i);

		if (find(g, gc_cache_pod(o)->node, &at) && may_have_addresses(g, o))
			g->nodes[at].pod = o;
	}
}

static void say_waits(struct cluster_gc_node *n)
{
	auto_free char *pod = xasprintf("%s/%s", n->pod->ns, n->pod->name);

	if (!n->logged)
		log_warn("keeping the addresses of a deleted or fenced node: a pod is still "
			 "bound to it: delete the pod by 'kubectl delete pod --force'",
			 LOG_S("node", n->name), LOG_S("pod", pod));
	n->logged = true;
}

void cluster_gc_nodes_check(struct cluster_gc *g)
{
	for (size_t i = 0; i < g->n_nodes; i++) {
		g->nodes[i].seen = g->nodes[i].sure = false;
		g->nodes[i].pod = NULL;
	}
	inspect_all(g);
	clear(g);
	find_pods(g);
	g->stats.nodes_deleted = 0;
	for (size_t i = 0; i < g->n_nodes; i++) {
		struct cluster_gc_node *n = &g->nodes[i];

		if (cluster_gc_now(g) - n->since < g->conf.grace_ms)
			continue;
		if (n->pod)
			say_waits(n);
		n->sure = !n->pod && liveness_node(g->conf.requests, n->name) == LIVENESS_DELETED;
		g->stats.nodes_deleted += n->sure;
	}
}

bool cluster_gc_node_is_deleted(const struct cluster_gc *g, const char *name)
{
	size_t at;

	return find(g, name, &at) && g->nodes[at].sure;
}

void cluster_gc_nodes_done(struct cluster_gc *g)
{
	for (size_t i = 0; i < g->n_nodes; i++)
		free(g->nodes[i].name);
	free(g->nodes);
	g->nodes = NULL;
	g->n_nodes = 0;
}

/* --- SpiderEndpoints whose pod is gone --- */

static bool is_live(const struct cluster_gc *g, const struct kube_object *o)
{
	const struct kube_object *pod =
		kube_cache_get(g->conf.gc_cache, GC_CACHE_PODS, o->ns, o->name);
	const char *uid = gc_cache_endpoint(o)->uid;

	return pod && !gc_cache_pod(pod)->finished && (!*uid || strcmp(pod->uid, uid) == 0);
}

/* Returns the time in ms for which the pod must be gone before the controller deletes the endpoint,
 * or removes its finalizer. */
static int64_t patience(const struct cluster_gc *g, const struct gc_cache_endpoint *x)
{
	if (!x->by_unirail || x->deleting || cluster_gc_node_is_deleted(g, x->node))
		return g->conf.grace_ms;
	return GC_SCANS * g->conf.interval_ms;
}

static bool is_due(struct cluster_gc *g, const struct kube_object *o)
{
	struct gc_cache_endpoint *x = gc_cache_endpoint(o);
	int64_t wait;

	if (is_live(g, o) || cluster_gc_node_is_cut_off(g, x->node)) {
		x->since = 0;
		return false;
	}
	if (!x->since)
		x->since = cluster_gc_now(g) > 0 ? cluster_gc_now(g) : 1;
	wait = x->since + patience(g, x) - cluster_gc_now(g);
	if (wait > 0)
		return false;
	if (liveness_pod(g->conf.requests, o->ns, o->name, x->uid) != LIVENESS_DELETED)
		return false;
	return x->owned || liveness_name(g->conf.requests, o->ns, o->name) == LIVENESS_DELETED;
}

/* Removes Spiderpool's finalizer, which unirail does not need; other finalizers stay. */
static void take_off(struct cluster_gc *g, const struct kube_object *o)
{
	auto_buf struct buf b;
	struct json_out j;

	/* a byte takes up to 6 bytes as JSON */
	buf_init(&b, 6 * GC_FINALIZERS_MAX + 1024);
	jo_init(&j, &b, 0);
	kube_patch_begin(&j, o->version);
	jo_key(&j, "finalizers");
	jo_arr(&j);
	for (const char *f = gc_cache_endpoint(o)->other_finalizers; *f; f += strlen(f) + 1)
		jo_str(&j, f);
	jo_end_arr(&j);
	jo_end_obj(&j);
	jo_end_obj(&j);
	cluster_gc_begin(g, GC_CACHE_ENDPOINTS, o,
			 &(struct kube_request){
				 .verb = KUBE_MERGE_PATCH,
				 .on = {.kind = &kube_endpoints, .ns = o->ns, .name = o->name},
				 .body = buf_span(&b),
				 .once = true,
			 })
		->count = &g->stats.finalizers;
}

static void remove_it(struct cluster_gc *g, const struct kube_object *o)
{
	const struct gc_cache_endpoint *x = gc_cache_endpoint(o);
	struct cluster_gc_request *f = cluster_gc_begin(
		g, GC_CACHE_ENDPOINTS, o,
		&(struct kube_request){
			.verb = KUBE_DELETE,
			.on = {.kind = &kube_endpoints, .ns = o->ns, .name = o->name},
			.uid = o->uid,
			.resource_version = o->version,
		});

	f->count = &g->stats.endpoints;
	/*
	 * Counts only addresses of deleted nodes: the agent counts those of its node, and those of
	 * Spiderpool are counted when their records are removed.
	 */
	f->addresses = x->by_unirail && cluster_gc_node_is_deleted(g, x->node) ? x->n : 0;
	f->reason = xstrdup("EndpointRemoved");
	f->message = xasprintf("pod '%s/%s' was deleted or has finished%s; the pod had %zu "
			       "addresses",
			       o->ns, o->name,
			       cluster_gc_node_is_deleted(g, x->node)
				       ? ", and its node was deleted or is fenced"
				       : "",
			       x->n);
}

void cluster_gc_endpoints_pass(struct cluster_gc *g)
{
	const struct kube_cache *c = g->conf.gc_cache;

	for (size_t i = 0; i < kube_cache_count(c, GC_CACHE_ENDPOINTS); i++) {
		const struct kube_object *o = kube_cache_at(c, GC_CACHE_ENDPOINTS, i);
		const struct gc_cache_endpoint *x = gc_cache_endpoint(o);

		if (!is_due(g, o) || !cluster_gc_is_free(g, GC_CACHE_ENDPOINTS, o))
			continue;
		if (x->finalizer)
			take_off(g, o);
		else if (!x->deleting)
			remove_it(g, o);
	}
}
