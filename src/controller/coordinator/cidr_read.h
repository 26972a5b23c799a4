/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_COORDINATOR_CIDR_READ_H
#define UNIRAIL_CONTROLLER_COORDINATOR_CIDR_READ_H

/*
 * Reads the cluster's pod and service CIDRs from objects: pure, JSON in, CIDRs out. Values that are
 * not CIDRs are skipped. cidr_network() and cidr_probe() read the node's CNI configuration.
 */

#include "base/file.h"
#include "wire/json/json.h"

struct cidr_list {
	char **v; /* no duplicates, in order of insertion; sorted by cidr_list_join() */
	size_t n;
};
void cidr_list_done(struct cidr_list *l);
/* Adds each CIDR of a text: separated by commas or blanks, with or without quotes. */
void cidr_list_add(struct cidr_list *l, const char *text);
void cidr_list_copy(struct cidr_list *l, const struct cidr_list *from);
/* Reduces l to the smallest list that covers the same addresses, because each entry becomes a
 * route in every pod. */
void cidr_list_join(struct cidr_list *l);

/* Content of one object. */
struct cidr_facts {
	struct cidr_list pods, services;
	char *mode;	  /* Cilium's ipam mode; NULL: none */
	int64_t since_ms; /* creation time; objects are ordered oldest first */
};
void cidr_facts_done(struct cidr_facts *f);

/* Reads ConfigMap kube-system/kubeadm-config: podSubnet and serviceSubnet of ClusterConfiguration.
 * */
void cidr_of_kubeadm(const struct json *object, struct cidr_facts *f);
/* Reads a pod of kube-controller-manager: --cluster-cidr and --service-cluster-ip-range. */
void cidr_of_manager(const struct json *object, struct cidr_facts *f);
void cidr_of_service_cidr(const struct json *object, struct cidr_facts *f);
/* Reads podCIDRs and podCIDR of a node, from which kubenet, flannel and others allocate
 * addresses. */
void cidr_of_node(const struct json *object, struct cidr_facts *f);
/*
 * Reads Calico's IPPool, also a disabled one, whose pods keep running, but not one that is being
 * deleted.
 */
void cidr_of_calico(const struct json *object, struct cidr_facts *f);
/* Reads ConfigMap cilium-config: the ipam mode, and the CIDRs of mode cluster-pool. */
void cidr_of_cilium(const struct json *object, struct cidr_facts *f);
void cidr_of_cilium_pool(const struct json *object, struct cidr_facts *f);

/* CIDR_UNREADABLE, which no podCIDRType names: the CNI of this node cannot be detected. */
enum cidr_type { CIDR_AUTO, CIDR_CLUSTER, CIDR_CALICO, CIDR_CILIUM, CIDR_NONE, CIDR_UNREADABLE };

/* Parses a type; -EINVAL: it is unknown. */
int cidr_type_parse(const char *text, enum cidr_type *ret);

/* Location of the configuration of this node's CNI; borrowed. */
struct cidr_cni {
	const char *dir; /* directory of CNI configurations */
	/* file written by the agent (agent/cluster/network.h), used if the controller has no
	 * permission to read the directory or a configuration */
	const char *published;
};
/*
 * Reads the name of the first network in the CNI directory that is not that of Multus or unirail,
 * which delegate to others. Returns 0 and sets *ret, which the caller frees; NULL: there is none.
 * -EACCES: its configuration or the directory is readable by root only, and the agent has not
 * published the name.
 */
int cidr_network(const struct root *root, const struct cidr_cni *cni, char **ret, struct err *e);
/* Returns the type that `auto` means on this node, by the name that cidr_network() returns.
 * CIDR_NONE: no name, or that of another CNI; CIDR_UNREADABLE: cidr_network() failed, e is set. */
enum cidr_type cidr_probe(const struct root *root, const struct cidr_cni *cni, struct err *e);

#endif
