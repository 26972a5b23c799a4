/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_NETWORK_PLAN_H
#define UNIRAIL_AGENT_NETWORK_PLAN_H

/*
 * Which networks a pod gets, in order. Pure: definitions are looked up by a function.
 *
 *	first	annotation v1.multus-cni.io/default-network, else clusterNetwork, else what the netconf
 *		has itself
 *	then	defaultNetworks, for pods outside systemNamespaces
 *	then	annotation k8s.v1.cni.cncf.io/networks
 *
 * Interfaces are net<place> unless asked for. A network whose definition names a resource gets the
 * next of the devices that the kubelet gave the pod of it, in this order.
 *
 * Whoever may annotate a pod writes its elements' deviceID. It is honored only for a device that the
 * kubelet allocated to this pod, of the definition's resource or (where it names none) of any, so no
 * annotation reaches the node's own NICs or another pod's. Multus takes any id. Plugins then see it as
 * runtimeConfig.deviceID only (cni/cluster/add.h). Any other id is ignored with a warning.
 */

#include "spec/network_annotation.h"
#include "device/allocated.h"
#include "spec/pod.h"

#define NET_ANNOTATION "k8s.v1.cni.cncf.io/networks"
#define NET_FIRST      "v1.multus-cni.io/default-network"
#define NET_STATUS     "k8s.v1.cni.cncf.io/network-status"

/* What the netconf says; borrowed. */
struct net_wish {
	const char *ifname;		   /* CNI_IFNAME */
	const char *pod_uid;		   /* as the runtime has it; NULL or "": it does not tell */
	int64_t own;			   /* how many networks the netconf has itself */
	const char *cluster_network;	   /* NULL: none */
	const char *multus_ns, *global_ns; /* global_ns: a comma list */
	struct json_strs defaults, system_ns;
	bool isolation;
};

struct net_nad {
	const char *config, *resource; /* NULL: none */
	bool trusted;		       /* its namespace is (spec/definition.h) */
	bool distrusted; /* its annotation says so, or the namespace is not known: even in multusNamespace */
	size_t left_out; /* bytes of it that were too many: config and resource are not known; 0: they are */
};

struct net_lookup {
	bool (*nad)(void *arg, const char *ns, const char *name, struct net_nad *ret);
	void *arg;
};

struct net_choice {
	char *ns, *name;	   /* ns NULL: a file of CNI's, or a path when it has a '/' */
	char *ifname;		   /* NULL: CNI_IFNAME */
	struct json_doc *config;   /* NULL: the file `name` of CNI's */
	char *resource, *device;   /* device: allocated for it; NULL: none */
	char *requested;	   /* the annotation's deviceID, authorized; NULL: none */
	bool trusted;		   /* an administrator wrote the configuration */
	const struct net_ask *ask; /* NULL: nobody's wish */
};

struct net_plan {
	struct net_choice *v;
	size_t n;
	bool has_first;	     /* v[0] is the pod's first network, */
	bool replaces_first; /* in the place of the netconf's */
	bool lacks_nad;	     /* what failed is that a definition is not there */
	struct net_select first, asked;
	char **warnings;
	size_t n_warnings;
};

/* Errors are one line that begins with the pod. On failure only net_plan_done() may be called, and
 * lacks_nad be looked at. */
int net_plan_make(const struct net_wish *w, const struct pod_facts *pod, const struct net_lookup *l,
		  struct net_plan *ret, struct err *e);
void net_plan_done(struct net_plan *p);
#define auto_net_plan __attribute__((cleanup(net_plan_done)))

/* Whether the kubelet's allocations matter for it. */
bool net_plan_wants_devices(const struct net_plan *p);
/* Takes from `a`, and authorizes what annotations request; what is not there is a warning. */
void net_plan_devices(struct net_plan *p, struct allocated *a);

/* "networks", "replacesFirst" and "warnings" of an object; cni/cluster/add.h has the elements. */
void net_plan_put(const struct net_plan *p, struct json_out *o);

#endif
