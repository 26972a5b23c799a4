/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Configurations of both device plugins, on a fixed node. The first byte of the input says what
 * the other bytes are: 0: the command line of sriovdp, one word per line; 1: that of
 * k8s-rdma-shared-dp; 2: an item of pfNames; any other value: a configuration. For a configuration,
 * bit 3 of the first byte sets the exclusive RDMA mode, and bit 4 selects CDI for the answers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/paths.h"
#include "device/resource/allocate.h"
#include "device/resource/explain.h"
#include "device/resource/prefer.h"
#include "device/resource/selector.h"
#include "device/resource/source.h"
#include "fuzz.h"

enum { OUT_MAX = 1 << 20, TRIED_IDS = 3, ARGS_MAX = 16 };

static struct node_char chars[] = {{NODE_UMAD, "umad0"},
				   {NODE_UMAD, "umad1"},
				   {NODE_UVERBS, "uverbs0"}};
static struct node_rdma rdma[] = {
	{.name = "mlx5_0", .pkey = "0xffff", .chars = chars, .n_chars = 3}};

static struct node_device devices[] = {
	{.id = "0000:3b:00.0",
	 .bdf = "0000:3b:00.0",
	 .vendor = "15b3",
	 .product = "101d",
	 .driver = "mlx5_core",
	 .index = -1,
	 .is_pf = true,
	 .num_vfs = 2,
	 .netdev = "pf0",
	 .link_type = "ether",
	 .rdma = rdma,
	 .n_rdma = 1,
	 .iommu_group = -1,
	 .path = (char *)"pci0000:3a/0000:3a:00.0"},
	{.id = "0000:3b:00.1",
	 .bdf = "0000:3b:00.1",
	 .vendor = "15b3",
	 .product = "101e",
	 .driver = "mlx5_core",
	 .pf = "0000:3b:00.0",
	 .pf_name = "pf0",
	 .index = 0,
	 .numa = 1,
	 .netdev = "vf0",
	 .link_type = "infiniband",
	 .pkey = "0xffff",
	 .rdma = rdma,
	 .n_rdma = 1,
	 .iommu_group = -1,
	 .vdpa = "vdpa0",
	 .vdpa_driver = "vhost_vdpa",
	 .vdpa_char = "vhost-vdpa-0",
	 .path = (char *)"pci0000:3a/0000:3a:00.0"},
	{.id = "0000:3b:00.2",
	 .bdf = "0000:3b:00.2",
	 .vendor = "8086",
	 .product = "154c",
	 .driver = "vfio-pci",
	 .pf = "0000:3b:00.0",
	 .pf_name = "pf0",
	 .index = 1,
	 .numa = -1,
	 .iommu_group = 7,
	 .noiommu = true,
	 .acpi_index = "101",
	 .ddp = "default",
	 .path = (char *)""},
	{.class = NODE_ACCELERATOR,
	 .id = "0000:e3:00.1",
	 .bdf = "0000:e3:00.1",
	 .vendor = "8086",
	 .product = "0d5d",
	 .driver = "igb_uio",
	 .index = -1,
	 .uio = "uio0",
	 .iommu_group = -1,
	 .path = (char *)"pci0000:e2"},
	{.class = NODE_AUX,
	 .id = "mlx5_core.sf.4",
	 .bdf = "0000:3b:00.0",
	 .vendor = "15b3",
	 .product = "101d",
	 .driver = "mlx5_core",
	 .pf = "0000:3b:00.0",
	 .pf_name = "pf0",
	 .index = 4,
	 .iommu_group = -1,
	 .rdma = rdma,
	 .n_rdma = 1,
	 .path = (char *)"pci0000:3a/0000:3a:00.0"},
};

static void check_answer(const struct resources *s, const struct resource *r, const char *id,
			 bool cdi)
{
	auto_answer struct answer a = {0};
	struct err e = ERR_INIT;

	must(resource_allocate(s, r, &id, 1, cdi, &a, &e) == 0);
	must(cdi || r->conf->form == RESOURCE_SRIOV || a.n_nodes > 0);
	for (size_t i = 0; i < a.n_nodes; i++)
		for (size_t k = 0; k < i; k++)
			must(strcmp(a.nodes[i].host, a.nodes[k].host) != 0);
	for (size_t i = 0; i < a.n_files; i++)
		must(strncmp(a.files[i].path, PATH_DEVINFO_DP "/", sizeof(PATH_DEVINFO_DP)) == 0 &&
		     !strchr(a.files[i].path + sizeof(PATH_DEVINFO_DP), '/'));
	for (size_t i = 0; i < a.n_envs; i++)
		must(a.envs[i].key && a.envs[i].value);
}

static void check_preferred(const struct resources *s, const struct resource *r, const char *id)
{
	const char *available[] = {id, "unknown"};
	const struct prefer_request q = {available, 2, available, 1, 2, NULL, 0};
	auto_free const char **ret = NULL;
	size_t n = 0;

	resource_prefer(s, r, &q, &ret, &n);
	must(n == 2 && ret[0] == available[0] && ret[1] == available[1]);
}

static void check_ids(const struct resources *s, const struct resource *r, bool cdi)
{
	size_t n = resource_ids(r);

	must(n <= RESOURCE_HCA_MAX);
	for (size_t i = 0; i < n && i < TRIED_IDS; i++) {
		struct resource_id id;

		resource_id_at(r, i, &id);
		must(*id.id && strlen(id.id) < sizeof(id.id));
		must(resource_id_number(r, id.id) == (int64_t)i);
		check_answer(s, r, id.id, cdi);
		if (n < 64)
			check_preferred(s, r, id.id);
	}
}

/* A device belongs to at most one resource of form RESOURCE_SRIOV. */
static void check_owners(const struct resources *s)
{
	for (size_t d = 0; d < s->node->n; d++) {
		size_t owners = 0;

		for (size_t i = 0; i < s->n; i++)
			for (size_t k = 0; k < s->v[i].n; k++)
				owners += s->v[i].conf->form == RESOURCE_SRIOV &&
					  s->v[i].v[k].device == &s->node->v[d];
		must(owners <= 1);
	}
}

static void try_config(struct span text, uint8_t how)
{
	auto_resource_config struct resource_config c = RESOURCE_CONFIG_INIT;
	auto_resource_messages struct resource_messages m = {0};
	auto_resources struct resources s = {0};
	const struct node_devices node = {.v = devices,
					  .n = ARRAY_LEN(devices),
					  .has_rdma_cm = true,
					  .has_vhost_net = true,
					  .mode = how & 8 ? NODE_RDMA_EXCLUSIVE : NODE_RDMA_SHARED};
	struct err e = ERR_INIT;
	struct buf b;

	if (fuzz_refused(resource_config_add(&c, text, "file", NULL, &m, &e), &e)) {
		must(c.n == 0);
		return;
	}
	resources_decide(&c, &node, &s, &m);
	must(s.n == c.n && c.n <= RESOURCE_CONF_MAX);
	for (size_t i = 0; i < s.n; i++)
		check_ids(&s, &s.v[i], how & 16);
	check_owners(&s);
	buf_init(&b, OUT_MAX);
	resource_explain_text(&s, &m, &b);
	resource_explain_json(&s, &m, &b);
	buf_done(&b);
}

static void try_flags(struct feed *f, enum resource_form form)
{
	struct resource_flags flags;
	struct err e = ERR_INIT;
	char *argv[ARGS_MAX];
	int argc = 0;

	while (f->n && argc < ARGS_MAX)
		argv[argc++] = text_of(feed_line(f));
	if (!fuzz_refused(resource_flags_parse(form, argc, argv, &flags, &e), &e))
		must(flags.config_file);
	for (int i = 0; i < argc; i++)
		free(argv[i]);
}

static void try_range(struct feed *f)
{
	auto_free char *item = text_of(feed_rest(f));
	bool named, in;
	int r = select_range(item, "pf0", 3, &named, &in);

	must(r == 0 || !in);
	must(named || !in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = {data, size};
	uint8_t how = feed_byte(&f);

	if (how < 2)
		try_flags(&f, how ? RESOURCE_SHARED : RESOURCE_SRIOV);
	else if (how == 2)
		try_range(&f);
	else
		try_config(feed_rest(&f), how);
	return 0;
}
