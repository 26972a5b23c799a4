/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_DEVICE_QP_INSPECT_H
#define UNIRAIL_AGENT_DEVICE_QP_INSPECT_H

/*
 * Finds the containers that have a queue pair, and the reason why others have none. There are two
 * sources:
 *
 *  - RDMA netlink names the process of each queue pair, and /proc/PID/cgroup its container. The
 *    kernel leaves out processes that the agent's PID namespace does not show, and devices that are
 *    in a pod's network namespace (exclusive mode).
 *  - rdma.current of the container's control group counts open devices and objects of all kinds:
 *    a container without such objects has no queue pair; a container with some counts as one with a
 *    queue pair if netlink does not show its devices or processes.
 *
 * Reads as many messages as there are queue pairs, so it runs in a child process.
 */

#include "kern/rdma/rdma.h"

enum qp_state {
	QP_UNKNOWN, /* neither source gives an answer */
	QP_PRESENT,
	QP_NONE,
};

enum { QP_REASON_MAX = 512 };

/* A container to inspect. The strings are borrowed. */
struct qp_target {
	const char *uid; /* UID of its pod */
	/* Container ID at the runtime; NULL: it is the pod's only container with RDMA devices,
	 * found by the pod's UID. */
	const char *id;
	const char *const *devices; /* names of its RDMA devices, "mlx5_0" */
	size_t n_devices;
	enum qp_state state;	    /* result */
	char reason[QP_REASON_MAX]; /* result for QP_NONE and QP_UNKNOWN: cause and remedy */
};

/* Sets the results (state, reason) of all elements. */
int qp_inspect(struct nl_wire *w, const struct root *r, struct qp_target *v, size_t n,
	       struct err *e);

#endif
