/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_WEBHOOK_INTERNAL_H
#define UNIRAIL_CONTROLLER_WEBHOOK_INTERNAL_H

/* Shared by the files of this directory. */

#include "base/backoff.h"
#include "controller/webhook/certs.h"
#include "controller/webhook/review.h"
#include "kube/informer.h"

/* Shared by certs.c (certificate in use) and certs_secret.c (the Secrets). */

/* a kube_object.value */
struct certs_secret {
	struct certs_set set;
	bool managed;
};

struct certs {
	struct certs_conf conf;
	struct loop *loop;
	/* in use */
	struct tls_conf *tls;
	struct certs_set set;
	int64_t end;
	struct err sync_error; /* code 0: none */
	/* watch of the certificate's Secret */
	struct kube_informer *informer;
	bool managed, leads;
	struct kube_call *call;	 /* a write to either Secret, or a read of the CA's Secret */
	bool to_ca, creates;	 /* to_ca: the call writes the CA's Secret; creates: it is a POST */
	char *version;		 /* resourceVersion that the last write of the certificate's Secret
	                           * returned */
	struct loop_alarm timer; /* next check of the expiry, or of the files */
	struct backoff backoff;
	enum certs_step doing;
};

/* Uses the set for new connections, if it is usable. */
void certs_adopt(struct certs *c, const struct certs_set *s, const char *where);

void certs_secret_start(struct certs *c);
void certs_secret_stop(struct certs *c);
/* Carries out the next step, if one is due. */
void certs_secret_check(void *arg); /* a struct certs */

/* Shared by review.c and dispatch.c. */

enum { REVIEW_TEXT_MAX = 2048 };

struct review_cause {
	enum review_fault fault;
	char *field, *text;
};

#endif
