/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include "kube/patch.h"

static void test_json_patch_is_written(void **state)
{
	struct kube_patch p;

	(void)state;
	kube_patch_init(&p);
	jo_str(kube_patch_add(&p, "test", "spec", "owner", NULL), "n1");
	jo_int(kube_patch_add(&p, "add", "metadata", "annotations", "a/b~c", NULL), 3);
	kube_patch_add(&p, "remove", "spec", "x", NULL);
	ASSERT_STR_EQ(kube_patch_end(&p).p,
		      "[{\"op\":\"test\",\"path\":\"/spec/owner\",\"value\":\"n1\"},"
		      "{\"op\":\"add\",\"path\":\"/metadata/annotations/a~1b~0c\","
		      "\"value\":3},{\"op\":\"remove\",\"path\":\"/spec/x\"}]");
	kube_patch_done(&p);
	kube_patch_init(&p);
	ASSERT_STR_EQ(kube_patch_end(&p).p, "[]");
	kube_patch_done(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_json_patch_is_written),
	};

	return T_RUN(tests, NULL, NULL);
}
