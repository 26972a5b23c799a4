/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_PCI_DEVLINK_HEALTH_H
#define UNIRAIL_KERN_PCI_DEVLINK_HEALTH_H

/*
 * devlink's health reporters (Documentation/networking/devlink/devlink-health.rst): what a driver found wrong with its
 * device ("fw_fatal" of mlx5) or with one of its ports ("tx", "rx"), and whether it was recovered. Notifications come
 * since Linux 5.8; without them, the next list reports the same.
 */

#include "kern/pci/devlink.h"

#include "base/buf.h"

struct devlink_reporter {
	char bus[16], dev[32], name[32]; /* "pci", "0000:3b:00.0", "fw_fatal" */
	bool of_port;
	bool is_error;
	/* The driver can recover it: its error ends. One that cannot be recovered stays in error until the driver is reloaded. */
	bool can_recover;
	uint32_t port; /* index of the port, if of_port */
};

/* Reporters of all devices and their ports; free() the list. -EOPNOTSUPP: a kernel before 5.1. */
int devlink_reporter_list(struct devlink *d, struct devlink_reporter **ret, size_t *n,
			  struct err *e);

/* A non-blocking descriptor that receives the notifications. -EOPNOTSUPP: this kernel names no group. */
int devlink_watch_open(const struct devlink *d, int *fd, struct err *e);
/* 1: a reporter with its new state, 0: none is waiting; -ENOBUFS: some were lost, list the reporters again. Other notifications
 * and messages of other senders than the kernel are skipped. */
int devlink_watch_next(const struct devlink *d, int fd, struct devlink_reporter *ret);
/* One datagram of the group; false: it holds no state of a reporter. */
bool devlink_report_parse(const struct devlink *d, struct span datagram,
			  struct devlink_reporter *ret);

#endif
