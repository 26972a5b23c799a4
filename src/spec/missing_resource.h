/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_SPEC_MISSING_RESOURCE_H
#define UNIRAIL_SPEC_MISSING_RESOURCE_H

/*
 * The annotation by which the controller reports a network whose device resource no node has. It is on the network's
 * NetworkAttachmentDefinition, which every agent watches, so that `unirail status` reports the network on every node:
 *
 *	unirail.io/missing-resource: {"resource":"spidernet.io/gpu1sriv","suggestion":"spidernet.io/gpu1sriov"}
 *
 * suggestion: the most similar name of a resource that a node has; absent: no name is similar.
 */

#include <stdbool.h>
#include <stddef.h>

#include "wire/json/json.h"

/* Maximum length of "prefix/name" that Kubernetes accepts. */
enum { MISSING_RESOURCE_NAME_MAX = 253 + 1 + 63 };

struct missing_resource {
	char *resource, *suggestion; /* NULL: none */
};

/* Returns the value of the annotation, which the caller frees, or NULL if `resource` is not a
 * valid name. suggestion NULL: none. */
char *missing_resource_text(const char *resource, const char *suggestion);
/*
 * Reads the value, which any user with access to the object may have written; text NULL: no
 * annotation. Returns false, with *ret empty, unless it has a resource, and each name consists of
 * letters, digits and "-_./" and is not longer than MISSING_RESOURCE_NAME_MAX.
 */
bool missing_resource_read(const char *text, struct missing_resource *ret);
void missing_resource_done(struct missing_resource *m);

/*
 * Returns the entry of the list that is most similar to `name`: the same name with another prefix,
 * or with a typing error. NULL: no name is similar. The list is sorted bytewise.
 */
const char *missing_resource_suggest(const char *name, const char *const *list, size_t n);

#endif
