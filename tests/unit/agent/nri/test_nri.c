/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <errno.h>
#include <string.h>

#include "agent/nri/adjust.h"
#include "agent/nri/message.h"
#include "base/alloc.h"

static const char *const verbs[] = {"/dev/null", "/dev/infiniband/uverbs3"};
static const char *const no_verbs[] = {"/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs",
				       "/dev/null"};
static const struct nri_policy all = {.memlock = NRI_UNLIMITED,
				      .environment = true,
				      .primary = "eth0"};

static struct rails_list two_rails(int first, int second)
{
	struct rails_list l = {0};
	struct rails_entry e = {.ifname = "net1", .rdma = {.port = 1}};

	strcpy(e.rdma.device, "mlx5_0");
	e.rdma.gid_index = first;
	rails_put(&l, &e);
	strcpy(e.ifname, "net2");
	strcpy(e.rdma.device, "mlx5_1");
	e.rdma.gid_index = second;
	rails_put(&l, &e);
	return l;
}

static const char *value(const struct nri_adjustment *a, const char *name)
{
	for (size_t i = 0; i < a->n_env; i++)
		if (strcmp(a->env[i].name, name) == 0)
			return a->env[i].value;
	return NULL;
}

static void test_container_with_rdma_gets_memlock_and_environment(void **state)
{
	static const struct {
		const char *name, *value;
	} want[] = {
		{"NCCL_IB_HCA", "=mlx5_0:1,mlx5_1:1"},
		{"NCCL_IB_GID_INDEX", "5"},
		{"UNIRAIL_RDMA_DEVICE_net2", "mlx5_1:1"},
		{"UNIRAIL_GID_INDEX_net1", "5"},
		{"UCX_NET_DEVICES", "mlx5_0:1,mlx5_1:1"},
		{"UCX_IB_GID_INDEX", "5"},
		{"NVSHMEM_IB_GID_INDEX", "5"},
		{"NVSHMEM_ENABLE_NIC_PE_MAPPING", "1"},
		{"NVSHMEM_HCA_LIST", "mlx5_0:1,mlx5_1:1"},
		{"NCCL_SOCKET_IFNAME", "=eth0"},
		{"GLOO_SOCKET_IFNAME", "eth0"},
	};
	const struct nri_container c = {.devices = verbs, .n_devices = ARRAY_LEN(verbs)};
	auto_rails struct rails_list rails = two_rails(5, 5);
	auto_nri_adjustment struct nri_adjustment a = {0};

	(void)state;
	nri_adjust(&c, &rails, &all, &a);
	assert_true(a.memlock == NRI_UNLIMITED);
	assert_false(a.mixed_gid);
	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		assert_non_null(value(&a, want[i].name));
		ASSERT_STR_EQ_MSG(value(&a, want[i].name), want[i].value, "want[%zu]", i);
	}
	assert_null(value(&a, "NCCL_NET"));
}

static void test_container_without_a_verbs_device_is_not_adjusted(void **state)
{
	const struct nri_container c = {
		.devices = no_verbs, .n_devices = ARRAY_LEN(no_verbs), .nccl_net = "IB"};
	auto_rails struct rails_list rails = two_rails(5, 5);
	auto_nri_adjustment struct nri_adjustment a = {0};

	(void)state;
	nri_adjust(&c, &rails, &all, &a);
	assert_true(a.memlock == 0);
	ASSERT_EQ(a.n_env, 0);
}

static void test_variable_set_by_the_container_is_not_replaced(void **state)
{
	static const char *const env[] = {
		"NCCL_IB_HCA=mlx5_7", "NCCL_SOCKET_IFNAME=", "NVSHMEM_HCA_PE_MAPPING=mlx5_0:1:1",
		"UCX_NET_DEVICESX=1"};
	static const struct nri_rlimit unlimited = {NRI_MEMLOCK, UINT64_MAX, UINT64_MAX};
	static const struct nri_rlimit small = {NRI_MEMLOCK, 65536, 65536};
	struct nri_container c = {.devices = verbs,
				  .n_devices = ARRAY_LEN(verbs),
				  .env = env,
				  .n_env = ARRAY_LEN(env),
				  .rlimits = &unlimited,
				  .n_rlimits = 1};
	auto_rails struct rails_list rails = two_rails(5, 5);
	auto_nri_adjustment struct nri_adjustment a = {0}, b = {0};

	(void)state;
	nri_adjust(&c, &rails, &all, &a);
	assert_true(a.memlock == 0);
	assert_null(value(&a, "NCCL_IB_HCA"));
	assert_null(value(&a, "NCCL_SOCKET_IFNAME"));
	assert_null(value(&a, "NVSHMEM_HCA_LIST"));
	assert_non_null(value(&a, "UCX_NET_DEVICES"));
	c.rlimits = &small;
	nri_adjust(&c, &rails, &all, &b);
	assert_true(b.memlock == NRI_UNLIMITED);
}

static void test_rails_with_different_gid_indexes_set_no_nccl_or_ucx_index(void **state)
{
	const struct nri_container c = {.devices = verbs, .n_devices = ARRAY_LEN(verbs)};
	auto_rails struct rails_list rails = two_rails(5, 7);
	auto_nri_adjustment struct nri_adjustment a = {0};

	(void)state;
	nri_adjust(&c, &rails, &all, &a);
	assert_true(a.mixed_gid);
	assert_null(value(&a, "NCCL_IB_GID_INDEX"));
	assert_null(value(&a, "UCX_IB_GID_INDEX"));
	ASSERT_STR_EQ(value(&a, "UNIRAIL_GID_INDEX_net2"), "7");
}

static void test_setting_or_pod_annotation_sets_nccl_net_to_ib(void **state)
{
	const struct nri_policy none = {.primary = "eth0"};
	struct nri_policy ib = none;
	struct nri_container c = {.devices = verbs, .n_devices = ARRAY_LEN(verbs)};
	auto_rails struct rails_list rails = two_rails(5, 5);
	auto_nri_adjustment struct nri_adjustment off = {0}, set = {0}, asked = {0}, other = {0};

	(void)state;
	nri_adjust(&c, &rails, &none, &off);
	assert_true(off.memlock == 0);
	ASSERT_EQ(off.n_env, 0);
	ib.nccl_net_ib = true;
	nri_adjust(&c, &rails, &ib, &set);
	ASSERT_EQ(set.n_env, 1);
	ASSERT_STR_EQ(value(&set, "NCCL_NET"), "IB");
	c.nccl_net = "IB";
	nri_adjust(&c, &rails, &none, &asked);
	ASSERT_STR_EQ(value(&asked, "NCCL_NET"), "IB");
	c.nccl_net = "Socket";
	nri_adjust(&c, &rails, &none, &other);
	ASSERT_EQ(other.n_env, 0);
}

/* Container "c" of pod "ns/p" (uid u, annotation unirail.io/nccl-net: IB). */
static const char create[] = "\x0a\x28"
			     "\x12\x01p\x1a\x01u\x22\x02ns"
			     "\x32\x1c\x0a\x13unirail.io/nccl-net\x12\x02IB\x1a\x01x"
			     "\x12\x38"
			     "\x1a\x01"
			     "c\x42\x03"
			     "A=b"
			     "\x5a\x1b\x12\x19\x0a\x17/dev/infiniband/uverbs0"
			     "\x6a\x11\x0a\x0bRLIMIT_CORE\x10\x07\x18\x03";

static void test_create_container_request_is_decoded(void **state)
{
	auto_nri_create struct nri_create *m = NULL;
	const struct nri_container *c;
	struct err e = ERR_INIT;

	(void)state;
	if (nri_create_decode(&m, (struct span){create, sizeof(create) - 1}, &e) < 0)
		fail_msg("%s", e.text);
	c = nri_create_container(m);
	ASSERT_STR_EQ(nri_create_pod(m), "ns/p");
	ASSERT_STR_EQ(nri_create_pod_uid(m), "u");
	ASSERT_STR_EQ(nri_create_name(m), "c");
	ASSERT_EQ(c->n_devices, 1);
	ASSERT_STR_EQ(c->devices[0], "/dev/infiniband/uverbs0");
	ASSERT_EQ(c->n_env, 1);
	ASSERT_STR_EQ(c->env[0], "A=b");
	ASSERT_EQ(c->n_rlimits, 1);
	ASSERT_STR_EQ(c->rlimits[0].type, "RLIMIT_CORE");
	ASSERT_EQ(c->rlimits[0].hard, 7);
	ASSERT_EQ(c->rlimits[0].soft, 3);
	ASSERT_STR_EQ(c->nccl_net, "IB");
}

static void test_request_truncated_at_any_byte_is_decoded_or_returns_einval(void **state)
{
	(void)state;
	for (size_t n = 0; n < sizeof(create) - 1; n++) {
		auto_nri_create struct nri_create *m = NULL;
		int r = nri_create_decode(&m, (struct span){create, n}, NULL);

		assert_true(r == 0 || r == -EINVAL);
		ASSERT_EQ(r == 0, m != NULL);
	}
}

static void test_adjustment_is_encoded_as_nri_protobuf(void **state)
{
	static const char want[] = "\x0a\x30"
				   "\x22\x06\x0a\x01"
				   "A\x12\x01z"
				   "\x3a\x26\x0a\x0eRLIMIT_MEMLOCK"
				   "\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
				   "\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff";
	struct nri_variable v = {(char[]){"A"}, (char[]){"z"}};
	const struct nri_adjustment a = {.env = &v, .n_env = 1, .memlock = NRI_UNLIMITED};
	auto_buf struct buf b;

	(void)state;
	buf_init(&b, 4096);
	nri_put_adjustment(&b, &a);
	ASSERT_EQ(b.len, sizeof(want));
	assert_memory_equal(b.p, want, sizeof(want) - 1);
	ASSERT_EQ((unsigned char)b.p[b.len - 1], 1);
}

static void test_memlock_setting_is_parsed(void **state)
{
	struct err e = ERR_INIT;
	uint64_t n = 1;

	(void)state;
	ASSERT_EQ(nri_memlock_parse("no", &n, &e), 0);
	assert_true(n == 0);
	ASSERT_EQ(nri_memlock_parse("unlimited", &n, &e), 0);
	assert_true(n == NRI_UNLIMITED);
	ASSERT_EQ(nri_memlock_parse("1048576", &n, &e), 0);
	assert_true(n == 1048576);
	ASSERT_EQ(nri_memlock_parse("yes", &n, &e), -EINVAL);
	ASSERT_STR_EQ(e.text, "rdma-memlock is 'yes', expected unlimited, no, or a number of "
			      "bytes of at least 65536");
	ASSERT_EQ(nri_memlock_parse("4096", &n, &e), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_container_with_rdma_gets_memlock_and_environment),
		cmocka_unit_test(test_container_without_a_verbs_device_is_not_adjusted),
		cmocka_unit_test(test_variable_set_by_the_container_is_not_replaced),
		cmocka_unit_test(test_rails_with_different_gid_indexes_set_no_nccl_or_ucx_index),
		cmocka_unit_test(test_setting_or_pod_annotation_sets_nccl_net_to_ib),
		cmocka_unit_test(test_create_container_request_is_decoded),
		cmocka_unit_test(test_request_truncated_at_any_byte_is_decoded_or_returns_einval),
		cmocka_unit_test(test_adjustment_is_encoded_as_nri_protobuf),
		cmocka_unit_test(test_memlock_setting_is_parsed),
	};

	return T_RUN(tests, NULL, NULL);
}
