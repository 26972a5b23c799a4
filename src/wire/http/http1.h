/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_WIRE_HTTP_HTTP1_H
#define UNIRAIL_WIRE_HTTP_HTTP1_H

/*
 * HTTP/1.1: bytes in, messages out; this codec never touches a descriptor. picohttpparser splits
 * the head into its parts. The codec checks the framing of messages and everything that
 * picohttpparser accepts too liberally. The checks are strict, because both ends are programs:
 *
 *   - lines end in CR LF; a bare CR or LF, a NUL, a folded field is an error
 *   - a request line is "METHOD SP TARGET SP HTTP/1.x", with one space each
 *   - at most one Content-Length, of digits only; or one Transfer-Encoding, exactly "chunked";
 *     never both, and no Transfer-Encoding in HTTP/1.0
 *   - one Host in a request of HTTP/1.1
 *   - any request may have a body (GET and DELETE do, in Spiderpool's API)
 *
 * Limits: HTTP1_HEAD_MAX for the head, HTTP1_FIELDS_MAX fields, the caller's limit for the body (0:
 * a message with a body of one byte or more is refused). One read may contain several
 * messages (pipelining), and one message may arrive in any number of reads.
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
	struct span method, target; /* method and target of a request */
	/* status of a response; interim responses (1xx) are not returned */
	int status;
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
 * Consumes bytes from the front of *in. Returns 1 if *ret is a complete message, valid until the
 * next call; *in then has the bytes after it. Returns 0 if all bytes are consumed and more are
 * needed. Negative: the peer violates the rules above; every further call returns the same error.
 */
int http1_in(struct http1 *h, struct span *in, struct http1_msg *ret, struct err *e);
/*
 * Makes http1_in() return HTTP1_HEAD once for each message as soon as its head is complete: *ret is
 * the message without its body, of which no byte has been consumed. The next call reads the body.
 */
enum { HTTP1_HEAD = 2 };
void http1_stop_at_heads(struct http1 *h);
/* Frees the memory of the message that http1_in() returned. */
void http1_done(struct http1 *h);
/* Call it when the peer has closed. Returns 1 if this completes a response without a length, 0
 * between messages, -EPROTO in the middle of a message or after a failure of http1_in(). */
int http1_eof(struct http1 *h, struct http1_msg *ret, struct err *e);

/* Returns the progress of the message that is being received. */
enum http1_phase { HTTP1_NOTHING, HTTP1_IN_HEAD, HTTP1_IN_BODY };
enum http1_phase http1_phase(const struct http1 *h);
/* Returns the bytes of memory that the current message uses, until http1_done(). */
size_t http1_held(const struct http1 *h);
/* Returns the HTTP status with which a server answers after a failure of http1_in(). */
int http1_refusal(const struct http1 *h);
/* Returns whether the client waits for "100 Continue" before it sends the body; true only once for
 * each message. */
bool http1_wants_continue(struct http1 *h);

/* Sets *ret to the value of the first field of this name, compared without case; returns false if
 * there is none. */
bool http1_get(const struct http1_msg *m, const char *name, struct span *ret);
#define HTTP_JSON "application/json"
/* Returns whether the value of Content-Type is HTTP_JSON, with or without parameters. */
bool http1_type_is_json(struct span value);

/* Splits the target "/v1/x?a=b" or "http://host/v1/x?a=b" into path and query (without '?').
 * -EINVAL: any other form. */
int http1_target(struct span target, struct span *path, struct span *query);
/* Copies the last value of a key of the query, unescaped, into ret. Returns 1 if the key is
 * found, 0 if not. -EINVAL: an invalid escape or a NUL; -ENAMETOOLONG: the value does not fit
 * into `size` bytes. */
int http1_query(struct span query, const char *key, char *ret, size_t size);

/* --- writing of messages --- */

struct http1_response {
	int status;
	const char *type;  /* content type of the body; NULL: no Content-Type */
	const char *allow; /* value of the field Allow, for 405; may be NULL */
	int retry_after;   /* value of the field Retry-After in seconds, for 503; 0: none */
	struct span body;
	bool close;
	bool head; /* answers a HEAD request: the body is left out */
};

void http1_put_response(struct buf *b, const struct http1_response *r);
void http1_put_continue(struct buf *b);

struct http1_request {
	const char *method, *target;
	const char *type; /* content type of the body; NULL: no body */
	struct span body;
};

/* Writes a request with "Connection: close". */
void http1_put_request(struct buf *b, const struct http1_request *r);

/* --- a client on a UNIX socket --- */

struct http1_call {
	const char *socket;
	struct http1_request request;
	int timeout_ms; /* timeout of the whole exchange, including connecting */
	/* http1_call(): maximum size of the answer's body in bytes; 0: HTTP1_BODY_MAX */
	size_t max;
	/* http1_call(): part of timeout_ms for repeated attempts to connect while no process
	 * listens (the server restarts) */
	int restart_ms;
};

/*
 * Sends one request on a new connection and stores the answer's body in *body, which this function
 * initializes and the caller frees, even on failure. Returns the status. Errors of kind ERR_AGAIN:
 * -ETIMEDOUT, or -ECONNRESET if the server closes without an answer. Of kind ERR_UNAVAILABLE: the
 * errno of connect(2), for instance if no process listens. Others: -EPROTO: the answer is not HTTP,
 * ends too early or has a body of more than c->max bytes; -EFBIG: the request is too long;
 * -ENAMETOOLONG: the socket's path is too long; else the errno of a system call.
 */
int http1_call(const struct http1_call *c, struct buf *body, struct err *e);
/* Sends a request without waiting for its answer. Returns 0 if all of the request is in the
 * socket's buffer, or if the server has closed the connection. */
int http1_send(const struct http1_call *c, struct err *e);

#endif
