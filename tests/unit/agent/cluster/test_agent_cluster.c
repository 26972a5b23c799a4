/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects of the API server as the agent decodes them; network-attachment-definitions whose content
 * the agent dropped because of a size limit are read again when they fit. The API server is that of
 * kube_lab.h; the loop has the clock of a test.
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
#include "spec/coordinator_settings.h"

static int decode(enum cluster_kind kind, const char *text, void *value, struct err *e)
{
	struct json_doc *doc = NULL;
	int r;

	log_threshold = LOG_NONE;
	ASSERT_EQ(json_parse(&doc, span_of(text), 1 << 16, NULL), 0);
	memset(value, 0, cluster_kinds[kind].size);
	r = cluster_kinds[kind].decode(value, json_root(doc), e);
	json_free(doc);
	return r;
}

/* --- the coordinator --- */

static char *answer_of(const char *object)
{
	struct coordinator_settings s;
	struct json_out o;
	struct buf b;

	ASSERT_EQ(decode(CLUSTER_COORDINATORS, object, &s, NULL), 0);
	buf_init(&b, 1 << 16);
	jo_init(&o, &b, 0);
	coordinator_settings_json(&s, &o);
	coordinator_settings_done(&s);
	return buf_take(&b);
}

static void test_spidercoordinator_is_decoded(void **state)
{
	static const char want[] =
		"{\"hijackCIDR\":[\"169.254.1.1/32\"],\"hostRuleTable\":501,\"mode\":\"underlay\","
		"\"overlayPodCIDR\":[\"10.244.0.0/16\",\"fd00::/56\"],\"podDefaultRouteNIC\":\"net1\","
		"\"podMACPrefix\":\"0a:1b\",\"podRPFilter\":-1,"
		"\"policyRoutes\":[{\"dst\":\"10.1.0.0/16\",\"gw\":\"10.0.0.1\"}],"
		"\"serviceCIDR\":[\"10.96.0.0/12\"],\"tunePodRoutes\":false,\"txQueueLen\":2000,"
		"\"vethLinkAddress\":\"169.254.100.1\",\"vethMTU\":9000}";
	char *text = answer_of(
		"{\"metadata\":{\"name\":\"default\"},\"spec\":{\"mode\":\"underlay\","
		"\"podCIDRType\":\"cluster\",\"hijackCIDR\":[\"169.254.1.1\"],\"policyRoutes\":["
		"{\"dst\":\"10.1.0.0/16\",\"gw\":\"10.0.0.1\"}],\"podMACPrefix\":\"0a:1b\","
		"\"tunePodRoutes\":false,\"podDefaultRouteNIC\":\"net1\",\"hostRuleTable\":501,"
		"\"podRPFilter\":-7,\"txQueueLen\":2000,\"vethLinkAddress\":\"169.254.100.1\","
		"\"vethMTU\":9000},\"status\":{\"phase\":\"Synced\",\"reason\":\"\","
		"\"overlayPodCIDR\":[\"10.244.0.0/16\",\"fd00::/56\"],\"serviceCIDR\":["
		"\"10.96.0.0/12\"]}}");

	(void)state;
	ASSERT_STR_EQ(text, want);
	free(text);
}

/* Spiderpool panics if these fields are missing, and ignores overlayPodCIDR and serviceCIDR
 * unless both are present. */
static void test_missing_coordinator_fields_have_defaults(void **state)
{
	char *text =
		answer_of("{\"spec\":{\"hostRuleTable\":null},\"status\":{\"phase\":\"NotReady\","
			  "\"overlayPodCIDR\":[\"10.244.0.0/16\"]}}");

	(void)state;
	ASSERT_STR_EQ(text, "{\"hijackCIDR\":[],\"hostRuleTable\":500,\"mode\":\"auto\","
			    "\"overlayPodCIDR\":[\"10.244.0.0/16\"],\"policyRoutes\":[],"
			    "\"serviceCIDR\":[],\"tunePodRoutes\":true,\"vethMTU\":1500}");
	free(text);
}

static void test_invalid_coordinator_is_refused(void **state)
{
	static const struct {
		const char *object, *expected;
	} v[] = {
		{"{\"spec\":{\"mode\":\"x\"}}",
		 "spec: mode is 'x', expected auto, underlay, overlay or disabled"},
		{"{\"spec\":{\"hijackCIDR\":[\"a\"]}}", "spec: hijackCIDR is 'a', expected CIDRs"},
		{"{\"spec\":{\"vethMTU\":1}}", "spec: vethMTU is '1', expected 68 to 65535"},
		{"{\"status\":{\"serviceCIDR\":[[]]}}",
		 "status: status.serviceCIDR is an array, expected a string, an integer, true or "
		 "false"},
		{"{\"spec\":{\"policyRoutes\":[{\"dst\":\"10.0.0.0/8\"}]}}",
		 "spec: spec.policyRoutes is an object, expected an object with the strings 'dst' and 'gw'"},
	};
	struct coordinator_settings s;

	(void)state;
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct err e = ERR_INIT;

		assert_true(decode(CLUSTER_COORDINATORS, v[i].object, &s, &e) < 0);
		ASSERT_STR_EQ(e.text, v[i].expected);
	}
}

/* --- networks --- */

static void test_network_attachment_definition_is_decoded(void **state)
{
	struct cluster_nad n;

	(void)state;
	ASSERT_EQ(decode(CLUSTER_NADS,
			 "{\"metadata\":{\"annotations\":{\"k8s.v1.cni.cncf.io/resourceName\":"
			 "\"rdma/hca\"}},\"spec\":{\"config\":\"{ not looked at here\"}}",
			 &n, NULL),
		  0);
	ASSERT_STR_EQ(n.config, "{ not looked at here");
	ASSERT_STR_EQ(n.resource, "rdma/hca");
	cluster_kinds[CLUSTER_NADS].drop(&n);
	ASSERT_EQ(decode(CLUSTER_NADS, "{\"metadata\":{}}", &n, NULL), 0);
	assert_null(n.config);
	assert_null(n.resource);
}

/* --- networks for which the cache has no room --- */

enum { NADS = 7, BYTES = 250 << 10, FIT = 4, REQUESTS_MAX = 64 };

/* --- the API server: networks n0, n1, ... of the namespace t, all of BYTES bytes --- */

struct server {
	struct kube kube;
	bool deleted[NADS];
	int version[NADS];
	int refuse; /* number of requests that fail from now on */
	/* requests for a single network: its number, and the loop time */
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

static void test_network_left_out_of_the_cache_is_read_when_its_namespace_has_room(void **state)
{
	struct lab *t = *state;

	pass(t, 60000);
	ASSERT_EQ(t->k.n_asked, 0);
	/* The deletion of a network whose content was dropped makes no room for another. */
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

static void test_network_that_changed_before_its_read_is_left_to_the_watch(void **state)
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

/* Without a backoff the agent would send one request a second while the server refuses requests. */
static void test_refused_requests_are_retried_with_a_backoff(void **state)
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
	/* A successful answer resets the backoff. */
	t->k.refuse = 1;
	t->k.n_asked = 0;
	remove_nad(t, 4);
	pass(t, 10000);
	ASSERT_EQ(t->k.n_asked, 2);
	assert_in_range(t->k.at[1] - t->k.at[0], 500, 1501);
	assert_false(is_left_out(t, 5));
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_spidercoordinator_is_decoded),
		cmocka_unit_test(test_missing_coordinator_fields_have_defaults),
		cmocka_unit_test(test_invalid_coordinator_is_refused),
		cmocka_unit_test(test_network_attachment_definition_is_decoded),
		TEST(test_network_left_out_of_the_cache_is_read_when_its_namespace_has_room),
		TEST(test_network_that_changed_before_its_read_is_left_to_the_watch),
		TEST(test_refused_requests_are_retried_with_a_backoff),
	};

	return T_RUN(tests, NULL, NULL);
}
