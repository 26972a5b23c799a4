/* SPDX-License-Identifier: Apache-2.0 */
/* controller/cache: which part of an object is stored. */
#include "testlib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "controller/cache/cache.h"
#include "kube/spent.h"

static char *text_of(const struct json *v)
{
	struct json_out o;
	struct buf b;

	buf_init(&b, 1 << 20);
	jo_init(&o, &b, 0);
	jo_val(&o, v, false);
	return buf_take(&b);
}

static void expect(enum cluster_cache_kind kind, const char *object, const char *stored)
{
	auto_json struct json_doc *doc = NULL;
	struct err e = ERR_INIT;
	auto_buf struct buf b;

	buf_init(&b, 4096);
	ASSERT_EQ(json_parse(&doc, span_of(object), 4096, &e), 0);
	cluster_cache_trim(kind, json_root(doc), &b);
	ASSERT_STR_EQ(b.p, stored);
}

static void test_only_needed_fields_are_cached(void **state)
{
	(void)state;
	expect(CLUSTER_CACHE_POOLS,
	       "{\"apiVersion\":\"x/v1\",\"kind\":\"SpiderIPPool\",\"metadata\":{\"name\":\"p\",\"uid\":\"u\","
	       "\"managedFields\":[{\"manager\":\"m\"}],\"annotations\":{\"a\":\"1\","
	       "\"kubectl.kubernetes.io/last-applied-configuration\":\"{}\"},\"finalizers\":[\"f\"]},"
	       "\"spec\":{\"subnet\":\"10.6.0.0/16\"},"
	       "\"status\":{\"totalIPCount\":3,\"allocatedIPs\":\"{}\"}}",
	       "{\"metadata\":{\"name\":\"p\",\"uid\":\"u\",\"annotations\":{\"a\":\"1\"},"
	       "\"finalizers\":[\"f\"]},\"spec\":{\"subnet\":\"10.6.0.0/16\"},"
	       "\"status\":{\"totalIPCount\":3}}");
	expect(CLUSTER_CACHE_SUBNETS,
	       "{\"metadata\":{\"name\":\"s\"},\"status\":{\"controlledIPPools\":\"{}\"}}",
	       "{\"metadata\":{\"name\":\"s\"},\"status\":{\"controlledIPPools\":\"{}\"}}");
	expect(CLUSTER_CACHE_NAMESPACES,
	       "{\"metadata\":{\"name\":\"n\",\"uid\":\"u\",\"resourceVersion\":\"7\",\"labels\":{\"l\":\"1\"},"
	       "\"annotations\":{\"cni.spidernet.io/rdma-resource-inject\":\"g\",\"other\":\"x\"}},"
	       "\"spec\":{\"finalizers\":[\"kubernetes\"]},\"status\":{\"phase\":\"Active\"}}",
	       "{\"metadata\":{\"name\":\"n\",\"uid\":\"u\",\"labels\":{\"l\":\"1\"},"
	       "\"annotations\":{\"cni.spidernet.io/rdma-resource-inject\":\"g\"}}}");
}

static void test_spec_and_status_of_wrong_type_are_cached_as_they_are(void **state)
{
	(void)state;
	expect(CLUSTER_CACHE_NADS, "{}", "{\"metadata\":{}}");
	expect(CLUSTER_CACHE_NADS, "{\"metadata\":3,\"spec\":[],\"status\":null}",
	       "{\"metadata\":{},\"spec\":[],\"status\":null}");
}

/* --- limits --- */

/* Decodes the object `fmt`, in which n bytes replace `%s`. Returns its size if it is too large
 * to be cached completely, otherwise 0. */
static size_t decoded(enum cluster_cache_kind kind, const char *fmt, size_t n,
		      struct cluster_cache_object *v)
{
	auto_free char *pad = xcalloc(n + 1, 1), *text = NULL;
	const char *at = strstr(fmt, "%s");
	auto_json struct json_doc *doc = NULL;

	memset(pad, 'x', n);
	text = xasprintf("%.*s%s%s", (int)(at - fmt), fmt, pad, at + 2);
	*v = (struct cluster_cache_object){0};
	ASSERT_EQ(json_parse(&doc, span_of(text), 8 << 20, NULL), 0);
	ASSERT_EQ(cluster_cache_decode(kind, v, json_root(doc), NULL), 0);
	return v->large;
}

#define SMC                                                                                             \
	"{\"metadata\":{\"name\":\"n\",\"namespace\":\"t\",\"uid\":\"u\",\"generation\":3,\"labels\":{" \
	"\"l\":\"1\"},\"annotations\":{\"multus.spidernet.io/cr-name\":\"m\",\"a\":\"1\"}},\"spec\":{"  \
	"\"customCNI\":\"%s\"},\"status\":{\"nad\":\"m\"}}"

/* Of an object that is too large, only identifying metadata and a few annotations are stored,
 * and also the status if the object is a SpiderMultusConfig. */
static void test_large_object_is_cached_without_its_spec(void **state)
{
	struct cluster_cache_object v;
	char *text;

	(void)state;
	ASSERT_EQ(decoded(CLUSTER_CACHE_MULTUSCONFIGS, SMC, 256 << 10, &v), 0);
	assert_in_range(v.bytes, 256 << 10, 260 << 10);
	json_free(v.doc);
	assert_in_range(decoded(CLUSTER_CACHE_MULTUSCONFIGS, SMC, 1300 << 10, &v), 1300 << 10,
			1304 << 10);
	assert_in_range(v.bytes, 1, 1024);
	text = text_of(v.json);
	ASSERT_STR_EQ(text, "{\"metadata\":{\"name\":\"n\",\"namespace\":\"t\",\"uid\":\"u\","
			    "\"generation\":3,\"annotations\":{"
			    "\"multus.spidernet.io/cr-name\":\"m\"}},"
			    "\"status\":{\"nad\":\"m\"}}");
	free(text);
	json_free(v.doc);
	assert_in_range(
		decoded(CLUSTER_CACHE_NAMESPACES,
			"{\"metadata\":{\"name\":\"n\",\"labels\":{\"l\":\"%s\"},"
			"\"annotations\":{\"ipam.spidernet.io/default-ipv4-ippool\":\"p\"}}}",
			200 << 10, &v),
		200 << 10, 201 << 10);
	text = text_of(v.json);
	ASSERT_STR_EQ(text, "{\"metadata\":{\"name\":\"n\",\"annotations\":{"
			    "\"ipam.spidernet.io/default-ipv4-ippool\":\"p\"}}}");
	free(text);
	json_free(v.doc);
	/* Pools have no size limit, because tenants cannot write them. */
	ASSERT_EQ(decoded(CLUSTER_CACHE_POOLS, "{\"metadata\":{\"name\":\"%s\"}}", 3 << 20, &v), 0);
	json_free(v.doc);
}

/*
 * Each namespace has a limit, and all namespaces together have one; deleting an object frees its
 * part.
 */
static void test_cache_is_limited_by_namespace_and_in_total(void **state)
{
	struct kube_spent s = {
		CLUSTER_CACHE_NS_MAX, CLUSTER_CACHE_TOTAL_MAX, CLUSTER_CACHE_SMALL, NULL, 0, 0};
	char ns[16];
	size_t n = 0;

	(void)state;
	for (int i = 0; i < 4; i++)
		assert_true(kube_spent_more(&s, "b", 1 << 20));
	assert_false(kube_spent_more(&s, "b", 1));
	assert_true(kube_spent_more(&s, "a", 1 << 20));
	kube_spent_less(&s, "b", 1 << 20);
	assert_true(kube_spent_more(&s, "b", 1 << 20));
	kube_spent_less(&s, "unknown", 1);
	for (int i = 0; i < 100; i++) {
		snprintf(ns, sizeof(ns), "c%d", i * 37 % 100);
		n += kube_spent_more(&s, ns, 1 << 20);
	}
	ASSERT_EQ(n, 64 - 5);
	assert_true(kube_spent_more(&s, "small", 16 << 10));
	kube_spent_less(&s, "a", 1 << 20);
	ASSERT_EQ(s.total, (63 << 20) + (16 << 10));
	kube_spent_done(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_only_needed_fields_are_cached),
		cmocka_unit_test(test_spec_and_status_of_wrong_type_are_cached_as_they_are),
		cmocka_unit_test(test_large_object_is_cached_without_its_spec),
		cmocka_unit_test(test_cache_is_limited_by_namespace_and_in_total),
	};

	return T_RUN(tests, NULL, NULL);
}
