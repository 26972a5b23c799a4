/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_TESTS_FUZZ_NETLINK_H
#define UNIRAIL_TESTS_FUZZ_NETLINK_H

/* The requests and events of fuzz_netlink.c that netlink_devices.c contains, one function each. */

#include <string.h>

#include "fuzz.h"
#include "kern/netlink/nl.h"

typedef int netlink_query(struct nl_wire *w, struct err *e);

/* netlink_devices.c */
netlink_query netlink_vfs, netlink_vf, netlink_devlink, netlink_rdma_used, netlink_rdma_counters,
	netlink_altnames, netlink_rdma_event, netlink_uevent, netlink_rdma_stats;

/* The input after its first byte, for functions that parse other data than answers. */
struct span netlink_bytes(void);

static inline bool ended(const char *s, size_t size)
{
	return memchr(s, '\0', size) != NULL;
}

#endif
