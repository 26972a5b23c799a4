/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KUBE_OBJECT_STORE_H
#define UNIRAIL_KUBE_OBJECT_STORE_H

/*
 * Objects sorted by namespace and name. Each object is one allocation with its names and the
 * caller's decoded struct: 1,000 nodes with an empty struct take 200 KiB.
 */

#include <stdbool.h>
#include <stddef.h>

#include "wire/json/json.h"

struct kube_object {
	const char *ns, *name; /* ns "": cluster-scoped */
	const char *uid, *version;
	void *value; /* the caller's struct */
	unsigned int round;
};

/* Compares two resourceVersions, which the API server writes as numbers; false if either is not a
 * number. */
bool kube_version_older(const char *version, const char *than);

struct kube_store {
	struct kube_object **v;
	size_t n, cap;
};

/* Copies the names from the metadata and zeroes the value. NULL: the metadata has no name or
 * version. */
struct kube_object *kube_object_new(const struct json *object, size_t size);

struct kube_object *kube_store_get(const struct kube_store *s, const char *ns, const char *name);
/* Inserts o; returns the object it replaced, now owned by the caller, or NULL. */
struct kube_object *kube_store_put(struct kube_store *s, struct kube_object *o);
/* Removes the i-th object; the caller owns it. */
struct kube_object *kube_store_take(struct kube_store *s, size_t i);
/* Sets *ret to the position of the object, or to where it would be inserted; true: the object
 * exists. */
bool kube_store_find(const struct kube_store *s, const char *ns, const char *name, size_t *ret);

#endif
