/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/http/grpc_server.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"

/* Sessions of grpc_session.c on accepted sockets. */

enum {
	READ_SIZE = 16 << 10,
	READS_MAX = 8, /* consecutive reads of one connection before other connections are served */
	OUT_BATCH = 32 << 10,
	OUT_MAX = 64 << 10,
	/* maximum buffer capacity in bytes that a connection without pending output retains */
	OUT_KEEP = 1 << 10,
	ACCEPTS_MAX = 16,
	PAUSE_MS = 100, /* pause after accept4() failed, for example for lack of descriptors */
};

struct conn {
	struct grpc_server *s;
	int fd;
	struct loop_fd *watch;
	struct grpc_session *session;
	struct buf out;
	size_t out_at;
	bool is_dirty, is_closing, went_away;
	/* time since which no call is open, or since GOAWAY; conn_open() starts with an earlier
	 * time; -1: a call is open */
	int64_t idle_since;
	/* time since which no byte of `out` could be written; -1: nothing to write */
	int64_t stuck_since;
	struct loop_timer *timer;
	struct conn *prev, *next;
};

struct grpc_server {
	struct loop *loop;
	int fd;
	struct loop_fd *watch;
	struct loop_alarm pause;
	struct grpc_limits limits;
	const struct grpc_method *methods;
	void *arg;
	struct conn *conns;
	size_t n_conns;
	struct loop_alarm kick; /* writes answers that methods gave outside of a read callback */
};

static void conn_close(struct conn *c)
{
	struct grpc_server *s = c->s;

	*(c->prev ? &c->prev->next : &s->conns) = c->next;
	if (c->next)
		c->next->prev = c->prev;
	s->n_conns--;
	loop_del_timer(c->timer);
	loop_del_fd(c->watch);
	grpc_session_free(c->session);
	cleanup_fd(&c->fd);
	buf_done(&c->out);
	free(c);
}

/* --- timeouts of a connection --- */

static void on_timer(void *arg);

static int64_t earlier(int64_t a, int64_t b)
{
	if (a < 0 || b < 0)
		return a < 0 ? b : a;
	return a < b ? a : b;
}

static int64_t conn_due(const struct conn *c)
{
	const struct grpc_limits *l = &c->s->limits;
	int64_t due = grpc_session_deadline(c->session);

	if (c->stuck_since >= 0)
		due = earlier(due, c->stuck_since + l->send_ms);
	if (c->idle_since >= 0)
		due = earlier(due, c->idle_since + (c->went_away ? l->first_ms : l->idle_ms));
	return due;
}

static void conn_arm(struct conn *c)
{
	int64_t now = loop_now_ms(c->s->loop), due = conn_due(c);

	loop_del_timer(c->timer);
	c->timer = NULL;
	if (due >= 0)
		c->timer = loop_add_timer(c->s->loop, due > now ? due - now : 0, on_timer, c);
}

/* --- write to a connection --- */

static int collect(struct conn *c, struct err *e)
{
	struct span out;
	int r;

	do {
		r = grpc_session_out(c->session, &out, e);
		if (r < 0)
			return r;
		buf_add(&c->out, out.p, out.n);
	} while (out.n && c->out.len < OUT_BATCH);
	return 0;
}

/* Writes until the socket is full or nothing is left. */
static int write_out(struct conn *c, struct err *e)
{
	for (;;) {
		ssize_t n;

		if (c->out_at == c->out.len) {
			int r;

			buf_trim(&c->out, OUT_KEEP);
			c->out_at = 0;
			r = collect(c, e);
			if (r < 0 || !c->out.len)
				return r;
		}
		n = send(c->fd, c->out.p + c->out_at, c->out.len - c->out_at, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n < 0)
			return err_sys(e, -errno, "write to a gRPC client");
		c->out_at += (size_t)n;
		c->stuck_since = -1;
	}
}

static int flush(struct conn *c, struct err *e)
{
	bool is_full;
	int r = write_out(c, e);

	c->is_dirty = false;
	if (r < 0)
		return r;
	is_full = c->out_at < c->out.len;
	if (!is_full)
		c->stuck_since = -1;
	else if (c->stuck_since < 0)
		c->stuck_since = loop_now_ms(c->s->loop);
	if (grpc_session_calls(c->session))
		c->idle_since = -1;
	else if (c->idle_since < 0)
		c->idle_since = loop_now_ms(c->s->loop);
	/* While the peer does not read its answers, reads no requests from it: they would cause
	 * more output. */
	r = loop_set_events(c->watch, is_full ? EPOLLOUT : EPOLLIN, e);
	if (r == 0)
		conn_arm(c);
	return r;
}

/* Writes pending output. Closes c and returns false after an error or when the session is done. */
static bool conn_flush(struct conn *c)
{
	struct err e = ERR_INIT;

	if (flush(c, &e) == 0 && !(grpc_session_is_done(c->session) && c->out_at == c->out.len))
		return true;
	conn_close(c);
	return false;
}

static void on_kick(void *arg)
{
	struct grpc_server *s = arg;
	struct conn *c, *next;

	for (c = s->conns; c; c = next) {
		next = c->next;
		if (c->is_dirty)
			conn_flush(c);
	}
}

static void on_output(void *arg)
{
	struct conn *c = arg;

	c->is_dirty = true;
	loop_alarm_within(&c->s->kick, 0);
}

static void on_timer(void *arg)
{
	struct conn *c = arg;
	const struct grpc_limits *l = &c->s->limits;
	int64_t now = loop_now_ms(c->s->loop);

	c->timer = NULL;
	if ((c->stuck_since >= 0 && now - c->stuck_since >= l->send_ms) ||
	    (c->went_away && c->idle_since >= 0 && now - c->idle_since >= l->first_ms)) {
		conn_close(c);
		return;
	}
	grpc_session_expire(c->session, now);
	if (c->idle_since >= 0 && !c->went_away && now - c->idle_since >= l->idle_ms) {
		grpc_session_goaway(c->session);
		c->went_away = true;
		c->idle_since = now;
	}
	conn_flush(c);
}

/* --- read from a connection --- */

/* Reads from the socket; returns 1 if the peer has closed the connection or recv(2) fails. */
static int read_in(struct conn *c, struct err *e)
{
	char in[READ_SIZE];

	for (int i = 0; i < READS_MAX; i++) {
		ssize_t n = recv(c->fd, in, sizeof(in), 0);
		int r;

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return 0;
		if (n <= 0)
			return 1;
		r = grpc_session_in(c->session, (struct span){in, (size_t)n},
				    loop_now_ms(c->s->loop), e);
		if (r < 0)
			return r;
		if ((size_t)n < sizeof(in))
			return 0;
	}
	return 0;
}

static void on_bytes(void *arg, uint32_t events)
{
	struct conn *c = arg;
	struct err e = ERR_INIT, unsent = ERR_INIT;
	int r = events & EPOLLIN ? read_in(c, &e) : events & (EPOLLERR | EPOLLHUP) ? 1 : 0;

	if (r == 0) {
		conn_flush(c);
		return;
	}
	if (r < 0) {
		log_warn("gRPC server: closing a client's connection", LOG_S("error", e.text));
		/* writes the output that the session has queued so far */
		write_out(c, &unsent);
	}
	conn_close(c);
}

/* --- new connections --- */

static bool is_allowed(int fd)
{
	struct ucred u;
	socklen_t n = sizeof(u);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &u, &n) == 0 &&
	       (u.uid == 0 || u.uid == geteuid());
}

/* Returns the connection with the earliest idle_since; NULL: every connection has a call. */
static struct conn *idle_longest(struct grpc_server *s)
{
	struct conn *best = NULL;

	for (struct conn *c = s->conns; c; c = c->next)
		if (c->idle_since >= 0 && (!best || c->idle_since <= best->idle_since))
			best = c;
	return best;
}

static void conn_open(struct grpc_server *s, int fd)
{
	struct conn *c = xcalloc(1, sizeof(*c));
	struct err e = ERR_INIT;

	*c = (struct conn){.s = s,
			   .fd = fd,
			   .stuck_since = -1,
			   /* the first request must arrive within first_ms, not idle_ms */
			   .idle_since =
				   loop_now_ms(s->loop) - s->limits.idle_ms + s->limits.first_ms,
			   .next = s->conns};
	if (c->next)
		c->next->prev = c;
	s->conns = c;
	s->n_conns++;
	buf_init(&c->out, OUT_MAX);
	if (grpc_session_new(&c->session, s->methods, s->arg, s->limits.first_ms, &e) < 0 ||
	    loop_add_fd(s->loop, fd, EPOLLIN, on_bytes, c, &c->watch, &e) < 0) {
		log_warn("gRPC server: cannot serve a client", LOG_S("error", e.text));
		conn_close(c);
		return;
	}
	grpc_session_on_output(c->session, on_output, c);
	/* A grpc-go client waits for the server's SETTINGS before it sends its request. */
	conn_flush(c);
}

static void on_pause(void *arg)
{
	struct grpc_server *s = arg;

	loop_set_events(s->watch, EPOLLIN, NULL);
}

static void on_accept(void *arg, uint32_t events)
{
	struct grpc_server *s = arg;

	(void)events;
	for (int i = 0; i < ACCEPTS_MAX; i++) {
		int fd = accept4(s->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		struct conn *old;

		if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
			continue;
		if (fd < 0 && errno != EAGAIN && !loop_alarm_armed(&s->pause)) {
			log_warn("gRPC server: cannot accept a client",
				 LOG_S("error", errno_text(errno)));
			loop_set_events(s->watch, 0, NULL);
			loop_alarm_set(&s->pause, PAUSE_MS);
		}
		if (fd < 0)
			return;
		if (!s->limits.anyone && !is_allowed(fd)) {
			cleanup_fd(&fd);
			continue;
		}
		old = s->n_conns >= (size_t)s->limits.max_conns ? idle_longest(s) : NULL;
		if (old)
			conn_close(old);
		if (s->n_conns >= (size_t)s->limits.max_conns)
			cleanup_fd(&fd);
		else
			conn_open(s, fd);
	}
}

int grpc_server_new(struct grpc_server **ret, struct loop *l, int fd,
		    const struct grpc_limits *limits, const struct grpc_method *methods, void *arg,
		    struct err *e)
{
	struct grpc_server *s = xcalloc(1, sizeof(*s));
	int r;

	*s = (struct grpc_server){.loop = l,
				  .fd = fd,
				  .limits = limits ? *limits : (struct grpc_limits)GRPC_LIMITS_INIT,
				  .methods = methods,
				  .arg = arg,
				  .pause = LOOP_ALARM(l, on_pause, s),
				  .kick = LOOP_ALARM(l, on_kick, s)};
	r = loop_add_fd(l, fd, EPOLLIN, on_accept, s, &s->watch, e);
	if (r < 0) {
		free(s);
		return err_wrap(e, r, "serve gRPC");
	}
	*ret = s;
	return 0;
}

void grpc_server_free(struct grpc_server *s)
{
	if (!s)
		return;
	while (s->conns)
		conn_close(s->conns);
	loop_alarm_cancel(&s->pause);
	loop_alarm_cancel(&s->kick);
	loop_del_fd(s->watch);
	free(s);
}
