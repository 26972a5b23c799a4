/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_WEBHOOK_CERTS_H
#define UNIRAIL_CONTROLLER_WEBHOOK_CERTS_H

/*
 * The certificate that the webhooks are served with, and the CA that the API server is to trust.
 *
 *	a Secret of ours	made by whichever replica is first (creation is atomic: all others take
 *				what it made), renewed by the leader (controller/webhook/certs_plan.h), each
 *				write by its version; made again as it was when somebody deletes it
 *	somebody else's Secret	(cert-manager's, a person's: without our label, or
 *				with cert-manager's annotation) read, never written
 *	files			read each 10 s
 *
 * A Secret of type kubernetes.io/tls has tls.crt, tls.key and ca.crt; ours has the label
 * app.kubernetes.io/managed-by=unirail-controller. The CA's key is in a Secret of its own (ca.crt, ca.key), which is
 * neither watched nor kept: it is read when a certificate or CA has to be made, and the key is wiped after that. A
 * ca.key that an earlier version put beside the certificate is moved there by the leader. One that cannot be used is one line in the log, and
 * what was served before goes on being served.
 */

#include "base/file.h"
#include "controller/webhook/certs_plan.h"
#include "kube/client.h"
#include "wire/tls/tls.h"

struct certs_conf {
	struct kube *kube;
	const struct root *root;
	const char *ns, *secret, *ca_secret;
	const char *cert_file, *key_file, *ca_file; /* instead of the Secret; NULL: none */
	const char *client_ca; /* PEM: clients must show a certificate of this CA; NULL: anybody */
	struct certs_wish wish;
	/* There is another certificate or CA than before. */
	void (*changed)(void *arg);
	/* Whether the API server has this CA by now: a new one signs nothing before. */
	bool (*trusted)(void *arg, const char *ca);
	void *arg;
};

struct certs;

/* Texts are borrowed. */
struct certs *certs_new(const struct certs_conf *c);
void certs_free(struct certs *c); /* NULL is fine */

struct tls_conf *certs_tls(const struct certs *c); /* NULL: none yet */
const char *certs_ca(const struct certs *c);	   /* PEM; NULL: not known */
/* Why there is none, or not a good one. 0: there is. */
int certs_trouble(const struct certs *c, struct err *e);
/* When what is served expires, seconds since the epoch; 0: not known. */
int64_t certs_end(const struct certs *c);
/* Whether this replica renews it. */
void certs_lead(struct certs *c, bool leads);

#endif
