/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_DEVICE_RDMA_LIMITS_H
#define UNIRAIL_AGENT_DEVICE_RDMA_LIMITS_H

/*
 * Limits of the verbs objects of pods that share an HCA: without them one pod can take all queue pairs of an HCA that others
 * use. rdma.max of the pod's control group (kern/sys/cgroup.h) gets `per_id` for each id of a shared resource that the pod
 * has, on each RDMA device that the id stands for; a pod with two ids has twice the limit. Other devices (VFs, HCAs that the
 * pod did not request) are not limited.
 *
 * The agent writes the pod's group itself, because no interface of container runtimes has these limits: NRI's resources and
 * CDI's edits do not have them, and containerd 1.6 has neither NRI nor CDI. The kubelet makes the pod's group after it
 * allocated the pod's devices and before it makes the pod's first container. So after an Allocate the kubelet is asked for
 * the devices of pods every 500 ms until each pod has its limits, and once a minute in any case.
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
	struct cgroup_rdma per_id; /* CGROUP_RDMA_MAX: not limited */
	/* Calls `each` for each RDMA device that an id of a shared resource stands for. */
	void (*devices)(void *arg, const char *resource, const char *id, rdma_limits_device_fn each,
			void *each_arg);
	/* The pod's UID; NULL: not known (yet); "": the pod has ended. */
	const char *(*uid)(void *arg, const char *ns, const char *name);
	/* The limits cannot be set, and what to do; the same line goes to the log. May be NULL. */
	void (*event)(void *arg, const char *text);
	void *arg;
};

/* What conf points to is borrowed. */
struct rdma_limits *rdma_limits_new(const struct rdma_limits_conf *conf);
void rdma_limits_free(struct rdma_limits *l); /* NULL is fine */
/* The kubelet called Allocate of a shared resource. NULL is fine. */
void rdma_limits_allocated(struct rdma_limits *l);

/* --- without a kubelet --- */

struct rdma_limit {
	const char *ns, *pod, *uid; /* borrowed; uid NULL: not known */
	const char *device;	    /* as conf's devices() has it */
	struct cgroup_rdma limit;
};

/* Pure: the limits that the pods of `list` should have, in the order of pods and devices. free() *ret. */
void rdma_limits_decide(const struct rdma_limits_conf *conf, const struct podres_list *list,
			struct rdma_limit **ret, size_t *n);
/* Sets what differs. Returns the number of limits that could not be set; e then has the first reason. */
size_t rdma_limits_apply(const struct rdma_limits_conf *conf, const struct podres_list *list,
			 struct err *e);

#endif
