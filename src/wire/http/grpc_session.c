/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/http/grpc_server.h"
#include "wire/http/grpc_status.h"

#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/num.h"
#include "wire/http/internal.h"

enum {
	PREFIX = 5, /* before each message: a compression flag (1 byte) and the length (4 bytes) */
	STREAM_WINDOW = 64 << 10,
	CONN_WINDOW = 256 << 10,
	/* maximum total bytes of the incomplete request messages of one connection */
	HELD_MAX = 4 << 20,
	TEXT_MAX = 512,
	NAME_MAX_SHOWN = 128,
	HEADERS_FATAL = 64 << 10, /* a header list of more bytes ends the connection */
	RESETS_BURST = 256,
	RESETS_RATE = 32, /* per second */
	/* Budget for frames other than HEADERS and non-empty DATA. Each such frame costs one;
	 * each second adds IDLE_FRAMES_PER_S, each complete request IDLE_FRAMES_PER_CALL, up to
	 * IDLE_FRAMES_MAX. grpc-go sends a PING and a WINDOW_UPDATE for each answer. */
	IDLE_FRAMES_MAX = 2000,
	IDLE_FRAMES_PER_S = 100,
	IDLE_FRAMES_PER_CALL = 16,
	/* Value of `deadline` that means: the peer has `first_ms` to read the answer, counted from
	 * the next grpc_session_expire(). */
	TO_SEND = -2,
	/* maximum grpc-timeout in hours: one year; a longer timeout is reduced to it */
	TIMEOUT_MAX_H = 24 * 365,
};

struct grpc_in {
	struct grpc_session *s;
	int32_t id;
	const struct grpc_method *method;
	/* the request */
	size_t headers; /* bytes */
	bool post, bad_timeout, has_method;
	/* regular: a regular header was received; malformed: :method or :path follows a regular
	 * header or is repeated */
	bool regular, malformed;
	char type[64], path[NAME_MAX_SHOWN];
	int64_t timeout_ms; /* grpc-timeout; -1: none, or not valid */
	/* deadline of the request or of the call, monotonic ms; -1: none; or TO_SEND */
	int64_t deadline;
	uint8_t prefix[PREFIX];
	size_t prefix_n, want;
	struct buf request;
	bool is_complete, is_called;
	/* the answer */
	bool is_ended; /* the call has ended, so the method must not use it */
	bool has_head, has_next;
	struct buf out, next;
	size_t sent; /* of out */
	enum grpc_status status;
	char text[TEXT_MAX];
	struct grpc_in *prev, *next_call;
};

struct grpc_session {
	nghttp2_session *h2;
	const struct grpc_method *methods;
	void *arg;
	int first_ms;
	int64_t now, opened, budget_at;
	int64_t budget;
	bool is_http2; /* the client preface was received */
	struct grpc_in *calls;
	size_t n_calls, held;
	void (*on_output)(void *arg);
	void *on_output_arg;
};

static void call_free(struct grpc_in *c)
{
	struct grpc_session *s = c->s;

	*(c->prev ? &c->prev->next_call : &s->calls) = c->next_call;
	if (c->next_call)
		c->next_call->prev = c->prev;
	s->n_calls--;
	s->held -= c->is_complete ? 0 : c->want;
	buf_done(&c->request);
	buf_done(&c->out);
	buf_done(&c->next);
	free(c);
}

/* Frees the call; first notifies its method if it was called and the call has not ended. */
static void call_close(struct grpc_in *c)
{
	bool notify = c->is_called && !c->is_ended && c->method->closed;

	c->is_ended = true;
	if (notify)
		c->method->closed(c->s->arg, c);
	call_free(c);
}

static struct grpc_in *call_of(nghttp2_session *h2, int32_t id)
{
	return nghttp2_session_get_stream_user_data(h2, id);
}

static void has_output(struct grpc_session *s)
{
	if (s->on_output)
		s->on_output(s->on_output_arg);
}

/* --- answer to a call --- */

#define FIELD(n, v)                                                                                \
	{                                                                                          \
		(uint8_t *)(uintptr_t)(n), (uint8_t *)(uintptr_t)(v), strlen(n), strlen(v),        \
			NGHTTP2_NV_FLAG_NONE                                                       \
	}

static void message_encode(const char *text, char *ret, size_t size)
{
	size_t n = 0;

	for (; *text; text++) {
		unsigned char ch = (unsigned char)*text;
		bool plain = ch >= 0x20 && ch < 0x7f && ch != '%';

		if (n + (plain ? 1 : 3) >= size)
			break;
		n += (size_t)snprintf(ret + n, size - n, plain ? "%c" : "%%%02X", ch);
	}
	ret[n] = '\0';
}

static void submit_trailers(struct grpc_in *c)
{
	char status[12], text[3 * TEXT_MAX];
	snprintf(status, sizeof(status), "%d", (int)c->status);
	message_encode(c->text, text, sizeof(text));
	const nghttp2_nv nv[] = {FIELD("grpc-status", status), FIELD("grpc-message", text)};

	nghttp2_submit_trailer(c->s->h2, c->id, nv, ARRAY_LEN(nv));
}

static ssize_t give_answer(nghttp2_session *h2, int32_t id, uint8_t *to, size_t room,
			   uint32_t *flags, nghttp2_data_source *source, void *user)
{
	struct grpc_in *c = source->ptr;
	size_t n;

	(void)h2, (void)id, (void)user;
	if (c->sent == c->out.len && c->has_next) {
		buf_done(&c->out);
		c->out = c->next;
		buf_init(&c->next, 1);
		c->has_next = false;
		c->sent = 0;
	}
	n = c->out.len - c->sent;
	if (n > room)
		n = room;
	if (!n && !c->is_ended)
		return NGHTTP2_ERR_DEFERRED;
	memcpy(to, c->out.p + c->sent, n);
	c->sent += n;
	if (c->sent < c->out.len || c->has_next)
		return (ssize_t)n;
	buf_done(&c->out);
	buf_init(&c->out, 1);
	c->sent = 0;
	if (c->is_ended) {
		*flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
		submit_trailers(c);
	}
	return (ssize_t)n;
}

static void submit_head(struct grpc_in *c)
{
	nghttp2_data_provider body = {.source.ptr = c, .read_callback = give_answer};
	const nghttp2_nv nv[] = {FIELD(":status", "200"), FIELD("content-type", GRPC_TYPE)};

	if (!c->has_head)
		nghttp2_submit_response(c->s->h2, c->id, nv, ARRAY_LEN(nv), &body);
	else
		nghttp2_session_resume_data(c->s->h2, c->id);
	c->has_head = true;
	has_output(c->s);
}

/* Sends the whole answer as one header list. */
static void submit_refusal(struct grpc_in *c, const char *http_status)
{
	char status[12], text[3 * TEXT_MAX];
	snprintf(status, sizeof(status), "%d", (int)c->status);
	message_encode(c->text, text, sizeof(text));
	const nghttp2_nv nv[] = {FIELD(":status", http_status), FIELD("content-type", GRPC_TYPE),
				 FIELD("grpc-status", status), FIELD("grpc-message", text)};

	nghttp2_submit_response(c->s->h2, c->id, nv, ARRAY_LEN(nv), NULL);
	c->has_head = true;
	has_output(c->s);
}

static void set_end(struct grpc_in *c, enum grpc_status status, const char *text)
{
	c->status = status;
	str_copy(c->text, sizeof(c->text), text ? text : "");
	c->is_ended = true;
	c->deadline = TO_SEND;
}

static void refuse(struct grpc_in *c, const char *http_status, enum grpc_status status,
		   const char *fmt, const char *what)
{
	char text[TEXT_MAX];

	if (c->is_ended)
		return;
	snprintf(text, sizeof(text), "%s%s", fmt, what);
	set_end(c, status, text);
	if (c->has_head)
		submit_head(c);
	else
		submit_refusal(c, http_status);
}

static void add_prefix(struct buf *b, size_t n)
{
	const char prefix[PREFIX] = {0, (char)(n >> 24), (char)(n >> 16), (char)(n >> 8), (char)n};

	buf_add(b, prefix, PREFIX);
}

int grpc_in_send(struct grpc_in *c, struct span message)
{
	char text[96];

	if (message.n > GRPC_MESSAGE_MAX) {
		snprintf(text, sizeof(text), "the answer has %zu bytes, the limit is %d", message.n,
			 GRPC_MESSAGE_MAX);
		grpc_in_fail(c, GRPC_RESOURCE_EXHAUSTED, text);
		return -EMSGSIZE;
	}
	buf_done(&c->next);
	buf_init(&c->next, PREFIX + message.n);
	add_prefix(&c->next, message.n);
	buf_add(&c->next, message.p, message.n);
	c->has_next = true;
	submit_head(c);
	return 0;
}

/* Ends the call with OK after its pending message; c is invalid afterwards. */
static void grpc_in_end(struct grpc_in *c)
{
	set_end(c, GRPC_OK, NULL);
	submit_head(c);
}

void grpc_in_reply(struct grpc_in *c, struct span message)
{
	if (grpc_in_send(c, message) == 0)
		grpc_in_end(c);
}

void grpc_in_fail(struct grpc_in *c, enum grpc_status status, const char *text)
{
	refuse(c, "200", status, text ? text : "", "");
}

void grpc_in_fail_err(struct grpc_in *c, const struct err *e)
{
	enum grpc_status s = GRPC_UNKNOWN;

	if (e->kind == ERR_CONF || e->kind == ERR_DECODE)
		s = GRPC_INVALID_ARGUMENT;
	else if (e->code == -ENOENT)
		s = GRPC_NOT_FOUND;
	else if (e->kind == ERR_UNAVAILABLE)
		s = GRPC_FAILED_PRECONDITION;
	else if (e->kind == ERR_AGAIN)
		s = GRPC_UNAVAILABLE;
	grpc_in_fail(c, s, e->text);
}

/* --- request of a call --- */

static void copy_cut(char *ret, size_t size, struct span v)
{
	grpc_message_decode(v, ret, size);
}

/* Returns the milliseconds of a grpc-timeout such as "100m" (at most eight digits and a unit); -1:
 * invalid. */
static int64_t timeout_parse(struct span v)
{
	static const struct {
		char unit;
		int64_t mul, div;
	} units[] = {{'H', 3600000, 1}, {'M', 60000, 1}, {'S', 1000, 1},
		     {'m', 1, 1},	{'u', 1, 1000},	 {'n', 1, 1000000}};
	uint64_t n;

	if (v.n < 2 || v.n > 9 || num_u64((struct span){v.p, v.n - 1}, 0, 99999999, &n) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(units); i++)
		if (v.p[v.n - 1] == units[i].unit) {
			int64_t ms = ((int64_t)n * units[i].mul + units[i].div - 1) / units[i].div;
			int64_t max = (int64_t)TIMEOUT_MAX_H * 3600000;

			return ms < max ? ms : max;
		}
	return -1;
}

static void take_path(struct grpc_in *c, struct span v)
{
	copy_cut(c->path, sizeof(c->path), v);
	for (const struct grpc_method *m = c->s->methods; m->path; m++)
		if (span_eq(v, m->path))
			c->method = m;
}

static int on_begin(nghttp2_session *h2, const nghttp2_frame *frame, void *user)
{
	struct grpc_session *s = user;
	struct grpc_in *c;

	if (frame->hd.type != NGHTTP2_HEADERS)
		return 0;
	/* A second header list is the trailers and must end the stream; otherwise the stream is
	 * reset. */
	if (frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return frame->hd.flags & NGHTTP2_FLAG_END_STREAM
			       ? 0
			       : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	c = xcalloc(1, sizeof(*c));
	*c = (struct grpc_in){.s = s,
			      .id = frame->hd.stream_id,
			      .timeout_ms = -1,
			      .deadline = s->now + s->first_ms,
			      .next_call = s->calls};
	buf_init(&c->request, 1);
	buf_init(&c->out, 1);
	buf_init(&c->next, 1);
	if (c->next_call)
		c->next_call->prev = c;
	s->calls = c;
	s->n_calls++;
	nghttp2_session_set_stream_user_data(h2, c->id, c);
	return 0;
}

static int on_header(nghttp2_session *h2, const nghttp2_frame *frame, const uint8_t *name,
		     size_t name_n, const uint8_t *value, size_t value_n, uint8_t flags, void *user)
{
	const struct span v = {(const char *)value, value_n};
	struct grpc_in *c = call_of(h2, frame->hd.stream_id);

	(void)flags, (void)user;
	if (!c)
		return 0;
	c->headers += name_n + value_n + 32;
	if (c->headers > HEADERS_FATAL)
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	if (frame->headers.cat != NGHTTP2_HCAT_REQUEST || c->headers > GRPC_HEADERS_MAX)
		return 0;
	c->regular |= name_n == 0 || name[0] != ':';
	if (h2_name_is(name, name_n, ":method")) {
		c->malformed |= c->has_method || c->regular;
		c->has_method = true;
		c->post = span_eq(v, "POST");
	} else if (h2_name_is(name, name_n, ":path")) {
		c->malformed |= c->path[0] || c->regular;
		take_path(c, v);
	} else if (h2_name_is(name, name_n, "content-type")) {
		copy_cut(c->type, sizeof(c->type), v);
	} else if (h2_name_is(name, name_n, "grpc-timeout")) {
		c->timeout_ms = timeout_parse(v);
		c->bad_timeout = c->timeout_ms < 0;
	}
	return 0;
}

static void check_head(struct grpc_in *c)
{
	if (c->headers > GRPC_HEADERS_MAX)
		refuse(c, "200", GRPC_RESOURCE_EXHAUSTED, "the header list is too long", "");
	else if (c->malformed)
		refuse(c, "400", GRPC_INTERNAL, "malformed headers", "");
	else if (!c->post)
		refuse(c, "405", GRPC_INTERNAL, "the method is not POST", "");
	else if (!grpc_type_ok(c->type))
		refuse(c, "415", GRPC_INVALID_ARGUMENT, "invalid gRPC request content-type ",
		       c->type);
	else if (!c->method)
		refuse(c, "200", GRPC_UNIMPLEMENTED, "unknown method ", c->path);
	else if (c->bad_timeout)
		refuse(c, "200", GRPC_INTERNAL, "malformed grpc-timeout", "");
	if (!c->is_ended && c->timeout_ms >= 0 && c->timeout_ms < c->s->first_ms)
		c->deadline = c->s->now + c->timeout_ms;
}

static void check_prefix(struct grpc_in *c)
{
	size_t max = c->method->max ? c->method->max : GRPC_REQUEST_MAX;
	size_t want = (size_t)c->prefix[1] << 24 | (size_t)c->prefix[2] << 16 |
		      (size_t)c->prefix[3] << 8 | c->prefix[4];
	char text[128];

	if (c->prefix[0]) {
		refuse(c, "200", GRPC_UNIMPLEMENTED, "the request is compressed", "");
		return;
	}
	snprintf(text, sizeof(text),
		 "the request has %zu bytes, the limit is %zu (%d for all incomplete requests of "
		 "the connection)",
		 want, max, HELD_MAX);
	if (want > max || c->s->held + want > HELD_MAX) {
		refuse(c, "200", GRPC_RESOURCE_EXHAUSTED, text, "");
		return;
	}
	c->want = want;
	c->s->held += want;
	buf_init(&c->request, want);
}

static int on_data(nghttp2_session *h2, uint8_t flags, int32_t id, const uint8_t *p, size_t n,
		   void *user)
{
	struct grpc_in *c = call_of(h2, id);

	(void)flags, (void)user;
	if (!c || c->is_ended || !c->method)
		return 0;
	while (n && c->prefix_n < PREFIX) {
		c->prefix[c->prefix_n++] = *p++;
		n--;
		if (c->prefix_n == PREFIX)
			check_prefix(c);
	}
	if (c->is_ended)
		return 0;
	if (n > c->want - c->request.len)
		refuse(c, "200", GRPC_INTERNAL, "more than one message in a unary request", "");
	else
		buf_add(&c->request, p, n);
	return 0;
}

static void end_request(struct grpc_in *c)
{
	if (c->is_ended || c->is_complete)
		return;
	if (c->prefix_n < PREFIX || c->request.len < c->want) {
		refuse(c, "200", GRPC_INTERNAL, "the request is truncated", "");
		return;
	}
	c->is_complete = true;
	c->s->held -= c->want;
	c->s->budget += IDLE_FRAMES_PER_CALL;
	c->deadline = c->timeout_ms < 0 ? -1 : c->s->now + c->timeout_ms;
}

/* Frames of unknown types are counted like other frames and ignored. */
static int ignore_extension(nghttp2_session *h2, void **payload, const nghttp2_frame_hd *hd,
			    void *user)
{
	(void)h2, (void)payload, (void)hd, (void)user;
	return NGHTTP2_ERR_CANCEL;
}

static int on_frame_head(nghttp2_session *h2, const nghttp2_frame_hd *hd, void *user)
{
	struct grpc_session *s = user;

	if (hd->type == NGHTTP2_HEADERS || (hd->type == NGHTTP2_DATA && hd->length > 0))
		return 0;
	if (s->now - s->budget_at >= 1000) {
		s->budget += (s->now - s->budget_at) / 1000 * IDLE_FRAMES_PER_S;
		s->budget_at = s->now;
	}
	if (s->budget > IDLE_FRAMES_MAX)
		s->budget = IDLE_FRAMES_MAX;
	if (s->budget-- <= 0)
		nghttp2_session_terminate_session(h2, NGHTTP2_ENHANCE_YOUR_CALM);
	return 0;
}

static int on_frame(nghttp2_session *h2, const nghttp2_frame *frame, void *user)
{
	struct grpc_in *c = call_of(h2, frame->hd.stream_id);
	struct grpc_session *s = user;

	s->is_http2 = true;
	if (c && frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
		check_head(c);
	if (c && (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
	    frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
		end_request(c);
	return 0;
}

/* Resets the stream if the answer ends before the request, so that the client stops sending. */
static int on_sent(nghttp2_session *h2, const nghttp2_frame *frame, void *user)
{
	(void)user;
	if (frame->hd.type == NGHTTP2_HEADERS && frame->hd.flags & NGHTTP2_FLAG_END_STREAM &&
	    nghttp2_session_get_stream_remote_close(h2, frame->hd.stream_id) == 0)
		nghttp2_submit_rst_stream(h2, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
					  NGHTTP2_NO_ERROR);
	return 0;
}

static int on_close(nghttp2_session *h2, int32_t id, uint32_t code, void *user)
{
	struct grpc_in *c = call_of(h2, id);

	(void)code, (void)user;
	if (c) {
		nghttp2_session_set_stream_user_data(h2, id, NULL);
		call_close(c);
	}
	return 0;
}

/* --- the session --- */

static int session_new(struct grpc_session *s)
{
	nghttp2_session_callbacks *cb;
	nghttp2_option *option;
	int r = nghttp2_session_callbacks_new(&cb);

	if (r)
		return r;
	nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin);
	nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
	nghttp2_session_callbacks_set_on_begin_frame_callback(cb, on_frame_head);
	nghttp2_session_callbacks_set_unpack_extension_callback(cb, ignore_extension);
	nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
	nghttp2_session_callbacks_set_on_frame_send_callback(cb, on_sent);
	nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_close);
	r = nghttp2_option_new(&option);
	if (!r) {
		nghttp2_option_set_no_closed_streams(option, 1);
		/* grpc-go before 1.34 sends the socket's path as the authority, in which HTTP
		 * does not allow '/'. So nghttp2 must not check the headers; check_head() checks
		 * those that matter. */
		nghttp2_option_set_no_http_messaging(option, 1);
		/* nghttp2 reports a frame of an unknown type only if that type is registered. */
		for (int t = NGHTTP2_CONTINUATION + 1; t <= UINT8_MAX; t++)
			nghttp2_option_set_user_recv_extension_type(option, (uint8_t)t);
		nghttp2_option_set_stream_reset_rate_limit(option, RESETS_BURST, RESETS_RATE);
		r = nghttp2_session_server_new2(&s->h2, cb, s, option);
		nghttp2_option_del(option);
	}
	nghttp2_session_callbacks_del(cb);
	return r;
}

static int submit_settings(struct grpc_session *s)
{
	const nghttp2_settings_entry settings[] = {
		{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, GRPC_STREAMS_MAX},
		{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW},
		{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, GRPC_HEADERS_MAX},
	};
	int r = nghttp2_submit_settings(s->h2, NGHTTP2_FLAG_NONE, settings, ARRAY_LEN(settings));

	if (r)
		return r;
	return nghttp2_session_set_local_window_size(s->h2, NGHTTP2_FLAG_NONE, 0, CONN_WINDOW);
}

int grpc_session_new(struct grpc_session **ret, const struct grpc_method *methods, void *arg,
		     int first_ms, struct err *e)
{
	struct grpc_session *s = xcalloc(1, sizeof(*s));
	int r;

	*s = (struct grpc_session){
		.methods = methods, .arg = arg, .first_ms = first_ms, .budget = IDLE_FRAMES_MAX};
	r = session_new(s);
	if (!r)
		r = submit_settings(s);
	if (r) {
		grpc_session_free(s);
		return err_set(e, -ENOMEM, "start an HTTP/2 session: %s", nghttp2_strerror(r));
	}
	*ret = s;
	return 0;
}

void grpc_session_free(struct grpc_session *s)
{
	if (!s)
		return;
	s->on_output = NULL;
	while (s->calls) {
		nghttp2_session_set_stream_user_data(s->h2, s->calls->id, NULL);
		call_close(s->calls);
	}
	nghttp2_session_del(s->h2);
	free(s);
}

/* Calls the methods of complete requests, outside of nghttp2's callbacks; their answers are
 * queued. */
static void run_calls(struct grpc_session *s)
{
	struct grpc_in *c = s->calls;

	while (c) {
		if (c->is_ended || c->is_called || !c->is_complete) {
			c = c->next_call;
			continue;
		}
		struct buf request = c->request;

		buf_init(&c->request, 1);
		c->is_called = true;
		c->method->call(s->arg, c, buf_span(&request));
		buf_done(&request);
		c = s->calls; /* starts again, because the method may have ended any call */
	}
}

static int session_failed(const struct grpc_session *s, int code, struct err *e)
{
	if (!s->is_http2)
		return err_kind(e, ERR_DECODE, -EPROTO, "the peer does not speak gRPC: %s",
				nghttp2_strerror(code));
	return err_kind(e, ERR_DECODE, -EPROTO, "HTTP/2: %s", nghttp2_strerror(code));
}

int grpc_session_in(struct grpc_session *s, struct span bytes, int64_t now, struct err *e)
{
	ssize_t n;

	s->now = now;
	if (!s->budget_at)
		s->budget_at = now;
	n = nghttp2_session_mem_recv(s->h2, (const uint8_t *)bytes.p, bytes.n);
	if (n < 0)
		return session_failed(s, (int)n, e);
	run_calls(s);
	return 0;
}

int grpc_session_out(struct grpc_session *s, struct span *ret, struct err *e)
{
	const uint8_t *p = NULL;
	ssize_t n = nghttp2_session_mem_send(s->h2, &p);

	if (n < 0)
		return session_failed(s, (int)n, e);
	*ret = (struct span){(const char *)p, (size_t)n};
	return 0;
}

int64_t grpc_session_deadline(const struct grpc_session *s)
{
	int64_t first = -1;

	for (const struct grpc_in *c = s->calls; c; c = c->next_call) {
		int64_t at = c->deadline == TO_SEND ? 0 : c->deadline;

		if (at >= 0 && (first < 0 || at < first))
			first = at;
	}
	return first;
}

static void expire(struct grpc_in *c)
{
	bool notify = c->is_called && !c->is_ended && c->method->closed;

	c->deadline = -1;
	if (c->is_ended) {
		/* The peer has not read its answer in time. */
		nghttp2_submit_rst_stream(c->s->h2, NGHTTP2_FLAG_NONE, c->id, NGHTTP2_CANCEL);
		return;
	}
	if (notify)
		c->method->closed(c->s->arg, c);
	refuse(c, "200", GRPC_DEADLINE_EXCEEDED, "the deadline has passed", "");
}

void grpc_session_expire(struct grpc_session *s, int64_t now)
{
	struct grpc_in *c = s->calls, *next;

	s->now = now;
	for (; c; c = next) {
		next = c->next_call;
		if (c->deadline == TO_SEND)
			c->deadline = now + s->first_ms;
		else if (c->deadline >= 0 && c->deadline <= now)
			expire(c);
	}
}

size_t grpc_session_calls(const struct grpc_session *s)
{
	return s->n_calls;
}

bool grpc_session_is_done(const struct grpc_session *s)
{
	return !nghttp2_session_want_read(s->h2) && !nghttp2_session_want_write(s->h2);
}

void grpc_session_goaway(struct grpc_session *s)
{
	if (s->n_calls)
		nghttp2_submit_goaway(s->h2, NGHTTP2_FLAG_NONE,
				      nghttp2_session_get_last_proc_stream_id(s->h2),
				      NGHTTP2_NO_ERROR, NULL, 0);
	else
		nghttp2_session_terminate_session(s->h2, NGHTTP2_NO_ERROR);
	has_output(s);
}

void grpc_session_on_output(struct grpc_session *s, void (*fn)(void *arg), void *arg)
{
	s->on_output = fn;
	s->on_output_arg = arg;
}
