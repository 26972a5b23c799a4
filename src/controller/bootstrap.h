/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_BOOTSTRAP_H
#define UNIRAIL_CONTROLLER_BOOTSTRAP_H

/*
 * Runs in the leader: creates default objects that a new cluster lacks. Existing objects are not
 * changed.
 *
 * 	SpiderCoordinator	named by the setting coordinator-name, if none exists
 * 	SpiderMultusConfig	for the cluster's own network, so that pods can name it: type custom, in the
 * 				controller's namespace, named after the network in the node's CNI directory
 * 				("calico" for Calico's k8s-pod-network); not created if the
 * 				directory has no network, or the network's name is not valid for an
 * 				object
 * 	SpiderSubnet		named by default-ipv4-subnet, default-ipv6-subnet; only if the pool
 * 				of the same family is named
 * 	SpiderIPPool		named by default-ipv4-pool, default-ipv6-pool; spec.default is true
 *
 * To delete such an object permanently, disable it in the settings: otherwise the next leader creates
 * it again.
 */

#include "controller/coordinator/cidr_read.h"
#include "controller/cache/cache.h"

struct defaults;

/* Settings of a default pool; borrowed; NULL: not set. */
struct defaults_pool {
	/* subnet: name of the SpiderSubnet, NULL: create none; name: name of the pool, NULL:
	 * create neither pool nor subnet */
	const char *subnet, *name;
	const char *cidr, *ips, *gateway;
};

/* Borrowed. */
struct defaults_conf {
	struct kube *kube;
	const struct root *root;
	struct kube_cache *cache;
	const char *ns;	     /* namespace of the controller */
	struct cidr_cni cni; /* CNI of this node */
	/* whether to create the SpiderCoordinator, and the network's SpiderMultusConfig */
	bool coordinator, network;
	const char *name; /* name of the SpiderCoordinator */
	/* spec of the SpiderCoordinator; hijack: CIDRs separated by commas, NULL: none */
	const char *mode, *type, *hijack;
	struct defaults_pool pools[2]; /* IPv4, IPv6 */
};

struct defaults *defaults_new(const struct defaults_conf *c);
void defaults_free(struct defaults *d); /* accepts NULL */

void defaults_pool(struct buf *b, const struct defaults_pool *p);

#endif
