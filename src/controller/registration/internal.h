/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_REGISTRATION_INTERNAL_H
#define UNIRAIL_CONTROLLER_REGISTRATION_INTERNAL_H

/* Internals of registration.c. */

#include "base/backoff.h"
#include "controller/registration/registration.h"
#include "kube/informer.h"

#define REGISTRATION_GROUP "admissionregistration.k8s.io"

enum { REGISTRATION_TEXT_MAX = 1 << 20, REGISTRATION_WHAT_MAX = 1024 };

/* One of the two configurations. */
struct side {
	struct registration *h;
	const struct kube_kind *kind;
	bool validating;
	struct kube_informer *informer;
	struct kube_call *call;
	struct loop_timer *timer;
	struct backoff backoff;
	/* Backoff for two writers that keep reverting each other's changes. */
	struct backoff calm;
	int64_t healed_at, not_before;
	char *sent;	    /* last content requested; NULL: none yet */
	char *version;	    /* resourceVersion of our last write: older ones are from before it */
	char *stored;	    /* what the server stored for `sent`, if different; NULL: the same */
	bool right;	    /* the content was correct at some time since `sent` */
	bool no_conditions; /* the server drops or rejects matchConditions */
	bool making;	    /* the call in flight is a create */
	bool missing;	    /* does not exist, and the account may not create it */
};

struct registration {
	struct registration_conf conf;
	struct loop *loop;
	struct side sides[2];
	uint64_t healed;
};

/* a kube_object.value */
struct there {
	struct json_doc *doc; /* the field `webhooks` */
	bool injected;	      /* cert-manager injects the caBundle */
};

void registration_schedule(struct side *s, int64_t ms);
/* version NULL: creates the object. */
void registration_send(struct side *s, const char *webhooks, const char *version);
/* Whether `webhooks` is what the server stored for `want`. */
bool registration_is_stored(const struct side *s, const struct json *webhooks, const char *want);

#endif
