/* SPDX-License-Identifier: Apache-2.0 */
/* The output formats of ibdev2netdev, show_gids and ibstat. */
#include "host_lab.h"

#include <errno.h>
#include <string.h>

#include "cli/views.h"

#define DEV "/sys/class/infiniband/mlx5_0"

static struct err e;

static void make(struct host_lab *h)
{
	host_empty(h);
	host_write(h, DEV "/hca_type", "MT4129");
	host_write(h, DEV "/fw_ver", "28.39.3560");
	host_write(h, DEV "/hw_rev", "0");
	host_write(h, DEV "/node_guid", "a088:c203:00e0:0001");
	host_write(h, DEV "/sys_image_guid", "a088:c203:00e0:0000");
	host_write(h, DEV "/ports/1/state", "4: ACTIVE");
	host_write(h, DEV "/ports/1/phys_state", "5: LinkUp");
	host_write(h, DEV "/ports/1/rate", "400 Gb/sec (4X NDR)");
	host_write(h, DEV "/ports/1/lid", "0x1f");
	host_write(h, DEV "/ports/1/lid_mask_count", "0");
	host_write(h, DEV "/ports/1/sm_lid", "0x1");
	host_write(h, DEV "/ports/1/cap_mask", "0x00010000");
	host_write(h, DEV "/ports/1/link_layer", "Ethernet");
	host_write(h, DEV "/ports/1/gids/0", "fe80:0000:0000:0000:a288:c2ff:fee0:0001");
	host_write(h, DEV "/ports/1/gids/1", "0000:0000:0000:0000:0000:0000:0000:0000");
	host_write(h, DEV "/ports/1/gids/10", "0000:0000:0000:0000:0000:ffff:ac10:0114");
	host_write(h, DEV "/ports/1/gid_attrs/types/0", "IB/RoCE v1");
	host_write(h, DEV "/ports/1/gid_attrs/types/10", "RoCE v2");
	host_write(h, DEV "/ports/1/gid_attrs/ndevs/0", "ens1f0np0");
	host_write(h, DEV "/ports/1/gid_attrs/ndevs/10", "ens1f0np0");
	host_write(h, "/sys/class/net/ens1f0np0/operstate", "up");
	/* a port without GIDs: its interface is the one whose dev_port is the port number minus
	 * 1 */
	host_write(h, "/sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN");
	host_write(h, "/sys/class/infiniband/mlx5_1/device/net/ens1f1np1/dev_port", "0");
	host_write(h, "/sys/class/net/ens1f1np1/operstate", "down");
}

static void test_ibdev2netdev_prints_like_the_original(void **state)
{
	auto_buf struct buf b;
	struct host_lab h;

	(void)state;
	buf_init(&b, 1 << 16);
	make(&h);
	views_ibdev2netdev(&h.root, &b);
	ASSERT_STR_EQ(b.p, "mlx5_0 port 1 ==> ens1f0np0 (Up)\n"
			   "mlx5_1 port 1 ==> ens1f1np1 (Down)\n");
	host_remove(&h);
}

static void test_show_gids_prints_like_the_original(void **state)
{
	auto_buf struct buf b;
	struct host_lab h;

	(void)state;
	buf_init(&b, 1 << 16);
	make(&h);
	ASSERT_EQ(views_show_gids(&h.root, NULL, &b, &e), 0);
	ASSERT_STR_EQ(
		b.p,
		"DEV\tPORT\tINDEX\tGID\t\t\t\t\tIPv4  \t\tVER\tDEV\n"
		"---\t----\t-----\t---\t\t\t\t\t------------  \t---\t---\n"
		"mlx5_0\t1\t0\tfe80:0000:0000:0000:a288:c2ff:fee0:0001\t\t\tv1\tens1f0np0\n"
		"mlx5_0\t1\t10\t0000:0000:0000:0000:0000:ffff:ac10:0114\t172.16.1.20  \tv2\tens1f0np0\n"
		"n_gids_found=2\n");
	ASSERT_EQ(views_show_gids(&h.root, "mlx5_9", &b, &e), -ENODEV);
	host_remove(&h);
}

static void test_ibstat_prints_like_the_original(void **state)
{
	auto_buf struct buf b;
	struct host_lab h;

	(void)state;
	buf_init(&b, 1 << 16);
	make(&h);
	ASSERT_EQ(views_ibstat(&h.root, "mlx5_0", 0, &b, &e), 0);
	ASSERT_STR_EQ(b.p, "CA 'mlx5_0'\n"
			   "\tCA type: MT4129\n"
			   "\tNumber of ports: 1\n"
			   "\tFirmware version: 28.39.3560\n"
			   "\tHardware version: 0\n"
			   "\tNode GUID: 0xa088c20300e00001\n"
			   "\tSystem image GUID: 0xa088c20300e00000\n"
			   "\tPort 1:\n"
			   "\t\tState: Active\n"
			   "\t\tPhysical state: LinkUp\n"
			   "\t\tRate: 400\n"
			   "\t\tBase lid: 31\n"
			   "\t\tLMC: 0\n"
			   "\t\tSM lid: 1\n"
			   "\t\tCapability mask: 0x00010000\n"
			   "\t\tPort GUID: 0xa288c2fffee00001\n"
			   "\t\tLink layer: Ethernet\n");
	buf_reset(&b);
	views_list(&h.root, &b);
	ASSERT_STR_EQ(b.p, "mlx5_0\nmlx5_1\n");
	host_remove(&h);
}

static void test_views_print_no_device_on_a_host_without_rdma(void **state)
{
	auto_buf struct buf b;
	struct host_lab h;

	(void)state;
	buf_init(&b, 1 << 16);
	host_empty(&h);
	views_ibdev2netdev(&h.root, &b);
	ASSERT_EQ(views_ibstat(&h.root, NULL, 0, &b, &e), 0);
	ASSERT_EQ(b.len, 0);
	ASSERT_EQ(views_show_gids(&h.root, NULL, &b, &e), 0);
	assert_non_null(strstr(b.p, "n_gids_found=0"));
	host_remove(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ibdev2netdev_prints_like_the_original),
		cmocka_unit_test(test_show_gids_prints_like_the_original),
		cmocka_unit_test(test_ibstat_prints_like_the_original),
		cmocka_unit_test(test_views_print_no_device_on_a_host_without_rdma),
	};

	return T_RUN(tests, NULL, NULL);
}
