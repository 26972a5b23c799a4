/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_WIRE_TLS_PRIV_H
#define UNIRAIL_WIRE_TLS_PRIV_H

/* What tls.c, tls_conf.c and tls_check.c share; not for other folders. */

#include <stdbool.h>

#include <mbedtls/ssl.h>

#include "base/ip.h"
#include "wire/tls.h"

struct tls_conf {
	unsigned int users;
	enum tls_side side;
	mbedtls_ssl_config ssl;
	mbedtls_x509_crt ca, cert;
	mbedtls_pk_context key;
	const char *alpn[2];
};

/* What is found while a peer's chain is looked at, for the words afterwards. */
struct tls_check {
	char *name;		    /* expected in the certificate; NULL on a server */
	struct ipaddr ip;	    /* the same as an address; family 0: it is none */
	uint32_t flags;		    /* MBEDTLS_X509_BADCERT_... */
	mbedtls_x509_time from, to; /* validity of the certificate that is out of it */
	struct buf names;	    /* what the peer's certificate is for */
};

void tls_check_init(struct tls_check *c, const char *name);
void tls_check_done(struct tls_check *c);
/* mbedTLS's verify callback; arg is a struct tls_check. */
int tls_check_cert(void *arg, mbedtls_x509_crt *crt, int depth, uint32_t *flags);
/* Sets e by what was found. */
int tls_check_err(const struct tls_check *c, enum tls_side side, struct err *e);

/* For a code that mbedTLS returned; alert is the peer's when it sent one, else -1. */
int tls_code_err(int code, int alert, enum tls_side side, const char *doing, struct err *e);

int tls_random(void *arg, unsigned char *p, size_t n); /* mbedTLS's f_rng */

#endif
