/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices, ports, mode and counters in the output format of iproute2's rdma, from replayed netlink.
 */
#include "kern_lab.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/rdma_show.h"

enum { DEVICES = 3 };

struct view {
	struct rdma_view_dev *devs;
	struct rdma_view_link *links[DEVICES];
	struct rdma_view_system system;
	struct rdma_count *counters;
	size_t n_counters;
};

static struct view observe(void)
{
	auto_nl struct nl_wire *w = kern_replay("rdma_view.nl");
	struct view v = {0};
	size_t n;

	OK(rdma_nl_view_devs(w, &v.devs, &n, &e));
	ASSERT_EQ(n, DEVICES);
	for (size_t i = 0; i < DEVICES; i++) {
		size_t ports;

		OK(rdma_nl_view_links(w, &v.devs[i], &v.links[i], &ports, &e));
		ASSERT_EQ(ports, 1);
	}
	OK(rdma_nl_view_system(w, &v.system, &e));
	OK(rdma_nl_stats(w, 0, 1, &v.counters, &v.n_counters, &e));
	OK(nl_replay_finished(w, &e));
	return v;
}

static void view_done(struct view *v)
{
	free(v->devs);
	for (size_t i = 0; i < DEVICES; i++)
		free(v->links[i]);
	free(v->counters);
}

enum what { DEV, LINK, SYSTEM, COUNTERS };

/* Fails the test unless `what` of the devices at the positions `from` to `to` of the view is
 * printed as `want`. */
static void prints(enum what what, struct rdma_format f, size_t from, size_t to, const char *want)
{
	struct view v = observe();
	auto_buf struct buf b;
	struct rdma_out o;

	buf_init(&b, 1 << 16);
	rdma_out_begin(&o, &f, &b);
	for (size_t i = from; i <= to; i++)
		switch (what) {
		case DEV: rdma_out_dev(&o, &v.devs[i]); break;
		case LINK: rdma_out_link(&o, v.links[i]); break;
		case SYSTEM: rdma_out_system(&o, &v.system); break;
		case COUNTERS:
			rdma_out_counters(&o, v.devs[i].name, 1, v.counters, v.n_counters);
			break;
		}
	rdma_out_end(&o);
	ASSERT_STR_EQ(b.p, want);
	view_done(&v);
}

#define TEXT                                                                                       \
	(struct rdma_format)                                                                       \
	{                                                                                          \
		0                                                                                  \
	}
#define DETAILS                                                                                    \
	(struct rdma_format)                                                                       \
	{                                                                                          \
		.details = true                                                                    \
	}
#define JSON                                                                                       \
	(struct rdma_format)                                                                       \
	{                                                                                          \
		.json = true                                                                       \
	}

static void test_devices_are_printed_like_iproute2(void **state)
{
	(void)state;
	prints(DEV, TEXT, 0, 1,
	       "0: mlx5_0: node_type ca fw 28.39.3560 node_guid a088:c203:00e0:0000 "
	       "sys_image_guid a088:c203:00e0:0000 \n"
	       "6: mlx5_6: node_type ca fw 28.39.3560 node_guid a088:c203:00e0:0006 "
	       "sys_image_guid a088:c203:00e0:0006 \n");
	prints(DEV, DETAILS, 0, 0,
	       "0: mlx5_0: node_type ca fw 28.39.3560 node_guid a088:c203:00e0:0000 "
	       "sys_image_guid a088:c203:00e0:0000 adaptive-moderation on \n"
	       "    caps: <BAD_PKEY_CNTR, BAD_QKEY_CNTR, AUTO_PATH_MIG, CHANGE_PHY_PORT, INIT_TYPE, "
	       "PORT_ACTIVE_EVENT, RC_RNR_NAK_GEN, UNKNOWN, UD_IP_CSUM, MEM_WINDOW_TYPE_2B, "
	       "RAW_IP_CSUM, MANAGED_FLOW_STEERING, SG_GAPS_REG, RDMA_NETDEV_OPA_VNIC, "
	       "PCI_WRITE_END_PADDING>\n");
	prints(DEV, JSON, 1, 1,
	       "[{\"ifindex\":6,\"ifname\":\"mlx5_6\",\"node_type\":\"ca\","
	       "\"fw\":\"28.39.3560\",\"node_guid\":\"a088:c203:00e0:0006\","
	       "\"sys_image_guid\":\"a088:c203:00e0:0006\"}]\n");
}

static void test_ports_are_printed_like_iproute2(void **state)
{
	(void)state;
	prints(LINK, TEXT, 0, 2,
	       "link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev ens0f0np0 \n"
	       "link mlx5_6/1 subnet_prefix fe80:0000:0000:0000 lid 37 sm_lid 1 lmc 0 state ACTIVE "
	       "physical_state LINK_UP \n"
	       "link mlx5_7/1 state DOWN physical_state DISABLED \n");
	prints(LINK, DETAILS, 0, 1,
	       "link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev ens0f0np0 netdev_index 10 "
	       "\n"
	       "link mlx5_6/1 subnet_prefix fe80:0000:0000:0000 lid 37 sm_lid 1 lmc 0 state ACTIVE "
	       "physical_state LINK_UP \n"
	       "    caps: <TRAP, SL_MAP, SYS_IMAGE_GUID, CABLE_INFO, EXTENDED_SPEEDS, CAP_MASK2, "
	       "CM, DEVICE_MGMT, VENDOR_CLASS, CAP_MASK_NOTICE, CLIENT_REG, OTHER_LOCAL_CHANGES, "
	       "MULT_PKER_TRAP>\n");
	prints(LINK, JSON, 0, 0,
	       "[{\"ifindex\":0,\"ifname\":\"mlx5_0\",\"port\":1,\"state\":\"ACTIVE\","
	       "\"physical_state\":\"LINK_UP\",\"netdev\":\"ens0f0np0\",\"netdev_index\":10}]\n");
	/* no device: an empty list */
	prints(LINK, JSON, 1, 0, "[]\n");
}

static void test_rdma_mode_is_printed_like_iproute2(void **state)
{
	(void)state;
	prints(SYSTEM, TEXT, 0, 0, "netns exclusive copy-on-fork on\n");
	prints(SYSTEM, JSON, 0, 0, "[{\"netns\":\"exclusive\",\"copy-on-fork\":true}]\n");
}

static void test_counters_are_printed_like_iproute2(void **state)
{
	(void)state;
	prints(COUNTERS, TEXT, 0, 0,
	       "link mlx5_0/1 out_of_sequence 7 rx_write_requests 1099511627776 \n");
	prints(COUNTERS, (struct rdma_format){.pretty = true}, 0, 0,
	       "link mlx5_0/1 \n    out_of_sequence 7 \n    rx_write_requests 1099511627776 \n");
	prints(COUNTERS, JSON, 0, 0,
	       "[{\"ifname\":\"mlx5_0\",\"port\":1,\"out_of_sequence\":7,"
	       "\"rx_write_requests\":1099511627776}]\n");
}

/*
 * Prints the counters of both ports (port 2 has none), the modes of both ports, and the counters of
 * memory regions, in the order of the recording rdma_stat.nl. The caller frees the text.
 */
static char *prints_statistic(struct rdma_format f)
{
	auto_nl struct nl_wire *w = kern_replay("rdma_stat.nl");
	const struct rdma_view_dev d = {.index = 0, .n_ports = 2, .name = "mlx5_0"};
	struct rdma_stat *list;
	struct rdma_out o;
	struct buf b;
	uint32_t mode;
	size_t n;

	buf_init(&b, 1 << 16);
	rdma_out_begin(&o, &f, &b);
	OK(rdma_nl_qp_stats(w, 0, 1, &list, &n, &e));
	ASSERT_EQ(n, 3);
	/* For the QPs of a process the kernel sends only the PID. `unirail rdma` reads the
	 * process name from /proc; this test passes a constant name. */
	for (size_t i = 0; i < n; i++)
		rdma_out_qp_counters(&o, &d, &list[i], list[i].pid ? "rdma" : NULL);
	rdma_stats_free(list, n);
	OK(rdma_nl_qp_stats(w, 0, 2, &list, &n, &e));
	ASSERT_EQ(n, 0);
	rdma_stats_free(list, n);
	for (uint32_t port = 1; port <= 2; port++) {
		OK(rdma_nl_qp_stat_mode(w, 0, port, &mode, &e));
		rdma_out_qp_mode(&o, &d, port, mode);
	}
	OK(rdma_nl_mr_stats(w, 0, &list, &n, &e));
	for (size_t i = 0; i < n; i++)
		rdma_out_mr_counters(&o, &d, &list[i]);
	rdma_stats_free(list, n);
	rdma_out_end(&o);
	OK(nl_replay_finished(w, &e));
	return b.p;
}

/* The expected texts are what iproute2 6.1 prints for the same netlink answers. */
static void test_qp_and_mr_counters_are_printed_like_iproute2(void **state)
{
	auto_free char *text = prints_statistic(TEXT), *json = prints_statistic(JSON);
	auto_free char *pretty = prints_statistic((struct rdma_format){.pretty = true});

	(void)state;
	ASSERT_STR_EQ(
		text,
		"link mlx5_0/1 cntn 4 qp-type RC pid 101 comm rdma rx_write_requests 1099511627776 "
		"out_of_sequence 7 \n    LQPN: <178,179>\n"
		"link mlx5_0/1 cntn 5 comm [ib_core] rx_write_requests 1099511627776 "
		"out_of_sequence 7 \n    LQPN: <>\n"
		"link mlx5_0/1 cntn 6 qp-type UNKNOWN rx_write_requests 1099511627776 "
		"out_of_sequence 7 \n    LQPN: <178>\n"
		"link mlx5_0/1 mode qp auto type,pid on \n"
		"link mlx5_0/2 mode qp auto off \n"
		"dev mlx5_0 mrn 3 rx_write_requests 1099511627776 out_of_sequence 7 \n"
		"dev mlx5_0 mrn 4 \n");
	ASSERT_STR_EQ(
		json,
		"[{\"ifindex\":0,\"ifname\":\"mlx5_0\",\"port\":1,\"cntn\":4,\"qp-type\":\"RC\","
		"\"pid\":101,\"comm\":\"rdma\",\"rx_write_requests\":1099511627776,"
		"\"out_of_sequence\":7,\"lqpn\":[178,179]},"
		"{\"ifindex\":0,\"ifname\":\"mlx5_0\",\"port\":1,\"cntn\":5,\"comm\":\"ib_core\","
		"\"rx_write_requests\":1099511627776,\"out_of_sequence\":7,\"lqpn\":[]},"
		"{\"ifindex\":0,\"ifname\":\"mlx5_0\",\"port\":1,\"cntn\":6,"
		"\"qp-type\":\"UNKNOWN\",\"rx_write_requests\":1099511627776,"
		"\"out_of_sequence\":7,\"lqpn\":[178]},"
		"{\"ifindex\":0,\"ifname\":\"mlx5_0\",\"port\":1,\"mode\":\"qp auto type,pid on\"},"
		"{\"ifindex\":0,\"ifname\":\"mlx5_0\",\"port\":2,\"mode\":\"qp auto off\"},"
		"{\"ifindex\":0,\"ifname\":\"mlx5_0\",\"mrn\":3,"
		"\"rx_write_requests\":1099511627776,\"out_of_sequence\":7},"
		"{\"ifindex\":0,\"ifname\":\"mlx5_0\",\"mrn\":4}]\n");
	assert_true(strstr(pretty, "link mlx5_0/1 cntn 4 qp-type RC pid 101 comm rdma \n"
				   "    rx_write_requests 1099511627776 \n    out_of_sequence 7 \n"
				   "    LQPN: <178,179>\nlink ") == pretty);
	assert_non_null(strstr(pretty, "dev mlx5_0 mrn 3 \n    rx_write_requests 1099511627776 \n"
				       "    out_of_sequence 7 \ndev mlx5_0 mrn 4 \n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_devices_are_printed_like_iproute2),
		cmocka_unit_test(test_ports_are_printed_like_iproute2),
		cmocka_unit_test(test_rdma_mode_is_printed_like_iproute2),
		cmocka_unit_test(test_counters_are_printed_like_iproute2),
		cmocka_unit_test(test_qp_and_mr_counters_are_printed_like_iproute2),
	};

	return T_RUN(tests, NULL, NULL);
}
