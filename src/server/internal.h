/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_SERVER_INTERNAL_H
#define UNIRAIL_SERVER_INTERNAL_H

/* Between http_server.c (who comes in), http_server.c, http_conn.c (what they say), http_conn.c and
 * http_answer.c. */

#include "server/http_peers.h"
#include "server/http_server.h"

enum { HTTP_READ_SIZE = 16 << 10, HTTP_OUT_MAX = 8 << 20 };

/* In which order connections give way (http_peers.h); SERVED: strangers who had an answer, and ask nothing; HOLDING: with much
 * memory for what its peer has not finished, or does not read (where limits.held_max is set). */
enum { RANK_CLOSING, RANK_SERVED, RANK_STRANGER, RANK_IDLE, RANK_HOLDING, RANK_REFUSED };

enum conn_state {
	CONN_SHAKING, /* hands, in TLS */
	CONN_READING,
	CONN_HANDLING, /* its request is the handler's */
	CONN_WRITING,
	CONN_CLOSING, /* all is said: what still comes is read, so that the peer reads our words */
};

struct http_request {
	struct http_server *s;
	struct http_request *prev, *next;
	struct peer_entry entry;
	int fd; /* -1: the peer is gone, and the handler has not answered yet */
	enum conn_state state;
	struct tls *tls; /* NULL: none, or all is said in it */
	size_t tls_held; /* what it wants to be given once more */
	struct loop_fd *watch;
	struct loop_timer *timer, *turn;
	struct http1 *codec;
	struct buf in; /* read, not parsed: what came after the request at hand */
	size_t in_at;
	struct buf out;
	size_t out_at;
	struct http1_msg msg;
	bool close, head, running, answered, ended, refused; /* head: it is a HEAD */
	bool known, shook;	/* a check has let it in; the turn of its handshake has come */
	enum http1_phase phase; /* what the timer runs for */
	size_t dropped;		/* bytes read while closing */
	size_t body;		/* of the request at hand, as far as it has come */
	size_t body_seen;	/* of that, when it was last looked at */
	size_t held;		/* memory of its buffers, as counted in the server's */
	int64_t began, body_since;
	int64_t opened;		       /* on the loop's clock */
	enum conn_state ranked;	       /* what its rank was given for */
	enum http1_phase ranked_phase; /* and in which phase */
};

struct http_server {
	struct loop *loop;
	struct http_limits limits;
	http_handler handle;
	http_check check;
	void *arg;
	struct peers *peers;
	struct loop_timer *turn; /* handshakes wait */
	int fd, spare;
	struct loop_fd *watch;
	struct loop_timer *pause, *deadline;
	struct http_request *conns; /* newest first */
	int n_conns, n_refused;	    /* of those */
	size_t bodies;		    /* theirs */
	size_t held;		    /* theirs */
	bool walks;		    /* over the connections: none but the one at hand may go */
	struct tls_conf *tls;
	bool sends_away, draining;
	void (*done)(void *arg);
	void *done_arg;
	char read[HTTP_READ_SIZE];
};

/* Takes the descriptor. */
void conn_open(struct http_server *s, int fd);
/* One that only hears why it is not wanted. */
void conn_open_refused(struct http_server *s, int fd, int status, const char *why);
void conn_close(struct http_request *c);
/* Of one that is closed. */
void conn_free(struct http_request *c);
/* Reads, hands over, writes, as far as it goes without waiting. It may be gone afterwards. */
void conn_advance(struct http_request *c);
/* The loop's, for its descriptor. */
void conn_on_event(void *arg, uint32_t events);
/* Sets the time that this part of a request has. */
void conn_set_phase(struct http_request *c);
/* Replaces the one there is; negative: none. */
void conn_set_timer(struct http_request *c, int64_t ms);
/* Puts down why, to be written, and the end after it. */
void conn_refuse(struct http_request *c, int status, const char *why);
/* The same, and the peer hears the status only. */
void conn_refuse_unsaid(struct http_request *c, int status);
bool conn_is_idle(const struct http_request *c);
/* Its place among those that give way, by what it does now. */
void conn_rank(struct http_request *c);
/* How long until it may give way: it was just opened and has not asked anything yet. 0: now. */
int64_t conn_grace(const struct http_request *c);
/* Waits for its turn to compute a handshake. */
void conn_wait(struct http_request *c);
/* Sees to its end if its peer has closed, which the loop may not have come to yet. */
void conn_reap(struct http_request *c);
/* An idle connection when the server ends: one that never asked has a moment left to do so. */
void conn_end_idle(struct http_request *c);
/* --- http_conn.c: the socket, or TLS on it --- */

/* 1: hands are shaken, 0: the peer's turn, -1: it will not do. */
int conn_shake(struct http_request *c);
/* 1: something came, 0: nothing for now, -1: the end. */
int conn_receive(struct http_request *c);
/* 1: all written, 0: the peer must read first, -1: it is gone. */
int conn_write_out(struct http_request *c);
/* Nothing more will be written; what comes is not looked at. */
void conn_finish(struct http_request *c);
void conn_watch(struct http_request *c, uint32_t events);

/* Closes connections until what all hold is within the limit. */
void http_server_trim(struct http_server *s);
/* Tells the server that a connection is gone. */
void http_server_conn_gone(struct http_server *s);

#endif
