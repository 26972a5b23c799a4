/* SPDX-License-Identifier: Apache-2.0 */
/* controller/world: what is kept of an object. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "controller/world.h"

static void expect(enum world_kind kind, const char *object, const char *kept)
{
	auto_json struct json_doc *doc = NULL;
	struct err e = ERR_INIT;
	auto_buf struct buf b;

	buf_init(&b, 4096);
	assert_int_equal(json_parse(&doc, span_of(object), 4096, &e), 0);
	world_trim(kind, json_root(doc), &b);
	assert_string_equal(b.p, kept);
}

static void test_what_is_kept(void **state)
{
	(void)state;
	expect(WORLD_POOLS,
	       "{\"apiVersion\":\"x/v1\",\"kind\":\"SpiderIPPool\",\"metadata\":{\"name\":\"p\",\"uid\":\"u\","
	       "\"managedFields\":[{\"manager\":\"m\"}],\"annotations\":{\"a\":\"1\","
	       "\"kubectl.kubernetes.io/last-applied-configuration\":\"{}\"},\"finalizers\":[\"f\"]},"
	       "\"spec\":{\"subnet\":\"10.6.0.0/16\"},"
	       "\"status\":{\"totalIPCount\":3,\"allocatedIPs\":\"{}\"}}",
	       "{\"metadata\":{\"name\":\"p\",\"uid\":\"u\",\"annotations\":{\"a\":\"1\"},"
	       "\"finalizers\":[\"f\"]},\"spec\":{\"subnet\":\"10.6.0.0/16\"},"
	       "\"status\":{\"totalIPCount\":3}}");
	expect(WORLD_SUBNETS,
	       "{\"metadata\":{\"name\":\"s\"},\"status\":{\"controlledIPPools\":\"{}\"}}",
	       "{\"metadata\":{\"name\":\"s\"},\"status\":{\"controlledIPPools\":\"{}\"}}");
	expect(WORLD_NAMESPACES,
	       "{\"metadata\":{\"name\":\"n\",\"uid\":\"u\",\"resourceVersion\":\"7\",\"labels\":{\"l\":\"1\"},"
	       "\"annotations\":{\"cni.spidernet.io/rdma-resource-inject\":\"g\",\"other\":\"x\"}},"
	       "\"spec\":{\"finalizers\":[\"kubernetes\"]},\"status\":{\"phase\":\"Active\"}}",
	       "{\"metadata\":{\"name\":\"n\",\"uid\":\"u\",\"labels\":{\"l\":\"1\"},"
	       "\"annotations\":{\"cni.spidernet.io/rdma-resource-inject\":\"g\"}}}");
}

static void test_what_is_not_an_object(void **state)
{
	(void)state;
	expect(WORLD_NADS, "{}", "{\"metadata\":{}}");
	expect(WORLD_NADS, "{\"metadata\":3,\"spec\":[],\"status\":null}",
	       "{\"metadata\":{},\"spec\":[],\"status\":null}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_kept),
		cmocka_unit_test(test_what_is_not_an_object),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
