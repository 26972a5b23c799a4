/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What only libibverbs tells. It is linked with providers chosen at build time and drops a device
 * that none of them drives, or whose node is missing, without a word: hence the comparison.
 */
#include "kern/rdma/rdma.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "kern/rdma/verbs_priv.h"

#ifndef RDMA_STATIC_PROVIDERS
#error "define RDMA_STATIC_PROVIDERS: libibverbs would find no device and say nothing"
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
		verbs_why_not_open(dev, -errno, d->why, sizeof(d->why));
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
