/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_RDMA_RDMA_VIEW_H
#define UNIRAIL_KERN_RDMA_RDMA_VIEW_H

/*
 * Attributes of RDMA devices, ports and the system as the kernel sends them, for output like that
 * of iproute2's rdma: an attribute that the kernel omits is distinguished from the value 0.
 */

#include "kern/rdma/rdma.h"

enum rdma_view_has {
	RDMA_VIEW_NODE_TYPE = 1 << 0,
	RDMA_VIEW_NODE_GUID = 1 << 1,
	RDMA_VIEW_SYS_IMAGE_GUID = 1 << 2,
	RDMA_VIEW_MODERATION = 1 << 3,
	RDMA_VIEW_CAPS = 1 << 4,
	RDMA_VIEW_PREFIX = 1 << 5,
	RDMA_VIEW_LID = 1 << 6,
	RDMA_VIEW_SM_LID = 1 << 7,
	RDMA_VIEW_LMC = 1 << 8,
	RDMA_VIEW_STATE = 1 << 9,
	RDMA_VIEW_PHYS_STATE = 1 << 10,
	RDMA_VIEW_FW = 1 << 11,
};

struct rdma_view_dev {
	uint32_t has; /* bits of enum rdma_view_has */
	uint32_t index, n_ports;
	char name[RDMA_NAME_MAX];
	char fw[64];
	uint8_t node_type, moderation;
	uint64_t node_guid, sys_image_guid, caps;
};

struct rdma_view_link {
	uint32_t has;
	uint32_t index, port; /* index: of the device; port: 1 or higher */
	char name[RDMA_NAME_MAX];
	uint64_t caps, prefix;
	uint32_t lid, sm_lid;
	uint8_t lmc, state, phys_state;
	char netdev[16]; /* "": none in this namespace */
	uint32_t netdev_index;
};

struct rdma_view_system {
	/* RDMA mode of namespaces, "shared", "exclusive"; "": not sent (before Linux 5.2) */
	char netns[16];
	bool copy_on_fork;
};

/* Lists the devices in the kernel's order; the caller frees the list. */
int rdma_nl_view_devs(struct nl_wire *w, struct rdma_view_dev **ret, size_t *n, struct err *e);
/* Lists all ports of a device; the caller frees the list. */
int rdma_nl_view_links(struct nl_wire *w, const struct rdma_view_dev *d,
		       struct rdma_view_link **ret, size_t *n, struct err *e);
int rdma_nl_view_system(struct nl_wire *w, struct rdma_view_system *ret, struct err *e);

#endif
