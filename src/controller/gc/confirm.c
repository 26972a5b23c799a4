/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/gc/confirm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "controller/gc/gc_cache.h"
#include "kube/kinds.h"
#include "kube/object.h"
#include "kube/workqueue.h"

/*
 * DELETED_MS: validity of LIVENESS_DELETED, so that a caller acts only on a recent answer.
 * FAILED_MS: validity of a failure. REQUIRED_MS: an entry unused for so long is dropped.
 */
enum { IN_FLIGHT_MAX = 4, DELETED_MS = 15 * 1000, FAILED_MS = 30 * 1000, REQUIRED_MS = 120 * 1000 };

enum about { ABOUT_POD, ABOUT_NODE, ABOUT_NAME };

struct question {
	struct work w; /* its key has all of about, ns, name and uid */
	enum about about;
	char *ns, *name, *uid;
	enum liveness_answer answer;
	bool requested; /* waiting for its request to be sent or answered */
	int64_t until;	/* time at which the answer expires */
	int64_t wanted; /* time of the last use by a caller */
	/* time of the first LIVENESS_DELETED after the last LIVENESS_THERE; 0: none */
	int64_t deleted_since;
	struct identity_lookup lookup; /* ABOUT_NAME only */
};

struct liveness {
	struct liveness_conf conf;
	struct workqueue *queue;
	struct log_once logged;
};

static int64_t now(const struct liveness *a)
{
	return loop_now_ms(kube_loop(a->conf.kube));
}

/* --- table of liveness checks --- */

static void drop(void *item)
{
	struct question *q = item;

	free(q->ns);
	free(q->name);
	free(q->uid);
}

/* Returns the entry. If there is none: creates it (create true) or returns NULL. */
static struct question *find(const struct liveness *a, enum about about, const char *ns,
			     const char *name, const char *uid, bool create)
{
	auto_free char *space = xasprintf("%d/%s", about, ns);
	auto_free char *key = xasprintf("%s/%s", name, uid);
	struct question *q = create ? workqueue_get(a->queue, space, key)
				    : workqueue_find(a->queue, space, key);

	if (q && !q->name) {
		q->about = about;
		q->ns = xstrdup(ns);
		q->name = xstrdup(name);
		q->uid = xstrdup(uid);
	}
	return q;
}

/* --- results of liveness checks --- */

static void answer(struct liveness *a, struct question *q, enum liveness_answer r)
{
	q->answer = r;
	q->requested = false;
	q->until = now(a) + (r == LIVENESS_DELETED ? DELETED_MS
			     : r == LIVENESS_THERE ? a->conf.again_ms
						   : FAILED_MS);
	if (r == LIVENESS_THERE)
		q->deleted_since = 0;
	else if (r == LIVENESS_DELETED && !q->deleted_since)
		q->deleted_since = now(a) > 0 ? now(a) : 1;
	workqueue_add_after(&q->w, REQUIRED_MS);
	a->conf.answered(a->conf.arg);
}

/* Logs an error unless the last logged one was the same. */
static void say(struct liveness *a, const struct err *e)
{
	if (!log_once(&a->logged, e->text))
		return;
	log_warn("cannot confirm a deletion, assuming the object still exists",
		 LOG_S("error", e->text));
}

/* --- requests to the API server --- */

static enum liveness_answer judge_node(const struct json *object)
{
	struct gc_cache_node n = {0};

	if (!object)
		return LIVENESS_DELETED;
	gc_cache_read_node(object, &n);
	return n.fenced && !n.ready ? LIVENESS_DELETED : LIVENESS_THERE;
}

/* object NULL: the object does not exist. */
static enum liveness_answer judge_pod(const struct question *q, const struct json *object)
{
	const char *uid = kube_meta_string(object, "uid");
	const char *phase = json_string(json_get(json_get(object, "status"), "phase"));

	if (!object || (*q->uid && uid && strcmp(uid, q->uid) != 0))
		return LIVENESS_DELETED;
	return phase && (strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0)
		       ? LIVENESS_DELETED
		       : LIVENESS_THERE;
}

/* Sends the next request of the entry; if none is left, stores the answer. */
static void send(struct liveness *a, struct question *q)
{
	struct kube_request r = {.verb = KUBE_GET,
				 .on = {.kind = q->about == ABOUT_POD ? &kube_pods : &kube_nodes,
					.ns = q->ns,
					.name = q->name}};

	if (q->about == ABOUT_NAME &&
	    !identity_lookup_next(&q->lookup, &a->conf.identity, q->ns, q->name, &r.on))
		answer(a, q,
		       identity_is_over(q->name, &a->conf.identity, &q->lookup.set,
					&q->lookup.machine)
			       ? LIVENESS_DELETED
			       : LIVENESS_THERE);
	else
		workqueue_send(&q->w, &r);
}

/* Sends the request of a requested entry; removes an entry unused for REQUIRED_MS. */
static void reconcile(void *arg, void *item)
{
	struct liveness *a = arg;
	struct question *q = item;
	int64_t left = q->wanted + REQUIRED_MS - now(a);

	q->lookup = (struct identity_lookup){0};
	if (q->requested)
		send(a, q);
	else if (left > 0)
		workqueue_add_after(&q->w, left);
	else
		workqueue_remove(&q->w);
}

static void done(void *arg, void *item, int status, const struct json *object, const struct err *e)
{
	struct liveness *a = arg;
	struct question *q = item;
	/* The status is 404 also if the object's kind is not installed; the object then does not
	 * exist. */
	const struct json *v = e ? NULL : object;

	(void)status;
	if (e && e->code != -ENOENT) {
		say(a, e);
		answer(a, q, LIVENESS_UNKNOWN);
	} else if (q->about == ABOUT_NAME) {
		identity_lookup_learn(&q->lookup, v);
		send(a, q);
	} else {
		answer(a, q, q->about == ABOUT_POD ? judge_pod(q, v) : judge_node(v));
	}
}

/* --- functions of confirm.h --- */

static enum liveness_answer request(struct liveness *a, enum about about, const char *ns,
				    const char *name, const char *uid)
{
	struct question *q = find(a, about, ns, name, uid, true);

	q->wanted = now(a);
	if (q->until > now(a))
		return q->answer;
	if (!q->requested) {
		q->requested = true;
		workqueue_add(&q->w);
	}
	return LIVENESS_UNKNOWN;
}

enum liveness_answer liveness_pod(struct liveness *a, const char *ns, const char *name,
				  const char *uid)
{
	return request(a, ABOUT_POD, ns, name, uid);
}

enum liveness_answer liveness_node(struct liveness *a, const char *name)
{
	return request(a, ABOUT_NODE, "", name, "");
}

enum liveness_answer liveness_name(struct liveness *a, const char *ns, const char *name)
{
	return request(a, ABOUT_NAME, ns, name, "");
}

int64_t liveness_pod_deleted_ms(const struct liveness *a, const char *ns, const char *name,
				const char *uid)
{
	const struct question *q = find(a, ABOUT_POD, ns, name, uid, false);

	return q && q->deleted_since ? now(a) - q->deleted_since : 0;
}

struct liveness *liveness_new(const struct liveness_conf *c)
{
	struct liveness *a = xcalloc(1, sizeof(*a));

	a->conf = *c;
	a->queue = workqueue_new(&(struct workqueue_conf){.kube = c->kube,
							  .in_flight_max = IN_FLIGHT_MAX,
							  .size = sizeof(struct question),
							  .reconcile = reconcile,
							  .done = done,
							  .drop = drop,
							  .arg = a});
	return a;
}

void liveness_free(struct liveness *a)
{
	if (!a)
		return;
	workqueue_free(a->queue);
	free(a);
}
