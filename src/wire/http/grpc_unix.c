/* SPDX-License-Identifier: Apache-2.0 */
/* The codec of grpc.c on a UNIX socket, with a deadline. */
#include "wire/http/grpc.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/loop.h"

enum { READ_SIZE = 16 << 10, BACKLOG_MS = 10 };

struct conn {
	const struct grpc_call *call;
	int fd;
	int64_t deadline;
	struct grpc *g;
	struct span out; /* not written yet */
};

static int too_late(const struct conn *c, const char *what, struct err *e)
{
	return err_kind(e, ERR_AGAIN, -ETIMEDOUT, "%s: %s '%s' within %d ms", c->call->method, what,
			c->call->socket, c->call->timeout_ms);
}

/* 1 ready, 0 when time is up */
static int wait_for(const struct conn *c, short events)
{
	for (;;) {
		struct pollfd p = {c->fd, events, 0};
		int64_t left = c->deadline - now_mono_ms();
		int r = left > 0 ? poll(&p, 1, (int)left) : 0;

		if (r >= 0)
			return r;
		if (errno != EINTR)
			return -errno;
	}
}

static int nobody_there(const struct grpc_call *c, int code, struct err *e)
{
	return err_kind(e, ERR_UNAVAILABLE, code, "connect to '%s': %s%s%s", c->socket,
			errno_text(code), c->remedy ? ": " : "", c->remedy ? c->remedy : "");
}

static int open_socket(struct conn *c, struct err *e)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	if (!str_copy(a.sun_path, sizeof(a.sun_path), c->call->socket))
		return err_kind(e, ERR_CONF, -ENAMETOOLONG,
				"connect to '%s': a socket's path has at most %zu bytes",
				c->call->socket, sizeof(a.sun_path) - 1);
	c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		return err_sys(e, -errno, "open a UNIX socket");
	while (connect(c->fd, (struct sockaddr *)&a, sizeof(a)) < 0) {
		/* EAGAIN: its queue of new connections is full */
		if (errno != EAGAIN && errno != EINTR)
			return nobody_there(c->call, -errno, e);
		if (now_mono_ms() >= c->deadline)
			return too_late(c, "no connection to", e);
		poll(NULL, 0, BACKLOG_MS);
	}
	return 0;
}

/* Writes what there is; stops when the socket is full. */
static int write_some(struct conn *c, struct err *e)
{
	for (;;) {
		int r = c->out.n ? 0 : grpc_out(c->g, &c->out, e);
		ssize_t n;

		if (r < 0 || !c->out.n)
			return r;
		n = send(c->fd, c->out.p, c->out.n, MSG_NOSIGNAL);
		if (n < 0 && errno == EAGAIN)
			return 0;
		/* The answer, or the end of the connection, is there to be read. */
		if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
			n = (ssize_t)c->out.n;
		if (n < 0 && errno != EINTR)
			return err_sys(e, -errno, "write to '%s'", c->call->socket);
		if (n > 0) {
			c->out.p += n;
			c->out.n -= (size_t)n;
		}
	}
}

/* 1: the peer has closed. */
static int read_some(struct conn *c, struct err *e)
{
	char in[READ_SIZE];
	ssize_t n = recv(c->fd, in, sizeof(in), 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n < 0 && errno != ECONNRESET)
		return err_sys(e, -errno, "read from '%s'", c->call->socket);
	return n > 0 ? grpc_in(c->g, (struct span){in, (size_t)n}, e) : 1;
}

static int talk(struct conn *c, struct err *e)
{
	while (!grpc_is_done(c->g)) {
		int r = write_some(c, e);

		if (r < 0)
			return r;
		if (grpc_is_done(c->g))
			return 0;
		r = wait_for(c, (short)(POLLIN | (c->out.n ? POLLOUT : 0)));
		if (r == 0)
			return too_late(c, "no answer from", e);
		if (r < 0)
			return err_sys(e, r, "wait for '%s'", c->call->socket);
		r = read_some(c, e);
		if (r)
			return r < 0 ? r : 0;
	}
	return 0;
}

int grpc_unary(const struct grpc_call *call, struct buf *reply, struct err *e)
{
	struct conn c = {.call = call, .fd = -1, .deadline = now_mono_ms() + call->timeout_ms};
	int r;

	buf_init(reply, 1);
	r = grpc_new(&c.g, call, e);
	if (!r)
		r = open_socket(&c, e);
	if (!r)
		r = talk(&c, e);
	if (!r)
		r = grpc_finish(c.g, reply, e);
	grpc_free(c.g);
	cleanup_fd(&c.fd);
	return r;
}
