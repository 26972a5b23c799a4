/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_WIRE_TLS_DIGEST_H
#define UNIRAIL_WIRE_TLS_DIGEST_H

/* SHA-256 (mbedTLS) as lower-case hex. */

#include "base/buf.h"
#include "base/file.h"

enum { DIGEST_HEX = 65 }; /* 64 digits and the NUL */

void digest_sha256(struct span data, char hex[static DIGEST_HEX]);
/* Reads the file in pieces, so its size is not limited. hex is unchanged on failure. */
int digest_sha256_file(const struct root *r, const char *path, char hex[static DIGEST_HEX],
		       struct err *e);

#endif
