/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/rdma/verbs_qp.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/buf.h"
#include "kern/rdma/verbs_qp_priv.h"

enum { READS_MAX = 16 };

static int failed(int code, const char *what, const struct verbs_qp *q, struct err *e)
{
	return err_sys(e, code ? -abs(code) : -EIO, "%s on RDMA device '%s'", what, q->dev->name);
}

/* Containers are given 64 KiB or 8 MiB of locked memory, and the kernel's answer is ENOMEM. */
static int no_memory(const struct verbs_qp *q, int code, struct err *e)
{
	struct rlimit lim = {0};

	getrlimit(RLIMIT_MEMLOCK, &lim);
	if (code != ENOMEM || lim.rlim_cur >= q->conf.bytes * 4)
		return failed(code, "register memory", q, e);
	return err_kind(
		e, ERR_UNAVAILABLE, -ENOMEM,
		"register %zu KiB of memory on RDMA device '%s': Cannot allocate memory (ENOMEM): this process may "
		"lock %llu KiB (RLIMIT_MEMLOCK): 'ulimit -l unlimited', CAP_IPC_LOCK for "
		"the container, or LimitMEMLOCK=infinity for its runtime",
		q->conf.bytes >> 10, q->dev->name, (unsigned long long)lim.rlim_cur >> 10);
}

static int get_memory(struct verbs_qp *q, struct err *e)
{
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	void *p = mmap(NULL, q->conf.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		       0);

	if (p == MAP_FAILED)
		return err_sys(e, -errno, "get %zu bytes of memory", q->conf.bytes);
	q->mem = p;
	q->pd = ibv_alloc_pd(q->dev->ctx);
	if (!q->pd)
		return failed(errno, "make a protection domain", q, e);
	q->mr = ibv_reg_mr(q->pd, q->mem, q->conf.bytes, access);
	return q->mr ? 0 : no_memory(q, errno, e);
}

static int get_queues(struct verbs_qp *q, struct err *e)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = q->conf.depth,
			.max_recv_wr = q->conf.depth,
			.max_send_sge = 1,
			.max_recv_sge = 1},
	};

	q->channel = ibv_create_comp_channel(q->dev->ctx);
	if (!q->channel)
		return failed(errno, "make a completion channel", q, e);
	q->cq = ibv_create_cq(q->dev->ctx, (int)q->conf.depth * 2, NULL, q->channel, 0);
	if (!q->cq)
		return failed(errno, "make a completion queue", q, e);
	init.send_cq = init.recv_cq = q->cq;
	q->qp = ibv_create_qp(q->pd, &init);
	return q->qp ? 0 : failed(errno, "make a queue pair", q, e);
}

static int to_init(struct verbs_qp *q, struct err *e)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT,
		.port_num = (uint8_t)q->conf.port,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};
	int code = ibv_modify_qp(
		q->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);

	return code ? failed(code, "bring a queue pair to INIT", q, e) : 0;
}

static void choose_limits(struct verbs_qp *q)
{
	struct ibv_device_attr a;
	int reads = READS_MAX;

	if (!ibv_query_device(q->dev->ctx, &a)) {
		reads = a.max_qp_rd_atom < reads ? a.max_qp_rd_atom : reads;
		reads = a.max_qp_init_rd_atom < reads ? a.max_qp_init_rd_atom : reads;
	}
	q->reads = reads > 0 ? (uint32_t)reads : 1;
	if (getrandom(&q->psn, sizeof(q->psn), GRND_NONBLOCK) != (ssize_t)sizeof(q->psn))
		q->psn = (uint32_t)getpid();
	q->psn &= 0xffffff;
}

int verbs_qp_new(struct verbs_qp **ret, struct verbs_dev *d, const struct verbs_qp_conf *conf,
		 struct err *e)
{
	struct verbs_qp *q = xcalloc(1, sizeof(*q));
	int r;

	q->dev = d;
	q->conf = *conf;
	choose_limits(q);
	r = get_memory(q, e);
	if (r == 0)
		r = get_queues(q, e);
	if (r == 0)
		r = to_init(q, e);
	if (r < 0) {
		verbs_qp_free(q);
		return r;
	}
	*ret = q;
	return 0;
}

void verbs_qp_free(struct verbs_qp *q)
{
	if (!q)
		return;
	if (q->qp)
		ibv_destroy_qp(q->qp);
	/* A completion queue with events that nobody acknowledged is not destroyed. */
	if (q->events)
		ibv_ack_cq_events(q->cq, q->events);
	if (q->cq)
		ibv_destroy_cq(q->cq);
	if (q->channel)
		ibv_destroy_comp_channel(q->channel);
	if (q->mr)
		ibv_dereg_mr(q->mr);
	if (q->pd)
		ibv_dealloc_pd(q->pd);
	if (q->mem)
		munmap(q->mem, q->conf.bytes);
	free(q);
}

void verbs_qp_cleanup(struct verbs_qp **q)
{
	verbs_qp_free(*q);
	*q = NULL;
}

uint8_t *verbs_qp_mem(struct verbs_qp *q)
{
	return q->mem;
}

uint32_t verbs_qp_mtu(const struct verbs_qp *q)
{
	return q->mtu;
}

void verbs_qp_end(const struct verbs_qp *q, struct verbs_end *ret)
{
	*ret = (struct verbs_end){
		.qpn = q->qp->qp_num,
		.psn = q->psn,
		.rkey = q->mr->rkey,
		.mtu = q->conf.mtu,
		.reads = q->reads,
		.lid = q->conf.lid,
		.ethernet = q->conf.ethernet,
		.addr = (uintptr_t)q->mem,
		.len = q->conf.bytes,
	};
	memcpy(ret->gid, q->conf.gid, sizeof(ret->gid));
}

/* --- connecting --- */

static struct ibv_ah_attr path_to(const struct verbs_qp *q, const struct verbs_end *peer)
{
	struct ibv_ah_attr a = {.dlid = peer->lid, .port_num = (uint8_t)q->conf.port};

	if (!q->conf.ethernet && q->conf.gid_index < 0)
		return a;
	a.is_global = 1;
	a.grh.sgid_index = (uint8_t)q->conf.gid_index;
	a.grh.hop_limit = 64;
	memcpy(a.grh.dgid.raw, peer->gid, sizeof(peer->gid));
	return a;
}

static int no_path(const struct verbs_qp *q, int code, struct err *e)
{
	const char *hint = "";

	if (q->conf.ethernet &&
	    (code == ETIMEDOUT || code == EHOSTUNREACH || code == ENETUNREACH || code == EINVAL))
		hint = " (no way to the peer's address from this GID: does 'ping' reach it from "
		       "this interface?)";
	return err_set(e, -abs(code), "connect the queue pair on RDMA device '%s': %s%s",
		       q->dev->name, errno_text(code), hint);
}

static int to_rtr(struct verbs_qp *q, const struct verbs_end *peer, struct err *e)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = verbs_mtu_of(peer->mtu < q->conf.mtu ? peer->mtu : q->conf.mtu),
		.dest_qp_num = peer->qpn,
		.rq_psn = peer->psn,
		.max_dest_rd_atomic = (uint8_t)q->reads,
		.min_rnr_timer = 12, /* 0.64 ms */
		.ah_attr = path_to(q, peer),
	};
	int code = ibv_modify_qp(q->qp, &a,
				 IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					 IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					 IBV_QP_MIN_RNR_TIMER);

	q->mtu = verbs_mtu_bytes(a.path_mtu);
	return code ? no_path(q, code, e) : 0;
}

static int to_rts(struct verbs_qp *q, const struct verbs_end *peer, struct err *e)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTS,
		/* 0.54 s at least, seven times: a dead path shows in seconds. 7 would be for ever
		 * with soft-RoCE. */
		.timeout = 17,
		.retry_cnt = 6,
		.rnr_retry = 7, /* for ever: the caller's own time limit ends it */
		.sq_psn = q->psn,
		.max_rd_atomic = (uint8_t)(peer->reads < q->reads ? peer->reads : q->reads),
	};
	int code =
		ibv_modify_qp(q->qp, &a,
			      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);

	return code ? failed(code, "bring a queue pair to RTS", q, e) : 0;
}

int verbs_qp_connect(struct verbs_qp *q, const struct verbs_end *peer, struct err *e)
{
	int r;

	if (peer->ethernet != q->conf.ethernet)
		return err_set(e, -EPROTO, "this side's link is %s, the peer's %s",
			       q->conf.ethernet ? "Ethernet" : "InfiniBand",
			       peer->ethernet ? "Ethernet" : "InfiniBand");
	q->peer = *peer;
	r = to_rtr(q, peer, e);
	return r < 0 ? r : to_rts(q, peer, e);
}
