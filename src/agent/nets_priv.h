/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_NETS_PRIV_H
#define UNIRAIL_AGENT_NETS_PRIV_H

/* Between nets.c (asks) and nets_status.c. */

#include "agent/nets.h"

struct nets_ask;
struct nets_patch;

struct nets {
	struct nets_conf conf;
	struct nets_ask *asks;
	struct child *child; /* asks the kubelet; one at a time */
	uint64_t seq;
	struct nets_patch *patches; /* the oldest first */
	size_t n_patches, n_running;
};

void nets_event(struct nets *n, const struct pod_facts *pod, bool warning, const char *reason,
		const char *message);
void nets_status_free(struct nets *n);

#endif
