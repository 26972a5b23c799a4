/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_WIRE_TLS_INTERNAL_H
#define UNIRAIL_WIRE_TLS_INTERNAL_H

/* Shared by the files of this directory. */

#include <mbedtls/pk.h>
#include <mbedtls/ssl.h>
#include <mbedtls/ssl_ticket.h>
#include <mbedtls/x509_crt.h>
#include <stdbool.h>

#include "base/ip.h"
#include "wire/tls/tls.h"
#include "wire/tls/x509.h"

/* State of a TLS configuration (tls.c). */

/* The session of a client's last connection. */
struct tls_saved_session {
	char *name;    /* verified name of the server; NULL: no session is saved */
	int64_t until; /* expiry, seconds since the epoch */
	mbedtls_ssl_session session;
};

struct tls_check;

struct tls_conf {
	unsigned int users;
	enum tls_side side;
	mbedtls_ssl_config ssl;
	mbedtls_x509_crt ca, cert;
	mbedtls_pk_context key;
	const char *alpn[2];
	struct tls_saved_session saved;
	mbedtls_ssl_ticket_context tickets; /* keys that encrypt the tickets of a server */
	/* findings for the connection that is executing an mbedTLS function; else NULL */
	const struct tls_check *at_hand;
};

/* Findings of the verification of a peer's chain, for the error text and the resumption of
 * sessions. */
struct tls_check {
	char *name; /* name expected in the certificate; NULL: any */
	/* the name parsed as an IP address; family 0: a DNS name, or `name` is NULL */
	struct ipaddr ip;
	uint32_t flags; /* MBEDTLS_X509_BADCERT_... */
	/* mbedTLS checked a chain, `flags` has the result; false for a resumed session */
	bool verified;
	/* earliest expiry of the chain's certificates, in seconds since the epoch */
	int64_t end;
	mbedtls_x509_time from, to; /* validity of the expired or not yet valid certificate */
	struct buf names;	    /* names in the peer's certificate, for the error */
};

void tls_check_init(struct tls_check *c, const char *name);
void tls_check_done(struct tls_check *c);
/* Verify callback of mbedTLS; arg is a struct tls_check. */
int tls_check_cert(void *arg, mbedtls_x509_crt *crt, int depth, uint32_t *flags);
/* Sets e from the findings. */
int tls_check_err(const struct tls_check *c, enum tls_side side, struct err *e);

int64_t x509_seconds(const mbedtls_x509_time *t);      /* seconds since the epoch */
int tls_random(void *arg, unsigned char *p, size_t n); /* mbedTLS's f_rng */

#endif
