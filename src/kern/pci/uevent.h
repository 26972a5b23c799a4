/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_PCI_UEVENT_H
#define UNIRAIL_KERN_PCI_UEVENT_H

/*
 * Kernel events of devices that are added or removed (NETLINK_KOBJECT_UEVENT, group 1: the kernel's
 * own, not udev's), and waiting for them. To avoid a race: open the socket, then cause the change
 * (bind a driver), then call uevent_wait(), which checks before it waits. A socket receives netdev
 * events of its own network namespace, and all others only in the initial one.
 */

#include "kern/pci/pci.h"

enum { UEVENT_TEXT_MAX = 512 };

struct uevent {
	char action[16];	       /* "add", "remove", "bind", "move" ... */
	char subsystem[32];	       /* "net", "infiniband", "pci" */
	char devpath[UEVENT_TEXT_MAX]; /* below /sys */
	char name[PCI_NAME_MAX];       /* INTERFACE, NAME or the last part of devpath */
};

/* Of the caller's namespace, non-blocking. */
int uevent_open(int *fd, struct err *e);
/* One datagram, "add@/devices/...\0ACTION=add\0..."; false when it is not the kernel's form. */
bool uevent_parse(struct span datagram, struct uevent *ret);
/* 1, 0 none is waiting, -ENOBUFS: some were lost. */
int uevent_next(int fd, struct uevent *ret, struct err *e);

/* 1: it is there, 0: not yet, negative: give up (e is set). */
typedef int (*uevent_check)(void *arg, struct err *e);
/*
 * Calls `look`, and again after every event, until it succeeds (0) or until `deadline_ms` of
 * now_mono_ms() (-ETIMEDOUT, kind ERR_AGAIN: "wait for <what>: ...").
 */
int uevent_wait(int fd, int64_t deadline_ms, const char *what, uevent_check check, void *arg,
		struct err *e);
/* Waits for the device's netdev, RDMA device, ...: its (bytewise first) name. */
int uevent_wait_child(int fd, int64_t deadline_ms, const struct root *r, const char *device,
		      enum pci_child what, char ret[static PCI_NAME_MAX], struct err *e);

#endif
