/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pods that lack requested networks: annotations of the pod and its namespace are read as injection
 * reads them.
 */
#include "testlib.h"

#include "base/alloc.h"
#include "controller/gc/uninjected.h"
#include "wire/json/json.h"

static unsigned int requests_of(const char *text)
{
	auto_json struct json_doc *d = NULL;

	ASSERT_EQ(json_parse(&d, span_of(text), 1 << 10, NULL), 0);
	return inject_requests(json_root(d));
}

#define RDMA(v)	   "{\"cni.spidernet.io/rdma-resource-inject\":\"" v "\"}"
#define NETWORK(v) "{\"cni.spidernet.io/network-resource-inject\":\"" v "\"}"

static void test_annotation_of_the_pod_precedes_the_same_annotation_of_its_namespace(void **state)
{
	static const struct {
		const char *own, *ns;
		int key; /* -1: no network is requested */
	} cases[] = {
		{"{}", "{}", -1},
		{RDMA("a"), "{}", INJECT_RDMA},
		{NETWORK("a, b"), "{}", INJECT_NETWORK},
		{RDMA(" , "), "{}", -1},
		{"{}", RDMA("a"), INJECT_RDMA},
		{RDMA(""), RDMA("a"), -1},
		{RDMA(""), NETWORK("a"), INJECT_NETWORK},
		{NETWORK("a"), RDMA("b"), INJECT_RDMA},
		{NETWORK(""), RDMA("b"), INJECT_RDMA},
		{"{\"other\":\"x\"}", NETWORK(""), -1},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		enum inject_key key = INJECT_KEYS;
		bool is = uninjected_requests(requests_of(cases[i].own), requests_of(cases[i].ns),
					      &key);

		ASSERT_EQ_MSG(is ? (int)key : -1, cases[i].key, "cases[%zu]", i);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			test_annotation_of_the_pod_precedes_the_same_annotation_of_its_namespace),
	};

	return T_RUN(tests, NULL, NULL);
}
