/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/sorted.h"
#include "controller/gc/gc_cache.h"
#include "controller/gc/internal.h"
#include "kube/kinds.h"
#include "kube/object.h"

/*
 * DELETED_MS: validity of LIVENESS_DELETED, so that a caller acts only on a recent answer. FAILED_MS:
 * validity of a failure. REQUIRED_MS: an entry unused for so long is dropped.
 */
enum { UNDER_WAY_MAX = 4, DELETED_MS = 15 * 1000, FAILED_MS = 30 * 1000, REQUIRED_MS = 120 * 1000 };

static void next(struct liveness *a);

static int64_t now(const struct liveness *a)
{
	return loop_now_ms(kube_loop(a->conf.kube));
}

/* --- entries --- */

static void question_free(struct liveness_question *q)
{
	kube_cancel(q->call);
	free(q->ns);
	free(q->name);
	free(q->uid);
	free(q);
}

/*
 * Compares entries by name first, so that the entries for one name are requested together and are
 * valid at the same time.
 */
static int compare(const struct liveness_question *q, enum liveness_about about, const char *ns,
		   const char *name, const char *uid)
{
	int r = strcmp(q->name, name);

	if (r == 0)
		r = strcmp(q->ns, ns);
	if (r == 0)
		r = (q->about > about) - (q->about < about);
	return r ? r : strcmp(q->uid, uid);
}

static bool find(const struct liveness *a, enum liveness_about about, const char *ns,
		 const char *name, const char *uid, size_t *at)
{
	*at = LOWER_BOUND(i, a->n, compare(a->v[i], about, ns, name, uid) < 0);
	return *at < a->n && compare(a->v[*at], about, ns, name, uid) == 0;
}

static struct liveness_question *get(struct liveness *a, enum liveness_about about, const char *ns,
				     const char *name, const char *uid)
{
	struct liveness_question *q;
	size_t at;

	if (find(a, about, ns, name, uid, &at))
		return a->v[at];
	q = xcalloc(1, sizeof(*q));
	*q = (struct liveness_question){.a = a,
					.about = about,
					.ns = xstrdup(ns),
					.name = xstrdup(name),
					.uid = xstrdup(uid)};
	VEC_PUSH(a->v, a->n) = NULL;
	memmove(&a->v[at + 1], &a->v[at], (a->n - 1 - at) * sizeof(*a->v));
	a->v[at] = q;
	return q;
}

static void forget_old(struct liveness *a)
{
	size_t retained = 0;

	for (size_t i = 0; i < a->n; i++) {
		if (a->v[i]->requested || a->v[i]->wanted + REQUIRED_MS > now(a))
			a->v[retained++] = a->v[i];
		else
			question_free(a->v[i]);
	}
	a->n = retained;
}

/* --- answers --- */

static void answer(struct liveness_question *q, enum liveness_answer r)
{
	struct liveness *a = q->a;

	q->answer = r;
	q->requested = false;
	q->until = now(a) + (r == LIVENESS_DELETED ? DELETED_MS
			     : r == LIVENESS_THERE ? a->conf.again_ms
						   : FAILED_MS);
	if (r == LIVENESS_THERE)
		q->deleted_since = 0;
	else if (r == LIVENESS_DELETED && !q->deleted_since)
		q->deleted_since = now(a) > 0 ? now(a) : 1;
	a->conf.answered(a->conf.arg);
}

/* Logs an error once until it changes. */
static void say(struct liveness *a, const struct err *e)
{
	if (!log_once(&a->logged, e->text))
		return;
	log_warn("cannot confirm a deletion, assuming the object still exists",
		 LOG_S("error", e->text));
}

/* --- requests --- */

static void send(struct liveness_question *q);

static enum liveness_answer liveness_judge_node(const struct json *object)
{
	struct gc_cache_node n = {0};

	if (!object)
		return LIVENESS_DELETED;
	gc_cache_read_node(object, &n);
	return n.fenced && !n.ready ? LIVENESS_DELETED : LIVENESS_THERE;
}

/* object NULL: the object does not exist. */
static enum liveness_answer liveness_judge_pod(const struct liveness_question *q,
					       const struct json *object)
{
	const char *uid = kube_meta_string(object, "uid");
	const char *phase = json_string(json_get(json_get(object, "status"), "phase"));

	if (!object || (*q->uid && uid && strcmp(uid, q->uid) != 0))
		return LIVENESS_DELETED;
	return phase && (strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0)
		       ? LIVENESS_DELETED
		       : LIVENESS_THERE;
}

static void on_answer(void *arg, int status, const struct json *object, const struct err *e)
{
	struct liveness_question *q = arg;
	struct liveness *a = q->a;
	/* The status is 404 also if the object's kind is not installed; the object then does not
	 * exist. */
	const struct json *v = e ? NULL : object;

	(void)status;
	q->call = NULL;
	if (e && e->code != -ENOENT) {
		say(a, e);
		a->under_way--;
		answer(q, LIVENESS_UNKNOWN);
		next(a);
		return;
	}
	if (q->about == LIVENESS_NAME) {
		identity_lookup_learn(&q->lookup, v);
		send(q);
		return;
	}
	a->under_way--;
	answer(q, q->about == LIVENESS_POD ? liveness_judge_pod(q, v) : liveness_judge_node(v));
	next(a);
}

static void send_name(struct liveness_question *q)
{
	struct kube_request r = {.verb = KUBE_GET};
	struct liveness *a = q->a;

	if (identity_lookup_next(&q->lookup, &a->conf.identity, q->ns, q->name, &r.on)) {
		q->call = kube_send(a->conf.kube, &r, on_answer, q);
		return;
	}
	a->under_way--;
	answer(q, identity_is_over(q->name, &a->conf.identity, &q->lookup.set, &q->lookup.machine)
			  ? LIVENESS_DELETED
			  : LIVENESS_THERE);
	next(a);
}

static void send(struct liveness_question *q)
{
	const struct kube_request r = {
		.verb = KUBE_GET,
		.on = {.kind = q->about == LIVENESS_POD ? &kube_pods : &kube_nodes,
		       .ns = q->ns,
		       .name = q->name},
	};

	if (q->about == LIVENESS_NAME)
		send_name(q);
	else
		q->call = kube_send(q->a->conf.kube, &r, on_answer, q);
}

static void on_timer(void *arg)
{
	struct liveness *a = arg;

	forget_old(a);
	/*
	 * Sends in round-robin order. If each search began at the first entry, the first answers
	 * would expire before the last entries were requested.
	 */
	for (size_t i = 0, n = a->n; i < n && a->under_way < UNDER_WAY_MAX; i++) {
		struct liveness_question *q = a->v[a->next++ % n];

		if (!q->requested || q->call)
			continue;
		a->under_way++;
		q->lookup = (struct identity_lookup){0};
		send(q);
	}
}

static void next(struct liveness *a)
{
	if (a->under_way < UNDER_WAY_MAX)
		loop_alarm_within(&a->timer, 0);
}

/* --- public functions --- */

static enum liveness_answer request(struct liveness *a, enum liveness_about about, const char *ns,
				    const char *name, const char *uid)
{
	struct liveness_question *q = get(a, about, ns, name, uid);

	q->wanted = now(a);
	if (q->until > now(a))
		return q->answer;
	if (!q->requested) {
		q->requested = true;
		next(a);
	}
	return LIVENESS_UNKNOWN;
}

enum liveness_answer liveness_pod(struct liveness *a, const char *ns, const char *name,
				  const char *uid)
{
	return request(a, LIVENESS_POD, ns, name, uid);
}

enum liveness_answer liveness_node(struct liveness *a, const char *name)
{
	return request(a, LIVENESS_NODE, "", name, "");
}

enum liveness_answer liveness_name(struct liveness *a, const char *ns, const char *name)
{
	return request(a, LIVENESS_NAME, ns, name, "");
}

int64_t liveness_pod_deleted_ms(const struct liveness *a, const char *ns, const char *name,
				const char *uid)
{
	size_t at;

	if (!find(a, LIVENESS_POD, ns, name, uid, &at) || !a->v[at]->deleted_since)
		return 0;
	return now(a) - a->v[at]->deleted_since;
}

struct liveness *liveness_new(const struct liveness_conf *c)
{
	struct liveness *a = xcalloc(1, sizeof(*a));

	a->conf = *c;
	a->timer = LOOP_ALARM(kube_loop(c->kube), on_timer, a);
	return a;
}

void liveness_free(struct liveness *a)
{
	if (!a)
		return;
	for (size_t i = 0; i < a->n; i++)
		question_free(a->v[i]);
	free(a->v);
	loop_alarm_cancel(&a->timer);
	free(a);
}
