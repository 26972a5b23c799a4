/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "controller/registration/match_condition.h"

static void test_match_condition_lists_namespaces_up_to_a_limit(void **state)
{
	const char *const two[] = {"default", "kube-node-lease"};
	const char **many = xcalloc(5000, sizeof(*many));
	auto_buf struct buf b, none, long_one;

	(void)state;
	buf_init(&b, 1 << 20);
	buf_init(&none, 1 << 20);
	buf_init(&long_one, 1 << 20);
	match_condition_write(two, 2, &b);
	ASSERT_STR_EQ(b.p, "has(object.metadata.annotations) && ('cni.spidernet.io/"
			   "rdma-resource-inject' in object.metadata.annotations || "
			   "'cni.spidernet.io/network-resource-inject' in "
			   "object.metadata.annotations) || !(request.namespace in "
			   "['default','kube-node-lease'])");
	match_condition_write(NULL, 0, &none);
	assert_non_null(strstr(none.p, "!(request.namespace in [])"));
	/* Too many namespaces: no condition is written, so the API server sends the pods of all
	 * namespaces in scope to the webhook. */
	for (int i = 0; i < 5000; i++)
		many[i] = "a-namespace-with-a-name";
	match_condition_write(many, 5000, &long_one);
	ASSERT_EQ(long_one.len, 0);
	free(many);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_match_condition_lists_namespaces_up_to_a_limit),
	};

	return T_RUN(tests, NULL, NULL);
}
