/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DEVICE_RESOURCE_PLAN_H
#define UNIRAIL_DEVICE_RESOURCE_PLAN_H

/*
 * Resources of a node that has no configuration. Their names contain the number of the rail, as in
 * configs/cluster:
 *
 *	spidernet.io/shared_rail0	an HCA without VFs, shared by at most 1,000 containers
 *	spidernet.io/sriov_rail0	the VFs of an Ethernet PF
 *	spidernet.io/ib_rail0		the VFs of an InfiniBand PF
 *
 * A rail is a PF that has RDMA, itself or in one of its VFs, and does not carry the node's default
 * route. A PF whose netdev is named "railN" has the number N. The other PFs get the lowest free
 * numbers: first, in the order of the node's GPUs, the PF nearest to each GPU; then the remaining
 * PFs (storage NICs) by PCI address. In exclusive RDMA mode a PF without VFs is a resource of one
 * device, spidernet.io/sriov_railN or ib_railN, since it cannot be shared. Pure.
 */

#include "device/resource/config.h"

#define RESOURCE_PLAN_PREFIX "spidernet.io"

enum { RESOURCE_PLAN_HCA_MAX = 1000 };

struct rail {
	unsigned int number;
	const struct node_device *pf;
};

/* Sets *ret to the rails, sorted by number, which the caller frees; returns how many there are. */
size_t resource_rails(const struct node_devices *node, struct rail **ret);

/* Writes the planned resources as a configuration, {"configList": ..., "resourceList": ...}, for
 * an administrator to edit. */
void resource_plan_write(const struct node_devices *node, struct buf *b);
/* Appends the resources of the same configuration to c. Adds a message about each rail without a
 * resource, and one if there is no resource at all. */
int resource_plan(const struct node_devices *node, struct resource_config *c,
		  struct resource_messages *messages, struct err *e);

#endif
