/* SPDX-License-Identifier: Apache-2.0 */
#include "host_lab.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "device/resource/explain.h"
#include "device/resource/plan.h"

static struct err e;

static void test_explain_names_the_reason_for_each_device(void **state)
{
	static const char conf[] =
		"{\"configList\": [{\"resourceName\": \"hca\", \"rdmaHcaMax\": 1, \"selectors\": "
		"{\"vendors\": [\"8086\"]}}], \"resourceList\": [{\"resourceName\": \"a\", \"selectors\": "
		"{\"pfNames\": [\"ens4f0np0#0\"]}}, {\"resourceName\": \"b\", \"selectors\": "
		"{\"vendors\": [\"15b3\"]}}]}";
	auto_node_devices struct node_devices node = {0};
	auto_resource_config struct resource_config c = RESOURCE_CONFIG_INIT;
	auto_resource_messages struct resource_messages m = {0};
	auto_resources struct resources s = {0};
	auto_buf struct buf b;
	struct host_lab h;

	(void)state;
	host_unpack(&h, "vfs.tree");
	ASSERT_EQ(node_devices_read(&h.root, &node, &e), 0);
	ASSERT_EQ(resource_config_add(&c, span_of(conf), "c", NULL, &m, &e), 0);
	resources_decide(&c, &node, &s, &m);
	buf_init(&b, 1 << 20);
	resource_explain_text(&s, &m, &b);
	assert_non_null(strstr(b.p,
			       "0000:af:00.2  VF 0 of ens4f0np0  ens4f0v0  mlx5_1\n"
			       "  - rdma/hca: vendors requires 8086, the device has 15b3\n"
			       "  + intel.com/a\n"
			       "  - intel.com/b: the device belongs to intel.com/a, which comes "
			       "first\n"));
	assert_non_null(strstr(
		b.p, "0000:af:00.5  VF 3 of ens4f0np0  in a pod\n"
		     "  - rdma/hca: the device has no RDMA device\n"
		     "  - intel.com/a: pfNames requires ens4f0np0#0, the device has ens4f0np0#3\n"
		     "  + intel.com/b\n"));
	assert_non_null(strstr(b.p, "0000:af:00.0  PF with 5 VFs  ens4f0np0  mlx5_0\n"));
	assert_non_null(strstr(b.p, "intel.com/b: the device is a PF with VFs\n"));
	assert_non_null(strstr(b.p,
			       "warning: c: resourceList[1]: intel.com/b: Cannot add device "
			       "[0000:af:00.2]. Already allocated.: it belongs to intel.com/a, "
			       "which comes first\n"));
	host_remove(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_explain_names_the_reason_for_each_device),
	};

	return T_RUN(tests, NULL, NULL);
}
