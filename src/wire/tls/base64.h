/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_WIRE_TLS_BASE64_H
#define UNIRAIL_WIRE_TLS_BASE64_H

#include "base/buf.h"

/* Decodes base64 (whitespace is ignored) into a NUL-terminated string owned by the caller. -EINVAL:
 * invalid base64, or the content has a NUL. */
int base64_decode(struct span s, char **ret);
/* Encodes with the standard alphabet and padding, as Go's []byte in JSON; the caller frees the
 * string. */
char *base64_encode(struct span s);

#endif
