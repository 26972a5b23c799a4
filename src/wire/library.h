/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_WIRE_LIBRARY_H
#define UNIRAIL_WIRE_LIBRARY_H

/* Versions of the linked libraries, for `unirail version`. */

/* Returns the version in use of "mbedtls", "nghttp2", "yyjson" or "nanopb"; NULL for any other
 * name. */
const char *wire_library_version(const char *name);

#endif
