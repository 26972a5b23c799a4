/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "spec/pod.h"
#include "wire/json/json.h"

static int read_text(const char *text, struct pod_facts *ret, struct err *e)
{
	auto_json struct json_doc *doc = NULL;

	ASSERT_EQ(json_parse(&doc, span_of(text), 1 << 16, NULL), 0);
	return pod_facts_read(json_root(doc), ret, e);
}

static void test_fields_of_a_pod_are_read(void **state)
{
	static const char text[] =
		"{\"kind\":\"Pod\",\"metadata\":{\"namespace\":\"train\",\"name\":\"job-0\","
		"\"uid\":\"6f0f\",\"deletionTimestamp\":\"2026-11-21T10:00:00Z\","
		"\"labels\":{\"tier\":\"gpu\",\"app\":\"job\",\"app-x\":\"\"},"
		"\"annotations\":{\"kubectl.kubernetes.io/last-applied-configuration\":\"{}\","
		"\"ipam.spidernet.io/ippool\":\"{}\",\"cni.spidernet.io/rdma\":\"x\","
		"\"k8s.v1.cni.cncf.io/networks\":\"a\",\"v1.multus-cni.io/default-network\":\"b\","
		"\"unirail.io/x\":\"c\",\"kubevirt.io/domain\":\"vm1\","
		"\"vm.kubevirt.io/name\":\"vm1\",\"notkubevirt.io/name\":\"no\",\"bare\":\"no\"},"
		"\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":\"X\",\"name\":\"x\"},"
		"{\"apiVersion\":\"apps/v1\",\"kind\":\"StatefulSet\",\"name\":\"job\","
		"\"uid\":\"77\",\"controller\":true}]},"
		"\"spec\":{\"nodeName\":\"n1\",\"hostNetwork\":true},"
		"\"status\":{\"phase\":\"Failed\"}}";
	struct pod_facts p;

	(void)state;
	ASSERT_EQ(read_text(text, &p, NULL), 0);
	ASSERT_STR_EQ(p.ns, "train");
	ASSERT_STR_EQ(p.name, "job-0");
	ASSERT_STR_EQ(p.uid, "6f0f");
	ASSERT_STR_EQ(p.node, "n1");
	ASSERT_EQ(p.labels.n, 3);
	ASSERT_STR_EQ(p.labels.v[0].key, "app");
	ASSERT_STR_EQ(p.labels.v[2].key, "tier");
	ASSERT_STR_EQ(labels_get(&p.labels, "tier"), "gpu");
	ASSERT_STR_EQ(labels_get(&p.labels, "app-x"), "");
	assert_null(labels_get(&p.labels, "ti"));
	ASSERT_EQ(p.annotations.n, 7);
	assert_null(labels_get(&p.annotations, "notkubevirt.io/name"));
	ASSERT_STR_EQ(labels_get(&p.annotations, "vm.kubevirt.io/name"), "vm1");
	ASSERT_STR_EQ(p.owner_api, "apps/v1");
	ASSERT_STR_EQ(p.owner_kind, "StatefulSet");
	ASSERT_STR_EQ(p.owner_name, "job");
	ASSERT_STR_EQ(p.owner_uid, "77");
	assert_true(p.host_network && p.finished && p.deleting);
	pod_facts_done(&p);
}

static void test_pod_without_optional_fields_is_read(void **state)
{
	struct pod_facts p;

	(void)state;
	ASSERT_EQ(read_text("{\"metadata\":{\"namespace\":\"a\",\"name\":\"b\",\"uid\":\"c\","
			    "\"deletionTimestamp\":null,\"labels\":null},"
			    "\"status\":{\"phase\":\"Running\"}}",
			    &p, NULL),
		  0);
	ASSERT_STR_EQ(p.node, "");
	assert_null(p.owner_kind);
	ASSERT_EQ(p.labels.n, 0);
	assert_false(p.host_network || p.finished || p.deleting);
	pod_facts_done(&p);
}

static void test_malformed_pods_are_refused(void **state)
{
	static const struct {
		const char *text, *expected;
	} v[] = {
		{"{}", "pod: metadata.namespace is null, expected a string"},
		{"[]", "pod: metadata.namespace is null, expected a string"},
		{"{\"metadata\":{\"namespace\":\"a\",\"name\":\"b\"}}",
		 "pod 'a/b': metadata.uid is null, expected a string"},
		{"{\"metadata\":{\"namespace\":\"a\",\"name\":\"b\",\"uid\":\"\"}}",
		 "pod 'a/b': metadata.uid is empty"},
		{"{\"metadata\":{\"namespace\":\"a\",\"name\":\"b\",\"uid\":\"c\",\"labels\":[]}}",
		 "pod 'a/b': metadata.labels is array, expected an object"},
		{"{\"metadata\":{\"namespace\":\"a\",\"name\":\"b\",\"uid\":\"c\","
		 "\"labels\":{\"x\":1}}}",
		 "pod 'a/b': metadata.labels['x'] is number, expected a string"},
		{"{\"metadata\":{\"namespace\":\"a\",\"name\":\"b\",\"uid\":\"c\"},"
		 "\"spec\":{\"nodeName\":7}}",
		 "pod 'a/b': spec.nodeName is number, expected a string"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct pod_facts p = {0};
		struct err e = ERR_INIT;

		ASSERT_EQ(read_text(v[i].text, &p, &e), -EINVAL);
		ASSERT_STR_EQ(e.text, v[i].expected);
		ASSERT_EQ(e.kind, ERR_DECODE);
		assert_null(p.name);
	}
}

static void test_labels_are_put_and_found(void **state)
{
	struct labels l = {0};

	(void)state;
	labels_put(&l, "b", "1");
	labels_put(&l, "a", "2");
	labels_put(&l, "c", "3");
	labels_put(&l, "b", "4");
	ASSERT_EQ(l.n, 3);
	ASSERT_STR_EQ(labels_get(&l, "a"), "2");
	ASSERT_STR_EQ(labels_get(&l, "b"), "4");
	ASSERT_STR_EQ(labels_get(&l, "c"), "3");
	assert_null(labels_get(NULL, "a"));
	labels_done(&l);
	assert_null(labels_get(&l, "a"));
}

/* Labels in any order are sorted by key; a pod with more labels than LABELS_MAX is read without
 * labels. */
static void test_number_of_labels_is_limited(void **state)
{
	static const size_t counts[] = {0, 1, LABELS_MAX, LABELS_MAX + 1};

	(void)state;
	log_threshold = LOG_NONE;
	for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
		auto_buf struct buf b;
		struct pod_facts p;

		buf_init(&b, 1 << 16);
		buf_str(&b,
			"{\"metadata\":{\"namespace\":\"t\",\"name\":\"p\",\"uid\":\"u\",\"labels\":{");
		for (size_t k = 0; k < counts[i]; k++)
			buf_printf(&b, "%s\"k%04zu\":\"%zu\"", k ? "," : "", k * 7919 % counts[i],
				   k);
		buf_str(&b, "}}}");
		ASSERT_EQ_MSG(read_text(b.p, &p, NULL), 0, "counts[%zu]", i);
		ASSERT_EQ_MSG(p.labels.n, counts[i] > LABELS_MAX ? 0 : counts[i], "counts[%zu]", i);
		for (size_t k = 1; k < p.labels.n; k++)
			assert_true(strcmp(p.labels.v[k - 1].key, p.labels.v[k].key) < 0);
		pod_facts_done(&p);
	}
}

static void test_last_of_equal_label_keys_is_used(void **state)
{
	struct labels l = {0};

	(void)state;
	labels_collect(&l, "b", "1");
	labels_collect(&l, "a", "2");
	labels_collect(&l, "b", "3");
	labels_merge(&l);
	ASSERT_EQ(l.n, 2);
	ASSERT_STR_EQ(labels_get(&l, "a"), "2");
	ASSERT_STR_EQ(labels_get(&l, "b"), "3");
	labels_done(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fields_of_a_pod_are_read),
		cmocka_unit_test(test_pod_without_optional_fields_is_read),
		cmocka_unit_test(test_malformed_pods_are_refused),
		cmocka_unit_test(test_labels_are_put_and_found),
		cmocka_unit_test(test_number_of_labels_is_limited),
		cmocka_unit_test(test_last_of_equal_label_keys_is_used),
	};

	return T_RUN(tests, NULL, NULL);
}
