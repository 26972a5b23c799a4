/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of Nodes and SpiderEndpoints that garbage collection stores. */
#include "testlib.h"

#include <string.h>

#include "base/alloc.h"
#include "controller/gc/gc_cache.h"
#include "wire/json/json.h"

static void test_readiness_and_fencing_of_nodes_are_read(void **state)
{
	static const struct {
		const char *text;
		bool ready, fenced;
	} v[] = {
		{"{}", false, false},
		{"{\"status\":{\"conditions\":[{\"type\":\"DiskPressure\",\"status\":\"True\"}]}}",
		 false, false},
		{"{\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]}}", true,
		 false},
		{"{\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"Unknown\"}]},"
		 "\"spec\":{\"taints\":[{\"key\":\"node.kubernetes.io/unreachable\"}]}}",
		 false, false},
		{"{\"spec\":{\"taints\":[{\"key\":\"x\"},"
		 "{\"key\":\"node.kubernetes.io/out-of-service\"}]}}",
		 false, true},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		auto_json struct json_doc *d = t_json(v[i].text);
		struct gc_cache_node n = {0};

		gc_cache_read_node(json_root(d), &n);
		ASSERT_EQ_MSG(n.ready, v[i].ready, "v[%zu]", i);
		ASSERT_EQ_MSG(n.fenced, v[i].fenced, "v[%zu]", i);
	}
}

static void test_endpoint_fields_for_gc_are_read(void **state)
{
	auto_json struct json_doc *d =
		t_json("{\"metadata\":{\"name\":\"p\",\"labels\":{\"unirail.io/node\":\"n1\"},"
		       "\"finalizers\":[\"a.b/c\",\"spiderpool.spidernet.io\",\"d\"],"
		       "\"ownerReferences\":[{\"kind\":\"Pod\",\"name\":\"p\"}]},"
		       "\"status\":{\"current\":{\"uid\":\"u\",\"node\":\"n1\",\"ips\":["
		       "{\"interface\":\"eth0\",\"ipv4\":\"10.0.0.5/24\",\"ipv4Pool\":\"a\","
		       "\"ipv6\":\"fd00::5/64\",\"ipv6Pool\":\"b\"},"
		       "{\"interface\":\"\"},{\"ipv4\":\"bad\",\"ipv4Pool\":\"c\"},"
		       "{\"interface\":\"net1\",\"ipv4\":\"10.0.1.5\",\"ipv4Pool\":\"c\"}]}}}");
	struct gc_cache_endpoint x = {0};

	(void)state;
	gc_cache_read_endpoint(json_root(d), &x);
	assert_true(x.by_unirail && x.owned && x.finalizer && !x.deleting);
	ASSERT_STR_EQ(x.uid, "u");
	ASSERT_STR_EQ(x.node, "n1");
	ASSERT_EQ(x.n, 3);
	ASSERT_STR_EQ(x.v[1].pool, "b");
	ASSERT_EQ(x.v[1].ip.family, 6);
	ASSERT_STR_EQ(x.v[2].pool, "c");
	assert_memory_equal(x.other_finalizers, "a.b/c\0d\0", 9);
	gc_cache_endpoint_done(&x);
}

/* If the other finalizers exceed GC_FINALIZERS_MAX, the list cannot be written back whole: the
 * endpoint is read as if it had no Spiderpool finalizer, so GC does not remove that finalizer. */
static void test_finalizer_beside_more_than_4_kib_of_others_stays(void **state)
{
	static const size_t lengths[] = {GC_FINALIZERS_MAX - 2, GC_FINALIZERS_MAX - 1,
					 2 * GC_FINALIZERS_MAX};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
		auto_free char *name = xcalloc(1, lengths[i] + 1);
		auto_free char *text = NULL;
		auto_json struct json_doc *d = NULL;
		struct gc_cache_endpoint x = {0};

		memset(name, 'a', lengths[i]);
		text = xasprintf(
			"{\"metadata\":{\"finalizers\":[\"spiderpool.spidernet.io\",\"%s\"]}}",
			name);
		d = t_json(text);
		gc_cache_read_endpoint(json_root(d), &x);
		ASSERT_EQ_MSG(x.finalizer, i == 0, "lengths[%zu]", i);
		if (x.finalizer)
			assert_memory_equal(x.other_finalizers + lengths[i], "\0", 2);
		else
			assert_null(x.other_finalizers);
		gc_cache_endpoint_done(&x);
	}
}

static void test_malformed_endpoints_are_read_as_empty(void **state)
{
	static const char *const texts[] = {"{}", "{\"status\":7,\"metadata\":{\"finalizers\":{}}}",
					    "{\"status\":{\"current\":{\"ips\":[1,null,{}]}}}"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		auto_json struct json_doc *d = t_json(texts[i]);
		struct gc_cache_endpoint x = {0};

		gc_cache_read_endpoint(json_root(d), &x);
		ASSERT_EQ_MSG(x.n, 0, "texts[%zu]", i);
		ASSERT_STR_EQ_MSG(x.uid, "", "texts[%zu]", i);
		assert_false(x.finalizer || x.by_unirail || x.owned);
		gc_cache_endpoint_done(&x);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_readiness_and_fencing_of_nodes_are_read),
		cmocka_unit_test(test_endpoint_fields_for_gc_are_read),
		cmocka_unit_test(test_finalizer_beside_more_than_4_kib_of_others_stays),
		cmocka_unit_test(test_malformed_endpoints_are_read_as_empty),
	};

	return T_RUN(tests, NULL, NULL);
}
