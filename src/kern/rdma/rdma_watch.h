/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_RDMA_RDMA_WATCH_H
#define UNIRAIL_KERN_RDMA_RDMA_WATCH_H

/* Notifications of added, removed and changed RDMA devices and their netdevs: RDMA_NL_GROUP_NOTIFY,
 * since Linux 6.12. Before that, kern/pci/uevent.h reports devices (SUBSYSTEM=infiniband). */

#include "kern/rdma/rdma.h"

enum rdma_event_kind {
	RDMA_EVENT_REGISTER,
	RDMA_EVENT_UNREGISTER,
	RDMA_EVENT_NETDEV_ATTACH,
	RDMA_EVENT_NETDEV_DETACH,
	/* an event of a kind that only newer kernels send: list the devices again */
	RDMA_EVENT_OTHER,
};

struct rdma_event {
	enum rdma_event_kind kind;
	uint32_t index, port; /* port 0: all ports of the device */
	char name[RDMA_NAME_MAX];
	int netdev_index;
	char netdev[16]; /* "": not reported */
};

/* Opens a non-blocking socket in the caller's namespace that receives these notifications. */
int rdma_watch_open(int *fd, struct err *e);
/* Returns 1 with an event, 0 if none is waiting, or a negative errno; -ENOBUFS: some were lost:
 * list the devices again. Ignores malformed messages, and those whose sender is not the kernel. */
int rdma_watch_next(int fd, struct rdma_event *ret, struct err *e);
/* Parses one datagram; false: it contains no event. */
bool rdma_event_parse(struct span datagram, struct rdma_event *ret);

#endif
