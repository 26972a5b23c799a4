/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_RDMA_RDMA_H
#define UNIRAIL_KERN_RDMA_RDMA_H

/* RDMA devices of the caller's namespace: inventory by RDMA netlink (works without device nodes)
 * and, for what needs the device opened, libibverbs. */

#include "base/file.h"
#include "base/ip.h"
#include "kern/netlink/nl.h"

enum { RDMA_NAME_MAX = 64, RDMA_PORTS_MAX = 8, RDMA_REASON_MAX = 256 };

struct rdma_port {
	uint32_t port;
	char netdev[16];
	int netdev_index;
	uint8_t state, phys_state; /* IB_PORT_*, IB_PORT_PHYS_STATE_* */
	uint32_t lid, sm_lid;
	char link_layer[16]; /* "Ethernet", "InfiniBand" (verbs, else sysfs); "" unknown */
	uint32_t active_mtu; /* bytes, verbs; 0 unknown */
	int gid_count;	     /* verbs: entries in use */
};

struct rdma_dev {
	uint32_t index, n_ports; /* ports[] holds at most RDMA_PORTS_MAX of them */
	char name[RDMA_NAME_MAX];
	char fw[64];
	char driver[32];   /* rdma-core's name of the provider: "mlx5", "rxe"; "" unknown */
	char protocol[16]; /* "ib", "roce", "iw", "opa"; "" unknown */
	char uverbs[16];   /* "uverbs0": its node in /dev/infiniband; "" none */
	uint64_t node_guid, sys_image_guid;
	uint8_t node_type;
	struct rdma_port ports[RDMA_PORTS_MAX];
	bool in_verbs; /* libibverbs lists it too (a provider is linked, /dev/infiniband is there) */
	char reason[RDMA_REASON_MAX]; /* why libibverbs cannot use it, and the remedy; "" when it can */
};

enum rdma_netns_mode { RDMA_NETNS_EXCLUSIVE, RDMA_NETNS_SHARED };

/* A kernel without RDMA gives 0 devices and *supported false. free() the list. */
int rdma_dev_list(struct rdma_dev **ret, size_t *n, bool *supported, struct err *e);
/* -EPROTONOSUPPORT: a kernel without RDMA; -EOPNOTSUPP: one from before Linux 5.2, always shared. */
int rdma_netns_mode_get(enum rdma_netns_mode *ret, struct err *e);

const char *rdma_port_state_name(uint8_t state);      /* "ACTIVE", "DOWN" ... */
const char *rdma_port_phys_state_name(uint8_t state); /* "LINK_UP", "DISABLED" ... */
const char *rdma_providers(void);		      /* linked into this binary: "mlx5,rxe" */

/* rdma_nl_list() lists what netlink reports; rdma_sysfs_fill() adds what only sysfs and /dev under
 * r show. */
int rdma_nl_list(struct nl_wire *w, struct rdma_dev **ret, size_t *n, struct err *e);
int rdma_nl_netns_mode(struct nl_wire *w, enum rdma_netns_mode *ret, struct err *e);
void rdma_sysfs_fill(const struct root *r, struct rdma_dev *d);
/* Sets d->why for a device that libibverbs does not list. */
void rdma_explain_no_verbs(const struct root *r, struct rdma_dev *d);
/* Queries libibverbs: in_verbs, link layer, MTU, GIDs; sets d->why if a device cannot be opened. */
void rdma_verbs_fill(struct rdma_dev *list, size_t n);

#endif
