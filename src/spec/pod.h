/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_SPEC_POD_H
#define UNIRAIL_SPEC_POD_H

/*
 * The properties of a pod and of its placement that its networks and addresses depend on, and no
 * others, so that thousands of them need little memory. Plain structs: the caller that has the
 * object (an informer, a GET) fills them, deciding functions borrow them.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct json;

struct label {
	char *key, *value;
};

struct labels {
	struct label *v; /* sorted by key (strcmp) */
	size_t n;
};

/* NULL l is no labels; NULL: no such key. */
const char *labels_get(const struct labels *l, const char *key);
/* Replaces the key's value, if any; strings are copied. */
void labels_put(struct labels *l, const char *key, const char *value);
/* Many at once: labels_put() of each costs the square of their number. Collect in any order, then merge (the last of
 * equal keys counts); between the two nothing may be read. */
void labels_collect(struct labels *l, const char *key, const char *value);
void labels_merge(struct labels *l);
void labels_done(struct labels *l);
/* An object of strings, as metadata.labels; null or absent: none. `place` is for errors (kind
 * ERR_DECODE). keep: which keys are kept, NULL: all. *ret is overwritten on success. */
int labels_read(const struct json *v, const char *place, bool (*keep)(const char *key),
		struct labels *ret, struct err *e);
/* metadata.labels of an object that a tenant writes: past LABELS_MAX none is kept, and a limited
 * log line says so. So
 * no pool is given by a label of such an object; 60,000 labels would be 6 MB in each agent. */
enum { LABELS_MAX = 1 << 10 };
int labels_of(const struct json *metadata, struct labels *ret, struct err *e);
/* The annotations that unirail reads: of the groups ipam.spidernet.io,
 * cni.spidernet.io, k8s.v1.cni.cncf.io, v1.multus-cni.io, unirail.io, kubevirt.io (and below), and
 * where the pod comes from. */
bool pod_annotation_counts(const char *key);

struct pod_facts {
	char *ns, *name, *uid;		   /* never NULL */
	char *node;			   /* "": not scheduled yet */
	struct labels labels, annotations; /* annotations: pod_annotation_counts() */
	char *owner_api, *owner_kind, *owner_name, *owner_uid; /* the controller's reference; NULL:
								* none */
	char *ends; /* deletionTimestamp, which has its grace in it; NULL: it is not being deleted */
	bool host_network, finished, deleting; /* finished: phase Succeeded or Failed */
};

/* The kubelet's own, from a file: the UID that the runtime has is not the API server's. */
bool pod_is_static(const struct pod_facts *p);
void pod_facts_done(struct pod_facts *p);
void pod_facts_copy(const struct pod_facts *p, struct pod_facts *ret);
/* From a Pod object (as the API server has it). Kind ERR_DECODE names the field; a pod without
 * namespace, name or UID is an error. *ret is left alone on failure. */
int pod_facts_read(const struct json *object, struct pod_facts *ret, struct err *e);

/* Placement of a pod; NULL: unknown. */
struct place_facts {
	const struct labels *node_labels, *ns_labels, *ns_annotations;
	const char *network; /* "ns/name" of the NetworkAttachmentDefinition of the interface */
};

#endif
