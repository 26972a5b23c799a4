/* SPDX-License-Identifier: Apache-2.0 */
/* GIDs in the sysfs of a composed host, and the files by which a pod learns its RDMA devices and
 * GIDs. */
#include "host_lab.h"
#include "kern_lab.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cni/attach/rdma_info.h"
#include "kern/rdma/gid.h"

#define PORT "/sys/class/infiniband/mlx5_0/ports/1"

/* --- GIDs of a device --- */

static void put_gid(struct host_lab *h, int i, const char *gid, const char *type, const char *ndev)
{
	char path[128];

	snprintf(path, sizeof(path), PORT "/gids/%d", i);
	host_write(h, path, gid);
	if (!type)
		return;
	snprintf(path, sizeof(path), PORT "/gid_attrs/types/%d", i);
	host_write(h, path, type);
	snprintf(path, sizeof(path), PORT "/gid_attrs/ndevs/%d", i);
	host_write(h, path, ndev);
}

/*
 * GIDs of the NIC, of a pod that is being deleted (net2), and of the requesting pod (net1), which
 * has the same address.
 */
static void open_hca(struct host_lab *h)
{
	static const char mapped[] = "0000:0000:0000:0000:0000:ffff:ac10:0114";

	host_unpack(h, "mlx5_roce.tree");
	put_gid(h, 0, "fe80:0000:0000:0000:a288:c2ff:fe10:0001", "RoCE v2", "ens1f0np0");
	put_gid(h, 1, mapped, "RoCE v2", "net2");
	put_gid(h, 2, mapped, "IB/RoCE v1", "net1");
	put_gid(h, 3, "0000:0000:0000:0000:0000:0000:0000:0000", NULL, NULL);
	put_gid(h, 4, mapped, "RoCE v2", "net1");
	put_gid(h, 10, "fd00:0000:0000:0000:0000:0000:0000:0020", "RoCE v2", "net1");
}

static int find(struct host_lab *h, const char *address, const char *ndev, struct gid *g)
{
	const struct ipaddr a = t_ip(address);

	return gid_find(&h->root, "/sys", "mlx5_0", &a, ndev, g, &e);
}

static void test_gid_of_an_address_is_found_on_the_device(void **state)
{
	char ndev[GID_NDEV_MAX], text[IP_TEXT_MAX];
	struct host_lab h;
	struct gid g;

	(void)state;
	open_hca(&h);
	ASSERT_EQ(find(&h, "172.16.1.20", "net1", &g), 1);
	ASSERT_EQ(g.index, 4);
	ASSERT_EQ(g.port, 1);
	assert_false(g.infiniband);
	ASSERT_STR_EQ(g.device, "mlx5_0");
	ASSERT_STR_EQ(gid_str(&g.address, text), "::ffff:172.16.1.20");
	/* Only indexes below the number of files in gids/, 6 here, are read: not index 10. */
	ASSERT_EQ(find(&h, "fd00::20", "net1", &g), 0);
	put_gid(&h, 5, "fd00:0000:0000:0000:0000:0000:0000:0020", "RoCE v2", "net1");
	ASSERT_EQ(find(&h, "fd00::20", "net1", &g), 1);
	ASSERT_EQ(g.index, 5);
	ASSERT_STR_EQ(gid_str(&g.address, text), "fd00::20");
	ASSERT_EQ(find(&h, "172.16.1.21", "net1", &g), 0);
	ASSERT_EQ(find(&h, "172.16.1.20", "net3", &g), 0);
	assert_true(gid_netdev(&h.root, "/sys", "mlx5_0", ndev));
	ASSERT_STR_EQ(ndev, "ens1f0np0");
	assert_false(gid_netdev(&h.root, "/sys", "mlx5_1", ndev));
	host_remove(&h);
}

static void test_gid_of_a_missing_device_is_an_error(void **state)
{
	const struct ipaddr a = t_ip("172.16.1.20");
	struct host_lab h;
	struct gid g;

	(void)state;
	host_unpack(&h, "mlx5_roce.tree");
	ASSERT_EQ(gid_find(&h.root, "/sys", "mlx5_99", &a, "net1", &g, &e), -ENOENT);
	host_remove(&h);
}

static void test_infiniband_port_has_gid_index_0(void **state)
{
	struct host_lab h;
	struct gid g;

	(void)state;
	host_unpack(&h, "mlx5_roce.tree");
	host_write(&h, PORT "/link_layer", "InfiniBand");
	put_gid(&h, 0, "fe80:0000:0000:0000:a088:c203:0010:0001", "IB/RoCE v1", "");
	ASSERT_EQ(find(&h, "172.16.1.20", "net1", &g), 1);
	ASSERT_EQ(g.index, 0);
	assert_true(g.infiniband);
	host_remove(&h);
}

/* --- environment and file of a pod --- */

static struct rails_entry entry(const char *ifname, const char *device, int index)
{
	struct rails_entry en = {.rdma = {.port = 1, .gid_index = index}};

	strcpy(en.ifname, ifname);
	strcpy(en.rdma.device, device);
	strcpy(en.rdma.gid, "::ffff:172.16.1.20");
	strcpy(en.network, "rail0");
	strcpy(en.container, "c1");
	return en;
}

static struct rails_list two(int second_index)
{
	const struct rails_entry a = entry("net1", "mlx5_0", 5);
	const struct rails_entry b = entry("eth.5-x", "mlx5_1", second_index);
	struct rails_list l = {0};

	rails_put(&l, &a);
	rails_put(&l, &b);
	return l;
}

static void expect_env(const struct rails_list *l, const char *want)
{
	auto_buf struct buf b;

	buf_init(&b, 4096);
	rails_print_env(l, &b);
	ASSERT_STR_EQ(b.p ? b.p : "", want);
}

static void test_environment_of_a_pod_has_devices_and_gid_indexes(void **state)
{
	auto_rails struct rails_list same = two(5), differ = two(7), one_hca = two(7), none = {0};

	(void)state;
	expect_env(&same, "NCCL_IB_HCA==mlx5_0:1,mlx5_1:1\n"
			  "NCCL_IB_GID_INDEX=5\n"
			  "UNIRAIL_RDMA_DEVICE_net1=mlx5_0:1\n"
			  "UNIRAIL_GID_INDEX_net1=5\n"
			  "UNIRAIL_RDMA_DEVICE_eth_5_x=mlx5_1:1\n"
			  "UNIRAIL_GID_INDEX_eth_5_x=5\n");
	strcpy(one_hca.v[1].rdma.device, "mlx5_0");
	expect_env(&one_hca, "NCCL_IB_HCA==mlx5_0:1\n"
			     "UNIRAIL_RDMA_DEVICE_net1=mlx5_0:1\n"
			     "UNIRAIL_GID_INDEX_net1=5\n"
			     "UNIRAIL_RDMA_DEVICE_eth_5_x=mlx5_0:1\n"
			     "UNIRAIL_GID_INDEX_eth_5_x=7\n");
	ASSERT_EQ(differ.n, 2);
	expect_env(&none, "");
}

static void test_rails_file_is_printed_and_parsed(void **state)
{
	auto_rails struct rails_list l = two(7), back = {0};
	auto_buf struct buf b;

	(void)state;
	rails_drop(&l, "c1", "eth.5-x");
	buf_init(&b, 4096);
	rails_print_json(&l, &b);
	ASSERT_STR_EQ(buf_span(&b).p, "{\n"
				      "    \"version\": 1,\n"
				      "    \"rails\": [\n"
				      "        {\n"
				      "            \"ifname\": \"net1\",\n"
				      "            \"device\": \"mlx5_0\",\n"
				      "            \"port\": 1,\n"
				      "            \"gidIndex\": 5,\n"
				      "            \"gid\": \"::ffff:172.16.1.20\",\n"
				      "            \"network\": \"rail0\",\n"
				      "            \"containerID\": \"c1\"\n"
				      "        }\n"
				      "    ]\n"
				      "}\n");
	OK(rails_parse(buf_span(&b), &back, &e));
	ASSERT_EQ(back.n, 1);
	assert_memory_equal(back.v, l.v, sizeof(*l.v));
}

static void test_invalid_rails_files_are_refused(void **state)
{
	static const char *const bad[] = {"",
					  "[]",
					  "{}",
					  "{\"version\": 2, \"rails\": []}",
					  "{\"version\": 1, \"rails\": [{\"port\": -1}]}",
					  "{\"version\": 1, \"rails\": [{\"ifname\": "
					  "\"0123456789abcdef\"}]}"};
	struct rails_list l = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		ASSERT_EQ_MSG(rails_parse(span_of(bad[i]), &l, &e), -EINVAL, "bad[%zu]", i);
}

/* A later sandbox of the pod has its own entries: DEL of the old sandbox does not remove them. */
static void test_del_removes_entries_of_its_container_only(void **state)
{
	auto_rails struct rails_list l = two(7);
	struct rails_entry newer = entry("net1", "mlx5_0", 9);

	(void)state;
	strcpy(newer.container, "c2");
	rails_put(&l, &newer);
	ASSERT_EQ(l.n, 2);
	rails_drop(&l, "c1", "net1");
	ASSERT_EQ(l.n, 2);
	rails_drop(&l, "c1", NULL);
	ASSERT_EQ(l.n, 1);
	ASSERT_STR_EQ(l.v[0].container, "c2");
}

/* --- files --- */

static struct attach on(struct cni_call *c, struct rail *rails, size_t n)
{
	return (struct attach){.call = c, .netns = -1, .rails = rails, .n_rails = n};
}

static bool exists(struct host_lab *h, const char *name)
{
	auto_free char *path = xasprintf(RAILS_DIR "/%s", name);

	return file_exists(&h->root, path);
}

static void test_rails_files_are_written_by_add_and_removed_by_del_and_gc(void **state)
{
	static const char *const net1 = "net1", *const net2 = "net2";
	struct cni_attachment valid = {"c9", "net1"};
	struct rail rails[] = {{.ifname = "net1", .ipam.name = "rail0"},
			       {.ifname = "net2", .ipam.name = "rail1"},
			       {.ifname = "net3", .ipam.name = "rail2"}};
	struct cni_call c = {.container_id = "c1", .args_text = "K8S_POD_UID=u1", .name = "rail0"};
	struct attach a = on(&c, rails, 3);
	struct host_lab h;
	struct stat st;

	(void)state;
	host_unpack(&h, "mlx5_roce.tree");
	c.root = h.root;
	rails_write(&a);
	assert_false(exists(&h, "u1"));
	rails[0].rdma = entry("", "mlx5_0", 5).rdma;
	rails[1].rdma = entry("", "mlx5_1", 5).rdma;
	rails_write(&a);
	OK(file_lstat(&h.root, RAILS_DIR "/u1/rails.env", &st, &e));
	ASSERT_EQ(st.st_mode & 07777, 0644);
	OK(file_lstat(&h.root, RAILS_DIR "/u1", &st, &e));
	ASSERT_EQ(st.st_mode & 07777, 0755);
	rails_forget(&c, &net1, 1);
	assert_true(exists(&h, "u1/rails.json"));
	rails_forget(&c, &net2, 1);
	assert_false(exists(&h, "u1"));
	/* If the pod's UID is invalid, the container ID names the directory. GC removes the
	 * entries of its own network that belong to no valid attachment. */
	c.args_text = "K8S_POD_UID=../x;IgnoreUnknown=1";
	rails_write(&a);
	assert_true(exists(&h, "c1/rails.env"));
	rails_gc(&c); /* without a list of valid attachments GC removes no entry */
	assert_true(exists(&h, "c1/rails.env"));
	c.has_valid = true;
	c.valid = &valid;
	c.n_valid = 1;
	rails_gc(&c);
	assert_true(exists(&h, "c1/rails.env")); /* GC of rail0 retains the entry of rail1 */
	c.name = "rail1";
	rails_gc(&c);
	assert_false(exists(&h, "c1"));
	host_remove(&h);
}

/*
 * A pod that may write to its directory has replaced rails.json by a FIFO. If DEL waited in open()
 * for a writer, it would hold the lock of all pods of the node.
 */
static void test_fifo_as_rails_file_is_removed_without_waiting(void **state)
{
	static const char *const net1 = "net1";
	struct cni_attachment valid = {"c9", "net1"};
	struct rail rail = {
		.ifname = "net1", .ipam.name = "rail0", .rdma = entry("", "mlx5_0", 5).rdma};
	struct cni_call c = {.container_id = "c1",
			     .args_text = "K8S_POD_UID=u1",
			     .name = "rail0",
			     .has_valid = true,
			     .valid = &valid,
			     .n_valid = 1};
	struct attach a = on(&c, &rail, 1);
	auto_free char *file = NULL;
	struct host_lab h;
	struct stat st;

	(void)state;
	host_unpack(&h, "mlx5_roce.tree");
	c.root = h.root;
	file = xasprintf("%s" RAILS_DIR "/u1/rails.json", h.dir);
	rails_write(&a);
	ASSERT_EQ(unlink(file), 0);
	ASSERT_EQ(mkfifo(file, 0666), 0);
	alarm(20);
	rails_gc(&c);
	rails_write(&a); /* replaces the FIFO */
	ASSERT_EQ(lstat(file, &st), 0);
	assert_true(S_ISREG(st.st_mode));
	ASSERT_EQ(unlink(file), 0);
	ASSERT_EQ(mkfifo(file, 0666), 0);
	rails_forget(&c, &net1, 1);
	alarm(0);
	assert_false(exists(&h, "u1"));
	host_remove(&h);
}

/* --- the result --- */

static void print(const struct cni_result *r, enum cni_version v, const char *part)
{
	auto_buf struct buf b;

	buf_init(&b, 4096);
	OK(cni_result_print(r, v, &b, &e));
	if (!strstr(buf_span(&b).p, part))
		fail_msg("'%s' is not in '%s'", part, b.p);
}

static void test_rdma_fields_are_in_the_cni_result(void **state)
{
	static const char text[] =
		"{\"cniVersion\":\"1.0.0\",\"interfaces\":[{\"name\":\"net1\","
		"\"sandbox\":\"/ns\",\"rdma\":{\"device\":\"mlx5_0\",\"port\":1,"
		"\"gidIndex\":5,\"gid\":\"::ffff:172.16.1.20\"}},{\"name\":\"x\"}]}";
	auto_result struct cni_result r = {0}, copy = {0};
	auto_json struct json_doc *d = NULL;

	(void)state;
	OK(json_parse(&d, span_of(text), 1 << 16, &e));
	OK(cni_result_parse(d, json_root(d), CNI_1_0_0, &r, &e));
	ASSERT_STR_EQ(r.ifaces[0].rdma.device, "mlx5_0");
	ASSERT_EQ(r.ifaces[0].rdma.gid_index, 5);
	ASSERT_STR_EQ(r.ifaces[1].rdma.device, "");
	cni_result_copy(&copy, &r);
	print(&copy, CNI_1_0_0,
	      "            \"name\": \"net1\",\n"
	      "            \"rdma\": {\n"
	      "                \"device\": \"mlx5_0\",\n"
	      "                \"gid\": \"::ffff:172.16.1.20\",\n"
	      "                \"gidIndex\": 5,\n"
	      "                \"port\": 1\n"
	      "            },\n"
	      "            \"sandbox\": \"/ns\"\n"
	      "        },\n"
	      "        {\n"
	      "            \"name\": \"x\"\n"
	      "        }");
	print(&copy, CNI_0_3_1, "\"gidIndex\": 5");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gid_of_an_address_is_found_on_the_device),
		cmocka_unit_test(test_gid_of_a_missing_device_is_an_error),
		cmocka_unit_test(test_infiniband_port_has_gid_index_0),
		cmocka_unit_test(test_environment_of_a_pod_has_devices_and_gid_indexes),
		cmocka_unit_test(test_rails_file_is_printed_and_parsed),
		cmocka_unit_test(test_invalid_rails_files_are_refused),
		cmocka_unit_test(test_del_removes_entries_of_its_container_only),
		cmocka_unit_test(test_rails_files_are_written_by_add_and_removed_by_del_and_gc),
		cmocka_unit_test(test_fifo_as_rails_file_is_removed_without_waiting),
		cmocka_unit_test(test_rdma_fields_are_in_the_cni_result),
	};

	return T_RUN(tests, NULL, NULL);
}
