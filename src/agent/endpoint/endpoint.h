/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_ENDPOINT_ENDPOINT_H
#define UNIRAIL_AGENT_ENDPOINT_ENDPOINT_H

/*
 * A SpiderEndpoint as Spiderpool defines it: all addresses of a pod in one object. It is named like
 * the pod, or like the KubeVirt VM (spec/identity.h). The pod owns it, so it is deleted with the
 * pod unless its addresses are retained. Pure: from leases to JSON.
 */

#include "ipam/journal/lease.h"
#include "spec/pod.h"
#include "ipam/pool/pool.h"

#define ENDPOINT_NODE_LABEL "unirail.io/node" /* block_label() of the node that wrote it */

enum { ENDPOINT_MAX = 1 << 20 };

/* The addresses of a name on this node. */
struct endpoint {
	char *ns, *name, *uid; /* uid: of the pod */
	char *ips;	       /* JSON: status.current.ips */
	/* no address is used, some are retained: the object stays unchanged */
	bool retained;
	bool sticky; /* used addresses will be retained */
};

struct endpoints_required {
	struct endpoint *v; /* sorted by namespace and name */
	size_t n;
};

/*
 * Computes the endpoints that should exist. If a name has several containers, the latest counts;
 * leases without a pod name have no endpoint. Interfaces are in the order in which they got their
 * addresses, those of one request in the natural order of their names; IPv4 and IPv6 of an
 * interface are together.
 */
void endpoints_required(const struct lease_table *t, const struct pool_set *s,
			struct endpoints_required *ret);
void endpoints_required_done(struct endpoints_required *w);
const struct endpoint *endpoints_required_find(const struct endpoints_required *w, const char *ns,
					       const char *name);

/* The status as JSON with sorted keys, to be compared with endpoint_status_of(). ownerController*:
 * the pod's controller; for a ReplicaSet of a Deployment, the Deployment. */
char *endpoint_status(const struct endpoint *p, const struct pod_facts *pod, const char *node);
struct json;
char *endpoint_status_of(const struct json *object); /* "" if the object has none */

/* Request bodies: a new object, and a merge patch for an existing one. */
char *endpoint_create_text(const struct endpoint *p, const struct pod_facts *pod, const char *node,
			   const char *label);
char *endpoint_patch_text(const struct endpoint *p, const struct pod_facts *pod, const char *node,
			  const char *label);

#endif
