/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_WIRE_HTTP_HTTPS_H
#define UNIRAIL_WIRE_HTTP_HTTPS_H

/*
 * One HTTP/2 connection over TLS on the loop: resolves the name (in a child process, since lookups
 * block), tries one address after another, does the handshake, and then carries requests (see
 * h2.h). A server that has sent nothing for 30 s is pinged; if no byte arrives within another 15 s,
 * the connection is closed.
 */

#include "base/loop.h"
#include "wire/http/h2.h"
#include "wire/tls/tls.h"

struct https_conf {
	const char *host; /* DNS name or IP address */
	uint16_t port;
	const char *tls_name; /* expected in the certificate; NULL: host */
	struct tls_conf *tls; /* must have ALPN "h2" */
	int connect_ms;	      /* timeout until `ready` */
};

struct https_ops {
	void (*ready)(void *arg);
	/* Called once at the end of the connection, after every open stream has ended with the
	 * same error. `closed` may free the connection. */
	void (*closed)(void *arg, const struct err *e);
};

struct https;

/* Strings are copied. Failures are reported by `closed`, after this call has returned. */
struct https *https_open(struct loop *l, const struct https_conf *c, const struct https_ops *ops,
			 void *arg);
/* Frees the connection without calling `end` of open streams. Must not be called from a callback of
 * a stream. */
void https_free(struct https *c); /* accepts NULL */

/* Like h2_submit(), but sets r->authority to the host and port of the connection. May be called
 * only between `ready` and `closed`. */
int https_submit(struct https *c, struct h2_request *r, const struct h2_handler *fn, void *arg,
		 struct h2_stream **ret, struct err *e);
void https_cancel(struct https *c, struct h2_stream *s);

/* returns whether the connection is ready and no GOAWAY was received */
bool https_takes_requests(const struct https *c);
size_t https_streams(const struct https *c);

#endif
