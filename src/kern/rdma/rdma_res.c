/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/rdma/rdma_res.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>

#include "base/buf.h"
#include "kern/rdma/rdma_priv.h"

enum { ATTRS = RDMA_NLDEV_ATTR_MAX };

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

struct counts {
	int table, name, value; /* attributes */
	struct rdma_count *v;
	size_t n;
};

static int take_counts(void *msg, void *arg)
{
	struct nlattr *tb[ATTRS], *in[ATTRS], *a;
	struct counts *c = arg;
	int rest, r = msg_attrs(msg, 0, tb, ATTRS - 1);

	if (r < 0 || !tb[c->table])
		return r < 0 ? r : 0;
	nla_for_each_nested(a, tb[c->table], rest)
	{
		struct rdma_count one = {.value = 0};

		nested_attrs(a, in, ATTRS - 1);
		if (!in[c->name] || !in[c->value])
			continue;
		get_str(in[c->name], one.name, sizeof(one.name));
		one.value = rdma_get_u64(in[c->value]);
		VEC_PUSH(c->v, c->n) = one;
	}
	return 0;
}

static void forget_counts(void *arg)
{
	((struct counts *)arg)->n = 0;
}

static int ask_counts(struct nl_wire *w, struct nl_msg *m, struct counts *c,
		      struct rdma_count **ret, size_t *n, struct err *e)
{
	int r = nl_request(w, m, take_counts, forget_counts, c, e);

	if (r < 0) {
		free(c->v);
		return r;
	}
	*ret = c->v;
	*n = c->n;
	return 0;
}

int rdma_nl_res_summary(struct nl_wire *w, uint32_t index, struct rdma_count **ret, size_t *n,
			struct err *e)
{
	struct counts c = {.table = RDMA_NLDEV_ATTR_RES_SUMMARY,
			   .name = RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME,
			   .value = RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR};
	struct nl_msg *m = rdma_request(RDMA_NLDEV_CMD_RES_GET, 0);
	int r;

	put_u32(m, RDMA_NLDEV_ATTR_DEV_INDEX, index);
	r = ask_counts(w, m, &c, ret, n, e);
	/* nldev_res_get_doit() answers EINVAL to an index that is gone. */
	if (r == -EINVAL)
		return err_set(e, -ENODEV, "count resources of RDMA device %u: no such device",
			       index);
	return r < 0 ? err_wrap(e, r, "count resources of RDMA device %u", index) : 0;
}

int rdma_nl_stats(struct nl_wire *w, uint32_t index, uint32_t port, struct rdma_count **ret,
		  size_t *n, struct err *e)
{
	struct counts c = {.table = RDMA_NLDEV_ATTR_STAT_HWCOUNTERS,
			   .name = RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME,
			   .value = RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE};
	struct nl_msg *m = rdma_request(RDMA_NLDEV_CMD_STAT_GET, 0);
	int r;

	put_u32(m, RDMA_NLDEV_ATTR_DEV_INDEX, index);
	put_u32(m, RDMA_NLDEV_ATTR_PORT_INDEX, port);
	r = ask_counts(w, m, &c, ret, n, e);
	if (r == -EINVAL || r == -EOPNOTSUPP)
		return err_kind(
			e, ERR_UNAVAILABLE, -EOPNOTSUPP,
			"read counters of RDMA device %u port %u: there is no such port, or "
			"its driver keeps no hardware counters",
			index, port);
	return r < 0 ? err_wrap(e, r, "read counters of RDMA device %u port %u", index, port) : 0;
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
	struct nlattr *tb[ATTRS], *in[ATTRS], *a;
	struct resources *all = arg;
	int rest, r = msg_attrs(msg, 0, tb, ATTRS - 1);

	if (r < 0 || !tb[all->kind->table])
		return r < 0 ? r : 0;
	nla_for_each_nested(a, tb[all->kind->table], rest)
	{
		nested_attrs(a, in, ATTRS - 1);
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

struct chardev {
	char *name;
	size_t size;
	uint64_t devno;
	bool found;
};

static int take_chardev(void *msg, void *arg)
{
	struct nlattr *tb[ATTRS];
	struct chardev *c = arg;
	int r = msg_attrs(msg, 0, tb, ATTRS - 1);

	if (r < 0 || !tb[RDMA_NLDEV_ATTR_CHARDEV_NAME])
		return r < 0 ? r : 0;
	get_str(tb[RDMA_NLDEV_ATTR_CHARDEV_NAME], c->name, c->size);
	c->devno = rdma_get_u64(tb[RDMA_NLDEV_ATTR_CHARDEV]);
	c->found = true;
	return 0;
}

int rdma_nl_chardev(struct nl_wire *w, uint32_t index, uint32_t port, const char *type, char *ret,
		    size_t size, uint64_t *devno, struct err *e)
{
	char name[32] = "";
	struct chardev c = {.name = name, .size = sizeof(name)};
	struct nl_msg *m = rdma_request(RDMA_NLDEV_CMD_GET_CHARDEV, 0);
	int r;

	put_u32(m, RDMA_NLDEV_ATTR_DEV_INDEX, index);
	put_str(m, RDMA_NLDEV_ATTR_CHARDEV_TYPE, type);
	if (port)
		put_u32(m, RDMA_NLDEV_ATTR_PORT_INDEX, port);
	r = nl_request(w, m, take_chardev, NULL, &c, e);
	/* ENOENT, ENODEV, EOPNOTSUPP: no client of that name, or not for this device */
	if (r == -ENOENT || r == -ENODEV || r == -EOPNOTSUPP || (!r && !c.found))
		return err_set(e, -ENODEV,
			       "find the %s device of RDMA device %u: it has none; is module ib_%s "
			       "loaded?",
			       type, index, strcmp(type, "issm") ? type : "umad");
	if (r < 0)
		return err_wrap(e, r, "find the %s device of RDMA device %u", type, index);
	if (!str_copy(ret, size, name))
		return err_set(e, -ENAMETOOLONG, "find the %s device of RDMA device %u: '%s'", type,
			       index, name);
	*devno = c.devno;
	return 0;
}
