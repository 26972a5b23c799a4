/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_INJECTION_INJECT_H
#define UNIRAIL_CONTROLLER_INJECTION_INJECT_H

/*
 * One annotation on a pod, or else on its namespace, instead of a list of networks and resources:
 *
 *	cni.spidernet.io/rdma-resource-inject: gpu-ib
 *	cni.spidernet.io/network-resource-inject: gpu-ib, storage
 *
 * names groups of SpiderMultusConfigs: those that carry the same annotation with that value, of
 * whatever namespace (theirs may be several values, too). Their networks become the pod's
 * k8s.v1.cni.cncf.io/networks, in the natural order of what they are on (eth2 before eth10), as JSON with
 * the names of their interfaces (net1, net2, ...), and what they need of the node's devices is put into the
 * limits of its first container. A list that the pod has already is overwritten, as by Spiderpool's
 * webhook, with a warning that quotes it.
 *
 * A key on the pod counts before the namespace's, also when it is empty: the pod wants none then.
 * The key of RDMA counts before the other one. A pod that has all of it already is left as it is.
 *
 * Nothing here waits or keeps anything; whoever answers the API server has the objects.
 */

#include <stdbool.h>
#include <stddef.h>

#include "kube/patch.h"

enum inject_key { INJECT_RDMA, INJECT_NETWORK, INJECT_KEYS };
const char *inject_key_name(enum inject_key key); /* the annotation */

/* What counts of a SpiderMultusConfig. */
struct inject_net {
	char *ns, *name;
	char *nad;	/* what its NetworkAttachmentDefinition is called */
	char *type;	/* cniType */
	char *rail;	/* what it is sorted by: netdev, bond or resource; "": by its own name */
	char *resource; /* of the device plugin; NULL: none */
	bool takes;	/* a device of its own is taken of it, not a part in a shared one */
	bool pools;	/* it names pools, or has no addresses at all */
	char *group[INJECT_KEYS]; /* the annotations' values; NULL: not there */
};

/* From the object as the API server has it; what is missing in it is empty. *ret is overwritten. */
void inject_net_read(const struct json *smc, struct inject_net *ret);
void inject_net_done(struct inject_net *n);

struct inject_nets { /* in no order */
	const struct inject_net **v;
	size_t n;
};

struct inject_ask {
	const struct json *pod;		   /* as it is to be created; may have no name yet */
	const char *ns;			   /* the request's: the object may have none */
	const char *ns_group[INJECT_KEYS]; /* the namespace's annotations; NULL: not there */
	struct inject_nets nets;	   /* all that there are */
	bool ipc_lock; /* containers with such a device get the capability to lock memory */
	void (*warn)(void *arg, const char *text); /* what the user should know; may be NULL */
	void *arg;
};

/*
 * Writes the operations that are missing, and returns their number: 0, nothing is to be done. A
 * pod that cannot be served is refused (negative, kind ERR_CONF): e says which annotation, and what
 * there is. The patch is of no use then.
 */
int inject_pod(const struct inject_ask *q, struct kube_patch *patch, struct err *e);

/* Whether a pod or a namespace with these annotations (an object of strings) asks for anything, so
 * that whoever does not need not be looked at. */
bool inject_is_asked(const struct json *annotations);
/* The same in bits: INJECT_HAS(key): the annotation is there; INJECT_ASKS(key): it names a group. */
unsigned int inject_asks(const struct json *annotations);
#define INJECT_HAS(key)	 (1U << (2 * (key)))
#define INJECT_ASKS(key) (2U << (2 * (key)))

/*
 * Namespaces whose pods are looked at: lists as "kube-system, metallb-*", where a name may end in
 * '*'. Those in `exclude` are not, of the others those in `include`, or all when it is empty.
 */
struct inject_scope {
	const char *include, *exclude; /* NULL: empty */
};
#define INJECT_EXCLUDE "kube-system, kube-public, spiderpool, metallb-system, istio-system"

bool inject_in_scope(const struct inject_scope *s, const char *ns);
/* The same as a webhook's namespaceSelector, for the API server. It cannot say a name that ends in
 * '*': what those decide is let through, and so to be asked of inject_in_scope(). */
void inject_scope_write(const struct inject_scope *s, struct json_out *o);

#endif
