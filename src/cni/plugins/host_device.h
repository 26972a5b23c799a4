/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_PLUGINS_HOST_DEVICE_H
#define UNIRAIL_CNI_PLUGINS_HOST_DEVICE_H

/*
 * The host-device plugin: a network device of the node moves into the pod. Its netconf, keys
 * matched as Go's encoding/json does. Of the first four keys, the first that is set selects the
 * device:
 *
 *	device          its name
 *	hwaddr          its MAC address
 *	kernelpath      absolute path of its directory, below /sys/devices/
 *	pciBusID        its PCI address
 *	runtimeConfig.deviceID  a PCI address or an auxiliary device; used instead of pciBusID
 *	ipam, dns       as in every link driver; without ipam.type the device has no addresses
 *
 * A PCI device bound to a userspace driver (DPDK) has no link: it gets addresses and a result only.
 *
 * While the device is in the pod, its alias is its name on the node, as with the original. DEL
 * moves the device back to the node under that name.
 *
 * Before the move, ADD records the device's state in
 * /var/lib/cni/host-device/<container>-<interface>: up or down, MAC, MTU, alias and permanent
 * addresses. DEL, or GC after a lost DEL, restores this state. Without a record the device stays
 * down, as with the original. The device loses its routes, except those that the kernel adds
 * with its addresses.
 *
 * If the pod's namespace was deleted, the kernel has returned a physical device to the node under
 * its name in the pod, or as dev<index>; DEL and GC find the device by the alias. Its group is not
 * LINK_GROUP, so DEL does not delete it with the links of that group.
 *
 * An alternative name of the device that equals a link's name in the pod is renamed to "<name on
 * the node>.altname.<alternative name>", and restored when the device is back on the node.
 */

#include "base/file.h"
#include "kern/net/link.h"

struct host_device_conf {
	const char *device, *kernelpath, *pci,
		*id; /* values of the keys; NULL: not given; id is runtimeConfig.deviceID */
	struct mac hwaddr;
};

/* State read from the files of the node. */
struct host_device_files {
	char **names; /* names of the links that sysfs lists for the configured device, sorted */
	size_t n;
	bool dpdk;
};

int host_device_read(const struct root *root, const struct host_device_conf *c,
		     struct host_device_files *ret, struct err *e);
void host_device_files_done(struct host_device_files *f);
#define auto_host_device __attribute__((cleanup(host_device_files_done)))

/* --- return of the device to the node (host_device_restore.c) --- */
struct attach;
struct rail;
struct nl_batch;
void host_device_rename_conflicting(const struct link *l, const char *altname, struct nl_batch *b);
/* Records the state of the devices before they are moved. */
int host_device_prepare(struct attach *a, struct err *e);
int host_device_undo(struct attach *a, const struct rail *rail, struct err *e);
int host_device_del(struct attach *a, const struct rail *rail, struct err *e);
int host_device_gc(struct attach *a, const struct rail *rail, struct err *e);

/* --- pure functions --- */
/* Returns the link of the node that the configuration names; NULL: none. */
const struct link *host_device_pick(const struct host_device_conf *c,
				    const struct host_device_files *f, const struct link *links,
				    size_t n);
/* Returns whether a link of the pod was moved there: its alias is its name on the node. */
bool host_device_is_moved(const struct link *l);
/*
 * Returns the configured device if the kernel returned it to the node when a pod's namespace was
 * deleted: the link has an alias, its name is ifname (its name in the pod; NULL: not known) or
 * dev<index>, and no other link has the name in the alias. NULL: none.
 */
const struct link *host_device_stranded(const struct host_device_conf *c,
					const struct host_device_files *f, const char *ifname,
					const struct link *links, size_t n);

#endif
