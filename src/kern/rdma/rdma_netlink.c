/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/rdma/rdma_res.h"
#include "kern/rdma/rdma_set.h"
#include "kern/rdma/rdma_watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <linux/netlink.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/rdma_netlink.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/sorted.h"
#include "kern/rdma/internal.h"
#include "kern/rdma/rdma.h"

/* RDMA netlink. The inventory needs neither /sys nor device nodes nor privileges; changes of
 * devices and of the RDMA mode need CAP_NET_ADMIN. */

enum { ATTRS = RDMA_NLDEV_ATTR_MAX };

/* Names of the providers in rdma-core. */
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
	/* in this message the attribute is the number of ports */
	d->n_ports = get_u32(tb[RDMA_NLDEV_ATTR_PORT_INDEX], 0);
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
	/* only reported if the network device is in the wire's namespace */
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

/* Reads the name of the verbs device and its provider. Needs module ib_uverbs and Linux 5.3 or
 * later; on older kernels only sysfs has the two names. */
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
		return err_set(e, -EOPNOTSUPP,
			       "get the RDMA namespace mode: the kernel does not report it "
			       "(kernels before Linux 5.2 always share all devices)");
	*ret = mode ? RDMA_NETNS_SHARED : RDMA_NETNS_EXCLUSIVE;
	return 0;
}

static const char at_boot[] =
	"set it at boot, before the container runtime starts: 'options ib_core netns_mode=0' in "
	"/etc/modprobe.d, or `rdma system set netns exclusive`";

const char *rdma_netns_mode_name(enum rdma_netns_mode mode)
{
	return mode == RDMA_NETNS_SHARED ? "shared" : "exclusive";
}

/* Sends a request, and ignores everything in the reply but the acknowledgement. */
static int change(struct nl_wire *w, struct nl_msg *m, struct err *e)
{
	return nl_request(w, m, NULL, NULL, NULL, e);
}

int rdma_nl_netns_mode_set(struct nl_wire *w, enum rdma_netns_mode mode, struct err *e)
{
	struct nl_msg *m = rdma_request(RDMA_NLDEV_CMD_SYS_SET, NLM_F_ACK);
	const char *name = rdma_netns_mode_name(mode);
	int r;

	put_u8(m, RDMA_NLDEV_SYS_ATTR_NETNS_MODE, mode == RDMA_NETNS_SHARED);
	r = change(w, m, e);
	/* EBUSY is from the kernel's rdma_compatdev_set() */
	if (r == -EBUSY)
		return err_kind(
			e, ERR_AGAIN, r,
			"set the RDMA namespace mode to %s: Device or resource busy (EBUSY): the host has other "
			"network namespaces already; %s",
			name, at_boot);
	return r < 0 ? err_wrap(e, r, "set the RDMA namespace mode to %s", name) : 0;
}

struct wanted {
	const char *name;
	uint32_t index;
	bool found;
};

static int match(void *msg, void *arg)
{
	struct nlattr *tb[RDMA_NLDEV_ATTR_MAX];
	struct wanted *want = arg;
	char name[RDMA_NAME_MAX];
	int r = msg_attrs(msg, 0, tb, RDMA_NLDEV_ATTR_MAX - 1);

	if (r < 0)
		return r;
	get_str(tb[RDMA_NLDEV_ATTR_DEV_NAME], name, sizeof(name));
	if (!tb[RDMA_NLDEV_ATTR_DEV_INDEX] || strcmp(name, want->name) != 0)
		return 0;
	want->index = get_u32(tb[RDMA_NLDEV_ATTR_DEV_INDEX], 0);
	want->found = true;
	return 0;
}

static void forget(void *arg)
{
	((struct wanted *)arg)->found = false;
}

int rdma_nl_find(struct nl_wire *w, const char *name, uint32_t *index, struct err *e)
{
	struct wanted want = {.name = name};
	int r = nl_request(w, rdma_request(RDMA_NLDEV_CMD_GET, NLM_F_DUMP), match, forget, &want,
			   e);

	if (r < 0)
		return err_wrap(e, r, "look up RDMA device '%s'", name);
	if (!want.found)
		return err_set(e, -ENODEV,
			       "look up RDMA device '%s': no such device in this network namespace",
			       name);
	*index = want.index;
	return 0;
}

/* Sets e to the reason for -EOPNOTSUPP, which the kernel's ib_device_set_netns_put() returns in
 * shared mode, or if the driver does not support moves between namespaces. */
static int cannot_move(struct nl_wire *w, const char *name, struct err *e)
{
	enum rdma_netns_mode mode;

	if (rdma_nl_netns_mode(w, &mode, NULL) == 0 && mode == RDMA_NETNS_EXCLUSIVE)
		return err_kind(
			e, ERR_UNAVAILABLE, -EOPNOTSUPP,
			"move RDMA device '%s' to a network namespace: Operation not supported (EOPNOTSUPP): its "
			"driver does not support it (soft-RoCE never does)",
			name);
	return err_kind(
		e, ERR_UNAVAILABLE, -EOPNOTSUPP,
		"move RDMA device '%s' to a network namespace: Operation not supported (EOPNOTSUPP): the RDMA "
		"namespace mode is shared, expected exclusive: %s",
		name, at_boot);
}

int rdma_nl_move(struct nl_wire *w, uint32_t index, const char *name, int netns_fd, struct err *e)
{
	struct nl_msg *m = rdma_request(RDMA_NLDEV_CMD_SET, NLM_F_ACK);
	int r;

	put_u32(m, RDMA_NLDEV_ATTR_DEV_INDEX, index);
	put_u32(m, RDMA_NLDEV_NET_NS_FD, (uint32_t)netns_fd);
	r = change(w, m, e);
	if (r == -EOPNOTSUPP)
		return cannot_move(w, name, e);
	if (r == -EBUSY)
		return err_kind(
			e, ERR_AGAIN, r,
			"move RDMA device '%s' to a network namespace: Device or resource busy (EBUSY): a process or "
			"the kernel is using it (`rdma resource show qp dev %s`)",
			name, name);
	return r < 0 ? err_wrap(e, r, "move RDMA device '%s' to a network namespace", name) : 0;
}

bool rdma_name_ok(const char *name)
{
	size_t n = strlen(name);

	if (n == 0 || n >= RDMA_NAME_MAX || !strcmp(name, ".") || !strcmp(name, ".."))
		return false;
	for (const char *p = name; *p; p++)
		if (*p <= ' ' || *p > '~' || *p == '/' || *p == '%')
			return false;
	return true;
}

int rdma_nl_rename(struct nl_wire *w, uint32_t index, const char *name, const char *to,
		   struct err *e)
{
	struct nl_msg *m;
	int r;

	if (!rdma_name_ok(to))
		return err_kind(
			e, ERR_CONF, -EINVAL,
			"rename RDMA device '%s' to '%s': not a device name: expected 1 to 63 "
			"printable ASCII characters without space, '/' and '%%', not '.' or '..'",
			name, to);
	m = rdma_request(RDMA_NLDEV_CMD_SET, NLM_F_ACK);
	put_u32(m, RDMA_NLDEV_ATTR_DEV_INDEX, index);
	put_str(m, RDMA_NLDEV_ATTR_DEV_NAME, to);
	r = change(w, m, e);
	return r < 0 ? err_wrap(e, r, "rename RDMA device '%s' to '%s'", name, to) : 0;
}

enum { RDMA_RES_ATTRS = RDMA_NLDEV_ATTR_MAX };

static const struct kind {
	const char *name;
	int cmd, table, id;
} kinds[] = {
	[RDMA_RES_QP] = {"QPs", RDMA_NLDEV_CMD_RES_QP_GET, RDMA_NLDEV_ATTR_RES_QP,
			 RDMA_NLDEV_ATTR_RES_LQPN},
	[RDMA_RES_CM_ID] = {"CM IDs", RDMA_NLDEV_CMD_RES_CM_ID_GET, RDMA_NLDEV_ATTR_RES_CM_ID,
			    RDMA_NLDEV_ATTR_RES_CM_IDN},
	[RDMA_RES_CQ] = {"CQs", RDMA_NLDEV_CMD_RES_CQ_GET, RDMA_NLDEV_ATTR_RES_CQ,
			 RDMA_NLDEV_ATTR_RES_CQN},
	[RDMA_RES_MR] = {"MRs", RDMA_NLDEV_CMD_RES_MR_GET, RDMA_NLDEV_ATTR_RES_MR,
			 RDMA_NLDEV_ATTR_RES_MRN},
	[RDMA_RES_PD] = {"PDs", RDMA_NLDEV_CMD_RES_PD_GET, RDMA_NLDEV_ATTR_RES_PD,
			 RDMA_NLDEV_ATTR_RES_PDN},
	[RDMA_RES_CTX] = {"contexts", RDMA_NLDEV_CMD_RES_CTX_GET, RDMA_NLDEV_ATTR_RES_CTX,
			  RDMA_NLDEV_ATTR_RES_CTXN},
};

struct resource_counts {
	struct rdma_count *v;
	size_t n;
};

void rdma_read_counters(const struct nlattr *table, struct rdma_count **v, size_t *n)
{
	struct nlattr *in[RDMA_RES_ATTRS], *a;
	int rest;

	nla_for_each_nested(a, table, rest)
	{
		struct rdma_count one = {.value = 0};

		nested_attrs(a, in, RDMA_RES_ATTRS - 1);
		if (!in[RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME] ||
		    !in[RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE])
			continue;
		get_str(in[RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME], one.name, sizeof(one.name));
		one.value = rdma_get_u64(in[RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE]);
		VEC_PUSH(*v, *n) = one;
	}
}

static int take_counts(void *msg, void *arg)
{
	struct nlattr *tb[RDMA_RES_ATTRS];
	struct resource_counts *c = arg;
	int r = msg_attrs(msg, 0, tb, RDMA_RES_ATTRS - 1);

	if (r < 0 || !tb[RDMA_NLDEV_ATTR_STAT_HWCOUNTERS])
		return r < 0 ? r : 0;
	rdma_read_counters(tb[RDMA_NLDEV_ATTR_STAT_HWCOUNTERS], &c->v, &c->n);
	return 0;
}

static void forget_counts(void *arg)
{
	((struct resource_counts *)arg)->n = 0;
}

int rdma_nl_stats(struct nl_wire *w, uint32_t index, uint32_t port, struct rdma_count **ret,
		  size_t *n, struct err *e)
{
	struct resource_counts c = {.n = 0};
	struct nl_msg *m = rdma_request(RDMA_NLDEV_CMD_STAT_GET, 0);
	int r;

	put_u32(m, RDMA_NLDEV_ATTR_DEV_INDEX, index);
	put_u32(m, RDMA_NLDEV_ATTR_PORT_INDEX, port);
	r = nl_request(w, m, take_counts, forget_counts, &c, e);
	if (r < 0)
		free(c.v);
	if (r == -EINVAL || r == -EOPNOTSUPP)
		return err_kind(e, ERR_UNAVAILABLE, -EOPNOTSUPP,
				"read counters of RDMA device %u port %u: no such device or "
				"port, or the driver has no hardware counters",
				index, port);
	if (r < 0)
		return err_wrap(e, r, "read counters of RDMA device %u port %u", index, port);
	*ret = c.v;
	*n = c.n;
	return 0;
}

struct resources {
	const struct kind *kind;
	struct rdma_res *v;
	size_t n;
};

static struct rdma_res read_res(const struct kind *k, struct nlattr **in)
{
	struct rdma_res res = {.id = get_u32(in[k->id], 0)};

	res.port = get_u32(in[RDMA_NLDEV_ATTR_PORT_INDEX], 0);
	res.pid = get_u32(in[RDMA_NLDEV_ATTR_RES_PID], 0);
	res.type = get_u8(in[RDMA_NLDEV_ATTR_RES_TYPE], 0);
	res.state = get_u8(in[RDMA_NLDEV_ATTR_RES_STATE], 0);
	get_str(in[RDMA_NLDEV_ATTR_RES_KERN_NAME], res.owner, sizeof(res.owner));
	return res;
}

static int take_res(void *msg, void *arg)
{
	struct nlattr *tb[RDMA_RES_ATTRS], *in[RDMA_RES_ATTRS], *a;
	struct resources *all = arg;
	int rest, r = msg_attrs(msg, 0, tb, RDMA_RES_ATTRS - 1);

	if (r < 0 || !tb[all->kind->table])
		return r < 0 ? r : 0;
	nla_for_each_nested(a, tb[all->kind->table], rest)
	{
		nested_attrs(a, in, RDMA_RES_ATTRS - 1);
		VEC_PUSH(all->v, all->n) = read_res(all->kind, in);
	}
	return 0;
}

static void forget_res(void *arg)
{
	((struct resources *)arg)->n = 0;
}

int rdma_nl_res_list(struct nl_wire *w, uint32_t index, enum rdma_res_kind kind,
		     struct rdma_res **ret, size_t *n, struct err *e)
{
	struct resources all = {.kind = &kinds[kind]};
	struct nl_msg *m = rdma_request(all.kind->cmd, NLM_F_DUMP);
	int r;

	put_u32(m, RDMA_NLDEV_ATTR_DEV_INDEX, index);
	r = nl_request(w, m, take_res, forget_res, &all, e);
	if (r < 0) {
		free(all.v);
		return err_wrap(e, r, "list %s of RDMA device %u", all.kind->name, index);
	}
	*ret = all.v;
	*n = all.n;
	return 0;
}

struct pids {
	const struct kind *kind;
	uint32_t *v;
	size_t n, max, hidden;
};

static void add_pid(struct pids *p, uint32_t pid)
{
	size_t at = LOWER_BOUND(i, p->n, p->v[i] < pid);

	if ((at < p->n && p->v[at] == pid) || p->n == p->max)
		return;
	VEC_PUSH(p->v, p->n) = pid;
	memmove(p->v + at + 1, p->v + at, (p->n - 1 - at) * sizeof(*p->v));
	p->v[at] = pid;
}

static int take_pids(void *msg, void *arg)
{
	struct nlattr *tb[RDMA_RES_ATTRS], *in[RDMA_RES_ATTRS], *a;
	struct pids *all = arg;
	int rest, r = msg_attrs(msg, 0, tb, RDMA_RES_ATTRS - 1);

	if (r < 0 || !tb[all->kind->table])
		return r < 0 ? r : 0;
	nla_for_each_nested(a, tb[all->kind->table], rest)
	{
		uint32_t pid;

		nested_attrs(a, in, RDMA_RES_ATTRS - 1);
		pid = get_u32(in[RDMA_NLDEV_ATTR_RES_PID], 0);
		if (pid)
			add_pid(all, pid);
		else if (!in[RDMA_NLDEV_ATTR_RES_KERN_NAME])
			all->hidden++;
	}
	return 0;
}

static void forget_pids(void *arg)
{
	struct pids *all = arg;

	all->n = all->hidden = 0;
}

int rdma_nl_res_pids(struct nl_wire *w, uint32_t index, enum rdma_res_kind kind, size_t max,
		     uint32_t **ret, size_t *n, size_t *hidden, struct err *e)
{
	struct pids all = {.kind = &kinds[kind], .max = max};
	struct nl_msg *m = rdma_request(all.kind->cmd, NLM_F_DUMP);
	int r;

	put_u32(m, RDMA_NLDEV_ATTR_DEV_INDEX, index);
	r = nl_request(w, m, take_pids, forget_pids, &all, e);
	if (r < 0) {
		free(all.v);
		return err_wrap(e, r, "list %s of RDMA device %u", all.kind->name, index);
	}
	*ret = all.v;
	*n = all.n;
	if (hidden)
		*hidden = all.hidden;
	return 0;
}

enum { RDMA_WATCH_ATTRS = RDMA_NLDEV_ATTR_MAX, DATAGRAM_MAX = 8192 };

int rdma_watch_open(int *fd, struct err *e)
{
	int s = nl_listen(NETLINK_RDMA, RDMA_NL_GROUP_NOTIFY);

	if (s == -EPROTONOSUPPORT)
		return err_kind(
			e, ERR_UNAVAILABLE, -EPROTONOSUPPORT,
			"listen to RDMA events: Protocol not supported (EPROTONOSUPPORT): this kernel has no RDMA: "
			"load module ib_core");
	if (s < 0)
		return err_sys(e, s, "listen to RDMA events");
	*fd = s;
	return 0;
}

static enum rdma_event_kind kind_of(uint8_t type)
{
	switch (type) {
	case RDMA_REGISTER_EVENT: return RDMA_EVENT_REGISTER;
	case RDMA_UNREGISTER_EVENT: return RDMA_EVENT_UNREGISTER;
	case RDMA_NETDEV_ATTACH_EVENT: return RDMA_EVENT_NETDEV_ATTACH;
	case RDMA_NETDEV_DETACH_EVENT: return RDMA_EVENT_NETDEV_DETACH;
	default: return RDMA_EVENT_OTHER;
	}
}

bool rdma_event_parse(struct span datagram, struct rdma_event *ret)
{
	const struct nlmsghdr *h = (const void *)datagram.p;
	struct nlattr *tb[RDMA_WATCH_ATTRS];

	if (datagram.n > INT32_MAX || !nlmsg_ok(h, (int)datagram.n) ||
	    h->nlmsg_type != RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_MONITOR) ||
	    msg_attrs(h, 0, tb, RDMA_WATCH_ATTRS - 1) < 0 || !tb[RDMA_NLDEV_ATTR_EVENT_TYPE])
		return false;
	*ret = (struct rdma_event){
		.kind = kind_of(get_u8(tb[RDMA_NLDEV_ATTR_EVENT_TYPE], UINT8_MAX)),
		.index = get_u32(tb[RDMA_NLDEV_ATTR_DEV_INDEX], 0),
		.port = get_u32(tb[RDMA_NLDEV_ATTR_PORT_INDEX], 0),
		.netdev_index = (int)get_u32(tb[RDMA_NLDEV_ATTR_NDEV_INDEX], 0)};
	get_str(tb[RDMA_NLDEV_ATTR_DEV_NAME], ret->name, sizeof(ret->name));
	get_str(tb[RDMA_NLDEV_ATTR_NDEV_NAME], ret->netdev, sizeof(ret->netdev));
	return true;
}

int rdma_watch_next(int fd, struct rdma_event *ret, struct err *e)
{
	_Alignas(struct nlmsghdr) char bytes[DATAGRAM_MAX];
	int n;

	while ((n = nl_receive(fd, bytes, sizeof(bytes))) > 0)
		if (rdma_event_parse((struct span){bytes, (size_t)n}, ret))
			return 1;
	return n < 0 ? err_sys(e, n, "read RDMA events") : 0;
}
