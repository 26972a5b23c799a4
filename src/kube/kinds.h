/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KUBE_KINDS_H
#define UNIRAIL_KUBE_KINDS_H

/* One declaration for each kind of object that unirail reads or writes. kube_kind.name is the
 * resource's singular. The kinds of ServiceCIDRs, Calico and Cilium are declared in
 * controller/coordinator/cidr_discover.c, their only user. */

#include "kube/path.h"

#define SPIDERPOOL_GROUP     "spiderpool.spidernet.io"
#define SPIDERPOOL_VERSION   "v2beta1"
#define SPIDERPOOL_API	     SPIDERPOOL_GROUP "/" SPIDERPOOL_VERSION
#define SPIDERPOOL_FINALIZER SPIDERPOOL_GROUP
#define UNIRAIL_GROUP	     "unirail.io"
#define NAD_GROUP	     "k8s.cni.cncf.io"
#define NAD_API		     NAD_GROUP "/v1"
#define REGISTRATION_API     "admissionregistration.k8s.io/v1"

/* Kinds whose CRDs are installed with unirail (deploy/crds, deploy/crd.yaml). */
extern const struct kube_kind kube_ippools, kube_subnets, kube_reservedips, kube_multusconfigs,
	kube_coordinators, kube_endpoints;   /* of SPIDERPOOL_API */
extern const struct kube_kind kube_ipblocks; /* of UNIRAIL_GROUP */
extern const struct kube_kind kube_nads;     /* of NAD_API */

/* Of Kubernetes. */
extern const struct kube_kind kube_pods, kube_nodes, kube_namespaces, kube_configmaps, kube_secrets,
	kube_events_kind, kube_leases, kube_crds;
extern const struct kube_kind kube_deployments, kube_replicasets, kube_statefulsets,
	kube_daemonsets;
extern const struct kube_kind kube_jobs, kube_cronjobs;
extern const struct kube_kind kube_cronjobs_beta; /* of API servers before 1.21 */
extern const struct kube_kind kube_mutating_webhooks, kube_validating_webhooks;

/* Of KubeVirt. */
extern const struct kube_kind kube_vms, kube_vmis;

#endif
