/* SPDX-License-Identifier: Apache-2.0 */
/* The table of SpiderMultusConfig's fields, compared with the definition in deploy/crds. */
#include "testlib.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "spec/multusconfig.h"
#include "wire/yaml/yaml.h"

enum { CRD_MAX = 1 << 20 };

static struct json_doc *crd;

static int setup(void **state)
{
	auto_fd int fd =
		open(TEST_DATA "../deploy/crds/spidermultusconfigs.yaml", O_RDONLY | O_CLOEXEC);
	struct err e = ERR_INIT;
	auto_buf struct buf text;
	auto_buf struct buf json;

	(void)state;
	buf_init(&text, CRD_MAX);
	buf_init(&json, CRD_MAX);
	if (fd_read_all(fd, CRD_MAX, &text, &e) < 0 ||
	    yaml_to_json(buf_span(&text), &json, &e) < 0 ||
	    json_parse(&crd, buf_span(&json), CRD_MAX, &e) < 0)
		fail_msg("%s", e.text);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	json_free(crd);
	return 0;
}

/* Returns the properties of `spec` in the CRD. */
static const struct json *spec_properties(void)
{
	const struct json *v = json_at(json_get(json_get(json_root(crd), "spec"), "versions"), 0);
	static const char *const path[] = {"schema", "openAPIV3Schema", "properties", "spec",
					   "properties"};

	for (size_t i = 0; i < ARRAY_LEN(path); i++)
		v = json_get(v, path[i]);
	assert_non_null(v);
	return v;
}

/* Returns the spec {cniType, an empty object `block`} with the defaults that multus_complete()
 * adds. */
static struct json_doc *completed(const char *type, const char *block)
{
	auto_free char *text = xasprintf("{\"cniType\":\"%s\",\"%s\":{}}", type, block);
	auto_json struct json_doc *doc = t_json(text);
	const struct multus_completion c = {.sent = json_root(doc)};
	auto_tree struct json_tree *tree = json_tree_of(c.sent);
	auto_buf struct buf b;
	struct json_out o;

	multus_complete(tree, &c);
	buf_init(&b, CRD_MAX);
	jo_init(&o, &b, 0);
	json_tree_write(tree, &o);
	return t_json(b.p);
}

static size_t check_defaults(const struct json *properties, const struct json *v)
{
	struct json_walk w = json_walk_start(properties);
	const struct json *p;
	const char *key;
	size_t n = 0;

	while ((p = json_walk_next(&w, &key))) {
		if (!json_get(p, "default"))
			continue;
		print_message("  %s\n", key);
		assert_true(json_same(json_get(p, "default"), json_get(v, key)));
		n++;
	}
	return n;
}

static void test_defaults_are_those_of_the_crd(void **state)
{
	const struct json *properties = spec_properties();
	size_t n = 0;

	(void)state;
	for (size_t i = 0; i < MULTUS_TYPES; i++) {
		const struct multus_type *t = &multus_types[i];
		auto_json struct json_doc *doc = completed(t->type, t->block);
		const struct json *root = json_root(doc), *block = json_get(properties, t->block);

		print_message("%s\n", t->block);
		n += check_defaults(json_get(block, "properties"), json_get(root, t->block));
		n += check_defaults(json_get(json_get(properties, "coordinator"), "properties"),
				    json_get(root, "coordinator"));
	}
	assert_true(n >= 40);
}

/* --- values and ranges --- */

static int check(const char *block, const char *key, const char *value, bool values)
{
	auto_free char *text = xasprintf("{\"%s\":%s}", key, value);
	auto_json struct json_doc *doc = t_json(text);
	struct err e = ERR_INIT;
	int r = values ? multus_check_choices(json_root(doc), block, "spec.x", &e)
		       : multus_check_numbers(json_root(doc), block, "spec.x", &e);

	if (r < 0)
		assert_true(strncmp(e.text, "spec.x.", 7) == 0);
	return r;
}

static size_t check_enum(const char *block, const char *key, const struct json *values)
{
	struct json_walk w = json_walk_start(values);
	const struct json *v;

	if (!values)
		return 0;
	print_message("%s.%s\n", block, key);
	while ((v = json_walk_next(&w, NULL))) {
		auto_free char *quoted = xasprintf("\"%s\"", json_string(v));

		ASSERT_EQ(check(block, key, quoted, true), 0);
	}
	ASSERT_EQ(check(block, key, "\"or\"", true), -ENOTSUP);
	ASSERT_EQ(check(block, key, "\"auto,\"", true), -ENOTSUP);
	return 1;
}

static size_t check_range(const char *block, const char *key, const struct json *property)
{
	int64_t max, min;

	if (json_int(json_get(property, "maximum"), &max) < 0 ||
	    json_int(json_get(property, "minimum"), &min) < 0)
		return 0;
	print_message("%s.%s\n", block, key);
	for (int64_t i = -1; i <= 1; i++) {
		auto_free char *low = xasprintf("%lld", (long long)(min + i));
		auto_free char *high = xasprintf("%lld", (long long)(max - i));

		ASSERT_EQ(check(block, key, low, false), i < 0 ? -EINVAL : 0);
		ASSERT_EQ(check(block, key, high, false), i < 0 ? -EINVAL : 0);
	}
	ASSERT_EQ(check(block, key, "\"1\"", false), -EINVAL);
	return 1;
}

static void test_values_and_ranges_are_those_of_the_crd(void **state)
{
	size_t values = 0, ranges = 0;

	(void)state;
	for (size_t i = 0; i <= MULTUS_TYPES; i++) {
		const char *block = i < MULTUS_TYPES ? multus_types[i].block : "coordinator";
		const struct json *all = json_get(json_get(spec_properties(), block), "properties");
		struct json_walk w = json_walk_start(all);
		const struct json *p;
		const char *key;

		while ((p = json_walk_next(&w, &key))) {
			values += check_enum(block, key, json_get(p, "enum"));
			ranges += check_range(block, key, p);
		}
	}
	ASSERT_EQ(values, 4);
	ASSERT_EQ(ranges, 4);
}

static void test_cni_types_are_those_of_the_crd(void **state)
{
	struct json_walk w =
		json_walk_start(json_get(json_get(spec_properties(), "cniType"), "enum"));
	const struct json *v;
	size_t n = 0;

	(void)state;
	for (; (v = json_walk_next(&w, NULL)); n++) {
		const struct multus_type *t = multus_type_of(json_string(v));

		assert_true(strstr(MULTUS_TYPE_NAMES, json_string(v)) != NULL);
		if (strcmp(json_string(v), "custom") == 0)
			assert_null(t);
		else
			assert_non_null(json_get(spec_properties(), t->block));
	}
	ASSERT_EQ(n, MULTUS_TYPES + 1);
	assert_null(multus_type_of(NULL));
	assert_null(multus_type_of("bridge"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults_are_those_of_the_crd),
		cmocka_unit_test(test_values_and_ranges_are_those_of_the_crd),
		cmocka_unit_test(test_cni_types_are_those_of_the_crd),
	};

	return T_RUN(tests, setup, teardown);
}
