/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/injection/webhook.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "controller/injection/internal.h"
#include "kube/object.h"
#include "spec/annotations.h"

/* RESCAN_MS: interval in ms at which waiting pods are checked again; each change of a
 * SpiderMultusConfig or namespace also triggers a check. */
enum { RESCAN_MS = 50 };

struct waiting {
	struct inject_webhook *h;
	struct review *q;
	struct loop_alarm timer;
	int64_t until_ms;
	struct waiting *next;
};

struct inject_webhook {
	struct inject_webhook_conf conf;
	char *include, *exclude;
	/* SpiderMultusConfigs that are not being deleted; rebuilt by scan() after a change */
	struct inject_net *nets;
	struct inject_index *index;
	size_t n;
	bool stale;
	/* loop time of the last creation, or change of annotations, of a SpiderMultusConfig */
	int64_t grown_ms;
	struct waiting *waiting;
};

/* --- state of the cluster --- */

static void drop_nets(struct inject_webhook *h)
{
	for (size_t i = 0; i < h->n; i++)
		inject_net_done(&h->nets[i]);
	free(h->nets);
	inject_index_free(h->index);
	h->nets = NULL;
	h->index = NULL;
	h->n = 0;
}

/* Rebuilds the index of networks after a change, without those that are being deleted. */
static void scan(struct inject_webhook *h)
{
	auto_free const struct inject_net **list = NULL;
	size_t n = kube_cache_count(h->conf.cache, CLUSTER_CACHE_MULTUSCONFIGS);

	if (!h->stale)
		return;
	drop_nets(h);
	h->nets = xcalloc(n, sizeof(*h->nets));
	list = xcalloc(n + 1, sizeof(*list));
	for (size_t i = 0; i < n; i++) {
		const struct kube_object *o =
			kube_cache_at(h->conf.cache, CLUSTER_CACHE_MULTUSCONFIGS, i);

		if (cluster_cache_object(o)->deleting)
			continue;
		inject_net_read(cluster_cache_json(o), &h->nets[h->n]);
		list[h->n] = &h->nets[h->n];
		h->n++;
	}
	h->index = inject_index_new(list, h->n);
	h->stale = false;
}

static const char *ns_group(const struct inject_webhook *h, const char *ns, enum inject_key key)
{
	const struct kube_object *o =
		kube_cache_get(h->conf.cache, CLUSTER_CACHE_NAMESPACES, "", ns);
	const struct json *meta = o ? json_get(cluster_cache_json(o), "metadata") : NULL;

	return json_string(json_get(json_get(meta, "annotations"), inject_key_name(key)));
}

/* --- responses to reviews --- */

static void warn(void *arg, const char *text)
{
	review_warn(arg, "%s", text);
}

static int try(struct inject_webhook *h, const struct review *q, struct review_answer *a,
	       struct err *e)
{
	struct inject_request request = {.pod = q->object,
					 .ns = q->ns,
					 .ns_group = {ns_group(h, q->ns, INJECT_RDMA),
						      ns_group(h, q->ns, INJECT_NETWORK)},
					 .ipc_lock = h->conf.ipc_lock,
					 .warn = warn,
					 .arg = a};
	struct kube_patch p;
	int r;

	scan(h);
	request.index = h->index;
	kube_patch_init(&p);
	r = inject_pod(&request, &p, e);
	if (r > 0)
		review_patch(a, kube_patch_end(&p));
	kube_patch_done(&p);
	return r;
}

/* Networks of a manifest arrive one by one, and a pod created right after them may be reviewed
 * before the last network has arrived. */
static bool is_growing(const struct inject_webhook *h)
{
	return loop_now_ms(h->conf.loop) - h->grown_ms < INJECT_WRITTEN_MS;
}

/* Answers the review, unless the result may change within a moment; last: answers in any case.
 * Returns whether it answered. */
static bool answer(struct inject_webhook *h, struct review *q, bool last)
{
	struct err e = ERR_INIT;
	struct review_answer a;
	int r;

	if (!kube_cache_get(h->conf.cache, CLUSTER_CACHE_NAMESPACES, "", q->ns) && !last)
		return false;
	review_allow(&a);
	r = try(h, q, &a, &e);
	if (!last && (r == -ENOENT || (r > 0 && is_growing(h)))) {
		review_drop(&a);
		return false;
	}
	if (r < 0)
		review_refuse(&a, 403, "%s", e.text);
	review_answer(q, &a);
	return true;
}

/* --- reviews that wait for objects --- */

static void unlink_waiting(struct waiting *w)
{
	struct waiting **p = &w->h->waiting;

	while (*p != w)
		p = &(*p)->next;
	*p = w->next;
	loop_alarm_cancel(&w->timer);
	free(w);
}

static void on_time(void *arg)
{
	struct waiting *w = arg;
	struct loop *l = w->h->conf.loop;

	if (answer(w->h, w->q, loop_now_ms(l) >= w->until_ms))
		unlink_waiting(w);
	else
		loop_alarm_set(&w->timer, RESCAN_MS);
}

static void on_change(void *arg, const struct kube_object *was, const struct kube_object *is)
{
	struct inject_webhook *h = arg;

	(void)was;
	(void)is;
	h->stale = true; /* not necessary after a change of a namespace */
	for (struct waiting *w = h->waiting, *next; w; w = next) {
		next = w->next;
		if (answer(h, w->q, false))
			unlink_waiting(w);
	}
}

static const struct json *annotations_of(const struct kube_object *o)
{
	return kube_meta(cluster_cache_json(o), "annotations");
}

static void on_network(void *arg, const struct kube_object *was, const struct kube_object *is)
{
	struct inject_webhook *h = arg;

	if (is && (!was || !json_same(annotations_of(was), annotations_of(is))))
		h->grown_ms = loop_now_ms(h->conf.loop);
	on_change(arg, was, is);
}

void inject_webhook_review(void *arg, struct review *q)
{
	struct inject_webhook *h = arg;
	struct review_answer a;
	struct waiting *w;

	if (!inject_in_scope(&h->conf.scope, q->ns) || strcmp(q->operation, "CREATE") != 0 ||
	    *q->subresource) {
		review_allow(&a);
		review_answer(q, &a);
		return;
	}
	if (answer(h, q, false))
		return;
	w = xcalloc(1, sizeof(*w));
	*w = (struct waiting){.h = h,
			      .q = q,
			      .until_ms = loop_now_ms(h->conf.loop) + INJECT_PATIENCE_MS,
			      .timer = LOOP_ALARM(h->conf.loop, on_time, w),
			      .next = h->waiting};
	loop_alarm_set(&w->timer, RESCAN_MS);
	h->waiting = w;
}

void inject_webhook_try(void *arg, const struct review *q)
{
	struct inject_webhook *h = arg;
	struct review_answer a;
	struct err e = ERR_INIT;

	if (!inject_in_scope(&h->conf.scope, q->ns) || strcmp(q->operation, "CREATE") != 0 ||
	    *q->subresource)
		return;
	review_allow(&a);
	try(h, q, &a, &e);
	review_drop(&a);
}

/* --- creation and destruction --- */

void inject_webhook_settings(struct inject_webhook *h, const struct inject_scope *scope,
			     bool ipc_lock)
{
	char *include = scope->include ? xstrdup(scope->include) : NULL;
	char *exclude = scope->exclude ? xstrdup(scope->exclude) : NULL;

	free(h->include);
	free(h->exclude);
	h->include = include;
	h->exclude = exclude;
	h->conf.scope = (struct inject_scope){include, exclude};
	h->conf.ipc_lock = ipc_lock;
}

struct inject_webhook *inject_webhook_new(const struct inject_webhook_conf *c)
{
	struct inject_webhook *h = xcalloc(1, sizeof(*h));

	*h = (struct inject_webhook){
		.conf = *c, .stale = true, .grown_ms = loop_now_ms(c->loop) - INJECT_WRITTEN_MS};
	inject_webhook_settings(h, &c->scope, c->ipc_lock);
	kube_cache_on(c->cache, CLUSTER_CACHE_MULTUSCONFIGS, on_network, h);
	kube_cache_on(c->cache, CLUSTER_CACHE_NAMESPACES, on_change, h);
	return h;
}

void inject_webhook_free(struct inject_webhook *h)
{
	if (!h)
		return;
	kube_cache_off(h->conf.cache, h);
	while (h->waiting) {
		answer(h, h->waiting->q, true);
		unlink_waiting(h->waiting);
	}
	drop_nets(h);
	free(h->include);
	free(h->exclude);
	free(h);
}

/* --- namespaces whose pods are injected --- */

static bool is_prefix(struct span word)
{
	return word.p[word.n - 1] == '*';
}

static bool matches(struct span word, const char *ns)
{
	if (is_prefix(word))
		return !strncmp(ns, word.p, word.n - 1);
	return span_eq(word, ns);
}

static bool any_matches(const char *list, const char *ns)
{
	struct span rest = span_of(list), word;

	while (inject_next_value(&rest, &word))
		if (matches(word, ns))
			return true;
	return false;
}

bool inject_in_scope(const struct inject_scope *s, const char *ns)
{
	struct span rest = span_of(s->include), word;

	if (any_matches(s->exclude, ns))
		return false;
	return !inject_next_value(&rest, &word) || any_matches(s->include, ns);
}

/*
 * Returns the number of names in a list; -1: a name ends in '*', which a selector cannot express.
 */
static int names_in(const char *list)
{
	struct span rest = span_of(list), word;
	int n = 0;

	while (inject_next_value(&rest, &word)) {
		if (is_prefix(word))
			return -1;
		n++;
	}
	return n;
}

static void put_term(struct json_out *o, const char *op, const char *list)
{
	struct span rest = span_of(list), word;

	jo_obj(o);
	jo_kstr(o, "key", LABEL_NAMESPACE_NAME);
	jo_kstr(o, "operator", op);
	jo_key(o, "values");
	jo_arr(o);
	while (inject_next_value(&rest, &word)) {
		auto_free char *name = is_prefix(word) ? NULL : span_dup(word);

		if (name)
			jo_str(o, name);
	}
	jo_end_arr(o);
	jo_end_obj(o);
}

static bool has_names(const char *list)
{
	struct span rest = span_of(list), word;

	while (inject_next_value(&rest, &word))
		if (!is_prefix(word))
			return true;
	return false;
}

void inject_scope_write(const struct inject_scope *s, struct json_out *o)
{
	jo_obj(o);
	jo_key(o, "matchExpressions");
	jo_arr(o);
	if (has_names(s->exclude))
		put_term(o, "NotIn", s->exclude);
	if (names_in(s->include) > 0)
		put_term(o, "In", s->include);
	jo_end_arr(o);
	jo_end_obj(o);
}
