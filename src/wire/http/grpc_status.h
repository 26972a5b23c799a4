/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_WIRE_HTTP_GRPC_STATUS_H
#define UNIRAIL_WIRE_HTTP_GRPC_STATUS_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

#define GRPC_TYPE "application/grpc"

/* Returns whether the type is "application/grpc", alone or followed by a text that begins with
 * '+', ';' or a blank. */
bool grpc_type_ok(const char *content_type);
/* Percent-decodes; control characters become blanks, the result is truncated to fit. */
void grpc_message_decode(struct span s, char *ret, size_t size);
/* Sets e to "METHOD: STATUS: message" and returns the errno of the status, which must not be 0
 * (OK). */
int grpc_status_err(int status, const char *method, const char *message, struct err *e);

#endif
