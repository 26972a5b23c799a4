/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reconciler of SpiderMultusConfigs. The API server is replaced by functions of this file, which
 * answer when the test says so; the loop has the clock of a test.
 */
#include "testlib.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "controller/cache/cache.h"
#include "controller/nad/nads.h"
#include "kube/kinds.h"
#include "kube/listwatch.h"

/* --- the API server --- */

enum { CALLS_MAX = 32 };

struct kube {
	struct loop *l;
	struct kube_watch *smcs, *nads;
	struct kube_call *calls[CALLS_MAX]; /* open requests but those for events */
	size_t n_calls, sent, cancelled;
};

struct kube_list {
	const struct kube_list_ops *ops;
	void *arg;
	struct loop_timer *timer;
};

struct kube_watch {
	const struct kube_watch_ops *ops;
	void *arg;
	struct loop_timer *timer;
};

struct kube_call {
	struct kube *k;
	enum kube_verb verb;
	char *name, *sub;
	bool event;
	kube_done_fn fn;
	void *arg;
};

struct loop *kube_loop(const struct kube *k)
{
	return k->l;
}

static void list_ends(void *arg)
{
	struct kube_list *l = arg;

	l->ops->done(l->arg, "1", NULL);
	free(l);
}

struct kube_list *kube_list(struct kube *k, const struct kube_kind *kind,
			    const struct kube_select *s, int page, const struct kube_list_ops *ops,
			    void *arg)
{
	struct kube_list *l = xcalloc(1, sizeof(*l));

	(void)kind, (void)s, (void)page;
	*l = (struct kube_list){ops, arg, NULL};
	l->timer = loop_add_timer(k->l, 0, list_ends, l);
	return l;
}

struct kube_list *kube_list_since(struct kube *k, const struct kube_kind *kind,
				  const struct kube_select *s, const char *version,
				  const struct kube_list_ops *ops, void *arg)
{
	(void)version;
	return kube_list(k, kind, s, 0, ops, arg);
}

void kube_list_cancel(struct kube_list *l)
{
	if (l)
		loop_del_timer(l->timer);
	free(l);
}

static void watch_opens(void *arg)
{
	struct kube_watch *w = arg;

	w->timer = NULL;
	w->ops->opened(w->arg);
}

struct kube_watch *kube_watch(struct kube *k, const struct kube_kind *kind,
			      const struct kube_select *s, const char *version,
			      const struct kube_watch_ops *ops, void *arg)
{
	struct kube_watch *w = xcalloc(1, sizeof(*w));

	(void)s, (void)version;
	*w = (struct kube_watch){ops, arg, NULL};
	w->timer = loop_add_timer(k->l, 0, watch_opens, w);
	if (kind == &kube_multusconfigs)
		k->smcs = w;
	if (kind == &kube_nads)
		k->nads = w;
	return w;
}

void kube_watch_cancel(struct kube_watch *w)
{
	if (w)
		loop_del_timer(w->timer);
	free(w);
}

struct kube_call *kube_send(struct kube *k, const struct kube_request *r, kube_done_fn fn,
			    void *arg)
{
	struct kube_call *c = xcalloc(1, sizeof(*c));

	*c = (struct kube_call){k,
				r->verb,
				xstrdup(r->on.name ? r->on.name : ""),
				xstrdup(r->on.sub ? r->on.sub : ""),
				strcmp(r->on.kind->plural, "events") == 0,
				fn,
				arg};
	if (c->event)
		return c;
	assert_in_range(k->n_calls, 0, CALLS_MAX - 1);
	k->calls[k->n_calls++] = c;
	k->sent++;
	return c;
}

static void call_free(struct kube_call *c)
{
	for (size_t i = 0; i < c->k->n_calls; i++)
		if (c->k->calls[i] == c)
			c->k->calls[i] = c->k->calls[--c->k->n_calls];
	free(c->name);
	free(c->sub);
	free(c);
}

void kube_cancel(struct kube_call *c)
{
	if (!c)
		return;
	c->k->cancelled += !c->event;
	call_free(c);
}

/* --- the controller --- */

struct lab {
	struct kube k;
	struct cluster_cache *cache;
	struct kube_events *events;
	struct nads *nads;
};

static void stop(void *arg)
{
	loop_stop(arg, 0);
}

static void pass(struct lab *t, int64_t ms)
{
	(void)loop_add_timer(t->k.l, ms, stop, t->k.l);
	(void)loop_run(t->k.l);
}

static void lead(struct lab *t)
{
	t->nads = nads_new(&(
		struct nads_conf){.kube = &t->k, .cache = t->cache->objects, .events = t->events});
}

static int setup(void **state)
{
	struct lab *t = xcalloc(1, sizeof(*t));

	*state = t;
	ASSERT_EQ(loop_new(&t->k.l, NULL), 0);
	loop_set_now(t->k.l, 1000);
	t->cache = cluster_cache_new(&t->k);
	t->events = kube_events_new(&t->k, "controller", "host");
	pass(t, 10);
	lead(t);
	return 0;
}

static int teardown(void **state)
{
	struct lab *t = *state;

	nads_free(t->nads);
	kube_events_free(t->events);
	cluster_cache_free(t->cache);
	ASSERT_EQ(t->k.n_calls, 0);
	loop_free(t->k.l);
	free(t);
	return 0;
}

static void event(struct kube_watch *w, enum kube_change change, const char *text)
{
	struct json_doc *doc = NULL;

	ASSERT_EQ(json_parse(&doc, span_of(text), 1 << 20, NULL), 0);
	w->ops->event(w->arg, change, json_root(doc));
	json_free(doc);
}

static void network(struct lab *t, const char *name, enum kube_change change)
{
	auto_free char *text = xasprintf(
		"{\"apiVersion\":\"spiderpool.spidernet.io/v2beta1\",\"kind\":"
		"\"SpiderMultusConfig\",\"metadata\":{\"namespace\":\"t\",\"name\":\"%s\",\"uid\":"
		"\"u-%s\",\"resourceVersion\":\"5\",\"generation\":1},\"spec\":{\"cniType\":"
		"\"macvlan\",\"macvlan\":{\"master\":[\"eth0\"]}}}",
		name, name);

	event(t->k.smcs, change, text);
}

static struct kube_call *call(struct lab *t, const char *name)
{
	for (size_t i = 0; i < t->k.n_calls; i++)
		if (strcmp(t->k.calls[i]->name, name) == 0)
			return t->k.calls[i];
	return NULL;
}

static void answer(struct lab *t, const char *name, int status)
{
	struct kube_call *c = call(t, name);
	struct err e = ERR_INIT;
	kube_done_fn fn;
	void *arg;

	assert_non_null(c);
	fn = c->fn;
	arg = c->arg;
	call_free(c);
	if (status >= 400)
		err_set(&e, status == 409 ? -ESTALE : -EACCES, "status %d", status);
	fn(arg, status, NULL, status >= 400 ? &e : NULL);
}

/* --- tests --- */

static void test_nad_of_a_network_is_created(void **state)
{
	struct lab *t = *state;

	network(t, "a", KUBE_ADDED);
	network(t, "b", KUBE_ADDED);
	pass(t, 10);
	ASSERT_EQ(t->k.n_calls, 2);
	ASSERT_EQ(call(t, "a")->verb, KUBE_CREATE);
	ASSERT_EQ(nads_counts(t->nads).written, 0);
	answer(t, "a", 201);
	answer(t, "b", 201);
	ASSERT_EQ(nads_counts(t->nads).written, 2);
}

/* A change during the request is compared after its answer: one request an object at a time. */
static void test_network_has_one_request_at_a_time(void **state)
{
	struct lab *t = *state;

	network(t, "a", KUBE_ADDED);
	pass(t, 10);
	network(t, "a", KUBE_MODIFIED);
	nads_check(t->nads, "t", "a");
	pass(t, 5000);
	ASSERT_EQ(t->k.sent, 1);
	answer(t, "a", 201);
	pass(t, 10);
	/* the watch has not delivered the NAD */
	ASSERT_EQ(t->k.sent, 2);
	answer(t, "a", 409);
}

static void test_failed_write_is_reported_in_the_status_and_retried(void **state)
{
	struct lab *t = *state;
	int64_t from;

	network(t, "a", KUBE_ADDED);
	pass(t, 10);
	from = loop_now_ms(t->k.l);
	answer(t, "a", 403);
	ASSERT_EQ(nads_counts(t->nads).failed, 1);
	ASSERT_EQ(nads_counts(t->nads).wrong, 1);
	ASSERT_STR_EQ(call(t, "a")->sub, "status");
	answer(t, "a", 200);
	ASSERT_EQ(t->k.n_calls, 0);
	while (!t->k.n_calls)
		pass(t, 10);
	assert_in_range(loop_now_ms(t->k.l) - from, 500, 1520);
	ASSERT_EQ(call(t, "a")->verb, KUBE_CREATE);
	answer(t, "a", 403);
	/* reported already */
	ASSERT_EQ(t->k.n_calls, 0);
	pass(t, 3020);
	answer(t, "a", 201);
	ASSERT_EQ(nads_counts(t->nads).written, 2); /* the status and the NAD */
}

static void test_request_of_a_deleted_network_is_cancelled(void **state)
{
	struct lab *t = *state;

	network(t, "a", KUBE_ADDED);
	pass(t, 10);
	network(t, "a", KUBE_DELETED);
	ASSERT_EQ(t->k.cancelled, 1);
	pass(t, 100000);
	ASSERT_EQ(t->k.sent, 1);
}

/* The replica loses the leadership while the server handles requests, and gains it again. */
static void test_lost_leadership_cancels_requests(void **state)
{
	struct lab *t = *state;
	char name[] = "a";

	for (; name[0] <= 'p'; name[0]++)
		network(t, name, KUBE_ADDED);
	pass(t, 10);
	ASSERT_EQ(t->k.n_calls, 8);
	nads_free(take(t->nads));
	ASSERT_EQ(t->k.cancelled, 8);
	network(t, "a", KUBE_MODIFIED);
	network(t, "b", KUBE_DELETED);
	pass(t, 100000);
	ASSERT_EQ(t->k.sent, 8);
	lead(t);
	pass(t, 10);
	ASSERT_EQ(t->k.n_calls, 8);
	assert_null(call(t, "b"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_nad_of_a_network_is_created),
		TEST(test_network_has_one_request_at_a_time),
		TEST(test_failed_write_is_reported_in_the_status_and_retried),
		TEST(test_request_of_a_deleted_network_is_cancelled),
		TEST(test_lost_leadership_cancels_requests),
	};

	return T_RUN(tests, NULL, NULL);
}
