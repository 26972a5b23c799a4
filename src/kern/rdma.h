/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_RDMA_H
#define UNIRAIL_KERN_RDMA_H

/* RDMA devices of the caller's namespace: inventory by RDMA netlink (works without device nodes)
 * and, for what needs the device opened, libibverbs. */

#include "base/ip.h"
#include "kern/nl.h"

enum { RDMA_NAME_MAX = 64, RDMA_PORTS_MAX = 8 };

struct rdma_port {
	uint32_t port;
	char netdev[16];
	int netdev_index;
	uint8_t state, phys_state; /* IB_PORT_*, IB_PORT_PHYS_STATE_* */
	uint32_t lid, sm_lid;
	char link_layer[16]; /* from verbs: "Ethernet", "InfiniBand", "" unknown */
	uint32_t active_mtu; /* bytes, verbs; 0 unknown */
	int gid_count;
};

struct rdma_dev {
	uint32_t index, n_ports;
	char name[RDMA_NAME_MAX];
	char fw[64];
	char driver[32]; /* from sysfs or the protocol attribute: "mlx5", "rxe" */
	uint64_t node_guid, sys_image_guid;
	uint8_t node_type;
	struct rdma_port ports[RDMA_PORTS_MAX];
	bool in_verbs; /* libibverbs lists it too (a provider is linked, /dev/infiniband is there) */
};

enum rdma_netns_mode { RDMA_NETNS_EXCLUSIVE, RDMA_NETNS_SHARED };

/* A kernel without RDMA gives 0 devices and *supported false. free() the list. */
int rdma_dev_list(struct rdma_dev **ret, size_t *n, bool *supported, struct err *e);
int rdma_netns_mode_get(enum rdma_netns_mode *ret, struct err *e);

#endif
