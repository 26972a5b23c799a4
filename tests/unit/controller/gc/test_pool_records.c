/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spiderpool's status text of allocated addresses, and the stored parts of Nodes and
 * SpiderEndpoints.
 */
#include "testlib.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "controller/gc/gc_cache.h"
#include "controller/gc/pool_status_write.h"
#include "wire/json/json.h"

static struct ipaddr ip_of(const char *text)
{
	struct ipaddr a;

	ASSERT_EQ(ip_parse(span_of(text), &a), 0);
	return a;
}

static void add(struct records *r, const char *ip, const char *ns, const char *pod, const char *uid)
{
	records_add(r, &(struct record){ip_of(ip), ns, pod, uid});
}

static void assert_text(struct records *r, size_t max, const char *want)
{
	auto_free char *text = records_text(r, max);

	ASSERT_STR_EQ(text, want);
}

/* As in Go, keys are in byte order, and an empty map is an empty text instead of "{}". */
static void test_allocated_addresses_are_written_like_go(void **state)
{
	struct records r = {0};

	(void)state;
	assert_text(&r, 10, "");
	add(&r, "10.6.0.9", "a", "p", "u1");
	add(&r, "10.6.0.10", NULL, "b/q", "u2");
	add(&r, "fd00::a", "a", "p", "u1");
	add(&r, "10.6.0.9", NULL, "c/r", "u3"); /* said later */
	assert_text(&r, 10,
		    "{\"10.6.0.10\":{\"pod\":\"b/q\",\"podUid\":\"u2\"},"
		    "\"10.6.0.9\":{\"pod\":\"a/p\",\"podUid\":\"u1\"},"
		    "\"fd00::a\":{\"pod\":\"a/p\",\"podUid\":\"u1\"}}");
	ASSERT_EQ(r.n, 3);
	assert_text(&r, 1, "{\"10.6.0.10\":{\"pod\":\"b/q\",\"podUid\":\"u2\"}}");
	assert_text(&r, 0, "");
	records_done(&r);
}

/*
 * Names may have 253 characters, an object 1.5 MiB. Existing records are not dropped, since an
 * object had space for them.
 */
static void test_too_long_text_drops_new_records(void **state)
{
	char uid[37], name[254];
	struct records r = {0};
	auto_free char *text = NULL, *all = NULL;
	auto_json struct json_doc *d = NULL;
	struct err e = ERR_INIT;

	(void)state;
	memset(uid, 'u', 36);
	memset(name, 'n', 253);
	uid[36] = name[253] = '\0';
	for (uint32_t i = 0; i < RECORDS_MAX; i++)
		records_add(&r, &(struct record){ip_from_num(4, 0x0a000000 + i), "ns", name, uid});
	text = records_text(&r, RECORDS_MAX);
	assert_in_range(strlen(text), RECORDS_TEXT_MAX - 1000, RECORDS_TEXT_MAX + 1000);
	ASSERT_EQ(json_parse(&d, span_of(text), RECORDS_TEXT_MAX + 1000, &e), 0);
	ASSERT_EQ(json_kind(json_get(json_root(d), "10.0.0.0")), JSON_OBJECT);
	all = records_text(&r, SIZE_MAX);
	assert_true(strlen(all) > 5000 * 253);
	records_done(&r);
}

static void test_readiness_and_deletion_of_nodes_are_read(void **state)
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

/* Malformed objects do not crash the parser. */
static void test_malformed_endpoints_do_not_crash(void **state)
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
		cmocka_unit_test(test_allocated_addresses_are_written_like_go),
		cmocka_unit_test(test_too_long_text_drops_new_records),
		cmocka_unit_test(test_readiness_and_deletion_of_nodes_are_read),
		cmocka_unit_test(test_endpoint_fields_for_gc_are_read),
		cmocka_unit_test(test_malformed_endpoints_do_not_crash),
	};

	return T_RUN(tests, NULL, NULL);
}
