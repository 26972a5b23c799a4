/* SPDX-License-Identifier: Apache-2.0 */
/* Connections begin and end. */
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/log.h"
#include "server/http_server_priv.h"

/* --- the beginning --- */

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
		log_error("take a connection", LOG_S("error", e.text));
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

void conn_open(struct http_server *s, int fd)
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

void conn_open_refused(struct http_server *s, int fd, int status, const char *why)
{
	struct http_request *c = conn_new(s, fd);

	if (!c)
		return;
	c->refused = true;
	s->n_refused++;
	conn_refuse(c, status, why);
	conn_advance(c);
}

/* --- the end --- */

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
	http_server_conn_gone(s);
}

/* The descriptor goes at once; the rest when nobody needs it any more. */
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
	/* What has no descriptor is in nobody's way, and has no turn. */
	peers_leave(c->s->peers, &c->entry);
	if (c->running || (c->state == CONN_HANDLING && !c->answered))
		return;
	conn_free(c);
}
