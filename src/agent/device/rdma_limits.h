/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_DEVICE_RDMA_LIMITS_H
#define UNIRAIL_AGENT_DEVICE_RDMA_LIMITS_H

/*
 * Limits the verbs objects of pods that share an HCA: without limits one pod can use up all queue
 * pairs of an HCA that other pods use as well. In rdma.max of the pod's control group
 * (kern/sys/cgroup.h) the limit of each RDMA device is `per_id` times the number of device IDs of
 * shared resources that the pod has on that device: a pod with two device IDs has twice the limit.
 * Other devices (VFs, HCAs that the pod did not request) are not limited.
 *
 * The agent writes the pod's group itself, because no interface of container runtimes has these
 * limits: NRI's resources and CDI's edits do not have them, and containerd 1.6 has neither NRI nor
 * CDI. The kubelet makes the pod's group after it allocated the pod's devices and before it makes
 * the pod's first container. So the agent reads the devices of pods from the kubelet every 500 ms
 * for 10 s after an Allocate and while a limit cannot be set (30 s at most for one cause),
 * otherwise once a minute.
 */

#include "base/loop.h"
#include "device/podres_pb.h"
#include "kern/sys/cgroup.h"

struct rdma_limits;

typedef void (*rdma_limits_device_fn)(void *arg, const char *device);

struct rdma_limits_conf {
	struct loop *loop;
	const struct root *root;
	const char *podres;	   /* the kubelet's PodResources socket */
	struct cgroup_rdma per_id; /* CGROUP_RDMA_MAX: no limit */
	/* Calls `each` for each RDMA device that device ID `id` of `resource` stands for, if the
	 * resource is shared. */
	void (*devices)(void *arg, const char *resource, const char *id, rdma_limits_device_fn each,
			void *each_arg);
	/* Returns the UID of a pod; NULL: it is not known yet; "": the pod has ended. */
	const char *(*uid)(void *arg, const char *ns, const char *name);
	/* Reports that limits cannot be set, with the remedy; the same line is logged. May be
	 * NULL. */
	void (*event)(void *arg, const char *text);
	void *arg;
};

/* Everything that conf points to is borrowed. */
struct rdma_limits *rdma_limits_new(const struct rdma_limits_conf *conf);
void rdma_limits_free(struct rdma_limits *l); /* l may be NULL */
/* Call it when the kubelet has called Allocate for a shared resource. l may be NULL. */
void rdma_limits_allocated(struct rdma_limits *l);

/* --- functions that need no kubelet --- */

struct rdma_limit {
	const char *ns, *pod, *uid; /* the pod, borrowed; uid NULL: it is not known */
	const char *device;	    /* name of an RDMA device, as conf's devices() passes it */
	struct cgroup_rdma limit;
};

/* Pure: computes the limits of all pods in `list` that have not ended, sorted by namespace, pod
 * and device. The caller frees *ret. */
void rdma_limits_decide(const struct rdma_limits_conf *conf, const struct podres_list *list,
			struct rdma_limit **ret, size_t *n);
/* Sets the limits that differ. Returns the number of limits that could not be set; e then has
 * the first failure. */
size_t rdma_limits_apply(const struct rdma_limits_conf *conf, const struct podres_list *list,
			 struct err *e);

#endif
