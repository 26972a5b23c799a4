/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resources, on plain structs: ranges, distances, preferred devices, devices in pods, sources,
 * flags, files.
 */
#include "host_lab.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "device/resource/allocate.h"
#include "device/resource/explain.h"
#include "device/resource/plan.h"
#include "device/resource/prefer.h"
#include "device/resource/selector.h"
#include "device/resource/source.h"
#include "wire/yaml/yaml.h"

static struct err e;

#define SWITCH(n) "pci0000:" n "0/0000:" n "0:01.0/0000:" n "1:00.0/0000:" n "2:0"

/* --- selectors --- */

static void range(const char *item, const char *name, int64_t index, int code, bool named, bool in)
{
	bool n, i;

	ASSERT_EQ(select_range(item, name, index, &n, &i), code);
	assert_true(n == named && i == in);
}

static void test_pf_name_ranges_select_vfs(void **state)
{
	(void)state;
	range("pf0", "pf0", 3, 0, true, true);
	range("PF0", "pf0", -1, 0, true, true);
	range("pf0", "pf1", 3, 0, false, false);
	range("pf0#0-3,5", "pf0", 3, 0, true, true);
	range("pf0#0-3,5", "pf0", 4, 0, true, false);
	range("pf0#0-3,5", "pf0", 5, 0, true, true);
	range("pf0#0-3", "pf0", -1, 0, true, false);
	range("0000:3b:00.0#7", "0000:3b:00.0", 7, 0, true, true);
	range("pf0#", "pf0", 0, -EINVAL, true, false);
	range("pf0#1,", "pf0", 1, -EINVAL, true, false);
	range("pf0#3-1", "pf0", 2, -EINVAL, true, false);
	range("pf0#a", "pf0", 2, -EINVAL, true, false);
	range("pf0#99999999999", "pf0", 2, -EINVAL, true, false);
	range("", "pf0", 0, 0, false, false);
}

/* With several selector objects the reported text is that of the selector that matched most. */
static void test_reason_of_the_best_matching_selector_is_reported(void **state)
{
	const char *intel[] = {"8086"}, *mlx[] = {"15b3"}, *drivers[] = {"vfio-pci"};
	struct selector s[2] = {{.lists[SELECT_VENDORS] = {intel, 1}},
				{.lists[SELECT_VENDORS] = {mlx, 1},
				 .lists[SELECT_DRIVERS] = {drivers, 1}}};
	const struct resource_conf c = {.form = RESOURCE_SRIOV, .selectors = s, .n_selectors = 2};
	const struct node_device d = {.vendor = "15b3", .driver = "mlx5_core", .path = ""};
	struct verdict v;
	size_t which = 0;

	(void)state;
	resource_consider(&c, &d, &v, &which);
	assert_false(v.matches);
	ASSERT_STR_EQ(v.key, "drivers");
	ASSERT_STR_EQ(v.text, "drivers requires vfio-pci, the device has mlx5_core");
	ASSERT_EQ(which, 1);
}

/* --- distances --- */

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

/* --- preferred devices --- */

enum { RAILS = 4, VFS = 3 };

/*
 * Four switches with a rail and a GPU below each, two switches on each NUMA node, three VFs on each
 * rail.
 */
struct prefer_lab {
	struct node_device v[RAILS * VFS];
	struct resource_member members[RAILS * VFS];
	struct node_gpu gpus[RAILS];
	struct node_devices node;
	struct resource_conf conf;
	struct resource r;
	struct resources s;
	char paths[RAILS][2][64];
};

static void prefer_init(struct prefer_lab *l)
{
	memset(l, 0, sizeof(*l));
	for (int i = 0; i < RAILS; i++) {
		for (int k = 0; k < 2; k++)
			snprintf(l->paths[i][k], sizeof(l->paths[i][k]),
				 "pci0000:%d0/0000:%d0:01.0/0000:%d1:00.0/0000:%d2:0%d.0", i, i, i,
				 i, k);
		snprintf(l->gpus[i].bdf, sizeof(l->gpus[i].bdf), "0000:%d9:00.0", i);
		l->gpus[i].path = l->paths[i][1];
		l->gpus[i].numa = i / 2;
		for (int k = 0; k < VFS; k++) {
			struct node_device *d = &l->v[i * VFS + k];

			snprintf(d->id, sizeof(d->id), "0000:%d3:00.%d", i, k + 1);
			str_copy(d->bdf, sizeof(d->bdf), d->id);
			snprintf(d->pf, sizeof(d->pf), "0000:%d3:00.0", i);
			d->path = l->paths[i][0];
			d->numa = i / 2;
			l->members[i * VFS + k].device = d;
		}
	}
	l->node = (struct node_devices){
		.v = l->v, .n = RAILS * VFS, .gpus = l->gpus, .n_gpus = RAILS};
	l->conf.form = RESOURCE_SRIOV;
	l->r = (struct resource){&l->conf, l->members, RAILS * VFS};
	l->s = (struct resources){&l->r, 1, &l->node};
}

/* "a b" */
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
	/* each GPU's */
	prefer(&l, ALL, "", 2, "0000:39:00.0 0000:19:00.0", "0000:13:00.1 0000:33:00.1");
	/* no VF is left below this switch: one on the same NUMA node */
	prefer(&l, "0000:03:00.1 0000:13:00.1 0000:33:00.2", "", 1, "0000:29:00.0", "0000:33:00.2");
	/* none is left on this node either */
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
	/* Unknown UUIDs, a MIG device, a prefix of a known UUID, an empty ID. */
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
	/* rail 0 has the most allocated VFs, rail 3 none */
	prefer(&l, "0000:03:00.1 0000:13:00.1 0000:13:00.2 0000:33:00.1 0000:33:00.2 0000:33:00.3",
	       "", 2, "", "0000:33:00.1 0000:13:00.1");
	/* a required device is included and counted for its rail */
	prefer(&l, ALL, "0000:33:00.2", 4, "",
	       "0000:33:00.2 0000:03:00.1 0000:13:00.1 0000:23:00.1");
	/* fewer than requested; IDs without a device come last */
	prefer(&l, "unknown 0000:13:00.2", "", 5, "", "0000:13:00.2 unknown");
	prefer(&l, "", "", 2, "", "");
	prefer(&l, ALL, "", 0, "", "");
}

/* With "spread": true the device ID determines the HCA, so the kubelet selects an HCA by its ID. */
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

/* --- soft-RoCE --- */

/* A device without a PCI parent belongs only to a shared resource whose ifNames lists its
 * netdev. */
static void test_software_device_is_selected_by_its_netdev(void **state)
{
	static const char conf[] =
		"{\"configList\": [{\"resourceName\": \"soft\", \"rdmaHcaMax\": 2, \"selectors\": {\"ifNames\": [\"eth0\"]}},"
		"{\"resourceName\": \"ether\", \"rdmaHcaMax\": 2, \"selectors\": {\"linkTypes\": [\"ether\"]}},"
		"{\"resourceName\": \"mlx\", \"rdmaHcaMax\": 2, \"selectors\": {\"ifNames\": [\"eth0\"], \"vendors\": [\"15b3\"]}}],"
		"\"resourceList\": [{\"resourceName\": \"vf\", \"selectors\": {\"isRdma\": true}}]}";
	auto_node_devices struct node_devices node = {0};
	auto_resource_config struct resource_config c = RESOURCE_CONFIG_INIT;
	auto_resource_messages struct resource_messages m = {0};
	auto_resources struct resources s = {0};
	auto_answer struct answer a = {0};
	auto_buf struct buf b;
	const char *ids[] = {"1"};
	char command[256];
	struct host_lab h;

	(void)state;
	host_empty(&h);
	host_write(&h, "/sys/devices/virtual/infiniband/rxe0/parent", "eth0");
	host_write(&h, "/sys/class/infiniband_verbs/uverbs0/ibdev", "rxe0");
	host_write(&h, "/sys/class/infiniband_verbs/uverbs1/ibdev", "mlx5_0");
	host_write(&h, "/sys/class/net/eth0/type", "1");
	snprintf(command, sizeof(command),
		 "cd %s/sys/class && mkdir infiniband && "
		 "ln -s ../../devices/virtual/infiniband/rxe0 infiniband/rxe0",
		 h.dir);
	ASSERT_EQ(system(command), 0);
	ASSERT_EQ(node_devices_read(&h.root, &node, &e), 0);
	ASSERT_EQ(node.n, 1);
	ASSERT_EQ(node_devices_functions(&node), 0);
	ASSERT_STR_EQ(node.v[0].netdev, "eth0");
	ASSERT_EQ(resource_config_add(&c, span_of(conf), "c", NULL, &m, &e), 0);
	resources_decide(&c, &node, &s, &m);
	for (size_t i = 0; i < s.n; i++)
		ASSERT_EQ(s.v[i].n, strcmp(s.v[i].conf->name, "soft") == 0);
	ASSERT_EQ(resource_allocate(&s, resource_find(&s, "rdma/soft"), ids, 1, false, &a, &e), 0);
	ASSERT_EQ(a.n_nodes, 1);
	ASSERT_STR_EQ(a.nodes[0].host, "/dev/infiniband/uverbs0");
	buf_init(&b, 1 << 16);
	resource_explain_text(&s, &m, &b);
	assert_non_null(strstr(b.p, "rxe0  software  eth0  rxe0\n"));
	assert_non_null(strstr(b.p, "only ifNames of a shared resource select it"));
	host_remove(&h);
}

/* --- a VF in a pod --- */

static void test_vf_in_a_pod_stays_in_its_resource(void **state)
{
	static const char conf[] =
		"{\"resourceList\": [{\"resourceName\": \"a\", \"selectors\": {\"pfNames\": [\"ib0\"], "
		"\"pKeys\": [\"0x8001\"], \"linkTypes\": [\"infiniband\"], \"isRdma\": true}}]}";
	auto_node_devices struct node_devices before = {0}, now = {0};
	auto_resource_config struct resource_config c = RESOURCE_CONFIG_INIT;
	auto_resource_messages struct resource_messages m = {0};
	auto_resources struct resources s = {0}, carried = {0};
	char command[256];
	struct host_lab h;

	(void)state;
	host_unpack(&h, "eight_ib.tree");
	ASSERT_EQ(resource_config_add(&c, span_of(conf), "c", NULL, &m, &e), 0);
	ASSERT_EQ(node_devices_read(&h.root, &before, &e), 0);
	/* While a VF is in a pod, the host has neither its netdev nor its RDMA device. */
	snprintf(command, sizeof(command),
		 "rm -r %s/sys/devices/pci0000:10/0000:10:01.0/0000:11:00.2/net "
		 "%s/sys/devices/pci0000:10/0000:10:01.0/0000:11:00.2/infiniband*",
		 h.dir, h.dir);
	ASSERT_EQ(system(command), 0);
	ASSERT_EQ(node_devices_read(&h.root, &now, &e), 0);
	assert_true(node_device_find(&now, "0000:11:00.2")->away);
	resources_decide(&c, &now, &s, &m);
	ASSERT_EQ(s.v[0].n, 0);
	node_devices_carry(&now, &before, 1);
	resources_decide(&c, &now, &carried, &m);
	ASSERT_EQ(carried.v[0].n, 1);
	ASSERT_STR_EQ(carried.v[0].v[0].device->id, "0000:11:00.2");
	host_remove(&h);
}

/* --- responses to Allocate --- */

static void test_allocate_of_a_removed_device_fails(void **state)
{
	struct prefer_lab l;
	struct answer a = {0};
	const char *ids[] = {"0000:99:00.1"};

	(void)state;
	prefer_init(&l);
	str_copy(l.conf.full, sizeof(l.conf.full), "intel.com/a");
	ASSERT_EQ(resource_allocate(&l.s, &l.r, ids, 1, false, &a, &e), -ENOENT);
	ASSERT_STR_EQ(e.text, "resource intel.com/a has no device '0000:99:00.1' any more");
	ASSERT_EQ(resource_allocate(&l.s, &l.r, ids, 0, false, &a, &e), -EINVAL);
	assert_null(a.envs);
}

static void test_device_info_file_is_written_and_replaced(void **state)
{
	const struct resource_conf c = {.full = "a/b"};
	auto_free char *path = resource_devinfo_path(&c, "x/../y");
	char text[32];
	struct answer_file f = {path, "{}\n"};
	struct answer a = {.files = &f, .n_files = 1};
	struct host_lab h;
	struct stat st;
	ino_t inode;

	(void)state;
	ASSERT_STR_EQ(path, "/var/run/k8s.cni.cncf.io/devinfo/dp/a-b-x-..-y-device.json");
	host_empty(&h);
	ASSERT_EQ(answer_files_write(&h.root, &a, &e), 0);
	ASSERT_EQ(file_lstat(&h.root, path, &st, &e), 0);
	ASSERT_EQ(st.st_mode & 07777, 0444);
	/* A read-only file of an earlier pod is replaced. */
	f.text = "{\"type\": 1}\n";
	ASSERT_EQ(answer_files_write(&h.root, &a, &e), 0);
	host_read(&h, path, text, sizeof(text));
	ASSERT_STR_EQ(text, "{\"type\": 1}");
	/* A file with the same text is not written again, but with another mode it is. */
	ASSERT_EQ(file_lstat(&h.root, path, &st, &e), 0);
	inode = st.st_ino;
	ASSERT_EQ(answer_files_write(&h.root, &a, &e), 0);
	ASSERT_EQ(file_lstat(&h.root, path, &st, &e), 0);
	ASSERT_EQ(st.st_ino, inode);
	ASSERT_EQ(fchmodat(h.root.fd, path + 1, 0644, 0), 0);
	ASSERT_EQ(answer_files_write(&h.root, &a, &e), 0);
	ASSERT_EQ(file_lstat(&h.root, path, &st, &e), 0);
	ASSERT_EQ(st.st_mode & 07777, 0444);
	f.text = NULL;
	ASSERT_EQ(answer_files_write(&h.root, &a, &e), 0);
	assert_false(file_exists(&h.root, path));
	host_remove(&h);
}

/* --- sources of configurations --- */

#define CONF(name) "{\"resourceList\": [{\"resourceName\": \"" name "\", \"selectors\": {}}]}"

static size_t sources(struct host_lab *h, const char *path, const char *node, bool optional,
		      const char *expected)
{
	auto_resource_config struct resource_config c = RESOURCE_CONFIG_INIT;
	auto_resource_messages struct resource_messages m = {0};
	auto_buf struct buf b;
	size_t n = resource_sources_read(&h->root, &path, 1, node, optional, NULL, &c, &m);

	buf_init(&b, 4096);
	for (size_t i = 0; i < c.n; i++)
		buf_printf(&b, "%s ", c.v[i].name);
	for (size_t i = 0; i < m.n; i++)
		buf_printf(&b, "! %s", m.v[i].text);
	ASSERT_STR_EQ(b.p ? b.p : "", expected);
	return n;
}

static void test_configuration_is_read_from_files_and_directories(void **state)
{
	struct host_lab h;

	(void)state;
	host_empty(&h);
	host_write(&h, "/file/one.json", CONF("one"));
	host_write(&h, "/map/..data/config.json", CONF("hidden"));
	host_write(&h, "/map/b.json", CONF("b"));
	host_write(&h, "/map/a.json", CONF("a"));
	host_write(&h, "/map/README", "no configuration");
	host_write(&h, "/nodes/node1", CONF("node1"));
	host_write(&h, "/nodes/config.json", CONF("all"));
	host_write(&h, "/other/README", "no configuration");
	ASSERT_EQ(sources(&h, "/file/one.json", NULL, false, "one "), 1);
	ASSERT_EQ(sources(&h, "/map", "node1", false, "a b "), 2);
	ASSERT_EQ(sources(&h, "/nodes", "node1", false, "node1 "), 1);
	ASSERT_EQ(sources(&h, "/nodes", "node2", false, "all "), 1);
	ASSERT_EQ(sources(&h, "/nodes", "..data", false, "all "), 1);
	ASSERT_EQ(sources(&h, "/none", NULL, true, ""), 0);
	ASSERT_EQ(sources(&h, "/none", NULL, false,
			  "! open '/none': No such file or directory (ENOENT)"),
		  0);
	ASSERT_EQ(sources(&h, "/other", "node1", false,
			  "! /other: no configuration: expected config.json, *.json or the node's "
			  "name node1"),
		  0);
	host_remove(&h);
}

static int flags(enum resource_form form, const char *line, struct resource_flags *ret)
{
	static char copy[256];
	char *argv[16];
	int argc = 0;

	str_copy(copy, sizeof(copy), line);
	for (char *w = strtok(copy, " "); w; w = strtok(NULL, " "))
		argv[argc++] = w;
	err_clear(&e);
	return resource_flags_parse(form, argc, argv, ret, &e);
}

static void test_flags_of_the_originals_are_accepted(void **state)
{
	struct resource_flags f;

	(void)state;
	ASSERT_EQ(flags(RESOURCE_SHARED, "", &f), 0);
	ASSERT_STR_EQ(f.config_file, "/k8s-rdma-shared-dev-plugin/config.json");
	assert_true(!f.use_cdi && !f.version);
	ASSERT_EQ(flags(RESOURCE_SHARED, "-config-file /a --use-cdi=true -v", &f), 0);
	ASSERT_STR_EQ(f.config_file, "/a");
	assert_true(f.use_cdi && f.version);
	ASSERT_EQ(flags(RESOURCE_SRIOV, "", &f), 0);
	ASSERT_STR_EQ(f.config_file, "/etc/pcidp/config.json");
	assert_null(f.prefix);
	/* the SR-IOV operator runs its image with these flags */
	ASSERT_EQ(flags(RESOURCE_SRIOV,
			"--log-level=10 --resource-prefix=openshift.io "
			"--config-file=/etc/pcidp/node1 --use-cdi",
			&f),
		  0);
	ASSERT_STR_EQ(f.prefix, "openshift.io");
	ASSERT_STR_EQ(f.config_file, "/etc/pcidp/node1");
	assert_true(f.use_cdi && f.log_level == 10);
	ASSERT_EQ(flags(RESOURCE_SRIOV, "-logtostderr -v 5 -log_dir /tmp -- -nonsense", &f), 0);
	ASSERT_EQ(f.log_level, 5);
	ASSERT_EQ(flags(RESOURCE_SHARED, "-resource-prefix=x", &f), -EINVAL);
	ASSERT_STR_EQ(e.text, "flag provided but not defined: -resource-prefix");
	ASSERT_EQ(flags(RESOURCE_SRIOV, "-config-file", &f), -EINVAL);
	ASSERT_STR_EQ(e.text, "flag needs an argument: -config-file");
	ASSERT_EQ(flags(RESOURCE_SRIOV, "-use-cdi=maybe", &f), -EINVAL);
	ASSERT_STR_EQ(e.text, "invalid boolean value \"maybe\" for -use-cdi: parse error");
	ASSERT_EQ(flags(RESOURCE_SRIOV, "---x", &f), -EINVAL);
	ASSERT_STR_EQ(e.text, "bad flag syntax: ---x");
	ASSERT_EQ(flags(RESOURCE_SRIOV, "-v=high", &f), -EINVAL);
}

/* --- ceilings --- */

static void test_too_many_resources_are_refused(void **state)
{
	auto_resource_config struct resource_config c = RESOURCE_CONFIG_INIT;
	auto_resource_messages struct resource_messages m = {0};
	auto_buf struct buf b;

	(void)state;
	buf_init(&b, RESOURCE_TEXT_MAX * 2);
	buf_str(&b, "{\"resourceList\": [");
	for (int i = 0; i < RESOURCE_CONF_MAX + 1; i++)
		buf_printf(&b, "%s{\"resourceName\": \"r%d\", \"wrong%d\": 1, \"selectors\": {}}",
			   i ? "," : "", i, i);
	buf_str(&b, "]}");
	ASSERT_EQ(resource_config_add(&c, buf_span(&b), "c", NULL, &m, &e), 0);
	ASSERT_EQ(c.n, RESOURCE_CONF_MAX);
	ASSERT_EQ(m.n, 257);
	ASSERT_STR_EQ(m.v[256].text, "more than 256 messages, the others are left out");
	buf_reset(&b);
	buf_str(&b, "[");
	for (int i = 0; i < RESOURCE_VALUES_MAX; i++)
		buf_str(&b, "1,");
	buf_str(&b, "1]");
	ASSERT_EQ(resource_config_add(&c, buf_span(&b), "c", NULL, &m, &e), -E2BIG);
	ASSERT_EQ(c.n, RESOURCE_CONF_MAX);
}

/* --- explain --- */

static void test_explain_names_the_reason_for_each_device(void **state)
{
	static const char conf[] =
		"{\"configList\": [{\"resourceName\": \"hca\", \"rdmaHcaMax\": 1, \"selectors\": "
		"{\"vendors\": [\"8086\"]}}], \"resourceList\": [{\"resourceName\": \"a\", \"selectors\": "
		"{\"pfNames\": [\"ens4f0np0#0\"]}}, {\"resourceName\": \"b\", \"selectors\": "
		"{\"vendors\": [\"15b3\"]}}]}";
	auto_node_devices struct node_devices node = {0};
	auto_resource_config struct resource_config c = RESOURCE_CONFIG_INIT;
	auto_resource_messages struct resource_messages m = {0};
	auto_resources struct resources s = {0};
	auto_buf struct buf b;
	struct host_lab h;

	(void)state;
	host_unpack(&h, "vfs.tree");
	ASSERT_EQ(node_devices_read(&h.root, &node, &e), 0);
	ASSERT_EQ(resource_config_add(&c, span_of(conf), "c", NULL, &m, &e), 0);
	resources_decide(&c, &node, &s, &m);
	buf_init(&b, 1 << 20);
	resource_explain_text(&s, &m, &b);
	assert_non_null(strstr(b.p,
			       "0000:af:00.2  VF 0 of ens4f0np0  ens4f0v0  mlx5_1\n"
			       "  - rdma/hca: vendors requires 8086, the device has 15b3\n"
			       "  + intel.com/a\n"
			       "  - intel.com/b: it belongs to intel.com/a, which comes first\n"));
	assert_non_null(strstr(
		b.p, "0000:af:00.5  VF 3 of ens4f0np0  in a pod\n"
		     "  - rdma/hca: the device has no RDMA device\n"
		     "  - intel.com/a: pfNames requires ens4f0np0#0, the device has ens4f0np0#3\n"
		     "  + intel.com/b\n"));
	assert_non_null(strstr(b.p, "0000:af:00.0  PF with 5 VFs  ens4f0np0  mlx5_0\n"));
	assert_non_null(strstr(b.p, "intel.com/b: the device is a PF with VFs\n"));
	assert_non_null(strstr(b.p,
			       "warning: c: resourceList[1]: intel.com/b: Cannot add device "
			       "[0000:af:00.2]. Already allocated.: it belongs to intel.com/a, "
			       "which comes first\n"));
	host_remove(&h);
}

/* --- configs/device-plugin --- */

static void read_example(const char *name, struct resource_config *c, struct resource_messages *m)
{
	auto_free char *path = xasprintf("configs/device-plugin/%s", name);
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	auto_json struct json_doc *doc = NULL;
	auto_buf struct buf text, json;
	struct json_walk w;
	const struct json *v;
	const char *key;

	buf_init(&text, 1 << 20);
	buf_init(&json, 1 << 20);
	if (fd < 0)
		fail_msg("%s is missing", path);
	ASSERT_EQ(fd_read_all(fd, 1 << 20, &text, &e), 0);
	if (yaml_to_json(buf_span(&text), &json, &e) < 0 ||
	    json_parse(&doc, buf_span(&json), 1 << 20, &e) < 0)
		fail_msg("%s: %s", path, e.text);
	w = json_walk_start(json_get(json_root(doc), "data"));
	while ((v = json_walk_next(&w, &key))) {
		/* If the node has a key of its own, only this key is read. */
		if (strcmp(key, "config.json") != 0)
			continue;
		ASSERT_OK(resource_config_add(c, span_of(json_string(v)), path, NULL, m, &e), &e);
	}
}

static void test_examples_of_configs_give_their_resources(void **state)
{
	static const struct {
		const char *name;
		size_t n;
	} rows[] = {{"shared.yaml", 8},
		    {"sriov.yaml", 8},
		    {"infiniband.yaml", 8},
		    {"per-node.yaml", 1},
		    {"one-hca.yaml", 2}};
	auto_node_devices struct node_devices node = {0};
	struct host_lab h;

	(void)state;
	host_unpack(&h, "eight_named.tree");
	ASSERT_EQ(node_devices_read(&h.root, &node, &e), 0);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_resource_config struct resource_config c = RESOURCE_CONFIG_INIT;
		auto_resource_messages struct resource_messages m = {0};
		auto_resources struct resources s = {0};

		read_example(rows[i].name, &c, &m);
		ASSERT_EQ_MSG(m.n, 0, "rows[%zu]", i);
		ASSERT_EQ_MSG(c.n, rows[i].n, "rows[%zu]", i);
		resources_decide(&c, &node, &s, &m);
		/* Eight shared rails: the same resources as without a configuration. */
		for (size_t k = 0; i == 0 && k < s.n; k++)
			ASSERT_EQ_MSG(s.v[k].n, 1, "rows[%zu]", i);
	}
	host_remove(&h);
}

/* --- rails --- */

static void test_rails_are_numbered_in_pci_order(void **state)
{
	auto_node_devices struct node_devices node = {0};
	auto_free struct rail *v = NULL;
	struct host_lab h;

	(void)state;
	host_unpack(&h, "eight_rails.tree");
	ASSERT_EQ(node_devices_read(&h.root, &node, &e), 0);
	/*
	 * The NIC of the default route is not a rail; the storage NIC, which has no GPU near it, is
	 * the last.
	 */
	ASSERT_EQ(resource_rails(&node, &v), 9);
	ASSERT_STR_EQ(v[0].pf->netdev, "ens1np0");
	ASSERT_STR_EQ(v[7].pf->netdev, "ens8np0");
	ASSERT_STR_EQ(v[8].pf->netdev, "storage0");
	host_remove(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pf_name_ranges_select_vfs),
		cmocka_unit_test(test_reason_of_the_best_matching_selector_is_reported),
		cmocka_unit_test(test_distance_of_devices_follows_the_pci_tree),
		cmocka_unit_test(test_devices_near_the_gpu_are_preferred),
		cmocka_unit_test(test_devices_near_a_gpu_named_by_uuid_are_preferred),
		cmocka_unit_test(test_uuid_of_a_gpu_is_parsed),
		cmocka_unit_test(test_gpus_of_a_host_are_listed),
		cmocka_unit_test(test_preferred_devices_are_spread_over_rails),
		cmocka_unit_test(test_least_loaded_hca_is_preferred),
		cmocka_unit_test(test_software_device_is_selected_by_its_netdev),
		cmocka_unit_test(test_vf_in_a_pod_stays_in_its_resource),
		cmocka_unit_test(test_allocate_of_a_removed_device_fails),
		cmocka_unit_test(test_device_info_file_is_written_and_replaced),
		cmocka_unit_test(test_configuration_is_read_from_files_and_directories),
		cmocka_unit_test(test_flags_of_the_originals_are_accepted),
		cmocka_unit_test(test_too_many_resources_are_refused),
		cmocka_unit_test(test_explain_names_the_reason_for_each_device),
		cmocka_unit_test(test_examples_of_configs_give_their_resources),
		cmocka_unit_test(test_rails_are_numbered_in_pci_order),
	};

	return T_RUN(tests, NULL, NULL);
}
