/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/rdma.h"
#include "wire/json/json.h"

static const struct rdma_dev devs[] = {
	{.name = "mlx5_0",
	 .fw = "28.39.3560",
	 .driver = "mlx5",
	 .protocol = "roce",
	 .node_guid = 0xa088c20300e00001,
	 .in_verbs = true,
	 .uverbs = "uverbs0",
	 .ports = {{.port = 1,
		    .netdev = "ens1",
		    .state = 4,
		    .phys_state = 5,
		    .active_mtu = 4096,
		    .gid_count = 6,
		    .link_layer = "Ethernet"}}},
	{.name = "mlx4_0",
	 .driver = "mlx4",
	 .protocol = "ib",
	 .reason = "no reason",
	 .ports = {{.port = 1, .state = 1, .phys_state = 3}, {.port = 2, .state = 4, .lid = 9}}},
};

static void test_rdma_devices_are_shown_as_text(void **state)
{
	auto_free char *out = NULL;
	size_t size;
	FILE *f = open_memstream(&out, &size);

	(void)state;
	rdma_show_text(devs, ARRAY_LEN(devs), f);
	fclose(f);
	ASSERT_STR_EQ(
		out,
		"DEVICE  PORT  STATE   LINK      NETDEV  MTU   GIDS  DRIVER  FIRMWARE    VERBS\n"
		"mlx5_0  1     ACTIVE  Ethernet  ens1    4096  6     mlx5    28.39.3560  yes\n"
		"mlx4_0  1     DOWN    ib        -       -     -     mlx4    -           "
		"no: no reason\n"
		"mlx4_0  2     ACTIVE  ib        -       -     -     mlx4    -           "
		"no: no reason\n"
		"1 of 2 devices are not usable by verbs\n");
}

static void test_rdma_devices_are_shown_as_json(void **state)
{
	auto_buf struct buf b;
	auto_json struct json_doc *d = NULL;
	const struct json *dev, *port;
	int64_t v;

	(void)state;
	buf_init(&b, 1 << 16);
	rdma_show_json(devs, ARRAY_LEN(devs), &b);
	ASSERT_EQ(json_parse(&d, buf_span(&b), 1 << 16, NULL), 0);
	ASSERT_EQ(json_len(json_root(d)), 2);
	dev = json_at(json_root(d), 0);
	ASSERT_STR_EQ(json_string(json_get(dev, "nodeGuid")), "a088:c203:00e0:0001");
	assert_true(json_bool(json_get(dev, "inVerbs")));
	ASSERT_STR_EQ(json_string(json_get(dev, "notUsableByVerbs")), "");
	dev = json_at(json_root(d), 1);
	ASSERT_STR_EQ(json_string(json_get(dev, "notUsableByVerbs")), "no reason");
	ASSERT_EQ(json_len(json_get(dev, "ports")), 2);
	port = json_at(json_get(dev, "ports"), 1);
	ASSERT_STR_EQ(json_string(json_get(port, "link")), "ib");
	ASSERT_EQ(json_int(json_get(port, "lid"), &v), 0);
	ASSERT_EQ(v, 9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_rdma_devices_are_shown_as_text),
					   cmocka_unit_test(test_rdma_devices_are_shown_as_json)};

	return T_RUN(tests, NULL, NULL);
}
