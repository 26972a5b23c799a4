/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/gc/unserved.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "controller/injection/inject.h"
#include "kube/kinds.h"
#include "server/prometheus.h"

enum { SETTLE_MS = 1000 };

struct unserved {
	struct unserved_conf conf;
	struct unserved_table table;
	struct loop_timer *timer;
};

/* --- the decision --- */

static void network_done(struct unserved_network *n)
{
	free(n->uid);
	free(n->ns);
	free(n->name);
	free(n->resource);
}

void unserved_table_done(struct unserved_table *t)
{
	for (size_t i = 0; i < t->n; i++)
		network_done(&t->v[i]);
	free(t->v);
	*t = (struct unserved_table){0};
}

static int by_uid(const void *a, const void *b)
{
	return strcmp(((const struct unserved_network *)a)->uid,
		      ((const struct unserved_network *)b)->uid);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool is_on_a_node(const char *const *resources, size_t n, const char *name)
{
	return n && bsearch(&name, resources, n, sizeof(*resources), by_text);
}

static struct unserved_network *known(const struct unserved_table *t,
				      const struct unserved_network *n)
{
	struct unserved_network *k = t->n ? bsearch(n, t->v, t->n, sizeof(*n), by_uid) : NULL;

	return k && !strcmp(k->resource, n->resource) ? k : NULL;
}

int64_t unserved_update(struct unserved_table *t, struct unserved_network *nets, size_t n,
			const char *const *resources, size_t n_resources, int64_t now_ms,
			unserved_fn fn, void *arg)
{
	struct unserved_table next = {0};
	int64_t due = -1;

	if (n)
		qsort(nets, n, sizeof(*nets), by_uid);
	for (size_t i = 0; i < n; i++) {
		struct unserved_network *x = &nets[i], *k = known(t, x);

		if (is_on_a_node(resources, n_resources, x->resource)) {
			if (k && k->reported)
				fn(arg, k, false);
			network_done(x);
			continue;
		}
		x->since = k ? k->since : now_ms;
		x->reported = k && k->reported;
		if (!x->reported && now_ms - x->since >= UNSERVED_GRACE_MS) {
			fn(arg, x, true);
			x->reported = true;
		}
		if (!x->reported && (due < 0 || x->since + UNSERVED_GRACE_MS < due))
			due = x->since + UNSERVED_GRACE_MS;
		VEC_PUSH(next.v, next.n) = *x;
	}
	unserved_table_done(t);
	*t = next;
	return due;
}

/* --- observe --- */

static struct unserved_network *list_networks(const struct cluster_cache *c, size_t *n)
{
	size_t count = cluster_cache_count(c, CLUSTER_CACHE_MULTUSCONFIGS);
	struct unserved_network *v = xcalloc(count, sizeof(*v));

	*n = 0;
	for (size_t i = 0; i < count; i++) {
		const struct kube_object *o = cluster_cache_at(c, CLUSTER_CACHE_MULTUSCONFIGS, i);
		struct inject_net net;

		inject_net_read(cluster_cache_json(o), &net);
		if (net.resource && !cluster_cache_object(o)->deleting)
			v[(*n)++] = (struct unserved_network){.uid = xstrdup(o->uid),
							      .ns = xstrdup(o->ns),
							      .name = xstrdup(o->name),
							      .resource = xstrdup(net.resource)};
		inject_net_done(&net);
	}
	return v;
}

/* Borrowed from the cache. */
static const char **list_resources(const struct gc_cache *c, size_t *n)
{
	const char **v = NULL;

	*n = 0;
	for (size_t i = 0; i < gc_cache_count(c, GC_CACHE_NODES); i++) {
		const char *at = gc_cache_node(gc_cache_at(c, GC_CACHE_NODES, i))->resources;

		for (; at && *at; at += strlen(at) + 1)
			VEC_PUSH(v, *n) = at;
	}
	if (*n)
		qsort(v, *n, sizeof(*v), by_text);
	return v;
}

/* --- act --- */

static void report(void *arg, const struct unserved_network *n, bool missing)
{
	const struct unserved *u = arg;
	auto_free char *text =
		missing ? xasprintf("no node has resource '%s': pods with this network stay "
				    "Pending; on a node that should have it run 'unirail device "
				    "explain', or correct the name of the resource",
				    n->resource)
			: xasprintf("a node has resource '%s'", n->resource);

	if (missing)
		log_warn("no node has the resource of a SpiderMultusConfig", LOG_S("ns", n->ns),
			 LOG_S("name", n->name), LOG_S("resource", n->resource));
	kube_events_add(u->conf.events,
			&(struct kube_event){.api_version = SPIDERPOOL_API,
					     .kind = "SpiderMultusConfig",
					     .ns = n->ns,
					     .name = n->name,
					     .uid = n->uid,
					     .warning = missing,
					     .reason = missing ? "ResourceOnNoNode"
							       : "ResourceAvailable",
					     .message = text});
}

static void check_in(struct unserved *u, int64_t ms);

static void on_check(void *arg)
{
	struct unserved *u = arg;
	int64_t now = loop_now_ms(kube_loop(u->conf.kube)), due;
	auto_free struct unserved_network *nets = NULL;
	auto_free const char **resources = NULL;
	size_t n, n_resources;

	u->timer = NULL;
	if (!gc_cache_synced(u->conf.gc_cache, GC_CACHE_NODES) ||
	    !cluster_cache_synced(u->conf.cache, CLUSTER_CACHE_MULTUSCONFIGS)) {
		check_in(u, UNSERVED_GRACE_MS);
		return;
	}
	nets = list_networks(u->conf.cache, &n);
	resources = list_resources(u->conf.gc_cache, &n_resources);
	due = unserved_update(&u->table, nets, n, resources, n_resources, now, report, u);
	if (due >= 0)
		check_in(u, due > now ? due - now : 0);
}

static void check_in(struct unserved *u, int64_t ms)
{
	loop_del_timer(u->timer);
	u->timer = loop_add_timer(kube_loop(u->conf.kube), ms, on_check, u);
}

static bool same_list(const char *a, const char *b)
{
	while (a && b && *a && *b && !strcmp(a, b)) {
		a += strlen(a) + 1;
		b += strlen(b) + 1;
	}
	return (!a || !*a) && (!b || !*b);
}

void unserved_node(struct unserved *u, const struct kube_object *was, const struct kube_object *is)
{
	const char *a = was ? gc_cache_node(was)->resources : NULL;
	const char *b = is ? gc_cache_node(is)->resources : NULL;

	if (!same_list(a, b))
		check_in(u, SETTLE_MS);
}

static void on_network(void *arg, const struct kube_object *was, const struct kube_object *is)
{
	(void)was, (void)is;
	check_in(arg, SETTLE_MS);
}

struct unserved *unserved_new(const struct unserved_conf *c)
{
	struct unserved *u = xcalloc(1, sizeof(*u));

	u->conf = *c;
	cluster_cache_on(c->cache, CLUSTER_CACHE_MULTUSCONFIGS, on_network, u);
	check_in(u, SETTLE_MS);
	return u;
}

void unserved_free(struct unserved *u)
{
	if (!u)
		return;
	cluster_cache_off(u->conf.cache, u);
	loop_del_timer(u->timer);
	unserved_table_done(&u->table);
	free(u);
}

void unserved_metrics(const struct unserved *u, struct buf *b)
{
	int64_t n = 0;

	for (size_t i = 0; i < u->table.n; i++)
		n += u->table.v[i].reported;
	sample_gauge(b, "unirail_controller_networks_without_resource", n,
		     "SpiderMultusConfigs whose device resource no node has.");
}
