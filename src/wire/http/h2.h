/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_WIRE_HTTP_H2_H
#define UNIRAIL_WIRE_HTTP_H2_H

/*
 * HTTP/2 (nghttp2) as the client, many requests on one connection; it never touches a descriptor:
 * bytes in and out, and callbacks receive a response as it arrives, so no body is ever
 * held here. https.h puts it on a socket.
 *
 * Why HTTP/2 for the API server: an agent keeps six to ten watches open. Measured (mbedTLS 3.6.7,
 * nghttp2 1.64, musl): a TLS connection holds 23 KiB, a session of nghttp2 12.5 KiB, a stream
 * 0.8 KiB. Ten watches on ten HTTP/1.1 connections hold 230 KiB, on one of HTTP/2 44 KiB. It
 * weighs more on the other side: a thousand agents are a thousand TLS sessions for the API server
 * (and as many handshakes when it restarts), not ten thousand. And PING distinguishes a dead
 * server from
 * one with nothing to say, which an idle watch over HTTP/1.1 cannot. nghttp2 is in the binary
 * anyway, for gRPC. A server that speaks HTTP/1.1 only (kube-apiserver --disable-http2-serving) is
 * refused with those words.
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
	const struct h2_field *fields; /* lower-case names; at most H2_FIELDS_MAX */
	size_t n_fields;
	struct span body; /* copied; empty: none */
};

struct h2_head {
	int status;
	int64_t retry_after; /* seconds; -1: not said, or a date */
	char type[64];	     /* content-type; what does not fit is cut */
};

/*
 * For one request: head once, data any number of times, end once; after it the stream is gone.
 * Without a head there is only an end. e is NULL when the answer is whole. `untouched`: the server
 * has not processed the request, so it may be sent again whatever it does. Callbacks may make
 * requests and cancel any; they must not free the session.
 */
struct h2_handler {
	void (*head)(void *arg, const struct h2_head *h);
	void (*data)(void *arg, struct span bytes);
	void (*end)(void *arg, const struct err *e, bool untouched);
};

struct h2;
struct h2_stream;

int h2_new(struct h2 **ret, struct err *e);
void h2_free(struct h2 *h); /* NULL is fine; ends no stream: see h2_fail */

int h2_submit(struct h2 *h, const struct h2_request *r, const struct h2_handler *fn, void *arg,
	      struct h2_stream **ret, struct err *e);
void h2_cancel(struct h2_stream *s); /* no callback follows */

/* The next bytes for the peer, valid until the next call of h2_out or h2_in; n 0: none for now. */
int h2_out(struct h2 *h, struct span *ret, struct err *e);
int h2_in(struct h2 *h, struct span bytes, struct err *e);
void h2_ping(struct h2 *h);
/* The connection has ended: ends every stream with `why`. */
void h2_fail(struct h2 *h, const struct err *reason);

bool h2_is_ready(const struct h2 *h);	 /* the peer's settings have come: it does speak HTTP/2 */
bool h2_is_draining(const struct h2 *h); /* takes no new requests (GOAWAY) */
size_t h2_streams(const struct h2 *h);

#endif
