/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reconciler of SpiderMultusConfigs. The API server is kube_lab.h, which answers when the test
 * says so; the test sets the loop's clock.
 */
#include "testlib.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "controller/cache/cache.h"
#include "controller/nad/nads.h"
#include "kube_lab.h"

/* --- the controller --- */

struct lab {
	struct kube k;
	struct cluster_cache *cache;
	struct kube_events *events;
	struct nads *nads;
};

static void pass(struct lab *t, int64_t ms)
{
	t_loop_run(t->k.loop, ms);
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
	ASSERT_EQ(loop_new(&t->k.loop, NULL), 0);
	loop_set_now(t->k.loop, 1000);
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
	loop_free(t->k.loop);
	free(t);
	return 0;
}

static void network(struct lab *t, const char *name, enum kube_change change)
{
	auto_free char *text = xasprintf(
		"{\"apiVersion\":\"spiderpool.spidernet.io/v2beta1\",\"kind\":"
		"\"SpiderMultusConfig\",\"metadata\":{\"namespace\":\"t\",\"name\":\"%s\",\"uid\":"
		"\"u-%s\",\"resourceVersion\":\"5\",\"generation\":1},\"spec\":{\"cniType\":"
		"\"macvlan\",\"macvlan\":{\"master\":[\"eth0\"]}}}",
		name, name);

	kl_event(&t->k, &kube_multusconfigs, change, text);
}

static struct kube_call *call(struct lab *t, const char *name)
{
	return kl_call(&t->k, name);
}

static void answer(struct lab *t, const char *name, int status)
{
	auto_free char *error = status >= 400 ? xasprintf("status %d", status) : NULL;

	kl_answer(call(t, name), status, error);
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

/* A network that changes while its request is pending is reconciled again after the answer, so
 * each object has one request at a time. */
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
	/* the watch has not delivered the NAD yet, so a second request is sent */
	ASSERT_EQ(t->k.sent, 2);
	answer(t, "a", 409);
}

static void test_failed_write_is_reported_in_the_status_and_retried(void **state)
{
	struct lab *t = *state;
	int64_t from;

	network(t, "a", KUBE_ADDED);
	pass(t, 10);
	from = loop_now_ms(t->k.loop);
	answer(t, "a", 403);
	ASSERT_EQ(nads_counts(t->nads).failed, 1);
	ASSERT_EQ(nads_counts(t->nads).outdated, 1);
	ASSERT_STR_EQ(call(t, "a")->sub, "status");
	answer(t, "a", 200);
	ASSERT_EQ(t->k.n_calls, 0);
	while (!t->k.n_calls)
		pass(t, 10);
	assert_in_range(loop_now_ms(t->k.loop) - from, 500, 1520);
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
