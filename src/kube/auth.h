/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KUBE_AUTH_H
#define UNIRAIL_KUBE_AUTH_H

/*
 * The credentials of a kube_conf, kept fresh. Files (token, CA, certificate, key) are read again
 * when they are a minute old, or at once after the server said 401 or did not fit; a file that
 * cannot be read then leaves what was known in force, with a line in the log. A program (exec) is
 * run when its credential is about to end or was rejected. Nothing here ever prints a credential.
 */

#include "base/loop.h"
#include "kube/config.h"
#include "wire/tls/tls.h"

enum { KUBE_TOKEN_MAX = 64 << 10 };

struct kube_auth;

/* `changed` is called, from the loop, when a program that kube_auth_refresh() waits for has ended.
 * The configuration is borrowed. */
struct kube_auth *kube_auth_new(struct loop *l, const struct root *root, const struct kube_conf *c,
				void (*changed)(void *arg), void *arg);
void kube_auth_free(struct kube_auth *a);

/* Before a request. 1: what follows is valid; 0: wait for `changed`; negative: there are no valid
 * credentials, and why. */
int kube_auth_refresh(struct kube_auth *a, struct err *e);
const char *kube_auth_header(const struct kube_auth *a); /* "Bearer ..."; NULL: none */
struct tls_conf *kube_auth_tls(const struct kube_auth *a);
/* Counts up when the TLS side has changed: connections opened before should be replaced. */
unsigned int kube_auth_generation(const struct kube_auth *a);

/* The server refused them. True: it is worth asking again after kube_auth_refresh(). */
bool kube_auth_rejected(struct kube_auth *a);

/* --- its parts --- */

struct kube_credential {
	char *token, *cert, *key; /* NULL: not given */
	int64_t until_ms;	  /* since the epoch; 0: no end */
};
void kube_credential_done(struct kube_credential *c);
/* What a program printed. Errors never quote it. */
int kube_credential_parse(struct kube_credential *ret, struct span text, struct err *e);

#endif
