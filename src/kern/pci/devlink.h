/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_PCI_DEVLINK_H
#define UNIRAIL_KERN_PCI_DEVLINK_H

/*
 * The embedded switch of a PF and its ports, by devlink over generic netlink
 * (Documentation/networking/devlink). The wire is NL_GENERIC in the namespace of the devlink
 * instance (reloading can move it; else the initial one). Changing needs CAP_NET_ADMIN.
 */

#include "kern/netlink/nl.h"

enum eswitch_mode { ESWITCH_LEGACY, ESWITCH_SWITCHDEV, ESWITCH_OTHER };
enum devlink_flavour {
	DEVLINK_PHYSICAL,
	DEVLINK_PCI_PF,
	DEVLINK_PCI_VF,
	DEVLINK_PCI_SF,
	DEVLINK_VIRTUAL, /* a VF's or SF's own port, seen from inside */
	DEVLINK_FLAVOUR_OTHER,
};

struct devlink_port {
	char bus[16], dev[32]; /* "pci", "0000:3b:00.0" */
	uint32_t index;
	enum devlink_flavour flavour;
	int netdev_index;
	char netdev[16], ibdev[64]; /* the representor, or the port's own; "" none here */
	uint32_t number;	    /* physical port */
	uint32_t controller;
	int pf, vf, sf; /* which function a representor stands for; -1: not reported */
	bool external;	/* on another host's side of a DPU */
};

struct devlink; /* a wire and the family's number */

/* `w` stays the caller's and must outlive it. -EOPNOTSUPP (kind ERR_UNAVAILABLE): this kernel has no
 * devlink. */
int devlink_open(struct devlink **ret, struct nl_wire *w, struct err *e);
void devlink_cleanup(struct devlink **d);
#define auto_devlink __attribute__((cleanup(devlink_cleanup)))

/* -EOPNOTSUPP: the device (or its driver) has no eswitch: it is legacy for ever. */
int devlink_eswitch_get(struct devlink *d, const char *bdf, enum eswitch_mode *ret, struct err *e);
/* Takes seconds with many VFs. The VFs should be unbound first (mlx5: -EBUSY, kind ERR_AGAIN). */
int devlink_eswitch_set(struct devlink *d, const char *bdf, enum eswitch_mode mode, struct err *e);
const char *eswitch_mode_name(enum eswitch_mode mode); /* "legacy", "switchdev" */
/* Ports of a device, bdf NULL: of all; in the kernel's order. free() the list. */
int devlink_port_list(struct devlink *d, const char *bdf, struct devlink_port **ret, size_t *n,
		      struct err *e);

/*
 * The running version of one component ("fw.app.name": an Intel NIC's DDP package). `device` is an address or an
 * auxiliary device's name ("mlx5_core.sf.4"). -ENOENT: the device does not tell this one.
 */
int devlink_info_version(struct devlink *d, const char *device, const char *name, char *ret,
			 size_t size, struct err *e);
/* A parameter that is a bool ("enable_rdma"), its first value. -ENOENT: the device has none of this name. */
int devlink_param_bool(struct devlink *d, const char *device, const char *name, bool *ret,
		       struct err *e);

#endif
