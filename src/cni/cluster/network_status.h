/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_CLUSTER_NETWORK_STATUS_H
#define UNIRAIL_CNI_CLUSTER_NETWORK_STATUS_H

/*
 * The pod's annotation k8s.v1.cni.cncf.io/network-status, byte for byte as Multus writes it: an object
 * a network, in order, indented by four. A result with one interface has one object with all its
 * addresses, whose interface is the one in the pod; one with several has an object for each of
 * them in the pod, addresses by interface, those without one at the last. `gateway` are the default
 * routes' gateways, "<nil>" for a route without. `mtu` is there when results of that version have it,
 * from 1.0.0 on.
 */

#include "cni/protocol/result.h"

struct net_status {
	const char *name; /* "team/rail0", or the network's own */
	const struct cni_result *result;
	enum cni_version version;
	bool is_default;	   /* the pod's first network */
	const struct json *device; /* of a device information file, an object; NULL: none */
};

void net_status_write(const struct net_status *v, size_t n, struct buf *b);

/* "Add eth0 [10.1.0.9/16] from podnet, net1 [172.16.1.9/24] from team/rail0": the words of the
 * event AddedInterface. */
void net_status_words(const struct net_status *v, size_t n, struct buf *b);

#endif
