/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_DEVICE_QP_INSPECT_H
#define UNIRAIL_AGENT_DEVICE_QP_INSPECT_H

/*
 * Which containers have a queue pair, and why others have none. Two sources:
 *
 *  - RDMA netlink names the process of each queue pair, and /proc/PID/cgroup its container. The kernel leaves out processes that
 *    the agent's PID namespace does not show, and devices that are in a pod's network namespace (exclusive mode).
 *  - rdma.current of the container's control group counts open devices and objects of all kinds: a container without any has no
 *    queue pair; one that has some counts as one with a queue pair where netlink does not show it.
 *
 * Reads as many messages as there are queue pairs, so it runs in a child process.
 */

#include "kern/rdma/rdma.h"

enum qp_state {
	QP_UNKNOWN, /* neither source shows it */
	QP_PRESENT,
	QP_NONE,
};

enum { QP_REASON_MAX = 512 };

/* One container. The strings are borrowed. */
struct qp_target {
	const char *uid; /* of its pod */
	/* Of the container, as the runtime has it; NULL: the pod has no other with RDMA devices. */
	const char *id;
	const char *const *devices; /* RDMA devices that it was given, "mlx5_0" */
	size_t n_devices;
	enum qp_state state;	    /* found */
	char reason[QP_REASON_MAX]; /* found, of QP_NONE and QP_UNKNOWN: why, and what to do */
};

/* Fills the two found members of each. -EPROTONOSUPPORT: a kernel without RDMA. */
int qp_inspect(struct nl_wire *w, const struct root *r, struct qp_target *v, size_t n,
	       struct err *e);

#endif
