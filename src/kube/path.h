/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KUBE_PATH_H
#define UNIRAIL_KUBE_PATH_H

/* Reference to an object or collection: as an API path and as text for messages. */

#include <stdbool.h>

#include "base/buf.h"

struct kube_kind {
	const char *group, *version; /* group "": the core group */
	const char *plural;	     /* "pods" */
	const char *name;	     /* "pod", for messages */
	bool namespaced;
};

struct kube_ref {
	const struct kube_kind *kind;
	const char *ns;	  /* NULL or "": all namespaces; ignored for cluster-scoped kinds */
	const char *name; /* NULL: the collection */
	const char *sub;  /* subresource such as "status"; may be NULL */
};

enum { KUBE_PATH_MAX = 8 << 10 };

/* Appends the path, such as "/api/v1/namespaces/ns/pods/name", escaped. */
void kube_path(struct buf *b, const struct kube_ref *r);
/* Appends "?key=value", or "&key=value" if b has a "?" already; escapes the value. Appends nothing
 * if value is NULL or "". */
void kube_path_query(struct buf *b, const char *key, const char *value);
/* Writes a reference for messages: "pod 'ns/name'", "pods of 'ns'", "pods". */
void kube_ref_describe(struct buf *b, const struct kube_ref *r);

#endif
