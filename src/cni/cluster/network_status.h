/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_CLUSTER_NETWORK_STATUS_H
#define UNIRAIL_CNI_CLUSTER_NETWORK_STATUS_H

/*
 * The pod's annotation k8s.v1.cni.cncf.io/network-status, byte for byte as Multus writes it: a
 * list of objects in the order of the networks, indented by four. A network whose result has one
 * interface has one object with all addresses; `interface` is this interface if it is in the pod. A
 * network whose result has several interfaces has an object for each interface in the pod, with the
 * addresses of the interface; addresses without an interface are in the last object. `gateway`
 * lists the gateways of the default routes, "<nil>" for a default route without a gateway. `mtu` is
 * present from result version 1.0.0 on.
 */

#include "cni/protocol/result.h"

struct net_status {
	const char *name; /* "team/rail0", or the network name of its configuration */
	const struct cni_result *result;
	enum cni_version version;
	bool is_default;	   /* the pod's first network */
	const struct json *device; /* object of a device information file; NULL: none */
};

void net_status_write(const struct net_status *v, size_t n, struct buf *b);

/* "Add eth0 [10.1.0.9/16] from podnet, net1 [172.16.1.9/24] from team/rail0": the message of the
 * event AddedInterface. */
void network_status_describe(const struct net_status *v, size_t n, struct buf *b);

#endif
