/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_ENDPOINT_ENDPOINT_H
#define UNIRAIL_AGENT_ENDPOINT_ENDPOINT_H

/*
 * A SpiderEndpoint as Spiderpool defines it: all addresses of a pod in one object, named like the
 * pod or the KubeVirt VM (spec/identity.h). Unless the addresses are retained when the pod is
 * deleted, the object has the pod as owner and is deleted with the pod. Pure functions: they
 * convert leases to JSON.
 */

#include "ipam/journal/lease.h"
#include "spec/pod.h"
#include "ipam/pool/pool.h"

enum { ENDPOINT_MAX = 1 << 20 };

/* The addresses that a pod's name has on this node. */
struct endpoint {
	char *ns, *name, *uid; /* uid: UID of the pod */
	char *ips;	       /* JSON array: status.current.ips */
	/* all addresses are retained, none is used: the object is not changed */
	bool retained;
	bool sticky; /* the addresses are retained when the pod is deleted */
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

/* Returns the status as JSON with sorted keys, which can be compared with endpoint_status_of();
 * "" if p->ips is not valid JSON or the status exceeds ENDPOINT_MAX. The keys ownerController*
 * name the pod's controller (for a ReplicaSet, its Deployment), or the pod. */
char *endpoint_status(const struct endpoint *p, const struct pod_facts *pod, const char *node);
struct json;
/* Returns the object's status in the same form; "" if it has none. */
char *endpoint_status_of(const struct json *object);

/* Request bodies to create an object, and to merge-patch an existing one. */
char *endpoint_create_text(const struct endpoint *p, const struct pod_facts *pod, const char *node,
			   const char *label);
char *endpoint_patch_text(const struct endpoint *p, const struct pod_facts *pod, const char *node,
			  const char *label);

#endif
