/* SPDX-License-Identifier: Apache-2.0 */
/* Replays composed netlink answers about RDMA devices, because the tests run on hosts without
 * such devices. */
#include "testlib.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "kern/rdma/rdma.h"

enum { ROCE_HCAS = 6, HCAS = 8, ACTIVE = 4, DOWN = 1, DISABLED = 3 };

static size_t replay(const char *file, struct rdma_dev **list)
{
	auto_nl struct nl_wire *w = NULL;
	enum rdma_netns_mode mode;
	struct err e = ERR_INIT;
	size_t n = 0;

	if (nl_open_replay(&w, file, &e) < 0 || rdma_nl_list(w, list, &n, &e) < 0 ||
	    rdma_nl_netns_mode(w, &mode, &e) < 0 || nl_replay_finished(w, &e) < 0)
		fail_msg("%s", e.text);
	ASSERT_EQ(mode, RDMA_NETNS_SHARED);
	return n;
}

static void test_replay_of_eight_hcas_is_decoded(void **state)
{
	auto_free struct rdma_dev *list = NULL;
	char name[32];

	(void)state;
	ASSERT_EQ(replay(TEST_DATA "replay/rdma_mlx5.nl", &list), HCAS);
	for (int i = 0; i < HCAS; i++) {
		const struct rdma_dev *d = &list[i];
		const struct rdma_port *p = &d->ports[0];

		snprintf(name, sizeof(name), "mlx5_%d", i);
		ASSERT_STR_EQ(d->name, name);
		ASSERT_STR_EQ(d->fw, "28.39.3560");
		ASSERT_STR_EQ(d->driver, "mlx5");
		ASSERT_EQ(d->index, i);
		ASSERT_EQ(d->n_ports, 1);
		assert_true(d->node_guid == 0xa088c20300e00000 + (unsigned)i);
		snprintf(name, sizeof(name), "uverbs%d", i);
		ASSERT_STR_EQ(d->uverbs, name);
		ASSERT_EQ(p->port, 1);
		snprintf(name, sizeof(name), "ens%df0np0", i);
		ASSERT_STR_EQ(p->netdev, i < ROCE_HCAS ? name : "");
		ASSERT_EQ(p->netdev_index, i < ROCE_HCAS ? 10 + i : 0);
		ASSERT_EQ(p->lid, i == 6 ? 37 : 0);
		ASSERT_STR_EQ(d->protocol, i == 6 ? "ib" : "roce");
		ASSERT_EQ(p->state, i == 7 ? DOWN : ACTIVE);
	}
	ASSERT_EQ(list[7].ports[0].phys_state, DISABLED);
	ASSERT_EQ(list[0].ports[1].port, 0);
}

static void test_replay_of_soft_roce_is_decoded(void **state)
{
	auto_free struct rdma_dev *list = NULL;

	(void)state;
	ASSERT_EQ(replay(TEST_DATA "replay/rdma_rxe.nl", &list), 2);
	ASSERT_STR_EQ(list[1].name, "rxe1");
	ASSERT_STR_EQ(list[1].driver, "rxe");
	ASSERT_STR_EQ(list[1].fw, "");
	ASSERT_STR_EQ(list[1].ports[0].netdev, "eth1");
}

static void put(struct t_dir *t, const char *dir, const char *file, const char *text)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	ASSERT_EQ(dir_make(&t->root, dir, 0700, NULL), 0);
	ASSERT_EQ(file_replace(&t->root, path, span_of(text), 0600, NULL), 0);
}

static void expect_reason(struct t_dir *t, struct rdma_dev *d, const char *part)
{
	rdma_explain_no_verbs(&t->root, d);
	if (!strstr(d->reason, part))
		fail_msg("'%s' is not in '%s'", part, d->reason);
}

/* libibverbs skips a device that it cannot use, and reports no reason. */
static void test_reason_for_a_device_without_verbs_is_named(void **state)
{
	struct rdma_dev d = {.name = "x0", .driver = "mana"};
	struct t_dir t;

	(void)state;
	t_dir_make(t.path, &t.root);
	expect_reason(&t, &d, "ib_uverbs");
	strcpy(d.uverbs, "uverbs3");
	/* An RDMA device with a verbs device (uverbs3) is still unusable if its provider is not
	 * linked into this binary. */
	expect_reason(&t, &d, "the device's provider 'mana' is not linked into this binary");
	assert_non_null(strstr(d.reason, rdma_providers()));
	assert_non_null(strstr(d.reason, "PROVIDERS=\"... mana\""));
	strcpy(d.driver, "mlx5");
	expect_reason(&t, &d, "/dev/infiniband/uverbs3 is missing");
	put(&t, "/dev/infiniband", "uverbs3", "");
	expect_reason(&t, &d, "libibverbs does not list the device");
	t_dir_remove(t.path, &t.root);
}

/* A kernel before 5.3 has no GET_CHARDEV. */
static void test_device_fields_missing_in_netlink_are_read_from_sysfs(void **state)
{
	struct rdma_dev d = {.name = "mlx5_1", .ports = {{.port = 1}}};
	char path[96];
	struct t_dir t;

	(void)state;
	t_dir_make(t.path, &t.root);
	rdma_sysfs_fill(&t.root, &d);
	ASSERT_STR_EQ(d.driver, "");
	ASSERT_STR_EQ(d.uverbs, "");
	put(&t, "/sys/class/infiniband_verbs/uverbs0", "ibdev", "mlx5_0\n");
	put(&t, "/sys/class/infiniband_verbs/uverbs1", "ibdev", "mlx5_1\n");
	put(&t, "/sys/class/infiniband/mlx5_1/ports/1", "link_layer", "InfiniBand\n");
	ASSERT_EQ(dir_make(&t.root, "/sys/class/infiniband/mlx5_1/device", 0700, NULL), 0);
	snprintf(path, sizeof(path), "%s/sys/class/infiniband/mlx5_1/device/driver", t.path);
	ASSERT_EQ(symlink("../../../../bus/pci/drivers/mlx5_core", path), 0);
	rdma_sysfs_fill(&t.root, &d);
	ASSERT_STR_EQ(d.driver, "mlx5");
	ASSERT_STR_EQ(d.uverbs, "uverbs1");
	ASSERT_STR_EQ(d.ports[0].link_layer, "InfiniBand");
	d.driver[0] = '\0';
	ASSERT_EQ(unlink(path), 0);
	ASSERT_EQ(symlink("/sys/bus/pci/drivers/bnxt_en", path), 0);
	rdma_sysfs_fill(&t.root, &d);
	ASSERT_STR_EQ(d.driver, "bnxt_re");
	t_dir_remove(t.path, &t.root);
}

static void replay_text(const char *text, int want, size_t want_n)
{
	char file[] = "/tmp/test_rdma.XXXXXX";
	auto_nl struct nl_wire *w = NULL;
	auto_free struct rdma_dev *list = NULL;
	struct err e = ERR_INIT;
	int fd = mkstemp(file);
	size_t n = 0;

	assert_true(fd >= 0);
	ASSERT_EQ(fd_write_all(fd, text, strlen(text), NULL), 0);
	close(fd);
	ASSERT_EQ(nl_open_replay(&w, file, &e), 0);
	unlink(file);
	ASSERT_EQ(rdma_nl_list(w, &list, &n, &e), want);
	ASSERT_EQ(n, want_n);
	if (want < 0)
		assert_non_null(strstr(e.text, "RDMA device"));
	else
		ASSERT_OK(nl_replay_finished(w, &e), &e);
}

#define QUERY "> 10000000011401030000000000000000\n"
#define DONE  "< 1400000003000200000000000000000000000000\n"
#define FAIL  "< 24000000020000000000000000000000ffffffff10000000011401030000000000000000\n"
#define PORTS                                                                                      \
	"> 1800000005140103000000000000000008000100"                                               \
	"00000000\n"
#define CDEV                                                                                       \
	"> 240000000f14010000000000000000000800010000000000"                                       \
	"0b00450075766572627300"                                                                   \
	"00\n"

static void test_incomplete_entries_are_skipped_and_a_netlink_error_is_returned(void **state)
{
	(void)state;
	replay_text("# protocol rdma\n" QUERY DONE, 0, 0);
	replay_text("# protocol rdma\n" QUERY FAIL, -EPERM, 0);
	/* a device with an index but without a name: skipped */
	replay_text("# protocol rdma\n" QUERY
		    "< 180000000114020000000000000000000800010000000000\n" DONE,
		    0, 0);
	/* port 4711 is skipped, port 1 has no other attributes, and the kernel answers the
	 * request for the name of the verbs device with EOPNOTSUPP */
	replay_text("# protocol rdma\n" QUERY "< 200000000114020000000000000000000800010000000000"
		    "0600020078000000\n" DONE PORTS
		    "< 180000000514020000000000000000000800030067120000\n"
		    "< 180000000514020000000000000000000800030001000000\n" DONE CDEV
		    "< 24000000020000000000000000000000"
		    "a1ffffff"
		    "240000000f1401000000000000000000\n",
		    0, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_replay_of_eight_hcas_is_decoded),
		cmocka_unit_test(test_replay_of_soft_roce_is_decoded),
		cmocka_unit_test(test_reason_for_a_device_without_verbs_is_named),
		cmocka_unit_test(test_device_fields_missing_in_netlink_are_read_from_sysfs),
		cmocka_unit_test(
			test_incomplete_entries_are_skipped_and_a_netlink_error_is_returned),
	};

	return T_RUN(tests, NULL, NULL);
}
