/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_DEVICE_VF_APPLY_H
#define UNIRAIL_CNI_DEVICE_VF_APPLY_H

/*
 * Sets attributes of VFs through their PFs, and a VF's own MAC. Drivers accept some attributes and
 * apply them later, or are busy: values are read back and set again, up to 20 times at
 * intervals of 100 ms, as in the original plugin.
 */

#include "cni/device/vf_plan.h"

struct vf_job {
	struct vf_ref ref;
	struct vf_attrs want;
	/* MAC to set if the driver refuses to clear the administrative MAC; len 0: none */
	struct mac instead;
};

/*
 * Sends the messages of all jobs in one batch. On failure *bad is the failed job; changes that
 * succeeded remain. A busy driver is -EBUSY and a value that takes no effect -EAGAIN, both of class
 * ERR_AGAIN; an attribute that the driver does not support is of kind ERR_UNSUPPORTED.
 */
int vf_apply(struct nl_wire *w, const struct vf_job *jobs, size_t n, size_t *bad, struct err *e);
/* Sets the MAC of a VF's netdev in the socket's namespace. The link must be down, and is down
 * afterwards. */
int vf_apply_link_mac(struct nl_wire *w, int index, const struct mac *mac, struct err *e);

#endif
