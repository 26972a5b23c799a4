/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_WIRE_HTTP_HTTP1_H
#define UNIRAIL_WIRE_HTTP_HTTP1_H

/*
 * HTTP/1.1 as bytes in, messages out; it never touches a descriptor. picohttpparser splits the
 * head into its parts; what it accepts too liberally, and message framing, is checked here,
 * strictly, since both ends are programs:
 *
 *   - lines end in CR LF; a bare CR or LF, a NUL, a folded field is an error
 *   - a request line is "METHOD SP TARGET SP HTTP/1.x", with one space each
 *   - one Content-Length, of digits only; or Transfer-Encoding, which is "chunked" and nothing
 *     else; never both, and no Transfer-Encoding in HTTP/1.0
 *   - one Host in a request of HTTP/1.1
 *   - any request may have a body (GET and DELETE do, in Spiderpool's API)
 *
 * Limits: HTTP1_HEAD_MAX for the head, HTTP1_FIELDS_MAX fields, the caller's for the body (0: a message
 * has none; one that announces a body, of whatever length, is refused with its head). Several
 * messages may come in one read (pipelining), and one message in any number of them.
 */

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

enum { HTTP1_HEAD_MAX = 16 << 10, HTTP1_FIELDS_MAX = 100, HTTP1_BODY_MAX = 1 << 20 };

enum http1_side { HTTP1_REQUESTS, HTTP1_RESPONSES };

struct http1_field {
	struct span name, value;
};

struct http1_msg {
	struct span method, target; /* of a request */
	int status;		    /* of a response; an interim one (1xx) is not handed out */
	struct span reason;
	bool close; /* last message of the connection */
	const struct http1_field *fields;
	size_t n_fields;
	struct span body;
};

struct http1;

struct http1 *http1_new(enum http1_side side, size_t body_max);
void http1_free(struct http1 *h);
void http1_cleanup(struct http1 **h);
#define auto_http1 __attribute__((cleanup(http1_cleanup)))

/*
 * Takes bytes off the front of *in. 1: *ret is a whole message, valid until the next call, and what
 * is left in *in comes after it. 0: all were taken, more are needed. Negative: the peer does not
 * speak HTTP as above; from then on every call says so again.
 */
int http1_in(struct http1 *h, struct span *in, struct http1_msg *ret, struct err *e);
/*
 * From now on http1_in() returns HTTP1_HEAD once for each message as soon as its head is whole: *ret is the message
 * without its body, of which no byte has been taken. The next call reads the body.
 */
enum { HTTP1_HEAD = 2 };
void http1_stop_at_heads(struct http1 *h);
/* Frees the memory of the message that was handed out. */
void http1_done(struct http1 *h);
/* The peer has closed. 1: that ended a response without a length; 0: between messages; -EPROTO: in
 * the middle of one. */
int http1_eof(struct http1 *h, struct http1_msg *ret, struct err *e);

/* Progress of the next message. */
enum http1_phase { HTTP1_NOTHING, HTTP1_IN_HEAD, HTTP1_IN_BODY };
enum http1_phase http1_phase(const struct http1 *h);
/* Bytes of memory used by the current, incomplete message. */
size_t http1_held(const struct http1 *h);
/* After a failure of http1_in(): the status a server answers with. */
int http1_refusal(const struct http1 *h);
/* The client waits for "100 Continue" before it sends the body; true once a message. */
bool http1_wants_continue(struct http1 *h);

/* A field by its name (without case); the first of several. */
bool http1_get(const struct http1_msg *m, const char *name, struct span *ret);

/* "/v1/x?a=b" and "http://host/v1/x?a=b": path and query without the '?'. -EINVAL: neither. */
int http1_target(struct span target, struct span *path, struct span *query);
/* The last value of a key, unescaped. 1: found, 0: not there, -EINVAL: escaped wrongly or with a
 * NUL, -ENAMETOOLONG. */
int http1_query(struct span query, const char *key, char *ret, size_t size);

/* --- writing --- */

struct http1_response {
	int status;
	const char *type;  /* of the body; NULL: none is said */
	const char *allow; /* for 405; may be NULL */
	int retry_after;   /* seconds, for 503; 0: none */
	struct span body;
	bool close;
	bool head; /* answers HEAD: all but the body */
};

void http1_put_response(struct buf *b, const struct http1_response *r);
void http1_put_continue(struct buf *b);

struct http1_request {
	const char *method, *target;
	const char *type; /* of the body; NULL: there is none */
	struct span body;
};

/* With "Connection: close". */
void http1_put_request(struct buf *b, const struct http1_request *r);

/* --- a client on a UNIX socket --- */

struct http1_call {
	const char *socket;
	struct http1_request request;
	int timeout_ms; /* for everything, connecting too */
	size_t max;	/* largest body of an answer; 0: HTTP1_BODY_MAX */
};

/*
 * One request, one connection. The answer's body into *body, which is initialized here and the
 * caller's to end, even on failure. Returns the status. -ETIMEDOUT (kind ERR_AGAIN); the errno of
 * connect (kind ERR_UNAVAILABLE) when no process listens; -EPROTO: the answer is not HTTP or
 * ends too
 * early.
 */
int http1_call(const struct http1_call *c, struct buf *body, struct err *e);
/* Sends a request without waiting for its answer. 0: the server has received all of it. */
int http1_send(const struct http1_call *c, struct err *e);

#endif
