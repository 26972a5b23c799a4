/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_RDMA_VERBS_QP_PRIV_H
#define UNIRAIL_KERN_RDMA_VERBS_QP_PRIV_H

#include "kern/rdma/verbs_priv.h"
#include "kern/rdma/verbs_qp.h"

struct verbs_qp {
	struct verbs_dev *dev;
	struct verbs_qp_conf conf;
	struct verbs_end peer;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	uint8_t *mem;
	uint32_t psn, reads, mtu;
	unsigned int events; /* taken from the channel, not acknowledged yet */
};

/* What a completion that is no success means: a negative errno with e set. */
int verbs_work_failed(const struct verbs_qp *q, int status, struct err *e);

#endif
