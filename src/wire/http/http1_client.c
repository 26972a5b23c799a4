/* SPDX-License-Identifier: Apache-2.0 */
/* The codec of http1.c as a client on a UNIX socket, with a deadline. */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/loop.h"
#include "wire/http/http1.h"

enum { READ_SIZE = 16 << 10, BACKLOG_MS = 10, RESTART_MS = 50, REQUEST_MAX = 4 << 20 };

struct conn {
	const struct http1_call *call;
	int fd;
	int64_t deadline, restart_end;
	struct span out; /* output that is not written yet */
	struct http1 *h;
	struct http1_msg reply;
};

static int too_late(const struct conn *c, const char *what, struct err *e)
{
	return err_kind(e, ERR_AGAIN, -ETIMEDOUT, "%s '%s' within %d ms", what, c->call->socket,
			c->call->timeout_ms);
}

static int open_socket(struct conn *c, struct err *e)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	const char *path = c->call->socket;

	if (!str_copy(a.sun_path, sizeof(a.sun_path), path))
		return err_kind(e, ERR_CONF, -ENAMETOOLONG,
				"connect to '%s': a socket's path has at most %zu bytes", path,
				sizeof(a.sun_path) - 1);
	c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		return err_sys(e, -errno, "open a UNIX socket");
	while (connect(c->fd, (struct sockaddr *)&a, sizeof(a)) < 0) {
		bool restarts = (errno == ENOENT || errno == ECONNREFUSED) &&
				now_mono_ms() < c->restart_end;

		/* EAGAIN: the server's queue of new connections is full */
		if (errno != EAGAIN && errno != EINTR && !restarts)
			return err_kind(e, ERR_UNAVAILABLE, -errno, "connect to '%s': %s", path,
					errno_text(errno));
		if (now_mono_ms() >= c->deadline)
			return too_late(c, "no connection to", e);
		poll(NULL, 0, restarts ? RESTART_MS : BACKLOG_MS);
	}
	return 0;
}

/* Reads the answer; returns 1 if c->reply is complete. */
static int read_some(struct conn *c, struct err *e)
{
	char in[READ_SIZE];
	ssize_t n = recv(c->fd, in, sizeof(in), 0);
	struct span s = {in, n > 0 ? (size_t)n : 0};
	int r;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n < 0 && errno != ECONNRESET)
		return err_sys(e, -errno, "read from '%s'", c->call->socket);
	r = n > 0 ? http1_in(c->h, &s, &c->reply, e) : http1_eof(c->h, &c->reply, e);
	if (r < 0)
		return err_wrap(e, r, "answer of '%s'", c->call->socket);
	if (r == 0 && n <= 0)
		return err_kind(e, ERR_AGAIN, -ECONNRESET,
				"'%s' closed the connection without an answer", c->call->socket);
	return r;
}

static int talk(struct conn *c, struct err *e)
{
	int r = 0;

	while (r == 0) {
		r = fd_send(c->fd, &c->out);
		if (r < 0)
			return err_sys(e, r, "write to '%s'", c->call->socket);
		r = fd_wait(c->fd, c->deadline, (short)(POLLIN | (c->out.n ? POLLOUT : 0)));
		if (r == 0)
			return too_late(c, "no answer from", e);
		if (r < 0)
			return err_sys(e, r, "wait for '%s'", c->call->socket);
		r = read_some(c, e);
	}
	return r < 0 ? r : 0;
}

static int start(struct conn *c, struct buf *out, struct err *e)
{
	http1_put_request(out, &c->call->request);
	if (out->over)
		return err_set(e, -EFBIG, "request for '%s' is longer than %d MiB", c->call->socket,
			       REQUEST_MAX >> 20);
	c->out = buf_span(out);
	return open_socket(c, e);
}

int http1_send(const struct http1_call *call, struct err *e)
{
	struct conn c = {.call = call, .fd = -1, .deadline = now_mono_ms() + call->timeout_ms};
	auto_buf struct buf out;
	int r;

	buf_init(&out, REQUEST_MAX);
	r = start(&c, &out, e);
	while (r == 0) {
		r = fd_send(c.fd, &c.out);
		if (r < 0)
			err_sys(e, r, "write to '%s'", call->socket);
		if (r < 0 || !c.out.n)
			break;
		r = fd_wait(c.fd, c.deadline, POLLOUT) > 0 ? 0
							   : too_late(&c, "request not read by", e);
	}
	cleanup_fd(&c.fd);
	return r;
}

int http1_call(const struct http1_call *call, struct buf *body, struct err *e)
{
	size_t max = call->max ? call->max : HTTP1_BODY_MAX;
	auto_http1 struct http1 *h = http1_new(HTTP1_RESPONSES, max);
	struct conn c = {
		.call = call,
		.fd = -1,
		.deadline = now_mono_ms() + call->timeout_ms,
		.restart_end = now_mono_ms() + call->restart_ms,
		.h = h,
	};
	auto_buf struct buf out;
	int r;

	buf_init(body, max);
	buf_init(&out, REQUEST_MAX);
	r = start(&c, &out, e);
	if (r == 0)
		r = talk(&c, e);
	if (r == 0) {
		buf_add(body, c.reply.body.p, c.reply.body.n);
		r = c.reply.status;
	}
	cleanup_fd(&c.fd);
	return r;
}
