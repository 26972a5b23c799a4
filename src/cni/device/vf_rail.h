/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_DEVICE_VF_RAIL_H
#define UNIRAIL_CNI_DEVICE_VF_RAIL_H

/* State of an attachment whose device is a VF. */

#include "cni/device/vf_place.h"
#include "cni/device/vf_record.h"

struct vf_rail {
	int lock; /* from vf_lock(); -1: not held */
	/* ib-sriov: lock of all VFs of the node; -1: not held, or held by another attachment */
	int node_lock;
	struct vf_place place;
	/* state of the VF as its PF reports it; now.mac.len 0: the PF has no netdev, or its driver
	 * reports no VFs */
	struct vf_info now;
	/* state before the ADD; record.file NULL: the record is not on disk */
	struct vf_record record;
};

struct attach;
struct rail;
struct link_driver;

void vf_rail_free(struct vf_rail *v); /* releases the locks */

/* Sets rail->vf for all attachments of the driver and locks their VFs; id() returns the
 * PCI address of a rail's VF. */
int vf_rail_lock(struct attach *a, const struct link_driver *k,
		 const char *(*id)(const struct rail *), struct err *e);
/* Fills rail->vf->record from the discovered state: the VF's new owner, the VF and its netdev.
 * requested: VF_ATTR_* set for the pod. The caller has already stored the alternative names in the
 * record. */
void vf_rail_record(const struct attach *a, const struct rail *rail, unsigned int requested);

#endif
