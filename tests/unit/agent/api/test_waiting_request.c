/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request for eight rails on a node without blocks: how often the request uses the store, and
 * what makes the agent read the annotations again. The API server (kube_lab.h) creates each block a
 * moment after the previous one. The tests open no socket: they enqueue requests directly, with a
 * route that this file defines.
 */
#include "testlib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/api/internal.h"
#include "base/alloc.h"
#include "base/log.h"
#include "ipam_lab.h"
#include "kube_lab.h"

enum { RAILS = 8, ANSWER_MS = 5, TEXT_MAX = 16 << 10 };

/* --- the API server --- */

struct server {
	struct kube kube;
	int version;
	int claims;	   /* blocks created */
	int answer_ms;	   /* duration of the creation of each block */
	int64_t answered;  /* loop time in ms at which the last answer so far is due */
	const char *space; /* annotations of the namespace */
};

static char *pool_text(int i)
{
	return xasprintf(
		"{\"metadata\":{\"name\":\"rail%d\",\"uid\":\"r%d\",\"resourceVersion\":\"1\","
		"\"annotations\":{\"unirail.io/block-prefix\":\"28\"}},\"spec\":{"
		"\"ipVersion\":4,\"subnet\":\"10.0.%d.0/24\",\"ips\":[\"10.0.%d.1-"
		"10.0.%d.200\"]}}",
		i, i, i, i, i);
}

static char *space_text(const struct server *s)
{
	return xasprintf("{\"metadata\":{\"name\":\"t\",\"uid\":\"t\",\"resourceVersion\":\"%d\","
			 "\"annotations\":{%s}}}",
			 s->version, s->space);
}

static void put_item(const struct kube_list *l, char *text)
{
	auto_free char *owned = text;

	kl_item(l, owned);
}

static const struct err *list(const struct kube_list *l)
{
	if (l->kind == &kube_nodes)
		kl_item(l, "{\"metadata\":{\"name\":\"n1\",\"uid\":\"node\","
			   "\"resourceVersion\":\"1\"}}");
	if (l->kind == &kube_pods)
		kl_item(l, "{\"metadata\":{\"namespace\":\"t\",\"name\":\"p\",\"uid\":"
			   "\"u1\",\"resourceVersion\":\"1\"},\"spec\":{\"nodeName\":"
			   "\"n1\",\"containers\":[]}}");
	if (l->kind == &kube_namespaces)
		put_item(l, space_text((const struct server *)l->k));
	for (int i = 0; l->kind == &kube_ippools && i < RAILS; i++)
		put_item(l, pool_text(i));
	return NULL;
}

/* Creates the block of the request. The answer is sent answer_ms after the previous answer or,
 * if that has been sent already, answer_ms from now. */
static void send(struct kube_call *c, const struct kube_request *r)
{
	static const char meta[] = "\"metadata\":{";
	struct server *s = (struct server *)c->k;
	auto_free char *body = span_dup(r->body), *object = NULL;
	char *at = strstr(body, meta);
	int64_t now = loop_now_ms(s->kube.loop);

	ASSERT_EQ(r->verb, KUBE_CREATE);
	assert_ptr_equal(r->on.kind, &kube_ipblocks);
	assert_non_null(at);
	s->answered = (s->answered > now ? s->answered : now) + s->answer_ms;
	object = xasprintf("%.*s%s\"uid\":\"b%d\",\"resourceVersion\":\"%d\",%s", (int)(at - body),
			   body, meta, s->claims, 10 + s->claims, at + strlen(meta));
	kl_answer_after(c, s->answered - now, 201, object);
	s->claims++;
}

/* --- the agent --- */

static struct {
	struct ipam_lab ipam;
	struct server k;
	struct cluster *cluster;
	struct node_pools *pools;
	struct ipam_api *api;
	int turns, allocated;
} lab;

static void on_changed(void *arg, const char *pool)
{
	(void)arg;
	if (lab.api)
		ipam_api_changed(lab.api, pool);
}

static void on_pools(void *arg, bool addresses)
{
	(void)arg;
	node_pools_pools_changed(lab.pools, addresses);
}

static void on_node(void *arg, const char *uid)
{
	(void)arg, (void)uid;
	ASSERT_EQ(node_pools_node_changed(lab.pools, NULL), 0);
}

static void on_begin(void *arg, struct ipam *store)
{
	(void)arg, (void)store;
	lab.turns++;
}

static void on_batch(void *arg, struct ipam *store)
{
	(void)arg;
	blocks_leases(node_pools_blocks(lab.pools), ipam_leases(store));
}

static void pass(int64_t ms)
{
	t_loop_run(lab.k.kube.loop, ms);
}

static void open_api(void)
{
	lab.api = ipam_api_new(&(struct ipam_api_conf){
		.loop = lab.k.kube.loop,
		.root = &lab.ipam.root,
		.paths = lab.ipam.paths,
		.cluster = lab.cluster,
		.node_pools = lab.pools,
		.wait_ms = 15000,
		.callbacks = {.begin = on_begin, .batch = on_batch},
	});
}

static int setup(void **state)
{
	(void)state;
	memset(&lab, 0, sizeof(lab));
	log_threshold = LOG_NONE;
	il_make(&lab.ipam);
	ASSERT_EQ(loop_new(&lab.k.kube.loop, NULL), 0);
	loop_set_now(lab.k.kube.loop, 1000000);
	lab.k.kube.list = list;
	lab.k.kube.send = send;
	lab.k.answer_ms = ANSWER_MS;
	lab.k.version = 1;
	lab.k.space = "";
	lab.cluster = cluster_new(&(struct cluster_conf){.kube = &lab.k.kube,
							 .root = &lab.ipam.root,
							 .node = "n1",
							 .ns = "default",
							 .state_dir = lab.ipam.paths.state_dir,
							 .pools_changed = on_pools,
							 .node_changed = on_node});
	ASSERT_EQ(node_pools_new(&lab.pools,
				 &(struct node_pools_conf){.kube = &lab.k.kube,
							   .cluster = lab.cluster,
							   .root = &lab.ipam.root,
							   .state_dir = lab.ipam.paths.state_dir,
							   .node = "n1",
							   .pre_allocate = 4,
							   .changed = on_changed},
				 NULL),
		  0);
	open_api();
	pass(100);
	/* schedules a batch, which reports the leases (there are none) to the blocks */
	ipam_api_touch(lab.api);
	pass(100);
	ASSERT_EQ(lab.k.claims, 0);
	lab.turns = 0;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ipam_api_free(lab.api);
	node_pools_free(lab.pools);
	cluster_free(lab.cluster);
	loop_free(lab.k.kube.loop);
	il_drop(&lab.ipam);
	return 0;
}

/* --- requests --- */

static const char *const names[RAILS] = {"rail0", "rail1", "rail2", "rail3",
					 "rail4", "rail5", "rail6", "rail7"};
static const char *const ifnames[RAILS] = {"net1", "net2", "net3", "net4",
					   "net5", "net6", "net7", "net8"};

static void run(struct api_call *c, struct ipam *store)
{
	struct ip_allocation *g = NULL;
	struct err e = ERR_INIT;
	size_t n = 0;
	int r = c->api->backend->allocate(c, store, &g, &n, &e);

	if (r == API_PENDING)
		return;
	lab.allocated = r < 0 ? r : (int)n;
	ip_allocations_free(g, n);
}

static bool pod_of(const struct api_call *c, struct api_pod *ret)
{
	(void)c;
	*ret = (struct api_pod){"t", "p", "u1"};
	return true;
}

/* A request for n rails of the pod t/p; each rail names its pool, unless `pools` is false. */
static void request(int n, bool pools)
{
	static const struct api_route route = {.path = "/plan", .run = run, .pod = pod_of};
	struct api_call *c = xcalloc(1, sizeof(*c));

	c->api = lab.api;
	c->route = &route;
	c->seq = ++lab.api->seq;
	c->requests.n = (size_t)n;
	c->requests.whole = true;
	c->requests.body = xcalloc((size_t)n, sizeof(*c->requests.body));
	for (int i = 0; i < n; i++)
		c->requests.body[i] = (struct ip_request){
			.owner = {.container_id = "c1",
				  .ifname = ifnames[i],
				  .pod_namespace = "t",
				  .pod_name = "p",
				  .pod_uid = "u1"},
			.pools4 = &names[i],
			.n_pools4 = pools,
			.master = "eth1",
		};
	if (!c->api->backend->collect(c))
		api_enqueue(c);
}

/* The first batch finds that addresses are missing, the second allocates them. Without the delay of
 * the retry, each answer of the API server would cause a batch. */
static void test_request_of_eight_rails_uses_the_store_twice(void **state)
{
	(void)state;
	request(RAILS, true);
	pass(ANSWER_MS / 2);
	ASSERT_EQ(lab.turns, 1);
	assert_non_null(lab.api->pending);
	ASSERT_EQ(lab.api->pending->state, API_WAITING);
	pass(2000);
	ASSERT_EQ(lab.allocated, RAILS);
	ASSERT_EQ(lab.k.claims, RAILS);
	ASSERT_EQ(lab.turns, 2);
	assert_null(lab.api->pending);
}

/* If only one pool of a request changes, the request is retried after a delay. */
static void test_request_is_retried_after_a_part_of_its_pools_has_changed(void **state)
{
	(void)state;
	lab.k.answer_ms = 10000; /* no answer of the API server arrives meanwhile */
	request(RAILS, true);
	pass(50);
	ASSERT_EQ(lab.turns, 1);
	ipam_api_changed(lab.api, "rail3");
	pass(50);
	ASSERT_EQ(lab.turns, 1);
	pass(100);
	ASSERT_EQ(lab.turns, 2);
	/* a pool that the request does not need */
	ipam_api_changed(lab.api, "rail9");
	pass(500);
	ASSERT_EQ(lab.turns, 2);
	ASSERT_EQ(lab.allocated, 0);
}

static void space_changes(const char *annotations)
{
	auto_free char *text = NULL;

	lab.k.space = annotations;
	lab.k.version++;
	text = space_text(&lab.k);
	kl_event(&lab.k.kube, &kube_namespaces, KUBE_MODIFIED, text);
}

/* Returns whether the pending request still has the text that mark() set. The text is lost when
 * the agent composes the request again from the annotations. */
static bool is_marked(void)
{
	return strcmp(lab.api->pending->requests.v[0].master, "mark") == 0;
}

static void mark(void)
{
	lab.api->pending->requests.v[0].master = "mark";
}

static void retry(void)
{
	int turns = lab.turns;

	ipam_api_changed(lab.api, NULL);
	pass(20);
	ASSERT_EQ(lab.turns, turns + 1);
	assert_non_null(lab.api->pending);
}

static void test_pending_request_gets_the_changed_annotations_of_its_namespace(void **state)
{
	(void)state;
	lab.k.answer_ms = 10000;
	space_changes("\"ipam.spidernet.io/default-ipv4-ippool\":\"[\\\"rail2\\\"]\"");
	request(1, false);
	pass(20);
	ASSERT_STR_EQ(lab.api->pending->needs.v[0].pool, "rail2");
	mark();
	retry();
	assert_true(is_marked());
	space_changes("\"ipam.spidernet.io/default-ipv4-ippool\":\"[\\\"rail5\\\"]\"");
	retry();
	assert_false(is_marked());
	ASSERT_STR_EQ(lab.api->pending->needs.v[0].pool, "rail5");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_request_of_eight_rails_uses_the_store_twice,
						setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_request_is_retried_after_a_part_of_its_pools_has_changed, setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			test_pending_request_gets_the_changed_annotations_of_its_namespace, setup,
			teardown),
	};

	return T_RUN(tests, NULL, NULL);
}
