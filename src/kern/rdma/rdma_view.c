/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/rdma/rdma_view.h"

#include <stdlib.h>

#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>

#include "base/alloc.h"
#include "kern/rdma/internal.h"
#include "kern/rdma/rdma_set.h"

enum { ATTRS = RDMA_NLDEV_ATTR_MAX };

static uint32_t flag(const struct nlattr *a, enum rdma_view_has flag)
{
	return a ? flag : 0;
}

struct devs {
	struct rdma_view_dev *v;
	size_t n;
};

static int take_dev(void *msg, void *arg)
{
	struct nlattr *tb[ATTRS];
	struct devs *all = arg;
	struct rdma_view_dev *d;
	int r = msg_attrs(msg, 0, tb, ATTRS - 1);

	if (r < 0 || !tb[RDMA_NLDEV_ATTR_DEV_INDEX] || !tb[RDMA_NLDEV_ATTR_DEV_NAME])
		return r < 0 ? r : 0;
	d = &VEC_PUSH(all->v, all->n);
	*d = (struct rdma_view_dev){
		.index = get_u32(tb[RDMA_NLDEV_ATTR_DEV_INDEX], 0),
		.n_ports = get_u32(tb[RDMA_NLDEV_ATTR_PORT_INDEX], 0),
		.node_type = get_u8(tb[RDMA_NLDEV_ATTR_DEV_NODE_TYPE], 0),
		.moderation = get_u8(tb[RDMA_NLDEV_ATTR_DEV_DIM], 0),
		.node_guid = rdma_get_u64(tb[RDMA_NLDEV_ATTR_NODE_GUID]),
		.sys_image_guid = rdma_get_u64(tb[RDMA_NLDEV_ATTR_SYS_IMAGE_GUID]),
		.caps = rdma_get_u64(tb[RDMA_NLDEV_ATTR_CAP_FLAGS]),
		.has = flag(tb[RDMA_NLDEV_ATTR_DEV_NODE_TYPE], RDMA_VIEW_NODE_TYPE) |
		       flag(tb[RDMA_NLDEV_ATTR_NODE_GUID], RDMA_VIEW_NODE_GUID) |
		       flag(tb[RDMA_NLDEV_ATTR_SYS_IMAGE_GUID], RDMA_VIEW_SYS_IMAGE_GUID) |
		       flag(tb[RDMA_NLDEV_ATTR_DEV_DIM], RDMA_VIEW_MODERATION) |
		       flag(tb[RDMA_NLDEV_ATTR_FW_VERSION], RDMA_VIEW_FW) |
		       flag(tb[RDMA_NLDEV_ATTR_CAP_FLAGS], RDMA_VIEW_CAPS)};
	get_str(tb[RDMA_NLDEV_ATTR_DEV_NAME], d->name, sizeof(d->name));
	get_str(tb[RDMA_NLDEV_ATTR_FW_VERSION], d->fw, sizeof(d->fw));
	return 0;
}

static void forget_devs(void *arg)
{
	((struct devs *)arg)->n = 0;
}

int rdma_nl_view_devs(struct nl_wire *w, struct rdma_view_dev **ret, size_t *n, struct err *e)
{
	struct devs all = {0};
	int r = nl_request(w, rdma_request(RDMA_NLDEV_CMD_GET, NLM_F_DUMP), take_dev, forget_devs,
			   &all, e);

	if (r < 0) {
		free(all.v);
		return err_wrap(e, r, "list RDMA devices");
	}
	*ret = all.v;
	*n = all.n;
	return 0;
}

struct links {
	struct rdma_view_link *v;
	size_t n;
};

static int take_link(void *msg, void *arg)
{
	struct nlattr *tb[ATTRS];
	struct links *all = arg;
	struct rdma_view_link *l;
	int r = msg_attrs(msg, 0, tb, ATTRS - 1);

	if (r < 0 || !tb[RDMA_NLDEV_ATTR_DEV_NAME] || !tb[RDMA_NLDEV_ATTR_PORT_INDEX])
		return r < 0 ? r : 0;
	l = &VEC_PUSH(all->v, all->n);
	*l = (struct rdma_view_link){
		.index = get_u32(tb[RDMA_NLDEV_ATTR_DEV_INDEX], 0),
		.port = get_u32(tb[RDMA_NLDEV_ATTR_PORT_INDEX], 0),
		.caps = rdma_get_u64(tb[RDMA_NLDEV_ATTR_CAP_FLAGS]),
		.prefix = rdma_get_u64(tb[RDMA_NLDEV_ATTR_SUBNET_PREFIX]),
		.lid = get_u32(tb[RDMA_NLDEV_ATTR_LID], 0),
		.sm_lid = get_u32(tb[RDMA_NLDEV_ATTR_SM_LID], 0),
		.lmc = get_u8(tb[RDMA_NLDEV_ATTR_LMC], 0),
		.state = get_u8(tb[RDMA_NLDEV_ATTR_PORT_STATE], 0),
		.phys_state = get_u8(tb[RDMA_NLDEV_ATTR_PORT_PHYS_STATE], 0),
		.netdev_index = get_u32(tb[RDMA_NLDEV_ATTR_NDEV_INDEX], 0),
		.has = flag(tb[RDMA_NLDEV_ATTR_CAP_FLAGS], RDMA_VIEW_CAPS) |
		       flag(tb[RDMA_NLDEV_ATTR_SUBNET_PREFIX], RDMA_VIEW_PREFIX) |
		       flag(tb[RDMA_NLDEV_ATTR_LID], RDMA_VIEW_LID) |
		       flag(tb[RDMA_NLDEV_ATTR_SM_LID], RDMA_VIEW_SM_LID) |
		       flag(tb[RDMA_NLDEV_ATTR_LMC], RDMA_VIEW_LMC) |
		       flag(tb[RDMA_NLDEV_ATTR_PORT_STATE], RDMA_VIEW_STATE) |
		       flag(tb[RDMA_NLDEV_ATTR_PORT_PHYS_STATE], RDMA_VIEW_PHYS_STATE)};
	get_str(tb[RDMA_NLDEV_ATTR_DEV_NAME], l->name, sizeof(l->name));
	get_str(tb[RDMA_NLDEV_ATTR_NDEV_NAME], l->netdev, sizeof(l->netdev));
	return 0;
}

static void forget_links(void *arg)
{
	((struct links *)arg)->n = 0;
}

int rdma_nl_view_links(struct nl_wire *w, const struct rdma_view_dev *d,
		       struct rdma_view_link **ret, size_t *n, struct err *e)
{
	struct nl_msg *m = rdma_request(RDMA_NLDEV_CMD_PORT_GET, NLM_F_DUMP);
	struct links all = {0};
	int r;

	put_u32(m, RDMA_NLDEV_ATTR_DEV_INDEX, d->index);
	r = nl_request(w, m, take_link, forget_links, &all, e);
	if (r < 0) {
		free(all.v);
		return err_wrap(e, r, "list ports of RDMA device '%s'", d->name);
	}
	*ret = all.v;
	*n = all.n;
	return 0;
}

static int take_system(void *msg, void *arg)
{
	struct nlattr *tb[ATTRS], *mode;
	struct rdma_view_system *s = arg;
	int r = msg_attrs(msg, 0, tb, ATTRS - 1);

	if (r < 0)
		return r;
	mode = tb[RDMA_NLDEV_SYS_ATTR_NETNS_MODE];
	if (mode)
		str_copy(s->netns, sizeof(s->netns),
			 rdma_netns_mode_name(get_u8(mode, 1) ? RDMA_NETNS_SHARED
							      : RDMA_NETNS_EXCLUSIVE));
	s->copy_on_fork = get_u8(tb[RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK], 0) != 0;
	return 0;
}

int rdma_nl_view_system(struct nl_wire *w, struct rdma_view_system *ret, struct err *e)
{
	int r;

	*ret = (struct rdma_view_system){0};
	r = nl_request(w, rdma_request(RDMA_NLDEV_CMD_SYS_GET, 0), take_system, NULL, ret, e);
	return r < 0 ? err_wrap(e, r, "get the RDMA namespace mode") : 0;
}
