/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_RDMA_GID_H
#define UNIRAIL_KERN_RDMA_GID_H

/*
 * GIDs of RDMA devices, by sysfs (drivers/infiniband/core/sysfs.c). Every IP address of a netdev on
 * a RoCE port, its macvlans, ipvlans and VLANs in whatever namespace among them, is a GID of the
 * port: an entry of RoCE v1 and one of RoCE v2, in the order in which they came, some milliseconds
 * after the address. On InfiniBand the port's own GID is entry 0.
 */

#include "base/file.h"
#include "base/ip.h"

enum { GID_NDEV_MAX = 16, GID_DEVICE_MAX = 64 };

struct gid {
	char device[GID_DEVICE_MAX];
	uint32_t port;
	int index;
	struct ipaddr address; /* an IPv4-mapped GID is IPv4 */
	bool infiniband;       /* the port's link layer */
};

/*
 * sys: where /sys is, or another mount of sysfs (netns_sysfs()); dir: "/sys", or "" there. The
 * RoCE v2 entry for an address on any port of the device, of the netdev called `ndev`; on
 * InfiniBand entry 0 of the first port, for any address. 1: found, 0: not (yet), negative: the
 * device cannot be read.
 */
int gid_find(const struct root *sys, const char *dir, const char *device,
	     const struct ipaddr *address, const char *ndev, struct gid *ret, struct err *e);
/* The netdev of the device's first port, by its first GID; false: it has none. */
bool gid_netdev(const struct root *sys, const char *dir, const char *device,
		char ret[static GID_NDEV_MAX]);
/* "::ffff:172.16.1.20" */
const char *gid_str(const struct ipaddr *address, char buf[static IP_TEXT_MAX]);

/* Opens the sysfs of the current network namespace as a detached mount: /class in it is /sys/class
 * elsewhere. Linux 5.2; needs CAP_SYS_ADMIN. */
int netns_sysfs(int netns_fd, struct root *ret, struct err *e);

#endif
