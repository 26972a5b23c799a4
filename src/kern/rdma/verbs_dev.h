/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_RDMA_VERBS_DEV_H
#define UNIRAIL_KERN_RDMA_VERBS_DEV_H

/* RDMA devices opened through libibverbs: their ports and GIDs. kern/rdma/rdma.h lists the devices, and the reason why
 * one cannot be opened. */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum verbs_gid_type { VERBS_GID_IB, VERBS_GID_ROCE_V1, VERBS_GID_ROCE_V2 };

struct verbs_gid {
	uint32_t index, port;
	enum verbs_gid_type type;
	uint8_t raw[16]; /* an IPv4 address is ::ffff:a.b.c.d */
	int ifindex;	 /* ifindex of its netdev, which may be in another namespace; 0: none */
};

struct verbs_port {
	uint32_t port;
	bool ethernet; /* true: RoCE; false: InfiniBand */
	uint8_t state; /* IBV_PORT_*; rdma_port_state_name() returns its name */
	uint16_t lid;
	uint32_t mtu; /* active MTU, in bytes */
};

struct verbs_dev;

/* Opens a device. -ENODEV: libibverbs does not list it; -EACCES, -EPERM: e has the remedy. */
int verbs_open(struct verbs_dev **ret, const char *name, struct err *e);
void verbs_close(struct verbs_dev *d);
void verbs_cleanup(struct verbs_dev **d);
#define auto_verbs __attribute__((cleanup(verbs_cleanup)))
const char *verbs_name(const struct verbs_dev *d);
/*
 * Asynchronous events of the device. verbs_events_fd() returns a descriptor to poll, which the device owns and which is
 * non-blocking from then on. verbs_event_next() returns 1 if the state of a port has changed, 0 if no event is waiting,
 * -ENODEV if the device was removed or has failed: close it. Other events are skipped.
 */
int verbs_events_fd(struct verbs_dev *d, struct err *e);
int verbs_event_next(struct verbs_dev *d);
int verbs_port_get(struct verbs_dev *d, uint32_t port, struct verbs_port *ret, struct err *e);
/* Lists the used entries of the GID tables of all ports; the caller frees the list. */
int verbs_gids(struct verbs_dev *d, struct verbs_gid **ret, size_t *n, struct err *e);
/* returns a name, "IB", "RoCE v1", "RoCE v2" */
const char *verbs_gid_type_name(enum verbs_gid_type t);

#endif
