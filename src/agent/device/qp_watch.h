/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_DEVICE_QP_WATCH_H
#define UNIRAIL_AGENT_DEVICE_QP_WATCH_H

/*
 * Reports containers that have RDMA devices and do not use them: if a container has an RDMA
 * resource, has run for `after_ms` and has no queue pair, its pod gets one event with the cause
 * (qp_inspect.h). NCCL silently uses TCP if RDMA fails; without the event, users notice that only
 * because the job is slow. If the container creates a queue pair later, its pod gets a second
 * event.
 *
 * `after_ms` after the kubelet first listed a container's devices, the agent reads the container's
 * start time (one GET of the Pod object). It inspects the container when it has run for `after_ms`,
 * and then once a minute while it has no queue pair. A container that had a queue pair is not
 * inspected again, not even after its restart.
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
	/* Calls `each` for each RDMA device that device ID `id` of `resource` stands for. */
	void (*devices)(void *arg, const char *resource, const char *id, qp_device_fn each,
			void *each_arg);
	/* Returns the UID of a pod; NULL: it is not known yet; "": the pod has ended. */
	const char *(*uid)(void *arg, const char *ns, const char *name);
	/* Writes an event on the pod. */
	void (*event)(void *arg, bool is_warning, const char *ns, const char *pod, const char *uid,
		      const char *reason, const char *text);
	void *arg;
};

/* Everything that conf points to is borrowed. */
struct qp_watch *qp_watch_new(const struct qp_watch_conf *conf);
void qp_watch_free(struct qp_watch *w); /* w may be NULL */

/* --- functions that need no kubelet and no API server --- */

/* Updates the containers from the kubelet's list: adds new ones, removes deleted ones. */
void qp_watch_list(struct qp_watch *w, const struct podres_list *list, int64_t now_ms);
/* Sets *ns and *pod to the next pod whose Pod object must be read for the start time of a
 * container. Returns false if there is none. */
bool qp_watch_next_pod(const struct qp_watch *w, int64_t now_ms, const char **ns, const char **pod);
/* Takes the Pod object; NULL: it could not be read, and the read is retried later. */
void qp_watch_take_pod(struct qp_watch *w, const char *ns, const char *pod,
		       const struct json *object, int64_t now_ms, int64_t wall_ms);
/* Sets *ret to the containers to inspect now; the caller frees it. qp_watch_take() takes a
 * container's index in *ret. */
void qp_watch_due(struct qp_watch *w, int64_t now_ms, struct qp_target **ret, size_t *n);
/* Takes the result of qp_inspect() for the i-th container of qp_watch_due(). */
void qp_watch_take(struct qp_watch *w, size_t i, enum qp_state state, const char *reason,
		   int64_t now_ms);

#endif
