/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_WIRE_RESOLVE_H
#define UNIRAIL_WIRE_RESOLVE_H

/* Resolves names without blocking the loop: getaddrinfo(3) in a child process. */

#include "base/child.h"
#include "base/ip.h"

enum { RESOLVE_MAX = 8 };

/* Called with the result: n >= 1 addresses in the order in which to try them, or n 0 and e. */
typedef void (*resolve_fn)(void *arg, const struct ipaddr *v, size_t n, const struct err *e);

struct resolve;

int resolve_start(struct resolve **ret, struct loop *l, const char *host, int timeout_ms,
		  resolve_fn fn, void *arg, struct err *e);
/* cancels the request; the callback is not called; accepts NULL */
void resolve_cancel(struct resolve *r);

#endif
