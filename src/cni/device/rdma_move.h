/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_DEVICE_RDMA_MOVE_H
#define UNIRAIL_CNI_DEVICE_RDMA_MOVE_H

/*
 * Moves RDMA devices of PCI functions and auxiliary devices into a pod and back to the host. Shared
 * by the rdma plugin and the link drivers that move an RDMA device.
 *
 * The sysfs directory of a PCI or auxiliary device lists its RDMA device only in the /sys mount of
 * the namespace that has the RDMA device. The directory lists the verbs device (infiniband_verbs)
 * in every namespace, and the verbs device has the current name of the RDMA device. So "the RDMA
 * device is in a pod" and "it does not exist" can be distinguished.
 */

#include "base/file.h"
#include "kern/rdma/rdma_set.h"

enum { RDMA_MOVE_LIMIT_MS = 2000 };

/* Copies a PCI address in lower case, as in sysfs ("0000:3b:00.2"), or the name of an auxiliary
 * device ("mlx5_core.sf.4"). ret has PCI_NAME_MAX bytes. Error kind ERR_CONF if the text is
 * empty, starts with '.', contains '/' or does not fit into ret. */
int rdma_move_device(const char *text, char *ret, struct err *e);

/*
 * Finds the only RDMA device of a PCI function or auxiliary device. -ENODEV: `device` does not
 * exist or has no RDMA device, -EEXIST: it has several, both of kind ERR_UNAVAILABLE. -EBUSY,
 * kind ERR_AGAIN: its RDMA device is in another namespace, that of a pod or of a deleted pod.
 */
int rdma_move_find(const struct root *r, const char *device, char name[static RDMA_NAME_MAX],
		   struct err *e);
/* Finds the name of the function's RDMA device in any namespace; returns false if it has none, or
 * if module ib_uverbs is not loaded. */
bool rdma_move_name(const struct root *r, const char *device, char name[static RDMA_NAME_MAX]);

/* Checks that the host's RDMA mode is the one that `setting` ("conf.rdmaIsolation", "the rdma
 * plugin") needs; the error contains the remedy. */
int rdma_move_mode(enum rdma_netns_mode wants, const char *setting, struct err *e);
int rdma_move_mode_fits(enum rdma_netns_mode set, enum rdma_netns_mode wants, const char *setting,
			struct err *e); /* pure */

/*
 * Moves a device to another namespace. The socket (NL_RDMA) and the device must be in the caller's
 * namespace: the kernel checks both. On EBUSY, which only out-of-tree drivers return (the kernel
 * itself disconnects the users of a device), the function retries with growing pauses, for limit_ms
 * in all; the error then names the users.
 */
int rdma_move(struct nl_wire *w, const struct root *r, const char *name, int netns_fd, int limit_ms,
	      struct err *e);
/* Moves a device from the namespace pod_fd to the caller's and names it host_name. -ENODEV: the
 * device is not in the pod. If the rename fails, for example because another device has the
 * name, logs a warning and returns 0: the device keeps the name that it had in the pod. */
int rdma_move_restore(int pod_fd, const struct root *r, const char *name, const char *host_name,
		      struct err *e);
/* Renames a device of the caller's namespace to the name it had before a pod changed it. */
int rdma_move_rename(const char *name, const char *host_name, struct err *e);
/* Returns 1 if the namespace has a device of this name, 0 if not or on a kernel without RDMA;
 * negative: an error. */
int rdma_move_is_in(int netns_fd, const char *name, struct err *e);

/* --- users of a device --- */

struct rdma_user {
	/* process that uses the device; 0: the kernel, or a process of another PID namespace */
	uint32_t pid;
	char owner[32]; /* the kernel module that uses the device; "": a process uses it */
	char comm[32];	/* name of the process; "": the process has exited, or pid is 0 */
	uint32_t qps, cqs, mrs, contexts;
};

/* "ib_write_bw (pid 4711: 1 QP, 2 CQs), module rpcrdma (1 QP)"; "" if there are no users. Pure. */
void rdma_users_describe(const struct rdma_user *list, size_t n, struct buf *b);

#endif
