/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/nad/nads_index.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/sorted.h"
#include "controller/nad/diff.h"
#include "controller/nad/internal.h"
#include "kube/kinds.h"
#include "spec/annotations.h"
#include "spec/missing_resource.h"

/* Queue of the SpiderMultusConfigs to process. */

/* BATCH_MAX: jobs per turn of the loop. */
enum { AT_ONCE = 8, BATCH_MAX = 64, AGAIN_MS = 1000, AGAIN_MOST_MS = 60 * 1000 };

/* --- jobs --- */

static int compare(const struct nads_key *k, const char *ns, const char *what, const char *name)
{
	int r = strcmp(k->ns, ns);

	if (r == 0)
		r = strcmp(k->what, what);
	return r ? r : strcmp(k->name, name);
}

/* Returns the index of the first key that is not before this one; n: none. */
static size_t nads_index_at(const struct nads_index *x, const char *ns, const char *what,
			    const char *name)
{
	return LOWER_BOUND(i, x->n, compare(x->v[i], ns, what, name) < 0);
}

/* Returns whether the key at `at` exists and has this namespace and what; used to iterate over
 * them. */
static bool nads_index_is(const struct nads_index *x, size_t at, const char *ns, const char *what)
{
	return at < x->n && strcmp(x->v[at]->what, what) == 0 && strcmp(x->v[at]->ns, ns) == 0;
}

static struct nads_job *find(const struct nads *n, const char *ns, const char *name)
{
	size_t at = nads_index_at(&n->jobs, ns, "", name);

	return nads_index_is(&n->jobs, at, ns, "") && strcmp(n->jobs.v[at]->name, name) == 0
		       ? n->jobs.v[at]->job
		       : NULL;
}

static void unqueue(struct nads_job *j)
{
	if (!j->queued)
		return;
	*(j->before ? &j->before->after : &j->n->first) = j->after;
	*(j->after ? &j->after->before : &j->n->last) = j->before;
	j->before = j->after = NULL;
	j->queued = false;
}

static void queue(struct nads_job *j)
{
	if (j->queued)
		return;
	j->queued = true;
	j->before = j->n->last;
	*(j->before ? &j->before->after : &j->n->first) = j;
	j->n->last = j;
}

static void drop(struct nads_job *j)
{
	kube_cancel(j->call);
	loop_del_timer(j->again);
	free(j->ns);
	free(j->name);
	free(j->nad);
	free(j->about);
	free(j->logged);
	free(j);
}

static void nads_index_remove(struct nads_index *x, const char *ns, const char *what,
			      const char *name)
{
	size_t at = nads_index_at(x, ns, what, name);

	if (at == x->n || compare(x->v[at], ns, what, name) != 0)
		return;
	free(x->v[at]);
	x->n--;
	memmove(&x->v[at], &x->v[at + 1], (x->n - at) * sizeof(struct nads_key *));
}

static void forget_want(struct nads_job *j)
{
	if (j->nad)
		nads_index_remove(&j->n->wants, j->ns, j->nad, j->name);
}

static const char *place(char **at, const char *s)
{
	size_t n = strlen(s) + 1;
	const char *to = memcpy(*at, s, n);

	*at += n;
	return to;
}

static struct nads_key *key_new(const char *ns, const char *what, const char *name,
				struct nads_job *job)
{
	struct nads_key *k = xcalloc(1, sizeof(*k) + strlen(ns) + strlen(what) + strlen(name) + 3);
	char *at = (char *)(k + 1);

	k->ns = place(&at, ns);
	k->what = place(&at, what);
	k->name = place(&at, name);
	k->job = job;
	return k;
}

/* Copies the strings. An existing key stays with its job. */
static struct nads_key *nads_index_add(struct nads_index *x, const char *ns, const char *what,
				       const char *name, struct nads_job *job)
{
	size_t at = nads_index_at(x, ns, what, name);

	if (at < x->n && compare(x->v[at], ns, what, name) == 0)
		return x->v[at];
	if (x->n == x->cap) {
		x->cap = x->cap ? x->cap + x->cap / 2 : 16;
		x->v = xrealloc(x->v, x->cap * sizeof(struct nads_key *));
	}
	memmove(&x->v[at + 1], &x->v[at], (x->n - at) * sizeof(struct nads_key *));
	x->v[at] = key_new(ns, what, name, job);
	x->n++;
	return x->v[at];
}

/* Sets the name of the NAD that the job wants. */
static void nads_want(struct nads_job *j, const char *nad)
{
	if (j->nad && strcmp(j->nad, nad) == 0)
		return;
	forget_want(j);
	free(j->nad);
	j->nad = xstrdup(nad);
	nads_index_add(&j->n->wants, j->ns, nad, j->name, j);
}

static void remove_job(struct nads *n, struct nads_job *j)
{
	if (j->call)
		n->in_flight--;
	unqueue(j);
	forget_want(j);
	nads_index_remove(&n->jobs, j->ns, "", j->name);
	drop(j);
}

static bool is_known(const struct nads *n)
{
	return kube_cache_synced(n->c.cache, CLUSTER_CACHE_MULTUSCONFIGS) &&
	       kube_cache_synced(n->c.cache, CLUSTER_CACHE_NADS);
}

static void nads_inspect(struct nads_job *j);

static void nads_pump_schedule(struct nads *n);

static void pump(void *arg)
{
	struct nads *n = arg;

	n->pump = NULL;
	for (int batches = 0; n->first && n->in_flight < AT_ONCE && is_known(n); batches++) {
		struct nads_job *j = n->first;

		if (batches == BATCH_MAX) {
			nads_pump_schedule(n);
			return;
		}
		unqueue(j);
		if (!j->call)
			nads_inspect(j);
	}
}

/* Processes the queue in the next turn of the loop. */
static void nads_pump_schedule(struct nads *n)
{
	if (!n->pump)
		n->pump = loop_add_timer(n->loop, 0, pump, n);
}

static void mark(struct nads_job *j)
{
	j->due = true;
	queue(j);
	nads_pump_schedule(j->n);
}

/* The job's request was answered: queues it again if it changed meanwhile. */
static void nads_answered(struct nads_job *j)
{
	if (j->due)
		queue(j);
	nads_pump_schedule(j->n);
}

static void on_again(void *arg)
{
	struct nads_job *j = arg;

	j->again = NULL;
	mark(j);
}

/* Processes the job again after `ms`. */
static void nads_again(struct nads_job *j, int64_t ms)
{
	loop_del_timer(j->again);
	j->again = loop_add_timer(j->n->loop, ms, on_again, j);
}

/* --- changes in the cluster --- */

static void add(struct nads *n, const struct kube_object *o)
{
	struct nads_job *j = find(n, o->ns, o->name);

	if (!j) {
		j = xcalloc(1, sizeof(*j));
		*j = (struct nads_job){.n = n,
				       .ns = xstrdup(o->ns),
				       .name = xstrdup(o->name),
				       .backoff = {AGAIN_MS, AGAIN_MOST_MS, 0}};
		nads_index_add(&n->jobs, o->ns, "", o->name, j);
	}
	mark(j);
}

static void add_all(struct nads *n)
{
	for (size_t i = 0; i < kube_cache_count(n->c.cache, CLUSTER_CACHE_MULTUSCONFIGS); i++)
		add(n, kube_cache_at(n->c.cache, CLUSTER_CACHE_MULTUSCONFIGS, i));
}

static void mark_name(struct nads *n, const char *ns, const char *name)
{
	struct nads_job *j = find(n, ns, name);

	if (j)
		mark(j);
}

void nads_check(struct nads *n, const char *ns, const char *name)
{
	if (n)
		mark_name(n, ns, name);
}

static void mark_wants(struct nads *n, const char *ns, const char *nad)
{
	for (size_t i = nads_index_at(&n->wants, ns, nad, ""); nads_index_is(&n->wants, i, ns, nad);
	     i++)
		mark(n->wants.v[i]->job);
}

/* A SpiderMultusConfig was deleted: processes those that wait for the name of its NAD. */
static void leave(struct nads *n, const struct kube_object *was)
{
	for (size_t i = nads_index_at(&n->owned, was->ns, was->uid, "");
	     nads_index_is(&n->owned, i, was->ns, was->uid); i++)
		mark_wants(n, was->ns, n->owned.v[i]->name);
}

static void on_smc(void *arg, const struct kube_object *was, const struct kube_object *is)
{
	struct nads *n = arg;
	struct nads_job *j;

	if (is) {
		add(n, is);
	} else if (was) {
		j = find(n, was->ns, was->name);
		if (j)
			remove_job(n, j);
		leave(n, was);
	} else {
		add_all(n);
	}
}

/* --- NADs --- */

static void know(struct nads *n, const struct kube_object *o)
{
	const char *uid = "";

	if (nad_owner(cluster_cache_json(o), &uid))
		nads_index_add(&n->owned, o->ns, uid, o->name, NULL);
}

/* Processes the previous, current and next owner of the NAD. */
static void on_nad(void *arg, const struct kube_object *was, const struct kube_object *is)
{
	const struct kube_object *o = is ? is : was;
	const char *uid = "", *owner;
	struct nads *n = arg;

	if (!o) {
		add_all(n);
		return;
	}
	owner = was ? nad_owner(cluster_cache_json(was), &uid) : NULL;
	if (owner) {
		nads_index_remove(&n->owned, o->ns, uid, o->name);
		mark_name(n, o->ns, owner);
	}
	owner = is ? nad_owner(cluster_cache_json(is), &uid) : NULL;
	if (owner) {
		know(n, is);
		mark_name(n, o->ns, owner);
	}
	mark_wants(n, o->ns, o->name);
}

/* --- creation and destruction --- */

struct nads *nads_new(const struct nads_conf *c)
{
	struct nads *n = xcalloc(1, sizeof(*n));

	n->c = *c;
	n->loop = kube_loop(c->kube);
	kube_cache_on(c->cache, CLUSTER_CACHE_MULTUSCONFIGS, on_smc, n);
	kube_cache_on(c->cache, CLUSTER_CACHE_NADS, on_nad, n);
	for (size_t i = 0; i < kube_cache_count(c->cache, CLUSTER_CACHE_NADS); i++)
		know(n, kube_cache_at(c->cache, CLUSTER_CACHE_NADS, i));
	add_all(n);
	return n;
}

static void nads_index_done(struct nads_index *x)
{
	for (size_t i = 0; i < x->n; i++)
		free(x->v[i]);
	free(x->v);
	*x = (struct nads_index){0};
}

void nads_free(struct nads *n)
{
	if (!n)
		return;
	kube_cache_off(n->c.cache, n);
	loop_del_timer(n->pump);
	for (size_t i = 0; i < n->jobs.n; i++)
		drop(n->jobs.v[i]->job);
	nads_index_done(&n->jobs);
	nads_index_done(&n->wants);
	nads_index_done(&n->owned);
	free(n);
}

struct nads_counts nads_counts(const struct nads *n)
{
	struct nads_counts c = n->counts;

	for (size_t i = 0; i < n->jobs.n; i++)
		c.wrong += n->jobs.v[i]->job->wrong;
	return c;
}

/* Processing of one SpiderMultusConfig, one request at a time, and reporting. */

/*
 * SCHEDULE_MS: lets the watch deliver changes in progress first. STATUS_MS: retry interval if the CRD
 * has no status.
 */
enum { BODY_MAX = 512 << 10, SCHEDULE_MS = 500, STATUS_MS = 10 * 60 * 1000 };

/* --- reporting --- */

static void report(const struct nads_job *j, bool warning, const char *reason, const char *message)
{
	const struct kube_object *o =
		kube_cache_get(j->n->c.cache, CLUSTER_CACHE_MULTUSCONFIGS, j->ns, j->name);

	if (o)
		kube_events_add(j->n->c.events, &(struct kube_event){.api_version = SPIDERPOOL_API,
								     .kind = "SpiderMultusConfig",
								     .ns = j->ns,
								     .name = j->name,
								     .uid = o->uid,
								     .warning = warning,
								     .reason = reason,
								     .message = message});
}

/* Reports each error once until it changes. */
static void report_error(struct nads_job *j, const char *reason, const char *message)
{
	if (j->logged && strcmp(j->logged, message) == 0)
		return;
	free(j->logged);
	j->logged = xstrdup(message);
	log_limited(LOG_ERROR, 2, "cannot write the network of a SpiderMultusConfig",
		    LOG_S("namespace", j->ns), LOG_S("name", j->name), LOG_S("error", message));
	report(j, true, reason, message);
}

static void content(struct nads_job *j)
{
	free(j->logged);
	j->logged = NULL;
}

static const struct done {
	const char *reason, *message;
} done[] = {
	[STEP_CREATE] = {"NADCreated", "made"},
	[STEP_PATCH] = {"NADUpdated", "updated"},
	[STEP_REMOVE] = {"NADDeleted", "removed: the network was renamed"},
};

static void report_done(const struct nads_job *j, enum nads_step step)
{
	const struct done *d = &done[step];
	auto_free char *message =
		xasprintf("NetworkAttachmentDefinition '%s/%s' %s", j->ns, j->about, d->message);

	log_info(message, LOG_S("for", j->name));
	report(j, false, d->reason, message);
}

/* --- requests --- */

static void put_status(struct nads_job *j, const struct json *smc, const struct nad_state *s);

static void no_status(struct nads *n, const struct err *e)
{
	if (n->no_status_until == 0)
		log_warn("cannot write the status of SpiderMultusConfigs: install the definitions "
			 "of this release (kubectl apply -f deploy/crds)",
			 LOG_S("error", e->text));
	n->no_status_until = loop_now_ms(n->loop) + STATUS_MS;
}

/*
 * Reported once until a write succeeds: the watch delivers the status that was written, which
 * triggers the next attempt.
 */
static void report_failed(struct nads_job *j, const char *message)
{
	const struct kube_object *o =
		kube_cache_get(j->n->c.cache, CLUSTER_CACHE_MULTUSCONFIGS, j->ns, j->name);
	const struct nad_state s = {.nad = j->nad, .reason = "NADFailed", .message = message};

	j->wrong = true;
	if (j->failed || !o)
		return;
	j->failed = true;
	put_status(j, cluster_cache_json(o), &s);
}

static void on_failed(struct nads_job *j, enum nads_step step, int status, const struct err *e)
{
	bool again = status == 404 && step == STEP_STATUS && j->no_status;

	/*
	 * Another writer was faster, or the object was deleted: the watch delivers the change. A
	 * 404 for the status of an existing object means that the CRD has no status subresource.
	 */
	if (status == 409 || (status == 404 && step != STEP_CREATE && !again)) {
		j->no_status = status == 404 && step == STEP_STATUS;
		j->failed &= step != STEP_STATUS;
		nads_again(j, kube_jitter(SCHEDULE_MS, 2 * SCHEDULE_MS));
		return;
	}
	j->n->counts.failed++;
	if (again) {
		no_status(j->n, e);
		return;
	}
	report_error(j, "NADFailed", e->text);
	nads_again(j, backoff_next(&j->backoff));
	if (step != STEP_STATUS)
		report_failed(j, e->text);
}

static void on_written(struct nads_job *j, enum nads_step step)
{
	j->n->counts.written += step != STEP_REMOVE;
	j->n->counts.removed += step == STEP_REMOVE;
	j->no_status &= step != STEP_STATUS;
	if (step != STEP_STATUS) {
		j->failed = false;
		backoff_reset(&j->backoff);
		report_done(j, step);
	}
	/* normally the watch is faster */
	if (!j->again)
		nads_again(j, 2 * SCHEDULE_MS);
}

static void on_done(void *arg, int status, const struct json *object, const struct err *e)
{
	struct nads_job *j = arg;
	enum nads_step step = j->step;

	(void)object;
	j->call = NULL;
	j->step = STEP_NONE;
	j->n->in_flight--;
	if (e)
		on_failed(j, step, status, e);
	else
		on_written(j, step);
	nads_answered(j);
}

static void send(struct nads_job *j, enum nads_step step, const struct kube_request *r)
{
	j->step = step;
	free(j->about);
	j->about = xstrdup(r->on.name);
	j->n->in_flight++;
	j->call = kube_send(j->n->c.kube, r, on_done, j);
}

static void send_body(struct nads_job *j, enum nads_step step, enum kube_verb verb,
		      const struct kube_ref *on, const struct buf *body)
{
	const struct kube_request r = {.verb = verb, .on = *on, .body = buf_span(body)};

	send(j, step, &r);
}

/* --- one SpiderMultusConfig --- */

static void put_status(struct nads_job *j, const struct json *smc, const struct nad_state *s)
{
	const struct kube_ref on = {&kube_multusconfigs, j->ns, j->name, "status"};
	auto_buf struct buf b;

	buf_init(&b, BODY_MAX);
	if (loop_now_ms(j->n->loop) < j->n->no_status_until)
		return;
	if (nad_status_patch(&b, smc, s, now_real_ms()))
		send_body(j, STEP_STATUS, KUBE_MERGE_PATCH, &on, &b);
}

static void is_wrong(struct nads_job *j, const struct json *smc, const char *reason,
		     const char *message)
{
	const struct nad_state s = {.nad = nad_name(smc), .reason = reason, .message = message};

	j->wrong = true;
	report_error(j, reason, message);
	put_status(j, smc, &s);
}

/* Returns a NAD that was written for this object under another name; NULL: there is none. */
static const struct kube_object *orphan(const struct nads_job *j, const char *smc_uid,
					const char *nad)
{
	const struct nads_index *x = &j->n->owned;

	for (size_t i = nads_index_at(x, j->ns, smc_uid, ""); nads_index_is(x, i, j->ns, smc_uid);
	     i++) {
		const struct kube_object *o =
			kube_cache_get(j->n->c.cache, CLUSTER_CACHE_NADS, j->ns, x->v[i]->name);

		if (o && strcmp(o->name, nad) != 0 && !cluster_cache_object(o)->deleting)
			return o;
	}
	return NULL;
}

static void remove_nad(struct nads_job *j, const struct kube_object *o)
{
	const struct kube_request r = {.verb = KUBE_DELETE,
				       .on = {.kind = &kube_nads, .ns = o->ns, .name = o->name},
				       .uid = o->uid,
				       .resource_version = o->version};

	send(j, STEP_REMOVE, &r);
}

/* Returns the SpiderMultusConfig that owns the NAD and still exists, if it is another one. */
static const char *other_owner(const struct nads_job *j, const struct json *nad)
{
	const char *uid = NULL, *owner = nad_owner(nad, &uid);
	const struct kube_object *o;

	if (!owner || strcmp(owner, j->name) == 0)
		return NULL;
	o = kube_cache_get(j->n->c.cache, CLUSTER_CACHE_MULTUSCONFIGS, j->ns, owner);
	return o && strcmp(o->uid, uid) == 0 ? owner : NULL;
}

static bool put_nad(struct nads_job *j, const struct json *smc, const struct nad *n,
		    const struct kube_object *there)
{
	const struct kube_ref on = {&kube_nads, j->ns, n->name, NULL};
	auto_buf struct buf b;

	buf_init(&b, BODY_MAX);
	if (!there) {
		nad_put(&b, n, smc);
		send_body(j, STEP_CREATE, KUBE_CREATE, &on, &b);
		return true;
	}
	if (!nad_patch(&b, n, smc, cluster_cache_json(there)))
		return false;
	send_body(j, STEP_PATCH, KUBE_MERGE_PATCH, &on, &b);
	return true;
}

static void reconcile_one(struct nads_job *j, const struct kube_object *o, const struct nad *n)
{
	const struct kube_object *there =
		kube_cache_get(j->n->c.cache, CLUSTER_CACHE_NADS, j->ns, n->name);
	const char *other = there ? other_owner(j, cluster_cache_json(there)) : NULL;
	const struct nad_state ready = {n->name, true, "Written", ""};
	auto_free char *message = NULL;

	if (there && cluster_cache_object(there)->large) {
		message = xasprintf(
			"NetworkAttachmentDefinition '%s/%s' is too large (%zu bytes): delete it, "
			"then it is created again",
			j->ns, n->name, cluster_cache_object(there)->large);
		is_wrong(j, cluster_cache_json(o), "NADTooLarge", message);
		return;
	}
	if (there && cluster_cache_object(there)->deleting) {
		message = xasprintf(
			"NetworkAttachmentDefinition '%s/%s' is being deleted: it is created again "
			"afterwards",
			j->ns, n->name);
		is_wrong(j, cluster_cache_json(o), "Terminating", message);
		return;
	}
	if (other) {
		message = xasprintf("NetworkAttachmentDefinition '%s/%s' belongs to "
				    "SpiderMultusConfig '%s': choose another name (annotation %s)",
				    j->ns, n->name, other, ANNOTATION_NAD_NAME);
		is_wrong(j, cluster_cache_json(o), "NameTaken", message);
		return;
	}
	j->wrong = false;
	if (put_nad(j, cluster_cache_json(o), n, there))
		return;
	content(j);
	there = orphan(j, o->uid, n->name);
	if (there)
		remove_nad(j, there);
	else
		put_status(j, cluster_cache_json(o), &ready);
}

static void is_large(struct nads_job *j, const struct kube_object *o)
{
	size_t bytes = cluster_cache_object(o)->large;
	auto_free char *message =
		bytes > CLUSTER_CACHE_OBJECT_MAX
			? xasprintf("the object takes %zu bytes, %d are allowed: make it smaller",
				    bytes, CLUSTER_CACHE_OBJECT_MAX)
			: xasprintf("the object takes %zu bytes, which exceeds the limit of its "
				    "namespace or of the cluster (%d, %d): delete others, then "
				    "change this one",
				    bytes, CLUSTER_CACHE_NS_MAX, CLUSTER_CACHE_TOTAL_MAX);

	is_wrong(j, cluster_cache_json(o), "TooLarge", message);
}

static void add_missing(const struct nads_job *j, const struct kube_object *smc, struct nad *n)
{
	const struct nads_conf *c = &j->n->c;
	const struct kube_object *there =
		kube_cache_get(c->cache, CLUSTER_CACHE_NADS, j->ns, n->name);
	const struct json *meta = there ? json_get(cluster_cache_json(there), "metadata") : NULL;
	const char *is =
		json_string(json_get(json_get(meta, "annotations"), ANNOTATION_MISSING_RESOURCE));
	auto_free char *text = c->missing ? c->missing(c->arg, smc, is) : NULL;

	if (text)
		labels_put(&n->annotations, ANNOTATION_MISSING_RESOURCE, text);
}

/* Carries out the next step of the job; at most one request. */
static void nads_inspect(struct nads_job *j)
{
	const struct kube_object *o =
		kube_cache_get(j->n->c.cache, CLUSTER_CACHE_MULTUSCONFIGS, j->ns, j->name);
	struct err e = ERR_INIT;
	struct nad n;

	j->due = false;
	if (!o || cluster_cache_object(o)->deleting)
		return;
	nads_want(j, nad_name(cluster_cache_json(o)));
	if (cluster_cache_object(o)->large) {
		is_large(j, o);
		return;
	}
	if (nad_write(cluster_cache_json(o), &n, &e) < 0) {
		is_wrong(j, cluster_cache_json(o), "Invalid", e.text);
		return;
	}
	add_missing(j, o, &n);
	reconcile_one(j, o, &n);
	nad_done(&n);
}
