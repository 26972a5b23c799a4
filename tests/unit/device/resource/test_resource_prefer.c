/* SPDX-License-Identifier: Apache-2.0 */
/* Distances of devices, GPUs of a host, and the order of preferred devices. */
#include "host_lab.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "device/resource/prefer.h"
#include "resource_lab.h"

static struct err e;

#define SWITCH(n) "pci0000:" n "0/0000:" n "0:01.0/0000:" n "1:00.0/0000:" n "2:0"

static void test_distance_of_devices_follows_the_pci_tree(void **state)
{
	(void)state;
	ASSERT_EQ(node_distance(SWITCH("1") "0.0", 0, SWITCH("1") "4.0", 0), NODE_SAME_SWITCH);
	ASSERT_EQ(node_distance(SWITCH("1") "0.0/0000:13:00.0/0000:14:01.0", 0, SWITCH("1") "4.0",
				0),
		  NODE_SAME_TREE);
	ASSERT_EQ(node_distance("pci0000:10/0000:10:01.0", 0, "pci0000:10/0000:10:02.0", 0),
		  NODE_SAME_ROOT);
	ASSERT_EQ(node_distance(SWITCH("1") "0.0", 1, SWITCH("2") "0.0", 1), NODE_SAME_NUMA);
	ASSERT_EQ(node_distance(SWITCH("1") "0.0", 0, SWITCH("2") "0.0", 1), NODE_FAR);
	ASSERT_EQ(node_distance("", -1, "", -1), NODE_FAR);
	/* A path component that is a prefix of another is not equal to it. */
	ASSERT_EQ(node_distance("pci0000:1", -1, "pci0000:10", -1), NODE_FAR);
}

/* Fails the test unless the devices `expected` are preferred; `must` has the required ones. A space
 * separates the names of a list. */
static void prefer(struct prefer_lab *l, const char *available, const char *must, size_t size,
		   const char *gpus, const char *expected)
{
	const char *lists[3] = {available, must, gpus};
	char *arguments[3][64];
	size_t n[3] = {0};
	auto_free const char **ret = NULL;
	auto_buf struct buf b;
	size_t count = 0;

	for (int i = 0; i < 3; i++) {
		struct span rest = span_of(lists[i]), word;

		while (*lists[i] && span_cut(&rest, ' ', &word))
			arguments[i][n[i]++] = span_dup(word);
	}
	const struct prefer_request q = {(const char *const *)arguments[0],
					 n[0],
					 (const char *const *)arguments[1],
					 n[1],
					 size,
					 (const char *const *)arguments[2],
					 n[2]};

	resource_prefer(&l->s, &l->r, &q, &ret, &count);
	buf_init(&b, 4096);
	for (size_t i = 0; i < count; i++)
		buf_printf(&b, "%s%s", i ? " " : "", ret[i]);
	ASSERT_STR_EQ(b.p ? b.p : "", expected);
	for (int i = 0; i < 3; i++)
		for (size_t k = 0; k < n[i]; k++)
			free(arguments[i][k]);
}

#define ALL                                                                                        \
	"0000:33:00.3 0000:03:00.1 0000:03:00.2 0000:03:00.3 0000:13:00.1 0000:13:00.2 "           \
	"0000:13:00.3 0000:23:00.1 0000:23:00.2 0000:23:00.3 0000:33:00.1 0000:33:00.2"

static void test_devices_near_the_gpu_are_preferred(void **state)
{
	struct prefer_lab l;

	(void)state;
	prefer_init(&l);
	/* a VF below the GPU's switch */
	prefer(&l, ALL, "", 1, "0000:29:00.0", "0000:23:00.1");
	/* a VF below the switch of each GPU */
	prefer(&l, ALL, "", 2, "0000:39:00.0 0000:19:00.0", "0000:13:00.1 0000:33:00.1");
	/* no VF is left below the GPU's switch: a VF on the GPU's NUMA node is preferred */
	prefer(&l, "0000:03:00.1 0000:13:00.1 0000:33:00.2", "", 1, "0000:29:00.0", "0000:33:00.2");
	/* no VF is left on the GPU's NUMA node either */
	prefer(&l, "0000:13:00.1", "", 1, "0000:29:00.0", "0000:13:00.1");
	/* a GPU that is not on this host */
	prefer(&l, ALL, "", 1, "0000:99:00.0", "0000:03:00.1");
}

/* Device IDs of NVIDIA's device plugin: UUIDs, and replicas of a shared GPU. */
static void test_devices_near_a_gpu_named_by_uuid_are_preferred(void **state)
{
	struct prefer_lab l;

	(void)state;
	prefer_init(&l);
	str_copy(l.gpus[1].uuid, sizeof(l.gpus[1].uuid), "GPU-11111111-aaaa");
	str_copy(l.gpus[2].uuid, sizeof(l.gpus[2].uuid), "GPU-22222222-bbbb");
	prefer(&l, ALL, "", 1, "GPU-22222222-bbbb", "0000:23:00.1");
	prefer(&l, ALL, "", 1, "GPU-22222222-bbbb::3", "0000:23:00.1");
	prefer(&l, ALL, "", 1, "GPU-11111111-aaaa", "0000:13:00.1");
	prefer(&l, ALL, "", 1, "0000:29:00.0::0", "0000:23:00.1");
	/* No effect: unknown UUIDs, a MIG device, a prefix of a known UUID, an empty ID. */
	prefer(&l, ALL, "", 1,
	       "GPU-33333333-cccc MIG-22222222-bbbb GPU-22222222 ::", "0000:03:00.1");
	assert_null(node_gpu_find(&l.node, ""));
}

static void expect_uuid(const char *information, const char *expected)
{
	char uuid[NODE_UUID_MAX] = "before";

	node_gpu_parse_uuid(span_of(information), uuid);
	ASSERT_STR_EQ(uuid, expected);
}

static void test_uuid_of_a_gpu_is_parsed(void **state)
{
	char zero[] = "GPU UUID: GPU-1_2\n", uuid[NODE_UUID_MAX];

	(void)state;
	expect_uuid("Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 320\n"
		    "GPU UUID: \t GPU-7b1f0c8e-3d5a-4f0b-9a63-5d1c2e9f8a10\n"
		    "Video BIOS: \t 96.00.30.00.01\nBus Location: \t 0000:19:00.0\n",
		    "GPU-7b1f0c8e-3d5a-4f0b-9a63-5d1c2e9f8a10");
	expect_uuid("GPU UUID:GPU-1", "GPU-1");
	expect_uuid("GPU UUID: \t GPU-\?\?\?\?\?\?\?\?-\?\?\?\?\n", "");
	expect_uuid("GPU UUID: \t\n", "");
	expect_uuid("GPU UUID\n", "");
	expect_uuid("", "");
	expect_uuid("Model: GPU UUID: GPU-1\n", "");
	expect_uuid("GPU UUID: GPU-0123456789012345678901234567890123456789012\n",
		    "GPU-0123456789012345678901234567890123456789012");
	expect_uuid("GPU UUID: GPU-01234567890123456789012345678901234567890123\n", "");
	zero[15] = '\0';
	node_gpu_parse_uuid((struct span){zero, sizeof(zero) - 1}, uuid);
	ASSERT_STR_EQ(uuid, "");
}

static void test_gpus_of_a_host_are_listed(void **state)
{
	auto_node_devices struct node_devices node = {0};
	const struct node_gpu *gpu;
	struct host_lab h;

	(void)state;
	host_unpack(&h, "hw_eight_ofed.tree");
	host_write(&h, "/proc/driver/nvidia/gpus/0000:24:00.0/information",
		   "IRQ: 320\nGPU UUID: \t GPU-7b1f0c8e\n");
	ASSERT_EQ(node_devices_read(&h.root, &node, &e), 0);
	gpu = node_gpu_find(&node, "GPU-7b1f0c8e");
	assert_non_null(gpu);
	ASSERT_STR_EQ(gpu->bdf, "0000:24:00.0");
	/* The driver reports no UUID of this GPU. */
	gpu = node_gpu_find(&node, "0000:14:00.0");
	assert_non_null(gpu);
	ASSERT_STR_EQ(gpu->uuid, "");
	host_remove(&h);
}

static void test_preferred_devices_are_spread_over_rails(void **state)
{
	struct prefer_lab l;

	(void)state;
	prefer_init(&l);
	prefer(&l, ALL, "", 4, "", "0000:03:00.1 0000:13:00.1 0000:23:00.1 0000:33:00.1");
	/* rail 2 has no free VF, rail 0 one, rail 1 two, rail 3 all three */
	prefer(&l, "0000:03:00.1 0000:13:00.1 0000:13:00.2 0000:33:00.1 0000:33:00.2 0000:33:00.3",
	       "", 2, "", "0000:33:00.1 0000:13:00.1");
	/* a required device is included and counted for its rail */
	prefer(&l, ALL, "0000:33:00.2", 4, "",
	       "0000:33:00.2 0000:03:00.1 0000:13:00.1 0000:23:00.1");
	/* fewer IDs are available than requested; IDs without a device come last */
	prefer(&l, "unknown 0000:13:00.2", "", 5, "", "0000:13:00.2 unknown");
	prefer(&l, "", "", 2, "", "");
	prefer(&l, ALL, "", 0, "", "");
}

/* With "spread": true the device ID determines the HCA, so the kubelet selects an HCA by
 * selecting an ID. */
static void test_least_loaded_hca_is_preferred(void **state)
{
	struct prefer_lab l;
	struct resource_id id;

	(void)state;
	prefer_init(&l);
	l.conf.form = RESOURCE_SHARED;
	l.conf.spread = true;
	l.conf.hca_max = 9;
	/* three HCAs: those of rails 0, 1 and 2 */
	l.members[1].device = &l.v[VFS];
	l.members[2].device = &l.v[2 * VFS];
	l.r.n = 3;
	resource_id_at(&l.r, 5, &id);
	assert_true(id.n_numa == 1 && id.numa[0] == 1);
	prefer(&l, "0 1 2 3 4 5 6 7 8", "", 1, "", "0");
	prefer(&l, "1 2 3 4 5 6 7 8", "", 1, "", "1");
	prefer(&l, "2 3 4 5 6 7 8", "", 1, "", "2");
	prefer(&l, "3 4 5 6 7 8", "", 1, "", "3");
	prefer(&l, "3 6 4 7", "", 1, "", "3");
	prefer(&l, "3 6 4 7", "", 1, "0000:19:00.0", "4");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_distance_of_devices_follows_the_pci_tree),
		cmocka_unit_test(test_devices_near_the_gpu_are_preferred),
		cmocka_unit_test(test_devices_near_a_gpu_named_by_uuid_are_preferred),
		cmocka_unit_test(test_uuid_of_a_gpu_is_parsed),
		cmocka_unit_test(test_gpus_of_a_host_are_listed),
		cmocka_unit_test(test_preferred_devices_are_spread_over_rails),
		cmocka_unit_test(test_least_loaded_hca_is_preferred),
	};

	return T_RUN(tests, NULL, NULL);
}
