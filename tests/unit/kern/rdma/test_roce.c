/* SPDX-License-Identifier: Apache-2.0 */
/* The files in which MLNX_OFED and the kernel's own driver provide the RoCE parameters. */
#include "host_lab.h"

#include <errno.h>
#include <string.h>

#include "kern/rdma/roce.h"

static struct err e;
static const struct roce_port port = {"ens1f0np0", "mlx5_0", "0000:3b:00.0"};

static void test_roce_parameters_of_mlnx_ofed_are_read(void **state)
{
	char path[ROCE_PATH_MAX];
	struct host_lab h;
	int v;

	(void)state;
	host_empty(&h);
	assert_false(roce_param_path(&h.root, &port, ROCE_ECN_NP, 5, path));
	host_write(&h, "/sys/class/net/ens1f0np0/ecn/roce_np/enable/5", "1");
	host_write(&h, "/sys/class/net/ens1f0np0/ecn/roce_np/cnp_dscp", "48");
	host_write(&h, "/sys/class/infiniband/mlx5_0/tc/1/traffic_class", "Global tclass=106");
	assert_true(roce_param_path(&h.root, &port, ROCE_ECN_NP, 5, path));
	ASSERT_STR_EQ(path, "/sys/class/net/ens1f0np0/ecn/roce_np/enable/5");
	assert_false(roce_param_path(&h.root, &port, ROCE_ECN_RP, 5, path));
	assert_true(roce_param_path(&h.root, &port, ROCE_CNP_DSCP, 0, path));
	ASSERT_EQ(roce_param_read(&h.root, path, &v, &e), 0);
	ASSERT_EQ(v, 48);
	assert_true(roce_param_path(&h.root, &port, ROCE_TRAFFIC_CLASS, 0, path));
	ASSERT_EQ(roce_param_read(&h.root, path, &v, &e), 0);
	ASSERT_EQ(v, 106);
	host_write(&h, path, "");
	ASSERT_EQ(roce_param_read(&h.root, path, &v, &e), 0);
	ASSERT_EQ(v, -1);
	host_write(&h, path, "many");
	ASSERT_EQ(roce_param_read(&h.root, path, &v, &e), -EBADMSG);
	host_remove(&h);
}

static void test_roce_parameters_of_the_kernels_driver_are_read(void **state)
{
	static const struct roce_port none = {"", "../mlx5_0", NULL};
	char path[ROCE_PATH_MAX];
	struct host_lab h;

	(void)state;
	host_empty(&h);
	host_write(&h, "/sys/kernel/debug/mlx5/0000:3b:00.0/cc_params/np_cnp_dscp", "48");
	assert_true(roce_param_path(&h.root, &port, ROCE_CNP_DSCP, 0, path));
	ASSERT_STR_EQ(path, "/sys/kernel/debug/mlx5/0000:3b:00.0/cc_params/np_cnp_dscp");
	assert_false(roce_param_path(&h.root, &port, ROCE_TRAFFIC_CLASS, 0, path));
	for (enum roce_param p = 0; p < ROCE_PARAMS; p++)
		assert_false(roce_param_path(&h.root, &none, p, 0, path));
	host_remove(&h);
}

static void test_roce_mode_and_tos_of_the_connection_manager_are_read_and_set(void **state)
{
	struct host_lab h;
	struct roce_cm v;
	char line[32];

	(void)state;
	host_empty(&h);
	ASSERT_EQ(roce_cm_read(&h.root, "mlx5_0", 1, true, &v, &e), -EOPNOTSUPP);
	assert_non_null(strstr(e.text, "'modprobe rdma_cm'"));
	host_write(&h, "/sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_mode", "IB/RoCE v1");
	ASSERT_EQ(roce_cm_read(&h.root, "mlx5_0", 1, false, &v, &e), 0);
	ASSERT_STR_EQ(v.mode, "IB/RoCE v1");
	ASSERT_EQ(v.tos, -1);
	host_write(&h, "/sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos", "0");
	ASSERT_EQ(roce_cm_set(&h.root, "mlx5_0", 1, &(struct roce_cm){"RoCE v2", 106}, &e), 0);
	host_read(&h, "/sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos", line,
		  sizeof(line));
	ASSERT_STR_EQ(line, "106");
	ASSERT_EQ(roce_cm_read(&h.root, "mlx5_1", 1, false, &v, &e), -ENOENT);
	ASSERT_EQ(roce_cm_read(&h.root, "..", 1, true, &v, &e), -EINVAL);
	host_remove(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_roce_parameters_of_mlnx_ofed_are_read),
		cmocka_unit_test(test_roce_parameters_of_the_kernels_driver_are_read),
		cmocka_unit_test(test_roce_mode_and_tos_of_the_connection_manager_are_read_and_set),
	};

	return T_RUN(tests, NULL, NULL);
}
