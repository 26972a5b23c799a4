/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DEVICE_SERVE_POD_GPUS_H
#define UNIRAIL_DEVICE_SERVE_POD_GPUS_H

/*
 * The GPUs of the pod for which the kubelet calls GetPreferredAllocation. The call names no pod, so
 * the pod is inferred from the kubelet's list of allocated devices (PodResources v1): the kubelet
 * allocates the resources of a container one after the other, in no particular order, and lists
 * each resource as soon as it is allocated. Of the pods that have more containers with GPUs of this
 * node than containers with devices of the resource, the call is for the one whose GPUs appeared in
 * the list last.
 *
 * No GPUs are returned if the kubelet allocates the NIC before the GPU, if two such pods appeared
 * since the previous list, or if a DRA driver allocated the GPUs. A pod with GPUs that never
 * requests the resource can be mistaken for the pod of the call until the next pod appears. In all
 * these cases the preference is wrong or missing, but every device that the kubelet then chooses is
 * a valid one. With the Topology Manager (policy single-numa-node or restricted) the device still
 * has the right NUMA node.
 */

#include "device/podres_pb.h"
#include "device/resource/node.h"

enum { POD_GPUS_PODS_MAX = 1024 }; /* maximum number of recorded pods: more than a kubelet has */

/* A pod that has GPUs. */
struct pod_gpus_seen {
	char *ns, *name;
	uint64_t list; /* number of the list in which the pod first appeared */
};

struct pod_gpus {
	struct pod_gpus_seen *v; /* sorted by namespace and name */
	size_t n;
	uint64_t list;
};

void pod_gpus_done(struct pod_gpus *g);

/* Evaluates one list. Sets *ids to the ids of the pod's GPUs, borrowed from `l`; the caller
 * frees the array. Returns the number of ids; 0: the pod is unknown. */
size_t pod_gpus_choose(struct pod_gpus *g, const struct podres_list *l,
		       const struct node_devices *node, const char *resource, const char ***ids);

#endif
