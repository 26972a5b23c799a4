/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_COORDINATOR_CIDR_PLAN_H
#define UNIRAIL_CONTROLLER_COORDINATOR_CIDR_PLAN_H

/*
 * What a SpiderCoordinator's status is to say, from what the cluster's sources say: pure.
 *
 *	cluster		kubeadm's podSubnet, else kube-controller-manager's --cluster-cidr, else the
 *			nodes' podCIDRs
 *	calico		Calico's pools
 *	cilium		by Cilium's ipam: cluster-pool its subnets; multi-pool its pools; kubernetes as
 *			`cluster`
 *	none		nothing
 *	auto		by the CNI of the controller's node; where that one's sources are missing: `cluster`; where that
 *			CNI is not known (CIDR_UNREADABLE) nothing, and the reason says so
 *
 * Services: ServiceCIDR objects, else kubeadm's serviceSubnet, else --service-cluster-ip-range.
 *
 * A cluster that says nothing about a part of it (no kubeadm, a control plane that is not to be seen)
 * is in order all the same: the list is empty and the reason says what to set. Spiderpool's
 * controller stops all pods there, with type `none`, too. NotReady is only what was asked for by name
 * and is not there, or cannot be read.
 */

#include "controller/coordinator/cidr_read.h"

enum cidr_source {
	CIDR_KUBEADM,
	CIDR_MANAGER,
	CIDR_SERVICES,	   /* networking.k8s.io/v1 */
	CIDR_SERVICES_OLD, /* v1beta1 */
	CIDR_NODES,
	CIDR_CALICO_POOLS,
	CIDR_CILIUM_CONFIG,
	CIDR_CILIUM_POOLS,
	CIDR_SOURCES
};

enum cidr_state {
	CIDR_UNKNOWN, /* not asked, or no answer yet */
	CIDR_KNOWN,   /* also: there is none of them */
	CIDR_ABSENT,  /* no such kind */
	CIDR_FAILED,  /* may not be read, or no answer for long: `why` */
};

struct cidr_known {
	enum cidr_state state;
	const char *why;
	struct cidr_facts facts; /* of all its objects, the oldest first */
	size_t objects;
};

enum cidr_phase { CIDR_WAIT, CIDR_SYNCED, CIDR_NOT_READY };

struct cidr_plan {
	enum cidr_phase phase;
	bool unread; /* not ready since something may not be read: what was known before counts */
	unsigned int wants; /* sources that are to be asked, a bit each */
	char reason[320];
	struct cidr_list pods, services;
};

/* type: of the object; cni: what `auto` means here. */
void cidr_plan(enum cidr_type type, enum cidr_type cni,
	       const struct cidr_known known[static CIDR_SOURCES], struct cidr_plan *ret);
void cidr_plan_done(struct cidr_plan *p);

#endif
