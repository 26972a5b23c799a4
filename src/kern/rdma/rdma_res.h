/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_RDMA_RDMA_RES_H
#define UNIRAIL_KERN_RDMA_RDMA_RES_H

/*
 * Objects that use a device, and its counters, by RDMA netlink: RES_GET and STAT_GET of
 * drivers/infiniband/core/nldev.c. Reading needs no privileges; a process of another PID namespace has pid 0. The
 * caller frees every list.
 */

#include "kern/rdma/rdma.h"

enum rdma_res_kind {
	RDMA_RES_QP,
	RDMA_RES_CM_ID,
	RDMA_RES_CQ,
	RDMA_RES_MR,
	RDMA_RES_PD,
	RDMA_RES_CTX, /* an open /dev/infiniband/uverbsN */
};

struct rdma_res {
	uint32_t id;   /* number of the object (QP number, CQ number ...); 0: not reported */
	uint32_t port; /* number of the port; 0: not bound to a port */
	/* 0: owned by the kernel, see .owner, or by a process of another PID namespace */
	uint32_t pid;
	/* type: IB_QPT_*; state: IB_QPS_* of a QP, enum rdma_cm_state of a CM_ID */
	uint8_t type, state;
	char owner[32]; /* kernel module that created the object; "": a process created it */
};

struct rdma_count {
	char name[48];
	uint64_t value;
};

/* Lists the objects of one kind. -EINVAL: there is no such device, or the kernel does not list
 * this kind (CTX: before Linux 5.13). */
int rdma_nl_res_list(struct nl_wire *w, uint32_t index, enum rdma_res_kind kind,
		     struct rdma_res **ret, size_t *n, struct err *e);
/*
 * Lists the processes that have objects of this kind, each once, in ascending order; at most `max`, others are omitted.
 * Objects that the kernel owns are ignored. *hidden (may be NULL): number of objects that belong to
 * processes of other PID namespaces, whose pid the kernel does not report.
 */
int rdma_nl_res_pids(struct nl_wire *w, uint32_t index, enum rdma_res_kind kind, size_t max,
		     uint32_t **ret, size_t *n, size_t *hidden, struct err *e);
/* Lists the hardware counters of a port, in the driver's order ("out_of_sequence", "rp_cnp_handled" ...). -EOPNOTSUPP:
 * there is no such device or port, or the driver has no counters. */
int rdma_nl_stats(struct nl_wire *w, uint32_t index, uint32_t port, struct rdma_count **ret,
		  size_t *n, struct err *e);

#endif
