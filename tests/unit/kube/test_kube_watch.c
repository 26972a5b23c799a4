/* SPDX-License-Identifier: Apache-2.0 */
/* Events of a watch, and the sorted store of objects. */
#include "testlib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <errno.h>

#include "base/alloc.h"
#include "kube/informer.h"
#include "kube/listwatch.h"

static int decode(const char *text, enum kube_change *change, int *status, int64_t *after,
		  struct err *e)
{
	const struct json *object = NULL;
	struct json_doc *doc = NULL;
	int r;

	ASSERT_EQ(json_parse(&doc, span_of(text), 4096, NULL), 0);
	r = kube_watch_decode(json_root(doc), change, &object, status, after, e);
	json_free(doc);
	return r;
}

static void test_watch_events_are_decoded(void **state)
{
	static const char *const texts[] = {
		"{\"type\":\"ADDED\",\"object\":{}}",
		"{\"type\":\"MODIFIED\",\"object\":{}}",
		"{\"type\":\"DELETED\",\"object\":{}}",
		"{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"7\"}}}",
	};
	enum kube_change change;
	struct err e = ERR_INIT;
	int64_t after;
	int status;

	(void)state;
	for (unsigned int i = 0; i < 4; i++) {
		ASSERT_EQ(decode(texts[i], &change, &status, &after, &e), 1);
		ASSERT_EQ(change, i);
	}
	/* An event type of a later server is ignored. */
	ASSERT_EQ(decode("{\"type\":\"NEW\",\"object\":{}}", &change, &status, &after, &e), 0);
}

static void test_error_events_become_errors(void **state)
{
	enum kube_change change;
	struct err e = ERR_INIT;
	int64_t after;
	int status;

	(void)state;
	ASSERT_EQ(decode("{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,"
			 "\"reason\":\"Expired\",\"message\":\"too old resource version: 1 "
			 "(2)\"}}",
			 &change, &status, &after, &e),
		  -ESTALE);
	ASSERT_EQ(status, 410);
	ASSERT_STR_EQ(e.text, "ERROR: 410 Expired: too old resource version: 1 (2)");
	ASSERT_EQ(decode("{\"type\":\"ERROR\",\"object\":{\"code\":429,\"details\":"
			 "{\"retryAfterSeconds\":3}}}",
			 &change, &status, &after, &e),
		  -EAGAIN);
	ASSERT_EQ(after, 3);
	ASSERT_EQ(decode("{\"type\":\"ADDED\"}", &change, &status, &after, &e), -EBADMSG);
	ASSERT_EQ(status, 0);
	ASSERT_EQ(decode("{\"kind\":\"Status\"}", &change, &status, &after, &e), -EBADMSG);
	ASSERT_EQ(decode("[]", &change, &status, &after, &e), -EBADMSG);
}

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

static void test_objects_are_stored_in_order(void **state)
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
		cmocka_unit_test(test_watch_events_are_decoded),
		cmocka_unit_test(test_error_events_become_errors),
		cmocka_unit_test(test_objects_are_allocated_with_aligned_values),
		cmocka_unit_test(test_objects_are_stored_in_order),
		cmocka_unit_test(test_1000_objects_are_stored_and_removed),
	};

	return T_RUN(tests, NULL, NULL);
}
