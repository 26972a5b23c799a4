/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DEVICE_SERVE_PORT_EVENTS_H
#define UNIRAIL_DEVICE_SERVE_PORT_EVENTS_H

/*
 * Events of RDMA ports that have no netdev here (InfiniBand without IPoIB): rtnetlink has none for them, so that their state
 * is polled otherwise. The kernel reports them (PORT_ACTIVE, PORT_ERR) to a process that has opened the HCA.
 *
 * An HCA is opened once, at the start, before the sandbox: afterwards the process can neither open device nodes nor needs to.
 * So an HCA that appears later, one that comes back, and every HCA of a process that may not open device nodes (the agent's
 * container) is polled; and every HCA whose driver does not release one that is open (mlx5 and mlx4 do): it could not be unloaded while
 * this process runs.
 */

#include "base/file.h"
#include "base/loop.h"
#include "device/resource/node.h"

struct port_events;

struct port_events_conf {
	struct loop *loop;
	const struct root *root;    /* of this host */
	void (*changed)(void *arg); /* the state of a port may have changed */
	void *arg;
};

/* Opens the HCAs; one that cannot be opened is left out. Never NULL. */
struct port_events *port_events_new(const struct port_events_conf *c,
				    const struct node_devices *node);
void port_events_free(struct port_events *p); /* NULL is fine */
size_t port_events_count(const struct port_events *p);

/* Pure: whether events of the device's ports come from its HCAs only. */
bool port_events_wants(const struct node_device *d);

#endif
