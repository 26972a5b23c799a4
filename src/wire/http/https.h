/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_WIRE_HTTP_HTTPS_H
#define UNIRAIL_WIRE_HTTP_HTTPS_H

/*
 * One HTTP/2 connection over TLS on the loop: resolves the name (in a child process, since lookups
 * block), tries one address after another, does the handshake, and then carries requests (see
 * h2.h). A server that has sent nothing for 30 s is pinged; 15 s later without a byte it is
 * considered dead.
 */

#include "base/loop.h"
#include "wire/http/h2.h"
#include "wire/tls/tls.h"

struct https_conf {
	const char *host; /* DNS name or IP address */
	uint16_t port;
	const char *tls_name; /* expected in the certificate; NULL: host */
	struct tls_conf *tls; /* wants ALPN "h2" */
	int connect_ms;	      /* for everything up to the first request */
};

struct https_ops {
	void (*ready)(void *arg);
	/* The end, once; every stream has been ended before, with the same error. Free it now or
	 * later. */
	void (*closed)(void *arg, const struct err *e);
};

struct https;

/* Strings are copied. Failures come by `closed`, never from within this call. */
struct https *https_open(struct loop *l, const struct https_conf *c, const struct https_ops *ops,
			 void *arg);
/* All its streams must have ended, or their `end` callbacks no longer matter. Must not be called
 * from one of their callbacks. */
void https_free(struct https *c); /* NULL is fine */

/* As h2_submit; only between `ready` and `closed`. ":authority" is the connection's. */
int https_submit(struct https *c, struct h2_request *r, const struct h2_handler *fn, void *arg,
		 struct h2_stream **ret, struct err *e);
void https_cancel(struct https *c, struct h2_stream *s);

bool https_takes_requests(const struct https *c); /* ready, and no GOAWAY came */
size_t https_streams(const struct https *c);

#endif
