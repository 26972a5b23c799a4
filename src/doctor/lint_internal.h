/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DOCTOR_LINT_INTERNAL_H
#define UNIRAIL_DOCTOR_LINT_INTERNAL_H

/* Shared by lint.c (objects), lint_fields.c, lint_pod.c (workloads) and lint_index.c. */

#include "controller/admission/admit.h"
#include "controller/injection/inject.h"
#include "doctor/lint.h"

void lint_index_done(struct lint *l);
/* Returns a SpiderMultusConfig from which the NetworkAttachmentDefinition `nad` in namespace
 * `ns` is created and whose name is not other_than (may be NULL): of several the first by name,
 * or the last if the first is other_than. NULL: none. */
const struct object *lint_maker_of(const struct lint *l, const char *ns, const char *nad,
				   const char *other_than);
const struct inject_index *lint_inject_index(const struct lint *l);
/* Sets the pools and subnets of the cache to those that may overlap the object's spec.subnet. */
void lint_overlapping(const struct lint *l, const struct object *o, struct admit_cache *ret);

/* Reports fields of spec that the CustomResourceDefinition of the object's kind, in l->crds,
 * does not have. */
void lint_fields(struct lint *l, const struct object *o);
void lint_find(struct lint *l, enum lint_level level, const struct object *o, const char *field,
	       const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* Reports a reference to a missing object. */
void lint_missing(struct lint *l, const struct object *o, const char *field, const char *kind,
		  const char *name);
/* Like lint_missing(), for a network: neither a NetworkAttachmentDefinition nor a
 * SpiderMultusConfig defines it. */
void lint_missing_network(struct lint *l, const struct object *o, const char *field,
			  const char *name);
const char *lint_annotation(const struct json *v, const char *key); /* NULL: absent */

/* Returns the NetworkAttachmentDefinition, or the SpiderMultusConfig from which it is created;
 * NULL: neither exists. */
const struct object *lint_network_of(const struct lint *l, const char *ns, const char *name);
/* Returns the number of addresses of a SpiderIPPool; -1: the pool is invalid, or has too many to
 * count. */
int64_t lint_pool_size(const struct lint *l, const struct object *o);

/* A list of names without duplicates. */
struct lint_names {
	char **v;
	size_t n;
};
void lint_names_add(struct lint_names *l, const char *name); /* ignores NULL and "" */
/* Appends the pools that a CNI configuration names for the IPAM plugin spiderpool. */
void lint_config_pools(const char *config, struct lint_names *ret);

#endif
