/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_WEBHOOK_SECRET_H
#define UNIRAIL_CONTROLLER_WEBHOOK_SECRET_H

/*
 * Writes a Secret of the controller's own: with the label app.kubernetes.io/managed-by=unirail-controller, by which
 * secret_is_ours() recognizes it. A create fails with -EEXIST and a patch with -ESTALE when another replica was first.
 * Request texts are wiped here after they were handed to the client.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kube/client.h"

struct json;

extern const struct kube_kind secret_kind;

struct secret_item {
	const char *key;
	const char *text; /* not encoded; NULL: the key stays as it is */
	bool remove;	  /* the key is deleted; for a patch */
};

struct secret_write {
	const char *ns, *name;
	const char *type;	/* of a created one; NULL: Opaque */
	const char *version;	/* a patch of this resourceVersion; NULL: create */
	const char *since_name; /* annotation with a time; NULL: none */
	int64_t since;		/* seconds since the epoch */
	const struct secret_item *items;
	size_t n_items;
};

/* Strings are copied. `fn` is never called from within. */
struct kube_call *secret_write(struct kube *k, const struct secret_write *w, kube_done_fn fn,
			       void *arg);

/*
 * Of a create that was refused (403): the remedy instead of the API server's words. The accounts of deploy/ may create no
 * object of their own, since RBAC cannot limit a create to a name; manifests create them empty.
 */
void secret_explain_missing(struct err *e, const char *kind, const char *ns, const char *name);

/* Whether the Secret has the label above. */
bool secret_is_ours(const struct json *object);
/* Of that annotation, seconds since the epoch; 0: none, or not a time. */
int64_t secret_since(const struct json *object, const char *since_name);
/* An item of `data`, decoded, the caller's to wipe and free. NULL: missing, empty or not valid base64. */
char *secret_text(const struct json *object, const char *key);
/* Frees a text after it was wiped; NULL is fine. */
void secret_text_free(char *text);

#endif
