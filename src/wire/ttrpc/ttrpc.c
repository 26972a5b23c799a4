/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/ttrpc/ttrpc.h"

#include <errno.h>
#include <pb_decode.h>
#include <pb_encode.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ttrpc.pb.h"

enum {
	FRAME_HEAD = 8,
	MESSAGE_HEAD = 10,
	/* Numbers of connections in the header of a frame. */
	TO_PLUGIN = 1,
	TO_RUNTIME = 2,
	/* Types of a message. */
	REQUEST = 1,
	RESPONSE = 2,
	/* gRPC's status codes. */
	STATUS_INVALID_ARGUMENT = 3,
	STATUS_UNIMPLEMENTED = 12,
	STATUS_INTERNAL = 13,
	/* Maximum size of a message's envelope without the payload, in bytes. */
	ENVELOPE_MAX = 2048,
	/* Maximum capacity of a buffer, in bytes, that is retained between messages. */
	KEEP = 16 << 10,
	/* Maximum number of bytes of a frame that are processed in one step. */
	STEP = 64 << 10,
};

struct ttrpc {
	const struct ttrpc_ops *ops;
	void *arg;
	unsigned char head[FRAME_HEAD];
	size_t head_n;
	uint32_t frame_left; /* bytes of the current frame not received yet */
	/* incomplete messages by connection: requests to this plugin, answers to its requests */
	struct buf streams[2];
	struct buf out;
	uint32_t next;
};

static uint32_t get32(const void *p)
{
	const unsigned char *b = p;

	return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static void put32(struct buf *b, uint32_t v)
{
	const unsigned char bytes[4] = {(unsigned char)(v >> 24), (unsigned char)(v >> 16),
					(unsigned char)(v >> 8), (unsigned char)v};

	buf_add(b, bytes, sizeof(bytes));
}

struct ttrpc *ttrpc_new(const struct ttrpc_ops *ops, void *arg)
{
	struct ttrpc *t = xcalloc(1, sizeof(*t));

	*t = (struct ttrpc){.ops = ops, .arg = arg, .next = 1};
	for (size_t i = 0; i < ARRAY_LEN(t->streams); i++)
		buf_init(&t->streams[i], MESSAGE_HEAD + TTRPC_MESSAGE_MAX + STEP);
	buf_init(&t->out, 4 * TTRPC_MESSAGE_MAX);
	return t;
}

void ttrpc_free(struct ttrpc *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < ARRAY_LEN(t->streams); i++)
		buf_done(&t->streams[i]);
	buf_done(&t->out);
	free(t);
}

/* Queues one message in one frame. */
static void put_message(struct ttrpc *t, uint32_t connection, uint32_t stream, int type,
			struct span payload)
{
	put32(&t->out, connection);
	put32(&t->out, (uint32_t)(MESSAGE_HEAD + payload.n));
	put32(&t->out, (uint32_t)payload.n);
	put32(&t->out, stream);
	buf_char(&t->out, (char)type);
	buf_char(&t->out, 0);
	buf_add(&t->out, payload.p, payload.n);
}

/* Returns a copy of the bytes in nanopb's form; the caller frees the copy. */
static pb_bytes_array_t *bytes_of(struct span s)
{
	pb_bytes_array_t *ret = xmalloc(PB_BYTES_ARRAY_T_ALLOCSIZE(s.n));

	ret->size = (pb_size_t)s.n;
	if (s.n)
		memcpy(ret->bytes, s.p, s.n);
	return ret;
}

static void put_envelope(struct ttrpc *t, uint32_t connection, uint32_t stream, int type,
			 const pb_msgdesc_t *fields, const void *envelope, size_t payload)
{
	size_t room = payload + ENVELOPE_MAX;
	auto_free pb_byte_t *text = xmalloc(room);
	pb_ostream_t s = pb_ostream_from_buffer(text, room);

	if (pb_encode(&s, fields, envelope))
		put_message(t, connection, stream, type,
			    (struct span){(const char *)text, s.bytes_written});
}

uint32_t ttrpc_call(struct ttrpc *t, const char *service, const char *method, struct span message)
{
	char names[2][256];
	ttrpc_Request m = {.service = names[0], .method = names[1]};
	uint32_t stream = t->next;
	auto_free pb_bytes_array_t *payload = bytes_of(message);

	t->next += 2;
	str_copy(names[0], sizeof(names[0]), service);
	str_copy(names[1], sizeof(names[1]), method);
	m.payload = payload;
	put_envelope(t, TO_RUNTIME, stream, REQUEST, ttrpc_Request_fields, &m, message.n);
	return stream;
}

static int status_of(int r)
{
	return r == -EOPNOTSUPP ? STATUS_UNIMPLEMENTED
	       : r == -EINVAL	? STATUS_INVALID_ARGUMENT
				: STATUS_INTERNAL;
}

static void serve(struct ttrpc *t, uint32_t stream, const ttrpc_Request *request)
{
	struct span message = {0};
	struct err e = ERR_INIT;
	ttrpc_Response m = {.has_status = true};
	auto_free pb_bytes_array_t *payload = NULL;
	auto_buf struct buf reply;
	int r;

	if (request->payload)
		message = (struct span){(const char *)request->payload->bytes,
					request->payload->size};
	buf_init(&reply, TTRPC_MESSAGE_MAX - ENVELOPE_MAX);
	r = t->ops->request(t->arg, request->service ? request->service : "",
			    request->method ? request->method : "", message, &reply, &e);
	if (r == 0 && reply.over)
		r = err_set(&e, -EMSGSIZE, "the answer is larger than %d bytes",
			    TTRPC_MESSAGE_MAX - ENVELOPE_MAX);
	if (r < 0) {
		buf_reset(&reply);
		m.status.code = status_of(r);
		m.status.message = e.text;
	} else {
		m.payload = payload = bytes_of(buf_span(&reply));
	}
	put_envelope(t, TO_PLUGIN, stream, RESPONSE, ttrpc_Response_fields, &m, reply.len);
}

static int take_request(struct ttrpc *t, uint32_t stream, struct span payload, struct err *e)
{
	ttrpc_Request m = ttrpc_Request_init_zero;
	pb_istream_t s = pb_istream_from_buffer((const pb_byte_t *)payload.p, payload.n);

	if (!pb_decode(&s, ttrpc_Request_fields, &m))
		return err_set(e, -EPROTO, "decode a ttrpc request: invalid message of %zu bytes",
			       payload.n);
	serve(t, stream, &m);
	pb_release(ttrpc_Request_fields, &m);
	return 0;
}

static int take_response(struct ttrpc *t, uint32_t stream, struct span payload, struct err *e)
{
	ttrpc_Response m = ttrpc_Response_init_zero;
	pb_istream_t s = pb_istream_from_buffer((const pb_byte_t *)payload.p, payload.n);
	struct span message = {0};

	if (!pb_decode(&s, ttrpc_Response_fields, &m))
		return err_set(e, -EPROTO, "decode a ttrpc response: invalid message of %zu bytes",
			       payload.n);
	if (m.payload)
		message = (struct span){(const char *)m.payload->bytes, m.payload->size};
	t->ops->response(t->arg, stream, m.has_status ? m.status.code : 0, message,
			 m.has_status && m.status.message ? m.status.message : "");
	pb_release(ttrpc_Response_fields, &m);
	return 0;
}

/* Consumes complete messages from the front of a connection's bytes. */
static int take_messages(struct ttrpc *t, int which, struct err *e)
{
	struct buf *b = &t->streams[which];
	size_t at = 0;
	int r = 0;

	while (r == 0 && b->len - at >= MESSAGE_HEAD) {
		const char *head = b->p + at;
		uint32_t n = get32(head), stream = get32(head + 4);
		struct span payload = {head + MESSAGE_HEAD, n};

		if (n > TTRPC_MESSAGE_MAX)
			return err_set(e, -EMSGSIZE, "a ttrpc message of %u bytes, the limit is %d",
				       n, TTRPC_MESSAGE_MAX);
		if (b->len - at - MESSAGE_HEAD < n)
			break;
		if (which == 0 && head[8] == REQUEST)
			r = take_request(t, stream, payload, e);
		else if (which == 1 && head[8] == RESPONSE)
			r = take_response(t, stream, payload, e);
		at += MESSAGE_HEAD + n;
	}
	if (at) {
		memmove(b->p, b->p + at, b->len - at);
		b->len -= at;
		b->p[b->len] = '\0';
	}
	if (b->len == 0)
		buf_trim(b, KEEP);
	return r;
}

static struct span cut(struct span *bytes, size_t n)
{
	struct span ret = {bytes->p, n < bytes->n ? n : bytes->n};

	bytes->p += ret.n;
	bytes->n -= ret.n;
	return ret;
}

int ttrpc_in(struct ttrpc *t, struct span bytes, struct err *e)
{
	while (bytes.n > 0 || (t->head_n == FRAME_HEAD && t->frame_left == 0)) {
		struct span part;
		uint32_t connection;
		int r = 0;

		if (t->head_n < FRAME_HEAD) {
			part = cut(&bytes, FRAME_HEAD - t->head_n);
			memcpy(t->head + t->head_n, part.p, part.n);
			t->head_n += part.n;
			if (t->head_n == FRAME_HEAD)
				t->frame_left = get32(t->head + 4);
			continue;
		}
		part = cut(&bytes, t->frame_left < STEP ? t->frame_left : STEP);
		t->frame_left -= (uint32_t)part.n;
		connection = get32(t->head);
		if (t->frame_left == 0)
			t->head_n = 0;
		if (connection == TO_PLUGIN || connection == TO_RUNTIME) {
			int which = connection == TO_RUNTIME;

			buf_add(&t->streams[which], part.p, part.n);
			r = take_messages(t, which, e);
		}
		if (r < 0)
			return r;
	}
	if (t->out.over)
		return err_set(e, -EMSGSIZE,
			       "the peer does not read the answers to its ttrpc requests");
	return 0;
}

struct span ttrpc_out(const struct ttrpc *t)
{
	return buf_span(&t->out);
}

void ttrpc_sent(struct ttrpc *t, size_t n)
{
	if (n == 0)
		return;
	memmove(t->out.p, t->out.p + n, t->out.len - n);
	t->out.len -= n;
	if (t->out.len == 0)
		buf_trim(&t->out, KEEP);
	else
		t->out.p[t->out.len] = '\0';
}
