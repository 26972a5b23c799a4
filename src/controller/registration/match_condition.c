/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/registration/match_condition.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/loop.h"

struct quiet {
	struct loop *loop;
	struct cluster_cache *world;
	void (*changed)(void *arg);
	void *arg;
	char **names; /* sorted; those in the condition */
	size_t n;
	char *condition;
	struct loop_timer *timer;
};

void quiet_write(const char *const *names, size_t n, struct buf *ret)
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
	if (ret->over || ret->len > QUIET_TEXT_MAX)
		buf_reset(ret);
}

static bool is_quiet(const struct kube_object *o)
{
	const struct json *meta = json_get(cluster_cache_json(o), "metadata");

	return !cluster_cache_object(o)->deleting &&
	       !inject_is_asked(json_get(meta, "annotations"));
}

static void forget(struct quiet *q)
{
	for (size_t i = 0; i < q->n; i++)
		free(q->names[i]);
	free(q->names);
	q->names = NULL;
	q->n = 0;
}

/* Adds all namespaces that do not request networks now. */
static void take_all(struct quiet *q)
{
	struct buf b;

	loop_del_timer(q->timer);
	q->timer = NULL;
	forget(q);
	for (size_t i = 0; i < cluster_cache_count(q->world, WORLD_NAMESPACES); i++) {
		const struct kube_object *o = cluster_cache_at(q->world, WORLD_NAMESPACES, i);

		if (is_quiet(o))
			VEC_PUSH(q->names, q->n) = xstrdup(o->name);
	}
	buf_init(&b, QUIET_TEXT_MAX * 2);
	quiet_write((const char *const *)q->names, q->n, &b);
	free(q->condition);
	q->condition = b.len ? xstrdup(b.p) : NULL;
	buf_done(&b);
}

static void on_time(void *arg)
{
	struct quiet *q = arg;

	q->timer = NULL;
	take_all(q);
	q->changed(q->arg);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_listed(const struct quiet *q, const char *name)
{
	return q->n && bsearch(&name, q->names, q->n, sizeof(*q->names), by_name);
}

static void on_namespace(void *arg, const struct kube_object *was, const struct kube_object *is)
{
	const struct kube_object *o = is ? is : was;
	struct quiet *q = arg;
	bool quiet = is && is_quiet(is);

	if (o && quiet == is_listed(q, o->name))
		return;
	/*
	 * The initial list is taken at once; afterwards removals are immediate, additions delayed.
	 */
	if (!o || !quiet) {
		take_all(q);
		q->changed(q->arg);
	} else if (!q->timer) {
		q->timer = loop_add_timer(q->loop, QUIET_MS, on_time, q);
	}
}

struct quiet *quiet_new(struct loop *l, struct cluster_cache *w, void (*changed)(void *arg),
			void *arg)
{
	struct quiet *q = xcalloc(1, sizeof(*q));

	*q = (struct quiet){.loop = l, .world = w, .changed = changed, .arg = arg};
	cluster_cache_on(w, WORLD_NAMESPACES, on_namespace, q);
	if (cluster_cache_synced(w, WORLD_NAMESPACES))
		take_all(q);
	return q;
}

void quiet_free(struct quiet *q)
{
	if (!q)
		return;
	cluster_cache_off(q->world, q);
	loop_del_timer(q->timer);
	forget(q);
	free(q->condition);
	free(q);
}

const char *quiet_condition(const struct quiet *q)
{
	return q->condition;
}
