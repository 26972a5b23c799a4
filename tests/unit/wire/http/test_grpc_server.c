/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's codec with the bytes that grpc-go's client sends, and with those of hostile peers.
 */
#include "testlib.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "wire/http/grpc.h"
#include "wire/http/grpc_server.h"

#define PREFACE	 "505249202a20485454502f322e300d0a0d0a534d0d0a0d0a"
#define SETTINGS "000000040000000000"
#define ACK	 "000000040100000000"
/* GetDevicePluginOptions, and its empty message */
#define OPTIONS                                                                                    \
	"000050010400000001838645a063b8632a4615ef97b9885d745b31aa6311537cbdcc42eba2d98d56aad263d4" \
	"8f4186a0e41d139d095f8b1d75d0620d263d4c4d65647a8a9acac8b4c7602bb8d2e040027465864d833505b1" \
	"1f"
#define OPTIONS_END "0000050001000000010000000000"
/* ListAndWatch with a grpc-timeout; its headers refer to entries that OPTIONS added to the
 * dynamic table */
#define LIST                                                                                       \
	"00003401040000000383864599"                                                               \
	"63b8632a4615ef97b9885d745b31aa633990986a9390d249ffc2c1c0bf40899acac8b24d494f6a7f876df7df" \
	"7df719b7"
#define LIST_END     "0000050001000000030000000000"
#define ALLOCATE     "00001e0104000000058386459663b8632a4615ef97b9885d745b31aa621a28390692ffc4c3c2c1"
#define ALLOCATE_END "00000a00010000000500000000050a030a0130"
#define CANCEL_LIST  "00000403000000000300000008"

/* :status 200, content-type application/grpc */
#define HEAD_1 "00000e010400000001885f8b1d75d0620d263d4c4d6564"

struct seen {
	struct grpc_in *list;
	struct buf request;
	int calls, closed;
	bool later;
};

static void on_options(void *arg, struct grpc_in *c, struct span request)
{
	struct seen *s = arg;

	s->calls++;
	ASSERT_EQ(request.n, 0);
	grpc_in_reply(c, (struct span){NULL, 0});
}

static void on_list(void *arg, struct grpc_in *c, struct span request)
{
	struct seen *s = arg;

	s->calls++;
	ASSERT_EQ(request.n, 0);
	s->list = c;
	if (!s->later)
		ASSERT_EQ(grpc_in_send(c, span_of("first")), 0);
}

static void on_list_closed(void *arg, struct grpc_in *c)
{
	struct seen *s = arg;

	assert_ptr_equal(s->list, c);
	s->list = NULL;
	s->closed++;
}

static void on_allocate(void *arg, struct grpc_in *c, struct span request)
{
	struct seen *s = arg;

	s->calls++;
	buf_add(&s->request, request.p, request.n);
	grpc_in_fail(c, GRPC_UNKNOWN, "no 100%\n");
}

static const struct grpc_method methods[] = {
	{"/v1beta1.DevicePlugin/GetDevicePluginOptions", 0, on_options, NULL},
	{"/v1beta1.DevicePlugin/ListAndWatch", 0, on_list, on_list_closed},
	{"/v1beta1.DevicePlugin/Allocate", 100, on_allocate, NULL},
	{0},
};

struct lab {
	struct grpc_session *s;
	struct seen seen;
	struct buf out;
	struct err e;
	int r;
	int64_t now;
};

static int open_lab(void **state)
{
	struct lab *l = xcalloc(1, sizeof(*l));

	buf_init(&l->out, 8 << 20);
	buf_init(&l->seen.request, 1 << 20);
	l->now = 1000;
	ASSERT_EQ(grpc_session_new(&l->s, methods, &l->seen, 10000, &l->e), 0);
	*state = l;
	return 0;
}

static int close_lab(void **state)
{
	struct lab *l = *state;

	grpc_session_free(l->s);
	buf_done(&l->out);
	buf_done(&l->seen.request);
	free(l);
	return 0;
}

static void drain(struct lab *l)
{
	struct span out;

	do {
		ASSERT_EQ(grpc_session_out(l->s, &out, NULL), 0);
		buf_add(&l->out, out.p, out.n);
	} while (out.n);
}

static void feed(struct lab *l, const void *p, size_t n, size_t step)
{
	const char *in = p;

	for (size_t i = 0; i < n && !l->r; i += step) {
		size_t len = n - i < step ? n - i : step;

		l->r = grpc_session_in(l->s, (struct span){in + i, len}, l->now, &l->e);
		drain(l);
	}
}

static void feed_hex(struct lab *l, const char *hex, size_t step)
{
	uint8_t in[4096];

	feed(l, in, t_hex(hex, in, sizeof(in)), step);
}

static bool holds(const struct lab *l, const char *hex)
{
	uint8_t want[512];
	size_t n = t_hex(hex, want, sizeof(want));

	return memmem(l->out.p, l->out.len, want, n) != NULL;
}

static void test_settings_frame_is_sent_first(void **state)
{
	struct lab *l = *state;

	drain(l);
	assert_true(l->out.len > 9);
	ASSERT_EQ(l->out.p[3], 4); /* SETTINGS */
}

static void test_unary_call_is_answered_in_pieces_of_any_size(void **state)
{
	for (size_t step = 1; step < 300; step += 23) {
		struct lab *l;

		close_lab(state);
		open_lab(state);
		l = *state;
		feed_hex(l, PREFACE SETTINGS ACK OPTIONS OPTIONS_END, step);
		ASSERT_EQ(l->r, 0);
		ASSERT_EQ(l->seen.calls, 1);
		assert_true(holds(l, HEAD_1));
		assert_true(holds(l, "0000050000000000010000000000"));
		/* the name grpc-status, in the encoding that grpc-go uses too */
		assert_true(holds(l, "40889acac8b21234da8f"));
		ASSERT_EQ(grpc_session_calls(l->s), 0);
	}
}

/*
 * The kubelet of Kubernetes 1.20 (grpc-go 1.27) sends a path as authority, although HTTP permits no
 * '/' there.
 */
static void test_authority_may_be_the_path_of_the_socket(void **state)
{
	static const char head[] = "\x00\x00\x54\x01\x04\x00\x00\x00\x01\x83\x86"
				   "\x04\x2c/v1beta1.DevicePlugin/GetDevicePluginOptions"
				   "\x01\x0f/var/lib/x.sock"
				   "\x0f\x10\x10"
				   "application/grpc";
	struct lab *l = *state;

	feed_hex(l, PREFACE SETTINGS ACK, 100);
	feed(l, head, sizeof(head) - 1, 100);
	feed_hex(l, OPTIONS_END, 100);
	ASSERT_EQ(l->r, 0);
	ASSERT_EQ(l->seen.calls, 1);
	assert_true(holds(l, HEAD_1));
}

static void test_request_with_two_paths_is_refused(void **state)
{
	static const char head[] = "\x00\x00\x48\x01\x04\x00\x00\x00\x01\x83\x86"
				   "\x04\x2c/v1beta1.DevicePlugin/GetDevicePluginOptions"
				   "\x04\x03/no"
				   "\x0f\x10\x10"
				   "application/grpc";
	struct lab *l = *state;

	feed_hex(l, PREFACE SETTINGS ACK, 100);
	feed(l, head, sizeof(head) - 1, 100);
	feed_hex(l, OPTIONS_END, 100);
	ASSERT_EQ(l->seen.calls, 0);
	ASSERT_EQ(grpc_session_calls(l->s), 0);
}

static void test_three_calls_share_one_connection(void **state)
{
	struct lab *l = *state;

	feed_hex(l, PREFACE SETTINGS ACK OPTIONS OPTIONS_END LIST LIST_END ALLOCATE ALLOCATE_END,
		 7);
	ASSERT_STR_EQ(l->e.text, "");
	ASSERT_EQ(l->seen.calls, 3);
	assert_true(holds(l, "00000a0000000000030000000005"
			     "6669727374"));
	ASSERT_EQ(l->seen.request.len, 5);
	assert_memory_equal(l->seen.request.p, "\x0a\x03\x0a\x01\x30", 5);
	ASSERT_EQ(grpc_session_calls(l->s), 1);
	ASSERT_EQ(grpc_in_send(l->seen.list, span_of("second")), 0);
	drain(l);
	assert_true(holds(l, "00000b00000000000300000000067365636f6e64"));
	feed_hex(l, CANCEL_LIST, 1);
	ASSERT_EQ(l->seen.closed, 1);
	ASSERT_EQ(grpc_session_calls(l->s), 0);
}

/* If the client does not read, only the newest of several pending messages is sent. */
static void test_newer_message_replaces_the_pending_message(void **state)
{
	struct lab *l = *state;

	l->seen.later = true;
	feed_hex(l, PREFACE SETTINGS ACK OPTIONS OPTIONS_END LIST LIST_END, 4096);
	l->out.len = 0;
	for (int i = 0; i < 1000; i++)
		grpc_in_send(l->seen.list, span_of(i < 999 ? "old" : "new"));
	drain(l);
	assert_false(holds(l, "6f6c64"));
	assert_true(holds(l, "00000000036e6577"));
}

/* The client's window is 65535 bytes; the server sends the rest of a long list after the client's
 * WINDOW_UPDATEs. */
static void test_long_message_waits_for_window_updates(void **state)
{
	struct lab *l = *state;
	auto_free char *big = xcalloc(1, 168890);

	l->seen.later = true;
	feed_hex(l, PREFACE SETTINGS ACK OPTIONS OPTIONS_END LIST LIST_END, 4096);
	l->out.len = 0;
	grpc_in_send(l->seen.list, (struct span){big, 168890});
	drain(l);
	assert_true(l->out.len > 65530 - 5 && l->out.len < 65535 + 200);
	feed_hex(l, "00000408000000000000100000", 4096); /* connection */
	feed_hex(l, "000004080000000003000293ba", 4096); /* stream, +168890 */
	assert_true(l->out.len > 168890);
	/*
	 * SETTINGS in the middle of a session change the windows of open streams; PING is answered.
	 */
	feed_hex(l,
		 "00000604000000000000040001fffe"
		 "00000806000000000002041010090e0707",
		 3);
	assert_true(holds(l, "00000806010000000002041010090e0707"));
	ASSERT_EQ(l->r, 0);
}

static void test_call_ends_at_the_deadline_of_the_client(void **state)
{
	struct lab *l = *state;

	feed_hex(l, PREFACE SETTINGS ACK OPTIONS OPTIONS_END LIST LIST_END, 4096);
	assert_true(grpc_session_deadline(l->s) > 1000);
	assert_true(grpc_session_deadline(l->s) < 1000 + 24 * 3600 * 1000);
	grpc_session_expire(l->s, grpc_session_deadline(l->s) - 1);
	ASSERT_EQ(l->seen.closed, 0);
	grpc_session_expire(l->s, grpc_session_deadline(l->s));
	ASSERT_EQ(l->seen.closed, 1);
	drain(l);
	ASSERT_EQ(grpc_session_calls(l->s), 0);
}

/* The client sends an incomplete request and then nothing. */
static void test_incomplete_request_expires(void **state)
{
	struct lab *l = *state;

	feed_hex(l, PREFACE SETTINGS ACK OPTIONS, 4096);
	ASSERT_EQ(grpc_session_calls(l->s), 1);
	ASSERT_EQ(grpc_session_deadline(l->s), 11000);
	grpc_session_expire(l->s, 11000);
	drain(l);
	ASSERT_EQ(l->seen.calls, 0);
	ASSERT_EQ(grpc_session_calls(l->s), 0);
	assert_true(holds(l, "0134")); /* grpc-status 4 */
}

/* --- with unirail's own client --- */

static int call(const struct grpc_method *m, void *arg, const char *method, struct span request,
		struct err *e)
{
	const struct grpc_call how = {
		.method = method, .request = request, .timeout_ms = 1000, .max = 100};
	auto_grpc struct grpc *client = NULL;
	auto_buf struct buf reply;
	struct grpc_session *s;
	struct span out = {0};
	bool moved = true;
	int r;

	buf_init(&reply, 1);
	ASSERT_EQ(grpc_session_new(&s, m, arg, 1000, e), 0);
	ASSERT_EQ(grpc_new(&client, &how, e), 0);
	while (moved && !grpc_is_done(client)) {
		moved = false;
		ASSERT_EQ(grpc_out(client, &out, e), 0);
		moved |= out.n > 0;
		if (out.n)
			ASSERT_EQ(grpc_session_in(s, out, 1, e), 0);
		ASSERT_EQ(grpc_session_out(s, &out, e), 0);
		moved |= out.n > 0;
		if (out.n)
			ASSERT_EQ(grpc_in(client, out, e), 0);
	}
	r = grpc_finish(client, &reply, e);
	grpc_session_free(s);
	return r;
}

static void test_statuses_reach_the_client(void **state)
{
	auto_free char *big = xcalloc(1, 2 << 20);
	struct err e = ERR_INIT;
	struct lab *l = *state;

	ASSERT_EQ(call(methods, &l->seen, methods[0].path, span_of(""), &e), 0);
	ASSERT_EQ(call(methods, &l->seen, "/v1.A/B", span_of(""), &e), -EOPNOTSUPP);
	ASSERT_STR_EQ(e.text, "/v1.A/B: UNIMPLEMENTED: unknown method /v1.A/B");
	err_clear(&e);
	call(methods, &l->seen, methods[2].path, span_of("x"), &e);
	ASSERT_STR_EQ(e.text, "/v1beta1.DevicePlugin/Allocate: UNKNOWN: no 100% ");
	err_clear(&e);
	call(methods, &l->seen, methods[2].path, (struct span){big, 101}, &e);
	assert_non_null(
		strstr(e.text, "RESOURCE_EXHAUSTED: the request has 101 bytes, the limit is 100"));
	err_clear(&e);
	/* The server refuses the request before it has received all of its two megabytes. */
	call(methods, &l->seen, methods[2].path, (struct span){big, 2 << 20}, &e);
	assert_non_null(strstr(e.text, "RESOURCE_EXHAUSTED: the request has 2097152 bytes"));
}

/* --- hostile peers --- */

static void test_peer_without_http2_is_refused(void **state)
{
	struct lab *l = *state;

	feed(l, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27, 27);
	ASSERT_EQ(l->r, -EPROTO);
	assert_non_null(strstr(l->e.text, "the peer does not speak gRPC"));
}

static void flood(struct lab *l, const char *frame, int n)
{
	uint8_t in[64];
	size_t len = t_hex(frame, in, sizeof(in));

	for (int i = 0; i < n && !l->r && !grpc_session_is_done(l->s); i++) {
		feed(l, in, len, len);
		l->out.len = 0;
	}
}

static void test_floods_of_frames_end_the_connection(void **state)
{
	static const char *const frames[] = {
		"0000080600000000000000000000000000", /* PING */
		"000000040000000000",		      /* SETTINGS */
		"0000000000000000" /* DATA */ "01",
		"00000408000000000000000001",	/* WINDOW_UPDATE */
		"0000050200000000030000000010", /* PRIORITY */
		"0000000a0000000000",		/* ALTSVC */
		"000001bb000000000000",		/* an unknown frame type */
		"000000ff0000000001",
	};

	for (size_t i = 0; i < ARRAY_LEN(frames); i++) {
		struct lab *l;

		close_lab(state);
		open_lab(state);
		l = *state;
		feed_hex(l, PREFACE SETTINGS OPTIONS, 4096);
		flood(l, frames[i], 100000);
		if (!l->r && !grpc_session_is_done(l->s))
			fail_msg("row %zu: the connection was not closed", i);
	}
}

/* The PING and WINDOW_UPDATE frames that grpc-go sends with each call never exceed the server's
 * limit. */
static void test_20000_calls_of_a_client_are_no_flood(void **state)
{
	struct lab *l = *state;
	uint8_t in[256];
	size_t n;

	feed_hex(l, PREFACE SETTINGS, 4096);
	n = t_hex(OPTIONS OPTIONS_END "0000080600000000000000000000000000"
				      "00000408000000000000000005",
		  in, sizeof(in));
	for (uint32_t i = 0; i < 20000; i++) {
		uint32_t id = 2 * i + 1;

		for (int k = 0; k < 4; k++) {
			in[5 + k] = (uint8_t)(id >> (24 - 8 * k));
			in[9 + 0x50 + 5 + k] = (uint8_t)(id >> (24 - 8 * k));
		}
		/* the same literals each time: they refer to no entry of the dynamic table */
		feed(l, in, n, n);
		l->out.len = 0;
		ASSERT_EQ(l->r, 0);
		assert_false(grpc_session_is_done(l->s));
	}
	ASSERT_EQ(l->seen.calls, 20000);
	ASSERT_EQ(grpc_session_calls(l->s), 0);
}

static void test_rapid_resets_end_the_connection(void **state)
{
	struct lab *l = *state;
	uint8_t head[256], reset[16];
	size_t n = t_hex(OPTIONS, head, sizeof(head));

	t_hex("00000403000000000100000008", reset, sizeof(reset));
	feed_hex(l, PREFACE SETTINGS, 4096);
	for (uint32_t i = 0; i < 100000 && !l->r && !grpc_session_is_done(l->s); i++) {
		uint32_t id = 2 * i + 1;

		for (int k = 0; k < 4; k++)
			head[5 + k] = reset[5 + k] = (uint8_t)(id >> (24 - 8 * k));
		feed(l, head, n, n);
		feed(l, reset, 13, 13);
		l->out.len = 0;
		assert_true(grpc_session_calls(l->s) <= GRPC_STREAMS_MAX);
	}
	assert_true(l->r || grpc_session_is_done(l->s));
}

static void test_number_of_open_streams_is_limited(void **state)
{
	struct lab *l = *state;
	uint8_t head[256];
	size_t n = t_hex(OPTIONS, head, sizeof(head));

	feed_hex(l, PREFACE SETTINGS ACK, 4096);
	for (uint32_t i = 0; i < 500; i++) {
		head[7] = (uint8_t)((2 * i + 1) >> 8);
		head[8] = (uint8_t)(2 * i + 1);
		feed(l, head, n, n);
		assert_true(grpc_session_calls(l->s) <= GRPC_STREAMS_MAX);
	}
	ASSERT_EQ(grpc_session_calls(l->s), GRPC_STREAMS_MAX);
}

/* 12,000 bytes refer to one field of the dynamic table: each of them expands to 3,000 bytes. */
static void test_expanding_headers_end_the_connection(void **state)
{
	struct lab *l = *state;
	auto_buf struct buf b;
	uint8_t head[512];
	size_t n = t_hex(OPTIONS, head, sizeof(head));

	(void)n;
	buf_init(&b, 64 << 10);
	feed_hex(l, PREFACE SETTINGS, 4096);
	/*
	 * HEADERS with END_HEADERS: a literal with indexing, name "x", value of 3000 bytes; then
	 * 12000 references to this field
	 */
	size_t len = 2 + 1 + 3 + 3000 + 12000;

	buf_char(&b, (char)(len >> 16));
	buf_char(&b, (char)(len >> 8));
	buf_char(&b, (char)len);
	buf_add(&b, "\x01\x04\x00\x00\x00\x01\x40\x01x\x7f\xb9\x16", 12);
	for (int i = 0; i < 3000; i++)
		buf_char(&b, 'y');
	for (int i = 0; i < 12000; i++)
		buf_char(&b, (char)0xbe);
	feed(l, b.p, b.len, b.len);
	assert_true(l->r < 0 || grpc_session_is_done(l->s));
	ASSERT_EQ(l->seen.calls, 0);
}

/* Each bit of a valid session is flipped in turn: the session continues or fails with an error. */
static void test_session_with_changed_bytes_does_not_crash(void **state)
{
	uint8_t in[1024];
	size_t n = t_hex(PREFACE SETTINGS ACK OPTIONS OPTIONS_END LIST LIST_END ALLOCATE
				 ALLOCATE_END CANCEL_LIST,
			 in, sizeof(in));

	for (size_t i = 0; i < n; i++) {
		for (int k = 0; k < 8; k++) {
			struct lab *l;

			close_lab(state);
			open_lab(state);
			l = *state;
			in[i] ^= (uint8_t)(1 << k);
			feed(l, in, n, 64);
			in[i] ^= (uint8_t)(1 << k);
			assert_true(l->r <= 0);
			assert_true(l->r == 0 || l->e.text[0]);
		}
	}
}

#define T(f) cmocka_unit_test_setup_teardown(f, open_lab, close_lab)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_settings_frame_is_sent_first),
		T(test_unary_call_is_answered_in_pieces_of_any_size),
		T(test_authority_may_be_the_path_of_the_socket),
		T(test_request_with_two_paths_is_refused),
		T(test_three_calls_share_one_connection),
		T(test_newer_message_replaces_the_pending_message),
		T(test_long_message_waits_for_window_updates),
		T(test_call_ends_at_the_deadline_of_the_client),
		T(test_incomplete_request_expires),
		T(test_statuses_reach_the_client),
		T(test_peer_without_http2_is_refused),
		T(test_floods_of_frames_end_the_connection),
		T(test_20000_calls_of_a_client_are_no_flood),
		T(test_rapid_resets_end_the_connection),
		T(test_number_of_open_streams_is_limited),
		T(test_expanding_headers_end_the_connection),
		T(test_session_with_changed_bytes_does_not_crash),
	};

	return T_RUN(tests, NULL, NULL);
}
