/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/gc/unserved.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "controller/injection/inject.h"
#include "kube/kinds.h"
#include "server/prometheus.h"
#include "spec/missing_resource.h"

enum { SETTLE_MS = 1000 };

struct unserved {
	struct unserved_conf conf;
	struct unserved_table table;
	struct loop_alarm timer;
	bool decided; /* the table has been updated once */
};

static void check_in(struct unserved *u, int64_t ms)
{
	loop_alarm_within(&u->timer, ms);
}

/* --- the table of networks without resource --- */

static void network_done(struct unserved_network *n)
{
	free(n->uid);
	free(n->ns);
	free(n->name);
	free(n->resource);
	free(n->suggestion);
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

static bool is_on_a_node(const char *const *resources, size_t n, const char *name)
{
	return n && bsearch(&name, resources, n, sizeof(*resources), str_order);
}

static struct unserved_network *known(const struct unserved_table *t,
				      const struct unserved_network *n)
{
	struct unserved_network *k = t->n ? bsearch(n, t->v, t->n, sizeof(*n), by_uid) : NULL;

	return k && !strcmp(k->resource, n->resource) ? k : NULL;
}

/* Sets n->suggestion to the name most similar to n->resource among the resources of the nodes
 * (NULL: none is similar). Returns whether this differs from the suggestion in k, the former
 * entry of the network (k is NULL: it had none). */
static bool find_suggestion(struct unserved_network *n, struct unserved_network *k,
			    const char *const *resources, size_t n_resources)
{
	const char *name = missing_resource_suggest(n->resource, resources, n_resources);
	const char *was = k ? k->suggestion : NULL;

	n->suggestion = name ? xstrdup(name) : NULL;
	return strcmp(was ? was : "", name ? name : "") != 0;
}

static void keep_suggestion(struct unserved_network *n, struct unserved_network *k)
{
	if (!k)
		return;
	n->suggestion = k->suggestion;
	k->suggestion = NULL;
}

int64_t unserved_update(struct unserved_table *t, struct unserved_network *nets, size_t n,
			const char *const *resources, size_t n_resources, int64_t now_ms,
			unserved_fn fn, void *arg)
{
	struct unserved_table next = {0};
	size_t searched = 0;
	int64_t due = -1;

	if (n)
		qsort(nets, n, sizeof(*nets), by_uid);
	for (size_t i = 0; i < n; i++) {
		struct unserved_network *x = &nets[i], *k = known(t, x);
		bool is_due, other = false;

		if (is_on_a_node(resources, n_resources, x->resource)) {
			if (k && k->reported)
				fn(arg, k, UNSERVED_AVAILABLE);
			network_done(x);
			continue;
		}
		x->since = k ? k->since : now_ms;
		x->reported = k && k->reported;
		is_due = !x->reported && now_ms - x->since >= UNSERVED_GRACE_MS;
		if ((x->reported || is_due) && searched++ < UNSERVED_SUGGESTIONS_MAX)
			other = find_suggestion(x, k, resources, n_resources);
		else
			keep_suggestion(x, k);
		if (is_due || other)
			fn(arg, x, is_due ? UNSERVED_MISSING : UNSERVED_SUGGESTION);
		x->reported |= is_due;
		if (!x->reported && (due < 0 || x->since + UNSERVED_GRACE_MS < due))
			due = x->since + UNSERVED_GRACE_MS;
		VEC_PUSH(next.v, next.n) = *x;
	}
	unserved_table_done(t);
	*t = next;
	return due;
}

char *unserved_table_annotation(const struct unserved_table *t, bool decided, const char *uid,
				const char *resource, const char *is)
{
	const struct unserved_network key = {.uid = (char *)uid, .resource = (char *)resource};
	const struct unserved_network *k = known(t, &key);
	struct missing_resource m;
	char *ret = NULL;

	if (k && k->reported)
		return missing_resource_text(resource, k->suggestion);
	if (!k && decided)
		return NULL;
	/* Keeps the current annotation unless it names another resource than the
	 * SpiderMultusConfig. */
	if (missing_resource_read(is, &m) && strcmp(m.resource, resource) == 0)
		ret = xstrdup(is);
	missing_resource_done(&m);
	return ret;
}

/* --- input: networks and the resources of nodes --- */

static struct unserved_network *list_networks(const struct kube_cache *c, size_t *n)
{
	size_t count = kube_cache_count(c, CLUSTER_CACHE_MULTUSCONFIGS);
	struct unserved_network *v = xcalloc(count, sizeof(*v));

	*n = 0;
	for (size_t i = 0; i < count; i++) {
		const struct kube_object *o = kube_cache_at(c, CLUSTER_CACHE_MULTUSCONFIGS, i);
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

/* Lists the resources of all nodes, sorted, without duplicates; the strings are borrowed from
 * the cache. */
static const char **list_resources(const struct kube_cache *c, size_t *n)
{
	const char **v = NULL;
	size_t n_unique = 1;

	*n = 0;
	for (size_t i = 0; i < kube_cache_count(c, GC_CACHE_NODES); i++) {
		const char *at = gc_cache_node(kube_cache_at(c, GC_CACHE_NODES, i))->resources;

		for (; at && *at; at += strlen(at) + 1)
			VEC_PUSH(v, *n) = at;
	}
	if (!*n)
		return v;
	qsort(v, *n, sizeof(*v), str_order);
	for (size_t i = 1; i < *n; i++)
		if (strcmp(v[n_unique - 1], v[i]) != 0)
			v[n_unique++] = v[i];
	*n = n_unique;
	return v;
}

/* --- reports in the log, events and annotations --- */

static void changed(const struct unserved *u, const char *ns, const char *name)
{
	if (u->conf.changed)
		u->conf.changed(u->conf.arg, ns, name);
}

static void report(void *arg, const struct unserved_network *n, enum unserved_event ev)
{
	const struct unserved *u = arg;
	bool missing = ev == UNSERVED_MISSING;
	auto_free char *suggestion =
		n->suggestion ? xasprintf(" (did you mean '%s'?)", n->suggestion) : NULL;
	auto_free char *text =
		missing ? xasprintf("no node has resource '%s'%s: pods with this network stay "
				    "Pending; on a node that should have it run 'unirail device "
				    "explain', or correct the name of the resource",
				    n->resource, suggestion ? suggestion : "")
			: xasprintf("a node has resource '%s'", n->resource);

	changed(u, n->ns, n->name);
	if (ev == UNSERVED_SUGGESTION)
		return;
	if (missing)
		log_warn("no node has the resource of a SpiderMultusConfig",
			 LOG_S("namespace", n->ns), LOG_S("name", n->name),
			 LOG_S("resource", n->resource),
			 LOG_S("suggestion", n->suggestion ? n->suggestion : "-"));
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

/* Calls conf.changed() for every SpiderMultusConfig, because a former leader may have left
 * outdated annotations on NADs. */
static void changed_all(const struct unserved *u)
{
	for (size_t i = 0; i < kube_cache_count(u->conf.cache, CLUSTER_CACHE_MULTUSCONFIGS); i++) {
		const struct kube_object *o =
			kube_cache_at(u->conf.cache, CLUSTER_CACHE_MULTUSCONFIGS, i);

		changed(u, o->ns, o->name);
	}
}

static void on_check(void *arg)
{
	struct unserved *u = arg;
	int64_t now = loop_now_ms(kube_loop(u->conf.kube)), due;
	auto_free struct unserved_network *nets = NULL;
	auto_free const char **resources = NULL;
	size_t n, n_resources;

	if (!kube_cache_synced(u->conf.gc_cache, GC_CACHE_NODES) ||
	    !kube_cache_synced(u->conf.cache, CLUSTER_CACHE_MULTUSCONFIGS)) {
		check_in(u, UNSERVED_GRACE_MS);
		return;
	}
	nets = list_networks(u->conf.cache, &n);
	resources = list_resources(u->conf.gc_cache, &n_resources);
	due = unserved_update(&u->table, nets, n, resources, n_resources, now, report, u);
	if (!u->decided)
		changed_all(u);
	u->decided = true;
	if (due >= 0)
		check_in(u, due > now ? due - now : 0);
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
	u->timer = LOOP_ALARM(kube_loop(c->kube), on_check, u);
	kube_cache_on(c->cache, CLUSTER_CACHE_MULTUSCONFIGS, on_network, u);
	check_in(u, SETTLE_MS);
	return u;
}

void unserved_free(struct unserved *u)
{
	if (!u)
		return;
	kube_cache_off(u->conf.cache, u);
	loop_alarm_cancel(&u->timer);
	unserved_table_done(&u->table);
	free(u);
}

void unserved_metrics(const struct unserved *u, struct buf *b)
{
	int64_t n = 0;

	for (size_t i = 0; i < u->table.n; i++)
		n += u->table.v[i].reported;
	sample_gauge(b, "unirail_controller_networks_without_resource", n,
		     "SpiderMultusConfigs whose device resource no node has had for 30 s.");
}

char *unserved_annotation(const struct unserved *u, const struct kube_object *smc, const char *is)
{
	struct inject_net net;
	char *ret = NULL;

	inject_net_read(cluster_cache_json(smc), &net);
	if (net.resource)
		ret = unserved_table_annotation(&u->table, u->decided, smc->uid, net.resource, is);
	inject_net_done(&net);
	return ret;
}
