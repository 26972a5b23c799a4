/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects whose content was dropped for lack of room are read again when there is room. The API
 * server is replaced by functions of this file; the loop has the clock of a test.
 */
#include "testlib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <errno.h>

#include "agent/cluster/internal.h"
#include "base/alloc.h"
#include "base/log.h"
#include "ipam_lab.h"
#include "kube/kinds.h"
#include "kube/listwatch.h"

enum { NADS = 7, BYTES = 250 << 10, FIT = 4, REQUESTS_MAX = 64 };

/* --- the API server: networks n0, n1, ... of the namespace t, all of BYTES bytes --- */

struct kube {
	struct loop *l;
	bool deleted[NADS];
	int version[NADS];
	int refuse; /* so many requests from now on fail */
	struct kube_watch *nads;
	/* the requests for one object: its number and the time */
	int asked[REQUESTS_MAX];
	int64_t at[REQUESTS_MAX];
	int n_asked;
};

struct kube_list {
	struct kube *k;
	const struct kube_kind *kind;
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
	int nad;
	kube_done_fn fn;
	void *arg;
	struct loop_timer *timer;
};

struct loop *kube_loop(const struct kube *k)
{
	return k->l;
}

static char *nad_text(const struct kube *k, int i)
{
	auto_free char *pad = xcalloc(BYTES + 1, 1);

	memset(pad, 'x', BYTES);
	return xasprintf("{\"metadata\":{\"namespace\":\"t\",\"name\":\"n%d\",\"uid\":\"u%d\","
			 "\"resourceVersion\":\"%d\"},\"spec\":{\"config\":\"%s\"}}",
			 i, i, k->version[i], pad);
}

static void list_ends(void *arg)
{
	struct kube_list *l = arg;
	struct err e = ERR_INIT;

	for (int i = 0; i < NADS && l->kind == &kube_nads; i++) {
		auto_free char *text = nad_text(l->k, i);
		auto_json struct json_doc *doc = t_json(text);

		if (!l->k->deleted[i])
			ASSERT_EQ(l->ops->item(l->arg, json_root(doc), &e), 0);
	}
	l->ops->done(l->arg, "10", NULL);
	free(l);
}

struct kube_list *kube_list(struct kube *k, const struct kube_kind *kind,
			    const struct kube_select *s, int page, const struct kube_list_ops *ops,
			    void *arg)
{
	struct kube_list *l = xcalloc(1, sizeof(*l));

	(void)s, (void)page;
	*l = (struct kube_list){k, kind, ops, arg, NULL};
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

static void call_ends(void *arg)
{
	struct kube_call *c = arg;
	struct err e = ERR_INIT;

	if (c->k->refuse) {
		c->k->refuse--;
		err_set(&e, -EACCES, "403 Forbidden");
		c->fn(c->arg, 403, NULL, &e);
	} else {
		auto_free char *text = nad_text(c->k, c->nad);
		auto_free char *list =
			xasprintf("{\"items\":[%s]}", c->k->deleted[c->nad] ? "" : text);
		auto_json struct json_doc *doc = t_json(list);

		c->fn(c->arg, 200, json_root(doc), NULL);
	}
	free(c);
}

struct kube_call *kube_send(struct kube *k, const struct kube_request *r, kube_done_fn fn,
			    void *arg)
{
	struct kube_call *c = xcalloc(1, sizeof(*c));
	const char *name = strstr(r->query, "metadata.name%3Dn");

	assert_ptr_equal(r->on.kind, &kube_nads);
	ASSERT_EQ(r->verb, KUBE_LIST);
	ASSERT_STR_EQ(r->on.ns, "t");
	assert_non_null(name);
	*c = (struct kube_call){k, name[17] - '0', fn, arg, NULL};
	c->timer = loop_add_timer(k->l, 0, call_ends, c);
	assert_in_range(k->n_asked, 0, REQUESTS_MAX - 1);
	k->asked[k->n_asked] = c->nad;
	k->at[k->n_asked++] = loop_now_ms(k->l);
	return c;
}

void kube_cancel(struct kube_call *c)
{
	if (c)
		loop_del_timer(c->timer);
	free(c);
}

/* --- the agent --- */

struct lab {
	struct ipam_lab ipam;
	struct kube k;
	struct cluster *c;
};

static void pass(struct lab *t, int64_t ms)
{
	t_loop_run(t->k.l, ms);
}

static void remove_nad(struct lab *t, int i)
{
	auto_free char *text = NULL;
	auto_json struct json_doc *doc = NULL;

	t->k.version[i] = 20 + i;
	text = nad_text(&t->k, i);
	doc = t_json(text);
	t->k.deleted[i] = true;
	t->k.nads->ops->event(t->k.nads->arg, KUBE_DELETED, json_root(doc));
}

static bool is_left_out(const struct lab *t, int i)
{
	char name[] = {'n', (char)('0' + i), 0};
	const struct cluster_nad *n = cluster_nad(t->c, "t", name);

	assert_non_null(n);
	assert_true(!n->left_out == (n->config && strlen(n->config) == BYTES));
	return n->left_out;
}

static int setup(void **state)
{
	struct lab *t = xcalloc(1, sizeof(*t));

	log_threshold = LOG_NONE;
	il_make(&t->ipam);
	ASSERT_EQ(loop_new(&t->k.l, NULL), 0);
	loop_set_now(t->k.l, 1000000);
	for (int i = 0; i < NADS; i++)
		t->k.version[i] = i + 1;
	t->c = cluster_new(&(struct cluster_conf){.kube = &t->k,
						  .root = &t->ipam.root,
						  .node = "n1",
						  .ns = "default",
						  .state_dir = t->ipam.paths.state_dir});
	pass(t, 10);
	ASSERT_EQ(kube_cache_count(cluster_objects(t->c), CLUSTER_NADS), NADS);
	for (int i = 0; i < NADS; i++)
		ASSERT_EQ(is_left_out(t, i), i >= FIT);
	*state = t;
	return 0;
}

static int teardown(void **state)
{
	struct lab *t = *state;

	cluster_free(t->c);
	loop_free(t->k.l);
	il_drop(&t->ipam);
	free(t);
	return 0;
}

static void test_network_is_read_again_when_its_namespace_has_room(void **state)
{
	struct lab *t = *state;

	pass(t, 60000);
	ASSERT_EQ(t->k.n_asked, 0);
	/* The deletion of a network that uses no memory makes no room for another. */
	remove_nad(t, 6);
	pass(t, 60000);
	ASSERT_EQ(t->k.n_asked, 0);

	remove_nad(t, 1);
	pass(t, 1100);
	ASSERT_EQ(t->k.n_asked, 1);
	ASSERT_EQ(t->k.asked[0], 4);
	assert_false(is_left_out(t, 4));
	assert_true(is_left_out(t, 5));
	pass(t, 60000);
	ASSERT_EQ(t->k.n_asked, 1);

	remove_nad(t, 4);
	pass(t, 1100);
	ASSERT_EQ(t->k.n_asked, 2);
	assert_false(is_left_out(t, 5));
}

static void test_network_that_changed_meanwhile_is_left_to_the_watch(void **state)
{
	struct lab *t = *state;
	auto_free char *text = NULL;
	auto_json struct json_doc *doc = NULL;

	t->k.version[4] = 30;
	remove_nad(t, 0);
	pass(t, 1100);
	ASSERT_EQ(t->k.asked[0], 4);
	assert_true(is_left_out(t, 4));
	/* The informer reads the next dropped object, which uses the released room. */
	ASSERT_EQ(t->k.asked[1], 5);
	ASSERT_EQ(t->k.n_asked, 2);
	assert_false(is_left_out(t, 5));
	remove_nad(t, 5);
	text = nad_text(&t->k, 4);
	doc = t_json(text);
	t->k.nads->ops->event(t->k.nads->arg, KUBE_MODIFIED, json_root(doc));
	assert_false(is_left_out(t, 4));
}

/* Before: one request a second as long as the server refused. */
static void test_refused_requests_back_off(void **state)
{
	struct lab *t = *state;
	int64_t wait = 1000;

	t->k.refuse = 8;
	remove_nad(t, 0);
	pass(t, 600000);
	ASSERT_EQ(t->k.n_asked, 9);
	for (int i = 1; i < 9; i++, wait = wait < 16000 ? wait * 2 : 30000)
		assert_in_range(t->k.at[i] - t->k.at[i - 1], wait / 2, wait * 3 / 2 + 1);
	assert_false(is_left_out(t, 4));
	/* An answer ends the backoff. */
	t->k.refuse = 1;
	t->k.n_asked = 0;
	remove_nad(t, 4);
	pass(t, 10000);
	ASSERT_EQ(t->k.n_asked, 2);
	assert_in_range(t->k.at[1] - t->k.at[0], 500, 1501);
	assert_false(is_left_out(t, 5));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			test_network_is_read_again_when_its_namespace_has_room, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_network_that_changed_meanwhile_is_left_to_the_watch, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refused_requests_back_off, setup, teardown),
	};

	return T_RUN(tests, NULL, NULL);
}
