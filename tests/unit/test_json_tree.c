/* SPDX-License-Identifier: Apache-2.0 */
/* A value that is changed, and the patch between what it was and is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "kube/patch.h"
#include "wire/json/tree.h"

enum { TEXT_MAX = 1 << 16 };

static struct json_doc *parse(const char *text)
{
	struct json_doc *doc;
	struct err e = ERR_INIT;

	if (json_parse(&doc, span_of(text), TEXT_MAX, &e) < 0)
		fail_msg("%s: %s", text, e.text);
	return doc;
}

static struct json_tree *tree(const char *text)
{
	auto_json struct json_doc *doc = parse(text);

	return jt_of(json_root(doc));
}

static void assert_tree(const struct json_tree *t, const char *want)
{
	auto_buf struct buf b;
	struct json_out o;

	buf_init(&b, TEXT_MAX);
	jo_init(&o, &b, 0);
	jt_write(t, &o);
	assert_string_equal(b.p, want);
}

/* What is left alone is written as it was read, after the document is gone, too. */
static void test_as_it_was(void **state)
{
	static const char *const texts[] = {
		"{\"a\":[1,2.5,\"x\",true,null,{}],\"b\":{\"c\":[]}}",
		"[18446744073709551615,-9223372036854775808,1e+300]",
		"\"text\"",
		"null",
		"{\"n\":123456789012345678901234567890}",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		auto_tree struct json_tree *t = tree(texts[i]);

		assert_tree(t, texts[i]);
	}
}

static void test_members(void **state)
{
	auto_tree struct json_tree *t = tree("{\"a\":1,\"b\":null,\"a\":2,\"c\":\"x\"}");
	int64_t n;

	(void)state;
	assert_int_equal(jt_int(jt_member(t, "a"), &n), 0);
	assert_int_equal(n, 2);
	assert_null(jt_member(t, "d"));
	jt_put_int(jt_member_object(t, "b"), "n", 7);
	assert_null(jt_member_object(t, "c"));
	jt_put_text(t, "c", "y");
	jt_put_bool(t, "d", true);
	jt_drop(t, "a");
	assert_tree(t, "{\"b\":{\"n\":7},\"c\":\"y\",\"d\":true}");
	jt_drop(t, "d");
	jt_put_int(t, "e", -1);
	assert_tree(t, "{\"b\":{\"n\":7},\"c\":\"y\",\"e\":-1}");
}

static void test_arrays(void **state)
{
	auto_tree struct json_tree *t = tree("{\"l\":[\"a\"]}");
	struct json_tree *l = jt_member(t, "l");

	(void)state;
	jt_push_text(l, "b");
	jt_set_text(jt_first(l), "z");
	jt_push(l, jt_new(JSON_OBJECT));
	assert_tree(t, "{\"l\":[\"z\",\"b\",{}]}");
	assert_string_equal(jt_text(jt_next(jt_first(l))), "b");
}

/* A path may lead nowhere. */
static void test_nowhere(void **state)
{
	auto_tree struct json_tree *t = tree("{\"a\":[]}");
	int64_t n;

	(void)state;
	jt_put_text(jt_member(jt_member(t, "x"), "y"), "z", "w");
	jt_put_text(jt_member(t, "a"), "z", "w");
	jt_push_text(t, "w");
	jt_drop(NULL, "a");
	assert_null(jt_first(NULL));
	assert_null(jt_text(NULL));
	assert_true(jt_int(t, &n) < 0 && !jt_true(NULL) && jt_kind(NULL) == JSON_NULL);
	assert_tree(t, "{\"a\":[]}");
}

static void test_same(void **state)
{
	auto_json struct json_doc *doc = parse("{\"b\":2,\"a\":[1,\"x\"]}");
	auto_tree struct json_tree *t = tree("{\"a\":[1,\"x\"],\"b\":2}");

	(void)state;
	assert_true(jt_same(t, json_root(doc)));
	jt_put_int(t, "b", 3);
	assert_false(jt_same(t, json_root(doc)));
	assert_true(jt_same(NULL, NULL));
}

/* A tree over a document says what a copy says, and changes the same way. */
static void test_over_a_document(void **state)
{
	static const char text[] =
		"{\"a\":[1,{\"b\":\"x\"},2.5],\"n\":7,\"s\":\"y\",\"o\":{\"k\":{}}}";
	auto_json struct json_doc *doc = parse(text);
	auto_tree struct json_tree *t = jt_over(json_root(doc));
	int64_t n;

	(void)state;
	assert_tree(t, text);
	assert_string_equal(jt_text(jt_member(t, "s")), "y");
	assert_int_equal(jt_int(jt_member(t, "n"), &n), 0);
	assert_int_equal(n, 7);
	jt_put_text(jt_member_object(jt_member(t, "o"), "new"), "z", "1");
	jt_set_text(jt_first(jt_member(t, "a")), "one");
	jt_push_text(jt_member(t, "a"), "end");
	jt_drop(t, "n");
	jt_put(t, "s", jt_new(JSON_ARRAY));
	assert_tree(t, "{\"a\":[\"one\",{\"b\":\"x\"},2.5,\"end\"],\"s\":[],"
		       "\"o\":{\"k\":{},\"new\":{\"z\":\"1\"}}}");
}

static void check_patch(const char *was, const char *is, const char *want)
{
	auto_json struct json_doc *a = parse(was), *b = parse(is);
	struct kube_patch p;
	bool any;

	kube_patch_init(&p);
	any = kube_patch_diff(&p, json_root(a), json_root(b));
	kube_patch_end(&p);
	assert_string_equal(p.b.p, want);
	assert_int_equal(any, strcmp(want, "[]") != 0);
	kube_patch_done(&p);
}

static void test_patch(void **state)
{
	(void)state;
	check_patch("{\"a\":1}", "{\"a\":1}", "[]");
	check_patch("{\"a\":1,\"b\":{\"c\":2}}", "{\"b\":{\"c\":2},\"a\":1}", "[]");
	check_patch("{\"a\":1}", "{\"a\":2}", "[{\"op\":\"replace\",\"path\":\"/a\",\"value\":2}]");
	check_patch("{\"a\":{\"x/y~\":1}}", "{\"a\":{\"z\":null}}",
		    "[{\"op\":\"add\",\"path\":\"/a/z\",\"value\":null},"
		    "{\"op\":\"remove\",\"path\":\"/a/x~1y~0\"}]");
	check_patch("{\"l\":[1,2]}", "{\"l\":[1,2,3]}",
		    "[{\"op\":\"replace\",\"path\":\"/l\",\"value\":[1,2,3]}]");
	check_patch("[]", "{}", "[{\"op\":\"replace\",\"path\":\"\",\"value\":{}}]");
	check_patch("{\"a\":\"x\"}", "{\"a\":{\"b\":1}}",
		    "[{\"op\":\"replace\",\"path\":\"/a\",\"value\":{\"b\":1}}]");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_as_it_was),
		cmocka_unit_test(test_members),
		cmocka_unit_test(test_arrays),
		cmocka_unit_test(test_nowhere),
		cmocka_unit_test(test_same),
		cmocka_unit_test(test_patch),
		cmocka_unit_test(test_over_a_document),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
