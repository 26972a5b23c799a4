/* SPDX-License-Identifier: Apache-2.0 */
/* Returns an RDMA device from a pod to the node. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/loop.h"
#include "cni/plugins/rdma/rdma_plugin.h"
#include "kern/sys/netns.h"

enum { RESTORE_WAIT_MS = 1500, POLL_MS = 25 };

void rdma_restore_name(const struct root *root, struct rdma_state *s)
{
	char name[RDMA_NAME_MAX];

	if (s->device[0] && rdma_move_name(root, s->device, name))
		str_copy(s->in_pod, sizeof(s->in_pod), name);
}

bool rdma_restore_is(const struct rdma_state *s)
{
	return rdma_move_is_in(-1, s->in_pod, NULL) > 0;
}

/* Waits for the device, because the kernel deletes a namespace asynchronously; returns whether the
 * device is on the node. */
static bool wait_restored(const struct rdma_state *s)
{
	const struct timespec pause = {.tv_nsec = POLL_MS * 1000000L};
	int64_t end = now_mono_ms() + RESTORE_WAIT_MS;

	while (!rdma_restore_is(s)) {
		if (now_mono_ms() >= end)
			return false;
		nanosleep(&pause, NULL);
	}
	return true;
}

/* For a device that is not in the pod's namespace, or whose pod has no namespace any more: if
 * the pod renamed the device, waits until it is on the node and gives it the name s->host_name
 * again. */
static int mend_name(const struct rdma_state *s, struct err *e)
{
	struct err reason = ERR_INIT;

	if (strcmp(s->in_pod, s->host_name) == 0)
		return 0;
	if (!wait_restored(s))
		return err_kind(
			e, ERR_AGAIN, -EBUSY,
			"RDMA device '%s' ('%s' on the node) has not returned to the node yet from "
			"the pod's network namespace",
			s->in_pod, s->host_name);
	if (rdma_move_rename(s->in_pod, s->host_name, &reason) < 0)
		log_warn("an RDMA device keeps the name that a pod gave it",
			 LOG_S("device", s->in_pod), LOG_S("host_name", s->host_name),
			 LOG_S("error", reason.text));
	return 0;
}

int rdma_restore(const struct root *root, int netns, struct rdma_state *s, struct err *e)
{
	int r;

	rdma_restore_name(root, s);
	log_debug("return the RDMA device to the node", LOG_S("deviceID", s->device),
		  LOG_S("device", s->host_name), LOG_S("name_in_pod", s->in_pod));
	r = netns < 0 ? 0 : rdma_move_is_in(netns, s->in_pod, e);
	if (r > 0 && !rdma_restore_is(s))
		return rdma_move_restore(netns, root, s->in_pod, s->host_name, e);
	return r < 0 ? r : mend_name(s, e);
}

int rdma_restore_netns(const struct rdma_state *s)
{
	int fd = -1;

	return s->netns[0] && netns_open(s->netns, &fd, NULL) >= 0 ? fd : -1;
}
