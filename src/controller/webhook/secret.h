/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_WEBHOOK_SECRET_H
#define UNIRAIL_CONTROLLER_WEBHOOK_SECRET_H

/*
 * Reads and writes the controller's own Secrets. They have the label
 * app.kubernetes.io/managed-by=unirail-controller. Secrets that Helm installed have
 * unirail.io/managed-by=unirail-controller instead, because Helm sets app.kubernetes.io/managed-by
 * to "Helm". A create fails with -EEXIST and a patch with -ESTALE when another replica was first.
 * Request bodies are wiped after they were passed to the client.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kube/client.h"

struct json;

struct secret_item {
	const char *key;
	const char *text; /* value, not encoded; NULL: the key stays unchanged */
	bool remove;	  /* delete the key; patch only */
};

struct secret_write {
	const char *ns, *name;
	const char *type; /* type of a created Secret; NULL: Opaque */
	/* resourceVersion to which the patch is bound; NULL: the Secret is created */
	const char *version;
	const char *since_name; /* name of an annotation with a time; NULL: none */
	int64_t since;		/* seconds since the epoch */
	const struct secret_item *items;
	size_t n_items;
};

/* Writes a Secret. Strings are copied. `fn` is never called before the return. */
struct kube_call *secret_write(struct kube *k, const struct secret_write *w, kube_done_fn fn,
			       void *arg);

/*
 * Replaces the API server's message for a forbidden create (403) by the remedy. The service account
 * of deploy/ may not create Secrets, since RBAC cannot restrict a create to a name; the manifests
 * create them empty.
 */
void secret_explain_missing(struct err *e, const char *kind, const char *ns, const char *name);

/* Returns whether the Secret has one of the labels above. */
bool secret_is_managed(const struct json *object);
/* Returns the time in the annotation `since_name`, in seconds since the epoch; 0: missing or
 * invalid. */
int64_t secret_since(const struct json *object, const char *since_name);
/*
 * Returns an item of `data`, decoded; the caller frees it with secret_text_free(). NULL: missing,
 * empty or invalid base64.
 */
char *secret_text(const struct json *object, const char *key);
/* Wipes and frees a text; accepts NULL. */
void secret_text_free(char *text);

#endif
