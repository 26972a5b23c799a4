/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/rdma/rdma.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/path.h"
#include "kern/rdma/internal.h"

enum { PATH_SIZE = 256 };

static const char *name_of(const char *const *names, size_t n, uint8_t i)
{
	return i < n && names[i] ? names[i] : "UNKNOWN";
}

const char *rdma_port_state_name(uint8_t state)
{
	static const char *const names[] = {"NOP",   "DOWN",   "INIT",
					    "ARMED", "ACTIVE", "ACTIVE_DEFER"};

	return name_of(names, ARRAY_LEN(names), state);
}

const char *rdma_port_phys_state_name(uint8_t state)
{
	static const char *const names[] = {NULL,	"SLEEP",   "POLLING",	     "DISABLED",
					    "TRAINING", "LINK_UP", "ERROR_RECOVERY", "PHY_TEST"};

	return name_of(names, ARRAY_LEN(names), state);
}

/* Derives the provider's name from the kernel driver: "mlx5_core" -> "mlx5", "bnxt_en" ->
 * "bnxt_re". */
static void driver_from_sysfs(const struct root *r, struct rdma_dev *d)
{
	static const struct {
		const char *kernel, *provider;
	} renamed[] = {{"bnxt_en", "bnxt_re"}, {"ice", "irdma"}, {"i40e", "irdma"},
		       {"idpf", "irdma"},      {"hns3", "hns"},	 {"qede", "qedr"}};
	char path[PATH_SIZE], target[PATH_SIZE], *core;
	const char *name;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/device/driver", d->name);
	if (link_read(r, path, target, sizeof(target), NULL) < 0)
		return;
	core = strstr(target, "_core");
	if (core && !core[strlen("_core")])
		*core = '\0';
	name = path_base(target);
	for (size_t i = 0; i < ARRAY_LEN(renamed); i++)
		if (!strcmp(name, renamed[i].kernel))
			name = renamed[i].provider;
	str_copy(d->driver, sizeof(d->driver), name);
}

static void uverbs_from_sysfs(const struct root *r, struct rdma_dev *d)
{
	char path[PATH_SIZE], dev[RDMA_NAME_MAX], **names = NULL;
	size_t n = 0;

	if (dir_list(r, "/sys/class/infiniband_verbs", &names, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "/sys/class/infiniband_verbs/%s/ibdev", names[i]);
		if (file_read_line(r, path, dev, sizeof(dev), NULL) < 0 || strcmp(dev, d->name))
			continue;
		str_copy(d->uverbs, sizeof(d->uverbs), names[i]);
	}
	str_list_free(names, n);
}

void rdma_sysfs_fill(const struct root *r, struct rdma_dev *d)
{
	char path[PATH_SIZE];

	if (!d->driver[0])
		driver_from_sysfs(r, d);
	if (!d->uverbs[0])
		uverbs_from_sysfs(r, d);
	for (size_t i = 0; i < RDMA_PORTS_MAX; i++) {
		struct rdma_port *p = &d->ports[i];

		if (!p->port || p->link_layer[0])
			continue;
		snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/%u/link_layer",
			 d->name, p->port);
		file_read_line(r, path, p->link_layer, sizeof(p->link_layer), NULL);
	}
}

static bool is_linked(const char *provider)
{
	struct span rest = span_of(rdma_providers()), one;

	while (span_cut(&rest, ',', &one))
		if (span_eq(one, provider))
			return true;
	return false;
}

void rdma_explain_no_verbs(const struct root *r, struct rdma_dev *d)
{
	char node[64];

	snprintf(node, sizeof(node), "/dev/infiniband/%s", d->uverbs);
	if (!d->uverbs[0])
		str_copy(d->reason, sizeof(d->reason),
			 "the device has no verbs device: is module ib_uverbs loaded?");
	else if (d->driver[0] && !is_linked(d->driver))
		snprintf(d->reason, sizeof(d->reason),
			 "the device's provider '%s' is not linked into this binary, which cannot "
			 "load providers (linked: %s): build the binary with PROVIDERS=\"... %s\"",
			 d->driver, rdma_providers(), d->driver);
	else if (!file_exists(r, node))
		snprintf(d->reason, sizeof(d->reason),
			 "%s is missing: a device plugin or a privileged container provides it",
			 node);
	else
		snprintf(d->reason, sizeof(d->reason),
			 "libibverbs does not list the device (linked providers: %s; is %s "
			 "readable?)",
			 rdma_providers(), node);
}

int rdma_dev_list(struct rdma_dev **ret, size_t *n, bool *supported, struct err *e)
{
	auto_nl struct nl_wire *w = NULL;
	struct root root;
	int r = nl_open(&w, NL_RDMA, -1, e);

	*supported = r != -EPROTONOSUPPORT;
	if (!*supported) {
		err_clear(e);
		*ret = NULL;
		*n = 0;
		return 0;
	}
	if (!r)
		r = root_open(&root, NULL, e);
	if (r < 0)
		return r;
	r = rdma_nl_list(w, ret, n, e);
	if (!r)
		rdma_verbs_fill(*ret, *n);
	for (size_t i = 0; !r && i < *n; i++) {
		rdma_sysfs_fill(&root, &(*ret)[i]);
		if (!(*ret)[i].in_verbs)
			rdma_explain_no_verbs(&root, &(*ret)[i]);
	}
	root_close(&root);
	return r;
}

int rdma_netns_mode_get(enum rdma_netns_mode *ret, struct err *e)
{
	auto_nl struct nl_wire *w = NULL;
	int r = nl_open(&w, NL_RDMA, -1, e);

	return r < 0 ? r : rdma_nl_netns_mode(w, ret, e);
}

/*
 * The functions below set those fields of a device whose values come from libibverbs. libibverbs is
 * linked with providers chosen at build time, and silently omits a device that has no provider or
 * no device node. So the devices that netlink lists are looked up in the list of libibverbs.
 */

#ifndef RDMA_STATIC_PROVIDERS
#error "define RDMA_STATIC_PROVIDERS: otherwise libibverbs finds no device and reports no error"
#endif

#define TEXT_OF(...) #__VA_ARGS__
#define TEXT(...)    TEXT_OF(__VA_ARGS__)

const char *rdma_providers(void)
{
	return TEXT(RDMA_STATIC_PROVIDERS);
}

static struct ibv_device *find(struct ibv_device **list, int n, const char *name)
{
	for (int i = 0; i < n; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			return list[i];
	return NULL;
}

static int count_gids(struct ibv_context *ctx, const struct ibv_port_attr *attr, uint32_t port)
{
	auto_free struct ibv_gid_entry *all = NULL;
	ssize_t n = verbs_gid_table(ctx, attr->gid_tbl_len, &all);
	int count = 0;

	for (ssize_t i = 0; i < n; i++)
		count += all[i].port_num == port;
	return count;
}

static void fill_port(struct ibv_context *ctx, struct rdma_port *p)
{
	struct ibv_port_attr attr;

	if (ibv_query_port(ctx, (uint8_t)p->port, &attr))
		return;
	if (attr.link_layer == IBV_LINK_LAYER_ETHERNET)
		str_copy(p->link_layer, sizeof(p->link_layer), "Ethernet");
	else if (attr.link_layer == IBV_LINK_LAYER_INFINIBAND)
		str_copy(p->link_layer, sizeof(p->link_layer), "InfiniBand");
	p->active_mtu = verbs_mtu_bytes(attr.active_mtu);
	p->gid_count = count_gids(ctx, &attr, p->port);
}

static void fill(struct ibv_device *dev, struct rdma_dev *d)
{
	struct ibv_context *ctx = ibv_open_device(dev);

	d->in_verbs = true;
	if (!ctx) {
		verbs_explain_not_open(dev, -errno, d->reason, sizeof(d->reason));
		return;
	}
	for (size_t i = 0; i < RDMA_PORTS_MAX; i++)
		if (d->ports[i].port)
			fill_port(ctx, &d->ports[i]);
	ibv_close_device(ctx);
}

void rdma_verbs_fill(struct rdma_dev *list, size_t n)
{
	struct ibv_device **found;
	int count = 0;

	if (!n)
		return;
	found = ibv_get_device_list(&count);
	if (!found)
		return;
	for (size_t i = 0; i < n; i++) {
		struct ibv_device *dev = find(found, count, list[i].name);

		if (dev)
			fill(dev, &list[i]);
	}
	ibv_free_device_list(found);
}
