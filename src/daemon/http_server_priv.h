/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DAEMON_HTTP_SERVER_PRIV_H
#define UNIRAIL_DAEMON_HTTP_SERVER_PRIV_H

/* Between http_server.c (who comes in), http_conn.c (what they say) and http_answer.c. */

#include "daemon/http_server.h"

enum { HTTP_READ_SIZE = 16 << 10, HTTP_OUT_MAX = 8 << 20 };

enum conn_state {
	CONN_READING,
	CONN_HANDLING, /* its request is the handler's */
	CONN_WRITING,
	CONN_CLOSING, /* all is said: what still comes is read, so that the peer reads our words */
};

struct http_request {
	struct http_server *s;
	struct http_request *prev, *next;
	int fd; /* -1: the peer is gone, and the handler has not answered yet */
	enum conn_state state;
	struct loop_fd *watch;
	struct loop_timer *timer, *turn;
	struct http1 *codec;
	struct buf in; /* read, not parsed: what came after the request at hand */
	size_t in_at;
	struct buf out;
	size_t out_at;
	struct http1_msg msg;
	bool close, running, answered, ended, refused;
	enum http1_phase phase; /* what the timer runs for */
	size_t dropped;		/* bytes read while closing */
	int64_t idle_since, began;
};

struct http_server {
	struct loop *loop;
	struct http_limits limits;
	http_handler handle;
	void *arg;
	int fd, spare;
	struct loop_fd *watch;
	struct loop_timer *pause, *deadline;
	struct http_request *conns; /* newest first */
	int n_conns, n_refused;	    /* of those */
	bool draining;
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
/* Replaces the one there is; negative: none. */
void conn_set_timer(struct http_request *c, int64_t ms);
/* Puts down why, to be written, and the end after it. */
void conn_refuse(struct http_request *c, int status, const char *why);
bool conn_is_idle(const struct http_request *c);
/* Sees to its end if its peer has closed, which the loop may not have come to yet. */
void conn_reap(struct http_request *c);
/* How well it can be done without: 0 not at all, 1 all is said, 2 idle, 3 all is said and heard. */
int conn_spare(const struct http_request *c);
/* An idle connection when the server ends: one that never asked has a moment left to do so. */
void conn_end_idle(struct http_request *c);
/* Tells the server that a connection is gone. */
void http_server_conn_gone(struct http_server *s);

#endif
