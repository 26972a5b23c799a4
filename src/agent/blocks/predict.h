/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_BLOCKS_PREDICT_H
#define UNIRAIL_AGENT_BLOCKS_PREDICT_H

/*
 * Predicts which pools a new pod will use. Between the pod's scheduling and the creation of its
 * networks the kubelet mounts the pod's volumes and the container runtime starts a sandbox, which
 * is enough time to claim a block.
 *
 * The prediction uses what is known without the host's CNI configuration and its master interfaces:
 * the networks in the pod's annotation, the `ipam` of their definitions, and the pools of the pod
 * and its namespace, in the order of precedence. Errors are not reported: the request for the
 * addresses reports them.
 */

#include "agent/cluster/cluster.h"
#include "spec/pool_annotation.h"

struct expect {
	struct cluster *cluster;
	const char *node;
	struct pod_pools_conf conf;
	/* called with the first pool of each interface and address family that has pools */
	void (*pool)(void *arg, const char *name);
	void *arg;
};

void expect_pod(const struct expect *x, const struct pod_facts *pod);

#endif
