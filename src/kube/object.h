/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KUBE_OBJECT_H
#define UNIRAIL_KUBE_OBJECT_H

/* Fields that objects of all kinds have. */

#include "wire/json/json.h"

/* A field of metadata: "labels"; NULL: there is none. */
static inline const struct json *kube_meta(const struct json *object, const char *key)
{
	return json_get(json_get(object, "metadata"), key);
}

static inline const char *kube_meta_string(const struct json *object, const char *key)
{
	return json_string(kube_meta(object, key));
}

#endif
