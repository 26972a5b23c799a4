/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_RDMA_RDMA_STAT_H
#define UNIRAIL_KERN_RDMA_RDMA_STAT_H

/*
 * Counters of queue pairs and of memory regions, by RDMA netlink: STAT_GET with STAT_RES of
 * drivers/infiniband/core/nldev.c. Reading needs no privileges. Counters of ports are in rdma_res.h.
 */

#include "kern/rdma/rdma_res.h"

/* One set of counters: of the queue pairs bound to one counter object of the kernel, or of one
 * memory region. */
struct rdma_stat {
	uint32_t id;   /* number of the counter ("cntn"), or of the memory region ("mrn") */
	uint32_t port; /* 0: memory region */
	uint32_t pid;  /* process of the queue pairs, if they are counted by process; else 0 */
	int qp_type;   /* IB_QPT_*, if queue pairs are counted by type; else -1 */
	/* kernel module that created the queue pairs; "": a process created them, or they are
	 * not counted by process */
	char owner[32];
	uint32_t *qps; /* numbers of the queue pairs */
	size_t n_qps;
	struct rdma_count *counts; /* in the driver's order */
	size_t n_counts;
};

/* Bits of the mode: the criteria by which the kernel binds a new queue pair to a counter. 0: it
 * binds none. */
enum { RDMA_STAT_BY_TYPE = 1 << 0, RDMA_STAT_BY_PID = 1 << 1 };

/*
 * List the counters of a port's queue pairs (Linux 5.3), and those of a device's memory regions
 * (Linux 5.5). -EOPNOTSUPP: the kernel does not list them, or there is no such device or port. Free
 * the list with rdma_stats_free().
 */
int rdma_nl_qp_stats(struct nl_wire *w, uint32_t index, uint32_t port, struct rdma_stat **ret,
		     size_t *n, struct err *e);
int rdma_nl_mr_stats(struct nl_wire *w, uint32_t index, struct rdma_stat **ret, size_t *n,
		     struct err *e);
void rdma_stats_free(struct rdma_stat *v, size_t n);

/* Reads the mode of a port, RDMA_STAT_BY_*. -EOPNOTSUPP: the kernel does not report it (before
 * Linux 5.3), or there is no such device or port. */
int rdma_nl_qp_stat_mode(struct nl_wire *w, uint32_t index, uint32_t port, uint32_t *ret,
			 struct err *e);

#endif
