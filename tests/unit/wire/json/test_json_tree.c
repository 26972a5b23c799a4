/* SPDX-License-Identifier: Apache-2.0 */
/* Changes of a JSON value, and the patch from the old to the new value. */
#include "testlib.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "kube/patch.h"
#include "wire/json/tree.h"

enum { TEXT_MAX = 1 << 16 };

static struct json_tree *tree(const char *text)
{
	auto_json struct json_doc *doc = t_json(text);

	return json_tree_of(json_root(doc));
}

static void assert_tree(const struct json_tree *t, const char *want)
{
	auto_buf struct buf b;
	struct json_out o;

	buf_init(&b, TEXT_MAX);
	jo_init(&o, &b, 0);
	json_tree_write(t, &o);
	ASSERT_STR_EQ(b.p, want);
}

/* tree() has freed the document before the value is written. */
static void test_unchanged_values_are_written_as_they_were_read(void **state)
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

static void test_members_are_set_replaced_and_removed(void **state)
{
	auto_tree struct json_tree *t = tree("{\"a\":1,\"b\":null,\"a\":2,\"c\":\"x\"}");
	int64_t n;

	(void)state;
	ASSERT_EQ(json_tree_int(json_tree_member(t, "a"), &n), 0);
	ASSERT_EQ(n, 2);
	assert_null(json_tree_member(t, "d"));
	json_tree_put_int(json_tree_member_object(t, "b"), "n", 7);
	assert_null(json_tree_member_object(t, "c"));
	json_tree_put_text(t, "c", "y");
	json_tree_put_bool(t, "d", true);
	json_tree_drop(t, "a");
	assert_tree(t, "{\"b\":{\"n\":7},\"c\":\"y\",\"d\":true}");
	json_tree_drop(t, "d");
	json_tree_put_int(t, "e", -1);
	assert_tree(t, "{\"b\":{\"n\":7},\"c\":\"y\",\"e\":-1}");
}

static void test_array_elements_are_added_and_changed(void **state)
{
	auto_tree struct json_tree *t = tree("{\"l\":[\"a\"]}");
	struct json_tree *l = json_tree_member(t, "l");

	(void)state;
	json_tree_push_text(l, "b");
	json_tree_set_text(json_tree_first(l), "z");
	json_tree_push(l, json_tree_new(JSON_OBJECT));
	assert_tree(t, "{\"l\":[\"z\",\"b\",{}]}");
	ASSERT_STR_EQ(json_tree_text(json_tree_next(json_tree_first(l))), "b");
}

static void test_write_to_a_missing_path_is_ignored(void **state)
{
	auto_tree struct json_tree *t = tree("{\"a\":[]}");
	int64_t n;

	(void)state;
	json_tree_put_text(json_tree_member(json_tree_member(t, "x"), "y"), "z", "w");
	json_tree_put_text(json_tree_member(t, "a"), "z", "w");
	json_tree_push_text(t, "w");
	json_tree_drop(NULL, "a");
	assert_null(json_tree_first(NULL));
	assert_null(json_tree_text(NULL));
	assert_true(json_tree_int(t, &n) < 0 && !json_tree_true(NULL) &&
		    json_tree_kind(NULL) == JSON_NULL);
	assert_tree(t, "{\"a\":[]}");
}

static void test_trees_are_compared_without_member_order(void **state)
{
	auto_json struct json_doc *doc = t_json("{\"b\":2,\"a\":[1,\"x\"]}");
	auto_tree struct json_tree *t = tree("{\"a\":[1,\"x\"],\"b\":2}");

	(void)state;
	assert_true(json_tree_same(t, json_root(doc)));
	json_tree_put_int(t, "b", 3);
	assert_false(json_tree_same(t, json_root(doc)));
	assert_true(json_tree_same(NULL, NULL));
}

static void test_tree_that_borrows_a_document_is_changed_like_a_copy(void **state)
{
	static const char text[] =
		"{\"a\":[1,{\"b\":\"x\"},2.5],\"n\":7,\"s\":\"y\",\"o\":{\"k\":{}}}";
	auto_json struct json_doc *doc = t_json(text);
	auto_tree struct json_tree *t = json_tree_over(json_root(doc));
	int64_t n;

	(void)state;
	assert_tree(t, text);
	ASSERT_STR_EQ(json_tree_text(json_tree_member(t, "s")), "y");
	ASSERT_EQ(json_tree_int(json_tree_member(t, "n"), &n), 0);
	ASSERT_EQ(n, 7);
	json_tree_put_text(json_tree_member_object(json_tree_member(t, "o"), "new"), "z", "1");
	json_tree_set_text(json_tree_first(json_tree_member(t, "a")), "one");
	json_tree_push_text(json_tree_member(t, "a"), "end");
	json_tree_drop(t, "n");
	json_tree_put(t, "s", json_tree_new(JSON_ARRAY));
	assert_tree(t, "{\"a\":[\"one\",{\"b\":\"x\"},2.5,\"end\"],\"s\":[],"
		       "\"o\":{\"k\":{},\"new\":{\"z\":\"1\"}}}");
}

static void check_patch(const char *was, const char *is, const char *want)
{
	auto_json struct json_doc *a = t_json(was), *b = t_json(is);
	struct kube_patch p;
	bool any;

	kube_patch_init(&p);
	any = kube_patch_diff(&p, json_root(a), json_root(b));
	kube_patch_end(&p);
	ASSERT_STR_EQ(p.b.p, want);
	ASSERT_EQ(any, strcmp(want, "[]") != 0);
	kube_patch_done(&p);
}

static void test_patch_has_the_differences_of_two_values(void **state)
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
		cmocka_unit_test(test_unchanged_values_are_written_as_they_were_read),
		cmocka_unit_test(test_members_are_set_replaced_and_removed),
		cmocka_unit_test(test_array_elements_are_added_and_changed),
		cmocka_unit_test(test_write_to_a_missing_path_is_ignored),
		cmocka_unit_test(test_trees_are_compared_without_member_order),
		cmocka_unit_test(test_patch_has_the_differences_of_two_values),
		cmocka_unit_test(test_tree_that_borrows_a_document_is_changed_like_a_copy),
	};

	return T_RUN(tests, NULL, NULL);
}
