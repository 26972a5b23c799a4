/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_WEBHOOK_CERTS_H
#define UNIRAIL_CONTROLLER_WEBHOOK_CERTS_H

/*
 * The certificate that the webhooks are served with, and the CA that the API server has to trust.
 * It comes from one of:
 *
 * 	own Secret		created by the first replica (creation is atomic: the others use its content), or created empty by the manifest and filled by the leader;
 * 				renewed by the leader (controller/webhook/certs_plan.h), each write bound to a
 * 				version; created again with the same content when it is deleted
 * 	foreign Secret		(of cert-manager or a user: without unirail's label, or with cert-manager's
 * 				annotation) read, never written
 * 	files			read every 10 s
 *
 * Either Secret has tls.crt, tls.key and ca.crt. The controller creates its own Secret with the
 * type kubernetes.io/tls and recognizes it by a label (controller/webhook/secret.h). The CA's key
 * is in a Secret of its own (ca.crt, ca.key), which is neither watched nor cached: it is read when
 * the certificate or the trusted CAs have to be changed, and the key is wiped afterwards. If an earlier version
 * stored ca.key beside the certificate, the leader moves the key to the CA's Secret. An unusable
 * certificate is logged once, and the previous one stays in use.
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
	/* PEM: clients must present a certificate signed by this CA; NULL: any client */
	const char *client_ca;
	struct certs_goal request;
	/* Called each time a set of certificate and CA is put in use, even if neither has
	 * changed. */
	void (*changed)(void *arg);
	/* Returns whether the API server trusts these CAs (PEM) already. Until then a new CA
	 * signs nothing, unless there is no usable certificate. */
	bool (*trusted)(void *arg, const char *ca);
	void *arg;
};

struct certs;

/* The strings are borrowed. */
struct certs *certs_new(const struct certs_conf *c);
void certs_free(struct certs *c); /* accepts NULL */

/* returns the TLS configuration; NULL: there is no certificate yet */
struct tls_conf *certs_tls(const struct certs *c);
const char *certs_ca(const struct certs *c); /* returns the CAs as PEM; NULL: unknown */
/* Returns the last error of reading, checking or writing the certificate, also while a previous
 * one is served; 0: none. */
int certs_sync_error(const struct certs *c, struct err *e);
/* Returns the expiry of the certificate in use, in seconds since the epoch; 0: unknown. */
int64_t certs_end(const struct certs *c);
/* Sets whether this replica is the leader, which renews the certificate. */
void certs_lead(struct certs *c, bool leads);

#endif
