/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/gc/gc.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/sorted.h"
#include "controller/gc/internal.h"
#include "kube/kinds.h"

/* The passes, each of which reads the cache and sends requests. */

/* TICK_MS: interval of the passes. PASS_MS: a pass reads every object, so at most one runs per
 * second. SHOWN_MS, FAILED_MS: time after a response, or after a failure, for which no other
 * request about the object is sent while the watch shows the same version. */
enum { TICK_MS = 15 * 1000, PASS_MS = 1000, SHOWN_MS = 10 * 1000, FAILED_MS = 15 * 1000 };

int64_t cluster_gc_now(const struct cluster_gc *g)
{
	return loop_now_ms(kube_loop(g->conf.kube));
}

/* Schedules a pass; does not postpone one that is already scheduled. */
static void cluster_gc_schedule(struct cluster_gc *g, int64_t ms)
{
	int64_t rest = g->passed + PASS_MS - cluster_gc_now(g);

	if (g->passed && ms < rest)
		ms = rest;
	loop_alarm_within(&g->timer, ms);
}

/* --- requests in flight --- */

static void in_flight_free(struct cluster_gc_request *f)
{
	kube_cancel(f->call);
	free(f->ns);
	free(f->name);
	free(f->version);
	free(f->reason);
	free(f->message);
	free(f->about);
	free(f);
}

static bool is_about(const struct cluster_gc_request *f, enum gc_cache_kind kind,
		     const struct kube_object *o)
{
	return f->kind == kind && strcmp(f->name, o->name) == 0 && strcmp(f->ns, o->ns) == 0;
}

/* Removes a completed request at `until`, or when the watch shows another version or the
 * deletion of the object. */
static void sweep(struct cluster_gc *g)
{
	size_t retained = 0;

	for (size_t i = 0; i < g->n_in_flight; i++) {
		struct cluster_gc_request *f = g->in_flight[i];
		const struct kube_object *o =
			kube_cache_get(g->conf.gc_cache, f->kind, f->ns, f->name);

		if (f->call ||
		    (f->until > cluster_gc_now(g) && o && strcmp(o->version, f->version) == 0))
			g->in_flight[retained++] = f;
		else
			in_flight_free(f);
	}
	g->n_in_flight = retained;
}

bool cluster_gc_is_free(const struct cluster_gc *g, enum gc_cache_kind kind,
			const struct kube_object *o)
{
	size_t under_way = 0;

	for (size_t i = 0; i < g->n_in_flight; i++) {
		under_way += g->in_flight[i]->call != NULL;
		if (is_about(g->in_flight[i], kind, o))
			return false;
	}
	return under_way < GC_IN_FLIGHT_MAX;
}

static void report(const struct cluster_gc_request *f)
{
	const char *kind = f->about ? "SpiderIPPool" : "SpiderEndpoint";

	log_info("released by gc", LOG_S("what", f->message), LOG_S("reason", f->reason));
	kube_events_add(f->g->conf.events,
			&(struct kube_event){.api_version = SPIDERPOOL_API,
					     .kind = kind,
					     .ns = f->ns,
					     .name = f->about ? f->about : f->name,
					     .reason = f->reason,
					     .message = f->message});
}

static void say_failure(struct cluster_gc *g, const struct err *e)
{
	g->stats.failures++;
	if (!log_once(&g->logged, e->text))
		return;
	log_warn("a request of gc failed, will retry", LOG_S("error", e->text));
}

/*
 * Status 404, 409 or 422: the object was deleted or has changed. The request had no effect, and the
 * next pass decides again.
 */
static void on_done(void *arg, int status, const struct json *object, const struct err *e)
{
	struct cluster_gc_request *f = arg;
	struct cluster_gc *g = f->g;
	bool stale = status == 404 || status == 409 || status == 422;

	(void)object;
	f->call = NULL;
	f->until = cluster_gc_now(g) + (e && !stale ? FAILED_MS : SHOWN_MS);
	if (!e) {
		++*f->count;
		g->stats.addresses += f->addresses;
		if (f->message)
			report(f);
	} else if (!stale) {
		say_failure(g, e);
	}
	cluster_gc_schedule(g, 0);
}

struct cluster_gc_request *cluster_gc_begin(struct cluster_gc *g, enum gc_cache_kind kind,
					    const struct kube_object *o,
					    const struct kube_request *r)
{
	struct cluster_gc_request *f = xcalloc(1, sizeof(*f));

	*f = (struct cluster_gc_request){.g = g,
					 .kind = kind,
					 .ns = xstrdup(o->ns),
					 .name = xstrdup(o->name),
					 .version = xstrdup(o->version)};
	VEC_PUSH(g->in_flight, g->n_in_flight) = f;
	f->call = kube_send(g->conf.kube, r, on_done, f);
	return f;
}

/* Sets cut_off and ready_since. */
static void watch_ready(struct cluster_gc *g)
{
	g->cut_off = NULL;
	for (size_t i = 0; i < kube_cache_count(g->conf.gc_cache, GC_CACHE_NODES); i++) {
		const struct kube_object *o = kube_cache_at(g->conf.gc_cache, GC_CACHE_NODES, i);

		if (cluster_gc_node_is_cut_off(g, o->name))
			g->cut_off = o->name;
	}
	if (g->cut_off)
		g->ready_since = 0;
	else if (!g->ready_since)
		g->ready_since = cluster_gc_now(g) > 0 ? cluster_gc_now(g) : 1;
}

static void cluster_gc_scan(struct cluster_gc *g);

static void on_timer(void *arg)
{
	struct cluster_gc *g = arg;

	if (!kube_cache_current(g->conf.gc_cache, KUBE_CACHE_ALL) ||
	    !kube_cache_synced(g->conf.cache->objects, CLUSTER_CACHE_POOLS) ||
	    cluster_cache_hold(g->conf.cache) != CLUSTER_CACHE_SURE) {
		/* While the watch of nodes did not work, a node may have been not Ready. */
		g->ready_since = 0;
		cluster_gc_schedule(g, PASS_MS);
		return;
	}
	g->passed = cluster_gc_now(g);
	sweep(g);
	watch_ready(g);
	cluster_gc_nodes_check(g);
	cluster_gc_blocks_pass(g);
	cluster_gc_endpoints_pass(g);
	if (!g->scanned || cluster_gc_now(g) - g->scanned >= g->conf.interval_ms) {
		g->scanned = cluster_gc_now(g);
		cluster_gc_scan(g);
	}
	cluster_gc_schedule(g,
			    TICK_MS < g->conf.grace_ms || !g->n_nodes ? TICK_MS : g->conf.grace_ms);
}

/* --- functions of gc.h --- */

/* Returns whether the node was added or deleted, or its `ready` or `fenced` changed; a heartbeat
 * changes neither. */
static bool is_news(const struct kube_object *was, const struct kube_object *is)
{
	const struct gc_cache_node *a = was ? gc_cache_node(was) : NULL;
	const struct gc_cache_node *b = is ? gc_cache_node(is) : NULL;

	return !a || !b || a->ready != b->ready || a->fenced != b->fenced;
}

void cluster_gc_changed(struct cluster_gc *g, enum gc_cache_kind kind,
			const struct kube_object *was, const struct kube_object *is)
{
	if (kind == GC_CACHE_BLOCKS && was && is)
		cluster_gc_block_changed(gc_cache_block(was), gc_cache_block(is));
	/* Changes other than the following wait for the next tick, because agents normally
	 * handle them. */
	if ((kind == GC_CACHE_NODES && is_news(was, is)) ||
	    (kind == GC_CACHE_BLOCKS && g->n_nodes > 0) ||
	    (kind == GC_CACHE_PODS && g->n_nodes > 0 && was && !is))
		cluster_gc_schedule(g, 0);
	if (kind == GC_CACHE_ENDPOINTS && is && gc_cache_endpoint(is)->deleting)
		cluster_gc_schedule(g, 0);
}

void cluster_gc_answered(struct cluster_gc *g)
{
	cluster_gc_schedule(g, 0);
}

struct cluster_gc *cluster_gc_new(const struct cluster_gc_conf *c)
{
	struct cluster_gc *g = xcalloc(1, sizeof(*g));

	g->conf = *c;
	g->timer = LOOP_ALARM(kube_loop(c->kube), on_timer, g);
	cluster_gc_schedule(g, 0);
	return g;
}

void cluster_gc_free(struct cluster_gc *g)
{
	if (!g)
		return;
	loop_alarm_cancel(&g->timer);
	for (size_t i = 0; i < g->n_in_flight; i++)
		in_flight_free(g->in_flight[i]);
	free(g->in_flight);
	cluster_gc_nodes_done(g);
	free(g->retained);
	free(g->findings);
	free(g);
}

struct cluster_gc_stats cluster_gc_stats(const struct cluster_gc *g)
{
	return g->stats;
}

/*
 * A full scan: logs inconsistencies that two consecutive scans find and that the controller must
 * not resolve.
 */

enum { LOGGED_MAX = 10 };

struct held {
	struct ipaddr ip;
	const struct kube_object *o; /* SpiderEndpoint that has the address */
};

struct scan {
	struct cluster_gc *g;
	struct held *held;		    /* sorted by address */
	const struct block_object **blocks; /* sorted by their first address */
	size_t n_held, n_blocks;
	uint64_t *findings;
	size_t n_findings, logged;
};

/* --- input of a full scan --- */

static int by_ip(const void *a, const void *b)
{
	return ip_cmp(&((const struct held *)a)->ip, &((const struct held *)b)->ip);
}

static void collect(struct scan *s)
{
	const struct kube_cache *c = s->g->conf.gc_cache;

	for (size_t i = 0; i < kube_cache_count(c, GC_CACHE_ENDPOINTS); i++) {
		const struct kube_object *o = kube_cache_at(c, GC_CACHE_ENDPOINTS, i);
		const struct gc_cache_endpoint *x = gc_cache_endpoint(o);

		for (size_t k = 0; x->by_unirail && k < x->n; k++)
			VEC_PUSH(s->held, s->n_held) = (struct held){x->v[k].ip, o};
	}
	if (s->n_held)
		qsort(s->held, s->n_held, sizeof(*s->held), by_ip);
	for (size_t i = 0; i < kube_cache_count(c, GC_CACHE_BLOCKS); i++)
		VEC_PUSH(s->blocks, s->n_blocks) =
			&gc_cache_block(kube_cache_at(c, GC_CACHE_BLOCKS, i))->o;
	if (s->n_blocks)
		qsort(s->blocks, s->n_blocks, sizeof(*s->blocks), block_object_order);
}

/* Blocks do not overlap: only the last block that begins at or before the address can contain
 * it. */
static const struct block_object *block_of(const struct scan *s, const struct ipaddr *ip)
{
	size_t low = LOWER_BOUND(i, s->n_blocks, ip_cmp(&s->blocks[i]->net.ip, ip) <= 0);

	return low > 0 && ipnet_contains(&s->blocks[low - 1]->net, ip) ? s->blocks[low - 1] : NULL;
}

/* --- findings of a full scan --- */

static int by_number(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Adds the finding, and returns whether the previous scan had it too: a finding of only one scan
 * may be a change in progress. */
static bool is_again(struct scan *s, char what, const struct held *h)
{
	const struct cluster_gc *g = s->g;
	char ip[IP_TEXT_MAX];
	auto_free char *text =
		xasprintf("%c%s %s/%s", what, ip_str(&h->ip, ip), h->o->ns, h->o->name);
	uint64_t digest = xxh64(text, strlen(text));

	VEC_PUSH(s->findings, s->n_findings) = digest;
	return g->n_findings &&
	       bsearch(&digest, g->findings, g->n_findings, sizeof(digest), by_number);
}

static void say(struct scan *s, const char *what, const struct held *h, const char *other)
{
	auto_free char *name = xasprintf("%s/%s", h->o->ns, h->o->name);
	char ip[IP_TEXT_MAX];

	if (s->logged++ >= LOGGED_MAX)
		return;
	log_error(what, LOG_S("address", ip_str(&h->ip, ip)), LOG_S("pod", name),
		  LOG_S("node", gc_cache_endpoint(h->o)->node), LOG_S("other", other));
}

static void find_doubles(struct scan *s)
{
	for (size_t i = 1; i < s->n_held; i++) {
		const struct held *a = &s->held[i - 1], *b = &s->held[i];
		auto_free char *other = NULL;

		if (!ip_eq(&a->ip, &b->ip) || a->o == b->o || !is_again(s, 'd', b))
			continue;
		s->g->stats.doubles++;
		other = xasprintf("%s/%s", a->o->ns, a->o->name);
		say(s, "full scan: two pods have the same address: delete one of the pods", b,
		    other);
	}
}

static bool is_covered(const struct scan *s, const struct held *h)
{
	const struct block_object *o = block_of(s, &h->ip);
	const struct block_entry *x = o ? block_entry_find(o, &h->ip) : NULL;
	const char *node = gc_cache_endpoint(h->o)->node;

	return o && (x ? block_entry_is_of(x, node) : strcmp(o->node, node) == 0);
}

/* Returns whether the pod of the endpoint runs. If not, find_leftovers() does not report its
 * addresses, because no pod uses them. */
static bool is_live(const struct scan *s, const struct kube_object *o)
{
	const struct kube_object *pod =
		kube_cache_get(s->g->conf.gc_cache, GC_CACHE_PODS, o->ns, o->name);

	return pod && !gc_cache_pod(pod)->finished &&
	       strcmp(pod->uid, gc_cache_endpoint(o)->uid) == 0;
}

static void find_leftovers(struct scan *s)
{
	for (size_t i = 0; i < s->n_held; i++) {
		const struct held *h = &s->held[i];
		const struct block_object *o;

		if (is_covered(s, h) || !is_live(s, h->o) || !is_again(s, 's', h))
			continue;
		o = block_of(s, &h->ip);
		s->g->stats.leftovers++;
		say(s,
		    "full scan: a pod has an address that its node neither owns nor borrows: the "
		    "node's agent corrects this when it runs",
		    h, o ? o->name : "no block");
	}
}

/*
 * Counts entries whose owner is unknown. If there are any, logs a node that is not Ready and not
 * fenced: pods on it may have these addresses, so the entries stay.
 */
static void count_unknown(const struct scan *s)
{
	struct cluster_gc *g = s->g;

	g->stats.unknown = 0;
	for (size_t i = 0; i < s->n_blocks; i++)
		g->stats.unknown += cluster_gc_unknown(s->blocks[i]);
	if (g->stats.unknown && g->cut_off)
		log_warn("full scan: addresses without a known owner are not reused until all "
			 "nodes are Ready: repair the node that is not, delete its Node object, or "
			 "set the taint node.kubernetes.io/out-of-service",
			 LOG_I("addresses", (int64_t)g->stats.unknown), LOG_S("node", g->cut_off));
}

static void cluster_gc_scan(struct cluster_gc *g)
{
	struct scan s = {.g = g};

	collect(&s);
	g->stats.doubles = g->stats.leftovers = 0;
	find_doubles(&s);
	find_leftovers(&s);
	count_unknown(&s);
	free(g->findings);
	g->findings = s.findings;
	g->n_findings = s.n_findings;
	if (g->n_findings)
		qsort(g->findings, g->n_findings, sizeof(*g->findings), by_number);
	g->stats.scans++;
	log_info("full scan",
		 LOG_I("endpoints",
		       (int64_t)kube_cache_count(g->conf.gc_cache, GC_CACHE_ENDPOINTS)),
		 LOG_I("addresses", (int64_t)s.n_held), LOG_I("blocks", (int64_t)s.n_blocks),
		 LOG_I("nodes_deleted", (int64_t)g->stats.nodes_deleted),
		 LOG_I("doubles", (int64_t)g->stats.doubles),
		 LOG_I("leftovers", (int64_t)g->stats.leftovers),
		 LOG_I("unknown", (int64_t)g->stats.unknown));
	free(s.held);
	free(s.blocks);
}
