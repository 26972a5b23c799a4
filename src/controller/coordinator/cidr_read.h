/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_COORDINATOR_CIDR_READ_H
#define UNIRAIL_CONTROLLER_COORDINATOR_CIDR_READ_H

/*
 * Where a cluster says which addresses its pods and services have: pure, JSON in, subnets out. What
 * is no subnet is passed over.
 */

#include "base/file.h"
#include "wire/json/json.h"

struct cidr_list {
	char **v; /* each once, in the order they came */
	size_t n;
};
void cidr_list_done(struct cidr_list *l);
/* Each of a text: commas or blanks between, quotes around or not. */
void cidr_list_add(struct cidr_list *l, const char *text);
void cidr_list_copy(struct cidr_list *l, const struct cidr_list *from);
/* The same addresses in as few subnets as can be: each is a route in each pod. */
void cidr_list_join(struct cidr_list *l);

/* What one object says. */
struct cidr_facts {
	struct cidr_list pods, services;
	char *mode;	  /* Cilium's ipam; NULL: none */
	int64_t since_ms; /* when it was created: the older come first */
};
void cidr_facts_done(struct cidr_facts *f);

/* ConfigMap kube-system/kubeadm-config: podSubnet and serviceSubnet of ClusterConfiguration. */
void cidr_of_kubeadm(const struct json *object, struct cidr_facts *f);
/* A pod of kube-controller-manager: --cluster-cidr and --service-cluster-ip-range. */
void cidr_of_manager(const struct json *object, struct cidr_facts *f);
void cidr_of_service_cidr(const struct json *object, struct cidr_facts *f);
/* spec.podCIDRs, which kubenet, flannel and others have their pods' addresses from. */
void cidr_of_node(const struct json *object, struct cidr_facts *f);
/* Calico's IPPool, a disabled one as well: its pods go on. None of one that is being deleted. */
void cidr_of_calico(const struct json *object, struct cidr_facts *f);
/* ConfigMap cilium-config: mode, and the subnets of mode cluster-pool. */
void cidr_of_cilium(const struct json *object, struct cidr_facts *f);
void cidr_of_cilium_pool(const struct json *object, struct cidr_facts *f);

/* CIDR_UNREADABLE: what `auto` means where this node's CNI cannot be detected; no text stands for it. */
enum cidr_type { CIDR_AUTO, CIDR_CLUSTER, CIDR_CALICO, CIDR_CILIUM, CIDR_NONE, CIDR_UNREADABLE };

/* -EINVAL: no such word. */
int cidr_type_parse(const char *text, enum cidr_type *ret);
const char *cidr_type_name(enum cidr_type t);

/* Where this node's CNI is described; borrowed. */
struct cidr_cni {
	const char *dir; /* of CNI configurations */
	const char *
		published; /* by the agent (agent/cluster/network.h): read where this process may not read the above */
};
/*
 * The name of the first network of the CNI directory that is not Multus or unirail's own, which call it. Returns 0 with
 * *ret, which the caller frees; NULL: there is none. -EACCES with e: its configuration, or the directory, cannot be read
 * without being root, and the agent has not published the name.
 */
int cidr_network(const struct root *root, const struct cidr_cni *cni, char **ret, struct err *e);
/* What `auto` means, by that name; CIDR_UNREADABLE with e. */
enum cidr_type cidr_probe(const struct root *root, const struct cidr_cni *cni, struct err *e);

#endif
