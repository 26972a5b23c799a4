/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_DEVICE_QP_WATCH_H
#define UNIRAIL_AGENT_DEVICE_QP_WATCH_H

/*
 * Containers that have RDMA devices and use none: a container that was given an RDMA resource, has run for `after_ms` and has
 * no queue pair gets one event on its pod, with the cause (qp_inspect.h). NCCL uses TCP in silence where RDMA fails, so otherwise
 * this is noticed by the job's speed only. When the container has a queue pair later, a second event says so.
 *
 * Inspected once `after_ms` after the kubelet first listed the container's devices (its start is read from the Pod object then,
 * by one GET), and once a minute while it has no queue pair; one that had a queue pair is not inspected again. A container that
 * restarts is the same one.
 */

#include "agent/device/qp_inspect.h"
#include "device/podres_pb.h"
#include "kube/client.h"

struct qp_watch;

typedef void (*qp_device_fn)(void *arg, const char *device);

struct qp_watch_conf {
	struct kube *kube;
	const struct root *root;
	const char *podres; /* the kubelet's PodResources socket */
	int64_t after_ms;
	/* Calls `each` for each RDMA device that an id of a resource stands for. */
	void (*devices)(void *arg, const char *resource, const char *id, qp_device_fn each,
			void *each_arg);
	/* The pod's UID; NULL: not known (yet); "": the pod has ended. */
	const char *(*uid)(void *arg, const char *ns, const char *name);
	/* About the pod. */
	void (*event)(void *arg, bool is_warning, const char *ns, const char *pod, const char *uid,
		      const char *reason, const char *text);
	void *arg;
};

/* What conf points to is borrowed. */
struct qp_watch *qp_watch_new(const struct qp_watch_conf *conf);
void qp_watch_free(struct qp_watch *w); /* NULL is fine */

/* --- without a kubelet and a server --- */

/* The containers of the list: new ones wait, those that are gone are forgotten. */
void qp_watch_list(struct qp_watch *w, const struct podres_list *list, int64_t now_ms);
/* The next container whose start is wanted from its Pod object; false: none. */
bool qp_watch_next_pod(const struct qp_watch *w, int64_t now_ms, const char **ns, const char **pod);
/* The Pod object; NULL: it could not be read, and is again later. */
void qp_watch_take_pod(struct qp_watch *w, const char *ns, const char *pod,
		       const struct json *object, int64_t now_ms, int64_t wall_ms);
/* Those to inspect now; free() *ret. Their order is that of qp_watch_take(). */
void qp_watch_due(struct qp_watch *w, int64_t now_ms, struct qp_target **ret, size_t *n);
/* What qp_inspect() found of the i-th of them. */
void qp_watch_take(struct qp_watch *w, size_t i, enum qp_state state, const char *reason,
		   int64_t now_ms);

#endif
