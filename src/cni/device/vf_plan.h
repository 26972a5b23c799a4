/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_DEVICE_VF_PLAN_H
#define UNIRAIL_CNI_DEVICE_VF_PLAN_H

/*
 * Computes which attributes of a VF to change through its PF. Pure. The request of a netconf and
 * the state of a record have the same form, so vf_apply() serves both.
 */

#include "cni/device/vf_record.h"

/* Attributes, in the order in which they are set, as in the original plugin. */
enum vf_attr {
	VF_ATTR_VLAN = 1 << 0, /* VLAN id, QoS and protocol */
	VF_ATTR_MAC = 1 << 1,  /* administrative MAC */
	VF_ATTR_RATE = 1 << 2, /* min_tx_rate and max_tx_rate */
	VF_ATTR_SPOOFCHK = 1 << 3,
	VF_ATTR_TRUST = 1 << 4,
	VF_ATTR_LINK_STATE = 1 << 5,
	VF_ATTR_GUID = 1 << 6, /* node GUID and port GUID */
	VF_ATTR_ALL = (1 << 7) - 1,
};

struct vf_attrs {
	unsigned int set;  /* VF_ATTR_*: the members of `to` to apply */
	struct vf_info to; /* only vlans[0] is used; n_vlans is not */
};

/* Returns the netconf key of the lowest bit in `attr`, "vlan", "mac" ..., for messages. */
const char *vf_attr_name(unsigned int attr);

/* Computes the attributes of `want` that differ from `now`. spoofchk and trust always differ if the
 * driver does not report them. */
unsigned int vf_plan_missing(const struct vf_attrs *want, const struct vf_info *now);
/*
 * Computes what restores a VF: all attributes that differ from `was`. spoofchk and trust that the
 * driver did not report before the ADD or does not report now are only changed if `requested`
 * (VF_ATTR_*: set for the pod) has them; if `was` has no value for such an attribute, it is set to
 * the default (spoofchk on, trust off). A MAC of length 0 and GUIDs without has_guid in `was` are
 * unknown and not changed.
 */
struct vf_attrs vf_plan_restore(const struct vf_info *was, const struct vf_info *now,
				unsigned int requested);
/*
 * Guesses the state that a VF without a record had before the ADD: the state of `sibling`, an
 * unused VF of the same PF. sibling NULL: the defaults of drivers (no VLAN, no rate limit, spoofchk
 * on, trust off, link state auto). `mac`: the MAC to set if the sibling has an administrative MAC;
 * length 0: unknown. GUIDs are not changed.
 */
struct vf_info vf_plan_guess(const struct vf_info *now, const struct vf_info *sibling,
			     const struct mac *mac);
/* Adds the messages for want->set and returns their number. `attrs` (VF_ATTRS_MAX elements)
 * receives the attribute of each message. */
enum { VF_ATTRS_MAX = 8 };
size_t vf_plan_batch(const struct vf_attrs *want, const struct vf_ref *ref, struct nl_batch *b,
		     unsigned int attrs[static VF_ATTRS_MAX]);

#endif
