/* SPDX-License-Identifier: Apache-2.0 */
/* The text of the ConfigMap unirail-claims (see range_locks.h). In this file, a lock is a claim
 * in this ConfigMap. tests/cluster/test_admission.py tests two replicas that validate at the
 * same time. */
#include "testlib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "controller/admission/range_locks.h"

enum { TEXT_MAX = 1 << 20 };

#define NOW_MS (int64_t)1767225600000

static struct range_locks_request request_from(const struct json_doc *object, const char *id)
{
	return (struct range_locks_request){
		.id = id, .kind = "SpiderIPPool", .object = json_root(object)};
}

#define POOL                                                                                       \
	"{\"metadata\":{\"name\":\"p\",\"uid\":\"u1\",\"labels\":{\"a\":\"b\"}},"                  \
	"\"spec\":{\"subnet\":\"10.6.0.0/24\",\"ips\":[\"10.6.0.1\"],\"gateway\":\"10.6.0.9\"}}"

static char *write_list(const struct range_locks_list *l, const char *version)
{
	auto_json struct json_doc *object = t_json(POOL);
	struct range_locks_request q = request_from(object, "r1");
	struct buf b;

	buf_init(&b, TEXT_MAX);
	range_locks_write(l, &q, "unirail", version, NOW_MS, &b);
	return buf_take(&b);
}

static void test_first_lock_creates_the_configmap(void **state)
{
	struct range_locks_list none = {0};
	auto_free char *text = write_list(&none, NULL), *want = NULL;
	auto_json struct json_doc *object = t_json(POOL);
	char hex[DIGEST_HEX];

	(void)state;
	range_locks_digest(json_get(json_root(object), "spec"), hex);
	want = xasprintf(
		"{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":"
		"\"unirail-claims\",\"namespace\":\"unirail\"},\"data\":{\"r1\":"
		"\"{\\\"at\\\":1767225600,\\\"kind\\\":\\\"SpiderIPPool\\\",\\\"metadata\\\":"
		"{\\\"name\\\":\\\"p\\\",\\\"uid\\\":\\\"u1\\\"},\\\"spec\\\":{"
		"\\\"subnet\\\":\\\"10.6.0.0/24\\\",\\\"ips\\\":[\\\"10.6.0.1-10.6.0.1\\\"]},"
		"\\\"digest\\\":\\\"%s\\\"}\"}}",
		hex);
	ASSERT_STR_EQ(text, want);
}

/* An update keeps labels and annotations, kubectl's last-applied-configuration for instance. */
static void test_update_retains_labels_and_annotations(void **state)
{
	auto_json struct json_doc *map =
		t_json("{\"metadata\":{\"resourceVersion\":\"7\",\"uid\":\"x\","
		       "\"labels\":{\"a\":\"b\"},\"annotations\":{\"c\":\"d\"}}}");
	auto_free char *text = NULL;
	struct range_locks_list list;

	(void)state;
	range_locks_read(json_root(map), &list);
	text = write_list(&list, "7");
	assert_non_null(strstr(text,
			       "\"namespace\":\"unirail\",\"resourceVersion\":\"7\",\"labels\":"
			       "{\"a\":\"b\"},\"annotations\":{\"c\":\"d\"}},\"data\""));
	range_locks_list_done(&list);
}

/* The lock of 20,000 ranges is short, too: instead of the ranges it has the lowest and the
 * highest address of all ranges, and a digest of subnet, ips and excludeIPs. */
static void test_lock_of_many_ranges_is_short(void **state)
{
	struct range_locks_list none = {0}, list;
	auto_json struct json_doc *object = NULL, *map = NULL;
	auto_free char *text = NULL;
	struct range_locks_request q;
	char was[DIGEST_HEX], is[DIGEST_HEX];
	auto_buf struct buf b, out;

	(void)state;
	buf_init(&b, TEXT_MAX);
	buf_init(&out, TEXT_MAX);
	buf_str(&b, "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"subnet\":\"10.0.0.0/8\",\"ips\":[");
	for (int i = 20000; i > 0; i--)
		buf_printf(&b, "%s\"10.%d.%d.7\"", i < 20000 ? "," : "", i / 200, i % 200);
	buf_str(&b, "],\"excludeIPs\":[\"10.1.1.1\"]}}");
	object = t_json(b.p);
	q = request_from(object, "r1");
	range_locks_write(&none, &q, "unirail", NULL, NOW_MS, &out);
	assert_true(out.len < 500);
	assert_non_null(strstr(out.p, "10.0.1.7-10.100.0.7"));
	map = t_json(out.p);
	range_locks_read(json_root(map), &list);
	range_locks_entry_digest(&list.v[0], was);
	range_locks_digest(json_get(json_root(object), "spec"), is);
	ASSERT_STR_EQ(was, is);
	range_locks_list_done(&list);
	/* The lock of a SpiderSubnet has its subnet, but no addresses. */
	q.kind = "SpiderSubnet";
	buf_reset(&out);
	range_locks_write(&none, &q, "unirail", NULL, NOW_MS, &out);
	assert_non_null(strstr(out.p, "\\\"ips\\\":[]"));
}

/* A lock that an older version of the controller wrote has all ranges of the pool and no digest:
 * the digest is computed from the spec in the lock. */
static void test_lock_of_an_older_version_is_read(void **state)
{
	auto_json struct json_doc *map = t_json(
		"{\"data\":{\"a\":\"{\\\"at\\\":1,\\\"kind\\\":\\\"SpiderIPPool\\\",\\\"metadata\\\":{"
		"\\\"name\\\":\\\"p\\\"},\\\"spec\\\":{\\\"subnet\\\":\\\"10.6.0.0/24\\\",\\\"ips\\\":["
		"\\\"10.6.0.1\\\"]}}\"}}");
	auto_json struct json_doc *object = t_json(POOL);
	char was[DIGEST_HEX], is[DIGEST_HEX];
	struct range_locks_list list;

	(void)state;
	range_locks_read(json_root(map), &list);
	range_locks_entry_digest(&list.v[0], was);
	range_locks_digest(json_get(json_root(object), "spec"), is);
	ASSERT_STR_EQ(was, is);
	range_locks_list_done(&list);
}

/* The maximum number of locks with the longest names fits into a ConfigMap. */
static void test_full_list_of_locks_fits_into_a_configmap(void **state)
{
	char name[254];
	struct range_locks_list list = {0};
	auto_json struct json_doc *object = NULL;
	auto_free char *text = NULL;
	struct range_locks_request q;
	auto_buf struct buf b;

	(void)state;
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	text = xasprintf(
		"{\"metadata\":{\"name\":\"%s\",\"uid\":\"01234567-0123-0123-0123-0123456789ab\"},"
		"\"spec\":{\"subnet\":\"ffff:ffff:ffff:ffff:ffff:ffff:ffff:0/112\",\"ips\":["
		"\"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ff00-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff\"]}}",
		name);
	object = t_json(text);
	q = request_from(object, "01234567-0123-0123-0123-0123456789ab");
	assert_false(range_locks_are_full(&list, NOW_MS));
	for (int i = 0; i < CLAIMS_MAX; i++)
		VEC_PUSH(list.v, list.n) = (struct range_locks_entry){.at_ms = NOW_MS - i % 60000};
	assert_true(range_locks_are_full(&list, NOW_MS));
	assert_false(range_locks_are_full(&list, NOW_MS + CLAIMS_RUN_OUT_MS));
	list.v[7].drop = true;
	assert_false(range_locks_are_full(&list, NOW_MS));
	free(list.v);
	list = (struct range_locks_list){0};
	buf_init(&b, TEXT_MAX);
	range_locks_write(&list, &q, "unirail", NULL, NOW_MS, &b);
	assert_true(b.len * CLAIMS_MAX < 1 << 20);
}

/* A written list is read, and its lock is written again with the same text. */
static void test_written_list_of_locks_is_read_again(void **state)
{
	struct range_locks_list none = {0}, list;
	auto_free char *text = write_list(&none, NULL);
	auto_json struct json_doc *map = t_json(text);
	auto_free char *more = NULL;
	auto_json struct json_doc *second = NULL;

	(void)state;
	range_locks_read(json_root(map), &list);
	ASSERT_EQ(list.n, 1);
	ASSERT_STR_EQ(list.v[0].id, "r1");
	ASSERT_EQ(list.v[0].at_ms, NOW_MS);
	free(list.v[0].id);
	list.v[0].id = xstrdup("r0");
	more = write_list(&list, "7");
	range_locks_list_done(&list);
	second = t_json(more);
	ASSERT_STR_EQ(json_string(json_get(json_get(json_root(second), "data"), "r0")),
		      json_string(json_get(json_get(json_root(map), "data"), "r1")));
	ASSERT_STR_EQ(
		json_string(json_get(json_get(json_root(second), "metadata"), "resourceVersion")),
		"7");
}

/* Returns how many of n locks remain when another lock is written; len: length of
 * each lock's text. */
static size_t remaining_of(size_t n, size_t len, int64_t age_ms, bool drop)
{
	struct range_locks_list list = {0}, after;
	auto_json struct json_doc *map = NULL;
	auto_free char *text = NULL;
	size_t left;

	for (size_t i = 0; i < n; i++)
		VEC_PUSH(list.v, list.n) = (struct range_locks_entry){
			.id = xasprintf("r0-%zu", i),
			.doc = t_json("{\"at\":1,\"kind\":\"SpiderIPPool\",\"metadata\":{\"name\":"
				      "\"q\"}}"),
			.at_ms = NOW_MS - age_ms,
			.len = len,
			.drop = drop};
	text = write_list(&list, NULL);
	map = t_json(text);
	range_locks_read(json_root(map), &after);
	left = after.n - 1;
	range_locks_list_done(&list);
	range_locks_list_done(&after);
	return left;
}

static size_t remaining(size_t n, int64_t age_ms, bool drop)
{
	return remaining_of(n, 100, age_ms, drop);
}

static void test_locks_are_dropped_after_their_maximum_age(void **state)
{
	(void)state;
	ASSERT_EQ(remaining(3, CLAIMS_RETAINED_MS - 1000, false), 3);
	ASSERT_EQ(remaining(3, CLAIMS_RETAINED_MS, false), 0);
	ASSERT_EQ(remaining(3, 0, true), 0);
	ASSERT_EQ(remaining(CLAIMS_MANY, CLAIMS_RUN_OUT_MS, false), 0);
	ASSERT_EQ(remaining(CLAIMS_MANY, CLAIMS_RUN_OUT_MS - 1000, false), CLAIMS_MANY);
}

/* If the list is long, locks are dropped earlier so that the ConfigMap, which is limited to 1
 * MiB, has space for the next lock. */
static void test_locks_of_a_long_list_are_dropped_earlier(void **state)
{
	(void)state;
	ASSERT_EQ(remaining_of(8, CLAIMS_LONG / 8 - 1, CLAIMS_RUN_OUT_MS, false), 8);
	ASSERT_EQ(remaining_of(8, CLAIMS_LONG / 8, CLAIMS_RUN_OUT_MS, false), 0);
	ASSERT_EQ(remaining_of(8, CLAIMS_LONG / 8, CLAIMS_RUN_OUT_MS - 1000, false), 8);
}

static void test_parsed_lock_has_the_length_of_its_text(void **state)
{
	struct range_locks_list none = {0}, list;
	auto_free char *text = write_list(&none, NULL);
	auto_json struct json_doc *map = t_json(text);

	(void)state;
	range_locks_read(json_root(map), &list);
	ASSERT_EQ(list.v[0].len,
		  strlen(json_string(json_get(json_get(json_root(map), "data"), "r1"))));
	range_locks_list_done(&list);
}

static void test_invalid_entries_of_the_configmap_are_skipped(void **state)
{
	static const char map[] =
		"{\"data\":{\"a\":\"x\",\"b\":\"{}\",\"c\":\"{\\\"at\\\":1,\\\"kind\\\":"
		"\\\"SpiderIPPool\\\",\\\"metadata\\\":{\\\"name\\\":\\\"p\\\"}}\",\"d\":7,"
		"\"e\":\"{\\\"at\\\":9223372036854775807,\\\"kind\\\":\\\"SpiderIPPool\\\","
		"\\\"metadata\\\":{\\\"name\\\":\\\"p\\\"}}\"}}";
	auto_json struct json_doc *doc = t_json(map);
	struct range_locks_list list;

	(void)state;
	range_locks_read(json_root(doc), &list);
	ASSERT_EQ(list.n, 1);
	ASSERT_STR_EQ(list.v[0].id, "c");
	range_locks_list_done(&list);
	range_locks_read(NULL, &list);
	ASSERT_EQ(list.n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_lock_creates_the_configmap),
		cmocka_unit_test(test_written_list_of_locks_is_read_again),
		cmocka_unit_test(test_locks_are_dropped_after_their_maximum_age),
		cmocka_unit_test(test_locks_of_a_long_list_are_dropped_earlier),
		cmocka_unit_test(test_update_retains_labels_and_annotations),
		cmocka_unit_test(test_lock_of_many_ranges_is_short),
		cmocka_unit_test(test_lock_of_an_older_version_is_read),
		cmocka_unit_test(test_full_list_of_locks_fits_into_a_configmap),
		cmocka_unit_test(test_parsed_lock_has_the_length_of_its_text),
		cmocka_unit_test(test_invalid_entries_of_the_configmap_are_skipped),
	};

	return T_RUN(tests, NULL, NULL);
}
