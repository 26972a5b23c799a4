/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_COORDINATOR_CIDR_PLAN_H
#define UNIRAIL_CONTROLLER_COORDINATOR_CIDR_PLAN_H

/*
 * Computes the status of a SpiderCoordinator from the cluster's sources. Pure. Pod CIDRs by
 * podCIDRType:
 *
 * 	cluster		kubeadm's podSubnet, otherwise kube-controller-manager's --cluster-cidr, otherwise
 * 			the nodes' podCIDRs
 * 	calico		Calico's IPPools
 * 	cilium		by Cilium's ipam mode: cluster-pool: its CIDRs; multi-pool: its pools;
 * 			kubernetes or not set: as `cluster`
 * 	none		nothing
 * 	auto		by the CNI of the controller's node; as `cluster` if the sources of that CNI
 * 			are missing; nothing if the CNI is not Calico, Cilium, flannel or kind's;
 * 			empty with a reason if the CNI cannot be detected (CIDR_UNREADABLE)
 *
 * Service CIDRs: ServiceCIDR objects, otherwise kubeadm's serviceSubnet, otherwise
 * --service-cluster-ip-range.
 *
 * A cluster without any source of pod or of service CIDRs (no kubeadm, hidden control plane) is
 * Synced nevertheless: the list of these CIDRs is empty, and the reason names the field to set.
 * Spiderpool's controller blocks all pods in that case, even with type `none`. The phase is
 * NotReady only if the source of a CNI cannot be read, or a podCIDRType selected by name has no
 * source or (Cilium's ipam mode) no CIDRs.
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
	CIDR_UNKNOWN, /* not requested, or no response yet (a temporary error is retried) */
	CIDR_KNOWN,   /* the source has been read; it may have no objects */
	CIDR_ABSENT,  /* kind not installed */
	CIDR_FAILED,  /* forbidden, or another error that is not temporary: see `cause` */
};

struct cidr_known {
	enum cidr_state state;
	const char *cause;
	/* merged from all objects of the source, the oldest first; the pod CIDRs of nodes are
	 * merged by cidr_list_join() */
	struct cidr_facts facts;
	size_t objects;
};

enum cidr_phase { CIDR_WAIT, CIDR_SYNCED, CIDR_NOT_READY };

struct cidr_plan {
	enum cidr_phase phase;
	/* NotReady because a source cannot be read: an existing status Synced is retained */
	bool unread;
	unsigned int wants; /* bit mask of the sources to watch */
	char reason[320];
	struct cidr_list pods, services;
};

/* type: podCIDRType of the object; cni: the type that `auto` means on this node. */
void cidr_plan(enum cidr_type type, enum cidr_type cni,
	       const struct cidr_known known[static CIDR_SOURCES], struct cidr_plan *ret);
void cidr_plan_done(struct cidr_plan *p);

#endif
