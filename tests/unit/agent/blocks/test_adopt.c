/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses of running pods are recovered after the journal was lost, and each address is recorded
 * once.
 */
#include "testlib.h"

#include <stdlib.h>
#include <string.h>

#include "agent/blocks/adopt.h"
#include "base/alloc.h"
#include "ipam_lab.h"

static void expect(const struct adopt_traces *t, size_t i, const char *ip, const char *ifname)
{
	il_assert_ip(&t->v[i].ip, ip);
	ASSERT_STR_EQ(t->v[i].ifname, ifname);
}

static void test_addresses_are_read_from_network_status(void **state)
{
	struct adopt_traces t = {0};

	(void)state;
	ASSERT_EQ(adopt_read_status("[{\"name\":\"k8s-pod-network\",\"ips\":[\"10.244.0.9\"],"
				    "\"default\":true},{\"name\":\"t/rail0\",\"interface\":"
				    "\"net1\",\"ips\":[\"172.16.1.9\",\"fd00::9\"]}]",
				    &t, NULL),
		  0);
	ASSERT_EQ(t.n, 3);
	expect(&t, 0, "10.244.0.9", "");
	expect(&t, 1, "172.16.1.9", "net1");
	expect(&t, 2, "fd00::9", "net1");
	adopt_traces_done(&t);
}

static void test_addresses_are_read_from_the_endpoint(void **state)
{
	struct adopt_traces t = {0};

	(void)state;
	ASSERT_EQ(adopt_read_endpoint("{\"current\":{\"ips\":[{\"interface\":\"eth0\","
				      "\"ipv4\":\"172.16.1.9/24\",\"ipv6\":\"fd00::9/64\"},"
				      "{\"interface\":\"net1\"}]}}",
				      &t, NULL),
		  0);
	ASSERT_EQ(t.n, 2);
	expect(&t, 0, "172.16.1.9", "eth0");
	expect(&t, 1, "fd00::9", "eth0");
	adopt_traces_done(&t);
}

/*
 * An unreadable network-status is not an empty list: the addresses of the pod are unknown.
 */
static void test_unreadable_network_status_is_an_error(void **state)
{
	static const char *const texts[] = {
		"", "{", "{}", "null", "\"10.0.0.1\"", "[{\"ips\":[\"x\"]}]", "[{\"ips\":[7]}]"};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct adopt_traces t = {0};

		assert_true(adopt_read_status(texts[i], &t, NULL) < 0);
		adopt_traces_done(&t);
	}
}

static struct adopt_claim claim(const char *ip, size_t pod, bool written)
{
	return (struct adopt_claim){.ip = t_net(ip).ip, .pod = pod, .written = written};
}

/* A user can annotate a pod with the address of another user's pod. */
static void test_address_claimed_by_several_pods_goes_to_the_endpoint_owner(void **state)
{
	struct adopt_claim v[] = {
		claim("10.0.0.12/24", 3, false), claim("10.0.0.11/24", 0, false),
		claim("10.0.0.11/24", 2, true),	 claim("10.0.0.11/24", 1, false),
		claim("10.0.0.12/24", 3, false), claim("10.0.0.10/24", 1, true),
	};
	struct adopt_claim two[] = {claim("10.0.0.12/24", 5, false), claim("10.0.0.9/24", 5, false),
				    claim("10.0.0.12/24", 4, false)};
	bool clear = false;
	size_t at = 0;

	(void)state;
	ASSERT_EQ(adopt_resolve(v, 6, &clear, &at), 3);
	assert_true(clear);
	il_assert_ip(&v[0].ip, "10.0.0.10");
	ASSERT_EQ(v[0].pod, 1);
	ASSERT_EQ(v[1].pod, 2); /* the SpiderEndpoint of pod 2 has the address */
	ASSERT_EQ(v[2].pod, 3);
	ASSERT_EQ(adopt_resolve(two, 3, &clear, &at), 3);
	assert_false(clear);
	ASSERT_EQ(at, 1);
	ASSERT_EQ(two[at].pod, 4);
	ASSERT_EQ(two[at + 1].pod, 5);
	ASSERT_EQ(adopt_resolve(NULL, 0, &clear, &at), 0);
	assert_true(clear);
}

static struct adopt_claim cached(const char *ip, size_t pod)
{
	struct adopt_claim c = claim(ip, pod, true);

	c.cached = true;
	return c;
}

/* The SpiderEndpoint may be older than the CNI result cache of the node. */
static void test_cni_cache_takes_precedence_over_the_endpoint(void **state)
{
	struct adopt_claim v[] = {
		claim("10.0.0.10/24", 1, true),	 cached("10.0.0.10/24", 2),
		claim("10.0.0.10/24", 3, false), cached("10.0.0.11/24", 1),
		cached("10.0.0.11/24", 1),
	};
	struct adopt_claim two[] = {cached("10.0.0.12/24", 5), claim("10.0.0.12/24", 1, true),
				    cached("10.0.0.12/24", 4)};
	bool clear = false;
	size_t at = 0;

	(void)state;
	ASSERT_EQ(adopt_resolve(v, 5, &clear, &at), 2);
	assert_true(clear);
	ASSERT_EQ(v[0].pod, 2);
	ASSERT_EQ(v[1].pod, 1);
	ASSERT_EQ(adopt_resolve(two, 3, &clear, &at), 2);
	assert_false(clear);
	ASSERT_EQ(two[at].pod, 4);
	ASSERT_EQ(two[at + 1].pod, 5);
}

/*
 * The CNI arguments of a static pod have the UID that the kubelet computed; the API server has the
 * UID of the mirror pod.
 */
static void test_cni_cache_entry_with_another_uid_is_used_for_static_pods_only(void **state)
{
	static const struct {
		const char *uid, *source;
		bool is_of;
	} cases[] = {
		{"u-1", NULL, true},   {"u-2", NULL, false},  {"", NULL, true},
		{"u-1", "api", true},  {"u-2", "api", false}, {"", "api", true},
		{"u-1", "file", true}, {"u-2", "file", true}, {"", "file", true},
		{"u-2", "http", true},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct cni_cached c = {
			.ns = (char *)"t", .pod = (char *)"a", .uid = (char *)cases[i].uid};
		struct label l = {(char *)"kubernetes.io/config.source", (char *)cases[i].source};
		struct pod_facts p = {.ns = (char *)"t", .name = (char *)"a", .uid = (char *)"u-1"};

		if (cases[i].source)
			p.annotations = (struct labels){.v = &l, .n = 1};
		ASSERT_EQ_MSG(adopt_is_record_of(&c, &p), cases[i].is_of, "cases[%zu]", i);
	}
}

/*
 * An annotation of 256 KiB lists about 17,000 addresses, and each pod may have such an annotation.
 */
static void test_200000_claims_to_two_addresses_are_resolved(void **state)
{
	enum { N = 200000 };
	struct adopt_claim *v = calloc(N, sizeof(*v));
	bool clear = false;
	size_t at;

	(void)state;
	for (size_t i = 0; i < N; i++)
		v[i] = claim(i % 2 ? "10.0.0.11/24" : "10.0.0.12/24", 7, false);
	ASSERT_EQ(adopt_resolve(v, N, &clear, &at), 2);
	assert_true(clear);
	free(v);
}

static struct ipam_known known(const char *net, const char *uid)
{
	return (struct ipam_known){.address = t_net(net),
				   .owner = {.container_id = uid,
					     .ifname = "net1",
					     .pod_namespace = "t",
					     .pod_name = "a",
					     .pod_uid = uid},
				   .pool = "rail0"};
}

static void test_recovered_addresses_are_not_allocated_again(void **state)
{
	const struct ipam_known v[] = {known("10.0.0.10/24", "u1"), known("10.0.0.11/24", "u2"),
				       known("10.0.0.11/24", "u3")};
	struct ipam_lab lab;
	struct ipaddr a;
	struct ipam *i;

	(void)state;
	il_make(&lab);
	il_pools(&lab, "[pool rail0]\nsubnet = 10.0.0.0/24\nips = 10.0.0.10-10.0.0.12\n");
	a = il_take(&lab, "c1", "net1", "rail0");
	il_assert_ip(&a, "10.0.0.10");
	i = il_open(&lab);
	/* 10.0.0.10 belongs to c1 already; 10.0.0.11, which u2 and u3 claim, is recorded once */
	ASSERT_EQ(ipam_know(i, v, 3, NULL), 1);
	ASSERT_EQ(ipam_know(i, v, 3, NULL), 0);
	ipam_close(i);
	a = il_take(&lab, "c2", "net1", "rail0");
	il_assert_ip(&a, "10.0.0.12");
	ASSERT_EQ(il_free(&lab, "u2", NULL), 1);
	ASSERT_EQ(il_free(&lab, "u1", NULL), 0);
	il_drop(&lab);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_addresses_are_read_from_network_status),
		cmocka_unit_test(test_addresses_are_read_from_the_endpoint),
		cmocka_unit_test(test_unreadable_network_status_is_an_error),
		cmocka_unit_test(test_address_claimed_by_several_pods_goes_to_the_endpoint_owner),
		cmocka_unit_test(test_cni_cache_takes_precedence_over_the_endpoint),
		cmocka_unit_test(
			test_cni_cache_entry_with_another_uid_is_used_for_static_pods_only),
		cmocka_unit_test(test_200000_claims_to_two_addresses_are_resolved),
		cmocka_unit_test(test_recovered_addresses_are_not_allocated_again),
	};

	return T_RUN(tests, NULL, NULL);
}
