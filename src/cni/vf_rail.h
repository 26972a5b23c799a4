/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_VF_RAIL_H
#define UNIRAIL_CNI_VF_RAIL_H

/* What the rails that are VFs have in common while they are attached. */

#include "cni/vf_place.h"
#include "cni/vf_record.h"

struct vf_rail {
	int lock; /* of vf_lock(); -1: not held */
	struct vf_place place;
	struct vf_info now;	 /* as the PF tells; now.mac.len 0: no PF that could */
	struct vf_record record; /* what it was; record.file NULL: not on disk */
};

struct vf_rail *vf_rail_new(void);
void vf_rail_free(struct vf_rail *v); /* gives the lock back */

#endif
