/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_ENDPOINT_ENDPOINT_H
#define UNIRAIL_AGENT_ENDPOINT_ENDPOINT_H

/*
 * A SpiderEndpoint as Spiderpool has it: all addresses of a pod, one object. It is called as the pod,
 * or as the KubeVirt machine (spec/identity.h); it belongs to the pod and goes with it, unless its
 * addresses are kept. Pure: from leases to texts.
 */

#include "ipam/journal/lease.h"
#include "spec/pod.h"
#include "ipam/pool/pool.h"

#define ENDPOINT_NODE_LABEL "unirail.io/node" /* block_label() of the node it was written by */

enum { ENDPOINT_MAX = 1 << 20 };

/* What a name has here. */
struct endpoint {
	char *ns, *name, *uid; /* uid: of the pod */
	char *ips;	       /* JSON: status.current.ips */
	bool kept;	       /* nothing is used, something is kept: it stays as it is */
	bool sticky;	       /* what is used will be kept */
};

struct endpoints_wanted {
	struct endpoint *v; /* by namespace and name */
	size_t n;
};

/*
 * Of a name with several containers, the last's; leases without a pod's name have none. Interfaces
 * are in the order in which they got their addresses, those of one request in the natural order of
 * their names; IPv4 and IPv6 of one are together.
 */
void endpoints_wanted(const struct lease_table *t, const struct pool_set *s,
		      struct endpoints_wanted *ret);
void endpoints_wanted_done(struct endpoints_wanted *w);
const struct endpoint *endpoints_wanted_find(const struct endpoints_wanted *w, const char *ns,
					     const char *name);

/*
 * The status, keys in the order of bytes, so that it can be compared with endpoint_status_of().
 * ownerController*: the pod's controller; a ReplicaSet's pods are their Deployment's.
 */
char *endpoint_status(const struct endpoint *p, const struct pod_facts *pod, const char *node);
struct json;
char *endpoint_status_of(const struct json *object); /* "" when it has none */

/* Bodies: a new object, and a merge patch for one that is there. */
char *endpoint_create_text(const struct endpoint *p, const struct pod_facts *pod, const char *node,
			   const char *label);
char *endpoint_patch_text(const struct endpoint *p, const struct pod_facts *pod, const char *node,
			  const char *label);

#endif
