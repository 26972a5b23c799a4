/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_INJECTION_INJECT_H
#define UNIRAIL_CONTROLLER_INJECTION_INJECT_H

/*
 * Injects networks and devices into a pod because of a single annotation on the pod or its
 * namespace:
 *
 * 	cni.spidernet.io/rdma-resource-inject: gpu-ib
 * 	cni.spidernet.io/network-resource-inject: gpu-ib, storage
 *
 * Each value names a group: all SpiderMultusConfigs, in any namespace, that have the value in the
 * same annotation (which may list several values, too). The networks of the requested groups are
 * written to the pod's k8s.v1.cni.cncf.io/networks as JSON, in the natural order of their rails
 * (eth2 before eth10), with interface names net1, net2, ... The device resources that the networks
 * need are added to the limits of the first container. If the pod's list names other networks, it
 * is overwritten, as by Spiderpool's webhook, with a warning that quotes it.
 *
 * An annotation of the pod takes precedence over the same annotation of the namespace; an empty one
 * requests nothing. The RDMA annotation, if it requests a group, takes precedence over the network
 * annotation. A pod that has everything already, or is on the host's network, is not changed.
 *
 * These functions neither block nor keep state; the caller has the objects.
 */

#include <stdbool.h>
#include <stddef.h>

#include "kube/patch.h"

enum inject_key { INJECT_RDMA, INJECT_NETWORK, INJECT_KEYS };
const char *inject_key_name(enum inject_key key); /* name of the annotation */

/* The relevant part of a SpiderMultusConfig. */
struct inject_net {
	char *ns, *name;
	char *nad;	/* name of its NetworkAttachmentDefinition */
	char *type;	/* cniType */
	char *rail;	/* sort key: netdev, bond or resource; "": sorted by namespace and name */
	char *resource; /* resource of the device plugin; NULL: none */
	/* the network takes a device of its own, not a share of a shared device */
	bool takes;
	bool pools;		  /* has pools, or needs none (disableIPAM) */
	char *group[INJECT_KEYS]; /* values of the annotations; NULL: absent or empty */
};

/* Reads an object as the API server returns it. A missing cniType is read as "custom", a missing
 * name of the NAD as the object's name; other missing strings are empty or NULL. *ret is
 * overwritten. */
void inject_net_read(const struct json *smc, struct inject_net *ret);
void inject_net_done(struct inject_net *n);

/* Makes the groups of all SpiderMultusConfigs. The networks are borrowed and not changed. */
struct inject_index;
struct inject_index *inject_index_new(const struct inject_net *const *nets, size_t n);
void inject_index_free(struct inject_index *x); /* accepts NULL */

struct inject_request {
	const struct json *pod; /* the pod to create; may have no name yet */
	/* namespace of the admission request; the pod's metadata may have none */
	const char *ns;
	const char *ns_group[INJECT_KEYS]; /* annotations of the namespace; NULL: absent */
	const struct inject_index *index;  /* groups of all SpiderMultusConfigs */
	bool ipc_lock; /* containers with a device of the networks also get IPC_LOCK */
	void (*warn)(void *arg, const char *text); /* receives warnings for the user; may be NULL */
	void *arg;
};

/*
 * Writes the required patch operations and returns their number; 0: no change. Negative, kind
 * ERR_CONF: the pod must be denied, e has the reason, and the patch is unusable; -ENOENT: a
 * requested group does not exist.
 */
int inject_pod(const struct inject_request *q, struct kube_patch *patch, struct err *e);

/* Returns whether annotations (an object of strings) of a pod or namespace request networks. */
bool inject_is_requested(const struct json *annotations);
/* Returns the requests of annotations as bits: INJECT_HAS(key): the annotation exists;
 * INJECT_REQUESTS(key): it names a group. */
unsigned int inject_requests(const struct json *annotations);
#define INJECT_HAS(key)	     (1U << (2 * (key)))
#define INJECT_REQUESTS(key) (2U << (2 * (key)))

/*
 * Namespaces whose pods are injected: lists like "kube-system, metallb-*", where a name may end in
 * '*'. Pods in a namespace that `exclude` lists are not injected. Pods in another namespace are
 * injected if `include` lists the namespace or is empty.
 */
struct inject_scope {
	const char *include, *exclude; /* NULL: empty */
};
#define INJECT_EXCLUDE "kube-system, kube-public, spiderpool, metallb-system, istio-system"

bool inject_in_scope(const struct inject_scope *s, const char *ns);
/*
 * Writes the scope as a webhook's namespaceSelector. A selector cannot express a name that ends in
 * '*'; with such a name it selects more namespaces than the scope, and the webhook checks each
 * namespace with inject_in_scope().
 */
void inject_scope_write(const struct inject_scope *s, struct json_out *o);

#endif
