/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/endpoint/endpoints.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "block/codec.h"
#include "kube/informer.h"
#include "kube/object.h"
#include "kube/workqueue.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "base/log.h"
#include "block/migration.h"
#include "kube/kinds.h"
#include "spec/annotations.h"

enum { AGAIN_MS = 1000, AGAIN_MOST_MS = 15 * 1000 };

/* An existing endpoint written by this node. */
struct endpoints_there {
	char *status;
	/* loop time since which this node's journal has no address under the endpoint's name; 0:
	 * it has one, or this was not checked yet */
	int64_t idle_since;
	bool requested; /* a pod on another node requests the endpoint's addresses */
};

/* An endpoint that is wanted or exists. */
struct endpoints_item {
	struct work w;
	/* the endpoint's status as the last request wrote it, "" for a deletion. That write is
	 * not repeated before `until` (loop time): after a success the watch may not have
	 * delivered the result yet, and after a refusal the server would refuse the write again */
	char *written;
	int64_t until;
	bool create, removal; /* kind of the last request; both false: a patch */
	/* the endpoint exists, but this node did not write it, or the watch has not delivered it
	 * yet: it is patched instead of created */
	bool taken;
};

struct endpoints {
	struct endpoints_conf conf;
	char label[BLOCK_LABEL_MAX];
	struct kube_informer *informer;
	struct endpoints_required wanted;
	bool known; /* endpoints_leases() was called */
	bool hold;
	struct workqueue *queue;
	bool logged; /* a failure was logged after the last successful write */
};

/* --- existing endpoints --- */

static int read_there(void *value, const struct json *object, struct err *e)
{
	struct endpoints_there *t = value;

	(void)e;
	t->status = endpoint_status_of(object);
	t->requested = json_get(kube_meta(object, "annotations"), ANNOTATION_REQUESTED_BY) != NULL;
	return 0;
}

static void drop_there(void *value)
{
	free(((struct endpoints_there *)value)->status);
}

/* Queues the endpoint for a comparison, unless workqueue_retry() has already queued it after a
 * failed write: it then waits for the end of its backoff. */
static void compare(struct endpoints *e, const char *ns, const char *name)
{
	struct work *w = workqueue_get(e->queue, ns, name);

	if (!w->backoff.failures)
		workqueue_add(w);
}

static void compare_all(struct endpoints *e)
{
	for (size_t i = 0; i < e->wanted.n; i++)
		compare(e, e->wanted.v[i].ns, e->wanted.v[i].name);
	for (size_t i = 0; i < kube_informer_count(e->informer); i++)
		compare(e, kube_informer_at(e->informer, i)->ns,
			kube_informer_at(e->informer, i)->name);
}

static void on_changed(void *arg, const struct kube_object *was, const struct kube_object *is)
{
	compare(arg, is ? is->ns : was->ns, is ? is->name : was->name);
}

static void on_synced(void *arg)
{
	compare_all(arg);
}

/* Logs only a missing permission: other errors concern all kinds of this API group, and the
 * cluster cache logs them. */
static void on_sync_error(void *arg, const struct err *cause)
{
	(void)arg;
	if (cause && cause->code == -EPERM)
		log_error("the agent may not read spiderendpoints: allow it to 'list' and 'watch' "
			  "spiderendpoints." SPIDERPOOL_GROUP,
			  LOG_S("error", cause->text));
}

/* --- changes of leases and pods --- */

void endpoints_leases(struct endpoints *e, const struct lease_table *t, const struct pool_set *s)
{
	endpoints_required_done(&e->wanted);
	endpoints_required(t, s, &e->wanted);
	e->known = true;
	compare_all(e);
}

void endpoints_pod_changed(struct endpoints *e)
{
	compare_all(e);
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

/* --- one request at a time: writes missing and changed endpoints, deletes idle ones --- */

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

/* From now on the last write is not repeated for `ms`; then the endpoint is compared again. */
static void keep(struct endpoints *e, struct endpoints_item *x, int64_t ms)
{
	x->until = now(e) + ms;
	workqueue_add_after(&x->w, ms);
}

static bool is_recent(const struct endpoints *e, const struct endpoints_item *x, const char *status)
{
	return now(e) < x->until && strcmp(x->written, status) == 0;
}

static void drop_item(void *item)
{
	free(((struct endpoints_item *)item)->written);
}

static void say_failure(struct endpoints *e, const struct work *w, const struct err *cause)
{
	if (e->conf.metrics)
		e->conf.metrics->endpoints_failed++;
	if (e->logged)
		return;
	e->logged = true;
	log_warn("failed to write a SpiderEndpoint, will retry", LOG_S("namespace", w->ns),
		 LOG_S("name", w->name), LOG_S("error", cause->text));
}

static void on_written(void *arg, void *item, int status, const struct json *object,
		       const struct err *cause)
{
	struct endpoints *e = arg;
	struct endpoints_item *x = item;
	bool deleted = status == 404;

	(void)object;
	x->taken = cause && cause->code == -EEXIST && x->create;
	if (!cause || (deleted && x->removal)) {
		if (e->conf.metrics && !x->removal)
			e->conf.metrics->endpoints++;
		workqueue_forget(&x->w);
		e->logged = false;
		keep(e, x, SHOWN_MS);
	} else if (x->taken) {
		workqueue_add(&x->w);
	} else {
		say_failure(e, &x->w, cause);
		if (status >= 400 && status < 500 && status != 429)
			keep(e, x, deleted || cause->kind == ERR_AGAIN ? CHANGED_MS : REFUSED_MS);
		else
			workqueue_retry(&x->w);
	}
}

static void send(struct endpoints_item *x, const struct kube_request *r, const char *status)
{
	free(x->written);
	x->written = xstrdup(status);
	x->until = 0;
	x->create = r->verb == KUBE_CREATE;
	x->removal = r->verb == KUBE_DELETE;
	workqueue_send(&x->w, r);
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

static void write_one(struct endpoints *e, struct endpoints_item *x, const struct endpoint *p,
		      const struct kube_object *o)
{
	const struct pod_facts *pod = p->retained ? NULL : pod_of(e, p);
	auto_free char *status = pod ? endpoint_status(p, pod, e->conf.node) : NULL, *text = NULL;
	bool exists = o || x->taken;

	if (o)
		((struct endpoints_there *)o->value)->idle_since = 0;
	if (!pod || is_recent(e, x, status) ||
	    (o && strcmp(((struct endpoints_there *)o->value)->status, status) == 0))
		return;
	text = exists ? endpoint_patch_text(p, pod, e->conf.node, e->label)
		      : endpoint_create_text(p, pod, e->conf.node, e->label);
	send(x,
	     &(struct kube_request){
		     .verb = exists ? KUBE_MERGE_PATCH : KUBE_CREATE,
		     .on = {.kind = &kube_endpoints, .ns = p->ns, .name = p->name},
		     .body = span_of(text),
	     },
	     status);
}

static void remove_one(struct endpoints *e, struct endpoints_item *x, const struct kube_object *o)
{
	const struct kube_request r = {
		.verb = KUBE_DELETE,
		.on = {.kind = &kube_endpoints, .ns = o->ns, .name = o->name},
		.uid = o->uid,
		.resource_version = o->version};
	struct endpoints_there *t = o->value;
	int64_t due;

	if (is_recent(e, x, ""))
		return;
	if (!t->idle_since)
		t->idle_since = now(e) > 0 ? now(e) : 1;
	/*
	 * If another node requests the addresses, the endpoint is the only record of them until
	 * that node has patched it.
	 */
	due = t->idle_since + (t->requested ? MIGRATION_LEAVE_MS : DELETED_MS);
	if (due > now(e))
		workqueue_add_after(&x->w, due - now(e));
	else
		send(x, &r, "");
}

static bool is_known(const struct endpoints *e)
{
	return e->known && kube_informer_synced(e->informer) &&
	       kube_cache_synced(cluster_objects(e->conf.cluster), CLUSTER_PODS);
}

static void reconcile(void *arg, void *item)
{
	struct endpoints *e = arg;
	struct endpoints_item *x = item;
	const struct endpoint *p = endpoints_required_find(&e->wanted, x->w.ns, x->w.name);
	const struct kube_object *o = kube_informer_get(e->informer, x->w.ns, x->w.name);

	if (!p && !o) {
		workqueue_remove(&x->w);
		return;
	}
	if (now(e) < x->until)
		workqueue_add_after(&x->w, x->until - now(e));
	if (is_known(e) && p)
		write_one(e, x, p, o);
	else if (is_known(e) && !e->hold)
		remove_one(e, x, o);
	if (!x->w.call)
		workqueue_forget(&x->w);
}

/* --- creation and destruction --- */

struct endpoints *endpoints_new(const struct endpoints_conf *c)
{
	struct endpoints *e = xcalloc(1, sizeof(*e));
	char label[BLOCK_LABEL_MAX];
	auto_free char *select = NULL;

	e->conf = *c;
	e->queue = workqueue_new(&(struct workqueue_conf){.kube = c->kube,
							  .in_flight_max = 1,
							  .retry_ms = AGAIN_MS,
							  .retry_most_ms = AGAIN_MOST_MS,
							  .size = sizeof(struct endpoints_item),
							  .reconcile = reconcile,
							  .done = on_written,
							  .drop = drop_item,
							  .arg = e});
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

void endpoints_free(struct endpoints *e)
{
	if (!e)
		return;
	kube_informer_free(e->informer);
	workqueue_free(e->queue);
	endpoints_required_done(&e->wanted);
	free(e);
}
