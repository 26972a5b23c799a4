/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_WIRE_HTTP_GRPC_SERVER_H
#define UNIRAIL_WIRE_HTTP_GRPC_SERVER_H

/*
 * gRPC as the server, over HTTP/2 without TLS (prior knowledge), on a listening UNIX socket and the
 * loop: unary methods and server streams (device plugins, plugin registration).
 *
 * A stream carries state, not a log: each message replaces the previous one. A call has at most one
 * message in transmission and one pending; a newer message replaces the pending one. So the server
 * stores at most two messages for a client that does not read, however often the state changes.
 *
 * How misbehaving peers are handled:
 *
 *   the peer is neither root nor this server's user	closed (unless `anyone` is set)
 *   more than `max_conns` connections			the connection idle longest is closed; if none
 *							is idle, the new one is
 *   no client preface or no request in `first_ms`	GOAWAY, closed
 *   a connection without a call for `idle_ms`		GOAWAY, closed
 *   a request that is incomplete for `first_ms`	DEADLINE_EXCEEDED, reset
 *   the peer reads no byte of the output for `send_ms`	closed
 *   an answer that the peer does not read in `first_ms`	reset
 *   more than GRPC_STREAMS_MAX calls at once		REFUSED_STREAM; GOAWAY, closed if the peer has
 *							acknowledged the SETTINGS
 *   a header list of more than GRPC_HEADERS_MAX bytes	RESOURCE_EXHAUSTED
 *   a request longer than the method's limit		RESOURCE_EXHAUSTED
 *   too many PING, SETTINGS, unknown or empty frames	ENHANCE_YOUR_CALM, closed
 *   too many RST_STREAM frames				GOAWAY with INTERNAL_ERROR, closed
 *   compressed message, unknown method			UNIMPLEMENTED
 *   content-type that is not gRPC's, method not POST	HTTP 415, 405
 *   grpc-timeout expired				DEADLINE_EXCEEDED
 *   bytes that are not HTTP/2				closed
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/loop.h"

enum {
	GRPC_STREAMS_MAX = 64,	    /* concurrent calls of one connection */
	GRPC_HEADERS_MAX = 8 << 10, /* bytes of a header list, as HTTP/2 counts them */
	/* maximum size of a request message in bytes, unless the method sets its own limit */
	GRPC_REQUEST_MAX = 1 << 20,
	/* maximum size of an answer in bytes: the default limit of grpc-go clients */
	GRPC_MESSAGE_MAX = 4 << 20,
};

enum grpc_status {
	GRPC_OK = 0,
	GRPC_CANCELLED = 1,
	GRPC_UNKNOWN = 2,
	GRPC_INVALID_ARGUMENT = 3,
	GRPC_DEADLINE_EXCEEDED = 4,
	GRPC_NOT_FOUND = 5,
	GRPC_PERMISSION_DENIED = 7,
	GRPC_RESOURCE_EXHAUSTED = 8,
	GRPC_FAILED_PRECONDITION = 9,
	GRPC_UNIMPLEMENTED = 12,
	GRPC_INTERNAL = 13,
	GRPC_UNAVAILABLE = 14,
};

/* A call in progress at the server. Valid until the method ends the call, or until `closed` was
 * called. */
struct grpc_in;

struct grpc_method {
	const char *path; /* "/package.Service/Method" */
	size_t max;	  /* maximum size of a request message in bytes; 0: GRPC_REQUEST_MAX */
	/* Called with one whole request message, borrowed. The method ends the call with
	 * grpc_in_reply() or grpc_in_fail(), immediately or later; before that, a method of a
	 * stream may call grpc_in_send() any number of times. The method must not free the
	 * server. */
	void (*call)(void *arg, struct grpc_in *c, struct span request);
	/* Called if the call ends before the method has ended it: cancelled, deadline passed,
	 * connection closed, server freed. May be NULL for methods that always answer
	 * immediately. */
	void (*closed)(void *arg, struct grpc_in *c);
};

/* Queues a copy of the message, which replaces a pending message. A message longer than
 * GRPC_MESSAGE_MAX ends the call with RESOURCE_EXHAUSTED: returns -EMSGSIZE, c is invalid
 * afterwards. */
int grpc_in_send(struct grpc_in *c, struct span message);
/* Queues the message like grpc_in_send(), then ends the call with OK; c is invalid afterwards. */
void grpc_in_reply(struct grpc_in *c, struct span message);
/* Ends the call with a status; `text` (may be NULL) is cut at 511 bytes, then percent-encoded. c is
 * invalid afterwards. */
void grpc_in_fail(struct grpc_in *c, enum grpc_status status, const char *text);
/* Calls grpc_in_fail() with the text of e and the first status of this list that fits:
 * INVALID_ARGUMENT for kind ERR_CONF or ERR_DECODE, NOT_FOUND for errno -ENOENT,
 * FAILED_PRECONDITION for kind ERR_UNAVAILABLE, UNAVAILABLE for kind ERR_AGAIN, else UNKNOWN. */
void grpc_in_fail_err(struct grpc_in *c, const struct err *e);

/* --- the server on the loop --- */

struct grpc_server;

struct grpc_limits {
	int max_conns;
	int first_ms, idle_ms, send_ms;
	bool anyone; /* the peer's user id is not checked */
};
#define GRPC_LIMITS_INIT                                                                           \
	{                                                                                          \
		.max_conns = 32, .first_ms = 10 * 1000, .idle_ms = 10 * 60 * 1000,                 \
		.send_ms = 30 * 1000                                                               \
	}

/* `fd` is a non-blocking listening socket, `methods` ends with a row whose path is NULL. The caller
 * keeps both until grpc_server_free(), and then closes `fd`. limits NULL: GRPC_LIMITS_INIT. */
int grpc_server_new(struct grpc_server **ret, struct loop *l, int fd,
		    const struct grpc_limits *limits, const struct grpc_method *methods, void *arg,
		    struct err *e);
/* Closes all connections and calls grpc_session_free() for each. Accepts NULL. */
void grpc_server_free(struct grpc_server *s);

/* --- the codec: one connection, no descriptor and no clock --- */

struct grpc_session;

int grpc_session_new(struct grpc_session **ret, const struct grpc_method *methods, void *arg,
		     int first_ms, struct err *e);
/* Ends all calls and frees the session. Calls `closed` for each call that was passed to its
 * method and that the method has not ended. Accepts NULL. */
void grpc_session_free(struct grpc_session *s);
/* Processes bytes from the peer that arrived at the time `now` (ms, monotonic). After an error
 * the caller must write the remaining output of grpc_session_out() and then close the
 * connection. */
int grpc_session_in(struct grpc_session *s, struct span bytes, int64_t now, struct err *e);
/* Sets *ret to the next bytes for the peer, valid until the next call of this function; n 0: there
 * are none now. */
int grpc_session_out(struct grpc_session *s, struct span *ret, struct err *e);
/* Returns when grpc_session_expire() must be called next (ms, monotonic; 0: now); -1: never. */
int64_t grpc_session_deadline(const struct grpc_session *s);
/* Ends the calls whose deadline has passed, and resets the calls whose answer the peer has not
 * read in first_ms. */
void grpc_session_expire(struct grpc_session *s, int64_t now);
size_t grpc_session_calls(const struct grpc_session *s);
/* Returns true if neither side will send more, so that the connection is to be closed. */
bool grpc_session_is_done(const struct grpc_session *s);
/* Refuses new calls and sends GOAWAY; open calls finish. */
void grpc_session_goaway(struct grpc_session *s);
/* Sets the callback that the session calls when an answer or the GOAWAY of grpc_session_goaway()
 * was queued, also outside of grpc_session_in(). */
void grpc_session_on_output(struct grpc_session *s, void (*fn)(void *arg), void *arg);

#endif
