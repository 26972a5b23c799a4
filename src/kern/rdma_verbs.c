/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What only libibverbs tells. It is linked with providers chosen at build time and drops a device
 * that none of them drives, or whose node is missing, without a word: hence the comparison.
 */
#include "kern/rdma.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "base/buf.h"
#include "base/cleanup.h"

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

static uint32_t mtu_bytes(enum ibv_mtu mtu)
{
	return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128U << mtu : 0;
}

static int count_gids(struct ibv_context *ctx, const struct ibv_port_attr *attr, uint32_t port)
{
	/* The table is the device's, all ports in one; libibverbs answers EINVAL to more room than its
	 * 16-bit length can tell. */
	size_t most = UINT16_MAX / sizeof(struct ibv_gid_entry);
	size_t whole = RDMA_PORTS_MAX * (size_t)(attr->gid_tbl_len > 0 ? attr->gid_tbl_len : 1);
	size_t room = whole < most ? whole : most;
	auto_free struct ibv_gid_entry *all = xcalloc(room, sizeof(*all));
	ssize_t n = ibv_query_gid_table(ctx, all, room, 0);
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
	p->active_mtu = mtu_bytes(attr.active_mtu);
	p->gid_count = count_gids(ctx, &attr, p->port);
}

static void fill(struct ibv_device *dev, struct rdma_dev *d)
{
	struct ibv_context *ctx = ibv_open_device(dev);

	d->in_verbs = true;
	if (!ctx) {
		snprintf(d->why, sizeof(d->why), "open /dev/infiniband/%s: %s", d->uverbs,
			 errno_name(errno));
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
