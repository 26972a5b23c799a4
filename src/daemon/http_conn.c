/* SPDX-License-Identifier: Apache-2.0 */
/* One connection: read, hand over, write, again. */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/http_server_priv.h"
#include "base/log.h"

enum {
	CLOSING_MS = 1000,
	LAST_CHANCE_MS = 500,
	CLOSING_BYTES = 2 << 20,
	STEPS_MAX = 24, /* that one connection may take in a row: eight requests and answers */
};

/* --- the end --- */

void conn_free(struct http_request *c)
{
	struct http_server *s = c->s;

	*(c->prev ? &c->prev->next : &s->conns) = c->next;
	if (c->next)
		c->next->prev = c->prev;
	http1_free(c->codec);
	buf_done(&c->in);
	buf_done(&c->out);
	s->n_conns--;
	s->n_refused -= c->refused;
	free(c);
	http_server_conn_gone(s);
}

/* The descriptor goes at once; the rest when nobody needs it any more. */
void conn_close(struct http_request *c)
{
	conn_set_timer(c, -1);
	loop_del_timer(c->turn);
	c->turn = NULL;
	loop_del_fd(c->watch);
	c->watch = NULL;
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	if (c->running || (c->state == CONN_HANDLING && !c->answered))
		return;
	conn_free(c);
}

bool conn_is_idle(const struct http_request *c)
{
	return c->fd >= 0 && c->state == CONN_READING && !c->running && c->in_at == c->in.len &&
	       http1_phase(c->codec) == HTTP1_NOTHING;
}

/* --- time --- */

static void on_timer(void *arg)
{
	struct http_request *c = arg;
	bool mid_request = c->state == CONN_READING && http1_phase(c->codec) != HTTP1_NOTHING;

	c->timer = NULL;
	if (!mid_request) {
		conn_close(c);
		return;
	}
	conn_refuse(c, 408, "the request did not come to its end in time");
	conn_advance(c);
}

void conn_set_timer(struct http_request *c, int64_t ms)
{
	loop_del_timer(c->timer);
	c->timer = ms < 0 ? NULL : loop_add_timer(c->s->loop, ms, on_timer, c);
}

/* A phase has one deadline, however its bytes trickle in. */
static void set_phase(struct http_request *c)
{
	const struct http_limits *l = &c->s->limits;
	enum http1_phase phase = http1_phase(c->codec);

	if (phase == c->phase && c->timer)
		return;
	c->phase = phase;
	if (phase == HTTP1_NOTHING)
		conn_set_timer(c, c->began ? l->idle_ms : l->first_ms);
	else
		conn_set_timer(c, phase == HTTP1_IN_HEAD ? l->first_ms : l->body_ms);
}

void conn_reap(struct http_request *c)
{
	if (c->fd >= 0 && c->state == CONN_READING && http_request_is_gone(c))
		conn_advance(c);
}

int conn_spare(const struct http_request *c)
{
	if (c->state == CONN_CLOSING && !c->running)
		return http_request_is_gone(c) ? 3 : 1;
	return conn_is_idle(c) ? 2 : 0;
}

void conn_end_idle(struct http_request *c)
{
	if (c->began)
		conn_close(c);
	else
		conn_set_timer(c, LAST_CHANCE_MS);
}

/* --- writing --- */

static void watch_for(struct http_request *c, uint32_t events)
{
	struct err e = ERR_INIT;

	if (c->watch && loop_set_events(c->watch, events, &e) < 0)
		log_error("watch a connection", LOG_S("error", e.text));
}

/* 1: all written, 0: the peer must read first, -1: it is gone. */
static int write_out(struct http_request *c)
{
	while (c->out_at < c->out.len) {
		ssize_t n = send(c->fd, c->out.p + c->out_at, c->out.len - c->out_at, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -1;
		c->out_at += (size_t)n;
	}
	buf_reset(&c->out);
	c->out_at = 0;
	return 1;
}

/* --- reading --- */

static void hand_over(struct http_request *c)
{
	c->state = CONN_HANDLING;
	c->answered = false;
	c->close = c->msg.close || c->ended;
	c->began = now_mono_us();
	conn_set_timer(c, -1);
	/* Nothing more is read; that the peer has closed is always told. */
	watch_for(c, 0);
	c->s->handle(c->s->arg, c);
}

/* Parses what has been read. False: more must be. */
static bool parse(struct http_request *c)
{
	struct span in = {c->in.p + c->in_at, c->in.len - c->in_at};
	struct err e = ERR_INIT;
	int r = http1_in(c->codec, &in, &c->msg, &e);

	c->in_at = c->in.len - in.n;
	if (c->in_at == c->in.len) {
		buf_reset(&c->in);
		c->in_at = 0;
	}
	if (r < 0)
		conn_refuse(c, http1_refusal(c->codec), e.text);
	else if (r > 0)
		hand_over(c);
	else if (http1_wants_continue(c->codec))
		http1_put_continue(&c->out);
	return r != 0;
}

/* 1: something came, 0: nothing for now, -1: the end. */
static int receive(struct http_request *c)
{
	struct http_server *s = c->s;
	ssize_t n = recv(c->fd, s->read, sizeof(s->read), 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0)
		return -1;
	if (c->state == CONN_CLOSING)
		c->dropped += (size_t)n;
	else
		buf_add(&c->in, s->read, (size_t)n);
	return 1;
}

/* --- the states --- */

static bool do_reading(struct http_request *c)
{
	int r;

	if (c->in_at < c->in.len && parse(c))
		return c->state != CONN_HANDLING;
	r = receive(c);
	if (r < 0) {
		c->ended = true;
		conn_close(c);
		return false;
	}
	if (r > 0 && parse(c))
		return c->state != CONN_HANDLING;
	if (c->out.len > 0 && write_out(c) < 0) {
		conn_close(c);
		return false;
	}
	set_phase(c);
	watch_for(c, EPOLLIN);
	return r > 0;
}

static bool do_writing(struct http_request *c)
{
	int r = write_out(c);

	if (r < 0) {
		conn_close(c);
		return false;
	}
	if (r == 0) {
		watch_for(c, EPOLLOUT);
		return false;
	}
	c->idle_since = loop_now_ms(c->s->loop);
	c->phase = HTTP1_NOTHING;
	if (c->close) {
		/* To close with bytes unread would take our last words from the peer. */
		shutdown(c->fd, SHUT_WR);
		c->state = CONN_CLOSING;
		conn_set_timer(c, CLOSING_MS);
		watch_for(c, EPOLLIN);
	} else {
		c->state = CONN_READING;
		conn_set_timer(c, -1);
		set_phase(c);
	}
	return true;
}

static bool do_closing(struct http_request *c)
{
	int r = receive(c);

	if (r < 0 || c->dropped > CLOSING_BYTES)
		conn_close(c);
	return r > 0 && c->fd >= 0;
}

static bool one_step(struct http_request *c)
{
	switch (c->state) {
	case CONN_READING: return do_reading(c);
	case CONN_WRITING: return do_writing(c);
	case CONN_CLOSING: return do_closing(c);
	case CONN_HANDLING: break;
	}
	return false;
}

static void on_turn(void *arg)
{
	struct http_request *c = arg;

	c->turn = NULL;
	conn_advance(c);
}

/* A handler that answers at once gets here from within: the outer call goes on. */
void conn_advance(struct http_request *c)
{
	int steps = 0;

	if (c->running)
		return;
	c->running = true;
	while (c->fd >= 0 && steps < STEPS_MAX && one_step(c))
		steps++;
	c->running = false;
	if (c->fd < 0) {
		if (c->state != CONN_HANDLING || c->answered)
			conn_free(c);
	} else if (steps == STEPS_MAX && !c->turn) {
		/* The others' turn. */
		c->turn = loop_add_timer(c->s->loop, 0, on_turn, c);
	}
}

static void on_event(void *arg, uint32_t events)
{
	struct http_request *c = arg;

	/* A half-closed peer (it has sent all it will) is not gone: that is no EPOLLHUP. */
	if (events & (EPOLLHUP | EPOLLERR) && c->state != CONN_READING) {
		conn_close(c);
		return;
	}
	conn_advance(c);
}

/* --- the beginning --- */

static struct http_request *conn_new(struct http_server *s, int fd)
{
	struct http_request *c = xcalloc(1, sizeof(*c));
	struct err e = ERR_INIT;

	c->s = s;
	c->fd = fd;
	if (loop_add_fd(s->loop, fd, EPOLLIN, on_event, c, &c->watch, &e) < 0) {
		log_error("take a connection", LOG_S("error", e.text));
		close(fd);
		free(c);
		return NULL;
	}
	buf_init(&c->in, HTTP_READ_SIZE * 2);
	buf_init(&c->out, HTTP_OUT_MAX);
	c->codec = http1_new(HTTP1_REQUESTS, HTTP1_BODY_MAX);
	c->idle_since = loop_now_ms(s->loop);
	c->next = s->conns;
	if (c->next)
		c->next->prev = c;
	s->conns = c;
	s->n_conns++;
	return c;
}

void conn_open(struct http_server *s, int fd)
{
	struct http_request *c = conn_new(s, fd);

	if (!c)
		return;
	set_phase(c);
	conn_advance(c);
}

void conn_open_refused(struct http_server *s, int fd, int status, const char *why)
{
	struct http_request *c = conn_new(s, fd);

	if (!c)
		return;
	c->refused = true;
	s->n_refused++;
	conn_refuse(c, status, why);
	conn_advance(c);
}
