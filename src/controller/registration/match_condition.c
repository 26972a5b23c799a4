/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/registration/match_condition.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/loop.h"

struct match_condition {
	struct loop *loop;
	struct kube_cache *cache;
	void (*changed)(void *arg);
	void *arg;
	char **names; /* namespaces in the condition, sorted */
	size_t n;
	char *condition;
	struct loop_alarm timer;
};

void match_condition_write(const char *const *names, size_t n, struct buf *ret)
{
	buf_str(ret, "has(object.metadata.annotations) && (");
	for (int k = 0; k < INJECT_KEYS; k++)
		buf_printf(ret, "%s'%s' in object.metadata.annotations", k ? " || " : "",
			   inject_key_name(k));
	buf_str(ret, ") || !(request.namespace in [");
	/* Namespace names are DNS labels and need no escaping. */
	for (size_t i = 0; i < n; i++)
		buf_printf(ret, "%s'%s'", i ? "," : "", names[i]);
	buf_str(ret, "])");
	if (ret->over || ret->len > MATCH_CONDITION_TEXT_MAX)
		buf_reset(ret);
}

static bool is_unmatched(const struct kube_object *o)
{
	const struct json *meta = json_get(cluster_cache_json(o), "metadata");

	return !cluster_cache_object(o)->deleting &&
	       !inject_is_requested(json_get(meta, "annotations"));
}

static void forget(struct match_condition *q)
{
	for (size_t i = 0; i < q->n; i++)
		free(q->names[i]);
	free(q->names);
	q->names = NULL;
	q->n = 0;
}

/* Lists the namespaces that now request no networks and are not being deleted, and writes the
 * condition. */
static void take_all(struct match_condition *q)
{
	struct buf b;

	loop_alarm_cancel(&q->timer);
	forget(q);
	for (size_t i = 0; i < kube_cache_count(q->cache, CLUSTER_CACHE_NAMESPACES); i++) {
		const struct kube_object *o = kube_cache_at(q->cache, CLUSTER_CACHE_NAMESPACES, i);

		if (is_unmatched(o))
			VEC_PUSH(q->names, q->n) = xstrdup(o->name);
	}
	buf_init(&b, MATCH_CONDITION_TEXT_MAX * 2);
	match_condition_write((const char *const *)q->names, q->n, &b);
	free(q->condition);
	q->condition = b.len ? xstrdup(b.p) : NULL;
	buf_done(&b);
}

static void on_time(void *arg)
{
	struct match_condition *q = arg;

	take_all(q);
	q->changed(q->arg);
}

static bool is_listed(const struct match_condition *q, const char *name)
{
	return q->n && bsearch(&name, q->names, q->n, sizeof(*q->names), str_order);
}

static void on_namespace(void *arg, const struct kube_object *was, const struct kube_object *is)
{
	const struct kube_object *o = is ? is : was;
	struct match_condition *q = arg;
	bool unmatched = is && is_unmatched(is);

	if (o && unmatched == is_listed(q, o->name))
		return;
	/* Applies the initial list at once; later, removals are immediate and additions delayed. */
	if (!o || !unmatched) {
		take_all(q);
		q->changed(q->arg);
	} else {
		loop_alarm_within(&q->timer, DELAY_MS);
	}
}

struct match_condition *match_condition_new(struct loop *l, struct kube_cache *w,
					    void (*changed)(void *arg), void *arg)
{
	struct match_condition *q = xcalloc(1, sizeof(*q));

	*q = (struct match_condition){.loop = l,
				      .cache = w,
				      .changed = changed,
				      .arg = arg,
				      .timer = LOOP_ALARM(l, on_time, q)};
	kube_cache_on(w, CLUSTER_CACHE_NAMESPACES, on_namespace, q);
	if (kube_cache_synced(w, CLUSTER_CACHE_NAMESPACES))
		take_all(q);
	return q;
}

void match_condition_free(struct match_condition *q)
{
	if (!q)
		return;
	kube_cache_off(q->cache, q);
	loop_alarm_cancel(&q->timer);
	forget(q);
	free(q->condition);
	free(q);
}

const char *match_condition_text(const struct match_condition *q)
{
	return q->condition;
}
