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
#include "spec/multusconfig.h"

/* Queue of the SpiderMultusConfigs to process. */

enum { AT_ONCE = 8, AGAIN_MS = 1000, AGAIN_MOST_MS = 60 * 1000 };

/* --- jobs and their index --- */

static int compare(const struct nads_key *k, const char *ns, const char *what, const char *name)
{
	int r = strcmp(k->ns, ns);

	if (r == 0)
		r = strcmp(k->what, what);
	return r ? r : strcmp(k->name, name);
}

/* Returns the index of the first key that is equal to or after the given key; x->n: none. */
static size_t nads_index_at(const struct nads_index *x, const char *ns, const char *what,
			    const char *name)
{
	return LOWER_BOUND(i, x->n, compare(x->v[i], ns, what, name) < 0);
}

/* Returns whether the key at `at` exists and has this namespace and `what`; used to iterate over
 * these keys. */
static bool nads_index_is(const struct nads_index *x, size_t at, const char *ns, const char *what)
{
	return at < x->n && strcmp(x->v[at]->what, what) == 0 && strcmp(x->v[at]->ns, ns) == 0;
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

/* Copies the strings. If the key exists, it is returned unchanged and `job` is ignored. */
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

static void forget_want(struct nads_job *j)
{
	if (j->nad)
		nads_index_remove(&j->n->wants, j->w.ns, j->nad, j->w.name);
}

/* Sets the name of the NAD that the job wants. */
static void nads_want(struct nads_job *j, const char *nad)
{
	if (j->nad && strcmp(j->nad, nad) == 0)
		return;
	forget_want(j);
	free(j->nad);
	j->nad = xstrdup(nad);
	nads_index_add(&j->n->wants, j->w.ns, nad, j->w.name, j);
}

static bool is_known(const struct nads *n)
{
	return kube_cache_synced(n->c.cache, CLUSTER_CACHE_MULTUSCONFIGS) &&
	       kube_cache_synced(n->c.cache, CLUSTER_CACHE_NADS);
}

static void drop(void *item)
{
	struct nads_job *j = item;

	forget_want(j);
	free(j->nad);
	free(j->about);
}

/* --- changes in the cluster --- */

static void add(struct nads *n, const struct kube_object *o)
{
	struct nads_job *j = workqueue_get(n->queue, o->ns, o->name);

	j->n = n;
	workqueue_add(&j->w);
}

static void add_all(struct nads *n)
{
	for (size_t i = 0; i < kube_cache_count(n->c.cache, CLUSTER_CACHE_MULTUSCONFIGS); i++)
		add(n, kube_cache_at(n->c.cache, CLUSTER_CACHE_MULTUSCONFIGS, i));
}

static void mark_name(struct nads *n, const char *ns, const char *name)
{
	workqueue_add(workqueue_find(n->queue, ns, name));
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
		workqueue_add(&n->wants.v[i]->job->w);
}

/* Queues the SpiderMultusConfigs that want the name of a NAD which the deleted
 * SpiderMultusConfig, `was`, owns. */
static void leave(struct nads *n, const struct kube_object *was)
{
	for (size_t i = nads_index_at(&n->owned, was->ns, was->uid, "");
	     nads_index_is(&n->owned, i, was->ns, was->uid); i++)
		mark_wants(n, was->ns, n->owned.v[i]->name);
}

static void on_smc(void *arg, const struct kube_object *was, const struct kube_object *is)
{
	struct nads *n = arg;
	struct work *w;

	if (is) {
		add(n, is);
	} else if (was) {
		w = workqueue_find(n->queue, was->ns, was->name);
		if (w)
			workqueue_remove(w);
		leave(n, was);
	} else {
		add_all(n);
	}
}

/* --- changes of NADs --- */

static void know(struct nads *n, const struct kube_object *o)
{
	const char *uid = "";

	if (nad_owner(cluster_cache_json(o), &uid))
		nads_index_add(&n->owned, o->ns, uid, o->name, NULL);
}

/* Queues the SpiderMultusConfigs that were or are the owner of the NAD, or that want its name. */
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

/* --- processing of one SpiderMultusConfig, one request at a time, and reporting --- */

/* BODY_MAX: size limit in bytes of a request's body. SCHEDULE_MS: a job is reconciled again one
 * to two SCHEDULE_MS after a conflict and two SCHEDULE_MS after a write of a NAD, or earlier
 * when the watch delivers the change. STATUS_MS: retry interval of status writes if the CRD has
 * no status subresource. */
enum { BODY_MAX = 512 << 10, SCHEDULE_MS = 500, STATUS_MS = 10 * 60 * 1000 };

/* --- reports of errors and changes --- */

static void report(const struct nads_job *j, bool warning, const char *reason, const char *message)
{
	const struct kube_object *o =
		kube_cache_get(j->n->c.cache, CLUSTER_CACHE_MULTUSCONFIGS, j->w.ns, j->w.name);

	if (o)
		kube_events_add(j->n->c.events, &(struct kube_event){.api_version = SPIDERPOOL_API,
								     .kind = "SpiderMultusConfig",
								     .ns = j->w.ns,
								     .name = j->w.name,
								     .uid = o->uid,
								     .warning = warning,
								     .reason = reason,
								     .message = message});
}

/* Reports the error, unless the last error reported for this job has the same message. */
static void report_error(struct nads_job *j, const char *reason, const char *message)
{
	if (!log_once(&j->w.logged, message))
		return;
	log_limited(LOG_ERROR, 2,
		    "cannot reconcile the NetworkAttachmentDefinition or the "
		    "status of a SpiderMultusConfig",
		    LOG_S("namespace", j->w.ns), LOG_S("name", j->w.name), LOG_S("error", message));
	report(j, true, reason, message);
}

static const struct done {
	const char *reason, *message;
} done[] = {
	[STEP_CREATE] = {"NADCreated", "created"},
	[STEP_PATCH] = {"NADUpdated", "updated"},
	[STEP_REMOVE] = {"NADDeleted", "removed: the network was renamed"},
};

static void report_done(const struct nads_job *j, enum nads_step step)
{
	const struct done *d = &done[step];
	auto_free char *message =
		xasprintf("NetworkAttachmentDefinition '%s/%s' %s", j->w.ns, j->about, d->message);

	log_info(message, LOG_S("owner", j->w.name));
	report(j, false, d->reason, message);
}

/* --- requests to the API server --- */

static void put_status(struct nads_job *j, const struct json *smc, const struct nad_state *s);

static void no_status(struct nads *n, const struct err *e)
{
	if (n->no_status_until == 0)
		log_warn("cannot write the status of SpiderMultusConfigs: install the definitions "
			 "of this release (kubectl apply -f deploy/crds)",
			 LOG_S("error", e->text));
	n->no_status_until = loop_now_ms(n->loop) + STATUS_MS;
}

/* Reports a failure in the status, once until a write of the NAD succeeds. When the watch
 * delivers the written status, the job is processed again. */
static void report_failed(struct nads_job *j, const char *message)
{
	const struct kube_object *o =
		kube_cache_get(j->n->c.cache, CLUSTER_CACHE_MULTUSCONFIGS, j->w.ns, j->w.name);
	const struct nad_state s = {.nad = j->nad, .reason = "NADFailed", .message = message};

	j->outdated = true;
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
		workqueue_add_after(&j->w, jitter_ms(SCHEDULE_MS, 2 * SCHEDULE_MS));
		return;
	}
	j->n->counts.failed++;
	if (again) {
		no_status(j->n, e);
		return;
	}
	report_error(j, "NADFailed", e->text);
	workqueue_retry(&j->w);
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
		report_done(j, step);
		workqueue_add_after(&j->w, 2 * SCHEDULE_MS); /* normally the watch is faster */
	}
}

static void on_done(void *arg, void *item, int status, const struct json *object,
		    const struct err *e)
{
	struct nads_job *j = item;

	(void)arg, (void)object;
	if (e)
		on_failed(j, j->step, status, e);
	else
		on_written(j, j->step);
}

static void send(struct nads_job *j, enum nads_step step, const struct kube_request *r)
{
	j->step = step;
	free(j->about);
	j->about = xstrdup(r->on.name);
	workqueue_send(&j->w, r);
}

static void send_body(struct nads_job *j, enum nads_step step, enum kube_verb verb,
		      const struct kube_ref *on, const struct buf *body)
{
	const struct kube_request r = {.verb = verb, .on = *on, .body = buf_span(body)};

	send(j, step, &r);
}

/* --- reconcile of one SpiderMultusConfig --- */

static void put_status(struct nads_job *j, const struct json *smc, const struct nad_state *s)
{
	const struct kube_ref on = {&kube_multusconfigs, j->w.ns, j->w.name, "status"};
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
	const struct nad_state s = {
		.nad = multus_nad_name(smc), .reason = reason, .message = message};

	j->outdated = true;
	report_error(j, reason, message);
	put_status(j, smc, &s);
}

/* Returns a NAD that was written for this object under another name; NULL: there is none. */
static const struct kube_object *orphan(const struct nads_job *j, const char *smc_uid,
					const char *nad)
{
	const struct nads_index *x = &j->n->owned;

	for (size_t i = nads_index_at(x, j->w.ns, smc_uid, "");
	     nads_index_is(x, i, j->w.ns, smc_uid); i++) {
		const struct kube_object *o =
			kube_cache_get(j->n->c.cache, CLUSTER_CACHE_NADS, j->w.ns, x->v[i]->name);

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

/* Returns the name of the SpiderMultusConfig that owns the NAD, if it still exists and is not
 * the job's; otherwise NULL. */
static const char *other_owner(const struct nads_job *j, const struct json *nad)
{
	const char *uid = NULL, *owner = nad_owner(nad, &uid);
	const struct kube_object *o;

	if (!owner || strcmp(owner, j->w.name) == 0)
		return NULL;
	o = kube_cache_get(j->n->c.cache, CLUSTER_CACHE_MULTUSCONFIGS, j->w.ns, owner);
	return o && strcmp(o->uid, uid) == 0 ? owner : NULL;
}

static bool put_nad(struct nads_job *j, const struct json *smc, const struct nad *n,
		    const struct kube_object *there)
{
	const struct kube_ref on = {&kube_nads, j->w.ns, n->name, NULL};
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
		kube_cache_get(j->n->c.cache, CLUSTER_CACHE_NADS, j->w.ns, n->name);
	const char *other = there ? other_owner(j, cluster_cache_json(there)) : NULL;
	const struct nad_state ready = {n->name, true, "Written", ""};
	auto_free char *message = NULL;

	if (there && cluster_cache_object(there)->large) {
		message = xasprintf(
			"NetworkAttachmentDefinition '%s/%s' (%zu bytes) is too large, alone or "
			"together with other objects: delete it, then the controller creates it "
			"again",
			j->w.ns, n->name, cluster_cache_object(there)->large);
		is_wrong(j, cluster_cache_json(o), "NADTooLarge", message);
		return;
	}
	if (there && cluster_cache_object(there)->deleting) {
		message = xasprintf(
			"NetworkAttachmentDefinition '%s/%s' is being deleted: it is created again "
			"afterwards",
			j->w.ns, n->name);
		is_wrong(j, cluster_cache_json(o), "Terminating", message);
		return;
	}
	if (other) {
		message = xasprintf("NetworkAttachmentDefinition '%s/%s' belongs to "
				    "SpiderMultusConfig '%s': choose another name (annotation %s)",
				    j->w.ns, n->name, other, ANNOTATION_NAD_NAME);
		is_wrong(j, cluster_cache_json(o), "NameTaken", message);
		return;
	}
	j->outdated = false;
	if (put_nad(j, cluster_cache_json(o), n, there))
		return;
	workqueue_forget(&j->w);
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
			: xasprintf("the object takes %zu bytes and exceeds, together with other "
				    "objects, the limit of its namespace (%d bytes) or of the "
				    "cluster (%d bytes): delete other objects, then the "
				    "controller processes this object again",
				    bytes, CLUSTER_CACHE_NS_MAX, CLUSTER_CACHE_TOTAL_MAX);

	is_wrong(j, cluster_cache_json(o), "TooLarge", message);
}

static void add_missing(const struct nads_job *j, const struct kube_object *smc, struct nad *n)
{
	const struct nads_conf *c = &j->n->c;
	const struct kube_object *there =
		kube_cache_get(c->cache, CLUSTER_CACHE_NADS, j->w.ns, n->name);
	const struct json *meta = there ? json_get(cluster_cache_json(there), "metadata") : NULL;
	const char *is =
		json_string(json_get(json_get(meta, "annotations"), ANNOTATION_MISSING_RESOURCE));
	auto_free char *text = c->missing ? c->missing(c->arg, smc, is) : NULL;

	if (text)
		labels_put(&n->annotations, ANNOTATION_MISSING_RESOURCE, text);
}

/* Carries out the next step of the job, which sends at most one request. */
static void reconcile(void *arg, void *item)
{
	struct nads_job *j = item;
	const struct kube_object *o =
		kube_cache_get(j->n->c.cache, CLUSTER_CACHE_MULTUSCONFIGS, j->w.ns, j->w.name);
	struct err e = ERR_INIT;
	struct nad n;

	if (!is_known(arg) || !o || cluster_cache_object(o)->deleting)
		return;
	nads_want(j, multus_nad_name(cluster_cache_json(o)));
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

/* --- creation and destruction --- */

struct nads *nads_new(const struct nads_conf *c)
{
	struct nads *n = xcalloc(1, sizeof(*n));

	n->c = *c;
	n->loop = kube_loop(c->kube);
	n->queue = workqueue_new(&(struct workqueue_conf){.kube = c->kube,
							  .in_flight_max = AT_ONCE,
							  .retry_ms = AGAIN_MS,
							  .retry_most_ms = AGAIN_MOST_MS,
							  .size = sizeof(struct nads_job),
							  .reconcile = reconcile,
							  .done = on_done,
							  .drop = drop,
							  .arg = n});
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
	nads_index_done(&n->wants);
	workqueue_free(n->queue);
	nads_index_done(&n->owned);
	free(n);
}

struct nads_counts nads_counts(const struct nads *n)
{
	struct nads_counts c = n->counts;

	for (const struct nads_job *j = workqueue_first(n->queue); j; j = workqueue_next(&j->w))
		c.outdated += j->outdated;
	return c;
}
