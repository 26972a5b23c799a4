/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/http/grpc.h"
#include "wire/http/grpc_status.h"

#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/loop.h"
#include "base/num.h"
#include "wire/http/internal.h"

enum {
	PREFIX = 5, /* before each message: a compression flag (1 byte) and the length (4 bytes) */
	WINDOW = 1 << 20,
	TEXT_MAX = 512,
	NO_STATUS = -1,
};

struct grpc {
	nghttp2_session *session;
	char *method;
	size_t max;
	struct buf body; /* request message with its prefix */
	size_t sent;
	int32_t stream;
	/* the answer */
	bool spoke_h2, closed;
	uint32_t reset; /* HTTP/2 error code of the closed stream */
	int http_status, grpc_status;
	char content_type[64], message[TEXT_MAX];
	uint8_t prefix[PREFIX];
	size_t prefix_n, want;
	struct buf reply;
	bool has_reply;
	struct err bad; /* reason for which this client refuses the answer, set inside a callback */
};

static ssize_t give_body(nghttp2_session *session, int32_t stream, uint8_t *to, size_t room,
			 uint32_t *flags, nghttp2_data_source *source, void *user)
{
	struct grpc *g = source->ptr;
	size_t n = g->body.len - g->sent;

	(void)session, (void)stream, (void)user;
	if (n > room)
		n = room;
	memcpy(to, g->body.p + g->sent, n);
	g->sent += n;
	if (g->sent == g->body.len)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)n;
}

static void take_number(struct span s, int *ret)
{
	uint64_t v;

	if (!num_u64(s, 0, 999, &v))
		*ret = (int)v;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
		     size_t name_n, const uint8_t *value, size_t value_n, uint8_t flags, void *user)
{
	const struct span v = {(const char *)value, value_n};
	struct grpc *g = user;

	(void)session, (void)flags;
	if (frame->hd.stream_id != g->stream)
		return 0;
	if (h2_name_is(name, name_n, ":status"))
		take_number(v, &g->http_status);
	else if (h2_name_is(name, name_n, "grpc-status"))
		take_number(v, &g->grpc_status);
	else if (h2_name_is(name, name_n, "grpc-message"))
		grpc_message_decode(v, g->message, sizeof(g->message));
	else if (h2_name_is(name, name_n, "content-type"))
		grpc_message_decode(v, g->content_type, sizeof(g->content_type));
	return 0;
}

static int refuse(struct grpc *g, int code, const char *what)
{
	err_kind(&g->bad, ERR_DECODE, code, "%s: %s", g->method, what);
	return NGHTTP2_ERR_CALLBACK_FAILURE;
}

static int take_prefix(struct grpc *g)
{
	char what[96];

	if (g->prefix[0])
		return refuse(
			g, -EPROTO,
			"the answer is compressed, but the request does not accept compression");
	g->want = (size_t)g->prefix[1] << 24 | (size_t)g->prefix[2] << 16 |
		  (size_t)g->prefix[3] << 8 | g->prefix[4];
	snprintf(what, sizeof(what), "the answer has %zu bytes, the limit is %zu", g->want, g->max);
	if (g->want > g->max)
		return refuse(g, -EMSGSIZE, what);
	g->has_reply = true;
	return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *p,
		   size_t n, void *user)
{
	struct grpc *g = user;

	(void)session, (void)flags;
	/* Ignores the body of an answer that is not gRPC, such as an HTTP error page: the error is
	 * derived from its head. */
	if (stream != g->stream || !grpc_type_ok(g->content_type))
		return 0;
	while (n && g->prefix_n < PREFIX) {
		g->prefix[g->prefix_n++] = *p++;
		n--;
		if (g->prefix_n == PREFIX && take_prefix(g))
			return NGHTTP2_ERR_CALLBACK_FAILURE;
	}
	if (n > g->want - g->reply.len)
		return refuse(g, -EPROTO, "more than one message in the answer to a unary request");
	buf_add(&g->reply, p, n);
	return 0;
}

static int on_close(nghttp2_session *session, int32_t stream, uint32_t code, void *user)
{
	struct grpc *g = user;

	(void)session;
	if (stream == g->stream) {
		g->closed = true;
		g->reset = code;
	}
	return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	struct grpc *g = user;

	(void)session;
	g->spoke_h2 |= frame->hd.type == NGHTTP2_SETTINGS;
	return 0;
}

static int start_session(struct grpc *g)
{
	nghttp2_session_callbacks *cb;
	int r = nghttp2_session_callbacks_new(&cb);

	if (r)
		return r;
	nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
	nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_close);
	nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
	r = nghttp2_session_client_new(&g->session, cb, g);
	nghttp2_session_callbacks_del(cb);
	return r;
}

#define FIELD(n, v)                                                                                \
	{                                                                                          \
		(uint8_t *)(uintptr_t)(n), (uint8_t *)(uintptr_t)(v), strlen(n), strlen(v),        \
			NGHTTP2_NV_FLAG_NONE                                                       \
	}

static int submit_settings(struct grpc *g)
{
	const nghttp2_settings_entry settings[] = {
		{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
		{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW},
	};
	int r = nghttp2_submit_settings(g->session, NGHTTP2_FLAG_NONE, settings,
					ARRAY_LEN(settings));

	if (r)
		return r;
	return nghttp2_session_set_local_window_size(g->session, NGHTTP2_FLAG_NONE, 0, WINDOW);
}

static int submit_request(struct grpc *g, int timeout_ms)
{
	nghttp2_data_provider body = {.source.ptr = g, .read_callback = give_body};
	char timeout[16];

	snprintf(timeout, sizeof(timeout), "%dm", timeout_ms);
	const nghttp2_nv head[] = {
		FIELD(":method", "POST"),	  FIELD(":scheme", "http"),
		FIELD(":path", g->method),	  FIELD(":authority", "localhost"),
		FIELD("content-type", GRPC_TYPE), FIELD("te", "trailers"),
		FIELD("user-agent", "unirail"),	  FIELD("grpc-timeout", timeout),
	};
	g->stream = nghttp2_submit_request(g->session, NULL, head, ARRAY_LEN(head), &body, NULL);
	return g->stream < 0 ? g->stream : 0;
}

static void frame_request(struct grpc *g, struct span request)
{
	const char prefix[PREFIX] = {0, (char)(request.n >> 24), (char)(request.n >> 16),
				     (char)(request.n >> 8), (char)request.n};

	buf_init(&g->body, PREFIX + request.n);
	buf_add(&g->body, prefix, PREFIX);
	buf_add(&g->body, request.p, request.n);
}

int grpc_new(struct grpc **ret, const struct grpc_call *c, struct err *e)
{
	auto_grpc struct grpc *g = xcalloc(1, sizeof(*g));
	int r;

	g->method = xstrdup(c->method);
	g->max = c->max ? c->max : GRPC_REPLY_MAX;
	g->grpc_status = NO_STATUS;
	buf_init(&g->reply, g->max);
	frame_request(g, c->request);
	r = start_session(g);
	if (!r)
		r = submit_settings(g);
	if (!r)
		r = submit_request(g, c->timeout_ms);
	if (r)
		return err_set(e, -ENOMEM, "%s: start an HTTP/2 session: %s", c->method,
			       nghttp2_strerror(r));
	*ret = take(g);
	return 0;
}

static void grpc_free(struct grpc *g)
{
	if (!g)
		return;
	nghttp2_session_del(g->session);
	buf_done(&g->body);
	buf_done(&g->reply);
	free(g->method);
	free(g);
}

void grpc_cleanup(struct grpc **g)
{
	grpc_free(*g);
}

static int session_failed(struct grpc *g, int code, struct err *e)
{
	if (g->bad.code) {
		if (e)
			*e = g->bad;
		return g->bad.code;
	}
	return err_kind(e, ERR_DECODE, -EPROTO, "%s: %s: %s", g->method,
			g->spoke_h2 ? "HTTP/2 error" : "the peer is not a gRPC server",
			nghttp2_strerror(code));
}

int grpc_out(struct grpc *g, struct span *ret, struct err *e)
{
	const uint8_t *p = NULL;
	ssize_t n = nghttp2_session_mem_send(g->session, &p);

	if (n < 0)
		return session_failed(g, (int)n, e);
	*ret = (struct span){(const char *)p, (size_t)n};
	return 0;
}

int grpc_in(struct grpc *g, struct span bytes, struct err *e)
{
	ssize_t n = nghttp2_session_mem_recv(g->session, (const uint8_t *)bytes.p, bytes.n);

	return n < 0 ? session_failed(g, (int)n, e) : 0;
}

bool grpc_is_done(const struct grpc *g)
{
	return g->closed ||
	       (!nghttp2_session_want_read(g->session) && !nghttp2_session_want_write(g->session));
}

/* Sets the error for an answer without grpc-status. Its text says what was received instead. */
static int no_status(const struct grpc *g, struct err *e)
{
	if (!g->spoke_h2)
		return err_kind(e, ERR_DECODE, -EPROTO,
				"%s: the peer is not a gRPC server, or closed the connection: it "
				"sent no HTTP/2 SETTINGS",
				g->method);
	if (!g->closed)
		return err_kind(e, ERR_AGAIN, -ECONNRESET,
				"%s: the connection was closed before the answer", g->method);
	if (g->reset)
		return err_kind(e, ERR_AGAIN, -ECONNRESET, "%s: the stream was reset: %s",
				g->method, nghttp2_http2_strerror(g->reset));
	return err_kind(e, ERR_DECODE, -EPROTO,
			"%s: the peer is not a gRPC server: HTTP status %d, content-type '%s'",
			g->method, g->http_status, g->content_type);
}

int grpc_finish(struct grpc *g, struct buf *reply, struct err *e)
{
	if (g->grpc_status == NO_STATUS)
		return no_status(g, e);
	if (g->grpc_status)
		return grpc_status_err(g->grpc_status, g->method, g->message, e);
	if (!g->has_reply || g->reply.len != g->want)
		return err_kind(e, ERR_DECODE, -EPROTO, "%s: the answer is truncated", g->method);
	buf_done(reply);
	*reply = g->reply;
	buf_init(&g->reply, 1);
	return 0;
}

static const struct {
	const char *name;
	int code;
	enum err_kind kind;
} statuses[] = {
	{"OK", -EIO, ERR_OTHER},
	{"CANCELLED", -ECANCELED, ERR_AGAIN},
	{"UNKNOWN", -EREMOTEIO, ERR_OTHER},
	{"INVALID_ARGUMENT", -EINVAL, ERR_OTHER},
	{"DEADLINE_EXCEEDED", -ETIMEDOUT, ERR_AGAIN},
	{"NOT_FOUND", -ENOENT, ERR_OTHER},
	{"ALREADY_EXISTS", -EEXIST, ERR_OTHER},
	{"PERMISSION_DENIED", -EACCES, ERR_UNAVAILABLE},
	{"RESOURCE_EXHAUSTED", -EBUSY, ERR_AGAIN},
	{"FAILED_PRECONDITION", -EPERM, ERR_OTHER},
	{"ABORTED", -EAGAIN, ERR_AGAIN},
	{"OUT_OF_RANGE", -ERANGE, ERR_OTHER},
	{"UNIMPLEMENTED", -EOPNOTSUPP, ERR_UNAVAILABLE},
	{"INTERNAL", -EREMOTEIO, ERR_OTHER},
	{"UNAVAILABLE", -EAGAIN, ERR_AGAIN},
	{"DATA_LOSS", -EREMOTEIO, ERR_OTHER},
	{"UNAUTHENTICATED", -EACCES, ERR_UNAVAILABLE},
};

bool grpc_type_ok(const char *content_type)
{
	size_t n = strlen(GRPC_TYPE);

	return !strncmp(content_type, GRPC_TYPE, n) && strchr("+; ", content_type[n]);
}

/* Decodes the next character: "%41" is 'A'; any other byte is itself. */
static char next_char(struct span *s)
{
	uint64_t v = (unsigned char)s->p[0];
	size_t used = 1;

	if (s->p[0] == '%' && s->n >= 3 && !num_hex((struct span){s->p + 1, 2}, 255, &v))
		used = 3;
	s->p += used;
	s->n -= used;
	return (char)v;
}

void grpc_message_decode(struct span s, char *ret, size_t size)
{
	size_t n = 0;

	while (s.n && n + 1 < size) {
		char c = next_char(&s);

		/* keeps UTF-8; replaces control characters, which would reach a terminal */
		ret[n++] = (unsigned char)c < 0x20 || c == 0x7f ? ' ' : c;
	}
	ret[n] = '\0';
}

int grpc_status_err(int status, const char *method, const char *message, struct err *e)
{
	size_t i = (size_t)status;
	const char *between = message[0] ? ": " : "";

	if (i >= ARRAY_LEN(statuses))
		return err_set(e, -EREMOTEIO, "%s: gRPC status %d%s%s", method, status, between,
			       message);
	return err_kind(e, statuses[i].kind, statuses[i].code, "%s: %s%s%s", method,
			statuses[i].name, between, message);
}

/* --- runs the codec above on a UNIX socket, with a deadline --- */

enum { READ_SIZE = 16 << 10, BACKLOG_MS = 10 };

struct conn {
	const struct grpc_call *call;
	int fd;
	int64_t deadline;
	struct grpc *g;
	struct span out; /* output that is not written yet */
};

static int too_late(const struct conn *c, const char *what, struct err *e)
{
	return err_kind(e, ERR_AGAIN, -ETIMEDOUT, "%s: %s '%s' within %d ms", c->call->method, what,
			c->call->socket, c->call->timeout_ms);
}

static int no_answer(const struct grpc_call *c, int code, struct err *e)
{
	return err_kind(e, ERR_UNAVAILABLE, code, "connect to '%s': %s%s%s", c->socket,
			errno_text(code), c->remedy ? ": " : "", c->remedy ? c->remedy : "");
}

/* Connects. wait: retries until the deadline while the server's queue of new connections is full.
 * */
static int open_socket(struct conn *c, bool wait, struct err *e)
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
		/* EAGAIN: the server's queue of new connections is full */
		if (errno != EINTR && (errno != EAGAIN || !wait))
			return no_answer(c->call, -errno, e);
		if (now_mono_ms() >= c->deadline)
			return too_late(c, "no connection to", e);
		poll(NULL, 0, BACKLOG_MS);
	}
	return 0;
}

/* Writes pending output until the socket is full or nothing is left. */
static int write_some(struct conn *c, struct err *e)
{
	for (;;) {
		int r = c->out.n ? 0 : grpc_out(c->g, &c->out, e);

		if (r < 0 || !c->out.n)
			return r;
		r = fd_send(c->fd, &c->out);
		if (r < 0)
			return err_sys(e, r, "write to '%s'", c->call->socket);
		if (c->out.n)
			return 0;
	}
}

/* Reads from the socket; returns 1 if the peer has closed. */
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
		r = fd_wait(c->fd, c->deadline, (short)(POLLIN | (c->out.n ? POLLOUT : 0)));
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
		r = open_socket(&c, true, e);
	if (!r)
		r = talk(&c, e);
	if (!r)
		r = grpc_finish(c.g, reply, e);
	grpc_free(c.g);
	cleanup_fd(&c.fd);
	return r;
}

/* --- A call on the loop --- */

struct grpc_async {
	struct conn c;
	struct grpc_call call;
	char *socket, *method;
	struct loop *loop;
	struct loop_fd *watch;
	struct loop_timer *timer;
	grpc_done_fn done;
	void *arg;
};

void grpc_cancel(struct grpc_async *a)
{
	if (!a)
		return;
	loop_del_fd(a->watch);
	loop_del_timer(a->timer);
	grpc_free(a->c.g);
	cleanup_fd(&a->c.fd);
	free(a->socket);
	free(a->method);
	free(a);
}

static void finish(struct grpc_async *a, int r, struct err *e)
{
	auto_buf struct buf reply;

	buf_init(&reply, 1);
	if (!r)
		r = grpc_finish(a->c.g, &reply, e);
	/* Closes the descriptor before it calls `done`, which may start the same call again. */
	loop_del_fd(a->watch);
	a->watch = NULL;
	loop_del_timer(a->timer);
	a->timer = NULL;
	cleanup_fd(&a->c.fd);
	a->done(a->arg, buf_span(&reply), r < 0 ? e : NULL);
	grpc_cancel(a);
}

static void on_ready(void *arg, uint32_t events)
{
	struct grpc_async *a = arg;
	struct err e = ERR_INIT;
	int r = events & ~(uint32_t)EPOLLOUT ? read_some(&a->c, &e) : 0;
	bool is_over = r == 1;

	if (!r)
		r = write_some(&a->c, &e);
	if (r < 0 || is_over || grpc_is_done(a->c.g))
		finish(a, r < 0 ? r : 0, &e);
	else
		loop_set_events(a->watch, EPOLLIN | (a->c.out.n ? EPOLLOUT : 0U), NULL);
}

static void on_late(void *arg)
{
	struct grpc_async *a = arg;
	struct err e = ERR_INIT;

	a->timer = NULL;
	finish(a, too_late(&a->c, "no answer from", &e), &e);
}

int grpc_start(struct loop *l, const struct grpc_call *call, grpc_done_fn done, void *arg,
	       struct grpc_async **ret, struct err *e)
{
	struct grpc_async *a = xcalloc(1, sizeof(*a));
	int r;

	*a = (struct grpc_async){.call = *call,
				 .socket = xstrdup(call->socket),
				 .method = xstrdup(call->method),
				 .loop = l,
				 .done = done,
				 .arg = arg};
	a->call.socket = a->socket;
	a->call.method = a->method;
	a->c = (struct conn){.call = &a->call, .fd = -1};
	r = grpc_new(&a->c.g, &a->call, e);
	a->call.request = (struct span){NULL, 0}; /* the codec has copied the request */
	if (!r)
		r = open_socket(&a->c, false, e);
	if (!r)
		r = loop_add_fd(l, a->c.fd, EPOLLIN | EPOLLOUT, on_ready, a, &a->watch, e);
	if (r < 0) {
		grpc_cancel(a);
		return r;
	}
	a->timer = loop_add_timer(l, call->timeout_ms, on_late, a);
	*ret = a;
	return 0;
}
