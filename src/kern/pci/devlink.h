/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_PCI_DEVLINK_H
#define UNIRAIL_KERN_PCI_DEVLINK_H

/*
 * The embedded switch of a PF, versions and parameters of a device, by devlink over generic netlink
 * (Documentation/networking/devlink). The wire is NL_GENERIC in the namespace of the devlink
 * instance, which is the initial one unless a reload moved the instance. Changes need
 * CAP_NET_ADMIN.
 */

#include "kern/netlink/nl.h"

enum eswitch_mode { ESWITCH_LEGACY, ESWITCH_SWITCHDEV, ESWITCH_OTHER };
/* maximum size of a device name (such as "0000:3b:00.0") with its NUL */
enum { DEVLINK_NAME_MAX = 32 };

struct devlink; /* a wire, and the numbers of devlink's netlink family and multicast group */

/* w is borrowed and must exist until devlink_cleanup(). -EOPNOTSUPP (kind ERR_UNAVAILABLE): the
 * kernel has no devlink. */
int devlink_open(struct devlink **ret, struct nl_wire *w, struct err *e);
void devlink_cleanup(struct devlink **d);
#define auto_devlink __attribute__((cleanup(devlink_cleanup)))

/* Reads the eswitch mode. -EOPNOTSUPP: the device or its driver has no eswitch, so its mode is
 * always legacy. */
int devlink_eswitch_get(struct devlink *d, const char *bdf, enum eswitch_mode *ret, struct err *e);
/* Sets the eswitch mode, which takes seconds with many VFs. The caller unbinds the VFs first,
 * because mlx5 refuses the change while they are bound (-EBUSY, kind ERR_AGAIN). */
int devlink_eswitch_set(struct devlink *d, const char *bdf, enum eswitch_mode mode, struct err *e);
const char *eswitch_mode_name(enum eswitch_mode mode); /* "legacy", "switchdev", "unknown" */

/*
 * Returns the running version of one component ("fw.app.name": the DDP package of an Intel NIC). `device`: an address,
 * or the name of an auxiliary device ("mlx5_core.sf.4"). -ENOENT: the device does not report this component.
 */
int devlink_info_version(struct devlink *d, const char *device, const char *name, char *ret,
			 size_t size, struct err *e);
/* Reads the first value of a bool parameter ("enable_rdma"), which has one value per
 * configuration mode. -EINVAL (from the kernel), -ENOENT: the device does not have the
 * parameter. */
int devlink_param_bool(struct devlink *d, const char *device, const char *name, bool *ret,
		       struct err *e);

#endif
