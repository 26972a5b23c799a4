/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_PCI_INTERNAL_H
#define UNIRAIL_KERN_PCI_INTERNAL_H

/* Shared by the files of this directory. */

#include "kern/pci/devlink.h"
#include "kern/pci/pci.h"

enum { PCI_PATH_MAX = 512 };

struct devlink {
	struct nl_wire *w;
	uint16_t family;
	uint32_t config_group; /* multicast group of notifications; 0: unknown */
};

/* Creates a request of the devlink family without attributes; flags: NLM_F_*. */
struct nl_msg *devlink_request(const struct devlink *d, int cmd, int flags);

/* Returns "/sys/bus/pci/devices/BDF/ATTR", or a path below /sys/bus/auxiliary; attr "": the
 * directory of the device. Refuses a `device` that is empty, too long, contains '/' or begins
 * with a dot. */
int pci_attr_path(const char *device, const char *attr, char path[static PCI_PATH_MAX],
		  struct err *e);

#endif
