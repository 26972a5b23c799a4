/* SPDX-License-Identifier: Apache-2.0 */
/* SpiderEndpoint objects that follow from leases. */
#include "testlib.h"

#include <stdlib.h>
#include <string.h>

#include "agent/endpoint/endpoint.h"
#include "base/alloc.h"
#include "ipam_lab.h"
#include "wire/json/json.h"

static struct lease_table leases;
static struct pool_set pools;
static struct pool two[2];

static int setup(void **state)
{
	static struct pool_route route;

	(void)state;
	route = (struct pool_route){t_net("10.9.0.0/16"), t_ip("10.6.0.254")};
	two[0] = (struct pool){.name = (char *)"p4",
			       .family = 4,
			       .gateway = t_ip("10.6.0.1"),
			       .routes = &route,
			       .n_routes = 1};
	two[1] = (struct pool){.name = (char *)"p6", .family = 6};
	pools = (struct pool_set){.v = two, .n = 2};
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	lease_table_done(&leases);
	return 0;
}

static struct lease lease(const char *address, const char *pool, const char *pod,
			  const char *container, const char *ifname)
{
	struct lease l = LEASE_INIT;

	l.address = t_net(address);
	l.pool = pool;
	l.pod_namespace = "default";
	l.pod_name = pod;
	l.pod_uid = container;
	l.container_id = container;
	l.ifname = ifname;
	l.at_ms = 1000;
	return l;
}

static void put(const char *address, const char *pool, const char *pod, const char *container,
		const char *ifname)
{
	struct lease l = lease(address, pool, pod, container, ifname);

	lease_put(&leases, &l);
}

static struct pod_facts pod_facts(const char *name, const char *uid)
{
	return (struct pod_facts){.ns = (char *)"default",
				  .name = (char *)name,
				  .uid = (char *)uid,
				  .node = (char *)"n1"};
}

static void test_endpoint_lists_all_rails_of_a_pod(void **state)
{
	static const char want[] =
		"{\"current\":{\"ips\":["
		"{\"interface\":\"eth0\",\"ipv4\":\"10.6.0.2/24\",\"ipv4Gateway\":\"10.6.0.1\","
		"\"ipv4Pool\":\"p4\",\"ipv6\":\"fd00::2/64\",\"ipv6Pool\":\"p6\","
		"\"routes\":[{\"dst\":\"10.9.0.0/16\",\"gw\":\"10.6.0.254\"}],\"vlan\":0},"
		"{\"interface\":\"net1\",\"ipv4\":\"10.7.0.2/24\",\"ipv4Pool\":\"gone\",\"vlan\":0}],"
		"\"node\":\"n1\",\"uid\":\"u1\"},"
		"\"ownerControllerName\":\"a\",\"ownerControllerType\":\"Pod\"}";
	struct pod_facts pod = pod_facts("a", "u1");
	struct endpoints_required w;
	char *text;

	(void)state;
	put("10.6.0.2/24", "p4", "a", "u1", "eth0");
	put("10.7.0.2/24", "gone", "a", "u1", "net1");
	put("fd00::2/64", "p6", "a", "u1", "eth0");
	put("10.6.0.3/24", "p4", "b", "u2", "eth0");
	endpoints_required(&leases, &pools, &w);
	ASSERT_EQ(w.n, 2);
	ASSERT_STR_EQ(w.v[0].name, "a");
	ASSERT_STR_EQ(w.v[0].uid, "u1");
	assert_false(w.v[0].sticky || w.v[0].retained);
	text = endpoint_status(&w.v[0], &pod, "n1");
	ASSERT_STR_EQ(text, want);
	free(text);
	assert_non_null(endpoints_required_find(&w, "default", "b"));
	assert_null(endpoints_required_find(&w, "default", "c"));
	assert_null(endpoints_required_find(&w, "other", "b"));
	endpoints_required_done(&w);
}

/* The lease table is in the order in which addresses were first seen, and retained addresses are
 * allocated again in any order. So interfaces are sorted by the time of their allocation, then
 * by name in natural order (net2 before net10). */
static void test_interfaces_of_an_endpoint_have_a_stable_order(void **state)
{
	static const char *const want[] = {"net2", "net10", "net11", "net1", NULL};
	struct lease last = lease("10.6.0.2/24", "p4", "a", "u1", "net1");
	struct endpoints_required w;
	const char *at;

	(void)state;
	last.at_ms = 2000;
	lease_put(&leases, &last);
	put("10.6.0.5/24", "p4", "a", "u1", "net11");
	put("10.6.0.3/24", "p4", "a", "u1", "net10");
	put("10.6.0.4/24", "p4", "a", "u1", "net2");
	endpoints_required(&leases, &pools, &w);
	ASSERT_EQ(w.n, 1);
	at = w.v[0].ips;
	for (size_t i = 0; want[i]; i++) {
		auto_free char *text = xasprintf("\"interface\":\"%s\"", want[i]);

		at = strstr(at, text);
		assert_non_null(at);
	}
	endpoints_required_done(&w);
}

/* The DEL of the old sandbox arrives after the ADD of the new sandbox. */
static void test_endpoint_has_only_the_addresses_of_the_newest_container(void **state)
{
	struct lease late = lease("10.6.0.9/24", "p4", "a", "u0", "eth0");
	struct endpoints_required w;

	(void)state;
	put("10.6.0.2/24", "p4", "a", "u1", "eth0");
	late.at_ms = 2000;
	lease_put(&leases, &late);
	endpoints_required(&leases, &pools, &w);
	ASSERT_EQ(w.n, 1);
	assert_non_null(strstr(w.v[0].ips, "10.6.0.9"));
	assert_null(strstr(w.v[0].ips, "10.6.0.2/"));
	endpoints_required_done(&w);
}

/*
 * Released addresses and addresses without a pod name have no object; the object of retained
 * addresses stays.
 */
static void test_free_and_nameless_leases_have_no_endpoint(void **state)
{
	struct lease l = lease("10.6.0.2/24", "p4", "a", "u1", "eth0");
	struct endpoints_required w;

	(void)state;
	l.state = LEASE_FREE;
	lease_put(&leases, &l);
	put("10.6.0.3/24", "p4", "", "u2", "eth0");
	l = lease("10.6.0.4/24", "p4", "web-0", "u3", "eth0");
	l.state = LEASE_RETAINED;
	l.sticky = true;
	lease_put(&leases, &l);
	endpoints_required(&leases, &pools, &w);
	ASSERT_EQ(w.n, 1);
	ASSERT_STR_EQ(w.v[0].name, "web-0");
	assert_true(w.v[0].retained && w.v[0].sticky);
	endpoints_required_done(&w);
}

static void owner(const char *kind, const char *name, const char *hash, const char *type,
		  const char *want)
{
	struct pod_facts pod = pod_facts("a", "u1");
	struct endpoint p = {.ips = (char *)"[]", .uid = (char *)"u1"};
	auto_free char *expect = NULL, *text = NULL;

	pod.owner_kind = (char *)kind;
	pod.owner_name = (char *)name;
	if (hash)
		labels_put(&pod.labels, "pod-template-hash", hash);
	expect = xasprintf("\"ownerControllerName\":\"%s\",\"ownerControllerType\":\"%s\"", want,
			   type);
	text = endpoint_status(&p, &pod, "n1");
	assert_non_null(strstr(text, expect));
	labels_done(&pod.labels);
}

static void test_owner_of_a_pod_is_its_top_controller(void **state)
{
	(void)state;
	owner("ReplicaSet", "app-1-9dc78fb9", "9dc78fb9", "Deployment", "app-1");
	owner("ReplicaSet", "app", "app", "ReplicaSet", "app");
	owner("ReplicaSet", "app-1", NULL, "ReplicaSet", "app-1");
	owner("StatefulSet", "web", NULL, "StatefulSet", "web");
	owner(NULL, NULL, NULL, "Pod", "a");
}

static const struct json *parse(struct json_doc **doc, const char *text)
{
	ASSERT_EQ(json_parse(doc, span_of(text), 1 << 16, NULL), 0);
	return json_root(*doc);
}

static void test_endpoint_requests_have_owner_and_status(void **state)
{
	struct pod_facts pod = pod_facts("a", "u1");
	struct endpoint p = {.ns = (char *)"default",
			     .name = (char *)"a",
			     .uid = (char *)"u1",
			     .ips = (char *)"[]"};
	struct json_doc *doc = NULL;
	const struct json *o, *ref;
	char *text = endpoint_create_text(&p, &pod, "n1", "n1");

	(void)state;
	ASSERT_STR_EQ(
		text,
		"{\"apiVersion\":\"spiderpool.spidernet.io/v2beta1\",\"kind\":\"SpiderEndpoint\","
		"\"metadata\":{\"name\":\"a\",\"labels\":{\"unirail.io/node\":\"n1\"},"
		"\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"name\":\"a\","
		"\"uid\":\"u1\"}]},\"status\":{\"current\":{\"ips\":[],\"node\":\"n1\",\"uid\":"
		"\"u1\"},\"ownerControllerName\":\"a\",\"ownerControllerType\":\"Pod\"}}");
	/* The written object is recognized as equal to the requested one. */
	o = parse(&doc, text);
	free(text);
	text = endpoint_status(&p, &pod, "n1");
	{
		auto_free char *seen = endpoint_status_of(o);

		ASSERT_STR_EQ(seen, text);
	}
	free(text);
	json_free(doc);
	/*
	 * If addresses are to be retained, the object has no owner reference, so that it is not
	 * deleted with its pod; without an owner it needs no finalizer.
	 */
	p.sticky = true;
	text = endpoint_patch_text(&p, &pod, "n1", "n1");
	o = json_get(parse(&doc, text), "metadata");
	ref = json_get(o, "ownerReferences");
	ASSERT_EQ(json_kind(ref), JSON_ARRAY);
	ASSERT_EQ(json_len(ref), 0);
	assert_non_null(strstr(text, "\"finalizers\":null"));
	/* Requests for migration are removed, since this node owns the addresses now. */
	assert_non_null(strstr(text, "\"unirail.io/requested-from\":null"));
	assert_non_null(strstr(text, "\"annotations\":{\"unirail.io/requested-by\":null}"));
	free(text);
	json_free(doc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_endpoint_lists_all_rails_of_a_pod, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_interfaces_of_an_endpoint_have_a_stable_order,
						setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_endpoint_has_only_the_addresses_of_the_newest_container, setup,
			teardown),
		cmocka_unit_test_setup_teardown(test_free_and_nameless_leases_have_no_endpoint,
						setup, teardown),
		cmocka_unit_test_setup_teardown(test_owner_of_a_pod_is_its_top_controller, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_endpoint_requests_have_owner_and_status, setup,
						teardown),
	};

	return T_RUN(tests, NULL, NULL);
}
