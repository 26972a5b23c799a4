/* SPDX-License-Identifier: Apache-2.0 */
/* The inventory by RDMA netlink: needs neither /sys nor device nodes nor rights. */
#include "kern/rdma/rdma.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <linux/netlink.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/rdma_netlink.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "kern/rdma/rdma_priv.h"

enum { ATTRS = RDMA_NLDEV_ATTR_MAX };

/* rdma-core's names of the providers. */
static const char *const drivers[] = {
	[RDMA_DRIVER_MLX5] = "mlx5",	  [RDMA_DRIVER_MLX4] = "mlx4",
	[RDMA_DRIVER_CXGB3] = "cxgb3",	  [RDMA_DRIVER_CXGB4] = "cxgb4",
	[RDMA_DRIVER_MTHCA] = "mthca",	  [RDMA_DRIVER_BNXT_RE] = "bnxt_re",
	[RDMA_DRIVER_OCRDMA] = "ocrdma",  [RDMA_DRIVER_NES] = "nes",
	[RDMA_DRIVER_IRDMA] = "irdma",	  [RDMA_DRIVER_VMW_PVRDMA] = "vmw_pvrdma",
	[RDMA_DRIVER_QEDR] = "qedr",	  [RDMA_DRIVER_HNS] = "hns",
	[RDMA_DRIVER_USNIC] = "usnic",	  [RDMA_DRIVER_RXE] = "rxe",
	[RDMA_DRIVER_HFI1] = "hfi1verbs", [RDMA_DRIVER_QIB] = "ipathverbs",
	[RDMA_DRIVER_EFA] = "efa",	  [RDMA_DRIVER_SIW] = "siw",
	[RDMA_DRIVER_ERDMA] = "erdma",	  [RDMA_DRIVER_MANA] = "mana",
};

uint64_t rdma_get_u64(const struct nlattr *a)
{
	uint64_t v = 0;

	if (a && nla_len(a) >= (int)sizeof(v))
		memcpy(&v, nla_data(a), sizeof(v));
	return v;
}

struct nl_msg *rdma_request(int cmd, int flags)
{
	return msg_new(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, cmd), flags, NULL, 0, MSG_ROOM);
}

struct devs {
	struct rdma_dev *v;
	size_t n;
};

static int take_dev(void *msg, void *arg)
{
	struct nlattr *tb[ATTRS];
	struct devs *devs = arg;
	struct rdma_dev *d;
	int r = msg_attrs(msg, 0, tb, ATTRS - 1);

	if (r < 0)
		return r;
	if (!tb[RDMA_NLDEV_ATTR_DEV_INDEX] || !tb[RDMA_NLDEV_ATTR_DEV_NAME])
		return 0;
	d = &VEC_PUSH(devs->v, devs->n);
	d->index = get_u32(tb[RDMA_NLDEV_ATTR_DEV_INDEX], 0);
	d->n_ports = get_u32(tb[RDMA_NLDEV_ATTR_PORT_INDEX], 0); /* here it is their number */
	d->node_type = get_u8(tb[RDMA_NLDEV_ATTR_DEV_NODE_TYPE], 0);
	d->node_guid = rdma_get_u64(tb[RDMA_NLDEV_ATTR_NODE_GUID]);
	d->sys_image_guid = rdma_get_u64(tb[RDMA_NLDEV_ATTR_SYS_IMAGE_GUID]);
	get_str(tb[RDMA_NLDEV_ATTR_DEV_NAME], d->name, sizeof(d->name));
	get_str(tb[RDMA_NLDEV_ATTR_FW_VERSION], d->fw, sizeof(d->fw));
	get_str(tb[RDMA_NLDEV_ATTR_DEV_PROTOCOL], d->protocol, sizeof(d->protocol));
	return 0;
}

static void forget_devs(void *arg)
{
	((struct devs *)arg)->n = 0;
}

static int take_port(void *msg, void *arg)
{
	struct nlattr *tb[ATTRS];
	struct rdma_dev *d = arg;
	struct rdma_port *p;
	uint32_t port;
	int r = msg_attrs(msg, 0, tb, ATTRS - 1);

	if (r < 0)
		return r;
	port = get_u32(tb[RDMA_NLDEV_ATTR_PORT_INDEX], 0);
	if (port < 1 || port > RDMA_PORTS_MAX)
		return 0;
	p = &d->ports[port - 1];
	p->port = port;
	p->state = get_u8(tb[RDMA_NLDEV_ATTR_PORT_STATE], 0);
	p->phys_state = get_u8(tb[RDMA_NLDEV_ATTR_PORT_PHYS_STATE], 0);
	p->lid = get_u32(tb[RDMA_NLDEV_ATTR_LID], 0);
	p->sm_lid = get_u32(tb[RDMA_NLDEV_ATTR_SM_LID], 0);
	/* Only told when the network device is in our namespace. */
	p->netdev_index = (int)get_u32(tb[RDMA_NLDEV_ATTR_NDEV_INDEX], 0);
	get_str(tb[RDMA_NLDEV_ATTR_NDEV_NAME], p->netdev, sizeof(p->netdev));
	return 0;
}

static int get_ports(struct nl_wire *w, struct rdma_dev *d, struct err *e)
{
	struct nl_msg *m = rdma_request(RDMA_NLDEV_CMD_PORT_GET, NLM_F_DUMP);

	put_u32(m, RDMA_NLDEV_ATTR_DEV_INDEX, d->index);
	return nl_request(w, m, take_port, NULL, d, e);
}

static int take_chardev(void *msg, void *arg)
{
	struct nlattr *tb[ATTRS];
	struct rdma_dev *d = arg;
	uint32_t id;
	int r = msg_attrs(msg, 0, tb, ATTRS - 1);

	if (r < 0)
		return r;
	get_str(tb[RDMA_NLDEV_ATTR_CHARDEV_NAME], d->uverbs, sizeof(d->uverbs));
	id = get_u32(tb[RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID], RDMA_DRIVER_UNKNOWN);
	if (id < ARRAY_LEN(drivers) && drivers[id])
		str_copy(d->driver, sizeof(d->driver), drivers[id]);
	return 0;
}

/* Since Linux 5.3; also fails where ib_uverbs is not loaded. sysfs is asked for what is missing. */
static void get_chardev(struct nl_wire *w, struct rdma_dev *d)
{
	struct nl_msg *m = rdma_request(RDMA_NLDEV_CMD_GET_CHARDEV, 0);

	put_u32(m, RDMA_NLDEV_ATTR_DEV_INDEX, d->index);
	put_str(m, RDMA_NLDEV_ATTR_CHARDEV_TYPE, "uverbs");
	nl_request(w, m, take_chardev, NULL, d, NULL);
}

static int by_index(const void *a, const void *b)
{
	const struct rdma_dev *x = a, *y = b;

	return (x->index > y->index) - (x->index < y->index);
}

int rdma_nl_list(struct nl_wire *w, struct rdma_dev **ret, size_t *n, struct err *e)
{
	struct devs devs = {0};
	int r = nl_request(w, rdma_request(RDMA_NLDEV_CMD_GET, NLM_F_DUMP), take_dev, forget_devs,
			   &devs, e);

	if (r < 0)
		err_wrap(e, r, "list RDMA devices");
	else if (devs.n)
		qsort(devs.v, devs.n, sizeof(*devs.v), by_index);
	for (size_t i = 0; r >= 0 && i < devs.n; i++) {
		r = get_ports(w, &devs.v[i], e);
		if (r < 0)
			err_wrap(e, r, "list ports of RDMA device '%s'", devs.v[i].name);
		else
			get_chardev(w, &devs.v[i]);
	}
	if (r < 0) {
		free(devs.v);
		return r;
	}
	*ret = devs.v;
	*n = devs.n;
	return 0;
}

static int take_mode(void *msg, void *arg)
{
	struct nlattr *tb[ATTRS];
	int r = msg_attrs(msg, 0, tb, ATTRS - 1);

	if (r < 0)
		return r;
	if (tb[RDMA_NLDEV_SYS_ATTR_NETNS_MODE])
		*(int *)arg = get_u8(tb[RDMA_NLDEV_SYS_ATTR_NETNS_MODE], 1);
	return 0;
}

int rdma_nl_netns_mode(struct nl_wire *w, enum rdma_netns_mode *ret, struct err *e)
{
	int mode = -1,
	    r = nl_request(w, rdma_request(RDMA_NLDEV_CMD_SYS_GET, 0), take_mode, NULL, &mode, e);

	if (r < 0)
		return err_wrap(e, r, "get the RDMA namespace mode");
	if (mode < 0)
		return err_set(
			e, -EOPNOTSUPP,
			"get the RDMA namespace mode: this kernel does not tell (before Linux "
			"5.2 devices are always shared)");
	*ret = mode ? RDMA_NETNS_SHARED : RDMA_NETNS_EXCLUSIVE;
	return 0;
}
