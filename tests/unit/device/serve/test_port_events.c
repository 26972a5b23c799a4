/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include "base/alloc.h"
#include "device/serve/port_events.h"

/* rtnetlink sends no events for HCAs without a netdev. */
static void test_port_events_are_watched_only_for_hcas_without_a_netdev(void **state)
{
	struct node_rdma rdma = {.name = "mlx5_0"};
	struct node_device d = {.class = NODE_NET, .rdma = &rdma, .n_rdma = 1};

	(void)state;
	assert_true(port_events_wants(&d));
	str_copy(d.netdev, sizeof(d.netdev), "ib0");
	assert_false(port_events_wants(&d));
	d.netdev[0] = '\0';
	str_copy(d.pf, sizeof(d.pf), "0000:3b:00.0");
	assert_false(port_events_wants(&d));
	d.pf[0] = '\0';
	d.n_rdma = 0;
	assert_false(port_events_wants(&d));
	d.n_rdma = 1;
	d.class = NODE_AUX;
	assert_false(port_events_wants(&d));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_port_events_are_watched_only_for_hcas_without_a_netdev)};

	return T_RUN(tests, NULL, NULL);
}
