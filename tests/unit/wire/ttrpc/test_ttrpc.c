/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "wire/ttrpc/ttrpc.h"

/* The request "svc"/"Do" with message "hi", on stream 1 of connection 1. */
static const char request[] = "\x00\x00\x00\x01\x00\x00\x00\x17"
			      "\x00\x00\x00\x0d\x00\x00\x00\x01\x01\x00"
			      "\x0a\x03svc\x12\x02"
			      "Do\x1a\x02hi";
enum { REQUEST_SIZE = sizeof(request) - 1 };

struct seen {
	char service[32], method[32], message[32], text[64];
	int requests, responses, status, fail;
	uint32_t stream;
};

static int on_request(void *arg, const char *service, const char *method, struct span message,
		      struct buf *reply, struct err *e)
{
	struct seen *s = arg;

	s->requests++;
	str_copy(s->service, sizeof(s->service), service);
	str_copy(s->method, sizeof(s->method), method);
	memcpy(s->message, message.p, message.n);
	if (s->fail)
		return err_set(e, s->fail, "no");
	buf_str(reply, "yes");
	return 0;
}

static void on_response(void *arg, uint32_t stream, int status, struct span message,
			const char *text)
{
	struct seen *s = arg;

	s->responses++;
	s->stream = stream;
	s->status = status;
	if (message.n)
		memcpy(s->message, message.p, message.n);
	str_copy(s->text, sizeof(s->text), text);
}

static const struct ttrpc_ops ops = {on_request, on_response};

static void assert_out(const struct ttrpc *t, const char *want, size_t n)
{
	struct span out = ttrpc_out(t);

	ASSERT_EQ(out.n, n);
	assert_memory_equal(out.p, want, n);
}

static void test_request_divided_at_any_byte_is_answered(void **state)
{
	static const char answer[] = "\x00\x00\x00\x01\x00\x00\x00\x11"
				     "\x00\x00\x00\x07\x00\x00\x00\x01\x02\x00"
				     "\x0a\x00\x12\x03yes";

	(void)state;
	for (size_t step = 1; step <= REQUEST_SIZE; step++) {
		struct seen seen = {0};
		struct ttrpc *t = ttrpc_new(&ops, &seen);
		struct err e = ERR_INIT;

		for (size_t at = 0; at < REQUEST_SIZE; at += step) {
			size_t n = REQUEST_SIZE - at < step ? REQUEST_SIZE - at : step;

			ASSERT_EQ(ttrpc_in(t, (struct span){request + at, n}, &e), 0);
		}
		ASSERT_EQ(seen.requests, 1);
		ASSERT_STR_EQ(seen.service, "svc");
		ASSERT_STR_EQ(seen.method, "Do");
		ASSERT_STR_EQ(seen.message, "hi");
		assert_out(t, answer, sizeof(answer) - 1);
		ttrpc_sent(t, 4);
		assert_out(t, answer + 4, sizeof(answer) - 5);
		ttrpc_sent(t, sizeof(answer) - 5);
		ASSERT_EQ(ttrpc_out(t).n, 0);
		ttrpc_free(t);
	}
}

static void test_failure_of_a_request_becomes_a_grpc_status(void **state)
{
	static const struct {
		int code;
		char status;
	} cases[] = {{-EOPNOTSUPP, 12}, {-EINVAL, 3}, {-EIO, 13}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char want[] = "\x00\x00\x00\x01\x00\x00\x00\x12"
			      "\x00\x00\x00\x08\x00\x00\x00\x01\x02\x00"
			      "\x0a\x06\x08?\x12\x02no";
		struct seen seen = {.fail = cases[i].code};
		struct ttrpc *t = ttrpc_new(&ops, &seen);

		want[21] = cases[i].status;
		ASSERT_EQ_MSG(ttrpc_in(t, (struct span){request, REQUEST_SIZE}, NULL), 0,
			      "cases[%zu]", i);
		assert_out(t, want, sizeof(want) - 1);
		ttrpc_free(t);
	}
}

static void test_call_gets_its_response(void **state)
{
	static const char call[] = "\x00\x00\x00\x02\x00\x00\x00\x17"
				   "\x00\x00\x00\x0d\x00\x00\x00\x01\x01\x00"
				   "\x0a\x03svc\x12\x02"
				   "Do\x1a\x02hi";
	static const char answer[] = "\x00\x00\x00\x02\x00\x00\x00\x14"
				     "\x00\x00\x00\x0a\x00\x00\x00\x01\x02\x00"
				     "\x0a\x08\x08\x06\x12\x04used";
	struct seen seen = {0};
	struct ttrpc *t = ttrpc_new(&ops, &seen);

	(void)state;
	ASSERT_EQ(ttrpc_call(t, "svc", "Do", span_of("hi")), 1);
	assert_out(t, call, sizeof(call) - 1);
	ASSERT_EQ(ttrpc_call(t, "svc", "Do", span_of("hi")), 3);
	ASSERT_EQ(ttrpc_in(t, (struct span){answer, sizeof(answer) - 1}, NULL), 0);
	ASSERT_EQ(seen.responses, 1);
	ASSERT_EQ(seen.stream, 1);
	ASSERT_EQ(seen.status, 6);
	ASSERT_STR_EQ(seen.text, "used");
	ttrpc_free(t);
}

static void test_frames_of_unknown_connections_are_skipped(void **state)
{
	static const char other[] = "\x00\x00\x00\x07\x00\x00\x00\x03"
				    "abc"
				    "\x00\x00\x00\x01\x00\x00\x00\x00";
	struct seen seen = {0};
	struct ttrpc *t = ttrpc_new(&ops, &seen);

	(void)state;
	ASSERT_EQ(ttrpc_in(t, (struct span){other, sizeof(other) - 1}, NULL), 0);
	ASSERT_EQ(ttrpc_in(t, (struct span){request, REQUEST_SIZE}, NULL), 0);
	ASSERT_EQ(seen.requests, 1);
	ttrpc_free(t);
}

static void test_malformed_messages_end_the_connection(void **state)
{
	static const char large[] = "\x00\x00\x00\x01\x00\x50\x00\x00"
				    "\x00\x40\x00\x01\x00\x00\x00\x01\x01\x00";
	static const char garbage[] = "\x00\x00\x00\x01\x00\x00\x00\x0b"
				      "\x00\x00\x00\x01\x00\x00\x00\x01\x01\x00\x0a";
	struct seen seen = {0};
	struct ttrpc *t = ttrpc_new(&ops, &seen);
	struct err e = ERR_INIT;

	(void)state;
	ASSERT_EQ(ttrpc_in(t, (struct span){large, sizeof(large) - 1}, &e), -EMSGSIZE);
	ASSERT_STR_EQ(e.text, "a ttrpc message of 4194305 bytes, the limit is 4194304");
	ttrpc_free(t);
	t = ttrpc_new(&ops, &seen);
	ASSERT_EQ(ttrpc_in(t, (struct span){garbage, sizeof(garbage) - 1}, &e), -EPROTO);
	ASSERT_EQ(seen.requests, 0);
	ttrpc_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_request_divided_at_any_byte_is_answered),
		cmocka_unit_test(test_failure_of_a_request_becomes_a_grpc_status),
		cmocka_unit_test(test_call_gets_its_response),
		cmocka_unit_test(test_frames_of_unknown_connections_are_skipped),
		cmocka_unit_test(test_malformed_messages_end_the_connection),
	};

	return T_RUN(tests, NULL, NULL);
}
