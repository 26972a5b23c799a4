/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_DEVICE_VF_RESTORE_H
#define UNIRAIL_CNI_DEVICE_VF_RESTORE_H

/*
 * Restores a VF to the host, with or without a record, from any intermediate state of an ADD or
 * DEL: it compares the current state with the intended one. Nothing of the pod remains: attributes
 * set through the PF, MAC, MTU, name, alias, alternative names.
 *
 * Until the restore is complete, the alias of the netdev is the netdev's name on the host; the last
 * step sets the former alias again.
 */

#include "cni/device/vf_place.h"
#include "cni/device/vf_record.h"

enum vf_where { VF_NOWHERE, VF_IN_POD, VF_ON_NODE };

struct vf_found {
	enum vf_where where;
	struct link link;
	bool leftover; /* the netdev is on the node, but not completely restored */
};

struct vf_restore_state {
	const struct root *root;
	struct nl_wire *host;
	struct nl_wire *pod; /* NULL: the pod's namespace does not exist any more */
};

/* Finds the netdev by its PCI function, else (before Linux 5.14) by name and alias. Returns 0 with
 * VF_NOWHERE if it is not found. */
int vf_restore_find(const struct vf_restore_state *h, const struct vf_record *r,
		    struct vf_found *ret, struct err *e);
/* Restores the netdev from where it was found: MAC, MTU, move to the host with its name, then
 * alternative names and alias; the netdev is down afterwards. Changes nothing if the netdev is
 * on the node and not a leftover. */
int vf_restore_netdev(const struct vf_restore_state *h, const struct vf_record *r,
		      const struct vf_found *f, struct err *e);

enum {
	VF_RESTORE_UP = 1 << 0, /* the netdev is set up if it was up before the ADD */
	/* an attribute that the driver refuses to restore is an error */
	VF_RESTORE_STRICT = 1 << 1,
};

/*
 * Restores everything. Returns 1 if the restore is incomplete and must be repeated before the VF is
 * used again: the netdev is neither in the pod nor on the node, since something holds the dead
 * pod's namespace open; or the driver refuses attributes now (ixgbe and igb need a carrier for
 * rates), which must not block the pod's deletion. A function that does not exist any more or was
 * recreated is success. A condition that may pass within seconds is an error of kind ERR_AGAIN.
 */
int vf_restore(const struct vf_restore_state *h, const struct vf_record *r, unsigned int flags,
	       struct err *e);

/* --- parts of a restore that sriov or ib-sriov also calls directly --- */
/* Evaluates the result `code` of finding the VF. Returns 1: it exists, 0: it no longer exists
 * (logged), negative: another error. */
int vf_restore_found(const char *bdf, int code, const struct err *reason, struct err *e);
/* Finds the VF of a record. Returns as vf_restore_found(), and 0 also if the VF was recreated after
 * the record was written (logged). */
int vf_restore_place(const struct root *root, struct nl_wire *host, const struct vf_record *r,
		     struct vf_place *ret, struct err *e);
/* Evaluates the failure to restore an attribute: `code` and `reason`. Without VF_RESTORE_STRICT an
 * attribute that the driver refuses (not kind ERR_AGAIN) is logged, and 1 is returned: a later
 * restore sets it. Otherwise returns the error. */
int vf_restore_come_again(const struct vf_record *r, unsigned int flags, int code,
			  const struct err *reason, struct err *e);
/* Restores the alternative names. If a name cannot be added, for example because another device
 * has it, only logs the failure. */
int vf_restore_altnames(struct nl_wire *host, const struct link *l, const struct vf_record *r,
			struct err *e);

/* Builds a record from the device itself: name from the netdev's present name or alias, MAC from
 * the hardware (a random one if that equals `pods`, the pod's requested MAC), attributes from an
 * unused VF of the same PF. */
int vf_restore_guess(const struct vf_restore_state *h, const char *bdf, const char *ifname,
		     const struct mac *pods, struct vf_record *ret, struct err *e);

#endif
