/* SPDX-License-Identifier: Apache-2.0 */
/* The agent decodes objects of the API server. */
#include "testlib.h"

#include <stdlib.h>
#include <string.h>

#include "agent/cluster/internal.h"
#include "spec/coordinator_settings.h"
#include "base/log.h"

static int take(enum cluster_kind kind, const char *text, void *value, struct err *e)
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

	ASSERT_EQ(take(CLUSTER_COORDINATORS, object, &s, NULL), 0);
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

/*
 * Spiderpool panics without these fields, and ignores each of the two lists if the other is
 * missing.
 */
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
		 "status: status.serviceCIDR is an array, expected a string, a number or true or "
		 "false"},
		{"{\"spec\":{\"policyRoutes\":[{\"dst\":\"10.0.0.0/8\"}]}}",
		 "spec: spec.policyRoutes is an object, expected the strings 'dst' and 'gw'"},
	};
	struct coordinator_settings s;

	(void)state;
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct err e = ERR_INIT;

		assert_true(take(CLUSTER_COORDINATORS, v[i].object, &s, &e) < 0);
		ASSERT_STR_EQ(e.text, v[i].expected);
	}
}

/* --- networks --- */

static void test_network_attachment_definition_is_decoded(void **state)
{
	struct cluster_nad n;

	(void)state;
	ASSERT_EQ(take(CLUSTER_NADS,
		       "{\"metadata\":{\"annotations\":{\"k8s.v1.cni.cncf.io/resourceName\":"
		       "\"rdma/hca\"}},\"spec\":{\"config\":\"{ not looked at here\"}}",
		       &n, NULL),
		  0);
	ASSERT_STR_EQ(n.config, "{ not looked at here");
	ASSERT_STR_EQ(n.resource, "rdma/hca");
	cluster_kinds[CLUSTER_NADS].drop(&n);
	ASSERT_EQ(take(CLUSTER_NADS, "{\"metadata\":{}}", &n, NULL), 0);
	assert_null(n.config);
	assert_null(n.resource);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_spidercoordinator_is_decoded),
		cmocka_unit_test(test_missing_coordinator_fields_have_defaults),
		cmocka_unit_test(test_invalid_coordinator_is_refused),
		cmocka_unit_test(test_network_attachment_definition_is_decoded),
	};

	return T_RUN(tests, NULL, NULL);
}
