/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_SERVER_HTTP_SERVER_H
#define UNIRAIL_SERVER_HTTP_SERVER_H

/*
 * HTTP/1.1 on a listening socket, on the loop. A request is handed to the handler whole, and
 * answered once, then or later; the next one of its connection waits until then.
 *
 * What it survives, and how:
 *
 *   a peer that is not root nor this server's own user    403, closed; unless `anyone` may ask
 *   a head or a body that does not come to its end        408 after a while (struct http_limits)
 *   a body that comes more slowly than `body_rate`        408 after two seconds of it
 *   an answer that is not read                            closed after a while
 *   a connection without requests                         closed after a while
 *   more connections than allowed                         one that nobody misses gives way, see below;
 *                                                         none such: 503, "Retry-After"
 *   no descriptor left                                    503 through one kept for this, then a
 *                                                         pause, so that the loop does not spin
 *   bytes that are not HTTP                               their 4xx or 5xx, closed
 *   long bodies on many connections                       503, "Retry-After"; see bodies_max
 *   long heads, and answers that are not read, on many    one of them is closed; see held_max
 *
 * A connection gives way in this order: one that has its last answer; one of a stranger; one of those
 * whom a check has let in (http_server_check(); without one all are strangers, who else have an eighth
 * of the room in any case). Of these, one that is idle, in a handshake or a head, or that does not read
 * its answer: the peer address with most of them loses the one that has been so longest, so one
 * address cannot push another out; a stranger who had an answer goes before one who had none. A request
 * whose head is whole stays.
 *
 * Without TLS a new connection has `grace_ms` to ask, however many come behind it from its own address: while all are as
 * new as that, the next ones wait in the kernel. So one whose request comes with it is answered, whoever else connects.
 *
 * With a certificate it speaks TLS, and HTTP/1.1 in it, whatever else a client offers (ALPN). A
 * handshake has `first_ms`. Handshakes cost the processor milliseconds: they are computed by turns, one
 * for each peer address, those first that have asked something before, and the loop's other callbacks
 * run in between. Who is not wanted is closed without a word.
 *
 * Refusals and handshakes that fail are logged with the peer's address, limited (base/log.h).
 */

#include "base/loop.h"
#include "wire/http/http1.h"
#include "wire/tls/tls.h"

struct http_server;
struct http_request;

typedef void (*http_handler)(void *arg, struct http_request *q);

struct http_limits {
	int max_conns;
	int first_ms; /* until a new connection's first byte, and from any head's first to its last */
	int body_ms;   /* from the end of the head to the end of the body */
	int body_rate; /* bytes a second that a body comes with at least, each two seconds; 0: any */
	int idle_ms;   /* between two requests */
	int send_ms;   /* for an answer to be taken */
	int grace_ms; /* from a connection's beginning, until it gives way to another before it asked; not in TLS */
	bool anyone; /* no look at who the peer is: for TCP */
	bool secret; /* what is asked is not for the log */
	/* For probes and scrapes: a request has no body (413), and what comes behind one before its answer is not read: the
	 * connection closes after that answer. */
	bool bare;
	size_t body_max;   /* of one request; 0: HTTP1_BODY_MAX */
	size_t bodies_max; /* of all that are read or answered at a time; 0: as many as there are */
	/* Bytes of memory for unfinished requests and for answers that were not read, of all connections without TLS; past it
	 * those that hold more than a kilobyte are closed. 0: as many as there are. */
	size_t held_max;
};
#define HTTP_LIMITS_INIT                                                                           \
	{                                                                                          \
		.max_conns = 256, .first_ms = 10 * 1000, .body_ms = 20 * 1000,                     \
		.idle_ms = 60 * 1000, .send_ms = 20 * 1000, .grace_ms = 100                        \
	}

/* `fd` listens, does not block, and stays the caller's. */
int http_server_new(struct http_server **ret, struct loop *l, int fd,
		    const struct http_limits *limits, http_handler handle, void *arg,
		    struct err *e);
/* From the next connection on; those there are go on with what they have. It is counted. */
void http_server_use_tls(struct http_server *s, struct tls_conf *c);
/* Every connection is closed; requests that are not answered yet must not be after this. */
void http_server_free(struct http_server *s);

/*
 * Asked of each request as soon as its head is whole, before a byte of its body is looked at; arg is the handler's.
 * HTTP_TAKE: it may come, and its peer is known from now on. HTTP_TAKE_ONE: it may come, as its connection's last, and is a
 * stranger's. Else the status that it is refused with; the answer says nothing else.
 */
enum { HTTP_TAKE = 0, HTTP_TAKE_ONE = 1 };
typedef int (*http_check)(void *arg, const struct http1_msg *head);
void http_server_check(struct http_server *s, http_check check);

/*
 * Every answer from now on is its connection's last, so that clients turn to another server of the
 * same service; new connections are taken as before. One that is closed while its client writes a
 * request is that client's failure: whom this has sent away cannot be met by it.
 */
void http_server_send_away(struct http_server *s);

/*
 * Takes what has connected so far, then no more (the caller may close its descriptor); idle
 * connections are closed, the others after their answer; then done(arg), at the latest after `ms`.
 */
void http_server_drain(struct http_server *s, int ms, void (*done)(void *arg), void *arg);

/* Valid until it is answered. */
const struct http1_msg *http_request_msg(const struct http_request *q);
/* It came from this host: from a loopback address, or through a UNIX socket. */
bool http_request_is_local(const struct http_request *q);
/* Frees the message of one that waits for its answer: there is nothing to look at any more. */
void http_request_drop_msg(struct http_request *q);
/* Its client has closed: nobody will read the answer, which must be given all the same. */
bool http_request_is_gone(const struct http_request *q);
/* r->close and r->head are set here. The body is copied. */
void http_answer(struct http_request *q, const struct http1_response *r);

/* {"code":N,"message":"..."}, go-openapi's errors. */
void http_answer_error(struct http_request *q, int status, int code, const char *message);
/* The same with an Allow field. */
void http_answer_wrong_method(struct http_request *q, const char *allow, const char *message);

#endif
