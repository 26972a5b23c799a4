/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_DEVICE_VF_PLAN_H
#define UNIRAIL_CNI_DEVICE_VF_PLAN_H

/*
 * Which attributes of a VF are to be changed through its PF: pure. What a netconf asks for and what
 * a record wants back have one form, so one function brings either about (vf_apply.h).
 */

#include "cni/device/vf_record.h"

/* In the order in which they are set, the original's. */
enum vf_attr {
	VF_ATTR_VLAN = 1 << 0, /* id, QoS and protocol */
	VF_ATTR_MAC = 1 << 1,  /* the administrative one */
	VF_ATTR_RATE = 1 << 2, /* both limits */
	VF_ATTR_SPOOFCHK = 1 << 3,
	VF_ATTR_TRUST = 1 << 4,
	VF_ATTR_LINK_STATE = 1 << 5,
	VF_ATTR_GUID = 1 << 6, /* node and port */
	VF_ATTR_ALL = (1 << 7) - 1,
};

struct vf_attrs {
	unsigned int set;  /* VF_ATTR_*: which members count */
	struct vf_info to; /* vlans[0] alone counts; n_vlans does not */
};

/* "vlan", "mac" ...: what a netconf calls it, for messages; of the lowest bit. */
const char *vf_attr_name(unsigned int attr);

/* Those of `want` that are not so already. A switch that the driver does not tell never is. */
unsigned int vf_plan_missing(const struct vf_attrs *want, const struct vf_info *now);
/*
 * What brings a VF back to how it was: all that differs now. A switch that the driver did not tell
 * then is left alone unless `asked` (VF_ATTR_*: what the pod was given) has it; it gets the
 * kernel's default. MAC length 0 in `was`: the MAC is not known and left alone.
 */
struct vf_attrs vf_plan_restore(const struct vf_info *was, const struct vf_info *now,
				unsigned int asked);
/*
 * How a VF was, as far as it can be guessed without a record: like a sibling that nobody has (NULL:
 * as drivers make them: no VLAN, no limit, spoofchk on, no trust, link state auto). `mac`: what it
 * gets if the sibling has an administrative MAC at all; length 0: not known. GUIDs are left alone.
 */
struct vf_info vf_plan_guess(const struct vf_info *now, const struct vf_info *sibling,
			     const struct mac *mac);
/* The messages for want->set; returns how many. `attrs` (room for VF_ATTRS_MAX) gets which
 * attribute each is for. */
enum { VF_ATTRS_MAX = 8 };
size_t vf_plan_batch(const struct vf_attrs *want, const struct vf_ref *ref, struct nl_batch *b,
		     unsigned int attrs[static VF_ATTRS_MAX]);

#endif
