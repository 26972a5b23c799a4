/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_WIRE_TLS_BASE64_H
#define UNIRAIL_WIRE_TLS_BASE64_H

#include "base/buf.h"

/* Text out of base64 (blanks and line ends in it are passed over), NUL-terminated, the caller's.
 * -EINVAL: it is none, or what it holds has a NUL. */
int base64_decode(struct span s, char **ret);
/* The standard alphabet, padded, as Go's []byte in JSON; the caller's. */
char *base64_encode(struct span s);

#endif
