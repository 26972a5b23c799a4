/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_PCI_DEVLINK_HEALTH_H
#define UNIRAIL_KERN_PCI_DEVLINK_HEALTH_H

/*
 * devlink's health reporters (Documentation/networking/devlink/devlink-health.rst): errors of a device ("fw_fatal" of
 * mlx5) or of one of its ports ("tx", "rx") that its driver detected, and whether the driver has
 * recovered from them. The kernel sends notifications since Linux 5.6; without them, the next list
 * reports the same state.
 */

#include "kern/pci/devlink.h"

#include "base/buf.h"

struct devlink_reporter {
	char bus[16], dev[32], name[32]; /* "pci", "0000:3b:00.0", "fw_fatal" */
	bool of_port;
	bool is_error;
	/* The driver can recover, which ends the error. Otherwise the reporter stays in error until the driver is
	 * reloaded. */
	bool can_recover;
	uint32_t port; /* index of the port, if of_port */
};

/* Lists the reporters of all devices and their ports; the caller frees the list. -EOPNOTSUPP: a kernel before 5.1. */
int devlink_reporter_list(struct devlink *d, struct devlink_reporter **ret, size_t *n,
			  struct err *e);

/* Opens a non-blocking descriptor that receives the notifications. -EOPNOTSUPP: the kernel reports no multicast group
 * for them. */
int devlink_watch_open(const struct devlink *d, int *fd, struct err *e);
/* Returns 1 with the new state of a reporter, 0 if no notification is waiting or the read fails;
 * -ENOBUFS: some were lost, list the reporters again. Skips other notifications, and messages
 * whose sender is not the kernel. */
int devlink_watch_next(const struct devlink *d, int fd, struct devlink_reporter *ret);
/* Parses one datagram of the multicast group; false: it contains no state of a reporter. */
bool devlink_report_parse(const struct devlink *d, struct span datagram,
			  struct devlink_reporter *ret);

#endif
