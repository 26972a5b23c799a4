/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_RDMA_RDMA_H
#define UNIRAIL_KERN_RDMA_RDMA_H

/* RDMA devices of the caller's namespace: inventory by RDMA netlink (works without device nodes)
 * and, for values that need an open device, libibverbs. */

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
	/* "Ethernet", "InfiniBand" (from libibverbs, else sysfs); "": unknown */
	char link_layer[16];
	uint32_t active_mtu; /* bytes, from libibverbs; 0: unknown */
	int gid_count;	     /* number of used entries, from libibverbs */
};

struct rdma_dev {
	uint32_t index, n_ports; /* ports[] holds at most RDMA_PORTS_MAX of them */
	char name[RDMA_NAME_MAX];
	char fw[64];
	char driver[32];   /* name of the provider in rdma-core: "mlx5", "rxe"; "": unknown */
	char protocol[16]; /* "ib", "roce", "iw", "opa"; "": unknown */
	char uverbs[16];   /* name of its node in /dev/infiniband: "uverbs0"; "": none */
	uint64_t node_guid, sys_image_guid;
	uint8_t node_type;
	struct rdma_port ports[RDMA_PORTS_MAX];
	/* libibverbs lists the device as well: its provider is linked into this binary, and it has
	 * a node in /dev/infiniband */
	bool in_verbs;
	/* the reason why libibverbs cannot use the device, and the remedy; "": libibverbs can */
	char reason[RDMA_REASON_MAX];
};

enum rdma_netns_mode { RDMA_NETNS_EXCLUSIVE, RDMA_NETNS_SHARED };

/* Lists the devices; the caller frees the list. On a kernel without RDMA the list is empty and
 * *supported is false. */
int rdma_dev_list(struct rdma_dev **ret, size_t *n, bool *supported, struct err *e);
/* Reads the RDMA mode. -EPROTONOSUPPORT: a kernel without RDMA; -EOPNOTSUPP: a kernel before Linux
 * 5.2, whose mode is always shared. */
int rdma_netns_mode_get(enum rdma_netns_mode *ret, struct err *e);

const char *rdma_port_state_name(uint8_t state);      /* "ACTIVE", "DOWN" ... */
const char *rdma_port_phys_state_name(uint8_t state); /* "LINK_UP", "DISABLED" ... */
/* Returns the providers linked into this binary: "mlx5,rxe". */
const char *rdma_providers(void);

/* rdma_nl_list() lists the devices that netlink reports; rdma_sysfs_fill() sets driver, uverbs and
 * link layers from sysfs under r where they are not set yet. */
int rdma_nl_list(struct nl_wire *w, struct rdma_dev **ret, size_t *n, struct err *e);
int rdma_nl_netns_mode(struct nl_wire *w, enum rdma_netns_mode *ret, struct err *e);
void rdma_sysfs_fill(const struct root *r, struct rdma_dev *d);
/* Sets d->reason for a device that libibverbs does not list. */
void rdma_explain_no_verbs(const struct root *r, struct rdma_dev *d);
/* Sets from libibverbs, for each device of the list: in_verbs, and the link layer, MTU and GID
 * count of its ports. Sets reason if libibverbs cannot open the device. */
void rdma_verbs_fill(struct rdma_dev *list, size_t n);

#endif
