/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/sorted.h"
#include "controller/gc/internal.h"
#include "ipam/pool/pool_cluster.h"
#include "kube/kinds.h"
#include "kube/object.h"
#include "spec/annotations.h"

/* Selects the pools that need work, and reads all endpoints once for them. */

/* HINTS: number of pools remembered from the addresses of one endpoint for those of the next
 * one, since most endpoints have the same pools in the same order. */
enum { TICK_MS = 15 * 1000, SCHEDULE_MS = 200, HINTS = 16 };

int64_t pool_status_now(const struct pool_status *c)
{
	return loop_now_ms(kube_loop(c->conf.kube));
}

/* Schedules a pass; does not postpone one that is already scheduled. */
void pool_status_schedule(struct pool_status *c, int64_t ms)
{
	loop_alarm_within(&c->timer, ms);
}

/* --- table of pools --- */

static void pool_free(struct pool_status_pool *p)
{
	kube_cancel(p->call);
	pool_status_freed(p, false);
	records_done(&p->own);
	free(p->name);
	free(p->base);
	free(p->got);
	free(p->got_version);
	free(p);
}

static struct pool_status_pool *find(const struct pool_status *c, const char *name)
{
	size_t at = LOWER_BOUND(i, c->n, strcmp(c->v[i]->name, name) < 0);

	return at < c->n && strcmp(c->v[at]->name, name) == 0 ? c->v[at] : NULL;
}

static struct pool_status_pool *pool_new(struct pool_status *c, const char *name)
{
	struct pool_status_pool *p = xcalloc(1, sizeof(*p));

	*p = (struct pool_status_pool){.c = c, .name = xstrdup(name), .dirty = true};
	return p;
}

/* Rebuilds the list in the order of the cluster cache, keeping the state of known pools. */
static void take_pools(struct pool_status *c)
{
	size_t n = kube_cache_count(c->conf.cache->objects, CLUSTER_CACHE_POOLS), at = 0;
	struct pool_status_pool **v = xcalloc(n + 1, sizeof(struct pool_status_pool *));

	for (size_t i = 0; i < n; i++) {
		const char *name =
			kube_cache_at(c->conf.cache->objects, CLUSTER_CACHE_POOLS, i)->name;

		while (at < c->n && strcmp(c->v[at]->name, name) < 0)
			pool_free(c->v[at++]);
		if (at < c->n && strcmp(c->v[at]->name, name) == 0)
			v[i] = c->v[at++];
		else
			v[i] = pool_new(c, name);
	}
	while (at < c->n)
		pool_free(c->v[at++]);
	free(c->v);
	c->v = v;
	c->n = n;
}

void pool_status_logged(struct pool_status_pool *p, const struct err *e)
{
	if (!log_once(&p->logged, e->text))
		return;
	log_warn("failed to update a pool's status, will retry", LOG_S("pool", p->name),
		 LOG_S("error", e->text));
}

/* --- a pass: the changed pools --- */

/* Returns whether the watch shows the last write, or should show it by now; before that, a pass
 * would repeat the write. */
static bool is_shown(struct pool_status_pool *p, const struct kube_object *o)
{
	if (p->base && strcmp(p->base, o->version) == 0 && pool_status_now(p->c) < p->base_until)
		return false;
	free(take(p->base));
	return true;
}

static size_t choose(struct pool_status *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n; i++) {
		struct pool_status_pool *p = c->v[i];

		p->due = p->dirty && !p->call && p->next_ms <= pool_status_now(c) &&
			 is_shown(p, kube_cache_at(c->conf.cache->objects, CLUSTER_CACHE_POOLS, i));
		n += p->due;
	}
	return n;
}

static void collect_one(struct pool_status *c, const struct kube_object *o,
			struct pool_status_pool *hints[static HINTS])
{
	const struct gc_cache_endpoint *x = gc_cache_endpoint(o);

	for (size_t i = 0; i < x->n; i++) {
		struct pool_status_pool **p = &hints[i % HINTS];

		if (!*p || strcmp((*p)->name, x->v[i].pool) != 0)
			*p = find(c, x->v[i].pool);
		if (*p && (*p)->due)
			records_add(&(*p)->own,
				    &(struct record){x->v[i].ip, o->ns, o->name, x->uid});
	}
}

/* Skips endpoints that Spiderpool wrote, because their addresses are in the adopted records. */
static void collect(struct pool_status *c)
{
	struct pool_status_pool *hints[HINTS] = {0};

	for (size_t i = 0; i < kube_cache_count(c->conf.gc_cache, GC_CACHE_ENDPOINTS); i++) {
		const struct kube_object *o =
			kube_cache_at(c->conf.gc_cache, GC_CACHE_ENDPOINTS, i);

		if (gc_cache_endpoint(o)->by_unirail)
			collect_one(c, o, hints);
	}
}

static void tick(struct pool_status *c)
{
	if (pool_status_now(c) - c->ticked < TICK_MS)
		return;
	c->ticked = pool_status_now(c);
	for (size_t i = 0; i < c->n; i++)
		c->v[i]->dirty |= c->v[i]->adopted;
}

static int64_t wait_of(const struct pool_status *c)
{
	int64_t wait = TICK_MS;

	for (size_t i = 0; i < c->n; i++) {
		const struct pool_status_pool *p = c->v[i];
		int64_t ms = p->next_ms - pool_status_now(c);

		if (!p->dirty || p->call)
			continue;
		if (ms < SCHEDULE_MS)
			ms = SCHEDULE_MS;
		if (ms < wait)
			wait = ms;
	}
	return wait;
}

static void pool_status_act(struct pool_status_pool *p, const struct kube_object *o);

static void on_timer(void *arg)
{
	struct pool_status *c = arg;

	if (!kube_cache_synced(c->conf.cache->objects, CLUSTER_CACHE_POOLS) ||
	    !kube_cache_current(c->conf.gc_cache, KUBE_CACHE_ALL) ||
	    cluster_cache_hold(c->conf.cache) == CLUSTER_CACHE_HEARS) {
		pool_status_schedule(c, SCHEDULE_MS);
		return;
	}
	take_pools(c);
	tick(c);
	if (choose(c) > 0)
		collect(c);
	for (size_t i = 0; i < c->n; i++) {
		struct pool_status_pool *p = c->v[i];

		if (!p->due)
			continue;
		p->dirty = false;
		pool_status_act(p, kube_cache_at(c->conf.cache->objects, CLUSTER_CACHE_POOLS, i));
		records_done(&p->own);
	}
	pool_status_schedule(c, wait_of(c));
}

/* --- changes of objects --- */

static void mark(struct pool_status *c, const struct kube_object *o)
{
	const struct gc_cache_endpoint *x = o ? gc_cache_endpoint(o) : NULL;

	for (size_t i = 0; x && x->by_unirail && i < x->n; i++) {
		struct pool_status_pool *p = find(c, x->v[i].pool);

		if (p)
			p->dirty = true;
	}
}

void pool_status_changed(struct pool_status *c, enum gc_cache_kind kind,
			 const struct kube_object *was, const struct kube_object *is)
{
	if (kind == GC_CACHE_ENDPOINTS) {
		mark(c, was);
		mark(c, is);
		pool_status_schedule(c, SCHEDULE_MS);
	}
	/* A pod was created or deleted, which can change the result of is_deleted(): checks the
	 * adopted records again. */
	if (kind == GC_CACHE_PODS && (!was || !is))
		pool_status_answered(c);
}

void pool_status_answered(struct pool_status *c)
{
	bool any = false;

	for (size_t i = 0; i < c->n; i++) {
		c->v[i]->dirty |= c->v[i]->adopted;
		any |= c->v[i]->adopted;
	}
	if (any)
		pool_status_schedule(c, SCHEDULE_MS);
}

static void on_pool(void *arg, const struct kube_object *was, const struct kube_object *is)
{
	struct pool_status *c = arg;
	struct pool_status_pool *p = is ? find(c, is->name) : NULL;

	(void)was;
	if (p)
		p->dirty = true;
	pool_status_schedule(c, SCHEDULE_MS);
}

/* --- creation and destruction --- */

struct pool_status *pool_status_new(const struct pool_status_conf *conf)
{
	struct pool_status *c = xcalloc(1, sizeof(*c));

	c->conf = *conf;
	c->timer = LOOP_ALARM(kube_loop(conf->kube), on_timer, c);
	kube_cache_on(conf->cache->objects, CLUSTER_CACHE_POOLS, on_pool, c);
	pool_status_schedule(c, 0);
	return c;
}

void pool_status_free(struct pool_status *c)
{
	if (!c)
		return;
	kube_cache_off(c->conf.cache->objects, c);
	loop_alarm_cancel(&c->timer);
	for (size_t i = 0; i < c->n; i++)
		pool_free(c->v[i]);
	free(c->v);
	free(c);
}

struct pool_status_stats pool_status_stats(const struct pool_status *c)
{
	return c->stats;
}

bool pool_status_pool_at(const struct pool_status *c, size_t i, struct pool_status_pool_stats *ret)
{
	if (i >= c->n)
		return false;
	*ret = (struct pool_status_pool_stats){c->v[i]->name, c->v[i]->checked, c->v[i]->total,
					       c->v[i]->allocated};
	return true;
}

/* --- removes adopted records whose pod is deleted --- */

/* Splits "namespace/name"; returns false if the text does not name a pod. The caller frees *ns. */
static bool name_of(const struct record *r, char **ns, const char **name)
{
	const char *slash = strchr(r->pod, '/');

	if (!slash || slash == r->pod || !slash[1])
		return false;
	*ns = span_dup((struct span){r->pod, (size_t)(slash - r->pod)});
	*name = slash + 1;
	return true;
}

/* Returns whether the pod's node is not Ready and not fenced, so that its containers may still run.
 * */
static bool is_cut_off(const struct pool_status *c, const char *ns, const char *name)
{
	const struct kube_object *x = kube_cache_get(c->conf.gc_cache, GC_CACHE_ENDPOINTS, ns,
						     name),
				 *n;

	if (!x || !*gc_cache_endpoint(x)->node)
		return false;
	n = kube_cache_get(c->conf.gc_cache, GC_CACHE_NODES, "", gc_cache_endpoint(x)->node);
	return n && !gc_cache_node(n)->ready && !gc_cache_node(n)->fenced;
}

static bool is_deleted(const struct pool_status *c, const struct record *r)
{
	auto_free char *ns = NULL;
	const struct kube_object *pod;
	bool deleted, name_deleted, long_deleted;
	const char *name;

	if (!name_of(r, &ns, &name))
		return false;
	pod = kube_cache_get(c->conf.gc_cache, GC_CACHE_PODS, ns, name);
	if (pod && !gc_cache_pod(pod)->finished && (!*r->uid || strcmp(pod->uid, r->uid) == 0))
		return false;
	if (is_cut_off(c, ns, name))
		return false;
	/* Calls all three functions before using a result, so that the two requests are sent in
	 * parallel. */
	deleted = liveness_pod(c->conf.requests, ns, name, r->uid) == LIVENESS_DELETED;
	name_deleted = liveness_name(c->conf.requests, ns, name) == LIVENESS_DELETED;
	long_deleted = liveness_pod_deleted_ms(c->conf.requests, ns, name, r->uid) >=
		       c->conf.grace_ms;
	return deleted && name_deleted && long_deleted;
}

/* Stores the event, which is sent when the write has succeeded. */
static void store_event(struct pool_status_pool *p, const struct record *r)
{
	char ip[IP_TEXT_MAX];

	VEC_PUSH(p->freed, p->n_freed) = xasprintf("%s is released: pod '%s' (UID %s) was "
						   "deleted or has finished",
						   ip_str(&r->ip, ip), r->pod, r->uid);
}

/*
 * Removes from r the records whose pod is gone, and returns their number; 0 if gc is off or
 * cluster_cache_hold() is not CLUSTER_CACHE_SURE. pool_status_freed() sends their events when the
 * write has succeeded.
 */
static size_t pool_status_judge(struct pool_status_pool *p, struct records *r)
{
	const struct pool_status *c = p->c;
	size_t retained = 0, deleted;

	for (size_t i = 0; i < r->n; i++) {
		if (!c->conf.gc || cluster_cache_hold(c->conf.cache) != CLUSTER_CACHE_SURE ||
		    !is_deleted(c, &r->v[i]))
			r->v[retained++] = r->v[i];
		else
			store_event(p, &r->v[i]);
	}
	deleted = r->n - retained;
	r->n = retained;
	return deleted;
}

void pool_status_freed(struct pool_status_pool *p, bool done)
{
	struct pool_status *c = p->c;

	for (size_t i = 0; done && i < p->n_freed; i++) {
		log_info("removed an obsolete record of Spiderpool", LOG_S("pool", p->name),
			 LOG_S("reason", p->freed[i]));
		kube_events_add(c->conf.events, &(struct kube_event){.api_version = SPIDERPOOL_API,
								     .kind = "SpiderIPPool",
								     .name = p->name,
								     .reason = "AddressFreed",
								     .message = p->freed[i]});
		c->stats.freed++;
	}
	str_list_free(p->freed, p->n_freed);
	p->freed = NULL;
	p->n_freed = 0;
}

/* --- decides which write a pool needs next: adopted records, status, or finalizer --- */

/* Delay after a read that failed. */
enum { FAILED_MS = 2000 };

/* --- adoption of Spiderpool's records --- */

/* Records that own their strings. */
struct old {
	struct records r;
	char **own;
	size_t n_own;
};

static void keep_old(void *arg, const struct ipaddr *ip, const char *pod, const char *uid)
{
	struct old *o = arg;
	char *p = xstrdup(pod), *u = xstrdup(uid);

	VEC_PUSH(o->own, o->n_own) = p;
	VEC_PUSH(o->own, o->n_own) = u;
	records_add(&o->r, &(struct record){.ip = *ip, .pod = p, .uid = u});
}

static void old_done(struct old *o)
{
	records_done(&o->r);
	str_list_free(o->own, o->n_own);
}
#define auto_old __attribute__((cleanup(old_done)))

static int read_old(struct pool_status_pool *p, const char *text, struct old *ret)
{
	struct err e = ERR_INIT;
	int r = pool_records_read(text, keep_old, ret, &e);

	if (r < 0) {
		err_wrap(&e, r, "status.allocatedIPs (or annotation " ANNOTATION_ADOPTED ")");
		pool_status_logged(p, &e);
	}
	p->adopted = ret->r.n > 0;
	return r;
}

static char *text_or_empty(struct records *r)
{
	char *text = records_text(r, SIZE_MAX);

	if (*text)
		return text;
	free(text);
	return xstrdup("{}");
}

/* Adds the adopted records to those of endpoints. Of two records of an address the endpoint's
 * remains. Returns the text for the status. */
static char *merge(struct pool_status_pool *p, const struct old *o)
{
	for (size_t i = 0; i < o->r.n; i++)
		records_add(&p->own, &o->r.v[i]);
	records_sort(&p->own);
	p->allocated = (int64_t)p->own.n;
	p->checked = true;
	return records_text(&p->own, p->c->conf.records_max);
}

/* Handles a pool whose adopted records are in ANNOTATION_ADOPTED. */
static void act_on_noted(struct pool_status_pool *p, const struct kube_object *k)
{
	const struct json *object = cluster_cache_json(k);
	auto_old struct old o = {0};
	auto_free char *text = NULL;
	bool want;

	if (read_old(p, pool_status_annotation(object), &o) < 0)
		return;
	if (pool_status_judge(p, &o.r) > 0) {
		auto_free char *annotation = text_or_empty(&o.r);

		pool_status_patch_meta(p, object, annotation, pool_status_wants_finalizer(object));
		return;
	}
	text = merge(p, &o);
	if (pool_status_write_status(p, object, cluster_cache_object(k)->allocated, text))
		return;
	want = pool_status_wants_finalizer(object) &&
	       (!pool_status_is_deleting(object) || p->allocated > 0 ||
		cluster_cache_hold(p->c->conf.cache) != CLUSTER_CACHE_SURE);
	if (kube_has_finalizer(object, SPIDERPOOL_FINALIZER) != want)
		pool_status_patch_meta(p, object, NULL, want);
}

/* --- a pool seen for the first time --- */

/*
 * The records are too long for an annotation, so they stay in the status. Until they are short
 * enough, the status has no other records.
 */
static void act_on_many(struct pool_status_pool *p, const struct json *object, struct old *o)
{
	auto_free char *text = NULL, *all = NULL;

	pool_status_judge(p, &o->r);
	text = records_text(&o->r, SIZE_MAX);
	all = merge(p, o);
	if (pool_status_write_status(p, object, xxh64(p->got, strlen(p->got)), text))
		p->dirty = true;
}

static void act_on_first(struct pool_status_pool *p, const struct json *object)
{
	auto_old struct old o = {0};
	auto_free char *annotation = NULL;

	if (read_old(p, p->got, &o) < 0)
		return;
	if (strlen(p->got) > COUNTS_ANNOTATION_MAX) {
		act_on_many(p, object, &o);
		return;
	}
	annotation = text_or_empty(&o.r);
	pool_status_patch_meta(p, object, annotation, pool_status_wants_finalizer(object));
}

static void on_got(void *arg, int status, const struct json *object, const struct err *e)
{
	struct pool_status_pool *p = arg;
	const char *text = json_string(json_get(json_get(object, "status"), "allocatedIPs"));
	const char *version = json_string(kube_meta(object, "resourceVersion"));

	(void)status;
	p->call = NULL;
	p->dirty = true;
	if (e) {
		pool_status_logged(p, e);
		p->next_ms = pool_status_now(p->c) + FAILED_MS;
	} else if (version) {
		free(p->got);
		free(p->got_version);
		p->got = xstrdup(text ? text : "");
		p->got_version = xstrdup(version);
	}
	pool_status_schedule(p->c, 0);
}

static void fetch(struct pool_status_pool *p)
{
	const struct kube_request r = {.verb = KUBE_GET,
				       .on = {.kind = &kube_ippools, .name = p->name}};

	p->call = kube_send(p->c->conf.kube, &r, on_got, p);
}

/* Sends the next read or write that the pool needs, if any; p->own has the records of endpoints. */
static void pool_status_act(struct pool_status_pool *p, const struct kube_object *o)
{
	const struct json *object = cluster_cache_json(o);
	bool noted = pool_status_annotation(object),
	     got = p->got && strcmp(p->got_version, o->version) == 0;

	if (noted || !got) {
		free(take(p->got));
		free(take(p->got_version));
	}
	if (noted)
		act_on_noted(p, o);
	else if (got)
		act_on_first(p, object);
	else if (cluster_cache_object(o)->allocated)
		fetch(p);
	else
		pool_status_patch_meta(p, object, "{}", pool_status_wants_finalizer(object));
}
