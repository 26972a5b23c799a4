/* SPDX-License-Identifier: Apache-2.0 */
#include "server/http_server.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "server/internal.h"
#include "wire/json/json.h"

/* Accepting, eviction, draining, requests and answers. */

enum {
	ACCEPT_MAX = 64, /* connections accepted in a row */
	/* maximum number of connections that only receive a refusal, beyond max_conns */
	REFUSED_MAX = 16,
	PAUSE_MS = 50,	/* pause after accept() failed, for instance for lack of descriptors */
	TURN_US = 5000, /* time for handshakes before the loop's other callbacks run */
};

static void on_connect(void *arg, uint32_t events);
static void on_pause_over(void *arg);

/* --- permission of a client --- */

static bool may(int fd, struct ucred *peer)
{
	socklen_t n = sizeof(*peer);

	*peer = (struct ucred){.uid = (uid_t)-1};
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, peer, &n) < 0)
		return false;
	return peer->uid == 0 || peer->uid == geteuid();
}

/* --- eviction of connections --- */

static struct http_request *conn_of(struct peer_entry *e)
{
	return (struct http_request *)((char *)e - offsetof(struct http_request, entry));
}

static bool give_way(struct http_server *s, int rank)
{
	struct peer_entry *e = peers_victim(s->peers, rank);

	if (!e)
		return false;
	conn_close(conn_of(e));
	return true;
}

/*
 * Returns the connection to evict among those of unknown peers, NULL: none. It belongs to the
 * peer with the most of them; an idle one that has had an answer (RANK_SERVED) is preferred. If
 * the peer has none with an answer and its oldest is still in the grace period, a connection of
 * another peer is preferred: one with RANK_SERVED, or else the oldest of all peers if its grace
 * period is over.
 */
static struct peer_entry *stranger(struct http_server *s)
{
	struct peer_entry *e = peers_victim(s->peers, RANK_STRANGER),
			  *served = peers_victim(s->peers, RANK_SERVED), *oldest;

	if (!e ||
	    (served && peers_most(s->peers, RANK_SERVED) >= peers_most(s->peers, RANK_STRANGER)))
		return served;
	if (peers_beside(e, RANK_SERVED))
		return peers_beside(e, RANK_SERVED);
	if (!conn_grace(conn_of(e)))
		return e;
	oldest = peers_oldest(s->peers, RANK_STRANGER);
	return served ? served : conn_grace(conn_of(oldest)) ? e : oldest;
}

static bool strangers_give_way(struct http_server *s)
{
	struct peer_entry *e = stranger(s);
	int n = s->n_conns;

	if (e && !s->tls)
		conn_advance(conn_of(e));
	if (s->n_conns < n)
		return true;
	e = stranger(s);
	if (e)
		conn_close(conn_of(e));
	return e;
}

/* Returns whether unknown peers have more than an eighth of the connections. Up to an eighth,
 * they are evicted after known peers, because every client is unknown until its first request is
 * accepted. */
static bool many_strangers(const struct http_server *s)
{
	size_t n = peers_count(s->peers, RANK_STRANGER) + peers_count(s->peers, RANK_SERVED);

	return n > (size_t)s->limits.max_conns / 8;
}

static bool make_room(struct http_server *s)
{
	if (give_way(s, RANK_CLOSING))
		return true;
	if (many_strangers(s) ? strangers_give_way(s) || give_way(s, RANK_IDLE)
			      : give_way(s, RANK_IDLE) || strangers_give_way(s))
		return true;
	return give_way(s, RANK_HOLDING);
}

void http_server_trim(struct http_server *s)
{
	if (s->walks)
		return;
	while (s->limits.held_max && s->held > s->limits.held_max && give_way(s, RANK_HOLDING))
		;
}

static void send_refusal(struct http_request *c, int status, const char *reason);

bool http_server_shorten(struct http_server *s, size_t body)
{
	while (s->bodies > s->limits.bodies_max && !s->walks) {
		struct http_request *longest = NULL;

		for (struct http_request *c = s->conns; c; c = c->next)
			if (c->state == CONN_READING && c->fd >= 0 && c->body > body &&
			    (!longest || c->body > longest->body))
				longest = c;
		if (!longest)
			break;
		send_refusal(longest, 503,
			     "the bodies of all open requests exceed the limit: closing the "
			     "connection with the longest incomplete body");
		conn_close(longest);
	}
	return s->bodies <= s->limits.bodies_max;
}

/*
 * The grace period shrinks in proportion as the kernel's queue of connections fills, to zero when
 * it is full: a client can send its request while its connection waits in the queue, so it needs
 * less time after accept(). With a constant period, clients that connect faster than max_conns /
 * grace_ms would fill the queue, and the kernel would drop all others.
 */
static int64_t grace_now(const struct http_server *s)
{
	struct tcp_info info = {0};
	socklen_t n = sizeof(info);
	uint32_t waiting, most;

	/* For a listening TCP socket tcpi_unacked is the length of the accept queue and
	 * tcpi_sacked its limit. For a UNIX socket getsockopt() fails. */
	if (getsockopt(s->fd, IPPROTO_TCP, TCP_INFO, &info, &n) < 0)
		return s->limits.grace_ms;
	waiting = info.tcpi_unacked;
	most = info.tcpi_sacked;
	return waiting >= most ? 0 : s->limits.grace_ms * (int64_t)(most - waiting) / most;
}

/* Returns the milliseconds until a connection may be evicted if all candidates are in their grace
 * period; 0: there is room, one can be evicted now, or there are no candidates. */
static int64_t room_in(struct http_server *s)
{
	struct peer_entry *e;

	if (s->n_conns - s->n_refused < s->limits.max_conns ||
	    peers_count(s->peers, RANK_CLOSING) ||
	    (peers_count(s->peers, RANK_IDLE) && !many_strangers(s)))
		return 0;
	s->grace_ms = grace_now(s);
	e = stranger(s);
	return e ? conn_grace(conn_of(e)) : 0;
}

static void reap(struct http_server *s)
{
	struct http_request *next;

	s->walks = true;
	for (struct http_request *c = s->conns; c; c = next) {
		next = c->next;
		conn_reap(c);
	}
	s->walks = false;
}

static bool is_full(struct http_server *s)
{
	if (s->n_conns - s->n_refused < s->limits.max_conns)
		return false;
	if (make_room(s))
		return false;
	/* No connection can be evicted, but a peer may have closed one and the loop has not
	 * delivered the event yet. */
	reap(s);
	return s->n_conns - s->n_refused >= s->limits.max_conns;
}

static size_t body_max(const struct http_limits *l)
{
	if (l->bare)
		return 0;
	return l->body_max ? l->body_max : HTTP1_BODY_MAX;
}

static struct http_request *conn_new(struct http_server *s, int fd)
{
	struct http_request *c = xcalloc(1, sizeof(*c));
	struct err e = ERR_INIT;

	c->s = s;
	c->fd = fd;
	c->state = CONN_READING;
	c->opened = loop_now_ms(s->loop);
	if (loop_add_fd(s->loop, fd, EPOLLIN, conn_on_event, c, &c->watch, &e) < 0) {
		log_error("cannot accept a connection", LOG_S("error", e.text));
		close(fd);
		free(c);
		return NULL;
	}
	buf_init(&c->in, HTTP_READ_SIZE * 2);
	buf_init(&c->out, HTTP_OUT_MAX);
	c->codec = http1_new(HTTP1_REQUESTS, body_max(&s->limits));
	if (s->check)
		http1_stop_at_heads(c->codec);
	peers_join(s->peers, &c->entry, peer_key_of(fd));
	c->next = s->conns;
	if (c->next)
		c->next->prev = c;
	s->conns = c;
	s->n_conns++;
	return c;
}

/* Opens a connection that only receives the reason of its refusal. */
static void conn_open_refused(struct http_server *s, int fd, int status, const char *reason)
{
	struct http_request *c = conn_new(s, fd);

	if (!c)
		return;
	c->refused = true;
	s->n_refused++;
	conn_refuse(c, status, reason);
	conn_advance(c);
}

static void refuse(struct http_server *s, int fd, int status, const char *reason)
{
	if (s->tls || (s->n_refused >= REFUSED_MAX && !give_way(s, RANK_REFUSED)))
		close(fd);
	else
		conn_open_refused(s, fd, status, reason);
}

/* Adds a connection; takes ownership of its descriptor. */
static void conn_open(struct http_server *s, int fd)
{
	struct http_request *c = conn_new(s, fd);

	if (!c)
		return;
	if (s->tls) {
		c->tls = tls_new(s->tls, fd, NULL);
		c->state = CONN_SHAKING;
		conn_set_timer(c, s->limits.first_ms);
	} else {
		conn_set_phase(c);
	}
	conn_advance(c);
}

static void take_in(struct http_server *s, int fd)
{
	struct ucred peer;

	if (!s->limits.anyone && !may(fd, &peer)) {
		log_limited(LOG_WARN, 1, "connection refused", LOG_I("uid", peer.uid),
			    LOG_I("pid", peer.pid));
		refuse(s, fd, 403, "only root and the user of this server may send requests");
	} else if (is_full(s)) {
		refuse(s, fd, 503, "too many connections, try again");
	} else {
		conn_open(s, fd);
	}
}

/* --- lack of file descriptors --- */

static void open_spare(struct http_server *s)
{
	if (s->spare < 0)
		s->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void pause_for(struct http_server *s, int64_t ms)
{
	if (!s->watch || loop_alarm_armed(&s->pause))
		return;
	loop_set_events(s->watch, 0, NULL);
	loop_alarm_set(&s->pause, ms);
}

static void on_pause_over(void *arg)
{
	struct http_server *s = arg;

	open_spare(s);
	if (s->watch)
		loop_set_events(s->watch, EPOLLIN, NULL);
}

/* Refuses the first connection in the queue through the reserved descriptor; otherwise the queue
 * would stay readable and the loop would spin. */
static void no_descriptor(struct http_server *s, int code)
{
	static const char reply[] = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n"
				    "Content-Length: 0\r\nConnection: close\r\n\r\n";
	int fd = -1;

	log_limited(LOG_ERROR, 0, "cannot accept a connection", LOG_S("error", errno_text(code)));
	if (s->spare >= 0) {
		close(s->spare);
		s->spare = -1;
		fd = accept4(s->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	}
	if (fd >= 0) {
		if (!s->tls && send(fd, reply, sizeof(reply) - 1, MSG_NOSIGNAL) < 0)
			log_debug("refusal not sent", LOG_S("error", errno_text(errno)));
		close(fd);
	}
	open_spare(s);
	pause_for(s, PAUSE_MS);
}

/* --- round-robin of TLS handshakes --- */

static void on_turn(void *arg)
{
	struct http_server *s = arg;
	int64_t until = now_mono_us() + TURN_US;
	struct peer_entry *e = NULL;

	while (now_mono_us() < until && (e = peers_turn(s->peers))) {
		struct http_request *c = conn_of(e);

		c->shook = true;
		conn_advance(c);
	}
	if (e)
		loop_alarm_within(&s->turn, 0);
}

void conn_wait(struct http_request *c)
{
	struct http_server *s = c->s;

	peers_wait(s->peers, &c->entry);
	loop_alarm_within(&s->turn, 0);
}

/* --- accepting, creation and destruction --- */

static void accept_some(struct http_server *s, bool all)
{
	for (int i = 0; i < ACCEPT_MAX; i++) {
		int64_t wait = all ? 0 : room_in(s);
		int fd;

		if (wait) {
			pause_for(s, wait);
			return;
		}
		fd = accept4(s->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
			continue;
		if (fd < 0 && errno != EAGAIN)
			no_descriptor(s, errno);
		if (fd < 0)
			return;
		take_in(s, fd);
	}
}

static void on_connect(void *arg, uint32_t events)
{
	(void)events;
	accept_some(arg, false);
}

int http_server_new(struct http_server **ret, struct loop *l, int fd,
		    const struct http_limits *limits, http_handler handle, void *arg, struct err *e)
{
	struct http_server *s = xcalloc(1, sizeof(*s));
	int r;

	*s = (struct http_server){.loop = l,
				  .limits = *limits,
				  .grace_ms = limits->grace_ms,
				  .handle = handle,
				  .arg = arg,
				  .turn = LOOP_ALARM(l, on_turn, s),
				  .pause = LOOP_ALARM(l, on_pause_over, s),
				  .fd = fd,
				  .spare = -1};
	s->peers = peers_new();
	open_spare(s);
	r = loop_add_fd(l, fd, EPOLLIN, on_connect, s, &s->watch, e);
	if (r < 0) {
		cleanup_fd(&s->spare);
		peers_free(s->peers);
		free(s);
		return r;
	}
	*ret = s;
	return 0;
}

void http_server_check(struct http_server *s, http_check check)
{
	s->check = check;
}

void http_server_use_tls(struct http_server *s, struct tls_conf *c)
{
	struct tls_conf *old = s->tls;

	s->tls = tls_conf_get(c);
	tls_conf_put(old);
}

static void stop_listening(struct http_server *s)
{
	loop_alarm_cancel(&s->pause);
	loop_del_fd(s->watch);
	s->watch = NULL;
}

void http_server_free(struct http_server *s)
{
	struct http_request *next;

	if (!s)
		return;
	stop_listening(s);
	s->draining = false;
	for (struct http_request *c = s->conns; c; c = next) {
		next = c->next;
		c->answered = true;
		conn_close(c);
	}
	loop_del_timer(s->deadline);
	loop_alarm_cancel(&s->turn);
	cleanup_fd(&s->spare);
	peers_free(s->peers);
	tls_conf_put(s->tls);
	free(s);
}

/* --- end of connections and of the server --- */

static void on_drained(void *arg)
{
	struct http_server *s = arg;

	s->deadline = NULL;
	if (s->n_conns > 0)
		log_warn("the time for the shutdown is over: closing the connections that are "
			 "still open",
			 LOG_I("connections", s->n_conns));
	s->done(s->done_arg);
}

/* Resumes accepting, which the closed connection makes possible; ends a drain when no connection is
 * left. */
static void http_server_conn_closed(struct http_server *s)
{
	if (loop_alarm_armed(&s->pause) && s->watch) {
		loop_alarm_cancel(&s->pause);
		on_pause_over(s);
	}
	if (!s->draining || s->n_conns > 0)
		return;
	/* Deferred, because done() may free the connections over which the caller iterates. */
	loop_del_timer(s->deadline);
	s->deadline = loop_add_timer(s->loop, 0, on_drained, s);
}

void http_server_reject(struct http_server *s)
{
	s->sends_away = true;
}

void http_server_drain(struct http_server *s, int ms, void (*done)(void *arg), void *arg)
{
	if (s->draining)
		return;
	/* Clients that have already connected are still answered. */
	accept_some(s, true);
	stop_listening(s);
	s->done = done;
	s->done_arg = arg;
	s->draining = s->sends_away = true;
	s->deadline = loop_add_timer(s->loop, ms, on_drained, s);
	for (struct http_request *c = s->conns, *next; c; c = next) {
		next = c->next;
		if (conn_is_idle(c))
			conn_end_idle(c);
	}
	http_server_conn_closed(s);
}

/* --- functions that handlers call on a request, and refusals without a handler --- */

enum { ERROR_MAX = 8 << 10 };

static void put(struct http_request *c, struct http1_response r)
{
	r.close = c->close;
	r.head = c->head;
	http1_put_response(&c->out, &r);
	c->state = CONN_WRITING;
	conn_set_timer(c, c->s->limits.send_ms);
}

static struct span error_text(struct buf *b, int code, const char *message)
{
	struct json_out o;

	buf_init(b, ERROR_MAX);
	jo_init(&o, b, 0);
	jo_obj(&o);
	jo_kint(&o, "code", code);
	jo_kstr(&o, "message", message);
	jo_end_obj(&o);
	return buf_span(b);
}

static void put_error(struct http_request *c, int status, int code, const char *message,
		      const char *allow)
{
	struct buf b;
	struct http1_response r = {.status = status,
				   .type = HTTP_JSON,
				   .allow = allow,
				   .retry_after = status == 503 ? 1 : 0,
				   .body = error_text(&b, code, message)};

	put(c, r);
	buf_done(&b);
}

static void send_refusal(struct http_request *c, int status, const char *reason)
{
	char peer[PEER_TEXT_MAX] = "-";

	if (c->entry.peer)
		peer_key_text(peer_entry_key(&c->entry), peer);
	log_limited(LOG_WARN, 1, "request refused", LOG_S("peer", peer), LOG_I("status", status),
		    LOG_S("error", reason));
}

void conn_refuse(struct http_request *c, int status, const char *reason)
{
	send_refusal(c, status, reason);
	c->close = true;
	c->msg = (struct http1_msg){0};
	c->head = false;
	put_error(c, status, status, reason, NULL);
}

void conn_refuse_unsaid(struct http_request *c, int status)
{
	send_refusal(c, status, "the server does not accept this request");
	c->close = true;
	c->msg = (struct http1_msg){0};
	c->head = false;
	put(c, (struct http1_response){.status = status});
}

/* --- responses --- */

const struct http1_msg *http_request_msg(const struct http_request *q)
{
	return &q->msg;
}

bool http_request_is_local(const struct http_request *q)
{
	return q->entry.peer && peer_key_is_local(peer_entry_key(&q->entry));
}

void http_request_drop_msg(struct http_request *q)
{
	http1_done(q->codec);
	q->msg = (struct http1_msg){0};
}

/* Checks the socket, because the loop may not have delivered the event yet. */
bool http_request_is_closed(const struct http_request *q)
{
	struct pollfd p = {q->fd, 0, 0};

	return q->fd < 0 || (poll(&p, 1, 0) > 0 && p.revents & (POLLHUP | POLLERR));
}

static void log_answer(const struct http_request *c, int status)
{
	char method[16] = "", target[128] = "";

	if (log_threshold > LOG_DEBUG)
		return;
	snprintf(method, sizeof(method), "%.*s", (int)c->msg.method.n, c->msg.method.p);
	if (!c->s->limits.secret)
		snprintf(target, sizeof(target), "%.*s", (int)c->msg.target.n, c->msg.target.p);
	log_debug("answered", LOG_S("method", method), LOG_S("target", target),
		  LOG_I("status", status), LOG_I("us", now_mono_us() - c->began));
}

static bool begin_answer(struct http_request *c, int status)
{
	log_answer(c, status);
	c->answered = true;
	c->close |= c->s->sends_away;
	if (c->fd >= 0)
		return true;
	if (!c->running)
		conn_free(c);
	return false;
}

void http_answer(struct http_request *q, const struct http1_response *r)
{
	if (!begin_answer(q, r->status))
		return;
	if (r->body.n > HTTP_OUT_MAX / 2)
		put_error(q, 500, 500, "the answer is too long", NULL);
	else
		put(q, *r);
	conn_advance(q);
}

static void answer_error(struct http_request *q, int status, int code, const char *message,
			 const char *allow)
{
	if (!begin_answer(q, status))
		return;
	put_error(q, status, code, message, allow);
	conn_advance(q);
}

void http_answer_error(struct http_request *q, int status, int code, const char *message)
{
	answer_error(q, status, code, message, NULL);
}

void http_answer_wrong_method(struct http_request *q, const char *allow, const char *message)
{
	answer_error(q, 405, 405, message, allow);
}

/* --- closing of connections --- */

void conn_free(struct http_request *c)
{
	struct http_server *s = c->s;

	*(c->prev ? &c->prev->next : &s->conns) = c->next;
	if (c->next)
		c->next->prev = c->prev;
	peers_leave(s->peers, &c->entry);
	tls_free(c->tls);
	http1_free(c->codec);
	buf_done(&c->in);
	buf_done(&c->out);
	s->n_conns--;
	s->n_refused -= c->refused;
	s->bodies -= c->body;
	s->held -= c->held;
	free(c);
	http_server_conn_closed(s);
}

/* The descriptor is closed at once; memory is freed when the handler no longer needs it. */
void conn_close(struct http_request *c)
{
	conn_set_timer(c, -1);
	loop_del_timer(c->turn);
	c->turn = NULL;
	loop_del_fd(c->watch);
	c->watch = NULL;
	tls_free(c->tls);
	c->tls = NULL;
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	/* Without a descriptor the connection no longer competes for eviction or turns. */
	peers_leave(c->s->peers, &c->entry);
	if (c->running || (c->state == CONN_HANDLING && !c->answered))
		return;
	conn_free(c);
}
