/* SPDX-License-Identifier: Apache-2.0 */
/* Resources of recorded and constructed hosts: soft-RoCE, VFs in pods, limits, the sample
 * configurations, rails. */
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
#include "wire/yaml/yaml.h"

static struct err e;

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

static void test_resources_and_messages_beyond_their_limits_are_omitted(void **state)
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
	ASSERT_STR_EQ(m.v[256].text,
		      "more than 256 messages about the resources, the others are left out");
	buf_reset(&b);
	buf_str(&b, "[");
	for (int i = 0; i < RESOURCE_VALUES_MAX; i++)
		buf_str(&b, "1,");
	buf_str(&b, "1]");
	ASSERT_EQ(resource_config_add(&c, buf_span(&b), "c", NULL, &m, &e), -E2BIG);
	ASSERT_EQ(c.n, RESOURCE_CONF_MAX);
}

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
		/* Keys with the name of a node, which replace config.json on that node, are
		 * skipped. */
		if (strcmp(key, "config.json") != 0)
			continue;
		ASSERT_OK(resource_config_add(c, span_of(json_string(v)), path, NULL, m, &e), &e);
	}
}

static void test_sample_configurations_define_the_documented_number_of_resources(void **state)
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
		/* Each of the eight shared resources has one HCA. */
		for (size_t k = 0; i == 0 && k < s.n; k++)
			ASSERT_EQ_MSG(s.v[k].n, 1, "rows[%zu]", i);
	}
	host_remove(&h);
}

static void test_rails_near_gpus_are_numbered_before_storage_nics(void **state)
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
		cmocka_unit_test(test_software_device_is_selected_by_its_netdev),
		cmocka_unit_test(test_vf_in_a_pod_stays_in_its_resource),
		cmocka_unit_test(test_resources_and_messages_beyond_their_limits_are_omitted),
		cmocka_unit_test(
			test_sample_configurations_define_the_documented_number_of_resources),
		cmocka_unit_test(test_rails_near_gpus_are_numbered_before_storage_nics),
	};

	return T_RUN(tests, NULL, NULL);
}
