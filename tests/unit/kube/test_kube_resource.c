/* SPDX-License-Identifier: Apache-2.0 */
/* Request paths, and descriptions of objects in messages. */
#include "testlib.h"

#include "kube/kinds.h"
#include "kube/path.h"

static const struct kube_kind blocks = {"ipam.example.com", "v1", "ipblocks", "ipblock", false};

static void path(struct kube_ref r, const char *want, const char *expected)
{
	struct buf b;

	buf_init(&b, KUBE_PATH_MAX);
	kube_path(&b, &r);
	ASSERT_STR_EQ(b.p, want);
	buf_reset(&b);
	kube_ref_describe(&b, &r);
	ASSERT_STR_EQ(b.p, expected);
	buf_done(&b);
}

static void test_objects_have_a_path_and_a_description(void **state)
{
	struct buf b;

	(void)state;
	path((struct kube_ref){&kube_pods, "ns", "a", "status"},
	     "/api/v1/namespaces/ns/pods/a/status", "status of pod 'ns/a'");
	path((struct kube_ref){&kube_pods, NULL, NULL, NULL}, "/api/v1/pods", "pods");
	path((struct kube_ref){&kube_pods, "ns", NULL, NULL}, "/api/v1/namespaces/ns/pods",
	     "pods of 'ns'");
	path((struct kube_ref){&blocks, "ns", "a/b?c", NULL},
	     "/apis/ipam.example.com/v1/ipblocks/a%2Fb%3Fc", "ipblock 'a/b?c'");
	buf_init(&b, KUBE_PATH_MAX);
	kube_path_query(&b, "limit", "500");
	kube_path_query(&b, "continue", "");
	kube_path_query(&b, "fieldSelector", "spec.nodeName=n 1");
	ASSERT_STR_EQ(b.p, "?limit=500&fieldSelector=spec.nodeName%3Dn%201");
	buf_done(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_objects_have_a_path_and_a_description),
	};

	return T_RUN(tests, NULL, NULL);
}
