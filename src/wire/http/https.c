/* SPDX-License-Identifier: Apache-2.0 */
/* An open connection: bytes to and from its session, and its end. https_connect.c opens it. */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "wire/http/https_priv.h"

enum {
	QUIET_MS = 30000,
	PONG_MS = 15000,
	READ_SIZE = 16 << 10, /* a record: nothing stays behind in the TLS layer */
	READS_MAX = 16,	      /* in a row; then others get their turn */
	OUT_MAX = 1 << 20,
	OUT_GATHER = 16 << 10,
};

void https_drop(struct https *c)
{
	loop_del_fd(c->watch);
	c->watch = NULL;
	tls_free(c->tls);
	c->tls = NULL;
	cleanup_fd(&c->fd);
	c->fd = -1;
}

static void stop(struct https *c)
{
	c->state = HTTPS_CLOSED;
	resolve_cancel(c->resolve);
	c->resolve = NULL;
	loop_del_timer(c->deadline);
	loop_del_timer(c->attempt);
	loop_del_timer(c->kick);
	loop_del_timer(c->quiet);
	c->deadline = c->attempt = c->kick = c->quiet = NULL;
	https_drop(c);
}

void https_fail(struct https *c, const struct err *why)
{
	struct err e = *why;

	err_wrap(&e, why->code, "'%s'", c->where);
	stop(c);
	if (c->h2)
		h2_fail(c->h2, &e);
	c->ops->closed(c->arg, &e);
}

void https_free(struct https *c)
{
	if (!c)
		return;
	stop(c);
	h2_free(c->h2);
	tls_conf_put(c->conf);
	buf_done(&c->out);
	free(c->host);
	free(c->name);
	free(c->where);
	free(c);
}

/* --- writing --- */

/* 1: all is written, 0: the socket is full. */
static int write_out(struct https *c, struct err *e)
{
	while (c->out_at < c->out.len) {
		ssize_t n = tls_write(c->tls, c->out.p + c->out_at, c->out.len - c->out_at, e);

		if (n == -EAGAIN)
			return 0;
		if (n < 0)
			return (int)n;
		c->out_at += (size_t)n;
	}
	/* A large body goes once, its room with it. */
	buf_done(&c->out);
	buf_init(&c->out, OUT_MAX);
	c->out_at = 0;
	return 1;
}

static int gather(struct https *c, struct err *e)
{
	struct span out;
	int r;

	do {
		r = h2_out(c->h2, &out, e);
		if (r < 0)
			return r;
		buf_add(&c->out, out.p, out.n);
	} while (out.n && c->out.len < OUT_GATHER);
	return 0;
}

static int flush(struct https *c, struct err *e)
{
	int r = 1;

	while (r > 0) {
		if (c->out.len == 0) {
			r = gather(c, e);
			if (r < 0 || c->out.len == 0)
				break;
		}
		r = write_out(c, e);
	}
	if (r < 0)
		return r;
	return loop_set_events(c->watch, EPOLLIN | (c->out.len ? tls_events(c->tls) : 0U), e);
}

static void on_kick(void *arg)
{
	struct https *c = arg;
	struct err e = ERR_INIT;

	c->kick = NULL;
	if (flush(c, &e) < 0)
		https_fail(c, &e);
}

static void kick(struct https *c)
{
	if (!c->kick && c->state == HTTPS_OPEN)
		c->kick = loop_add_timer(c->loop, 0, on_kick, c);
}

/* --- reading --- */

static int read_in(struct https *c, struct err *e)
{
	char in[READ_SIZE];

	for (int i = 0; i < READS_MAX; i++) {
		ssize_t n = tls_read(c->tls, in, sizeof(in), e);
		int r;

		if (n == -EAGAIN)
			return 0;
		if (n == 0)
			return err_kind(e, ERR_AGAIN, -ECONNRESET,
					"the server closed the connection");
		if (n < 0)
			return (int)n;
		c->heard = loop_now_ms(c->loop);
		c->pinged = false;
		r = h2_in(c->h2, (struct span){in, (size_t)n}, e);
		if (r < 0)
			return r;
	}
	return 0;
}

void https_on_bytes(struct https *c)
{
	struct err e = ERR_INIT;
	bool was_ready = h2_is_ready(c->h2);
	int r = read_in(c, &e);

	if (r == 0)
		r = flush(c, &e);
	if (r < 0) {
		https_fail(c, &e);
		return;
	}
	if (was_ready || !h2_is_ready(c->h2))
		return;
	loop_del_timer(c->deadline);
	c->deadline = NULL;
	c->ops->ready(c->arg);
}

/* --- is it there? --- */

static void on_quiet(void *arg)
{
	struct https *c = arg;
	int64_t quiet = loop_now_ms(c->loop) - c->heard;
	struct err e = ERR_INIT;

	c->quiet = NULL;
	if (c->pinged) {
		err_kind(&e, ERR_AGAIN, -ETIMEDOUT, "the server has said nothing for %d s",
			 (int)(quiet / 1000));
		https_fail(c, &e);
		return;
	}
	if (quiet >= QUIET_MS) {
		h2_ping(c->h2);
		kick(c);
		c->pinged = true;
	}
	c->quiet = loop_add_timer(c->loop, c->pinged ? PONG_MS : QUIET_MS - quiet, on_quiet, c);
}

int https_begin(struct https *c, struct err *e)
{
	int r = h2_new(&c->h2, e);

	if (r < 0)
		return r;
	c->state = HTTPS_OPEN;
	c->heard = loop_now_ms(c->loop);
	c->quiet = loop_add_timer(c->loop, QUIET_MS, on_quiet, c);
	buf_init(&c->out, OUT_MAX);
	return flush(c, e);
}

/* --- requests --- */

int https_submit(struct https *c, struct h2_request *r, const struct h2_handler *fn, void *arg,
		 struct h2_stream **ret, struct err *e)
{
	int rc;

	r->authority = c->where;
	rc = h2_submit(c->h2, r, fn, arg, ret, e);
	kick(c);
	return rc;
}

void https_cancel(struct https *c, struct h2_stream *s)
{
	h2_cancel(s);
	kick(c);
}

bool https_takes_requests(const struct https *c)
{
	return c->state == HTTPS_OPEN && h2_is_ready(c->h2) && !h2_is_draining(c->h2);
}

size_t https_streams(const struct https *c)
{
	return c->h2 ? h2_streams(c->h2) : 0;
}
