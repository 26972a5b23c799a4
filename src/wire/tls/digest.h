/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_WIRE_TLS_DIGEST_H
#define UNIRAIL_WIRE_TLS_DIGEST_H

/* SHA-256 (mbedTLS) as lower-case hex, and the versions of the libraries under wire/. */

#include "base/buf.h"
#include "base/file.h"

enum { DIGEST_HEX = 65 }; /* 64 digits and the NUL */

void digest_sha256(struct span data, char hex[static DIGEST_HEX]);
/* Reads the file in pieces, so its size is not limited. hex is unchanged on failure. */
int digest_sha256_file(const struct root *r, const char *path, char hex[static DIGEST_HEX],
		       struct err *e);

/* Returns the version in use of "mbedtls", "nghttp2", "yyjson" or "nanopb"; NULL for any other
 * name. */
const char *wire_library_version(const char *name);

#endif
