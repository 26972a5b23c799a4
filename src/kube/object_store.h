/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KUBE_OBJECT_STORE_H
#define UNIRAIL_KUBE_OBJECT_STORE_H

/*
 * Objects by namespace and name, in that order. Of each there are its names and what the caller
 * decoded, in one allocation: 1,000 nodes with nothing decoded take 200 KiB.
 */

#include <stdbool.h>
#include <stddef.h>

#include "wire/json/json.h"

struct kube_object {
	const char *ns, *name; /* ns "": of the cluster */
	const char *uid, *version;
	void *value; /* the caller's struct */
	unsigned int round;
};

/* Of two resourceVersions. The API server's are numbers; false for what is none. */
bool kube_version_older(const char *version, const char *than);

struct kube_store {
	struct kube_object **v;
	size_t n, cap;
};

/* Names from its metadata, the value zeroed. NULL: it has no name or version. */
struct kube_object *kube_object_new(const struct json *object, size_t size);

struct kube_object *kube_store_get(const struct kube_store *s, const char *ns, const char *name);
/* Puts o in its place; returns what was there, the caller's now, or NULL. */
struct kube_object *kube_store_put(struct kube_store *s, struct kube_object *o);
/* Takes the i-th out; the caller's now. */
struct kube_object *kube_store_take(struct kube_store *s, size_t i);
/* Where it is or would be; true when it is there. */
bool kube_store_find(const struct kube_store *s, const char *ns, const char *name, size_t *ret);

#endif
