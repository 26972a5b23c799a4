/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "controller/gc/census.h"
#include "controller/gc/internal.h"

/*
 * FRESH_MS: validity of ASKS_GONE, so that a caller acts only on a recent answer. FAILED_MS:
 * validity of a failure. WANTED_MS: an entry unused for so long is dropped.
 */
enum { UNDER_WAY_MAX = 4, FRESH_MS = 15 * 1000, FAILED_MS = 30 * 1000, WANTED_MS = 120 * 1000 };

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
 * Sorted by name first, so that the entries about one name are requested together and are valid at
 * the same time.
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
	size_t low = 0, high = a->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		int r = compare(a->v[mid], about, ns, name, uid);

		*at = mid;
		if (r == 0)
			return true;
		if (r < 0)
			low = mid + 1;
		else
			high = mid;
	}
	*at = low;
	return false;
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
	size_t kept = 0;

	for (size_t i = 0; i < a->n; i++) {
		if (a->v[i]->asked || a->v[i]->wanted + WANTED_MS > now(a))
			a->v[kept++] = a->v[i];
		else
			question_free(a->v[i]);
	}
	a->n = kept;
}

/* --- answers --- */

static void answer(struct liveness_question *q, enum liveness_answer r)
{
	struct liveness *a = q->a;

	q->answer = r;
	q->asked = false;
	q->until = now(a) + (r == ASKS_GONE    ? FRESH_MS
			     : r == ASKS_THERE ? a->conf.again_ms
					       : FAILED_MS);
	if (r == ASKS_THERE)
		q->gone_since = 0;
	else if (r == ASKS_GONE && !q->gone_since)
		q->gone_since = now(a) > 0 ? now(a) : 1;
	a->conf.answered(a->conf.arg);
}

/* Logs an error once until it changes. */
static void say(struct liveness *a, const struct err *e)
{
	if (a->said && strcmp(a->said, e->text) == 0)
		return;
	free(a->said);
	a->said = xstrdup(e->text);
	log_warn("whether something is gone is not known: it counts as there",
		 LOG_S("error", e->text));
}

/* --- requests --- */

static void send(struct liveness_question *q);

static void on_answer(void *arg, int status, const struct json *object, const struct err *e)
{
	struct liveness_question *q = arg;
	struct liveness *a = q->a;
	/* 404 also when the object's kind is not installed: the object does not exist then. */
	const struct json *v = e ? NULL : object;

	(void)status;
	q->call = NULL;
	if (e && e->code != -ENOENT) {
		say(a, e);
		a->under_way--;
		answer(q, ASKS_UNKNOWN);
		next(a);
		return;
	}
	if (q->about == ASKS_NAME) {
		liveness_learn(q, v);
		q->step++;
		send(q);
		return;
	}
	a->under_way--;
	answer(q, q->about == ASKS_POD ? liveness_judge_pod(q, v) : liveness_judge_node(v));
	next(a);
}

static void send_name(struct liveness_question *q)
{
	struct kube_request r = {.verb = KUBE_GET};
	struct liveness *a = q->a;
	char set[254];

	while (q->step < ASKS_STEP_END && !liveness_subject(q, &r.on, set))
		q->step++;
	if (q->step < ASKS_STEP_END) {
		q->call = kube_send(a->conf.kube, &r, on_answer, q);
		return;
	}
	a->under_way--;
	answer(q, identity_is_over(q->name, &a->conf.identity, &q->set, &q->machine) ? ASKS_GONE
										     : ASKS_THERE);
	next(a);
}

static void send(struct liveness_question *q)
{
	const struct kube_request r = {
		.verb = KUBE_GET,
		.on = {.kind = q->about == ASKS_POD ? &kube_pods : &kube_nodes,
		       .ns = q->ns,
		       .name = q->name},
	};

	if (q->about == ASKS_NAME)
		send_name(q);
	else
		q->call = kube_send(q->a->conf.kube, &r, on_answer, q);
}

static void on_timer(void *arg)
{
	struct liveness *a = arg;

	a->timer = NULL;
	forget_old(a);
	/*
	 * Round-robin: starting at the front each time would let the first answers expire before
	 * the last entries had a turn.
	 */
	for (size_t i = 0, n = a->n; i < n && a->under_way < UNDER_WAY_MAX; i++) {
		struct liveness_question *q = a->v[a->next++ % n];

		if (!q->asked || q->call)
			continue;
		a->under_way++;
		q->step = ASKS_STEP_SET;
		q->set = (struct identity_set){0};
		q->machine = (struct identity_machine){0};
		send(q);
	}
}

static void next(struct liveness *a)
{
	if (!a->timer && a->under_way < UNDER_WAY_MAX)
		a->timer = loop_add_timer(kube_loop(a->conf.kube), 0, on_timer, a);
}

/* --- public functions --- */

static enum liveness_answer ask(struct liveness *a, enum liveness_about about, const char *ns,
				const char *name, const char *uid)
{
	struct liveness_question *q = get(a, about, ns, name, uid);

	q->wanted = now(a);
	if (q->until > now(a))
		return q->answer;
	if (!q->asked) {
		q->asked = true;
		next(a);
	}
	return ASKS_UNKNOWN;
}

enum liveness_answer liveness_pod(struct liveness *a, const char *ns, const char *name,
				  const char *uid)
{
	return ask(a, ASKS_POD, ns, name, uid);
}

enum liveness_answer liveness_node(struct liveness *a, const char *name)
{
	return ask(a, ASKS_NODE, "", name, "");
}

enum liveness_answer liveness_name(struct liveness *a, const char *ns, const char *name)
{
	return ask(a, ASKS_NAME, ns, name, "");
}

int64_t liveness_pod_gone_ms(const struct liveness *a, const char *ns, const char *name,
			     const char *uid)
{
	size_t at;

	if (!find(a, ASKS_POD, ns, name, uid, &at) || !a->v[at]->gone_since)
		return 0;
	return now(a) - a->v[at]->gone_since;
}

struct liveness *liveness_new(const struct liveness_conf *c)
{
	struct liveness *a = xcalloc(1, sizeof(*a));

	a->conf = *c;
	return a;
}

void liveness_free(struct liveness *a)
{
	if (!a)
		return;
	for (size_t i = 0; i < a->n; i++)
		question_free(a->v[i]);
	free(a->v);
	free(a->said);
	loop_del_timer(a->timer);
	free(a);
}

/* Interpretation of the objects: is a pod or node gone, and which objects decide about a name. */

static const struct kube_kind sets = {"apps", "v1", "statefulsets", "statefulset", true};
static const struct kube_kind vmis = {"kubevirt.io", "v1", "virtualmachineinstances",
				      "virtualmachineinstance", true};
static const struct kube_kind vms = {"kubevirt.io", "v1", "virtualmachines", "virtualmachine",
				     true};

bool liveness_subject(const struct liveness_question *q, struct kube_ref *ret, char set[static 254])
{
	const struct identity_conf *c = &q->a->conf.identity;
	uint64_t ordinal;

	*ret = (struct kube_ref){.ns = q->ns, .name = q->name};
	switch (q->step) {
	case ASKS_STEP_SET:
		ret->kind = &sets;
		ret->name = set;
		return c->statefulset && identity_ordinal(q->name, set, &ordinal);
	case ASKS_STEP_VMI: ret->kind = &vmis; return c->kubevirt;
	case ASKS_STEP_VM: ret->kind = &vms; return c->kubevirt;
	case ASKS_STEP_END: break;
	}
	return false;
}

static bool is_deleting(const struct json *object)
{
	return json_string(json_get(json_get(object, "metadata"), "deletionTimestamp"));
}

static int64_t number(const struct json *v, int64_t otherwise)
{
	int64_t n;

	return json_int(v, &n) == 0 ? n : otherwise;
}

enum liveness_answer liveness_judge_pod(const struct liveness_question *q,
					const struct json *object)
{
	const char *uid = json_string(json_get(json_get(object, "metadata"), "uid"));
	const char *phase = json_string(json_get(json_get(object, "status"), "phase"));

	if (!object || (*q->uid && uid && strcmp(uid, q->uid) != 0))
		return ASKS_GONE;
	return phase && (strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0)
		       ? ASKS_GONE
		       : ASKS_THERE;
}

enum liveness_answer liveness_judge_node(const struct json *object)
{
	struct census_node n = {0};

	if (!object)
		return ASKS_GONE;
	census_read_node(object, &n);
	return n.fenced && !n.ready ? ASKS_GONE : ASKS_THERE;
}

void liveness_learn(struct liveness_question *q, const struct json *object)
{
	const struct json *spec = json_get(object, "spec");

	switch (q->step) {
	case ASKS_STEP_SET:
		q->set.known = true;
		q->set.exists = object;
		q->set.start = number(json_get(json_get(spec, "ordinals"), "start"), 0);
		q->set.replicas = number(json_get(spec, "replicas"), 1);
		break;
	case ASKS_STEP_VMI:
		q->machine.vmi_exists = object;
		q->machine.vmi_deleting = is_deleting(object);
		break;
	case ASKS_STEP_VM:
		q->machine.known = true;
		q->machine.vm_exists = object;
		q->machine.vm_deleting = is_deleting(object);
		break;
	case ASKS_STEP_END: break;
	}
}
