/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KUBE_OBJECT_H
#define UNIRAIL_KUBE_OBJECT_H

/* Fields that objects of all kinds have. */

#include "wire/json/json.h"

/* Begins a patch that the API server refuses if the object's version is not `version`. The
 * object `metadata` stays open, so that the caller can add members. */
static inline void kube_patch_begin(struct json_out *o, const char *version)
{
	jo_obj(o);
	jo_key(o, "metadata");
	jo_obj(o);
	jo_kstr(o, "resourceVersion", version);
}

/* Returns a field of metadata, such as "labels"; NULL: there is none. */
static inline const struct json *kube_meta(const struct json *object, const char *key)
{
	return json_get(json_get(object, "metadata"), key);
}

static inline const char *kube_meta_string(const struct json *object, const char *key)
{
	return json_string(kube_meta(object, key));
}

bool kube_has_finalizer(const struct json *object, const char *name);
/* Writes the member `finalizers` of metadata: the object's finalizers except `name`, then `name` if
 * `wanted`. */
void kube_put_finalizers(struct json_out *o, const struct json *object, const char *name,
			 bool wanted);

#endif
