/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_DEVICE_VF_RESTORE_H
#define UNIRAIL_CNI_DEVICE_VF_RESTORE_H

/*
 * A VF back as it was, by its record or without one, however far an ADD or an earlier DEL came:
 * what is there is compared with what is to be. Nothing of the pod's is left: attributes set through
 * the PF, MAC, MTU, name, alias, alternative names.
 *
 * The alias tells a netdev that is not home yet, or not all of it: it is the name to go home by
 * until the last step.
 */

#include "cni/device/vf_place.h"
#include "cni/device/vf_record.h"

enum vf_where { VF_NOWHERE, VF_IN_POD, VF_ON_NODE };

struct vf_found {
	enum vf_where where;
	struct link link;
	bool stray; /* on the node, but not as it was: the pod's namespace is gone, or a DEL stopped */
};

struct vf_home {
	const struct root *root;
	struct nl_wire *host;
	struct nl_wire *pod; /* NULL: its namespace is gone */
};

/* The netdev by its PCI function, else (before Linux 5.14) by name and alias. */
int vf_home_find(const struct vf_home *h, const struct vf_record *r, struct vf_found *ret,
		 struct err *e);
/* The attributes, through the PF. What no longer can be set is no error: a warning. */
int vf_home_attrs(const struct vf_home *h, const struct vf_place *p, const struct vf_record *r,
		  struct err *e);
/* The netdev, from where it was found: MAC, MTU, home under its name, then alternative names and
 * alias. It is down afterwards. */
int vf_home_netdev(const struct vf_home *h, const struct vf_record *r, const struct vf_found *f,
		   struct err *e);

enum {
	VF_HOME_UP = 1 << 0,	 /* the netdev goes up if it was */
	VF_HOME_STRICT = 1 << 1, /* attributes that cannot be set back are an error */
};

/*
 * All of it. 1: all that can be done is, and somebody has to come again, before the VF is given
 * away: its netdev is neither in the pod nor on the node, since something keeps the dead pod's
 * namespace; or the driver refuses attributes now (ixgbe and igb want a carrier for rates), which
 * must not keep the pod from going. A function that is gone (the number of VFs was changed), or
 * that was made anew, is success. What may pass by itself in seconds is an error, ERR_AGAIN.
 */
int vf_home_bring(const struct vf_home *h, const struct vf_record *r, unsigned int flags,
		  struct err *e);

/* Steps of it that ib-sriov has, too: what an attribute's failure `why` means for the caller; and the
 * alternative names (what somebody else has by now is lost). */
int vf_home_come_again(const struct vf_record *r, unsigned int flags, int code,
		       const struct err *why, struct err *e);
int vf_home_altnames(struct nl_wire *host, const struct link *l, const struct vf_record *r,
		     struct err *e);

/* A record from what the device itself tells: name by the alias, MAC of the hardware (if that is
 * `pods`, the one that the pod asked for, a random one), attributes like those of a VF of the same
 * PF that nobody has. */
int vf_home_guess(const struct vf_home *h, const char *bdf, const char *ifname,
		  const struct mac *pods, struct vf_record *ret, struct err *e);
/* default_device_exit_net() calls a link dev<ifindex> when its name is taken. */
bool vf_home_is_kernel_name(const char *name);

#endif
