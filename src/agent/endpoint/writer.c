/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/endpoint/recent_writes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/endpoint/endpoints.h"
#include "base/backoff.h"
#include "block/codec.h"
#include "kube/informer.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "base/log.h"
#include "block/migration.h"
#include "kube/kinds.h"
#include "spec/annotations.h"

/* The writer's state, and the list of recent writes. */

enum { ENDPOINTS_AGAIN_MS = 1000, ENDPOINTS_AGAIN_MOST_MS = 15 * 1000 };

/* An existing endpoint written by this node. */
struct endpoints_there {
	char *status;
	/* loop time since which none of its addresses is used here; 0: some are used */
	int64_t idle_since;
	bool wanted; /* a pod on another node requests its addresses */
};

/* The request in flight. */
struct endpoints_job {
	char *ns, *name, *status;
	bool create, removal;
};

struct endpoints {
	struct endpoints_conf conf;
	char label[BLOCK_LABEL_MAX];
	struct kube_informer *informer;
	struct endpoints_required wanted;
	size_t next; /* index in `wanted` at which the search for the next write begins */
	bool known;  /* endpoints_leases() was called */
	bool hold;
	struct kube_call *call;
	struct endpoints_job job;
	/* endpoints not to be written now: after a success until the watch delivers the result,
	 * after a refusal until the retry */
	struct recent_writes recent_writes;
	struct loop_timer *timer;
	int64_t at; /* loop time at which the timer expires */
	struct backoff backoff;
	/* "ns/name" of an endpoint that exists, but was not written by this node or not delivered
	 * yet: it is patched instead of created. */
	char *taken;
	bool logged;
};

/* --- existing endpoints --- */

static int read_there(void *value, const struct json *object, struct err *e)
{
	struct endpoints_there *t = value;

	(void)e;
	t->status = endpoint_status_of(object);
	t->wanted = json_get(json_get(json_get(object, "metadata"), "annotations"),
			     ANNOTATION_WANTED_BY) != NULL;
	return 0;
}

static void drop_there(void *value)
{
	free(((struct endpoints_there *)value)->status);
}

static void endpoints_schedule(struct endpoints *e, int64_t ms);

static void on_changed(void *arg, const struct kube_object *was, const struct kube_object *is)
{
	(void)was, (void)is;
	endpoints_schedule(arg, 0);
}

static void on_synced(void *arg)
{
	endpoints_schedule(arg, 0);
}

/* Not logged here: agent/cluster/cluster.c logs the same error for other kinds of the API group. */
static void on_sync_error(void *arg, const struct err *cause)
{
	(void)arg;
	if (cause && cause->code == -EPERM)
		log_error("the agent may not read spiderendpoints: allow it to 'list' and 'watch' "
			  "spiderendpoints." SPIDERPOOL_GROUP,
			  LOG_S("error", cause->text));
}

/* --- inputs --- */

struct endpoints *endpoints_new(const struct endpoints_conf *c)
{
	struct endpoints *e = xcalloc(1, sizeof(*e));
	char label[BLOCK_LABEL_MAX];
	auto_free char *select = NULL;

	*e = (struct endpoints){.conf = *c,
				.backoff = {ENDPOINTS_AGAIN_MS, ENDPOINTS_AGAIN_MOST_MS, 0}};
	str_copy(e->label, sizeof(e->label), block_label(c->node, label));
	select = xasprintf("%s=%s", LABEL_NODE, e->label);
	e->informer = kube_informer_new(
		c->kube, &(struct kube_informer_conf){.kind = &kube_endpoints,
						      .select = {.labels = select},
						      .cached = true,
						      .verify_after_reconnect = true,
						      .size = sizeof(struct endpoints_there),
						      .decode = read_there,
						      .drop = drop_there,
						      .changed = on_changed,
						      .synced = on_synced,
						      .sync_error = on_sync_error,
						      .arg = e});
	return e;
}

static void endpoints_job_done(struct endpoints *e);

static void recent_writes_done(struct recent_writes *s);

void endpoints_free(struct endpoints *e)
{
	if (!e)
		return;
	kube_cancel(e->call);
	kube_informer_free(e->informer);
	loop_del_timer(e->timer);
	endpoints_job_done(e);
	free(e->taken);
	recent_writes_done(&e->recent_writes);
	endpoints_required_done(&e->wanted);
	free(e);
}

void endpoints_leases(struct endpoints *e, const struct lease_table *t, const struct pool_set *s)
{
	endpoints_required_done(&e->wanted);
	endpoints_required(t, s, &e->wanted);
	e->known = true;
	endpoints_schedule(e, 0);
}

void endpoints_pod_changed(struct endpoints *e)
{
	endpoints_schedule(e, 0);
}

void endpoints_hold(struct endpoints *e, bool hold)
{
	e->hold = hold;
}

bool endpoints_synced(const struct endpoints *e)
{
	return kube_informer_synced(e->informer) && kube_informer_behind_ms(e->informer) == 0;
}

const char *endpoints_status(const struct endpoints *e, const char *ns, const char *name)
{
	const struct kube_object *o = kube_informer_get(e->informer, ns, name);

	return o ? ((const struct endpoints_there *)o->value)->status : NULL;
}

/* One request at a time: writes missing and changed endpoints, deletes idle ones. */

/* DELETED_MS: delay of a deletion, because a pod whose sandbox is recreated releases its addresses
 * and gets others. */
enum {
	DELETED_MS = 5 * 1000,
	SHOWN_MS = 10 * 1000,
	CHANGED_MS = 2 * 1000, /* delay after a conflict with another client */
	REFUSED_MS = 60 * 1000
};

static int64_t now(const struct endpoints *e)
{
	return loop_now_ms(kube_loop(e->conf.kube));
}

static void recent_writes_add(struct recent_writes *s, const char *ns, const char *name,
			      const char *what, int64_t until);

static void settle(struct endpoints *e, int64_t ms)
{
	recent_writes_add(&e->recent_writes, e->job.ns, e->job.name, e->job.status, now(e) + ms);
}

/* Frees the data of a request that has ended or was cancelled. */
static void endpoints_job_done(struct endpoints *e)
{
	free(e->job.ns);
	free(e->job.name);
	free(e->job.status);
	e->job = (struct endpoints_job){0};
	e->call = NULL;
}

static void say_failure(struct endpoints *e, const struct err *cause)
{
	if (e->conf.metrics)
		e->conf.metrics->endpoints_failed++;
	if (e->logged)
		return;
	e->logged = true;
	log_warn("failed to write a SpiderEndpoint, will retry", LOG_S("namespace", e->job.ns),
		 LOG_S("name", e->job.name), LOG_S("error", cause->text));
}

static void on_written(void *arg, int status, const struct json *object, const struct err *cause)
{
	struct endpoints *e = arg;
	bool deleted = status == 404, there = cause && cause->code == -EEXIST && e->job.create;
	bool refused = status >= 400 && status < 500 && status != 429, changed;

	(void)object;
	free(take(e->taken));
	if (!cause || (deleted && e->job.removal)) {
		if (e->conf.metrics && !e->job.removal)
			e->conf.metrics->endpoints++;
		backoff_reset(&e->backoff);
		e->logged = false;
		settle(e, SHOWN_MS);
	} else if (there) {
		e->taken = xasprintf("%s/%s", e->job.ns, e->job.name);
	} else {
		say_failure(e, cause);
		/* The writer continues with the other endpoints; this one is retried later. */
		changed = deleted || cause->kind == ERR_AGAIN;
		if (refused)
			settle(e, changed ? CHANGED_MS : REFUSED_MS);
	}
	endpoints_job_done(e);
	endpoints_schedule(e, !cause || there || refused ? 0 : backoff_next(&e->backoff));
}

static void send(struct endpoints *e, const struct kube_request *r, const char *status,
		 bool removal)
{
	e->job = (struct endpoints_job){.ns = xstrdup(r->on.ns),
					.name = xstrdup(r->on.name),
					.status = xstrdup(status),
					.create = r->verb == KUBE_CREATE,
					.removal = removal};
	e->call = kube_send(e->conf.kube, r, on_written, e);
}

static bool is_taken(const struct endpoints *e, const struct endpoint *p)
{
	auto_free char *name = xasprintf("%s/%s", p->ns, p->name);

	return e->taken && strcmp(e->taken, name) == 0;
}

static void write_one(struct endpoints *e, const struct endpoint *p, const struct pod_facts *pod,
		      const char *status, bool exists)
{
	auto_free char *text = exists ? endpoint_patch_text(p, pod, e->conf.node, e->label)
				      : endpoint_create_text(p, pod, e->conf.node, e->label);
	const struct kube_request r = {
		.verb = exists ? KUBE_MERGE_PATCH : KUBE_CREATE,
		.on = {.kind = &kube_endpoints, .ns = p->ns, .name = p->name},
		.body = span_of(text),
	};

	send(e, &r, status, false);
}

/* Returns the pod that has the addresses, if it is on this node. The pod of a KubeVirt VM has
 * another name than the endpoint. */
static const struct pod_facts *pod_of(const struct endpoints *e, const struct endpoint *p)
{
	const struct pod_facts *pod = cluster_pod(e->conf.cluster, p->ns, p->name);

	if (pod && strcmp(pod->uid, p->uid) == 0)
		return pod;
	return cluster_pod_by_uid(e->conf.cluster, p->uid);
}

static bool recent_writes_has(const struct recent_writes *s, const char *ns, const char *name,
			      const char *what);

/* Continues after the endpoint that was written last, so that n writes compute each status about
 * twice instead of n times. */
static bool write_next(struct endpoints *e)
{
	for (size_t k = 0; k < e->wanted.n; k++) {
		size_t i = (e->next + k) % e->wanted.n;
		const struct endpoint *p = &e->wanted.v[i];
		const struct kube_object *o = kube_informer_get(e->informer, p->ns, p->name);
		const struct pod_facts *pod = p->retained ? NULL : pod_of(e, p);
		auto_free char *status = pod ? endpoint_status(p, pod, e->conf.node) : NULL;

		if (!pod || recent_writes_has(&e->recent_writes, p->ns, p->name, status) ||
		    (o && strcmp(((struct endpoints_there *)o->value)->status, status) == 0))
			continue;
		write_one(e, p, pod, status, o || is_taken(e, p));
		e->next = i + 1;
		return true;
	}
	return false;
}

/* Returns the time in ms until the endpoint is to be deleted: 0 now, negative never. */
static int64_t remove_in(struct endpoints *e, const struct kube_object *o)
{
	struct endpoints_there *t = o->value;
	int64_t due;

	if (endpoints_required_find(&e->wanted, o->ns, o->name)) {
		t->idle_since = 0;
		return -1;
	}
	if (recent_writes_has(&e->recent_writes, o->ns, o->name, ""))
		return -1;
	if (!t->idle_since)
		t->idle_since = now(e) > 0 ? now(e) : 1;
	/*
	 * If another node requests the addresses, the endpoint is their only record until that node
	 * has written its own.
	 */
	due = t->idle_since + (t->wanted ? MIGRATION_LEAVE_MS : DELETED_MS);
	return due > now(e) ? due - now(e) : 0;
}

static bool remove_next(struct endpoints *e, int64_t *wait)
{
	for (size_t i = 0; i < kube_informer_count(e->informer); i++) {
		const struct kube_object *o = kube_informer_at(e->informer, i);
		const struct kube_request r = {
			.verb = KUBE_DELETE,
			.on = {.kind = &kube_endpoints, .ns = o->ns, .name = o->name},
			.uid = o->uid,
			.resource_version = o->version};
		int64_t ms = remove_in(e, o);

		if (ms > 0 && (*wait < 0 || ms < *wait))
			*wait = ms;
		if (ms != 0)
			continue;
		send(e, &r, "", true);
		return true;
	}
	return false;
}

static void recent_writes_forget(struct recent_writes *s, int64_t now);

static void work(void *arg)
{
	struct endpoints *e = arg;
	int64_t wait = -1, next;

	e->timer = NULL;
	recent_writes_forget(&e->recent_writes, now(e));
	if (e->call || !e->known || !kube_informer_synced(e->informer) ||
	    !kube_cache_synced(cluster_objects(e->conf.cluster), CLUSTER_PODS))
		return;
	if (write_next(e) || (!e->hold && remove_next(e, &wait)))
		return;
	/* so that refused writes are retried */
	next = recent_writes_next(&e->recent_writes);
	if (next && (wait < 0 || wait > next - now(e)))
		wait = next - now(e);
	if (wait > 0)
		endpoints_schedule(e, wait);
}

/* While a request is in flight or in backoff, its end schedules the next reconcile. */
static void endpoints_schedule(struct endpoints *e, int64_t ms)
{
	if (e->call || (e->timer && (e->backoff.failures || e->at <= now(e) + ms)))
		return;
	loop_del_timer(e->timer);
	e->at = now(e) + ms;
	e->timer = loop_add_timer(kube_loop(e->conf.kube), ms, work, e);
}

struct recent_writes_one {
	char *ns, *name, *what;
	int64_t until;
};

static void one_free(struct recent_writes_one *x)
{
	free(x->ns);
	free(x->name);
	free(x->what);
}

/* Copies the strings. what: the content written, or "" for a deletion. */
static void recent_writes_add(struct recent_writes *s, const char *ns, const char *name,
			      const char *what, int64_t until)
{
	VEC_PUSH(s->v, s->n) =
		(struct recent_writes_one){xstrdup(ns), xstrdup(name), xstrdup(what), until};
}

/* Removes expired entries. */
static void recent_writes_forget(struct recent_writes *s, int64_t now)
{
	size_t retained = 0;

	for (size_t i = 0; i < s->n; i++) {
		if (s->v[i].until > now)
			s->v[retained++] = s->v[i];
		else
			one_free(&s->v[i]);
	}
	s->n = retained;
}

static bool recent_writes_has(const struct recent_writes *s, const char *ns, const char *name,
			      const char *what)
{
	for (size_t i = s->n; i-- > 0;) {
		const struct recent_writes_one *x = &s->v[i];

		if (strcmp(x->name, name) == 0 && strcmp(x->ns, ns) == 0)
			return strcmp(x->what, what) == 0;
	}
	return false;
}

int64_t recent_writes_next(const struct recent_writes *s)
{
	int64_t first = 0;

	for (size_t i = 0; i < s->n; i++)
		if (!first || s->v[i].until < first)
			first = s->v[i].until;
	return first;
}

static void recent_writes_done(struct recent_writes *s)
{
	recent_writes_forget(s, INT64_MAX);
	free(s->v);
	*s = (struct recent_writes){0};
}
