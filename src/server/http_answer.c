/* SPDX-License-Identifier: Apache-2.0 */
/* What a handler says of its request, and what is said to those who have none. */
#include <poll.h>
#include <stdio.h>

#include "server/http_server_priv.h"
#include "base/log.h"
#include "wire/json/json.h"

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
				   .type = "application/json",
				   .allow = allow,
				   .retry_after = status == 503 ? 1 : 0,
				   .body = error_text(&b, code, message)};

	put(c, r);
	buf_done(&b);
}

static void tell_refused(struct http_request *c, int status, const char *why)
{
	char peer[PEER_TEXT_MAX] = "-";

	if (c->entry.peer)
		peer_key_text(peer_entry_key(&c->entry), peer);
	log_limited(LOG_WARN, 1, "request refused", LOG_S("peer", peer), LOG_I("status", status),
		    LOG_S("error", why));
}

void conn_refuse(struct http_request *c, int status, const char *why)
{
	tell_refused(c, status, why);
	c->close = true;
	c->msg = (struct http1_msg){0};
	c->head = false;
	put_error(c, status, status, why, NULL);
}

void conn_refuse_unsaid(struct http_request *c, int status)
{
	tell_refused(c, status, "what its head asks for is not given to it");
	c->close = true;
	c->msg = (struct http1_msg){0};
	c->head = false;
	put(c, (struct http1_response){.status = status});
}

/* --- answers --- */

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

/* The loop may not have come to the event yet. */
bool http_request_is_gone(const struct http_request *q)
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
