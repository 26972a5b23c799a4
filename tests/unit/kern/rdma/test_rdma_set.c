/* SPDX-License-Identifier: Apache-2.0 */
/* Changes of RDMA devices and lists of their resources, replayed; decoding of RDMA events. */
#include "kern_lab.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "kern/rdma/rdma_res.h"
#include "kern/rdma/rdma_set.h"
#include "kern/rdma/rdma_watch.h"

enum { NS = 33, MLX5_5 = 5 };

#define HAS(part)                                                                                  \
	do {                                                                                       \
		if (!strstr(e.text, part))                                                         \
			fail_msg("'%s' is not in '%s'", part, e.text);                             \
	} while (0)

static void test_rdma_devices_are_moved_and_renamed(void **state)
{
	auto_nl struct nl_wire *w = kern_replay("rdma_set.nl");
	uint32_t index = 0;

	(void)state;
	ASSERT_EQ(rdma_nl_netns_mode_set(w, RDMA_NETNS_EXCLUSIVE, &e), -EBUSY);
	HAS("options ib_core netns_mode=0");
	OK(rdma_nl_netns_mode_set(w, RDMA_NETNS_EXCLUSIVE, &e));
	OK(rdma_nl_find(w, "mlx5_5", &index, &e));
	ASSERT_EQ(index, MLX5_5);
	FAILS(rdma_nl_find(w, "mlx5_9", &index, &e), -ENODEV,
	      "look up RDMA device 'mlx5_9': no such device in this network namespace");
	OK(rdma_nl_move(w, index, "mlx5_5", NS, &e));
	ASSERT_EQ(rdma_nl_move(w, index, "mlx5_5", NS, &e), -EBUSY);
	ASSERT_EQ(e.kind, ERR_AGAIN);
	ASSERT_EQ(rdma_nl_move(w, index, "mlx5_5", NS, &e), -EOPNOTSUPP);
	HAS("is shared, expected exclusive");
	ASSERT_EQ(rdma_nl_move(w, index, "mlx5_5", NS, &e), -EOPNOTSUPP);
	HAS("its driver does not support it");
	OK(rdma_nl_rename(w, index, "mlx5_5", "rail5", &e));
	ASSERT_EQ(rdma_nl_rename(w, index, "mlx5_5", "mlx5_0", &e), -EEXIST);
	ASSERT_EQ(rdma_nl_rename(w, index, "mlx5_5", "a/b", &e), -EINVAL);
	OK(nl_replay_finished(w, &e));
}

static void test_resources_of_a_device_in_use_are_listed(void **state)
{
	auto_nl struct nl_wire *w = kern_replay("rdma_res.nl");
	auto_free struct rdma_count *stats = NULL;
	auto_free struct rdma_res *qps = NULL;
	size_t n;

	(void)state;
	OK(rdma_nl_res_list(w, MLX5_5, RDMA_RES_QP, &qps, &n, &e));
	ASSERT_EQ(n, 2);
	ASSERT_STR_EQ(qps[0].owner, "ib_core");
	ASSERT_EQ(qps[1].id, 4242);
	ASSERT_EQ(qps[1].pid, 31337);
	OK(rdma_nl_stats(w, MLX5_5, 1, &stats, &n, &e));
	ASSERT_EQ(n, 2);
	assert_true(stats[1].value == 1ull << 40);
	ASSERT_EQ(rdma_nl_stats(w, MLX5_5, 2, NULL, NULL, &e), -EOPNOTSUPP);
	OK(nl_replay_finished(w, &e));
}

static void use(struct nl_wire *w)
{
	auto_free struct rdma_count *stats = NULL;
	auto_free struct rdma_res *qps = NULL;
	size_t n;

	rdma_nl_res_list(w, MLX5_5, RDMA_RES_QP, &qps, &n, NULL);
	rdma_nl_stats(w, MLX5_5, 1, &stats, &n, NULL);
}

static void test_mutated_rdma_answers_do_not_crash(void **state)
{
	(void)state;
	kern_mutate("rdma_res.nl", 1000, use);
}

static void test_rdma_events_are_decoded(void **state)
{
	_Alignas(4) static const unsigned char attach[] = {
		44, 0, 0,   0, 28,  20,	 0,   0,   0, 0, 0, 0, 0, 0, 0, 0, /* MONITOR */
		5,  0, 102, 0, 2,   0,	 0,   0,   8, 0, 1, 0, 5, 0, 0, 0, /* attach, device 5 */
		9,  0, 51,  0, 'n', 'e', 't', '1', 0, 0, 0, 0};
	struct rdma_event ev;

	(void)state;
	assert_true(rdma_event_parse((struct span){(const char *)attach, sizeof(attach)}, &ev));
	ASSERT_EQ(ev.kind, RDMA_EVENT_NETDEV_ATTACH);
	ASSERT_EQ(ev.index, 5);
	ASSERT_STR_EQ(ev.netdev, "net1");
	for (size_t n = 0; n < sizeof(attach); n++)
		assert_false(rdma_event_parse((struct span){(const char *)attach, n}, &ev));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rdma_devices_are_moved_and_renamed),
		cmocka_unit_test(test_resources_of_a_device_in_use_are_listed),
		cmocka_unit_test(test_mutated_rdma_answers_do_not_crash),
		cmocka_unit_test(test_rdma_events_are_decoded),
	};

	return T_RUN(tests, NULL, NULL);
}
