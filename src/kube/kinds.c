/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kinds.h"

#define SPIDERPOOL(plural, name, namespaced)                                                       \
	{                                                                                          \
		"spiderpool.spidernet.io", "v2beta1", plural, name, namespaced                     \
	}

const struct kube_kind kube_ippools = SPIDERPOOL("spiderippools", "spiderippool", false);
const struct kube_kind kube_subnets = SPIDERPOOL("spidersubnets", "spidersubnet", false);
const struct kube_kind kube_reservedips =
	SPIDERPOOL("spiderreservedips", "spiderreservedip", false);
const struct kube_kind kube_multusconfigs =
	SPIDERPOOL("spidermultusconfigs", "spidermultusconfig", true);
const struct kube_kind kube_coordinators =
	SPIDERPOOL("spidercoordinators", "spidercoordinator", false);
const struct kube_kind kube_endpoints = SPIDERPOOL("spiderendpoints", "spiderendpoint", true);
const struct kube_kind kube_ipblocks = {"unirail.io", "v1", "spideripblocks", "ipblock", false};
const struct kube_kind kube_nads = {"k8s.cni.cncf.io", "v1", "network-attachment-definitions",
				    "network-attachment-definition", true};
const struct kube_kind kube_configmaps = {"", "v1", "configmaps", "configmap", true};
const struct kube_kind kube_secrets = {"", "v1", "secrets", "secret", true};
