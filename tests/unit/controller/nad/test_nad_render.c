/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration that a SpiderMultusConfig generates; tests/cluster/nads.yaml has the cases. */
#include "testlib.h"

#include <fcntl.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "controller/nad/render.h"
#include "spec/multusconfig.h"
#include "wire/yaml/yaml.h"

enum { CASES_MAX = 1 << 20 };

static struct json_doc *cases;

static int setup(void **state)
{
	auto_fd int fd = open(TEST_DATA "cluster/nads.yaml", O_RDONLY | O_CLOEXEC);
	struct err e = ERR_INIT;
	auto_buf struct buf text;
	auto_buf struct buf json;

	(void)state;
	buf_init(&text, CASES_MAX);
	buf_init(&json, CASES_MAX);
	if (fd_read_all(fd, CASES_MAX, &text, &e) < 0 ||
	    yaml_to_json(buf_span(&text), &json, &e) < 0 ||
	    json_parse(&cases, buf_span(&json), CASES_MAX, &e) < 0)
		fail_msg("%s", e.text);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	json_free(cases);
	return 0;
}

static const struct json *rows(const char *key)
{
	const struct json *v = json_get(json_root(cases), key);

	assert_true(json_len(v) >= 10);
	return v;
}

static void put(struct json_out *o, const char *key, const struct json *v)
{
	jo_key(o, key);
	jo_val(o, v, false);
}

/* Returns the SpiderMultusConfig of the case `row`, and prints the name of the case. */
static struct json_doc *object(const struct json *row)
{
	const char *name = json_string(json_get(row, "name"));
	const struct json *annotations = json_get(row, "annotations");
	struct json_doc *doc = NULL;
	auto_buf struct buf b;
	struct json_out o;

	buf_init(&b, CASES_MAX);
	jo_init(&o, &b, 0);
	jo_obj(&o);
	jo_key(&o, "metadata");
	jo_obj(&o);
	jo_kstr(&o, "name", name ? name : "n");
	if (annotations)
		put(&o, "annotations", annotations);
	jo_end_obj(&o);
	put(&o, "spec", json_get(row, "spec"));
	jo_end_obj(&o);
	ASSERT_EQ(json_parse(&doc, buf_span(&b), CASES_MAX, NULL), 0);
	print_message("%s\n", json_string(json_get(row, "what")));
	return doc;
}

static void check_annotations(const struct labels *l, const struct json *want)
{
	ASSERT_EQ(l->n, json_len(want));
	for (size_t i = 0; i < l->n; i++)
		ASSERT_STR_EQ(l->v[i].value, json_string(json_get(want, l->v[i].key)));
}

static void test_valid_configurations_generate_a_nad(void **state)
{
	struct json_walk w = json_walk_start(rows("good"));
	const struct json *row;

	(void)state;
	while ((row = json_walk_next(&w, NULL))) {
		const char *config = json_string(json_get(row, "config"));
		auto_json struct json_doc *doc = object(row);
		struct err e = ERR_INIT;
		struct nad n = {0};

		ASSERT_OK(nad_write(json_root(doc), &n, &e), &e);
		if (config)
			ASSERT_STR_EQ(n.config ? n.config : "(none)", config);
		else
			assert_null(n.config);
		ASSERT_STR_EQ(n.name, multus_nad_name(json_root(doc)));
		check_annotations(&n.annotations, json_get(row, "gives"));
		nad_done(&n);
	}
}

static void test_invalid_configurations_are_refused(void **state)
{
	struct json_walk w = json_walk_start(rows("bad"));
	const struct json *row;

	(void)state;
	while ((row = json_walk_next(&w, NULL))) {
		const char *expected = json_string(json_get(row, "words"));
		auto_json struct json_doc *doc = object(row);
		struct nad n = {.name = (char *)"left alone"};
		struct err e = ERR_INIT;

		assert_true(nad_write(json_root(doc), &n, &e) < 0);
		ASSERT_STR_EQ(n.name, "left alone");
		if (expected[strlen(expected) - 1] == ' ')
			assert_memory_equal(e.text, expected, strlen(expected));
		else
			ASSERT_STR_EQ(e.text, expected);
	}
}

/* A malformed object from the API server must not cause a failed assertion in the controller. */
static void test_malformed_objects_do_not_crash(void **state)
{
	static const char *const texts[] = {
		"{}",
		"[]",
		"{\"metadata\":3,\"spec\":[]}",
		"{\"spec\":{\"cniType\":\"macvlan\",\"macvlan\":{\"master\":\"eth0\"}}}",
		"{\"spec\":{\"cniType\":\"macvlan\",\"macvlan\":{\"master\":[3],\"bond\":[]}}}",
		"{\"spec\":{\"cniType\":\"ovs\",\"ovs\":{\"bridge\":\"b\",\"trunk\":[3,null]}}}",
		"{\"spec\":{\"cniType\":\"sriov\",\"sriov\":{},\"coordinator\":{\"policyRoutes\":[1]}}}",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		auto_json struct json_doc *doc = NULL;
		struct nad n = {0};

		ASSERT_EQ_MSG(json_parse(&doc, span_of(texts[i]), 4096, NULL), 0, "texts[%zu]", i);
		nad_write(json_root(doc), &n, NULL);
		nad_done(&n);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_valid_configurations_generate_a_nad),
		cmocka_unit_test(test_invalid_configurations_are_refused),
		cmocka_unit_test(test_malformed_objects_do_not_crash),
	};

	return T_RUN(tests, setup, teardown);
}
