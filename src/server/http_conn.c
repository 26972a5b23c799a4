/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/log.h"
#include "server/internal.h"

/* One connection: read, dispatch, write, repeat. */

enum {
	CLOSING_MS = 1000,
	LAST_CHANCE_MS = 500,
	CLOSING_BYTES = 2 << 20,
	/* maximum number of consecutive steps of one connection; a request and its answer take
	 * at least two */
	STEPS_MAX = 24,
	/* bytes; a connection that holds at most this much is not closed to free memory */
	HOLD_SIZE = 1024,
	/* Interval of the rate check of a body. A client on a busy machine may need seconds between
	 * its head and its body; an API server gives up after ten seconds. */
	RATE_MS = 8000,
};

bool conn_is_idle(const struct http_request *c)
{
	return c->fd >= 0 && c->state == CONN_READING && !c->running && c->in_at == c->in.len &&
	       http1_phase(c->codec) == HTTP1_NOTHING;
}

/* --- timeouts of a connection --- */

/* Returns the milliseconds until the next rate check of the current body, or until its timeout if
 * that is earlier. 0 or negative: the timeout has expired. */
static int64_t body_left(const struct http_request *c)
{
	const struct http_limits *l = &c->s->limits;
	int64_t left = l->body_ms - (loop_now_ms(c->s->loop) - c->body_since);

	return l->body_rate && left > RATE_MS ? RATE_MS : left;
}

/* Returns whether the body is too slow, by the rate since the last check, so that earlier fast
 * progress does not compensate for a pause. */
static bool is_slow(struct http_request *c)
{
	size_t received = c->body - c->body_seen;

	c->body_seen = c->body;
	return (int64_t)received * 1000 < (int64_t)c->s->limits.body_rate * RATE_MS;
}

static bool has_input(const struct http_request *c)
{
	struct pollfd p = {.fd = c->fd, .events = POLLIN};

	return poll(&p, 1, 0) > 0;
}

static void on_timer(void *arg)
{
	struct http_request *c = arg;
	bool mid_request = c->state == CONN_READING && http1_phase(c->codec) != HTTP1_NOTHING;

	c->timer = NULL;
	/* Reads pending bytes once more before the request is refused: the loop may be late
	 * because other callbacks took long, so the rest of the request may have arrived. */
	if (mid_request && !c->late && has_input(c)) {
		c->late = true;
		conn_set_timer(c, LAST_CHANCE_MS);
		conn_advance(c);
		return;
	}
	if (mid_request && http1_phase(c->codec) == HTTP1_IN_BODY && body_left(c) > 0 &&
	    !is_slow(c)) {
		conn_set_timer(c, body_left(c));
		return;
	}
	if (!mid_request) {
		conn_close(c);
		return;
	}
	conn_refuse(c, 408,
		    "the request was not complete at the timeout, or its body arrived too slowly");
	conn_advance(c);
}

void conn_set_timer(struct http_request *c, int64_t ms)
{
	loop_del_timer(c->timer);
	c->timer = ms < 0 ? NULL : loop_add_timer(c->s->loop, ms, on_timer, c);
}

/* Starts the timer of a new phase; bytes that arrive within a phase do not restart it. */
void conn_set_phase(struct http_request *c)
{
	const struct http_limits *l = &c->s->limits;
	enum http1_phase phase = http1_phase(c->codec);

	if (phase == c->phase && c->timer)
		return;
	c->phase = phase;
	c->late = false;
	if (phase == HTTP1_NOTHING) {
		conn_set_timer(c, c->began ? l->idle_ms : l->first_ms);
	} else if (phase == HTTP1_IN_HEAD) {
		conn_set_timer(c, l->first_ms);
	} else {
		c->body_since = loop_now_ms(c->s->loop);
		c->body_seen = 0;
		conn_set_timer(c, body_left(c));
	}
}

void conn_reap(struct http_request *c)
{
	if (c->fd >= 0 && c->state == CONN_READING && http_request_is_closed(c))
		conn_advance(c);
}

static bool holds_much(const struct http_request *c)
{
	return c->s->limits.held_max && !c->tls && c->held > HOLD_SIZE &&
	       (c->state == CONN_WRITING ||
		(c->state == CONN_READING && http1_phase(c->codec) == HTTP1_IN_HEAD));
}

static int rank_of(const struct http_request *c)
{
	if (c->refused)
		return RANK_REFUSED;
	if (holds_much(c))
		return RANK_HOLDING;
	switch (c->state) {
	case CONN_SHAKING: return RANK_STRANGER;
	case CONN_READING:
		if (http1_phase(c->codec) == HTTP1_IN_BODY)
			return -1;
		if (c->known)
			return RANK_IDLE;
		/* Judges this connection only, not its peer: another connection from the same
		 * address, which has had no answer yet, may be the kubelet's. */
		return c->began && http1_phase(c->codec) == HTTP1_NOTHING ? RANK_SERVED
									  : RANK_STRANGER;
	case CONN_HANDLING: return -1;
	case CONN_WRITING: return c->close ? RANK_CLOSING : RANK_IDLE;
	case CONN_CLOSING: return RANK_CLOSING;
	}
	return -1;
}

/* Updates the eviction rank of the connection from its current state. */
static void conn_rank(struct http_request *c)
{
	enum http1_phase phase = http1_phase(c->codec);
	int rank = rank_of(c);

	if (rank == c->entry.rank && c->state == c->ranked && phase == c->ranked_phase)
		return;
	c->ranked = c->state;
	c->ranked_phase = phase;
	peers_rank(c->s->peers, &c->entry, rank);
}

int64_t conn_grace(const struct http_request *c)
{
	int64_t age = loop_now_ms(c->s->loop) - c->opened;

	/* TLS has no grace period: first_ms limits an unfinished handshake. */
	return c->s->tls || c->began || age >= c->s->grace_ms ? 0 : c->s->grace_ms - age;
}

void conn_end_idle(struct http_request *c)
{
	if (has_input(c))
		return; /* a request has arrived, or the peer has closed: the loop handles it */
	if (c->began)
		conn_close(c);
	else
		conn_set_timer(c, LAST_CHANCE_MS);
}

/* --- read of a request --- */

static void conn_watch(struct http_request *c, uint32_t events)
{
	struct err e = ERR_INIT;

	if (c->watch && loop_set_events(c->watch, events, &e) < 0)
		log_error("cannot watch a connection", LOG_S("error", e.text));
}

static void dispatch_review(struct http_request *c)
{
	c->state = CONN_HANDLING;
	c->answered = false;
	c->close |= c->msg.close || c->ended;
	c->head = span_eq(c->msg.method, "HEAD");
	c->began = now_mono_us();
	conn_rank(c);
	conn_set_timer(c, -1);
	/* Stops reading; the loop still reports EPOLLHUP and EPOLLERR. */
	conn_watch(c, 0);
	c->s->handle(c->s->arg, c);
}

/* Adds n received bytes of a request (head or body) to c->body and to the sum over all
 * connections. Returns false if the sum exceeds bodies_max. */
static bool count_body(struct http_request *c, size_t n)
{
	struct http_server *s = c->s;

	c->body += n;
	s->bodies += n;
	return !s->limits.bodies_max || s->bodies <= s->limits.bodies_max;
}

static void forget_body(struct http_request *c)
{
	c->s->bodies -= c->body;
	c->body = 0;
	http1_done(c->codec);
	buf_trim(&c->out, 0);
}

/* Called when the head is complete; returns whether the request was refused. */
static bool check(struct http_request *c)
{
	struct http_server *s = c->s;
	int status = s->check(s->arg, &c->msg);

	c->close |= status == HTTP_TAKE_ONE;
	if (status == HTTP_TAKE) {
		c->known = true;
		peers_know(s->peers, &c->entry);
	}
	if (status <= HTTP_TAKE_ONE)
		return false;
	conn_refuse_unsaid(c, status);
	return true;
}

/* Parses received bytes; returns false if more are needed. */
static bool parse(struct http_request *c)
{
	struct span in = {c->in.p + c->in_at, c->in.len - c->in_at};
	struct err e = ERR_INIT;
	int r = http1_in(c->codec, &in, &c->msg, &e);

	if (!count_body(c, c->in.len - c->in_at - in.n) && !http_server_shorten(c->s, c->body)) {
		conn_refuse(c, 503, "too many large requests at the same time, try again");
		return true;
	}
	c->in_at = c->in.len - in.n;
	if (r == 1 && c->s->limits.bare && c->in_at < c->in.len) {
		c->close = true;
		c->in_at = c->in.len;
	}
	if (c->in_at == c->in.len) {
		buf_trim(&c->in, 0);
		c->in_at = 0;
	}
	if (r == HTTP1_HEAD)
		return check(c) || parse(c);
	if (r < 0)
		conn_refuse(c, http1_refusal(c->codec), e.text);
	else if (r > 0)
		dispatch_review(c);
	else if (http1_wants_continue(c->codec))
		http1_put_continue(&c->out);
	return r != 0;
}

/* --- one step of a connection in each state --- */

static void send_handshake_error(struct http_request *c, const struct err *e)
{
	char peer[PEER_TEXT_MAX];

	peer_key_text(peer_entry_key(&c->entry), peer);
	log_limited(LOG_WARN, 1, "TLS handshake failed", LOG_S("peer", peer),
		    LOG_S("error", e->text));
}

/* Continues the handshake. Returns 1 if it is complete, 0 if it waits for the peer, -1 if it
 * failed. */
static int conn_handshake(struct http_request *c)
{
	struct err e = ERR_INIT;
	int r = tls_handshake(c->tls, &e);

	if (r == 0)
		return 1;
	if (r == -EAGAIN)
		return 0;
	/* Writes no warning for a peer that only probes whether the port is open. */
	if (r == -ECONNRESET)
		log_debug("TLS handshake failed", LOG_S("error", e.text));
	else
		send_handshake_error(c, &e);
	return -1;
}

static bool do_shaking(struct http_request *c)
{
	int r;

	if (!c->shook) {
		/* While the connection waits for its handshake turn, received bytes stay in the
		 * socket. */
		conn_watch(c, 0);
		conn_wait(c);
		return false;
	}
	c->shook = false;
	r = conn_handshake(c);
	if (r == 0) {
		conn_watch(c, tls_events(c->tls));
	} else if (r < 0) {
		conn_close(c);
	} else {
		c->state = CONN_READING;
		conn_set_timer(c, -1);
		conn_set_phase(c);
	}
	return r > 0;
}

static ssize_t read_some(struct http_request *c, char *p, size_t n)
{
	struct err e = ERR_INIT;
	ssize_t r = c->tls ? tls_read(c->tls, p, n, &e) : recv(c->fd, p, n, 0);

	if (c->tls || r >= 0)
		return r;
	return errno == EINTR ? -EAGAIN : -errno;
}

/* Reads bytes. Returns 1 if some were received, 0 if none are available, -1 if the connection is
 * closed or failed. */
static int conn_receive(struct http_request *c)
{
	struct http_server *s = c->s;
	ssize_t n = read_some(c, s->read, sizeof(s->read));

	if (n == -EAGAIN)
		return 0;
	if (n <= 0)
		return -1;
	if (c->state == CONN_CLOSING)
		c->dropped += (size_t)n;
	else
		buf_add(&c->in, s->read, (size_t)n);
	return 1;
}

/* If a TLS write could not finish, the next call must pass exactly the same bytes. */
static ssize_t write_tls(struct http_request *c, const char *p, size_t n)
{
	struct err e = ERR_INIT;
	ssize_t r;

	if (c->tls_held)
		n = c->tls_held;
	r = tls_write(c->tls, p, n, &e);
	c->tls_held = r == -EAGAIN ? n : 0;
	return r;
}

static ssize_t write_some(struct http_request *c, const char *p, size_t n)
{
	ssize_t r;

	if (c->tls)
		return write_tls(c, p, n);
	do
		r = send(c->fd, p, n, MSG_NOSIGNAL);
	while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : r;
}

/* Writes the output. Returns 1 if all is written, 0 if the socket is full, -1 if the connection
 * failed. */
static int conn_write_out(struct http_request *c)
{
	while (c->out_at < c->out.len) {
		ssize_t n = write_some(c, c->out.p + c->out_at, c->out.len - c->out_at);

		if (n < 0)
			return n == -EAGAIN ? 0 : -1;
		c->out_at += (size_t)n;
	}
	buf_reset(&c->out);
	c->out_at = 0;
	return 1;
}

static bool do_reading(struct http_request *c)
{
	int r;

	if (c->in_at < c->in.len && parse(c))
		return c->state != CONN_HANDLING;
	r = conn_receive(c);
	if (r < 0) {
		c->ended = true;
		conn_close(c);
		return false;
	}
	if (r > 0 && parse(c))
		return c->state != CONN_HANDLING;
	if (c->out.len > 0 && conn_write_out(c) < 0) {
		conn_close(c);
		return false;
	}
	conn_set_phase(c);
	conn_watch(c, EPOLLIN);
	return r > 0;
}

/* Shuts down writing; later input is discarded. */
static void conn_finish(struct http_request *c)
{
	tls_free(c->tls);
	c->tls = NULL;
	shutdown(c->fd, SHUT_WR);
}

static bool do_writing(struct http_request *c)
{
	int r = conn_write_out(c);

	if (r < 0) {
		conn_close(c);
		return false;
	}
	if (r == 0) {
		conn_watch(c, c->tls ? tls_events(c->tls) : EPOLLOUT);
		return false;
	}
	forget_body(c);
	c->phase = HTTP1_NOTHING;
	if (c->close) {
		/* Closing with unread input would send a reset, and the peer would lose the last
		 * answer. */
		conn_finish(c);
		c->state = CONN_CLOSING;
		conn_set_timer(c, CLOSING_MS);
		conn_watch(c, EPOLLIN);
	} else {
		c->state = CONN_READING;
		conn_set_timer(c, -1);
		conn_set_phase(c);
	}
	return true;
}

static bool do_closing(struct http_request *c)
{
	int r = conn_receive(c);

	if (r < 0 || c->dropped > CLOSING_BYTES)
		conn_close(c);
	return r > 0 && c->fd >= 0;
}

static bool one_step(struct http_request *c)
{
	switch (c->state) {
	case CONN_SHAKING: return do_shaking(c);
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

static void count_held(struct http_request *c)
{
	size_t held = c->in.cap + c->out.cap + http1_held(c->codec);

	c->s->held += held - c->held;
	c->held = held;
}

/* A handler that answers immediately calls this function again; that inner call returns at once
 * and the outer one continues. */
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
	} else {
		count_held(c);
		conn_rank(c);
		/* Returns to the loop, so that other connections are served. */
		if (steps == STEPS_MAX && !c->turn)
			c->turn = loop_add_timer(c->s->loop, 0, on_turn, c);
		http_server_trim(c->s);
	}
}

void conn_on_event(void *arg, uint32_t events)
{
	struct http_request *c = arg;

	/* EPOLLHUP is not reported for a half-closed peer (it has finished sending but still
	 * reads). */
	if (events & (EPOLLHUP | EPOLLERR) && c->state != CONN_READING) {
		conn_close(c);
		return;
	}
	conn_advance(c);
}
