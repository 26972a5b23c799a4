/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KUBE_PATCH_H
#define UNIRAIL_KUBE_PATCH_H

/*
 * A JSON Patch (RFC 6902), the body of KUBE_JSON_PATCH. A "test" that does not hold rejects the
 * whole patch (422), so it can state preconditions:
 *
 *	struct kube_patch p;
 *
 *	kube_patch_init(&p);
 *	jo_str(kube_patch_add(&p, "test", "spec", "owner", NULL), "");
 *	jo_str(kube_patch_add(&p, "replace", "spec", "owner", NULL), "n1");
 *	request.body = kube_patch_end(&p);
 *	...
 *	kube_patch_done(&p);
 *
 * A merge patch is plain JSON; with "resourceVersion" in its metadata the server refuses it (409,
 * -ESTALE) when the object has another version.
 */

#include "wire/json/json.h"

struct kube_patch {
	struct buf b;
	struct json_out o;
	bool open; /* the object of the last operation is not closed yet */
};

void kube_patch_init(struct kube_patch *p);
void kube_patch_done(struct kube_patch *p);
/* Starts one operation on a path, whose parts end with NULL and are escaped here ("a/b" is one
 * part). The caller then writes exactly one value, unless op is "remove". */
struct json_out *kube_patch_add(struct kube_patch *p, const char *op, ...)
	__attribute__((sentinel));
struct span kube_patch_end(struct kube_patch *p);

/* Appends the operations that turn `was` into `is`, member by member. An array that differs, and a
 * value below 32 levels of objects, is replaced as a whole. Returns whether there is a difference.
 * Of duplicate keys in an object the last one is used. */
bool kube_patch_diff(struct kube_patch *p, const struct json *was, const struct json *is);

#endif
