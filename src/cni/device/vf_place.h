/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_DEVICE_VF_PLACE_H
#define UNIRAIL_CNI_DEVICE_VF_PLACE_H

/*
 * Where a virtual function is: its PCI function, its PF, its number there, and who drives it. A
 * function keeps its PCI address wherever its netdev is and whatever that is called, so everything
 * about a VF is found by that.
 */

#include "kern/net/link.h"
#include "kern/pci/pci.h"

struct vf_place {
	struct pci_dev pci; /* the VF; physfn is its PF's address */
	uint32_t number;
	bool dpdk;		    /* a userspace driver has it: there is no netdev */
	char netdev[LINK_NAME_MAX]; /* in the node's namespace; "": elsewhere, or none */
	struct link pf;		    /* the PF's netdev; index 0: none, for it is with vfio itself */
};

/*
 * The VF of this PCI address. -ENODEV (kind ERR_UNAVAILABLE): there is no such function, or it is
 * no longer among its PF's; -EINVAL (ERR_CONF): no PCI address, or not a VF. A PF without a netdev
 * is no error, p->pf.index is 0 then. w: the node's; NULL: of the PF, only its name is filled in.
 */
int vf_place_read(const struct root *r, struct nl_wire *w, const char *bdf, struct vf_place *ret,
		  struct err *e);
/* Of what vf_place_read() said: there is no such VF (any more), and not only no answer. */
bool vf_place_is_gone(int code);
/* "PF network device not found ..." with what may be the reason; -ENODEV, for who needs the PF. */
int vf_place_no_pf(const struct vf_place *p, struct err *e);
/* The PF's name in the words of messages: its netdev's, else its address. */
const char *vf_place_pf_name(const struct vf_place *p);

#endif
