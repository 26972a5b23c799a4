/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_PLUGINS_COORDINATOR_CHECK_H
#define UNIRAIL_CNI_PLUGINS_COORDINATOR_CHECK_H

/* Between check.c and check.c: one NIC's CHECK. */

#include "cni/plugins/coordinator/internal.h"

struct checking {
	struct attach *a;
	const struct coordinator_facts *f;
	const struct coordinator_nic *nic;
	const struct coordinator_conf *c;
	const struct link *link, *exit;
	struct ipaddr *ips;
	size_t n_ips;
	bool underlay, first;
	const struct rule *pod_rules, *host_rules;
	size_t n_pod_rules, n_host_rules;
	const struct neigh *neighs; /* the pod's */
	size_t n_neighs;
};

int coordinator_check_pod(const struct checking *k, struct err *e);

#endif
