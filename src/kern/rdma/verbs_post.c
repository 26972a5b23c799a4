/* SPDX-License-Identifier: Apache-2.0 */
/* Work into a queue pair, completions out of it. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/loop.h"
#include "kern/rdma/verbs_qp_priv.h"

/* How long to look for a completion before sleeping: longer than a round trip on a NIC. */
enum { SPIN_US = 100 };

int verbs_work_failed(const struct verbs_qp *q, int status, struct err *e)
{
	static const struct {
		int status, code;
		const char *name, *means;
	} all[] = {
		{IBV_WC_RETRY_EXC_ERR, ETIMEDOUT, "RETRY_EXC_ERR",
		 "the peer acknowledges nothing: is its link up, does 'ping' pass between these two "
		 "addresses, also with the full MTU ('ping -M do -s'), does a firewall drop UDP port "
		 "4791, is the GID of the right interface and type on both sides?"},
		{IBV_WC_RNR_RETRY_EXC_ERR, ETIMEDOUT, "RNR_RETRY_EXC_ERR",
		 "the peer had no room to receive"},
		{IBV_WC_REM_ACCESS_ERR, EACCES, "REM_ACCESS_ERR",
		 "the peer's device refused access to its memory"},
		{IBV_WC_REM_INV_REQ_ERR, EINVAL, "REM_INV_REQ_ERR",
		 "the peer's device does not take this operation"},
		{IBV_WC_REM_OP_ERR, EREMOTEIO, "REM_OP_ERR", "the peer's device failed"},
		{IBV_WC_LOC_PROT_ERR, EFAULT, "LOC_PROT_ERR",
		 "this device may not reach this process's memory (IOMMU, ACS?)"},
		{IBV_WC_LOC_LEN_ERR, EMSGSIZE, "LOC_LEN_ERR", "a message is too long"},
		{IBV_WC_LOC_QP_OP_ERR, EIO, "LOC_QP_OP_ERR", "this device failed"},
		{IBV_WC_WR_FLUSH_ERR, ECANCELED, "WR_FLUSH_ERR",
		 "the connection broke: the port went down, the kernel has no way to the peer, or "
		 "work before this failed"},
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (all[i].status == status)
			return err_set(e, -all[i].code, "RDMA device '%s': %s: %s", q->dev->name,
				       all[i].name, all[i].means);
	return err_set(e, -EIO, "RDMA device '%s': work failed with completion status %d",
		       q->dev->name, status);
}

int verbs_post(struct verbs_qp *q, enum verbs_op op, uint64_t id, size_t at, size_t len,
	       uint64_t to, struct err *e)
{
	static const enum ibv_wr_opcode codes[] = {IBV_WR_RDMA_WRITE, IBV_WR_SEND,
						   IBV_WR_RDMA_READ};
	struct ibv_sge sge = {(uintptr_t)q->mem + at, (uint32_t)len, q->mr->lkey};
	struct ibv_send_wr *bad, wr = {
					 .wr_id = id,
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = codes[op],
					 .send_flags = IBV_SEND_SIGNALED,
				 };
	int code;

	wr.wr.rdma.remote_addr = q->peer.addr + to;
	wr.wr.rdma.rkey = q->peer.rkey;
	code = ibv_post_send(q->qp, &wr, &bad);
	return code ? err_sys(e, -abs(code), "post work to RDMA device '%s'", q->dev->name) : 0;
}

int verbs_post_recv(struct verbs_qp *q, uint64_t id, size_t at, size_t len, struct err *e)
{
	struct ibv_sge sge = {(uintptr_t)q->mem + at, (uint32_t)len, q->mr->lkey};
	struct ibv_recv_wr *bad, wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1};
	int code = ibv_post_recv(q->qp, &wr, &bad);

	return code ? err_sys(e, -abs(code), "post a receive to RDMA device '%s'", q->dev->name)
		    : 0;
}

int verbs_poll(struct verbs_qp *q, struct verbs_done *ret, struct err *e)
{
	struct ibv_wc wc[VERBS_POLL_MAX];
	int n = ibv_poll_cq(q->cq, VERBS_POLL_MAX, wc);

	if (n < 0)
		return err_sys(e, -EIO, "ask RDMA device '%s' for completions", q->dev->name);
	for (int i = 0; i < n; i++) {
		if (wc[i].status != IBV_WC_SUCCESS)
			return verbs_work_failed(q, (int)wc[i].status, e);
		ret[i] = (struct verbs_done){wc[i].wr_id, wc[i].byte_len,
					     (wc[i].opcode & IBV_WC_RECV) != 0};
	}
	return n;
}

/* Takes the event that woke us, so that the next sleep does not end at once. */
static void take_event(struct verbs_qp *q)
{
	struct ibv_cq *cq;
	void *ctx;

	if (!ibv_get_cq_event(q->channel, &cq, &ctx))
		q->events++;
}

static int sleep_for(struct verbs_qp *q, int other_fd, int timeout_ms, struct err *e)
{
	struct pollfd p[] = {{q->channel->fd, POLLIN, 0}, {other_fd, POLLIN, 0}};
	int n = poll(p, 2, timeout_ms);

	if (n < 0)
		return err_sys(e, -errno, "wait for RDMA device '%s'", q->dev->name);
	if (n == 0)
		return err_set(e, -ETIMEDOUT,
			       "RDMA device '%s' has completed nothing for %d s: is the peer still "
			       "there?",
			       q->dev->name, timeout_ms / 1000);
	if (p[0].revents)
		take_event(q);
	return p[0].revents ? 1 : 0;
}

int verbs_wait(struct verbs_qp *q, int other_fd, int timeout_ms, struct verbs_done *ret,
	       struct err *e)
{
	int64_t begin = now_mono_us();
	int n, woken = 1;

	do {
		n = verbs_poll(q, ret, e);
	} while (n == 0 && now_mono_us() - begin < SPIN_US);
	while (n == 0 && woken) {
		int code = ibv_req_notify_cq(q->cq, 0);

		if (code)
			return err_sys(e, -abs(code), "ask RDMA device '%s' for an event",
				       q->dev->name);
		/* What came before the request makes no event. */
		n = verbs_poll(q, ret, e);
		if (n != 0)
			break;
		woken = sleep_for(q, other_fd, timeout_ms, e);
		if (woken < 0)
			return woken;
		n = verbs_poll(q, ret, e);
	}
	return n;
}
