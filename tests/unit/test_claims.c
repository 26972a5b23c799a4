/* SPDX-License-Identifier: Apache-2.0 */
/* The ConfigMap of claims as text. What happens between two replicas: tests/cluster/test_admission.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "controller/claims.h"

enum { TEXT_MAX = 1 << 20 };

#define NOW_MS (int64_t)1767225600000

static struct json_doc *parse(const char *text)
{
	struct json_doc *doc;
	struct err e = ERR_INIT;

	if (json_parse(&doc, span_of(text), TEXT_MAX, &e) < 0)
		fail_msg("%s: %s", text, e.text);
	return doc;
}

static struct claims_ask ask_of(const struct json_doc *object, const char *id)
{
	return (struct claims_ask){.id = id, .kind = "SpiderIPPool", .object = json_root(object)};
}

#define POOL                                                                                       \
	"{\"metadata\":{\"name\":\"p\",\"uid\":\"u1\",\"labels\":{\"a\":\"b\"}},"                  \
	"\"spec\":{\"subnet\":\"10.6.0.0/24\",\"ips\":[\"10.6.0.1\"],\"gateway\":\"10.6.0.9\"}}"

static char *write_list(const struct claims_list *l, const char *version)
{
	auto_json struct json_doc *object = parse(POOL);
	struct claims_ask q = ask_of(object, "r1");
	struct buf b;

	buf_init(&b, TEXT_MAX);
	claims_write(l, &q, "unirail", version, NOW_MS, &b);
	return buf_take(&b);
}

static void test_first(void **state)
{
	struct claims_list none = {0};
	auto_free char *text = write_list(&none, NULL);

	(void)state;
	assert_string_equal(
		text, "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":"
		      "\"unirail-claims\",\"namespace\":\"unirail\"},\"data\":{\"r1\":"
		      "\"{\\\"at\\\":1767225600,\\\"kind\\\":\\\"SpiderIPPool\\\",\\\"metadata\\\":"
		      "{\\\"name\\\":\\\"p\\\",\\\"uid\\\":\\\"u1\\\"},\\\"spec\\\":{"
		      "\\\"subnet\\\":\\\"10.6.0.0/24\\\",\\\"ips\\\":[\\\"10.6.0.1\\\"]}}\"}}");
}

/* What is written is read, and written again as it was. */
static void test_again(void **state)
{
	struct claims_list none = {0}, list;
	auto_free char *text = write_list(&none, NULL);
	auto_json struct json_doc *map = parse(text);
	auto_free char *more = NULL;
	auto_json struct json_doc *second = NULL;

	(void)state;
	claims_read(json_root(map), &list);
	assert_int_equal(list.n, 1);
	assert_string_equal(list.v[0].id, "r1");
	assert_int_equal(list.v[0].at_ms, NOW_MS);
	free(list.v[0].id);
	list.v[0].id = xstrdup("r0");
	more = write_list(&list, "7");
	claims_list_done(&list);
	second = parse(more);
	assert_string_equal(json_string(json_get(json_get(json_root(second), "data"), "r0")),
			    json_string(json_get(json_get(json_root(map), "data"), "r1")));
	assert_string_equal(
		json_string(json_get(json_get(json_root(second), "metadata"), "resourceVersion")),
		"7");
}

/* Of n claims, each with so long a text. */
static size_t kept_of(size_t n, size_t len, int64_t age_ms, bool drop)
{
	struct claims_list list = {0}, after;
	auto_json struct json_doc *map = NULL;
	auto_free char *text = NULL;
	size_t left;

	for (size_t i = 0; i < n; i++)
		VEC_PUSH(list.v, list.n) = (struct claims_entry){
			.id = xasprintf("r0-%zu", i),
			.doc = parse("{\"at\":1,\"kind\":\"SpiderIPPool\",\"metadata\":{\"name\":"
				     "\"q\"}}"),
			.at_ms = NOW_MS - age_ms,
			.len = len,
			.drop = drop};
	text = write_list(&list, NULL);
	map = parse(text);
	claims_read(json_root(map), &after);
	left = after.n - 1;
	claims_list_done(&list);
	claims_list_done(&after);
	return left;
}

static size_t kept(size_t n, int64_t age_ms, bool drop)
{
	return kept_of(n, 100, age_ms, drop);
}

static void test_how_long(void **state)
{
	(void)state;
	assert_int_equal(kept(3, CLAIMS_KEPT_MS - 1000, false), 3);
	assert_int_equal(kept(3, CLAIMS_KEPT_MS, false), 0);
	assert_int_equal(kept(3, 0, true), 0);
	assert_int_equal(kept(CLAIMS_MANY, CLAIMS_RUN_OUT_MS, false), 0);
	assert_int_equal(kept(CLAIMS_MANY, CLAIMS_RUN_OUT_MS - 1000, false), CLAIMS_MANY);
}

/* The ConfigMap has room for the next one, whatever there is in the pools. */
static void test_long_ones(void **state)
{
	(void)state;
	assert_int_equal(kept_of(8, CLAIMS_LONG / 8 - 1, CLAIMS_RUN_OUT_MS, false), 8);
	assert_int_equal(kept_of(8, CLAIMS_LONG / 8, CLAIMS_RUN_OUT_MS, false), 0);
	assert_int_equal(kept_of(8, CLAIMS_LONG / 8, CLAIMS_RUN_OUT_MS - 1000, false), 8);
}

/* Read, a claim's length is its text's. */
static void test_length(void **state)
{
	struct claims_list none = {0}, list;
	auto_free char *text = write_list(&none, NULL);
	auto_json struct json_doc *map = parse(text);

	(void)state;
	claims_read(json_root(map), &list);
	assert_int_equal(list.v[0].len,
			 strlen(json_string(json_get(json_get(json_root(map), "data"), "r1"))));
	claims_list_done(&list);
}

/* By others' hands. */
static void test_rubbish(void **state)
{
	static const char map[] =
		"{\"data\":{\"a\":\"x\",\"b\":\"{}\",\"c\":\"{\\\"at\\\":1,\\\"kind\\\":"
		"\\\"SpiderIPPool\\\",\\\"metadata\\\":{\\\"name\\\":\\\"p\\\"}}\",\"d\":7,"
		"\"e\":\"{\\\"at\\\":9223372036854775807,\\\"kind\\\":\\\"SpiderIPPool\\\","
		"\\\"metadata\\\":{\\\"name\\\":\\\"p\\\"}}\"}}";
	auto_json struct json_doc *doc = parse(map);
	struct claims_list list;

	(void)state;
	claims_read(json_root(doc), &list);
	assert_int_equal(list.n, 1);
	assert_string_equal(list.v[0].id, "c");
	claims_list_done(&list);
	claims_read(NULL, &list);
	assert_int_equal(list.n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first),	 cmocka_unit_test(test_again),
		cmocka_unit_test(test_how_long), cmocka_unit_test(test_long_ones),
		cmocka_unit_test(test_length),	 cmocka_unit_test(test_rubbish),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
