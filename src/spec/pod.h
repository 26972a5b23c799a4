/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_SPEC_POD_H
#define UNIRAIL_SPEC_POD_H

/*
 * The properties of a pod and of its placement on which its networks and addresses depend; all
 * others are omitted, so that thousands of pods need little memory. Plain structs: the caller that
 * has the object (an informer, a GET) fills them; functions that take the structs as arguments only
 * borrow them.
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

/* Returns the value of the key; NULL: no such key. `l` may be NULL: no labels. */
const char *labels_get(const struct labels *l, const char *key);
/* Sets the key to a copy of the value, whether or not the key exists. */
void labels_put(struct labels *l, const char *key, const char *value);
/* For many labels, since n calls of labels_put() cost n times n: collect them in any order, then
 * merge (of equal keys the last one is used). The labels must not be read before labels_merge(). */
void labels_collect(struct labels *l, const char *key, const char *value);
void labels_merge(struct labels *l);
void labels_done(struct labels *l);
/* Reads an object of strings such as metadata.labels; null or absent: no labels. `place` is the
 * path for errors (kind ERR_DECODE). keep: selects the keys to store, NULL: all keys. *ret is
 * overwritten on success. */
int labels_read(const struct json *v, const char *place, bool (*keep)(const char *key),
		struct labels *ret, struct err *e);
/* Reads metadata.labels of an object that a tenant may write. If there are more than LABELS_MAX
 * labels, ignores all of them, so that none selects a pool, and logs a rate-limited line: 60,000
 * labels would take 6 MB in each agent. */
enum { LABELS_MAX = 1 << 10 };
int labels_of(const struct json *metadata, struct labels *ret, struct err *e);
/* Returns whether unirail reads the annotation: a key in one of the groups ipam.spidernet.io,
 * cni.spidernet.io, k8s.v1.cni.cncf.io, v1.multus-cni.io, unirail.io and kubevirt.io, or in a
 * subdomain of one of these, or the kubelet's annotation of the pod's source. */
bool pod_annotation_counts(const char *key);

struct pod_facts {
	char *ns, *name, *uid; /* never NULL */
	char *node;	       /* node of the pod; "": not scheduled yet */
	/* annotations: only those that pod_annotation_counts() accepts */
	struct labels labels, annotations;
	/* the owner reference with `controller` set; NULL: none */
	char *owner_api, *owner_kind, *owner_name, *owner_uid;
	/* deletionTimestamp, the end of the grace period; NULL: the pod is not being deleted */
	char *ends;
	bool host_network, finished, deleting; /* finished: phase Succeeded or Failed */
};

/* Returns whether the pod is a static pod of the kubelet. Such a pod has another UID at the
 * container runtime than at the API server. */
bool pod_is_static(const struct pod_facts *p);
void pod_facts_done(struct pod_facts *p);
void pod_facts_copy(const struct pod_facts *p, struct pod_facts *ret);
/* Reads a Pod object of the API server. Errors have kind ERR_DECODE and name the field; namespace,
 * name and UID are required. *ret is unchanged on failure. */
int pod_facts_read(const struct json *object, struct pod_facts *ret, struct err *e);

/* Placement of a pod; a member that is NULL is unknown. */
struct place_facts {
	const struct labels *node_labels, *ns_labels, *ns_annotations;
	const char *network; /* "ns/name" of the NetworkAttachmentDefinition of the interface */
};

#endif
