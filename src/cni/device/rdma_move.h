/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_DEVICE_RDMA_MOVE_H
#define UNIRAIL_CNI_DEVICE_RDMA_MOVE_H

/*
 * RDMA devices of PCI functions and auxiliary devices, on their way into a pod and home again: what
 * the rdma plugin and kinds with a device of their own share.
 *
 * A device's folder in sysfs lists RDMA devices of the namespace that /sys belongs to. Its verbs
 * device stays there wherever the RDMA device is, and tells its present name, a new one as well; so
 * "in a pod" and "there is none" are told apart.
 */

#include "base/file.h"
#include "kern/rdma/rdma_set.h"

enum { RDMA_MOVE_LIMIT_MS = 2000 };

/* "0000:3b:00.2" in lower case (sysfs has it so), or an auxiliary device's name, "mlx5_core.sf.4".
 * Kind ERR_CONF when it is neither. ret has PCI_NAME_MAX. */
int rdma_move_device(const char *text, char *ret, struct err *e);

/*
 * The one RDMA device of a PCI function or auxiliary device. None: -ENODEV, two: -EEXIST, both kind
 * ERR_UNAVAILABLE. Elsewhere: -EBUSY, kind ERR_AGAIN: the pod that has it, or had it, is going.
 */
int rdma_move_find(const struct root *r, const char *device, char name[static RDMA_NAME_MAX],
		   struct err *e);
/* Its name, wherever it is; false: it has none, or module ib_uverbs is not loaded. */
bool rdma_move_name(const struct root *r, const char *device, char name[static RDMA_NAME_MAX]);

/* Whether the host's RDMA mode is the one that `who` ("conf.rdmaIsolation", "the rdma plugin") needs;
 * the error has the remedy. */
int rdma_move_mode(enum rdma_netns_mode wants, const char *who, struct err *e);
int rdma_move_mode_fits(enum rdma_netns_mode set, enum rdma_netns_mode wants, const char *who,
			struct err *e); /* pure */

/*
 * Into another namespace. The wire (NL_RDMA) is of the caller's namespace, and so is the device:
 * the kernel looks at both. EBUSY is tried again with growing pauses for limit_ms; then the error
 * says who holds it. (The kernel itself cuts users off instead of waiting for them. Drivers outside
 * the kernel's tree may refuse.)
 */
int rdma_move(struct nl_wire *w, const struct root *r, const char *name, int netns_fd, int limit_ms,
	      struct err *e);
/* From the namespace pod_fd into the caller's. -ENODEV: it is not there. `home`: the name it has to
 * have then; one that is taken meanwhile is logged, and the device keeps the pod's. */
int rdma_move_home(int pod_fd, const struct root *r, const char *name, const char *home,
		   struct err *e);
/* A device of the caller's namespace gets the name it had before a pod changed it. */
int rdma_move_rename(const char *name, const char *home, struct err *e);
/* 1: the namespace has a device of this name, 0: not. A kernel without RDMA has none. */
int rdma_move_is_in(int netns_fd, const char *name, struct err *e);

/* ---- who uses a device: rdma_move.c ---- */

struct rdma_holder {
	uint32_t pid;	/* 0: the kernel, or a process of another PID namespace */
	char owner[32]; /* the kernel module; "" a process */
	char comm[32];	/* of the process; "" it is gone */
	uint32_t qps, cqs, mrs, contexts;
};

/* Of a device that the wire sees; free() the list. Without ib_core's own QP 1 and the like. */
int rdma_holders(struct nl_wire *w, const struct root *r, uint32_t index, struct rdma_holder **ret,
		 size_t *n, struct err *e);
/* "ib_write_bw (pid 4711: 1 QP, 2 CQs), module rpcrdma (1 QP)"; "" nobody. Pure. */
void rdma_holders_text(const struct rdma_holder *list, size_t n, struct buf *b);

#endif
