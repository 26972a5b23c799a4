/* SPDX-License-Identifier: Apache-2.0 */
/* What is below a connection's bytes: the socket, or TLS on it. */
#include <errno.h>
#include <sys/socket.h>

#include "base/log.h"
#include "server/http_server_priv.h"

void conn_watch(struct http_request *c, uint32_t events)
{
	struct err e = ERR_INIT;

	if (c->watch && loop_set_events(c->watch, events, &e) < 0)
		log_error("watch a connection", LOG_S("error", e.text));
}

static void tell_unshaken(struct http_request *c, const struct err *e)
{
	char peer[PEER_TEXT_MAX];

	peer_key_text(peer_entry_key(&c->entry), peer);
	log_limited(LOG_WARN, 1, "TLS handshake", LOG_S("peer", peer), LOG_S("error", e->text));
}

int conn_shake(struct http_request *c)
{
	struct err e = ERR_INIT;
	int r = tls_handshake(c->tls, &e);

	if (r == 0)
		return 1;
	if (r == -EAGAIN)
		return 0;
	/* Who only looks whether somebody listens is no failure. */
	if (r == -ECONNRESET)
		log_debug("TLS handshake", LOG_S("error", e.text));
	else
		tell_unshaken(c, &e);
	return -1;
}

static ssize_t read_some(struct http_request *c, char *p, size_t n)
{
	struct err e = ERR_INIT;
	ssize_t r = c->tls ? tls_read(c->tls, p, n, &e) : recv(c->fd, p, n, 0);

	if (c->tls || r >= 0)
		return r;
	return errno == EINTR ? -EAGAIN : -errno;
}

int conn_receive(struct http_request *c)
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

/* TLS that could not write wants the same bytes again, and no more of them. */
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

int conn_write_out(struct http_request *c)
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

void conn_finish(struct http_request *c)
{
	tls_free(c->tls);
	c->tls = NULL;
	shutdown(c->fd, SHUT_WR);
}
