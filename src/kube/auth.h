/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KUBE_AUTH_H
#define UNIRAIL_KUBE_AUTH_H

/*
 * The current credentials of a kube_conf. A request reads the files (token, CA, certificate, key)
 * again if the last read was more than a minute ago, or more than a second ago and since then the
 * server answered 401 or a TLS certificate was rejected. If a file cannot be read, the previous
 * content stays in use and a line is logged. A request starts the exec program if there is no
 * credential yet, or if the credential was rejected or expires within 10 s; but not within 10 s
 * after the last run of the program. No credential is ever printed.
 */

#include "base/loop.h"
#include "kube/config.h"
#include "wire/tls/tls.h"

enum { KUBE_TOKEN_MAX = 64 << 10 };

struct kube_auth;

/* `changed` is called from the loop when a program that kube_auth_refresh() started has ended.
 * Loop, root and configuration remain the caller's, and must exist until kube_auth_free(). */
struct kube_auth *kube_auth_new(struct loop *l, const struct root *root, const struct kube_conf *c,
				void (*changed)(void *arg), void *arg);
void kube_auth_free(struct kube_auth *a);

/* Called before a request. Returns 1 if the functions below may be called, 0 if the caller must
 * wait for `changed`; negative: there are no valid credentials, and e has the reason. */
int kube_auth_refresh(struct kube_auth *a, struct err *e);
/* returns the Authorization header, "Bearer ..."; NULL: none */
const char *kube_auth_header(const struct kube_auth *a);
struct tls_conf *kube_auth_tls(const struct kube_auth *a);
/* Returns a number that is incremented when the TLS configuration changes: connections of an older
 * generation should be replaced. */
unsigned int kube_auth_generation(const struct kube_auth *a);

/* Reports that the server refused the credentials, or that a TLS certificate was rejected.
 * Returns whether a retry after kube_auth_refresh() can help: the credentials come from a file
 * or a program. */
bool kube_auth_rejected(struct kube_auth *a);

/* --- parts of auth.c, exposed for tests --- */

struct kube_credential {
	char *token, *cert, *key; /* NULL: not given */
	int64_t until_ms;	  /* since the epoch; 0: does not expire */
};
void kube_credential_done(struct kube_credential *c);
/* Parses the output of an exec program. Errors never quote the output. */
int kube_credential_parse(struct kube_credential *ret, struct span text, struct err *e);

#endif
