/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_HOST_STEPS_RAILS_H
#define UNIRAIL_HOST_STEPS_RAILS_H

/*
 * All rails of all nodes from one plan. A cluster network is divided into one network per rail
 * (`rail-prefix`), and each of these into one per node (`node-prefix`). On rail i, node n has
 * network n of rail network first-rail + i, all counted from 0: the first host address of network n
 * is the gateway, the second belongs to the node, and the rest are for pods
 * (configs/cluster/roce-sriov.yaml has the same layout). Each rail of this node is configured as by
 * `unirail host addr` with policy-route. With the key `pools` the SpiderIPPools of all nodes are
 * printed instead.
 */

#include "host/steps/addr.h"

struct host_rails_want {
	struct host_want head;
	const char *plan, *cidr, *interfaces, *nodes, *node;
	int64_t rail_prefix, node_prefix, first_rail, mtu;
	bool pools;
};

enum { HOST_RAILS_MAX = 64, HOST_NODES_MAX = 65536 };

/* One rail of one node. */
struct host_rail_net {
	struct ipnet net;
	/* first, last: range of the pods' addresses; family 0: no address is left for pods */
	struct ipaddr gateway, node, first, last;
};

extern const struct host_kind host_rails;

#endif
