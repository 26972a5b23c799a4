/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/http/h2.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <nghttp2/nghttp2.h>

#include "base/alloc.h"
#include "base/num.h"
#include "wire/http/internal.h"

/* Receive windows in bytes. They cost no memory, since received bytes are passed on immediately. */
enum { STREAM_WINDOW = 256 << 10, CONN_WINDOW = 1 << 20 };

struct h2 {
	nghttp2_session *session;
	struct h2_stream *streams;
	size_t n_streams;
	bool ready, draining;
};

struct h2_stream {
	struct h2 *h;
	int32_t id;
	const struct h2_handler *fn; /* NULL: cancelled */
	void *arg;
	struct buf body;
	size_t sent;
	struct h2_head head;
	bool has_head, whole;
	struct h2_stream *prev, *next;
};

static void stream_free(struct h2_stream *s)
{
	*(s->prev ? &s->prev->next : &s->h->streams) = s->next;
	if (s->next)
		s->next->prev = s->prev;
	s->h->n_streams--;
	buf_done(&s->body);
	free(s);
}

static struct h2_stream *stream_of(nghttp2_session *session, int32_t id)
{
	return nghttp2_session_get_stream_user_data(session, id);
}

static ssize_t give_body(nghttp2_session *session, int32_t id, uint8_t *to, size_t room,
			 uint32_t *flags, nghttp2_data_source *source, void *user)
{
	struct h2_stream *s = source->ptr;
	size_t n = s->body.len - s->sent;

	(void)session, (void)id, (void)user;
	if (n > room)
		n = room;
	memcpy(to, s->body.p + s->sent, n);
	s->sent += n;
	if (s->sent == s->body.len)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)n;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
		     size_t name_n, const uint8_t *value, size_t value_n, uint8_t flags, void *user)
{
	struct h2_stream *s = stream_of(session, frame->hd.stream_id);
	const struct span v = {(const char *)value, value_n};
	uint64_t number;

	(void)flags, (void)user;
	if (!s || s->has_head)
		return 0; /* ignores trailers */
	if (h2_name_is(name, name_n, ":status") && num_u64(v, 100, 999, &number) == 0) {
		s->head = (struct h2_head){.status = (int)number, .retry_after = -1};
	} else if (h2_name_is(name, name_n, "retry-after") && num_u64(v, 0, 86400, &number) == 0) {
		s->head.retry_after = (int64_t)number;
	} else if (h2_name_is(name, name_n, "content-type")) {
		size_t n = v.n < sizeof(s->head.type) - 1 ? v.n : sizeof(s->head.type) - 1;

		memcpy(s->head.type, v.p, n);
		s->head.type[n] = '\0';
	}
	return 0;
}

static void take_head(struct h2_stream *s)
{
	if (s->has_head || s->head.status < 200)
		return; /* ignores trailers and interim answers */
	s->has_head = true;
	if (s->fn)
		s->fn->head(s->arg, &s->head);
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	struct h2_stream *s = stream_of(session, frame->hd.stream_id);
	struct h2 *h = user;

	if (frame->hd.type == NGHTTP2_SETTINGS)
		h->ready = true;
	if (frame->hd.type == NGHTTP2_GOAWAY)
		h->draining = true;
	if (s && frame->hd.type == NGHTTP2_HEADERS)
		take_head(s);
	/* A callback may have cancelled the stream; its struct is valid until on_close(). */
	if (s && (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA))
		s->whole |= frame->hd.flags & NGHTTP2_FLAG_END_STREAM && s->has_head;
	return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *p, size_t n,
		   void *user)
{
	struct h2_stream *s = stream_of(session, id);

	(void)flags, (void)user;
	if (s && s->fn && s->has_head)
		s->fn->data(s->arg, (struct span){(const char *)p, n});
	return 0;
}

static void end_stream(struct h2_stream *s, const struct err *e, bool untouched)
{
	const struct h2_handler *fn = s->fn;
	void *arg = s->arg;

	stream_free(s);
	if (fn)
		fn->end(arg, e, untouched);
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t code, void *user)
{
	struct h2_stream *s = stream_of(session, id);
	struct err e = ERR_INIT;

	(void)user;
	if (!s)
		return 0;
	nghttp2_session_set_stream_user_data(session, id, NULL);
	if (s->whole) {
		end_stream(s, NULL, false);
		return 0;
	}
	err_kind(&e, ERR_AGAIN, -ECONNRESET,
		 "the stream was closed before the answer was complete: %s",
		 nghttp2_http2_strerror(code));
	end_stream(s, &e, code == NGHTTP2_REFUSED_STREAM);
	return 0;
}

static int start_session(struct h2 *h)
{
	nghttp2_session_callbacks *cb;
	nghttp2_option *option;
	int r = nghttp2_session_callbacks_new(&cb);

	if (r)
		return r;
	nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
	nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_close);
	r = nghttp2_option_new(&option);
	if (!r) {
		/* Makes nghttp2 free closed streams at once: this module never accesses them. */
		nghttp2_option_set_no_closed_streams(option, 1);
		r = nghttp2_session_client_new2(&h->session, cb, h, option);
		nghttp2_option_del(option);
	}
	nghttp2_session_callbacks_del(cb);
	return r;
}

static int submit_settings(struct h2 *h)
{
	const nghttp2_settings_entry settings[] = {
		{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
		{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW},
		{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, 16 << 10},
	};
	int r = nghttp2_submit_settings(h->session, NGHTTP2_FLAG_NONE, settings,
					ARRAY_LEN(settings));

	if (r)
		return r;
	return nghttp2_session_set_local_window_size(h->session, NGHTTP2_FLAG_NONE, 0, CONN_WINDOW);
}

int h2_new(struct h2 **ret, struct err *e)
{
	struct h2 *h = xcalloc(1, sizeof(*h));
	int r = start_session(h);

	if (!r)
		r = submit_settings(h);
	if (r) {
		h2_free(h);
		return err_set(e, -ENOMEM, "start an HTTP/2 session: %s", nghttp2_strerror(r));
	}
	*ret = h;
	return 0;
}

void h2_free(struct h2 *h)
{
	if (!h)
		return;
	while (h->streams)
		stream_free(h->streams);
	nghttp2_session_del(h->session);
	free(h);
}

static nghttp2_nv field(const char *name, const char *value, bool secret)
{
	return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name),
			    strlen(value),
			    secret ? NGHTTP2_NV_FLAG_NO_INDEX : NGHTTP2_NV_FLAG_NONE};
}

static int32_t submit(struct h2_stream *s, const struct h2_request *r)
{
	nghttp2_data_provider body = {.source.ptr = s, .read_callback = give_body};
	nghttp2_nv nv[4 + H2_FIELDS_MAX];
	size_t n = 0;

	nv[n++] = field(":method", r->method, false);
	nv[n++] = field(":scheme", "https", false);
	nv[n++] = field(":authority", r->authority, false);
	nv[n++] = field(":path", r->path, false);
	for (size_t i = 0; i < r->n_fields && i < H2_FIELDS_MAX; i++)
		nv[n++] = field(r->fields[i].name, r->fields[i].value, r->fields[i].secret);
	return nghttp2_submit_request(s->h->session, NULL, nv, n, r->body.n ? &body : NULL, s);
}

int h2_submit(struct h2 *h, const struct h2_request *r, const struct h2_handler *fn, void *arg,
	      struct h2_stream **ret, struct err *e)
{
	struct h2_stream *s = xcalloc(1, sizeof(*s));

	*s = (struct h2_stream){.h = h, .fn = fn, .arg = arg, .next = h->streams};
	if (s->next)
		s->next->prev = s;
	h->streams = s;
	h->n_streams++;
	buf_init(&s->body, r->body.n);
	buf_add(&s->body, r->body.p, r->body.n);
	s->id = submit(s, r);
	if (s->id < 0) {
		int code = s->id;

		stream_free(s);
		return err_kind(e, ERR_AGAIN, -EAGAIN, "start a request: %s",
				nghttp2_strerror(code));
	}
	*ret = s;
	return 0;
}

void h2_cancel(struct h2_stream *s)
{
	s->fn = NULL;
	nghttp2_submit_rst_stream(s->h->session, NGHTTP2_FLAG_NONE, s->id, NGHTTP2_CANCEL);
}

static int failed(const struct h2 *h, int code, struct err *e)
{
	if (!h->ready)
		return err_kind(e, ERR_UNAVAILABLE, -EPROTO, "the server does not speak HTTP/2");
	return err_kind(e, ERR_AGAIN, -EPROTO, "HTTP/2: %s", nghttp2_strerror(code));
}

int h2_out(struct h2 *h, struct span *ret, struct err *e)
{
	const uint8_t *p = NULL;
	ssize_t n = nghttp2_session_mem_send(h->session, &p);

	if (n < 0)
		return failed(h, (int)n, e);
	*ret = (struct span){(const char *)p, (size_t)n};
	return 0;
}

int h2_in(struct h2 *h, struct span bytes, struct err *e)
{
	ssize_t n = nghttp2_session_mem_recv(h->session, (const uint8_t *)bytes.p, bytes.n);

	if (n < 0)
		return failed(h, (int)n, e);
	/* For protocol violations that nghttp2_session_mem_recv() does not return as an error,
	 * nghttp2 queues a GOAWAY and stops reading. */
	if (!nghttp2_session_want_read(h->session) && !h->draining)
		return failed(h, NGHTTP2_ERR_PROTO, e);
	return 0;
}

void h2_ping(struct h2 *h)
{
	nghttp2_submit_ping(h->session, NGHTTP2_FLAG_NONE, NULL);
}

void h2_fail(struct h2 *h, const struct err *reason)
{
	h->draining = true;
	while (h->streams) {
		struct h2_stream *s = h->streams;

		nghttp2_session_set_stream_user_data(h->session, s->id, NULL);
		end_stream(s, reason, false);
	}
}

bool h2_is_ready(const struct h2 *h)
{
	return h->ready;
}

bool h2_is_draining(const struct h2 *h)
{
	return h->draining;
}

size_t h2_streams(const struct h2 *h)
{
	return h->n_streams;
}

bool h2_name_is(const uint8_t *name, size_t n, const char *word)
{
	return span_eq((struct span){(const char *)name, n}, word);
}
