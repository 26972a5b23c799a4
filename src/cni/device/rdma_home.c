/* SPDX-License-Identifier: Apache-2.0 */
/* An RDMA device comes back from a pod. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/loop.h"
#include "cni/plugins/rdma/rdma_plugin.h"
#include "kern/sys/netns.h"

enum { COMING_HOME_MS = 1500, LOOK_EVERY_MS = 25 };

void rdma_home_name(const struct root *root, struct rdma_state *s)
{
	char name[RDMA_NAME_MAX];

	if (s->device[0] && rdma_move_name(root, s->device, name))
		str_copy(s->in_pod, sizeof(s->in_pod), name);
}

bool rdma_home_is(const struct rdma_state *s)
{
	return rdma_move_is_in(-1, s->in_pod, NULL) > 0;
}

/* The kernel takes a namespace apart in its own time. True: the device is on the node. */
static bool wait_home(const struct rdma_state *s)
{
	const struct timespec pause = {.tv_nsec = LOOK_EVERY_MS * 1000000L};
	int64_t end = now_mono_ms() + COMING_HOME_MS;

	while (!rdma_home_is(s)) {
		if (now_mono_ms() >= end)
			return false;
		nanosleep(&pause, NULL);
	}
	return true;
}

/* A namespace that is gone, or that the device has left. Only another name is left to mend. */
static int mend_name(const struct rdma_state *s, struct err *e)
{
	struct err why = ERR_INIT;

	if (strcmp(s->in_pod, s->home) == 0)
		return 0;
	if (!wait_home(s))
		return err_kind(e, ERR_AGAIN, -EBUSY,
				"RDMA device '%s' ('%s' on the node) has not come home yet from "
				"the pod's network namespace",
				s->in_pod, s->home);
	if (rdma_move_rename(s->in_pod, s->home, &why) < 0)
		log_warn("an RDMA device keeps the name that a pod gave it",
			 LOG_S("device", s->in_pod), LOG_S("was", s->home),
			 LOG_S("error", why.text));
	return 0;
}

int rdma_home_bring(const struct root *root, int netns, struct rdma_state *s, struct err *e)
{
	int r;

	rdma_home_name(root, s);
	log_debug("home", LOG_S("deviceID", s->device), LOG_S("device", s->home),
		  LOG_S("name_in_pod", s->in_pod));
	r = netns < 0 ? 0 : rdma_move_is_in(netns, s->in_pod, e);
	if (r > 0 && !rdma_home_is(s))
		return rdma_move_home(netns, root, s->in_pod, s->home, e);
	return r < 0 ? r : mend_name(s, e);
}

int rdma_home_netns(const struct rdma_state *s)
{
	int fd = -1;

	return s->netns[0] && netns_open(s->netns, &fd, NULL) >= 0 ? fd : -1;
}
