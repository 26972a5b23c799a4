/* SPDX-License-Identifier: Apache-2.0 */
/* Spiderpool's status text of allocated addresses. */
#include "testlib.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "controller/gc/pool_status_write.h"
#include "wire/json/json.h"

static void add(struct records *r, const char *ip, const char *ns, const char *pod, const char *uid)
{
	records_add(r, &(struct record){t_ip(ip), ns, pod, uid});
}

static void assert_text(struct records *r, size_t max, const char *want)
{
	auto_free char *text = records_text(r, max);

	ASSERT_STR_EQ(text, want);
}

/* Keys are in byte order, as Go writes a map. Without records the text is "" (not "{}"), as in
 * Spiderpool. */
static void test_allocated_ips_are_written_in_the_format_of_spiderpool(void **state)
{
	struct records r = {0};

	(void)state;
	assert_text(&r, 10, "");
	add(&r, "10.6.0.9", "a", "p", "u1");
	add(&r, "10.6.0.10", NULL, "b/q", "u2");
	add(&r, "fd00::a", "a", "p", "u1");
	add(&r, "10.6.0.9", NULL, "c/r", "u3"); /* a second record of an address is ignored */
	assert_text(&r, 10,
		    "{\"10.6.0.10\":{\"pod\":\"b/q\",\"podUid\":\"u2\"},"
		    "\"10.6.0.9\":{\"pod\":\"a/p\",\"podUid\":\"u1\"},"
		    "\"fd00::a\":{\"pod\":\"a/p\",\"podUid\":\"u1\"}}");
	ASSERT_EQ(r.n, 3);
	assert_text(&r, 1, "{\"10.6.0.10\":{\"pod\":\"b/q\",\"podUid\":\"u2\"}}");
	assert_text(&r, 0, "");
	records_done(&r);
}

/* 5,000 records with pod names of 253 characters exceed etcd's size limit for an object, so the
 * last records are omitted, unless the maximum number of records is SIZE_MAX. */
static void test_text_beyond_its_maximum_length_omits_the_last_records(void **state)
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
	for (uint32_t i = 0; i < 5000; i++)
		records_add(&r, &(struct record){ip_from_num(4, 0x0a000000 + i), "ns", name, uid});
	text = records_text(&r, 5000);
	assert_in_range(strlen(text), RECORDS_TEXT_MAX - 1000, RECORDS_TEXT_MAX + 1000);
	ASSERT_EQ(json_parse(&d, span_of(text), RECORDS_TEXT_MAX + 1000, &e), 0);
	ASSERT_EQ(json_kind(json_get(json_root(d), "10.0.0.0")), JSON_OBJECT);
	all = records_text(&r, SIZE_MAX);
	assert_true(strlen(all) > 5000 * 253);
	records_done(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_allocated_ips_are_written_in_the_format_of_spiderpool),
		cmocka_unit_test(test_text_beyond_its_maximum_length_omits_the_last_records),
	};

	return T_RUN(tests, NULL, NULL);
}
