/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_NETWORK_INTERNAL_H
#define UNIRAIL_AGENT_NETWORK_INTERNAL_H

/* Shared by the files of this directory. */

#include "agent/network/network.h"
#include "kube/workqueue.h"

struct nets_request;

struct nets {
	struct nets_conf conf;
	struct nets_request *requests;
	struct child *child; /* queries the kubelet; at most one at a time */
	uint64_t seq;
	struct workqueue *patches; /* pods whose annotation is to be written */
	struct loop_alarm scan;	   /* next scan for status files that were not reported */
};

void nets_event(struct nets *n, const struct pod_facts *pod, bool warning, const char *reason,
		const char *message);
void nets_status_free(struct nets *n);

/* status.c */
void status_recovery_start(struct nets *n);

#endif
