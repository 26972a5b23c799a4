/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_REGISTRATION_INTERNAL_H
#define UNIRAIL_CONTROLLER_REGISTRATION_INTERNAL_H

/* Between registration.c (what there is) and registration.c (what is written). */

#include "base/backoff.h"
#include "controller/registration/hooks.h"
#include "kube/informer.h"

#define HOOKS_GROUP "admissionregistration.k8s.io"

enum { HOOKS_TEXT_MAX = 1 << 20, HOOKS_WHAT_MAX = 1024 };

/* One of the two. */
struct side {
	struct hooks *h;
	const struct kube_kind *kind;
	bool validating;
	struct kube_informer *informer;
	struct kube_call *call;
	struct loop_timer *timer;
	struct kube_backoff backoff;
	/* Two who put it right in turns do so ever more slowly. */
	struct kube_backoff calm;
	int64_t healed_at, not_before;
	char *sent;    /* what was asked for last; NULL: nothing yet */
	char *version; /* that our write made: what is older was before it */
	char *kept; /* what the server made of `sent`, where that is something else; NULL: nothing */
	bool right;	    /* it was as it is to be, since `sent` */
	bool no_conditions; /* the server drops or refuses them */
	bool making;	    /* the call under way is a creation */
	bool missing;	    /* there is none, and we may not make it */
};

struct hooks {
	struct hooks_conf conf;
	struct loop *loop;
	struct side sides[2];
	uint64_t healed;
};

/* kube_object.value */
struct there {
	struct json_doc *doc; /* the field `webhooks` */
	bool injected;	      /* cert-manager puts the caBundle in */
};

void hooks_look_in(struct side *s, int64_t ms);
/* version NULL: it is made. */
void hooks_send(struct side *s, const char *webhooks, const char *version);
/* Whether `webhooks` is what the server made of this. */
bool hooks_is_kept(const struct side *s, const struct json *webhooks, const char *want);

#endif
