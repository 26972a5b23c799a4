/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_WIRE_HTTP_H2_H
#define UNIRAIL_WIRE_HTTP_H2_H

/*
 * HTTP/2 (nghttp2) as the client, many requests on one connection. This codec never touches a
 * descriptor: bytes in and out, and callbacks receive a response as it arrives, so no response body
 * is stored. https.h runs the codec on a socket.
 *
 * Why HTTP/2 for the API server: an agent keeps six to ten watches open. Measured (mbedTLS 3.6.7,
 * nghttp2 1.64, musl): a TLS connection holds 23 KiB, a session of nghttp2 12.5 KiB, a stream
 * 0.8 KiB. Ten watches on ten HTTP/1.1 connections hold 230 KiB, on one of HTTP/2 44 KiB. The API
 * server benefits more: a thousand agents cost it a thousand TLS sessions (and as many handshakes
 * when it restarts), not ten thousand. And PING distinguishes a dead server from an idle one, which
 * a watch over HTTP/1.1 cannot. nghttp2 is in the binary anyway, for gRPC. A server that speaks
 * HTTP/1.1 only (kube-apiserver --disable-http2-serving) is refused with an error that says that
 * the server does not speak HTTP/2.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum { H2_FIELDS_MAX = 8 };

struct h2_field {
	const char *name, *value;
	bool secret; /* excluded from header compression tables on both sides */
};

struct h2_request {
	const char *method, *authority, *path;
	/* header fields with lower-case names; at most H2_FIELDS_MAX */
	const struct h2_field *fields;
	size_t n_fields;
	struct span body; /* copied; empty: none */
};

struct h2_head {
	int status;
	int64_t retry_after; /* seconds; -1: no Retry-After, a date, or more than a day */
	char type[64];	     /* content-type, truncated to fit */
};

/*
 * Calls for one request: head once, data any number of times, end once; the stream is already
 * invalid when `end` is called. If no head arrives, only `end` is called. e is NULL when the answer
 * is complete. `untouched`: the server has not processed the request, so even a write may be sent
 * again. Callbacks may start and cancel requests; they must not free the session.
 */
struct h2_handler {
	void (*head)(void *arg, const struct h2_head *h);
	void (*data)(void *arg, struct span bytes);
	void (*end)(void *arg, const struct err *e, bool untouched);
};

struct h2;
struct h2_stream;

int h2_new(struct h2 **ret, struct err *e);
void h2_free(
	struct h2 *h); /* frees the streams, but calls no `end` (h2_fail() does); accepts NULL */

int h2_submit(struct h2 *h, const struct h2_request *r, const struct h2_handler *fn, void *arg,
	      struct h2_stream **ret, struct err *e);
void h2_cancel(struct h2_stream *s); /* cancels a request; its callbacks are not called */

/* Sets *ret to the next bytes for the peer, valid until the next call of h2_out or h2_in; n 0:
 * there are none now. */
int h2_out(struct h2 *h, struct span *ret, struct err *e);
int h2_in(struct h2 *h, struct span bytes, struct err *e);
void h2_ping(struct h2 *h);
/* Ends every stream with the reason; called after the connection has ended. */
void h2_fail(struct h2 *h, const struct err *reason);

/* returns whether SETTINGS were received, so that the peer speaks HTTP/2 */
bool h2_is_ready(const struct h2 *h);
/* returns whether no new request is accepted: GOAWAY was received, or h2_fail() was called */
bool h2_is_draining(const struct h2 *h);
size_t h2_streams(const struct h2 *h);

#endif
