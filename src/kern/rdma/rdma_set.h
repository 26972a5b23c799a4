/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_RDMA_RDMA_SET_H
#define UNIRAIL_KERN_RDMA_RDMA_SET_H

/*
 * Changes to RDMA devices, by RDMA netlink (drivers/infiniband/core/nldev.c). A wire (NL_RDMA) sees
 * and changes the devices of the namespace it was opened in; in shared mode every namespace sees
 * all. Changes need CAP_NET_ADMIN.
 */

#include "kern/rdma/rdma.h"

/*
 * Sets how devices belong to namespaces, for the whole host. Works only in the initial namespace.
 * -EBUSY (kind ERR_AGAIN): other network namespaces exist; the remedy is to set the mode at boot.
 * Setting the present mode again always succeeds.
 */
int rdma_nl_netns_mode_set(struct nl_wire *w, enum rdma_netns_mode mode, struct err *e);
const char *rdma_netns_mode_name(enum rdma_netns_mode mode); /* "exclusive", "shared" */

/* Finds a device by its name. -ENODEV: the wire's namespace has no device of this name. */
int rdma_nl_find(struct nl_wire *w, const char *name, uint32_t *index, struct err *e);

/*
 * Moves a device into a namespace; its index and name do not change. The kernel disconnects the
 * users of the device, and recreates its IPoIB netdevs (in the initial namespace; since Linux 6.17
 * in the RDMA device's namespace), so move the RDMA device before the netdev. -EBUSY (kind
 * ERR_AGAIN): the device is in use; the caller may retry. -EOPNOTSUPP: the mode is shared, or the
 * driver does not support the move (soft-RoCE); the error names the reason. When the namespace is
 * deleted, the kernel returns the device to the initial namespace.
 */
int rdma_nl_move(struct nl_wire *w, uint32_t index, const char *name, int netns_fd, struct err *e);

/* Returns whether a name is valid: 1 to 63 printable ASCII characters without space, '/' and '%',
 * not "." or "..". rdma_nl_rename() fails with -EEXIST if another device of the host has the
 * name. */
bool rdma_name_ok(const char *name);
int rdma_nl_rename(struct nl_wire *w, uint32_t index, const char *name, const char *to,
		   struct err *e);

#endif
