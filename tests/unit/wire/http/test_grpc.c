/* SPDX-License-Identifier: Apache-2.0 */
/* The client's codec with frames that servers send; the valid frames were recorded from grpc-go. */
#include "testlib.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/loop.h"
#include "wire/http/grpc.h"
#include "wire/http/grpc_status.h"

#define SETTINGS      "000006040000000000000500004000"
#define SETTINGS_ACK  "000000040100000000"
#define WINDOW_UPDATE "00000408000000000000000005"
#define PING	      "00000806000000000002041010090e0707"
#define PING_ACK      "00000806010000000002041010090e0707"
/* :status 200, content-type application/grpc */
#define HEAD "00000e010400000001885f8b1d75d0620d263d4c4d6564"
/* grpc-status 0, grpc-message "" */
#define TRAILERS "00001801050000000140889acac8b21234da8f013040899acac8b5254207317f00"
#define EMPTY	 "0000050000000000010000000000"
#define ABC	 "0000080000000000010000000003616263" /* the message "abc" */
#define GREETING SETTINGS SETTINGS_ACK WINDOW_UPDATE PING
#define RST	 "000004030000000001"
#define GOAWAY	 "000008070000000000"

/* Appends everything that the codec has to send. */
static void drain(struct grpc *g, struct buf *sent)
{
	struct span out;

	do {
		ASSERT_EQ(grpc_out(g, &out, NULL), 0);
		buf_add(sent, out.p, out.n);
	} while (out.n);
}

struct talk {
	struct buf sent, reply;
	struct err e;
	int r;
};

static void talk_done(struct talk *t)
{
	buf_done(&t->sent);
	buf_done(&t->reply);
}

static struct grpc *open_call(size_t max)
{
	const struct grpc_call c = {
		.method = "/v1.A/B", .request = span_of("hi"), .timeout_ms = 2500, .max = max};
	struct grpc *g;

	ASSERT_EQ(grpc_new(&g, &c, NULL), 0);
	return g;
}

/* Feeds the server's bytes in pieces of `step` bytes, then the end of the connection. */
static struct talk talk(const uint8_t *in, size_t n, size_t step, size_t max)
{
	auto_grpc struct grpc *g = open_call(max);
	struct talk t = {0};

	buf_init(&t.sent, 1 << 20);
	buf_init(&t.reply, 1);
	drain(g, &t.sent);
	for (size_t i = 0; i < n && !t.r && !grpc_is_done(g); i += step) {
		size_t len = n - i < step ? n - i : step;

		t.r = grpc_in(g, (struct span){(const char *)in + i, len}, &t.e);
		if (!t.r)
			drain(g, &t.sent);
	}
	if (!t.r)
		t.r = grpc_finish(g, &t.reply, &t.e);
	return t;
}

static struct talk talk_hex(const char *hex, size_t step)
{
	uint8_t in[4096];

	return talk(in, t_hex(hex, in, sizeof(in)), step, 100);
}

static bool holds(const struct buf *b, const char *hex)
{
	uint8_t want[256];
	size_t n = t_hex(hex, want, sizeof(want));

	return memmem(b->p, b->len, want, n) != NULL;
}

static void test_recorded_response_is_decoded_in_pieces_of_any_size(void **state)
{
	(void)state;
	for (size_t step = 1; step < 200; step += 7) {
		struct talk t = talk_hex(GREETING HEAD ABC TRAILERS, step);

		ASSERT_STR_EQ(t.e.text, "");
		ASSERT_EQ(t.r, 0);
		assert_true(span_eq(buf_span(&t.reply), "abc"));
		assert_memory_equal(t.sent.p, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
		assert_true(holds(&t.sent, PING_ACK));
		assert_true(holds(&t.sent, SETTINGS_ACK));
		/* DATA of stream 1 with END_STREAM: not compressed, 2 bytes, "hi" */
		assert_true(holds(&t.sent, "00000700010000000100000000026869"));
		talk_done(&t);
	}
}

static void test_empty_message_is_a_valid_response(void **state)
{
	struct talk t = talk_hex(GREETING HEAD EMPTY TRAILERS, 4096);

	(void)state;
	ASSERT_EQ(t.r, 0);
	ASSERT_EQ(t.reply.len, 0);
	talk_done(&t);
}

/* One message in two DATA frames; its length prefix is split as well. */
static void test_message_split_over_frames_is_joined(void **state)
{
	struct talk t = talk_hex(GREETING HEAD "000003000000000001000000"
					       "000005000000000001"
					       "0003616263" TRAILERS,
				 4096);

	(void)state;
	ASSERT_EQ(t.r, 0);
	assert_true(span_eq(buf_span(&t.reply), "abc"));
	talk_done(&t);
}

/* After the trailers a server may reset the stream, since its response is complete. */
static void test_reset_after_the_trailers_is_ignored(void **state)
{
	struct talk t = talk_hex(GREETING HEAD ABC TRAILERS RST "00000000", 1);

	(void)state;
	ASSERT_EQ(t.r, 0);
	talk_done(&t);
}

static void test_invalid_responses_are_errors(void **state)
{
	/* the last two rows: :status 404, content-type text/plain; :status 200, grpc-status 14,
	 * grpc-message "no %25a" */
	static const struct {
		const char *hex;
		int code;
		const char *text;
	} rows[] = {
		{"", -EPROTO,
		 "/v1.A/B: the peer is not a gRPC server, or closed the connection: it sent no HTTP/2 SETTINGS"},
		{"485454502f312e3120343030204261642052657175657374", -EPROTO,
		 "the peer is not a gRPC server, or closed the connection: it sent no HTTP/2 SETTINGS"},
		{GREETING, -ECONNRESET, "the connection was closed before the answer"},
		{GREETING HEAD ABC, -ECONNRESET, "the connection was closed before the answer"},
		{GREETING RST "00000002", -ECONNRESET, "the stream was reset: INTERNAL_ERROR"},
		{GREETING GOAWAY "0000000000000000", -ECONNRESET, "the stream was reset: REFUSED"},
		{GREETING HEAD TRAILERS, -EPROTO, "the answer is truncated"},
		{GREETING HEAD "000006000000000001000000000361" TRAILERS, -EPROTO,
		 "the answer is truncated"},
		{GREETING HEAD ABC ABC TRAILERS, -EPROTO, "more than one message"},
		{GREETING HEAD EMPTY EMPTY TRAILERS, -EPROTO, "more than one message"},
		{GREETING HEAD "0000080000000000010100000003616263" TRAILERS, -EPROTO,
		 "the answer is compressed"},
		{GREETING HEAD "0000050000000000010000000065", -EMSGSIZE,
		 "the answer has 101 bytes, the limit is 100"},
		{GREETING HEAD "00000500000000000100ffffffff", -EMSGSIZE,
		 "the answer has 4294967295 bytes"},
		{GREETING "00001a0105000000018d"
			  "000c636f6e74656e742d747970650a746578742f706c61696e",
		 -EPROTO,
		 "the peer is not a gRPC server: HTTP status 404, content-type 'text/plain'"},
		{GREETING "000034010500000001885f8b1d75d0620d263d4c4d6564"
			  "000b677270632d737461747573023134"
			  "000c677270632d6d657373616765076e6f20253235"
			  "61",
		 -EAGAIN, "/v1.A/B: UNAVAILABLE: no %a"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		for (size_t step = 1; step < 5000; step *= 70) {
			struct talk t = talk_hex(rows[i].hex, step);

			if (t.r != rows[i].code || !strstr(t.e.text, rows[i].text))
				fail_msg("row %zu: %d '%s', expected %d '%s'", i, t.r, t.e.text,
					 rows[i].code, rows[i].text);
			talk_done(&t);
		}
	}
}

/* Each bit of a valid response is flipped in turn: the call succeeds or fails with an error. */
static void test_response_with_changed_bytes_does_not_crash(void **state)
{
	uint8_t in[512];
	size_t n = t_hex(GREETING HEAD ABC TRAILERS, in, sizeof(in));

	(void)state;
	for (size_t i = 0; i < n; i++) {
		for (int k = 0; k < 8; k++) {
			in[i] ^= (uint8_t)(1 << k);
			struct talk t = talk(in, n, 64, 100);

			assert_true(t.r <= 0);
			assert_true(t.r == 0 || t.e.text[0]);
			talk_done(&t);
			in[i] ^= (uint8_t)(1 << k);
		}
	}
}

static void test_grpc_messages_are_percent_decoded(void **state)
{
	static const struct {
		const char *in, *out;
	} rows[] = {
		{"plain", "plain"},
		{"a%20b", "a b"},
		{"100%25", "100%"},
		{"%4", "%4"},
		{"%", "%"},
		{"%zz", "%zz"},
		{"a%0Ab%1b[0m", "a b [0m"},
		{"k%C3%BCbelet", "k\xc3\xbc"
				 "belet"},
		{"0123456789012345678", "012345678901234"},
	};
	char out[16];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		grpc_message_decode(span_of(rows[i].in), out, sizeof(out));
		ASSERT_STR_EQ_MSG(out, rows[i].out, "rows[%zu]", i);
	}
}

static void test_grpc_statuses_become_error_codes(void **state)
{
	struct err e = ERR_INIT;

	(void)state;
	ASSERT_EQ(grpc_status_err(12, "/m", "", &e), -EOPNOTSUPP);
	ASSERT_STR_EQ(e.text, "/m: UNIMPLEMENTED");
	ASSERT_EQ(e.kind, ERR_UNAVAILABLE);
	ASSERT_EQ(grpc_status_err(99, "/m", "odd", &e), -EREMOTEIO);
	ASSERT_STR_EQ(e.text, "/m: gRPC status 99: odd");
	assert_true(grpc_type_ok("application/grpc"));
	assert_true(grpc_type_ok("application/grpc+proto"));
	assert_false(grpc_type_ok("application/grpc-web"));
	assert_false(grpc_type_ok("text/html"));
	assert_false(grpc_type_ok(""));
}

/* --- an asynchronous call: grpc_start() --- */

struct after {
	struct loop *loop;
	int pipe[2];
};

static void on_done(void *arg, struct span reply, const struct err *e)
{
	struct after *a = arg;

	(void)reply;
	assert_non_null(e);
	ASSERT_EQ(pipe2(a->pipe, O_CLOEXEC), 0);
	loop_stop(a->loop, 0);
}

/* The call's descriptor is closed only once: a second close() would close the descriptor with the
 * same number that `done` opened. */
static void test_descriptor_opened_by_the_done_callback_stays_open(void **state)
{
	char dir[T_DIR_MAX];
	struct root root;
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct after a = {.pipe = {-1, -1}};
	struct grpc_async *call = NULL;

	(void)state;
	t_dir_make(dir, &root);
	snprintf(at.sun_path, sizeof(at.sun_path), "%s/s", dir);
	ASSERT_EQ(bind(listener, (const struct sockaddr *)&at, sizeof(at)), 0);
	ASSERT_EQ(listen(listener, 1), 0);
	ASSERT_EQ(loop_new(&a.loop, NULL), 0);
	ASSERT_EQ(grpc_start(a.loop,
			     &(struct grpc_call){.socket = at.sun_path,
						 .method = "/a.B/C",
						 .timeout_ms = 60000},
			     on_done, &a, &call, NULL),
		  0);
	close(accept(listener, NULL, NULL));
	loop_run(a.loop);
	for (int i = 0; i < 2; i++) {
		assert_true(fcntl(a.pipe[i], F_GETFD) >= 0);
		close(a.pipe[i]);
	}
	loop_free(a.loop);
	close(listener);
	t_dir_remove(dir, &root);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_recorded_response_is_decoded_in_pieces_of_any_size),
		cmocka_unit_test(test_empty_message_is_a_valid_response),
		cmocka_unit_test(test_message_split_over_frames_is_joined),
		cmocka_unit_test(test_reset_after_the_trailers_is_ignored),
		cmocka_unit_test(test_invalid_responses_are_errors),
		cmocka_unit_test(test_response_with_changed_bytes_does_not_crash),
		cmocka_unit_test(test_grpc_messages_are_percent_decoded),
		cmocka_unit_test(test_grpc_statuses_become_error_codes),
		cmocka_unit_test(test_descriptor_opened_by_the_done_callback_stays_open),
	};

	return T_RUN(tests, NULL, NULL);
}
