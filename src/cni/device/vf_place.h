/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_DEVICE_VF_PLACE_H
#define UNIRAIL_CNI_DEVICE_VF_PLACE_H

/*
 * Locates a virtual function: PCI function, PF, VF number and driver. A function keeps its PCI
 * address wherever its netdev is and whatever its name is, so the PCI address identifies a VF.
 */

#include "kern/net/link.h"
#include "kern/pci/pci.h"

struct vf_place {
	struct pci_dev pci; /* the VF; physfn is the PF's address */
	uint32_t number;
	bool dpdk;		    /* bound to a userspace driver: no netdev */
	char netdev[LINK_NAME_MAX]; /* netdev in the node's namespace; "": none */
	/* the PF's netdev; index 0: none (the PF is bound to vfio), or in another namespace */
	struct link pf;
};

/*
 * Reads the VF of this PCI address. -ENODEV (kind ERR_UNAVAILABLE): no such function; -ENOENT
 * (ERR_AGAIN): no longer a VF of its PF; -EINVAL (ERR_CONF): not a PCI address, or not a VF. A PF
 * without a netdev is not an error; ret->pf.index is then 0. w: the node's socket; NULL: only the
 * PF's name is set.
 */
int vf_place_read(const struct root *r, struct nl_wire *w, const char *bdf, struct vf_place *ret,
		  struct err *e);
/* Returns whether this error of vf_place_read() means that the VF does not exist, as opposed to an
 * error of the lookup. */
bool vf_place_is_removed(int code);
/* Sets "PF network device not found ..." with the probable reason and returns -ENODEV, for
 * callers that need the PF. */
int vf_place_no_pf(const struct vf_place *p, struct err *e);

#endif
