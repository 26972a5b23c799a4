/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_BLOCKS_PREDICT_H
#define UNIRAIL_AGENT_BLOCKS_PREDICT_H

/*
 * Pools that a pod will ask for when its networks are made: between its coming to the node and that,
 * the kubelet pulls an image or starts a sandbox, which is time enough to claim a reserve.
 *
 * A guess, from what is known without the netconf of the host and its masters: the networks that the
 * pod's annotation names, their definitions' `ipam`, and the pod's and its namespace's pools, first
 * come first. Nothing is refused here, nor said: the ask does that.
 */

#include "agent/cluster/cluster.h"
#include "spec/pool_annotation.h"

struct expect {
	struct cluster *cluster;
	const char *node;
	struct pod_pools_conf conf;
	void (*pool)(void *arg, const char *name); /* for each interface and family */
	void *arg;
};

void expect_pod(const struct expect *x, const struct pod_facts *pod);

#endif
