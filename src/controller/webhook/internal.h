/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_WEBHOOK_INTERNAL_H
#define UNIRAIL_CONTROLLER_WEBHOOK_INTERNAL_H

/* What this folder's own files share. */

#include "base/backoff.h"
#include "controller/webhook/certs.h"
#include "controller/webhook/review.h"
#include "kube/informer.h"

/* Between certs.c (what is served) and certs_secret.c (the Secret). */

/* kube_object.value */
struct certs_secret {
	struct certs_set set;
	bool ours;
};

struct certs {
	struct certs_conf conf;
	struct loop *loop;
	/* what is served */
	struct tls_conf *tls;
	struct certs_set set;
	int64_t end;
	struct err trouble; /* code 0: none */
	/* the Secret */
	struct kube_informer *informer;
	bool ours, leads;
	struct kube_call *call;	  /* a write to either Secret, or a read of the CA's */
	bool to_ca, creates;	  /* that write */
	char *version;		  /* that our write to the certificate's Secret made */
	struct loop_timer *timer; /* what is next: a look at the time, or at the files */
	struct kube_backoff backoff;
	enum certs_step doing;
};

/* What is there by now: served from the next connection on, if it can be. */
void certs_adopt(struct certs *c, const struct certs_set *s, const char *where);

void certs_secret_start(struct certs *c);
void certs_secret_stop(struct certs *c);
/* Sees what is to be done. */
void certs_secret_look(struct certs *c);

/* Between review.c, review.c and reviews.c. */

enum { REVIEW_TEXT_MAX = 2048 };

struct review_cause {
	enum review_fault fault;
	char *field, *text;
};

#endif
