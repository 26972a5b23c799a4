/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_SERVER_HTTP_SERVER_H
#define UNIRAIL_SERVER_HTTP_SERVER_H

/*
 * HTTP/1.1 on a listening socket, on the loop. The handler receives a complete request and answers
 * it exactly once, immediately or later; the next request of the same connection waits until then.
 *
 * How it handles misbehaving peers and overload:
 *
 *   the peer is neither root nor this server's user       403, closed; unless `anyone` is set
 *   incomplete head or body                               408 after a timeout (struct http_limits);
 *                                                         bytes that this process was too busy to
 *                                                         read in time are read first
 *   a body slower than `body_rate`                        408 after eight seconds
 *   an answer that is not read                            closed after a timeout
 *   an idle connection                                    closed after a timeout
 *   more connections than allowed                         one is evicted, see below; if none can be:
 *                                                         503, "Retry-After"
 *   no descriptor left                                    503 through a reserved descriptor, then a
 *                                                         pause, so that the loop does not spin
 *   bytes that are not HTTP                               the matching 4xx or 5xx, closed
 *   long bodies on many connections                       the connection with the longest incomplete
 *                                                         body is closed, if that body is longer
 *                                                         than the new one; else the new one gets
 *                                                         503, "Retry-After"; see bodies_max
 *   long heads or unread answers on many connections      one of them is closed; see held_max
 *
 * Connections are evicted in this order:
 *
 *   1. one whose last answer is being sent, or was sent
 *   2. one of an unknown peer
 *   3. one of a known peer, or one to which an answer is being sent that is not its last
 *   4. one that holds much memory; see held_max
 *
 * The peer of a connection is known when the check (http_server_check()) has returned HTTP_TAKE for
 * a request of this connection. While unknown peers have at most an eighth of the connections, 3
 * comes before 2. Candidates are connections that are idle, in a handshake, receiving a head, or
 * whose answer is not being read: the peer address with the most of them loses the one that has
 * been in this state longest, so one address cannot displace another. Of the connections of
 * one unknown peer, an idle one that has had an answer is evicted before one that has had none. A
 * connection whose request has a complete head is not evicted before the answer is ready.
 *
 * Without TLS a new connection has `grace_ms` to send a request, however many connections follow
 * from its own address: while all candidates are in this time, further connections wait in the
 * kernel. So a client that sends its request immediately is answered, however many others connect.
 * The time shrinks as the kernel's queue of connections fills, so that the queue does not overflow.
 *
 * With a certificate the server speaks TLS, with HTTP/1.1 inside, whatever else a client offers
 * (ALPN). A handshake must finish within `first_ms`. Handshakes cost milliseconds of CPU time: they
 * are computed round-robin over peer addresses, and other callbacks of the loop run in between.
 * Addresses of known peers come first. With TLS, a rejected connection is closed without a message.
 *
 * Refused requests and failed handshakes are logged with the peer's address, rate-limited
 * (base/log.h).
 */

#include "base/loop.h"
#include "wire/http/http1.h"
#include "wire/tls/tls.h"

struct http_server;
struct http_request;

typedef void (*http_handler)(void *arg, struct http_request *q);

struct http_limits {
	int max_conns;
	/* time limits for the handshake, for the first byte of the first request, and for the head
	 * of each request from its first byte to its last */
	int first_ms;
	int body_ms;   /* time limit from the end of the head to the end of the body */
	int body_rate; /* minimum bytes/s of a body, checked every 8 s; 0: none */
	int idle_ms;   /* time limit between two requests */
	int send_ms;   /* time limit until the peer has read an answer */
	/* time for which a new connection without a request is not evicted; no effect with TLS */
	int grace_ms;
	bool anyone; /* the peer's user id is not checked: for TCP */
	bool secret; /* request targets are not logged */
	/* For probes and scrapes: a request with a body is refused (413); bytes that are
	 * received in the same read as a request and follow it are ignored, and the connection
	 * closes after the answer. */
	bool bare;
	size_t body_max; /* maximum length of one request's body, in bytes; 0: HTTP1_BODY_MAX */
	/* maximum sum of the bytes (heads and bodies) of all requests that are being read or
	 * answered; 0: no limit */
	size_t bodies_max;
	/* Maximum sum of the buffers of all connections, in bytes; 0: no limit. While the sum is
	 * greater, connections without TLS that hold more than a kilobyte for an incomplete head or
	 * an unread answer are closed. */
	size_t held_max;
};
#define HTTP_LIMITS_INIT                                                                           \
	{                                                                                          \
		.max_conns = 256, .first_ms = 10 * 1000, .body_ms = 20 * 1000,                     \
		.idle_ms = 60 * 1000, .send_ms = 20 * 1000, .grace_ms = 100                        \
	}

/* `fd` is a non-blocking listening socket; the caller keeps ownership. Returns 0 or -errno. */
int http_server_new(struct http_server **ret, struct loop *l, int fd,
		    const struct http_limits *limits, http_handler handle, void *arg,
		    struct err *e);
/* Sets the TLS configuration of new connections; existing ones continue unchanged. Takes a
 * reference on `c`. */
void http_server_use_tls(struct http_server *s, struct tls_conf *c);
/* Closes all connections; requests that are still unanswered must not be answered afterwards. */
void http_server_free(struct http_server *s);

/*
 * Called for each request when its head is complete, before any byte of its body is parsed; arg is
 * the handler's. HTTP_TAKE: accept, and mark the peer as known. HTTP_TAKE_ONE: accept as the last
 * request of its connection; the peer stays unknown. Any other value is the HTTP status of the
 * refusal, whose answer contains nothing else.
 */
enum { HTTP_TAKE = 0, HTTP_TAKE_ONE = 1 };
typedef int (*http_check)(void *arg, const struct http1_msg *head);
void http_server_check(struct http_server *s, http_check check);

/*
 * From now on every answer closes its connection, so that clients move to another server of the
 * same service; new connections are still accepted. Called a while before http_server_drain(),
 * which closes idle connections: a client that is just writing a request on one of them would fail.
 */
void http_server_reject(struct http_server *s);

/*
 * Accepts the pending connections, at most 64, then no more (the caller may then close the
 * listening socket). Idle connections are closed (one without an earlier request after 500 ms), the
 * others after their answer. Calls done(arg) when all are closed, at the latest after `ms`.
 */
void http_server_drain(struct http_server *s, int ms, void (*done)(void *arg), void *arg);

/* Returns the message of a request, valid until the request is answered or
 * http_request_drop_msg() frees it. */
const struct http1_msg *http_request_msg(const struct http_request *q);
/* Returns true if the request came from a loopback address or a UNIX socket. */
bool http_request_is_local(const struct http_request *q);
/* Frees the message of a request that waits for its answer; the message may not be read afterwards.
 */
void http_request_drop_msg(struct http_request *q);
/* Returns true if the connection is closed in both directions or has failed; a TCP client that
 * has only stopped sending may still read the answer. The request must still be answered. */
bool http_request_is_closed(const struct http_request *q);
/* Answers the request; copies the body. The server sets `close` and `head` itself and ignores their
 * values in r. */
void http_answer(struct http_request *q, const struct http1_response *r);

/* Answers with {"code":N,"message":"..."}, the form of go-openapi's errors. */
void http_answer_error(struct http_request *q, int status, int code, const char *message);
/* Answers with 405 and an Allow field, otherwise like http_answer_error(). */
void http_answer_wrong_method(struct http_request *q, const char *allow, const char *message);

#endif
