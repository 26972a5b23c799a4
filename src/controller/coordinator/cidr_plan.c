/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/coordinator/cidr_plan.h"

#include <stdio.h>
#include <string.h>

struct planner {
	const struct cidr_known *known;
	struct cidr_plan *p;
	bool automatic;
};

/* Requests the source; returns whether its state is known. */
static bool is_requested(struct planner *a, enum cidr_source s)
{
	a->p->wants |= 1u << s;
	if (a->known[s].state == CIDR_UNKNOWN)
		a->p->phase = CIDR_WAIT;
	return a->known[s].state != CIDR_UNKNOWN;
}

static void not_ready(struct planner *a, const char *what, const char *cause)
{
	if (a->p->phase == CIDR_SYNCED)
		a->p->phase = CIDR_NOT_READY;
	snprintf(a->p->reason, sizeof(a->p->reason), "%s%s%.200s", what, cause ? ": " : "",
		 cause ? cause : "");
}

/* Sets the reason unless one is set already. A reason about pod CIDRs is set first, so it takes
 * precedence over one about service CIDRs. */
static void set_reason(struct planner *a, const char *what)
{
	if (!a->p->reason[0])
		snprintf(a->p->reason, sizeof(a->p->reason), "%s", what);
}

/* Copies the CIDRs of the first source that has any; returns false at a source of unknown state. */
static bool first_of(struct planner *a, const enum cidr_source *list, size_t n, bool services,
		     struct cidr_list *ret)
{
	for (size_t i = 0; i < n && ret->n == 0; i++) {
		const struct cidr_facts *f = &a->known[list[i]].facts;

		if (!is_requested(a, list[i]))
			return false;
		cidr_list_copy(ret, services ? &f->services : &f->pods);
	}
	return true;
}

static void plan_cluster(struct planner *a)
{
	static const enum cidr_source list[] = {CIDR_KUBEADM, CIDR_MANAGER, CIDR_NODES};

	if (first_of(a, list, 3, false, &a->p->pods) && a->p->pods.n == 0)
		set_reason(a,
			   "the pods' CIDRs are not known (kubeadm-config, kube-controller-manager "
			   "and podCIDRs of nodes have none or cannot be read): add them to "
			   "spec.hijackCIDR if pods must be reached through the node");
}

/*
 * Returns whether the source is known to have objects. If it cannot be read, or has no objects
 * although the podCIDRType names it, the plan is not ready; without objects, `auto` uses the
 * `cluster` sources.
 */
static bool is_there(struct planner *a, enum cidr_source s, const char *what)
{
	const struct cidr_known *k = &a->known[s];

	if (!is_requested(a, s))
		return false;
	if (k->state == CIDR_KNOWN && k->objects > 0)
		return true;
	if (k->state == CIDR_FAILED) {
		a->p->unread = true;
		not_ready(a, what, k->cause);
	} else if (a->automatic) {
		plan_cluster(a);
	} else {
		not_ready(a, what, NULL);
	}
	return false;
}

static void plan_cilium(struct planner *a)
{
	const struct cidr_facts *f = &a->known[CIDR_CILIUM_CONFIG].facts;
	char what[160];

	if (!is_there(a, CIDR_CILIUM_CONFIG,
		      "pod CIDRs of Cilium: its ConfigMap does not exist or cannot be read"))
		return;
	if (f->mode && strcmp(f->mode, "multi-pool") == 0) {
		if (is_there(a, CIDR_CILIUM_POOLS,
			     "Cilium's ipam is multi-pool, but its CiliumPodIPPools do not exist or "
			     "cannot be read"))
			cidr_list_copy(&a->p->pods, &a->known[CIDR_CILIUM_POOLS].facts.pods);
	} else if (f->pods.n > 0) {
		cidr_list_copy(&a->p->pods, &f->pods);
	} else if (!f->mode || strcmp(f->mode, "kubernetes") == 0 || a->automatic) {
		plan_cluster(a);
	} else {
		snprintf(what, sizeof(what),
			 "Cilium's ipam '%.40s' publishes no CIDRs of pods: set podCIDRType to "
			 "none and list them in hijackCIDR",
			 f->mode);
		not_ready(a, what, NULL);
	}
}

static void plan_pods(struct planner *a, enum cidr_type type)
{
	switch (type) {
	case CIDR_CLUSTER: plan_cluster(a); return;
	case CIDR_CALICO:
		if (is_there(a, CIDR_CALICO_POOLS,
			     "pod CIDRs of Calico: its IPPools do not exist or cannot be read"))
			cidr_list_copy(&a->p->pods, &a->known[CIDR_CALICO_POOLS].facts.pods);
		return;
	case CIDR_CILIUM: plan_cilium(a); return;
	case CIDR_UNREADABLE:
		set_reason(
			a,
			"the pods' CIDRs are not known (the CNI configuration on the controller's node "
			"is readable by root only, and no agent there has published the network's "
			"name): set spec.podCIDRType");
		return;
	default: return;
	}
}

static void plan_services(struct planner *a)
{
	static const enum cidr_source list[] = {CIDR_SERVICES, CIDR_SERVICES_OLD, CIDR_KUBEADM,
						CIDR_MANAGER};

	if (first_of(a, list, 4, true, &a->p->services) && a->p->services.n == 0)
		set_reason(a, "the services' CIDRs are not known (ServiceCIDRs, kubeadm-config and "
			      "kube-controller-manager have none or cannot be read): add them to "
			      "spec.hijackCIDR");
}

void cidr_plan(enum cidr_type type, enum cidr_type cni,
	       const struct cidr_known known[static CIDR_SOURCES], struct cidr_plan *ret)
{
	struct planner a = {known, ret, type == CIDR_AUTO};

	*ret = (struct cidr_plan){.phase = CIDR_SYNCED};
	plan_pods(&a, type == CIDR_AUTO ? cni : type);
	plan_services(&a);
	if (ret->phase == CIDR_NOT_READY) {
		cidr_list_done(&ret->pods);
		cidr_list_done(&ret->services);
	}
}

void cidr_plan_done(struct cidr_plan *p)
{
	cidr_list_done(&p->pods);
	cidr_list_done(&p->services);
}
