/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DEVICE_SERVE_PORT_EVENTS_H
#define UNIRAIL_DEVICE_SERVE_PORT_EVENTS_H

/*
 * Events of RDMA ports that have no netdev here (InfiniBand without IPoIB). rtnetlink does not
 * report the state of such a port, so without this module it is polled. The kernel sends events
 * (PORT_ACTIVE, PORT_ERR) to a process that has opened the HCA.
 *
 * An HCA is opened once, at the start, before the sandbox, because the process cannot open device
 * nodes afterwards. Other HCAs are polled: an HCA that appears later or returns; every HCA of a
 * process that may not open device nodes (the agent's container); and every HCA whose driver does
 * not release an open HCA (mlx5 and mlx4 release it), because such a driver could not be unloaded
 * while this process runs.
 */

#include "base/file.h"
#include "base/loop.h"
#include "device/resource/node.h"

struct port_events;

struct port_events_conf {
	struct loop *loop;
	const struct root *root;    /* root of this host's files */
	void (*changed)(void *arg); /* the state of a port may have changed */
	void *arg;
};

/* Opens the HCAs of the devices for which port_events_wants() is true, except those that cannot
 * be opened. Never returns NULL. */
struct port_events *port_events_new(const struct port_events_conf *c,
				    const struct node_devices *node);
void port_events_free(struct port_events *p); /* p may be NULL */

/* Pure: returns whether the state of the device's ports is reported only by events of its HCAs. */
bool port_events_wants(const struct node_device *d);

#endif
