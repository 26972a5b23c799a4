/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_DEVICE_VF_RAIL_H
#define UNIRAIL_CNI_DEVICE_VF_RAIL_H

/* What the rails that are VFs have in common while they are attached. */

#include "cni/device/vf_place.h"
#include "cni/device/vf_record.h"

struct vf_rail {
	int lock;      /* of vf_lock(); -1: not held */
	int node_lock; /* ib-sriov's, for all VFs of the node; -1: not held, or by another rail */
	struct vf_place place;
	struct vf_info now;	 /* as the PF tells; now.mac.len 0: no PF that could */
	struct vf_record record; /* what it was; record.file NULL: not on disk */
};

struct attach;
struct rail;
struct rail_kind;

struct vf_rail *vf_rail_new(void);
void vf_rail_free(struct vf_rail *v); /* gives the lock back */

/* rail->vf for all rails of the kind, with the locks of their VFs; id: a rail's PCI address. */
int vf_rail_lock(struct attach *a, const struct rail_kind *k,
		 const char *(*id)(const struct rail *), struct err *e);
/* rail->vf->record from what was found out: who gets the VF, and how it and its netdev are. asked:
 * VF_ATTR_* that the pod is given. The alternative names are in it already. */
void vf_rail_record(const struct attach *a, const struct rail *rail, unsigned int asked);

#endif
