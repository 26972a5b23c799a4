/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects whose content was dropped for lack of room are read again when there is room. The API
 * server is kube_lab.h; the loop has the clock of a test.
 */
#include "testlib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/cluster/internal.h"
#include "base/alloc.h"
#include "base/log.h"
#include "ipam_lab.h"
#include "kube_lab.h"

enum { NADS = 7, BYTES = 250 << 10, FIT = 4, REQUESTS_MAX = 64 };

/* --- the API server: networks n0, n1, ... of the namespace t, all of BYTES bytes --- */

struct server {
	struct kube kube;
	bool deleted[NADS];
	int version[NADS];
	int refuse; /* so many requests from now on fail */
	/* the requests for one object: its number and the time */
	int asked[REQUESTS_MAX];
	int64_t at[REQUESTS_MAX];
	int n_asked;
};

static char *nad_text(const struct server *s, int i)
{
	auto_free char *pad = xcalloc(BYTES + 1, 1);

	memset(pad, 'x', BYTES);
	return xasprintf("{\"metadata\":{\"namespace\":\"t\",\"name\":\"n%d\",\"uid\":\"u%d\","
			 "\"resourceVersion\":\"%d\"},\"spec\":{\"config\":\"%s\"}}",
			 i, i, s->version[i], pad);
}

static const struct err *list(const struct kube_list *l)
{
	const struct server *s = (const struct server *)l->k;

	for (int i = 0; i < NADS && l->kind == &kube_nads; i++) {
		auto_free char *text = nad_text(s, i);

		if (!s->deleted[i])
			kl_item(l, text);
	}
	return NULL;
}

static void answer(struct server *s, struct kube_call *c, int nad)
{
	auto_free char *text = nad_text(s, nad);
	auto_free char *items = xasprintf("{\"items\":[%s]}", s->deleted[nad] ? "" : text);

	if (s->refuse) {
		s->refuse--;
		kl_answer_after(c, 0, 403, "403 Forbidden");
		return;
	}
	kl_answer_after(c, 0, 200, items);
}

static void send(struct kube_call *c, const struct kube_request *r)
{
	struct server *s = (struct server *)c->k;
	const char *name = strstr(r->query, "metadata.name%3Dn");

	assert_ptr_equal(r->on.kind, &kube_nads);
	ASSERT_EQ(r->verb, KUBE_LIST);
	ASSERT_STR_EQ(r->on.ns, "t");
	assert_non_null(name);
	assert_in_range(s->n_asked, 0, REQUESTS_MAX - 1);
	s->asked[s->n_asked] = name[17] - '0';
	s->at[s->n_asked] = loop_now_ms(s->kube.loop);
	answer(s, c, s->asked[s->n_asked++]);
}

/* --- the agent --- */

struct lab {
	struct ipam_lab ipam;
	struct server k;
	struct cluster *c;
};

static void pass(struct lab *t, int64_t ms)
{
	t_loop_run(t->k.kube.loop, ms);
}

static void remove_nad(struct lab *t, int i)
{
	auto_free char *text = NULL;

	t->k.version[i] = 20 + i;
	text = nad_text(&t->k, i);
	t->k.deleted[i] = true;
	kl_event(&t->k.kube, &kube_nads, KUBE_DELETED, text);
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
	ASSERT_EQ(loop_new(&t->k.kube.loop, NULL), 0);
	loop_set_now(t->k.kube.loop, 1000000);
	t->k.kube.list = list;
	t->k.kube.list_version = "10";
	t->k.kube.send = send;
	for (int i = 0; i < NADS; i++)
		t->k.version[i] = i + 1;
	t->c = cluster_new(&(struct cluster_conf){.kube = &t->k.kube,
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
	loop_free(t->k.kube.loop);
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
	kl_event(&t->k.kube, &kube_nads, KUBE_MODIFIED, text);
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
