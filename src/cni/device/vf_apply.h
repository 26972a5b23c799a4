/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_DEVICE_VF_APPLY_H
#define UNIRAIL_CNI_DEVICE_VF_APPLY_H

/*
 * Attributes of VFs set through their PFs, and a VF's own MAC. Drivers take some of them and carry
 * them out later, or are busy: what is set is read back, and what did not take is tried again, 20
 * times 100 ms as the original does.
 */

#include "cni/device/vf_plan.h"

struct vf_job {
	struct vf_ref ref;
	struct vf_attrs want;
	/* What it gets if the driver refuses to go back to no administrative MAC; len 0: nothing */
	struct mac instead;
};

/*
 * All jobs' messages in one batch. On failure *bad is the job at fault; what worked stays. A busy
 * driver is -EBUSY of kind ERR_AGAIN, an attribute the driver has not got ERR_UNSUPPORTED.
 */
int vf_apply(struct nl_wire *w, const struct vf_job *jobs, size_t n, size_t *bad, struct err *e);
/* The MAC of a VF's netdev in the wire's namespace; the link is down, and so it stays. */
int vf_apply_link_mac(struct nl_wire *w, int index, const struct mac *mac, struct err *e);

#endif
