/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_WIRE_HTTP_GRPC_H
#define UNIRAIL_WIRE_HTTP_GRPC_H

/*
 * A unary gRPC call as the client, over HTTP/2 without TLS (prior knowledge), as the kubelet's
 * sockets want it. grpc_unary() does all of it; the codec below it never touches a descriptor.
 *
 * Errors: a grpc-status other than OK becomes the errno of one table (UNAVAILABLE -EAGAIN,
 * UNIMPLEMENTED -EOPNOTSUPP, NOT_FOUND -ENOENT ...) and the text "METHOD: STATUS: the server's
 * grpc-message". -ETIMEDOUT: the deadline. -EPROTO: the peer is no gRPC server. -EMSGSIZE: the
 * answer is larger than the cap.
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
	int timeout_ms;	     /* for everything, connecting too */
	size_t max;	     /* largest answer; 0: GRPC_REPLY_MAX */
	const char *remedy;  /* remedy to name when no process listens there; may be NULL */
};

/* Stores the answer's message in *reply, which is initialized here and freed by the caller, even on
 * failure. */
int grpc_unary(const struct grpc_call *c, struct buf *reply, struct err *e);

/*
 * The same on the loop: done(arg, reply, NULL) or done(arg, none, why) is called once, from the loop;
 * the reply is borrowed. `c` and what it points to is copied, except `remedy`. An error at once (the
 * socket is not there) is returned instead, and nothing is started.
 */
struct loop;
struct grpc_async;
typedef void (*grpc_done_fn)(void *arg, struct span reply, const struct err *e);
int grpc_start(struct loop *l, const struct grpc_call *c, grpc_done_fn done, void *arg,
	       struct grpc_async **ret, struct err *e);
/* No callback follows. NULL is fine; not after `done`. */
void grpc_cancel(struct grpc_async *a);

/* --- the codec --- */

struct grpc;

int grpc_new(struct grpc **ret, const struct grpc_call *c, struct err *e);
void grpc_cleanup(struct grpc **g);
#define auto_grpc __attribute__((cleanup(grpc_cleanup)))
/* The next bytes for the peer, valid until the next call; n 0: none for now. */
int grpc_out(struct grpc *g, struct span *ret, struct err *e);
int grpc_in(struct grpc *g, struct span bytes, struct err *e);
bool grpc_is_done(const struct grpc *g); /* the answer, or the reason why there is none, is known */
/* The peer has closed the connection (or is done): the message into *reply, or the error. */
int grpc_finish(struct grpc *g, struct buf *reply, struct err *e);

#endif
