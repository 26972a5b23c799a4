/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_RDMA_GID_H
#define UNIRAIL_KERN_RDMA_GID_H

/*
 * GIDs of RDMA devices, by sysfs (drivers/infiniband/core/sysfs.c). The kernel adds two GIDs, one
 * of RoCE v1 and one of RoCE v2, for every IP address of a RoCE port's netdev, and of its macvlans,
 * ipvlans and VLANs in any namespace. It adds the GIDs some milliseconds after the address, in the
 * order in which the addresses were added. On InfiniBand the port's own GID is entry 0.
 */

#include "base/file.h"
#include "base/ip.h"

enum { GID_NDEV_MAX = 16, GID_DEVICE_MAX = 64 };

struct gid {
	char device[GID_DEVICE_MAX];
	uint32_t port;
	int index;
	struct ipaddr address; /* an IPv4-mapped GID is stored as IPv4 */
	bool infiniband;       /* link layer of the port */
};

/*
 * Finds the RoCE v2 GID of an address on any port of the device, for the netdev named `ndev`; on
 * InfiniBand it finds entry 0 of the first port, whatever the address is. sys: the root directory
 * that contains /sys, or a mount of sysfs itself (netns_sysfs()); dir: "/sys", or "" if sys is a
 * mount of sysfs. Returns 1 if found, 0 if not (yet); negative: the device cannot be read.
 */
int gid_find(const struct root *sys, const char *dir, const char *device,
	     const struct ipaddr *address, const char *ndev, struct gid *ret, struct err *e);
/* Reads the name of the netdev to which the first GID of the device's port 1 belongs; returns false
 * if there is none. */
bool gid_netdev(const struct root *sys, const char *dir, const char *device,
		char ret[static GID_NDEV_MAX]);
/* "::ffff:172.16.1.20" */
const char *gid_str(const struct ipaddr *address, char buf[static IP_TEXT_MAX]);

/* Opens the sysfs of a network namespace as a detached mount, whose /class is the /sys/class of
 * that namespace. Needs Linux 5.2 or later, and CAP_SYS_ADMIN. */
int netns_sysfs(int netns_fd, struct root *ret, struct err *e);

#endif
