/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_WIRE_HTTP_GRPC_H
#define UNIRAIL_WIRE_HTTP_GRPC_H

/*
 * A unary gRPC call as the client, over HTTP/2 without TLS (prior knowledge), as on the kubelet's
 * sockets. grpc_unary() does the whole call; the codec never touches a descriptor.
 *
 * Errors: for a grpc-status other than OK the errno is that of statuses[] in grpc.c (-EAGAIN for
 * UNAVAILABLE, -EOPNOTSUPP for UNIMPLEMENTED, -ENOENT for NOT_FOUND ...), and the text is "METHOD:
 * STATUS: the server's grpc-message". -ETIMEDOUT: the deadline has passed. -EPROTO: the peer is not
 * a gRPC server, or its answer is malformed. -ECONNRESET: the connection or the stream was closed
 * before the answer. -EMSGSIZE: the answer is larger than `max`.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum { GRPC_REPLY_MAX = 16 << 20 };

struct grpc_call {
	const char *socket;  /* path of a UNIX socket */
	const char *method;  /* "/package.Service/Method" */
	struct span request; /* one protobuf message */
	int timeout_ms;	     /* timeout of the whole call, including connecting */
	size_t max;	     /* maximum size of the answer in bytes; 0: GRPC_REPLY_MAX */
	const char *remedy;  /* appended to the error if connecting fails; may be NULL */
};

/* Stores the answer's message in *reply, which this function initializes and the caller frees,
 * even on failure. */
int grpc_unary(const struct grpc_call *c, struct buf *reply, struct err *e);

/*
 * Like grpc_unary(), but on the loop: done() is called once, from the loop, with the borrowed reply
 * and e NULL, or with an empty reply and e. `c` and the data it points to are copied, except
 * `remedy`. If the call cannot be started (no such socket), the error is returned and done() is not
 * called.
 */
struct loop;
struct grpc_async;
typedef void (*grpc_done_fn)(void *arg, struct span reply, const struct err *e);
int grpc_start(struct loop *l, const struct grpc_call *c, grpc_done_fn done, void *arg,
	       struct grpc_async **ret, struct err *e);
/* Cancels the call; done() is not called. Must not be called in done() or after it. Accepts
 * NULL. */
void grpc_cancel(struct grpc_async *a);

/* --- the codec of one call: bytes in and out, no descriptor --- */

struct grpc;

int grpc_new(struct grpc **ret, const struct grpc_call *c, struct err *e);
void grpc_cleanup(struct grpc **g);
#define auto_grpc __attribute__((cleanup(grpc_cleanup)))
/* Sets *ret to the next bytes for the peer, valid until the next call of grpc_out() or grpc_in(); n
 * 0: there are none now. */
int grpc_out(struct grpc *g, struct span *ret, struct err *e);
int grpc_in(struct grpc *g, struct span bytes, struct err *e);
/* returns whether the call has ended, with an answer or an error */
bool grpc_is_done(const struct grpc *g);
/* Call it when the peer has closed the connection, or when grpc_is_done() returns true: stores the
 * message in *reply, or returns the error. */
int grpc_finish(struct grpc *g, struct buf *reply, struct err *e);

#endif
