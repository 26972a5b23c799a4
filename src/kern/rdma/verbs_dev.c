/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/rdma/verbs_dev.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "kern/rdma/rdma.h"
#include "kern/rdma/verbs_priv.h"

uint32_t verbs_mtu_bytes(enum ibv_mtu mtu)
{
	return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128U << mtu : 0;
}

enum ibv_mtu verbs_mtu_of(uint32_t bytes)
{
	enum ibv_mtu mtu = IBV_MTU_4096;

	while (mtu > IBV_MTU_256 && verbs_mtu_bytes(mtu) > bytes)
		mtu--;
	return mtu;
}

/* libibverbs looks for the node in other ways when it may not open it, and then says ENOENT. */
int verbs_why_not_open(const struct ibv_device *dev, int code, char *ret, size_t size)
{
	char node[96];
	auto_fd int fd = -1;

	snprintf(node, sizeof(node), "/dev/infiniband/%s", dev->dev_name);
	fd = open(node, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		code = -errno;
	snprintf(ret, size, "open %s: %s%s", node, errno_text(code),
		 code == -EACCES || code == -EPERM
			 ? " (neither file mode nor device cgroup may forbid it: a device plugin "
			   "or 'privileged' gives it to a container)"
			 : "");
	return code;
}

static int open_failed(const struct ibv_device *dev, int code, struct err *e)
{
	char why[RDMA_WHY_MAX];

	code = verbs_why_not_open(dev, code, why, sizeof(why));
	return err_kind(e, ERR_UNAVAILABLE, code, "RDMA device '%s': %s", dev->name, why);
}

static int open_listed(struct ibv_device **list, int n, const char *name, struct ibv_context **ret,
		       struct err *e)
{
	for (int i = 0; i < n; i++) {
		if (strcmp(ibv_get_device_name(list[i]), name))
			continue;
		errno = 0;
		*ret = ibv_open_device(list[i]);
		return *ret ? 0 : open_failed(list[i], errno ? -errno : -EIO, e);
	}
	return err_kind(
		e, ERR_UNAVAILABLE, -ENODEV,
		"open RDMA device '%s': libibverbs does not list it; see 'unirail rdma dev'", name);
}

int verbs_open(struct verbs_dev **ret, const char *name, struct err *e)
{
	struct ibv_context *ctx = NULL;
	struct ibv_device **list;
	struct verbs_dev *d;
	int n = 0, r;

	list = ibv_get_device_list(&n);
	if (!list)
		return err_sys(e, errno ? -errno : -EIO, "list RDMA devices");
	r = open_listed(list, n, name, &ctx, e);
	ibv_free_device_list(list);
	if (r < 0)
		return r;
	d = xcalloc(1, sizeof(*d));
	d->ctx = ctx;
	str_copy(d->name, sizeof(d->name), name);
	*ret = d;
	return 0;
}

void verbs_close(struct verbs_dev *d)
{
	if (!d)
		return;
	ibv_close_device(d->ctx);
	free(d);
}

void verbs_cleanup(struct verbs_dev **d)
{
	verbs_close(*d);
	*d = NULL;
}

const char *verbs_name(const struct verbs_dev *d)
{
	return d->name;
}

int verbs_port_get(struct verbs_dev *d, uint32_t port, struct verbs_port *ret, struct err *e)
{
	struct ibv_port_attr attr;
	int code = ibv_query_port(d->ctx, (uint8_t)port, &attr);

	if (code)
		return err_sys(e, -code, "look at port %u of RDMA device '%s'", port, d->name);
	*ret = (struct verbs_port){
		.port = port,
		.ethernet = attr.link_layer == IBV_LINK_LAYER_ETHERNET,
		.state = (uint8_t)attr.state,
		.lid = attr.lid,
		.mtu = verbs_mtu_bytes(attr.active_mtu),
	};
	return 0;
}

ssize_t verbs_gid_table(struct ibv_context *ctx, int table_len, struct ibv_gid_entry **ret)
{
	/* The table is the device's, all ports in one; libibverbs answers EINVAL to more room than its
	 * 16-bit length can tell. */
	size_t most = UINT16_MAX / sizeof(struct ibv_gid_entry);
	size_t whole = RDMA_PORTS_MAX * (size_t)(table_len > 0 ? table_len : 1);
	size_t room = whole < most ? whole : most;
	auto_free struct ibv_gid_entry *all = xcalloc(room, sizeof(*all));
	ssize_t n = ibv_query_gid_table(ctx, all, room, 0);

	if (n >= 0)
		*ret = take(all);
	return n;
}

static enum verbs_gid_type type_of(const struct ibv_gid_entry *g)
{
	if (g->gid_type == IBV_GID_TYPE_ROCE_V2)
		return VERBS_GID_ROCE_V2;
	return g->gid_type == IBV_GID_TYPE_ROCE_V1 ? VERBS_GID_ROCE_V1 : VERBS_GID_IB;
}

int verbs_gids(struct verbs_dev *d, struct verbs_gid **ret, size_t *n, struct err *e)
{
	auto_free struct ibv_gid_entry *all = NULL;
	struct ibv_port_attr attr = {0};
	struct verbs_gid *list;
	ssize_t got;

	/* Any port: drivers give all of them tables of one size. */
	ibv_query_port(d->ctx, 1, &attr);
	got = verbs_gid_table(d->ctx, attr.gid_tbl_len, &all);
	if (got < 0)
		return err_sys(e, (int)got, "read the GIDs of RDMA device '%s'", d->name);
	list = xcalloc((size_t)got, sizeof(*list));
	for (ssize_t i = 0; i < got; i++) {
		list[i] = (struct verbs_gid){
			.index = all[i].gid_index,
			.port = all[i].port_num,
			.type = type_of(&all[i]),
			.ifindex = (int)all[i].ndev_ifindex,
		};
		memcpy(list[i].raw, all[i].gid.raw, sizeof(list[i].raw));
	}
	*ret = list;
	*n = (size_t)got;
	return 0;
}

const char *verbs_gid_type_name(enum verbs_gid_type t)
{
	static const char *const names[] = {"IB", "RoCE v1", "RoCE v2"};

	return names[t];
}
