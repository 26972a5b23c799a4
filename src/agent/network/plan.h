/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_NETWORK_PLAN_H
#define UNIRAIL_AGENT_NETWORK_PLAN_H

/*
 * Chooses the networks of a pod, in order. Pure: definitions are looked up by a callback.
 *
 *	first	annotation v1.multus-cni.io/default-network, else clusterNetwork, else the network
 *		in the netconf itself
 *	then	defaultNetworks, for pods outside systemNamespaces
 *	then	annotation k8s.v1.cni.cncf.io/networks
 *
 * Interfaces are named net<index> unless the annotation names them. A network whose definition
 * names a resource gets a device of that resource that the kubelet allocated to the pod; networks
 * get devices in the order above.
 *
 * Every user who may annotate a pod can set the deviceID of an element. It is used only if the
 * kubelet allocated that device to this pod, for the definition's resource or (if it names none)
 * for any. So an annotation cannot reach the node's own NICs or another pod's devices; Multus
 * accepts any ID. Plugins get an accepted deviceID as runtimeConfig.deviceID only
 * (cni/cluster/add.h). Any other deviceID is ignored with a warning.
 */

#include "spec/network_annotation.h"
#include "device/allocated.h"
#include "spec/pod.h"

/* The request of a CNI process: keys of its netconf, and values from the runtime. Strings are
 * borrowed. */
struct net_request {
	const char *ifname;		   /* CNI_IFNAME */
	const char *pod_uid;		   /* from the runtime; NULL or "": unknown */
	int64_t n_netconf;		   /* number of networks that the netconf itself contains */
	const char *cluster_network;	   /* as in the Multus configuration; NULL: none */
	const char *multus_ns, *global_ns; /* global_ns: comma-separated */
	struct json_strs defaults, system_ns;
	bool isolation;
};

struct net_nad {
	const char *config, *resource; /* spec.config and the resourceName annotation; NULL: none */
	bool trusted;		       /* its namespace is trusted (spec/definition.h) */
	/* the definition is not trusted even in multusNamespace: the annotation of its namespace
	 * denies trust, or the cache does not have the namespace */
	bool distrusted;
	/* size in bytes of a definition whose config was dropped because of a size limit; 0: it
	 * was not dropped */
	size_t left_out;
};

struct net_lookup {
	bool (*nad)(void *arg, const char *ns, const char *name, struct net_nad *ret);
	void *arg;
};

struct net_choice {
	/* ns NULL: name is the network name in a CNI configuration file, or, if it contains '/',
	 * a path */
	char *ns, *name;
	char *ifname;		 /* NULL: CNI_IFNAME */
	struct json_doc *config; /* configuration; NULL: that of the CNI configuration file */
	/* device: ID of the device allocated for this network; NULL: none */
	char *resource, *device;
	/* deviceID of the annotation, if the pod may use it and `device` is NULL; otherwise NULL */
	char *requested;
	bool trusted; /* an administrator wrote the definition; false if ns is NULL */
	/* element of the annotation; NULL: the network is not from an annotation */
	const struct network_request *request;
};

struct net_plan {
	struct net_choice *v;
	size_t n;
	/* v[0] is the pod's first network, from annotation default-network or clusterNetwork */
	bool has_first;
	/* v[0], from annotation default-network, replaces the first network of the netconf */
	bool replaces_first;
	bool lacks_nad; /* the error was caused by a missing definition */
	struct net_select first, requested;
	char **warnings;
	size_t n_warnings;
	size_t config_bytes; /* size of the configurations of all networks */
};

/* Computes the plan. An error is one line that begins with "pod 'NAMESPACE/NAME'". On failure
 * only net_plan_done() and lacks_nad may be used. */
int net_plan_make(const struct net_request *w, const struct pod_facts *pod,
		  const struct net_lookup *l, struct net_plan *ret, struct err *e);
void net_plan_done(struct net_plan *p);
#define auto_net_plan __attribute__((cleanup(net_plan_done)))

/* Returns whether the plan needs the kubelet's device allocations. */
bool net_plan_wants_devices(const struct net_plan *p);
/* Assigns devices of `a` and checks those that annotations request; a missing device causes a
 * warning. */
void net_plan_devices(struct net_plan *p, struct allocated *a);

/* Writes the keys "networks", "replacesFirst" and "warnings" of an object; cni/cluster/add.h
 * describes the elements of "networks". */
void net_plan_put(const struct net_plan *p, struct json_out *o);

#endif
