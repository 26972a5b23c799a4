/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_PCI_UEVENT_H
#define UNIRAIL_KERN_PCI_UEVENT_H

/*
 * Kernel events of devices that are added or removed (NETLINK_KOBJECT_UEVENT, group 1: the kernel's
 * own, not udev's), and waiting for them. To avoid a race, open the socket first, then make the
 * change (bind a driver), then call uevent_wait(), which checks once before it waits. A socket
 * receives the events of netdevs and RDMA devices only of its own network namespace, and all other
 * events only if the initial user namespace owns this network namespace.
 */

#include "kern/pci/pci.h"

enum { UEVENT_TEXT_MAX = 512 };

struct uevent {
	/* action of the event such as "add", "remove", "bind", "move" ... */
	char action[16];
	char subsystem[32];	       /* "net", "infiniband", "pci" */
	char devpath[UEVENT_TEXT_MAX]; /* path below /sys */
	/* the event's variable INTERFACE or NAME; if it has neither, the last part of devpath */
	char name[PCI_NAME_MAX];
};

/* Opens a non-blocking socket in the caller's namespace. */
int uevent_open(int *fd, struct err *e);
/* Parses one datagram, "add@/devices/...\0ACTION=add\0..."; false: it does not have the kernel's
 * format. */
bool uevent_parse(struct span datagram, struct uevent *ret);
/* Returns 1 with an event, 0 if none is waiting, or a negative errno; -ENOBUFS: some were lost. */
int uevent_next(int fd, struct uevent *ret, struct err *e);

/* Returns 1 if the device exists, 0 if not yet; negative: the wait fails with e. */
typedef int (*uevent_check)(void *arg, struct err *e);
/*
 * Calls `check` once at the start, then after each arrival of events, and at least once a second.
 * Returns 0 when `check` has returned 1. -ETIMEDOUT (kind ERR_AGAIN, "wait for <what>: ..."):
 * now_mono_ms() has reached `deadline_ms`. A negative result of `check`, or an error of the socket,
 * ends the wait and is returned.
 */
int uevent_wait(int fd, int64_t deadline_ms, const char *what, uevent_check check, void *arg,
		struct err *e);
/* Waits until the device has a child of this kind (netdev, RDMA device ...). Returns the name of
 * the child; of several, the first in bytewise order. */
int uevent_wait_child(int fd, int64_t deadline_ms, const struct root *r, const char *device,
		      enum pci_child what, char ret[static PCI_NAME_MAX], struct err *e);

#endif
