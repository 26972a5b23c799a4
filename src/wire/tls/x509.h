/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_WIRE_TLS_X509_H
#define UNIRAIL_WIRE_TLS_X509_H

/* Certificates (mbedTLS): creation with ECDSA P-256 keys, inspection, verification against a CA. */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct x509_request {
	const char *name; /* common name, [A-Za-z0-9._-] */
	/* DNS names and IP addresses of the certificate, at most 32; none for a CA */
	const char *const *names;
	size_t n_names;
	bool client;	  /* a client's certificate, not a server's */
	int64_t from, to; /* seconds since the epoch */
	/* PEM of the signing CA, whose first certificate is the issuer, and PEM of the CA's key;
	 * both empty: x509_make() creates a self-signed CA */
	struct span ca, ca_key;
};

/* Stores certificate and key as PEM, freed by the caller. -EINVAL, kind ERR_CONF: invalid CA or
 * name, or more than 32 names. */
int x509_make(const struct x509_request *w, char **cert, char **key, struct err *e);

/* Properties of the first certificate of a PEM text. */
struct x509_facts {
	int64_t from, to;
	bool is_ca;
};
int x509_inspect(struct span pem, struct x509_facts *ret, struct err *e);

/* Verifies that `chain` is valid now for the server `name` (NULL: any name) under the CA `ca`.
 * -EKEYREJECTED with the reason. -EINVAL: `chain` or `ca` has no certificate, or one that
 * mbedTLS cannot read. */
int x509_trusts(struct span ca, struct span chain, const char *name, struct err *e);
/* Checks that the key belongs to the certificate. -EINVAL with the reason. */
int x509_fits(struct span cert, struct span key, struct err *e);

/* Sets *cert to the next certificate of a PEM text, its lines from BEGIN to END; returns false if
 * there is no further certificate. Text between certificates is ignored. */
bool x509_next(struct span *rest, struct span *cert);

#endif
