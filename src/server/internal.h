/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_SERVER_INTERNAL_H
#define UNIRAIL_SERVER_INTERNAL_H

/* Shared by http_server.c (accepting, eviction, requests and answers) and http_conn.c (one
 * connection). */

#include "server/http_peers.h"
#include "server/http_server.h"

enum { HTTP_READ_SIZE = 16 << 10, HTTP_OUT_MAX = 8 << 20 };

/* Ranks of connections that may be evicted (http_peers.h); make_room() in http_server.c has the
 * order of eviction. CLOSING: the last answer is being sent, or was sent. STRANGER: a handshake;
 * or an unknown peer that sends a head, or has had no answer yet. SERVED: an idle unknown peer
 * that has had an answer. IDLE: a known peer that is idle or sends a head, or any peer that is
 * sent an answer before the last. HOLDING: much memory is held for an incomplete head or an
 * unread answer (if limits.held_max is set, without TLS). REFUSED: the connection only receives
 * the reason of a refusal. */
enum { RANK_CLOSING, RANK_SERVED, RANK_STRANGER, RANK_IDLE, RANK_HOLDING, RANK_REFUSED };

enum conn_state {
	CONN_SHAKING, /* TLS handshake */
	CONN_READING,
	CONN_HANDLING, /* the handler has its request */
	CONN_WRITING,
	/* the answer is written; input is read and discarded, since closing with unread input
	 * would send a reset and the peer would lose the answer */
	CONN_CLOSING,
};

struct http_request {
	struct http_server *s;
	struct http_request *prev, *next;
	struct peer_entry entry;
	int fd; /* -1: closed, but the handler has not answered yet */
	enum conn_state state;
	/* TLS state of the connection; NULL: no TLS, or TLS is already shut down */
	struct tls *tls;
	size_t tls_held; /* length that the next tls_write() must repeat */
	struct loop_fd *watch;
	struct loop_timer *timer, *turn;
	struct http1 *codec;
	struct buf in; /* received bytes; those from in_at on are not parsed yet */
	size_t in_at;
	struct buf out;
	size_t out_at;
	struct http1_msg msg;
	bool close, head, running, answered, ended, refused; /* head: the request is a HEAD */
	/* known: the check (http_server_check()) returned HTTP_TAKE for a request of this
	 * connection; shook: the queued handshake has its turn */
	bool known, shook;
	bool late;		/* the timeout of this phase expired with bytes still unread */
	enum http1_phase phase; /* phase that the timer limits */
	size_t dropped;		/* bytes read while closing */
	size_t body;		/* bytes received of the current request, head included */
	size_t body_seen;	/* value of `body` at the last rate check */
	size_t held;		/* memory of its buffers, included in the server's `held` */
	int64_t began, body_since;
	int64_t opened;		       /* loop time at which the connection was opened */
	enum conn_state ranked;	       /* state that its rank is based on */
	enum http1_phase ranked_phase; /* phase that its rank is based on */
};

struct http_server {
	struct loop *loop;
	struct http_limits limits;
	http_handler handle;
	http_check check;
	void *arg;
	struct peers *peers;
	struct loop_alarm turn; /* runs while handshakes are queued */
	int fd, spare;
	struct loop_fd *watch;
	struct loop_alarm pause;
	struct loop_timer *deadline;
	struct http_request *conns; /* newest first */
	int n_conns, n_refused;	    /* n_refused: number of those that are being refused */
	/* limits.grace_ms, reduced as the kernel's queue of connections fills */
	int64_t grace_ms;
	size_t bodies; /* sum of `body` of all connections */
	size_t held;   /* bytes of all buffers */
	/* the server iterates over its connections, so only the current one may be freed */
	bool walks;
	struct tls_conf *tls;
	bool sends_away, draining;
	void (*done)(void *arg);
	void *done_arg;
	char read[HTTP_READ_SIZE];
};

void conn_close(struct http_request *c);
/* Frees a closed connection. */
void conn_free(struct http_request *c);
/* Reads, dispatches and writes as far as possible without blocking. May free the connection. */
void conn_advance(struct http_request *c);
/* Callback of the loop for the connection's descriptor; arg is the struct http_request. */
void conn_on_event(void *arg, uint32_t events);
/* Sets the timeout of the current phase of a request. */
void conn_set_phase(struct http_request *c);
/* Replaces the timer; negative: no timer. */
void conn_set_timer(struct http_request *c, int64_t ms);
/* Queues an error answer with the reason; the connection closes after it. */
void conn_refuse(struct http_request *c, int status, const char *reason);
/* Like conn_refuse(), but the peer receives only the status. */
void conn_refuse_unsaid(struct http_request *c, int status);
bool conn_is_idle(const struct http_request *c);
/* Returns the milliseconds until a new connection without a request may be evicted; 0: now. */
int64_t conn_grace(const struct http_request *c);
/* Queues the connection, whose TLS handshake continues when its turn comes. */
void conn_wait(struct http_request *c);
/* Closes the connection if the peer has closed it, which the loop may not have reported yet. */
void conn_reap(struct http_request *c);
/* Handles an idle connection at shutdown: closes it, but waits a moment if it has never sent a
 * request. */
void conn_end_idle(struct http_request *c);
/* --- http_server.c: memory --- */

/* Closes connections whose incomplete body is longer than `body`, the longest first, until all
 * bodies together are within bodies_max. Returns whether they are. */
bool http_server_shorten(struct http_server *s, size_t body);
/* Closes connections of RANK_HOLDING until total memory is within held_max. */
void http_server_trim(struct http_server *s);

#endif
