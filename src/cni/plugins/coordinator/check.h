/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_PLUGINS_COORDINATOR_CHECK_H
#define UNIRAIL_CNI_PLUGINS_COORDINATOR_CHECK_H

/* CHECK of one NIC: pure, except that coordinator_check_pod() reads the reply marks. */

#include "cni/plugins/coordinator/internal.h"

struct check_index;

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
	/* index of routes, neighbours and the pod's rules; made by coordinator_check_index() */
	struct check_index *index;
};

/* Makes sorted indexes of the lists, because a pod may have thousands of addresses and routes, and
 * the node has the routes of all its pods. The lists must not change until
 * coordinator_check_index_free(). */
void coordinator_check_index(struct checking *k);
void coordinator_check_index_free(struct checking *k);

/* Checks the node's rules, routes and neighbours for the NIC's addresses. */
int coordinator_check_host(const struct checking *k, struct err *e);
/* Checks the pod's reply marks, neighbours, rules, tables and routes to CIDRs. */
int coordinator_check_pod(const struct checking *k, struct err *e);

#endif
