/* SPDX-License-Identifier: Apache-2.0 */
/* The sorted store of objects. */
#include "testlib.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "kube/informer.h"

static struct kube_object *object(const char *ns, const char *name, const char *version)
{
	auto_json struct json_doc *doc = NULL;
	char text[256];

	snprintf(text, sizeof(text),
		 "{\"metadata\":{\"namespace\":\"%s\",\"name\":\"%s\",\"uid\":\"u\","
		 "\"resourceVersion\":\"%s\"}}",
		 ns, name, version);
	ASSERT_EQ(json_parse(&doc, span_of(text), 4096, NULL), 0);
	return kube_object_new(json_root(doc), 12);
}

static void test_objects_are_allocated_with_aligned_values(void **state)
{
	struct kube_object *o = object("ns", "a", "7");
	auto_json struct json_doc *doc = NULL;

	(void)state;
	ASSERT_STR_EQ(o->ns, "ns");
	ASSERT_STR_EQ(o->name, "a");
	ASSERT_STR_EQ(o->uid, "u");
	ASSERT_STR_EQ(o->version, "7");
	assert_memory_equal(o->value, "\0\0\0\0\0\0\0\0\0\0\0\0", 12);
	ASSERT_EQ((uintptr_t)o->value % 16, 0);
	free(o);
	ASSERT_EQ(json_parse(&doc, span_of("{\"metadata\":{\"name\":\"x\"}}"), 99, NULL), 0);
	assert_null(kube_object_new(json_root(doc), 0));
}

static void test_objects_are_sorted_by_namespace_and_name(void **state)
{
	static const char *const in[][2] = {{"b", "a"}, {"a", "b"}, {"b", "c"},
					    {"a", "a"}, {"", "z"},  {"b", "b"}};
	static const char *const out[] = {"z", "a", "b", "a", "b", "c"};
	struct kube_store s = {0};
	struct kube_object *o;
	size_t at;

	(void)state;
	for (size_t i = 0; i < 6; i++)
		assert_null(kube_store_put(&s, object(in[i][0], in[i][1], "1")));
	ASSERT_EQ(s.n, 6);
	for (size_t i = 0; i < 6; i++)
		ASSERT_STR_EQ(s.v[i]->name, out[i]);
	o = kube_store_put(&s, object("a", "b", "2"));
	ASSERT_STR_EQ(o->version, "1");
	free(o);
	ASSERT_EQ(s.n, 6);
	ASSERT_STR_EQ(kube_store_get(&s, "a", "b")->version, "2");
	assert_null(kube_store_get(&s, "a", "c"));
	assert_true(kube_store_find(&s, "a", "a", &at));
	free(kube_store_take(&s, at));
	assert_null(kube_store_get(&s, "a", "a"));
	while (s.n)
		free(kube_store_take(&s, 0));
	free(s.v);
}

static void test_1000_objects_are_stored_and_removed(void **state)
{
	struct kube_store s = {0};
	char name[16];

	(void)state;
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "n%03d", i * 377 % 1000);
		assert_null(kube_store_put(&s, object("", name, "1")));
	}
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "n%03d", i);
		ASSERT_STR_EQ(s.v[i]->name, name);
	}
	while (s.n)
		free(kube_store_take(&s, s.n - 1));
	free(s.v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_objects_are_allocated_with_aligned_values),
		cmocka_unit_test(test_objects_are_sorted_by_namespace_and_name),
		cmocka_unit_test(test_1000_objects_are_stored_and_removed),
	};

	return T_RUN(tests, NULL, NULL);
}
