/* SPDX-License-Identifier: Apache-2.0 */
#include "server/health.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/ip.h"
#include "server/http_server.h"
#include "wire/http/http1.h"

/* BACKLOG: length of the kernel's queue of new connections, with room for those that an API server
 * opens at the same time for the pods of one job, beside those of unknown peers
 * (http_limits.grace_ms). SCRAPES_MAX: maximum number of pending scrapes; a further one ends the
 * oldest with 503. */
enum { BACKLOG = 4096, SCRAPES_MAX = 256 };

/* Time limit for receiving a request. It can be short, because requests of probes and scrapes arrive
 * in one piece. */
enum { FIRST_MS = 5000 };

/* In bytes. HELD_MAX: maximum memory of the buffers of one port's connections, so that many
 * clients cannot push the agent over its 4 MB. SOCKET_BUFFER: size to set for the send buffer
 * and for the receive buffer of each connection, which the kernel charges to the pod's memory,
 * too. */
enum { HELD_MAX = 384 << 10, SOCKET_BUFFER = 16 << 10 };

struct port {
	struct ports *p;
	int fd;
	bool has_metrics;
	struct http_server *server;
};

struct ports {
	struct ports_conf conf;
	struct port v[2];
	size_t n;
	struct http_request *scrapes[SCRAPES_MAX];
	size_t n_scrapes;
};

/* --- listening sockets --- */

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static socklen_t address_of(const struct ipaddr *a, int port, union address *ret)
{
	*ret = (union address){0};
	if (a->family == 4) {
		ret->v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
		ret->v4.sin_addr.s_addr = htonl((uint32_t)ip_num(a));
		return sizeof(ret->v4);
	}
	ret->v6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(port)};
	if (a->family == 6)
		memcpy(&ret->v6.sin6_addr, a->b, 16);
	return sizeof(ret->v6);
}

static int try_listen(const struct ipaddr *a, int port)
{
	static const int on = 1, off = 0;
	union address at;
	socklen_t n = address_of(a, port, &at);
	auto_fd int fd = socket(at.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0)
		return -errno;
	if (at.any.sa_family == AF_INET6 &&
	    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, a->family ? &on : &off, sizeof(on)) < 0)
		return -errno;
	if (bind(fd, &at.any, n) < 0 || listen(fd, BACKLOG) < 0)
		return -errno;
	return take_fd(&fd);
}

int ports_listen(const char *address, int port, const char *setting, struct err *e)
{
	struct ipaddr a = {0};
	int fd;

	if (address && ip_parse(span_of(address), &a) < 0)
		return err_kind(e, ERR_CONF, -EINVAL,
				"address '%.100s' of listen, health-listen or metrics-listen: "
				"expected an IP address",
				address);
	fd = try_listen(&a, port);
	/* Listens on IPv4, because the host has no IPv6. */
	if (fd == -EAFNOSUPPORT && !address) {
		a = ip_from_num(4, 0);
		fd = try_listen(&a, port);
	}
	if (fd == -EADDRINUSE)
		return err_kind(e, ERR_CONF, fd,
				"port %d is in use: stop the process that uses it, or set another "
				"port (%s; 0: none)",
				port, setting);
	return fd < 0 ? err_sys(e, fd, "listen on port %d", port) : fd;
}

/* --- responses --- */

static void answer(struct http_request *q, int status, struct span text)
{
	http_answer(q, &(struct http1_response){.status = status,
						.type = "text/plain; charset=utf-8",
						.body = text});
}

static void answer_ready(struct ports *p, struct http_request *q)
{
	struct err e = ERR_INIT;

	if (p->conf.ready(p->conf.arg, &e) < 0) {
		auto_free char *text = xasprintf("%s\n", e.text);

		/* Only a local client gets the reason, because the text may contain the name of a
		 * pool, an object or a path. */
		if (http_request_is_local(q))
			answer(q, 503, span_of(text));
		else
			answer(q, 503, span_of("not ready: the daemon's log has the reason\n"));
		return;
	}
	answer(q, 200, span_of("ok\n"));
}

static void answer_metrics(struct ports *p, struct http_request *q)
{
	struct http_request *oldest = NULL;

	if (p->n_scrapes == SCRAPES_MAX) {
		oldest = p->scrapes[0];
		memmove(p->scrapes, p->scrapes + 1, --p->n_scrapes * sizeof(oldest));
	}
	http_request_drop_msg(q);
	p->scrapes[p->n_scrapes++] = q;
	if (p->n_scrapes == 1)
		p->conf.scrape(p->conf.arg);
	if (oldest)
		answer(oldest, 503, span_of("too many scrapes at a time\n"));
}

void ports_metrics(struct ports *p, struct span text)
{
	const struct http1_response r = {
		.status = 200, .type = "text/plain; version=0.0.4; charset=utf-8", .body = text};

	while (p->n_scrapes > 0)
		http_answer(p->scrapes[--p->n_scrapes], &r);
}

static bool is_one_of(struct span path, const char *a, const char *b, const char *c)
{
	return span_eq(path, a) || span_eq(path, b) || (c && span_eq(path, c));
}

static void handle(void *arg, struct http_request *q)
{
	const struct http1_msg *m = http_request_msg(q);
	struct port *port = arg;
	struct span path, query;

	if (http1_target(m->target, &path, &query) < 0) {
		answer(q, 400, span_of("the request's target is not a path\n"));
		return;
	}
	if (!span_eq(m->method, "GET") && !span_eq(m->method, "HEAD"))
		http_answer_wrong_method(q, "GET, HEAD", "expected GET");
	else if (port->has_metrics && span_eq(path, "/metrics"))
		answer_metrics(port->p, q);
	else if (is_one_of(path, "/healthz", "/v1/runtime/startup", "/v1/runtime/liveness"))
		answer(q, 200, span_of("ok\n"));
	else if (is_one_of(path, "/readyz", "/v1/runtime/readiness", NULL))
		answer_ready(port->p, q);
	else
		answer(q, 404,
		       span_of("unknown path: expected /healthz, /readyz or, on the "
			       "metrics port, /metrics\n"));
}

/* --- creation and destruction --- */

static int open_port(struct ports *p, const char *listen, int number, bool metrics, struct err *e)
{
	struct http_limits limits = HTTP_LIMITS_INIT;
	struct port *v = &p->v[p->n];
	int fd;

	if (number == 0)
		return 0;
	fd = ports_listen(listen, number, "health-port, metrics-port", e);
	if (fd < 0)
		return fd;
	/* Sets the buffer sizes on the listening socket, from which each connection inherits
	 * them. */
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &(int){SOCKET_BUFFER}, sizeof(int));
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &(int){SOCKET_BUFFER}, sizeof(int));
	*v = (struct port){.p = p, .fd = fd, .has_metrics = metrics};
	p->n++;
	limits.anyone = true;
	limits.max_conns = PORTS_CONNS_MAX;
	limits.first_ms = limits.body_ms = FIRST_MS;
	limits.bare = true;
	limits.held_max = HELD_MAX;
	return http_server_new(&v->server, p->conf.loop, fd, &limits, handle, v, e);
}

int ports_new(struct ports **ret, const struct ports_conf *c, struct err *e)
{
	struct ports *p = xcalloc(1, sizeof(*p));
	bool one = c->health == c->metrics;
	int r;

	p->conf = *c;
	r = open_port(p, one ? c->metrics_listen : c->health_listen, c->health, one, e);
	if (r == 0 && !one)
		r = open_port(p, c->metrics_listen, c->metrics, true, e);
	if (r < 0) {
		ports_free(p);
		return r;
	}
	*ret = p;
	return 0;
}

void ports_free(struct ports *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->n; i++) {
		http_server_free(p->v[i].server);
		cleanup_fd(&p->v[i].fd);
	}
	free(p);
}
