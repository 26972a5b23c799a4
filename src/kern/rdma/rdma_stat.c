/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/rdma/rdma_stat.h"

#include <errno.h>
#include <stdlib.h>

#include <rdma/rdma_netlink.h>

#include "base/alloc.h"
#include "kern/rdma/internal.h"

enum { ATTRS = RDMA_NLDEV_ATTR_MAX };

struct stats {
	int table, id; /* attributes */
	struct rdma_stat *v;
	size_t n;
};

static void read_qps(const struct nlattr *table, struct rdma_stat *s)
{
	struct nlattr *in[ATTRS], *a;
	int rest;

	nla_for_each_nested(a, table, rest)
	{
		nested_attrs(a, in, ATTRS - 1);
		if (in[RDMA_NLDEV_ATTR_RES_LQPN])
			VEC_PUSH(s->qps, s->n_qps) = get_u32(in[RDMA_NLDEV_ATTR_RES_LQPN], 0);
	}
}

static void read_stat(const struct nlattr *entry, int id, struct rdma_stat *s)
{
	struct nlattr *in[ATTRS];

	nested_attrs(entry, in, ATTRS - 1);
	*s = (struct rdma_stat){.id = get_u32(in[id], 0), .qp_type = -1};
	s->port = get_u32(in[RDMA_NLDEV_ATTR_PORT_INDEX], 0);
	s->pid = get_u32(in[RDMA_NLDEV_ATTR_RES_PID], 0);
	if (in[RDMA_NLDEV_ATTR_RES_TYPE])
		s->qp_type = get_u8(in[RDMA_NLDEV_ATTR_RES_TYPE], 0);
	get_str(in[RDMA_NLDEV_ATTR_RES_KERN_NAME], s->owner, sizeof(s->owner));
	if (in[RDMA_NLDEV_ATTR_RES_QP])
		read_qps(in[RDMA_NLDEV_ATTR_RES_QP], s);
	if (in[RDMA_NLDEV_ATTR_STAT_HWCOUNTERS])
		rdma_read_counters(in[RDMA_NLDEV_ATTR_STAT_HWCOUNTERS], &s->counts, &s->n_counts);
}

static int take_stats(void *msg, void *arg)
{
	struct nlattr *tb[ATTRS], *a;
	struct stats *all = arg;
	int rest, r = msg_attrs(msg, 0, tb, ATTRS - 1);

	if (r < 0 || !tb[all->table])
		return r < 0 ? r : 0;
	nla_for_each_nested(a, tb[all->table], rest)
		read_stat(a, all->id, &VEC_PUSH(all->v, all->n));
	return 0;
}

/* nl_request() calls this before it repeats a dump that was interrupted or lost. */
static void forget_stats(void *arg)
{
	struct stats *all = arg;

	rdma_stats_free(all->v, all->n);
	all->v = NULL;
	all->n = 0;
}

void rdma_stats_free(struct rdma_stat *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(v[i].qps);
		free(v[i].counts);
	}
	free(v);
}

/* The kernel rejects the request with EINVAL if it does not support this kind of object, or if
 * there is no such device or port. */
static int explain(int r, const char *what, uint32_t index, struct err *e)
{
	if (r == -EINVAL || r == -EOPNOTSUPP)
		return err_kind(e, ERR_UNAVAILABLE, -EOPNOTSUPP,
				"list counters of %s of RDMA device %u: no such device or port, "
				"or this kernel does not report them",
				what, index);
	return err_wrap(e, r, "list counters of %s of RDMA device %u", what, index);
}

static int list_stats(struct nl_wire *w, struct nl_msg *m, struct stats *all,
		      struct rdma_stat **ret, size_t *n, struct err *e)
{
	int r = nl_request(w, m, take_stats, forget_stats, all, e);

	if (r < 0) {
		rdma_stats_free(all->v, all->n);
		return r;
	}
	*ret = all->v;
	*n = all->n;
	return 0;
}

int rdma_nl_qp_stats(struct nl_wire *w, uint32_t index, uint32_t port, struct rdma_stat **ret,
		     size_t *n, struct err *e)
{
	struct stats all = {.table = RDMA_NLDEV_ATTR_STAT_COUNTER,
			    .id = RDMA_NLDEV_ATTR_STAT_COUNTER_ID};
	struct nl_msg *m = rdma_request(RDMA_NLDEV_CMD_STAT_GET, NLM_F_DUMP);
	int r;

	put_u32(m, RDMA_NLDEV_ATTR_DEV_INDEX, index);
	put_u32(m, RDMA_NLDEV_ATTR_PORT_INDEX, port);
	put_u32(m, RDMA_NLDEV_ATTR_STAT_RES, RDMA_NLDEV_ATTR_RES_QP);
	r = list_stats(w, m, &all, ret, n, e);
	return r < 0 ? explain(r, "queue pairs", index, e) : 0;
}

int rdma_nl_mr_stats(struct nl_wire *w, uint32_t index, struct rdma_stat **ret, size_t *n,
		     struct err *e)
{
	struct stats all = {.table = RDMA_NLDEV_ATTR_RES_MR, .id = RDMA_NLDEV_ATTR_RES_MRN};
	struct nl_msg *m = rdma_request(RDMA_NLDEV_CMD_STAT_GET, NLM_F_DUMP);
	int r;

	put_u32(m, RDMA_NLDEV_ATTR_DEV_INDEX, index);
	put_u32(m, RDMA_NLDEV_ATTR_STAT_RES, RDMA_NLDEV_ATTR_RES_MR);
	r = list_stats(w, m, &all, ret, n, e);
	return r < 0 ? explain(r, "memory regions", index, e) : 0;
}

static int take_mode(void *msg, void *arg)
{
	struct nlattr *tb[ATTRS];
	uint32_t *mask = arg;
	int r = msg_attrs(msg, 0, tb, ATTRS - 1);

	if (r < 0)
		return r;
	if (get_u32(tb[RDMA_NLDEV_ATTR_STAT_MODE], RDMA_COUNTER_MODE_NONE) ==
	    RDMA_COUNTER_MODE_AUTO)
		*mask = get_u32(tb[RDMA_NLDEV_ATTR_STAT_AUTO_MODE_MASK], 0);
	return 0;
}

int rdma_nl_qp_stat_mode(struct nl_wire *w, uint32_t index, uint32_t port, uint32_t *ret,
			 struct err *e)
{
	struct nl_msg *m = rdma_request(RDMA_NLDEV_CMD_STAT_GET, 0);
	uint32_t mask = 0;
	int r;

	put_u32(m, RDMA_NLDEV_ATTR_DEV_INDEX, index);
	put_u32(m, RDMA_NLDEV_ATTR_PORT_INDEX, port);
	/* with these two attributes the kernel answers with the mode instead of the port's
	 * counters */
	put_u32(m, RDMA_NLDEV_ATTR_STAT_MODE, RDMA_COUNTER_MODE_MANUAL);
	put_u32(m, RDMA_NLDEV_ATTR_STAT_RES, RDMA_NLDEV_ATTR_RES_QP);
	r = nl_request(w, m, take_mode, NULL, &mask, e);
	if (r < 0)
		return explain(r, "queue pairs", index, e);
	*ret = mask;
	return 0;
}
