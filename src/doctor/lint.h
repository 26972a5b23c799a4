/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DOCTOR_LINT_H
#define UNIRAIL_DOCTOR_LINT_H

/*
 * Validates manifests without a cluster:
 *
 * Objects of unirail's kinds get the defaults and are validated as in admission, together with the
 * other objects of the manifests (controller/admission/admit.h).
 *
 * Definitions of networks in namespaces that are not trusted must follow the rules for tenants
 * (spec/definition.h).
 *
 * Pods, and pod templates at any depth of other objects (Deployment, CronJob, MPIJob): their
 * annotations are parsed; their networks, pools and resources are looked up among the objects.
 *
 * Fields of spec that the CustomResourceDefinition of the kind does not have are errors: kubectl
 * refuses such a field, other clients drop it. A reference to a missing object is an error if the manifests have any
 * object of its kind, otherwise a warning, because the object may be in the cluster.
 */

#include "doctor/objects.h"

enum lint_level { LINT_WARNING, LINT_ERROR };

struct lint_finding {
	enum lint_level level;
	char *origin; /* "pools.yaml:12" */
	/* object of the finding such as "SpiderIPPool rail0", "Deployment team/train" */
	char *object;
	char *field; /* field of the finding such as "spec.ips[0]"; "": the whole object */
	char *text;
};

struct lint {
	const struct objects *in;   /* sorted */
	const struct objects *crds; /* CustomResourceDefinitions; NULL: fields are not checked */
	/* Namespace of unirail; a multusName without a namespace refers to it. Definitions of
	 * networks in this namespace are trusted by default. */
	const char *own_ns;
	struct lint_finding *v;
	size_t n;
	struct lint_index *index; /* created by lint_index_make() */
};

/* Builds the index that the functions below use; lint_done() frees it. lint_run() calls
 * lint_index_make(); a caller that does not call lint_run() must call lint_index_make() first.
 * `in` must not change afterwards. */
void lint_index_make(struct lint *l);

void lint_run(struct lint *l);
/* Checks one pod or pod template of the object `o`; `path` is the template's field in `o`, ""
 * for a pod. */
void lint_pod(struct lint *l, const struct object *o, const struct json *pod, const char *path);
void lint_done(struct lint *l);
size_t lint_count(const struct lint *l, enum lint_level level);

/* One network that a pod requests. */
struct lint_network {
	char *ns, *name, *ifname;
	const struct object
		*object; /* NetworkAttachmentDefinition or SpiderMultusConfig; NULL: neither
		*exists */
	char *config;	 /* spec.config of the network's definition; NULL: none */
	char *resource;	 /* resource of the device plugin; NULL: none */
};
/* Lists the networks of a pod or pod template: those that the injection writes into its networks
 * annotation, or those of the annotation itself if nothing is injected. Errors are of kind
 * ERR_CONF. The caller frees the list with lint_networks_done(). */
int lint_networks(const struct lint *l, const char *ns, const struct json *pod,
		  struct lint_network **ret, size_t *n, struct err *e);
void lint_networks_done(struct lint_network *v, size_t n);
/*
 * For each network of a pod, lists the pools that the annotations of the pod or of its namespace
 * name; if they name none, those in the IPAM configuration of the network. A name may have
 * wildcards. The caller frees the list with str_list_free().
 */
int lint_pools(const struct lint *l, const char *ns, const struct json *pod,
	       const struct lint_network *nets, size_t n, char ***ret, size_t *count,
	       struct err *e);
/* Returns the sum of an extended resource over the containers: of each the limit, or the request if
 * there is no limit. */
int64_t lint_requested(const struct json *pod, const char *resource);

#endif
