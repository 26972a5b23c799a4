/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "wire/json/json.h"

enum { MAX = 1 << 20 };

static void refused(const char *text, const char *expected)
{
	struct json_doc *d = NULL;
	struct err e = ERR_INIT;

	assert_true(json_parse(&d, span_of(text), MAX, &e) < 0);
	assert_null(d);
	ASSERT_EQ(e.kind, ERR_DECODE);
	ASSERT_STR_EQ(e.text, expected);
}

static void test_syntax_errors_name_line_and_column(void **state)
{
	(void)state;
	refused("", "unexpected end of JSON input");
	refused(" \n", "unexpected end of JSON input");
	refused("{\"name\":", "1:9: unexpected end of JSON input");
	refused("{\n  \"a\": 1,\n  \"\u00e9\": tru }", "3:8: invalid literal, expected a valid "
						       "literal such as 'true'");
	refused("{\"a\":1} x", "1:9: unexpected content after document");
	refused("{\"a\":1,}", "1:7: trailing comma is not allowed");
	refused("{'a':1}", "1:2: unexpected character, expected a string for object key");
	refused("[NaN]", "1:2: unexpected character, expected a valid JSON value");
	refused("[01]", "1:2: number with leading zero is not allowed");
	refused("[/* */1]", "1:2: unexpected character, expected a valid JSON value");
}

static void test_invalid_strings_are_refused(void **state)
{
	(void)state;
	refused("{\"a\":\"x\\u0000y\"}", "1:8: NUL character in string");
	refused("{\"a\\u0000\":1}", "1:4: NUL character in string");
	refused("[\"\xff\"]", "1:3: invalid UTF-8 encoding in string");
	refused("[\"\xc0\x80\"]", "1:3: invalid UTF-8 encoding in string");
	refused("[\"\\ud800\"]", "1:9: no low surrogate in string");
	json_free(t_json("[\"\\\\u0000\", \"\\\"{[\"]"));
	json_free(t_json("[\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"]"));
}

static void test_documents_that_are_too_deep_or_large_are_refused(void **state)
{
	char deep[80];
	struct json_doc *d = NULL;
	struct err e = ERR_INIT;

	(void)state;
	memset(deep, '[', 40);
	memset(deep + 40, ']', 40);
	assert_true(json_parse(&d, (struct span){deep, 80}, MAX, &e) < 0);
	ASSERT_STR_EQ(e.text, "1:33: nested deeper than 32 levels");
	ASSERT_EQ(json_parse(&d, (struct span){deep + 8, 64}, MAX, &e), 0);
	json_free(d);
	d = NULL;
	ASSERT_EQ(json_parse(&d, span_of("[1, 2]"), 5, &e), -EFBIG);
	ASSERT_STR_EQ(e.text, "6 bytes of JSON, the limit is 5");
	/* a NUL byte after the value; no text at all */
	assert_true(json_parse(&d, (struct span){"[1]\0", 4}, MAX, &e) < 0);
	assert_true(json_parse(&d, (struct span){NULL, 0}, MAX, &e) < 0);
}

static void test_integers_are_whole_numbers_in_range(void **state)
{
	auto_json struct json_doc *d = t_json("[0, -5, 9223372036854775807, 9223372036854775808,"
					      "1.0, 1e2, \"1\", 123456789012345678901234]");
	static const int want[] = {0, 0, 0, -ERANGE, -EINVAL, -EINVAL, -EINVAL, -ERANGE};
	int64_t n = 77;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(want); i++)
		ASSERT_EQ_MSG(json_int(json_at(json_root(d), i), &n), want[i], "want[%zu]", i);
	ASSERT_EQ(n, INT64_MAX);
	ASSERT_EQ(json_int(NULL, &n), -EINVAL);
	ASSERT_EQ(json_kind(json_at(json_root(d), 7)), JSON_NUMBER);
}

static void test_members_and_elements_are_visited_in_order(void **state)
{
	auto_json struct json_doc *d = t_json("{\"a\":[1,[2,3],4],\"b\":{},\"a\":null}");
	const struct json *root = json_root(d), *v;
	struct json_walk w = json_walk_start(root);
	const char *key;

	(void)state;
	ASSERT_EQ(json_len(root), 3);
	assert_non_null(json_walk_next(&w, &key));
	ASSERT_STR_EQ(key, "a");
	v = json_pair(root, 1, &key);
	ASSERT_EQ(json_kind(v), JSON_OBJECT);
	ASSERT_STR_EQ(key, "b");
	assert_null(json_pair(root, 3, &key));
	assert_null(json_at(json_pair(root, 0, &key), 3));
	ASSERT_EQ(json_len(json_at(json_pair(root, 0, &key), 1)), 2);
	w = json_walk_start(NULL);
	assert_null(json_walk_next(&w, &key));
	w = json_walk_start(json_at(json_pair(root, 0, &key), 0));
	assert_null(json_walk_next(&w, NULL));
	ASSERT_EQ(json_kind(json_get(root, "a")), JSON_NULL);
	ASSERT_EQ(json_kind(json_get_go(root, "A")), JSON_ARRAY);
	assert_null(json_get(root, "A"));
	assert_null(json_get(json_get(root, "b"), "x"));
	assert_null(json_get_go(NULL, "x"));
}

struct inner {
	const char *type;
	struct ipaddr gw;
	struct ipnet net;
};

struct conf {
	const char *name, *mac_text;
	int64_t mtu, count;
	bool has_mtu, promisc;
	struct json_strs search;
	struct mac mac;
	const struct json *args;
	struct inner ipam;
	struct json_list list;
};

static const struct json_table inner_table = {
	(const struct json_field[]){JSON_FIELD("type", J_STR, struct inner, type),
				    JSON_FIELD("gateway", J_IP, struct inner, gw),
				    JSON_FIELD("subnet", J_NET, struct inner, net),
				    {0}},
	JSON_GO, sizeof(struct inner)};

static const struct json_field fields[] = {
	JSON_FIELD("name", J_STR, struct conf, name, .max = 10, .required = true),
	JSON_FIELD("mtu", J_INT, struct conf, mtu, .has = offsetof(struct conf, has_mtu), .min = 68,
		   .max = 65535),
	JSON_FIELD("count", J_INT, struct conf, count, .min = 1, .max = INT64_MAX),
	JSON_FIELD("promisc", J_BOOL, struct conf, promisc),
	JSON_FIELD("search", J_STRS, struct conf, search),
	JSON_FIELD("MAC", J_STR, struct conf, mac_text),
	JSON_FIELD("hwaddr", J_MAC, struct conf, mac),
	JSON_FIELD("args", J_VAL, struct conf, args),
	JSON_FIELD("ipam", J_OBJ, struct conf, ipam, .sub = &inner_table),
	JSON_FIELD("list", J_OBJS, struct conf, list, .sub = &inner_table),
	{0}};
static const struct json_table go = {fields, JSON_GO, 0};
static const struct json_table closed = {fields, JSON_CLOSED, 0};

static void test_field_tables_read_every_type(void **state)
{
	auto_json struct json_doc *d =
		t_json("{\"name\":\"rail0\",\"mtu\":9000,\"promisc\":true,\"search\":[\"a\",null],"
		       "\"hwaddr\":\"02:00:00:00:00:01\",\"args\":{\"cni\":1},\"unknown\":{},"
		       "\"ipam\":{\"type\":\"static\",\"gateway\":\"\",\"subnet\":\"10.1.2.3/24\"},"
		       "\"list\":[{\"type\":\"x\"},null,{\"gateway\":\"fd00::1\"}]}");
	struct conf c = {0};
	struct err e = ERR_INIT;
	char text[IP_TEXT_MAX];

	(void)state;
	ASSERT_EQ(json_read(d, json_root(d), &go, &c, "conf", &e), 0);
	ASSERT_STR_EQ(c.name, "rail0");
	assert_true(c.has_mtu && c.mtu == 9000 && c.promisc);
	ASSERT_EQ(c.search.n, 2);
	ASSERT_STR_EQ(c.search.v[1], "");
	ASSERT_EQ(c.mac.len, 6);
	assert_non_null(json_get(c.args, "cni"));
	ASSERT_EQ(c.ipam.gw.family, 0);
	ASSERT_STR_EQ(ipnet_str(&c.ipam.net, text), "10.1.2.3/24");
	ASSERT_EQ(c.list.n, 3);
	ASSERT_STR_EQ(((struct inner *)c.list.v)[0].type, "x");
	assert_null(((struct inner *)c.list.v)[1].type);
	ASSERT_EQ(((struct inner *)c.list.v)[2].gw.family, 6);
}

/*
 * As in encoding/json, a key matches the field with exactly this name, or else a field whose name
 * differs only in case; of several keys that match one field the last is used.
 */
static void test_keys_match_like_go(void **state)
{
	auto_json struct json_doc *d = t_json(
		"{\"name\":\"a\",\"NAME\":\"b\",\"Name\":null,\"mtu\":1500,\"mac\":\"x\",\"MAC\":\"y\","
		"\"mAc\":\"z\",\"IPAM\":{\"Type\":\"t\"},\"ipam\":{\"gateway\":\"10.0.0.1\"},"
		"\"promi\u017fc\":true}");
	struct conf c = {0};

	(void)state;
	ASSERT_EQ(json_read(d, json_root(d), &go, &c, "conf", NULL), 0);
	ASSERT_STR_EQ(c.name, "b");
	ASSERT_STR_EQ(c.mac_text, "z");
	ASSERT_STR_EQ(c.ipam.type, "t");
	ASSERT_EQ(c.ipam.gw.family, 4);
	assert_true(c.promisc);
	ASSERT_STR_EQ(json_string(json_get_go(json_root(d), "nAmE")), "b");
}

static void test_keys_match_exactly_without_the_flag_json_go(void **state)
{
	auto_json struct json_doc *d = t_json("{\"name\":\"a\",\"NAME\":\"b\"}");
	struct json_table strict = {fields, 0, 0};
	struct conf c = {0};

	(void)state;
	ASSERT_EQ(json_read(d, json_root(d), &strict, &c, "conf", NULL), 0);
	ASSERT_STR_EQ(c.name, "a");
}

static void test_null_leaves_a_field_unchanged(void **state)
{
	auto_json struct json_doc *d =
		t_json("{\"name\":\"a\",\"mtu\":null,\"ipam\":null,\"args\":null}");
	struct conf c = {.mtu = 1500, .ipam.type = "kept"};

	(void)state;
	ASSERT_EQ(json_read(d, json_root(d), &go, &c, "conf", NULL), 0);
	ASSERT_EQ(c.mtu, 1500);
	assert_false(c.has_mtu);
	ASSERT_STR_EQ(c.ipam.type, "kept");
	assert_null(c.args);
}

static void test_errors_name_the_path_of_the_value(void **state)
{
	static const struct {
		const char *text, *expected;
		const struct json_table *t;
	} cases[] = {
		{"{\"mtu\":1}", "conf.mtu is 1, expected 68 to 65535", &go},
		{"{\"MTU\":\"x\"}", "conf.mtu is \"x\", expected a whole number", &go},
		{"{\"mtu\":1500.0}", "conf.mtu is 1500, expected a whole number", &go},
		{"{\"mtu\":1.5}", "conf.mtu is 1.5, expected a whole number", &go},
		{"{\"mtu\":99999999999999999999}",
		 "conf.mtu is 99999999999999999999, expected 68 to 65535", &go},
		{"{\"count\":0}", "conf.count is 0, expected 1 or more", &go},
		{"{\"name\":5}", "conf.name is 5, expected a string", &go},
		{"{\"name\":\"01234567890\"}", "conf.name is 11 bytes long, expected at most 10",
		 &go},
		{"{\"promisc\":\"yes\"}", "conf.promisc is \"yes\", expected true or false", &go},
		{"{\"search\":\"a\"}", "conf.search is \"a\", expected an array of strings", &go},
		{"{\"search\":[\"a\",{}]}", "conf.search[1] is an object, expected a string", &go},
		{"{\"ipam\":[]}", "conf.ipam is an array, expected an object", &go},
		{"{\"ipam\":{\"gateway\":\"10.0.0\"}}",
		 "conf.ipam.gateway is \"10.0.0\", expected an IP address", &go},
		{"{\"list\":[{},{\"subnet\":\"10.0.0.1\"}]}",
		 "conf.list[1].subnet is \"10.0.0.1\", expected an address and prefix length like "
		 "10.0.0.0/24",
		 &go},
		{"{\"list\":{}}", "conf.list is an object, expected an array of objects", &go},
		{"{\"hwaddr\":\"zz\"}",
		 "conf.hwaddr is \"zz\", expected a hardware address like 02:00:00:00:00:01", &go},
		{"{}", "conf.name is missing", &go},
		{"{\"name\":null}", "conf.name is missing", &go},
		{"[]", "conf is an array, expected an object", &go},
		{"{\"mut\":1}", "conf.mut is not a known key, did you mean 'mtu'?", &closed},
		{"{\"MTU\":1}", "conf.MTU is not a known key, did you mean 'mtu'?", &closed},
		{"{\"quux-flag\":1}", "conf.quux-flag is not a known key", &closed},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_json struct json_doc *d = t_json(cases[i].text);
		struct err e = ERR_INIT;
		struct conf c = {0};

		ASSERT_EQ_MSG(json_read(d, json_root(d), cases[i].t, &c, "conf", &e), -EINVAL,
			      "cases[%zu]", i);
		ASSERT_STR_EQ_MSG(e.text, cases[i].expected, "cases[%zu]", i);
		ASSERT_EQ_MSG(e.kind, ERR_CONF, "cases[%zu]", i);
	}
}

static void test_long_names_are_truncated_in_errors(void **state)
{
	static char text[4096];
	auto_json struct json_doc *d = NULL;
	struct err e = ERR_INIT;
	struct conf c = {0};

	(void)state;
	strcpy(text, "{\"");
	memset(text + 2, 'k', 2000);
	strcpy(text + 2002, "\":1,\"name\":1}");
	d = t_json(text);
	ASSERT_EQ(json_read(d, json_root(d), &closed, &c, "conf", &e), -EINVAL);
	assert_true(strlen(e.text) < 400);
}

static void test_strings_are_escaped_like_go(void **state)
{
	auto_buf struct buf b;
	struct json_out o;

	(void)state;
	buf_init(&b, 4096);
	jo_init(&o, &b, 0);
	jo_obj(&o);
	jo_kstr(&o, "s", "<a>&\"\\\b\f\n\r\t\x01\x7f \u2028\u2029\u00e9\U0001f600");
	jo_kstr(&o, "bad", "\xff\xed\xa0\x80z\xe2\x80");
	jo_kstr(&o, "n", NULL);
	jo_kint(&o, "i", -5);
	jo_kbool(&o, "t", true);
	jo_key(&o, "u");
	jo_uint(&o, UINT64_MAX);
	jo_key(&o, "e");
	jo_arr(&o);
	jo_end_arr(&o);
	jo_end_obj(&o);
	ASSERT_STR_EQ(b.p,
		      "{\"s\":\"\\u003ca\\u003e\\u0026\\\"\\\\\\b\\f\\n\\r\\t\\u0001\x7f "
		      "\\u2028\\u2029\u00e9\U0001f600\","
		      "\"bad\":\"\\ufffd\\ufffd\\ufffd\\ufffdz\\ufffd\\ufffd\",\"n\":null,\"i\":-5,"
		      "\"t\":true,\"u\":18446744073709551615,\"e\":[]}");
}

static void test_output_is_indented_like_go(void **state)
{
	auto_json struct json_doc *d = t_json("{\"b\":[1,{\"c\":{}},[]],\"a\":\"x\"}");
	auto_buf struct buf b;
	struct json_out o;

	(void)state;
	buf_init(&b, 4096);
	jo_init(&o, &b, 4);
	jo_val(&o, json_root(d), true);
	ASSERT_STR_EQ(b.p, "{\n    \"a\": \"x\",\n    \"b\": [\n        1,\n        {\n"
			   "            \"c\": {}\n        },\n        []\n    ]\n}");
}

static void test_real_numbers_are_printed_like_go(void **state)
{
	static const struct {
		double v;
		const char *text;
	} cases[] = {{0, "0"},
		     {-0.0, "-0"},
		     {1, "1"},
		     {-1.5, "-1.5"},
		     {0.1, "0.1"},
		     {1e20, "100000000000000000000"},
		     {123456789012345683968.0, "123456789012345680000"},
		     {1e21, "1e+21"},
		     {1.25e300, "1.25e+300"},
		     {0.000001, "0.000001"},
		     {0.0000015, "0.0000015"},
		     {1e-7, "1e-7"},
		     {123.456, "123.456"},
		     {1024, "1024"},
		     {5e-324, "5e-324"},
		     {1.7976931348623157e308, "1.7976931348623157e+308"}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_buf struct buf b;
		struct json_out o;

		buf_init(&b, 64);
		jo_init(&o, &b, 0);
		jo_real(&o, cases[i].v);
		ASSERT_STR_EQ_MSG(b.p, cases[i].text, "cases[%zu]", i);
	}
}

/* The second round parses the output of the first one. */
static void test_negative_zero_is_printed_like_go(void **state)
{
	const char *text = "[-0.0,-0,0]";

	(void)state;
	for (int i = 0; i < 2; i++) {
		auto_json struct json_doc *d = t_json(text);
		auto_buf struct buf b;
		struct json_out o;

		buf_init(&b, 64);
		jo_init(&o, &b, 0);
		jo_val(&o, json_root(d), false);
		ASSERT_STR_EQ(b.p, "[-0,-0,0]");
		text = "[-0,-0,0]";
	}
}

static void test_parsed_numbers_are_printed_without_loss(void **state)
{
	static const char in[] = "{\"b\":1.0,\"a\":9007199254740993,\"c\":18446744073709551615,"
				 "\"d\":123456789012345678901234,\"a\":[true,null,-1]}";
	auto_json struct json_doc *d = t_json(in);
	auto_buf struct buf b;
	struct json_out o;

	(void)state;
	buf_init(&b, 4096);
	jo_init(&o, &b, 0);
	jo_val(&o, json_root(d), true);
	ASSERT_STR_EQ(b.p, "{\"a\":[true,null,-1],\"b\":1,\"c\":18446744073709551615,"
			   "\"d\":123456789012345678901234}");
	buf_reset(&b);
	jo_init(&o, &b, 0);
	jo_val(&o, json_root(d), false);
	ASSERT_STR_EQ(b.p, "{\"b\":1,\"a\":9007199254740993,\"c\":18446744073709551615,"
			   "\"d\":123456789012345678901234,\"a\":[true,null,-1]}");
}

/* The limit is checked before the tree is built: the document and each ',', ':', '{' and '['
 * outside of strings count as one value. The error has the path at which this count exceeds the
 * limit. */
static void test_documents_with_too_many_values_are_refused(void **state)
{
	static const struct {
		const char *text;
		size_t max;
		const char *reason; /* NULL: accepted */
	} cases[] = {
		{"[1,2,3]", 5, NULL},
		{"{\"a\":1}", 3, NULL},
		{"[1,2,3,4,5]", 5, "1:10: more than 5 values, at [4]"},
		{"{\"a\":{\"b\":[{},{\"c.d\":[1,2,3,4,5,6]}]}}", 12,
		 "1:27: more than 12 values, at a.b[1].c.d[2]"},
		{"{\"a\":\"1,2,3,[[[{{{:::\",\"b\":\"\\\",[\"}", 8, NULL},
		{"[[],[],[]]", 5, "1:8: more than 5 values, at [2]"},
		{"1", 1, NULL},
		{"]]]],,,", 2, "1:7: more than 2 values, at the top"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_json struct json_doc *d = NULL;
		struct err e = ERR_INIT;
		int r = json_parse_values(&d, span_of(cases[i].text), 1000, cases[i].max, &e);

		if (!cases[i].reason) {
			ASSERT_EQ_MSG(r, 0, "cases[%zu]", i);
			continue;
		}
		ASSERT_EQ_MSG(r, -E2BIG, "cases[%zu]", i);
		ASSERT_EQ_MSG(e.kind, ERR_DECODE, "cases[%zu]", i);
		ASSERT_STR_EQ_MSG(e.text, cases[i].reason, "cases[%zu]", i);
	}
}

/* An index finds the same members as json_get(): of equal keys the last. */
static void test_index_finds_the_members_of_an_object(void **state)
{
	auto_json struct json_doc *d = t_json("{\"b\":1,\"a\":2,\"b\":3,\"\":4,\"ab\":5}");
	auto_json_index struct json_index x = json_index_of(json_root(d)),
					  none = json_index_of(NULL);
	static const char *const keys[] = {"a", "b", "ab", "", "c", "aa", "B"};

	(void)state;
	ASSERT_EQ(x.n, 4);
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		assert_ptr_equal(json_index_get(&x, keys[i]), json_get(json_root(d), keys[i]));
		assert_null(json_index_get(&none, keys[i]));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_syntax_errors_name_line_and_column),
		cmocka_unit_test(test_invalid_strings_are_refused),
		cmocka_unit_test(test_documents_that_are_too_deep_or_large_are_refused),
		cmocka_unit_test(test_integers_are_whole_numbers_in_range),
		cmocka_unit_test(test_members_and_elements_are_visited_in_order),
		cmocka_unit_test(test_field_tables_read_every_type),
		cmocka_unit_test(test_keys_match_like_go),
		cmocka_unit_test(test_keys_match_exactly_without_the_flag_json_go),
		cmocka_unit_test(test_null_leaves_a_field_unchanged),
		cmocka_unit_test(test_errors_name_the_path_of_the_value),
		cmocka_unit_test(test_long_names_are_truncated_in_errors),
		cmocka_unit_test(test_strings_are_escaped_like_go),
		cmocka_unit_test(test_output_is_indented_like_go),
		cmocka_unit_test(test_real_numbers_are_printed_like_go),
		cmocka_unit_test(test_negative_zero_is_printed_like_go),
		cmocka_unit_test(test_parsed_numbers_are_printed_without_loss),
		cmocka_unit_test(test_documents_with_too_many_values_are_refused),
		cmocka_unit_test(test_index_finds_the_members_of_an_object),
	};

	return T_RUN(tests, NULL, NULL);
}
