/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "wire/http/internal.h"

/* An open connection: reading, writing and closing. */

enum {
	IDLE_MS = 30000,
	PONG_MS = 15000,
	/* maximum size of a TLS record, so that a read leaves no decrypted bytes in the TLS
	 * layer */
	READ_SIZE = 16 << 10,
	READS_MAX = 16, /* consecutive reads before other callbacks of the loop run */
	OUT_MAX = 1 << 20,
	OUT_BATCH = 16 << 10,
};

/* Closes the socket and frees the TLS state. */
static void https_drop(struct https *c)
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
	loop_del_timer(c->idle);
	c->deadline = c->attempt = c->kick = c->idle = NULL;
	https_drop(c);
}

/* Ends the connection and calls `closed`, which may free c: the caller must not use c
 * afterwards. */
static void https_fail(struct https *c, const struct err *reason)
{
	struct err e = *reason;

	err_wrap(&e, reason->code, "'%s'", c->where);
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

/* --- write to the connection --- */

/* Writes the output. Returns 1 if everything is written, 0 if the socket is full. */
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
	/* Frees the buffer, which may have grown for a large body. */
	buf_done(&c->out);
	buf_init(&c->out, OUT_MAX);
	c->out_at = 0;
	return 1;
}

static int collect(struct https *c, struct err *e)
{
	struct span out;
	int r;

	do {
		r = h2_out(c->h2, &out, e);
		if (r < 0)
			return r;
		buf_add(&c->out, out.p, out.n);
	} while (out.n && c->out.len < OUT_BATCH);
	return 0;
}

static int flush(struct https *c, struct err *e)
{
	int r = 1;

	while (r > 0) {
		if (c->out.len == 0) {
			r = collect(c, e);
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

/* --- read from the connection --- */

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

static void https_on_bytes(struct https *c)
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

/* --- detecting a dead server --- */

static void on_idle(void *arg)
{
	struct https *c = arg;
	int64_t idle = loop_now_ms(c->loop) - c->heard;
	struct err e = ERR_INIT;

	c->idle = NULL;
	if (c->pinged) {
		err_kind(&e, ERR_AGAIN, -ETIMEDOUT, "no data from the server for %d s",
			 (int)(idle / 1000));
		https_fail(c, &e);
		return;
	}
	if (idle >= IDLE_MS) {
		h2_ping(c->h2);
		kick(c);
		c->pinged = true;
	}
	c->idle = loop_add_timer(c->loop, c->pinged ? PONG_MS : IDLE_MS - idle, on_idle, c);
}

/* Starts HTTP/2 after the TLS handshake. */
static int https_begin(struct https *c, struct err *e)
{
	int r = h2_new(&c->h2, e);

	if (r < 0)
		return r;
	c->state = HTTPS_OPEN;
	c->heard = loop_now_ms(c->loop);
	c->idle = loop_add_timer(c->loop, IDLE_MS, on_idle, c);
	buf_init(&c->out, OUT_MAX);
	r = flush(c, e);
	if (r == 0)
		return 0;
	/* The next address begins with a session and a timer of its own. */
	loop_del_timer(c->idle);
	c->idle = NULL;
	h2_free(c->h2);
	c->h2 = NULL;
	buf_done(&c->out);
	c->out_at = 0;
	return r;
}

/* --- requests of callers --- */

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

/* --- opening a connection: resolves the name and tries one address after another --- */

/* Limits the time for one address: if a firewall drops the packets to it, there must be time left
 * for the other addresses. */
enum { ATTEMPT_MS = 5000 };

static void next_address(struct https *c);

/* Tries the next address. A rejected certificate or protocol is final: the server was reached, so
 * the other addresses are not tried. */
static void attempt_failed(struct https *c, const struct err *reason)
{
	c->last = *reason;
	loop_del_timer(c->attempt);
	c->attempt = NULL;
	https_drop(c);
	if (reason->code == -EKEYREJECTED || reason->code == -EPROTONOSUPPORT)
		https_fail(c, &c->last);
	else
		next_address(c);
}

static void shake(struct https *c)
{
	struct err e = ERR_INIT;
	int r = tls_handshake(c->tls, &e);

	if (r == -EAGAIN) {
		r = loop_set_events(c->watch, tls_events(c->tls), &e);
		if (r == 0)
			return;
	}
	if (r == 0) {
		loop_del_timer(c->attempt);
		c->attempt = NULL;
		log_debug("TLS connection", LOG_S("server", c->where),
			  LOG_S("version", tls_version(c->tls)),
			  LOG_I("resumed", tls_resumed(c->tls)));
		r = https_begin(c, &e);
	}
	if (r < 0)
		attempt_failed(c, &e);
}

static void connected(struct https *c)
{
	int code = 0;
	socklen_t n = sizeof(code);
	struct err e = ERR_INIT;

	getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &code, &n);
	if (code) {
		err_kind(&e, ERR_UNAVAILABLE, -code, "connect: %s", errno_text(code));
		attempt_failed(c, &e);
		return;
	}
	c->state = HTTPS_HANDSHAKE;
	c->tls = tls_new(c->conf, c->fd, c->name);
	shake(c);
}

static void on_event(void *arg, uint32_t events)
{
	struct https *c = arg;

	(void)events;
	if (c->state == HTTPS_CONNECTING)
		connected(c);
	else if (c->state == HTTPS_HANDSHAKE)
		shake(c);
	else
		https_on_bytes(c);
}

static socklen_t socket_address(const struct ipaddr *a, uint16_t port, struct sockaddr_storage *ret)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};

	memcpy(&v4.sin_addr, a->b, 4);
	memcpy(&v6.sin6_addr, a->b, 16);
	if (a->family == 4)
		memcpy(ret, &v4, sizeof(v4));
	else
		memcpy(ret, &v6, sizeof(v6));
	return a->family == 4 ? sizeof(v4) : sizeof(v6);
}

static int start_connect(struct https *c, const struct ipaddr *a, struct err *e)
{
	struct sockaddr_storage sa = {0};
	socklen_t n = socket_address(a, c->port, &sa);

	c->fd = socket(sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		return err_sys(e, -errno, "open a socket");
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	if (connect(c->fd, (struct sockaddr *)&sa, n) < 0 && errno != EINPROGRESS)
		return err_kind(e, ERR_UNAVAILABLE, -errno, "connect: %s", errno_text(errno));
	c->state = HTTPS_CONNECTING;
	return loop_add_fd(c->loop, c->fd, EPOLLOUT, on_event, c, &c->watch, e);
}

static void on_attempt_over(void *arg)
{
	struct https *c = arg;
	struct err e = ERR_INIT;

	c->attempt = NULL;
	err_kind(&e, ERR_UNAVAILABLE, -ETIMEDOUT, "%s within %d s",
		 c->state == HTTPS_CONNECTING ? "no connection" : "no TLS handshake",
		 ATTEMPT_MS / 1000);
	attempt_failed(c, &e);
}

static void next_address(struct https *c)
{
	if (c->next_addr == c->n_addrs) {
		https_fail(c, &c->last);
		return;
	}
	/* The attempt for the last address may use all the remaining time. */
	if (c->next_addr + 1 < c->n_addrs)
		c->attempt = loop_add_timer(c->loop, ATTEMPT_MS, on_attempt_over, c);
	if (start_connect(c, &c->addrs[c->next_addr++], &c->last) < 0) {
		struct err reason = c->last;

		attempt_failed(c, &reason);
	}
}

static void on_resolved(void *arg, const struct ipaddr *v, size_t n, const struct err *e)
{
	struct https *c = arg;

	c->resolve = NULL;
	if (n == 0) {
		https_fail(c, e);
		return;
	}
	memcpy(c->addrs, v, n * sizeof(*v));
	c->n_addrs = n;
	next_address(c);
}

static void on_deadline(void *arg)
{
	static const char *const stage[] = {
		[HTTPS_RESOLVING] = "name not resolved",
		[HTTPS_CONNECTING] = "no connection",
		[HTTPS_HANDSHAKE] = "no TLS handshake",
		[HTTPS_OPEN] = "no HTTP/2 SETTINGS",
		[HTTPS_CLOSED] = "",
	};
	struct https *c = arg;
	struct err e = ERR_INIT;

	c->deadline = NULL;
	err_kind(&e, ERR_AGAIN, -ETIMEDOUT, "%s within %d ms", stage[c->state], c->connect_ms);
	https_fail(c, &e);
}

/* Runs from a timer, because `closed` must not be called before https_open() returns. */
static void on_start(void *arg)
{
	struct https *c = arg;
	struct err e = ERR_INIT;

	c->kick = NULL;
	if (ip_parse(span_of(c->host), &c->addrs[0]) == 0) {
		c->n_addrs = 1;
		next_address(c);
	} else if (resolve_start(&c->resolve, c->loop, c->host, c->connect_ms, on_resolved, c, &e) <
		   0) {
		https_fail(c, &e);
	}
}

struct https *https_open(struct loop *l, const struct https_conf *conf, const struct https_ops *ops,
			 void *arg)
{
	bool v6 = strchr(conf->host, ':');
	struct https *c = xcalloc(1, sizeof(*c));

	*c = (struct https){
		.loop = l,
		.ops = ops,
		.arg = arg,
		.host = xstrdup(conf->host),
		.name = xstrdup(conf->tls_name ? conf->tls_name : conf->host),
		.where = xasprintf(v6 ? "[%s]:%u" : "%s:%u", conf->host, conf->port),
		.port = conf->port,
		.conf = tls_conf_get(conf->tls),
		.connect_ms = conf->connect_ms,
		.fd = -1,
	};
	c->deadline = loop_add_timer(l, conf->connect_ms, on_deadline, c);
	c->kick = loop_add_timer(l, 0, on_start, c);
	return c;
}
