/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KUBE_KINDS_H
#define UNIRAIL_KUBE_KINDS_H

/* The kinds installed with unirail (deploy/crds, deploy/crd.yaml), and Kubernetes kinds that
 * several directories use; kube/path.h has more. */

#include "kube/path.h"

#define SPIDERPOOL_API "spiderpool.spidernet.io/v2beta1"
#define NAD_API	       "k8s.cni.cncf.io/v1"

extern const struct kube_kind kube_ippools, kube_subnets, kube_reservedips, kube_multusconfigs,
	kube_coordinators, kube_endpoints;   /* of SPIDERPOOL_API */
extern const struct kube_kind kube_ipblocks; /* of unirail.io/v1 */
extern const struct kube_kind kube_nads;     /* of NAD_API */
extern const struct kube_kind kube_configmaps, kube_secrets;

#endif
