/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ConfigMaps of device plugins: which key is read, which version stays in force, which errors are
 * reported.
 */
#include "testlib.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/device/configmap.h"
#include "base/alloc.h"
#include "base/log.h"
#include "ipam_lab.h"

#define MAP_DIR "/state/configmaps/kube-system/rdma-devices"
#define SHARED	"{\\\"configList\\\":[{\\\"resourceName\\\":\\\"a\\\",\\\"rdmaHcaMax\\\":1}]}"
#define OTHER	"{\\\"resourceList\\\":[]}"
#define PLAIN	"{\"configList\":[{\"resourceName\":\"a\",\"rdmaHcaMax\":1}]}"

struct lab {
	struct ipam_lab files;
	struct device_configmaps *maps;
	char reported[1024];
	bool is_warning;
	int reports;
};

static void on_event(void *arg, bool is_warning, const char *text)
{
	struct lab *l = arg;

	l->is_warning = is_warning;
	l->reports++;
	str_copy(l->reported, sizeof(l->reported), text);
}

static int open_maps(struct lab *l, const char *names, struct err *e)
{
	return device_configmaps_new(&l->maps,
				     &(struct device_configmaps_conf){.root = &l->files.root,
								      .names = names,
								      .ns = "kube-system",
								      .node = "n1",
								      .state_dir = "/state",
								      .event = on_event,
								      .arg = l},
				     e);
}

static void begin(struct lab *l)
{
	*l = (struct lab){0};
	log_threshold = LOG_NONE;
	il_make(&l->files);
	ASSERT_EQ(open_maps(l, "rdma-devices", NULL), 0);
}

static void end(struct lab *l)
{
	device_configmaps_free(l->maps);
	il_drop(&l->files);
}

/* data: the members of the object's "data"; NULL: the ConfigMap does not exist. */
static bool given(struct lab *l, const char *data)
{
	auto_free char *text = data ? xasprintf("{\"metadata\":{\"name\":\"rdma-devices\"},"
						"\"data\":{%s}}",
						data)
				    : NULL;
	auto_json struct json_doc *d = NULL;

	if (text)
		ASSERT_EQ(json_parse(&d, span_of(text), 1 << 20, NULL), 0);
	return device_configmaps_take(l->maps, 0, d ? json_root(d) : NULL);
}

static void assert_file(struct lab *l, const char *key, const char *wanted)
{
	auto_free char *path = xasprintf(MAP_DIR "/%s", key);
	auto_buf struct buf b;

	buf_init(&b, 1 << 20);
	if (!wanted) {
		assert_false(file_exists(&l->files.root, path));
		return;
	}
	assert_true(file_read(&l->files.root, path, 1 << 20, &b, NULL) >= 0);
	assert_true(span_eq(buf_span(&b), wanted));
}

static void test_key_of_the_node_takes_precedence_over_the_default(void **state)
{
	struct lab l;

	(void)state;
	begin(&l);
	assert_true(
		given(&l, "\"n1\":\"" SHARED "\",\"config.json\":\"" OTHER "\",\"n2\":\"bad\""));
	assert_file(&l, "n1", PLAIN);
	assert_file(&l, "config.json", NULL);
	assert_file(&l, "n2", NULL);
	/* Without the node's key the default applies; the file of the previous key is removed. */
	assert_true(given(&l, "\"x.json\":\"bad\",\"config.json\":\"" SHARED "\""));
	assert_file(&l, "config.json", PLAIN);
	assert_file(&l, "n1", NULL);
	assert_true(given(&l, "\"x.json\":\"" SHARED "\",\"y.json\":\"" OTHER "\",\"z\":\"bad\""));
	assert_file(&l, "x.json", PLAIN);
	assert_file(&l, "y.json", "{\"resourceList\":[]}");
	assert_file(&l, "z", NULL);
	assert_false(given(&l, "\"x.json\":\"" SHARED "\",\"y.json\":\"" OTHER "\""));
	ASSERT_EQ(l.reports, 0);
	end(&l);
}

static void test_previous_version_stays_in_force_after_an_error(void **state)
{
	static const struct {
		const char *data, *reported;
	} cases[] = {
		{NULL, "ConfigMap 'kube-system/rdma-devices' does not exist; the ConfigMap's last "
		       "valid version stays in force"},
		{"\"config.json\":\"{\"", "ConfigMap 'kube-system/rdma-devices' key 'config.json'"},
		{"\"n1\":\"[]\"", "ConfigMap 'kube-system/rdma-devices' key 'n1'"},
		{"\"n1\":\"{}\"", "ConfigMap 'kube-system/rdma-devices' key 'n1'"},
		{"\"n2\":\"{}\"",
		 "has no key for this node: expected 'n1', 'config.json' or '*.json'"},
		{"", "has no key for this node"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct lab l;

		begin(&l);
		assert_true(given(&l, "\"config.json\":\"" SHARED "\""));
		for (int again = 0; again < 2; again++)
			assert_false(given(&l, cases[i].data));
		ASSERT_EQ_MSG(l.reports, 1, "cases[%zu]", i);
		assert_true(l.is_warning);
		ASSERT_HAS(l.reported, cases[i].reported);
		ASSERT_HAS(l.reported, "stays in force");
		assert_file(&l, "config.json", PLAIN);
		/* The ConfigMap is valid again, which is reported. */
		assert_false(given(&l, "\"config.json\":\"" SHARED "\""));
		ASSERT_EQ_MSG(l.reports, 2, "cases[%zu]", i);
		assert_false(l.is_warning);
		end(&l);
	}
}

static void test_configmap_that_was_never_valid_writes_no_file(void **state)
{
	struct lab l;

	(void)state;
	begin(&l);
	assert_false(given(&l, NULL));
	ASSERT_HAS(l.reported, "does not exist; no valid version of the ConfigMap is in force");
	assert_false(file_exists(&l.files.root, MAP_DIR));
	end(&l);
}

static void test_keys_with_a_slash_or_a_leading_dot_are_ignored(void **state)
{
	struct lab l;

	(void)state;
	begin(&l);
	assert_false(given(&l, "\"../../x.json\":\"" SHARED "\",\"..x.json\":\"" SHARED "\""));
	ASSERT_HAS(l.reported, "has no key for this node");
	end(&l);
}

/*
 * An object has space for thousands of keys, and each would cause a synced write in the agent's
 * loop.
 */
static void test_configmap_with_too_many_keys_is_refused(void **state)
{
	auto_buf struct buf b;
	struct lab l;

	(void)state;
	begin(&l);
	buf_init(&b, 1 << 16);
	for (int i = 0; i < 65; i++)
		buf_printf(&b, "%s\"k%d.json\":\"" OTHER "\"", i ? "," : "", i);
	assert_false(given(&l, b.p));
	ASSERT_HAS(l.reported, "has 65 keys '*.json', expected 64 at most");
	assert_false(file_exists(&l.files.root, MAP_DIR));
	end(&l);
}

static void test_version_that_cannot_be_written_is_reported(void **state)
{
	struct lab l;

	(void)state;
	begin(&l);
	il_write(&l.files, "/state/configmaps", "in the way");
	assert_false(given(&l, "\"n1\":\"" SHARED "\""));
	ASSERT_EQ(l.reports, 1);
	assert_false(device_configmaps_retry(l.maps, 0));
	ASSERT_EQ(l.reports, 1);
	ASSERT_EQ(file_remove(&l.files.root, "/state/configmaps", NULL), 0);
	assert_true(device_configmaps_retry(l.maps, 0));
	ASSERT_EQ(l.reports, 2);
	assert_false(l.is_warning);
	assert_file(&l, "n1", PLAIN);
	assert_false(device_configmaps_retry(l.maps, 0));
	end(&l);
}

static void test_invalid_or_repeated_configmap_names_are_refused(void **state)
{
	static const char *const invalid[] = {"/x",   "x/", "a/b/c", "A", "../x",
					      "x,,y", ",",  "a b",   ".x"};
	struct lab l;
	struct err e = ERR_INIT;

	(void)state;
	begin(&l);
	for (size_t i = 0; i < ARRAY_LEN(invalid); i++) {
		struct device_configmaps *first = l.maps;

		err_clear(&e);
		ASSERT_EQ_MSG(open_maps(&l, invalid[i], &e), -EINVAL, "invalid[%zu]", i);
		ASSERT_HAS(e.text, "expected [NAMESPACE/]NAME[,...]");
		assert_null(l.maps);
		l.maps = first;
	}
	device_configmaps_free(l.maps);
	/*
	 * Reading one ConfigMap twice would report each of its resources as one that "already
	 * exists".
	 */
	err_clear(&e);
	ASSERT_EQ(open_maps(&l, "x,kube-system/x", &e), -EINVAL);
	ASSERT_HAS(e.text, "ConfigMap 'kube-system/x' is named twice");
	ASSERT_EQ(open_maps(&l, "", NULL), 0);
	assert_null(l.maps);
	ASSERT_EQ(device_configmaps_count(l.maps), 0);
	ASSERT_EQ(open_maps(&l, "a, ns/b.c", NULL), 0);
	ASSERT_EQ(device_configmaps_count(l.maps), 2);
	ASSERT_STR_EQ(device_configmaps_dir(l.maps, 0), "/state/configmaps/kube-system/a");
	ASSERT_STR_EQ(device_configmaps_dir(l.maps, 1), "/state/configmaps/ns/b.c");
	end(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_key_of_the_node_takes_precedence_over_the_default),
		cmocka_unit_test(test_previous_version_stays_in_force_after_an_error),
		cmocka_unit_test(test_configmap_that_was_never_valid_writes_no_file),
		cmocka_unit_test(test_keys_with_a_slash_or_a_leading_dot_are_ignored),
		cmocka_unit_test(test_configmap_with_too_many_keys_is_refused),
		cmocka_unit_test(test_version_that_cannot_be_written_is_reported),
		cmocka_unit_test(test_invalid_or_repeated_configmap_names_are_refused),
	};

	return T_RUN(tests, NULL, NULL);
}
