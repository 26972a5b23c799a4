/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_BOOTSTRAP_H
#define UNIRAIL_CONTROLLER_BOOTSTRAP_H

/*
 * A leader's part: what a cluster that is new to unirail is given, once, when it is not there; what is
 * there is left as it is.
 *
 *	SpiderCoordinator	"default", where there is no SpiderCoordinator at all
 *	SpiderMultusConfig	of the cluster's own network, so that pods can name it: type custom, in the
 *				controller's namespace, named as the network in the node's CNI folder
 *				("calico" for Calico's k8s-pod-network); none where that is not known
 *	SpiderSubnet		by the settings default-ipv4-* and default-ipv6-*: where `pool` names one, the
 *	SpiderIPPool		pool (as default: true), and before it the subnet, where `subnet` names one
 *
 * Whoever deletes one and wants none says so in the settings: the next leader would make it again.
 */

#include "controller/coordinator/cidr_read.h"
#include "controller/cache/cache.h"

struct defaults;

/* Borrowed; NULL: not set. */
struct defaults_pool {
	const char *subnet, *name; /* of the SpiderSubnet; of the pool, NULL: neither is made */
	const char *cidr, *ips, *gateway;
};

/* Borrowed. */
struct defaults_conf {
	struct kube *kube;
	const struct root *root;
	struct world *world;
	const char *ns;			  /* the controller's */
	struct cidr_cni cni;		  /* of this node */
	bool coordinator, network;	  /* which are wanted */
	const char *name;		  /* of the coordinator */
	const char *mode, *type, *hijack; /* its spec; hijack: CIDRs with commas, NULL: none */
	struct defaults_pool pools[2];	  /* IPv4, IPv6 */
};

struct defaults *defaults_new(const struct defaults_conf *c);
void defaults_free(struct defaults *d); /* NULL is fine */

/* --- its parts --- */

void defaults_coordinator(struct buf *b, const struct defaults_conf *c);
void defaults_subnet(struct buf *b, const struct defaults_pool *p);
void defaults_pool(struct buf *b, const struct defaults_pool *p);
/* False: the network's name cannot be an object's. */
bool defaults_network(struct buf *b, const struct defaults_conf *c, const char *network);

#endif
