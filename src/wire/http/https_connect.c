/* SPDX-License-Identifier: Apache-2.0 */
/* From a name to an open connection: one address after another. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "wire/http/https_priv.h"

/* A firewall that drops packets shall not use up the time of the other addresses. */
enum { ATTEMPT_MS = 5000 };

static void next_address(struct https *c);

/* This address did not do. A server that was reached and whose certificate is wrong is the answer,
 * not a reason to go on. */
static void attempt_failed(struct https *c, const struct err *why)
{
	c->last = *why;
	loop_del_timer(c->attempt);
	c->attempt = NULL;
	https_drop(c);
	if (why->code == -EKEYREJECTED || why->code == -EPROTONOSUPPORT)
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
	/* The last one has all the time that is left. */
	if (c->next_addr + 1 < c->n_addrs)
		c->attempt = loop_add_timer(c->loop, ATTEMPT_MS, on_attempt_over, c);
	if (start_connect(c, &c->addrs[c->next_addr++], &c->last) < 0) {
		struct err why = c->last;

		attempt_failed(c, &why);
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
		[HTTPS_RESOLVING] = "look the name up",
		[HTTPS_CONNECTING] = "no connection",
		[HTTPS_HANDSHAKE] = "no TLS handshake",
		[HTTPS_OPEN] = "no word of HTTP/2",
		[HTTPS_CLOSED] = "",
	};
	struct https *c = arg;
	struct err e = ERR_INIT;

	c->deadline = NULL;
	err_kind(&e, ERR_AGAIN, -ETIMEDOUT, "%s within %d ms", stage[c->state], c->connect_ms);
	https_fail(c, &e);
}

/* Later, so that nothing fails from within https_open(). */
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
