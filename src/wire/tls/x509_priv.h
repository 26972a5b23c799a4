/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_WIRE_TLS_X509_PRIV_H
#define UNIRAIL_WIRE_TLS_X509_PRIV_H

/* Between x509.c and x509_make.c. */

#include <mbedtls/pk.h>
#include <mbedtls/x509_crt.h>

#include "wire/tls/x509.h"

/* `what` it is called in an error. */
int x509_read(mbedtls_x509_crt *into, struct span pem, const char *what, struct err *e);
int x509_read_key(mbedtls_pk_context *into, struct span pem, const char *what, struct err *e);

#endif
