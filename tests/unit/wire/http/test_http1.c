/* SPDX-License-Identifier: Apache-2.0 */
/* same_in_parts() feeds each text to the codec as a whole, byte by byte, and divided at every
 * position (a text of more than 2000 bytes: only byte by byte, and divided at every 997th
 * position); most of the texts are invalid. */
#include "testlib.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/loop.h"
#include "wire/http/http1.h"

#define HOST	"Host: x\r\n"
#define GET	"GET / HTTP/1.1\r\n" HOST
#define CHUNKED "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"

enum { LOG_BYTES = 1 << 20 };

/* Result of parsing; log has one line for each message: "POST /a 5:hello close". */
struct heard {
	struct buf log;
	int r, refusal;
	struct err e;
};

static void record(struct buf *b, enum http1_side side, const struct http1_msg *m)
{
	if (side == HTTP1_REQUESTS)
		buf_printf(b, "%.*s %.*s", (int)m->method.n, m->method.p, (int)m->target.n,
			   m->target.p);
	else
		buf_printf(b, "%d %.*s", m->status, (int)m->reason.n, m->reason.p);
	buf_printf(b, " %zu:%.*s%s\n", m->body.n, m->body.n < 100 ? (int)m->body.n : 0, m->body.p,
		   m->close ? " close" : "");
}

static int feed(struct http1 *h, enum http1_side side, struct span in, struct heard *ret)
{
	struct http1_msg m;

	for (;;) {
		ret->r = http1_in(h, &in, &m, &ret->e);
		if (ret->r <= 0)
			break;
		record(&ret->log, side, &m);
	}
	if (ret->r == 0)
		ASSERT_EQ(in.n, 0);
	else
		ret->refusal = http1_refusal(h);
	return ret->r;
}

/*
 * Feeds the text in parts of `step` bytes, the first part of `first` bytes; `eof`: followed by the
 * end of the connection.
 */
static void hear(enum http1_side side, struct span text, size_t first, size_t step, bool eof,
		 struct heard *ret)
{
	auto_http1 struct http1 *h = http1_new(side, 1000);
	struct http1_msg m;

	*ret = (struct heard){0};
	buf_init(&ret->log, LOG_BYTES);
	for (size_t at = 0, n = first; at < text.n; at += n, n = step) {
		/* allocated, so that ASan detects a read past the end */
		n = n < text.n - at ? n : text.n - at;
		char *copy = malloc(n ? n : 1);

		memcpy(copy, text.p + at, n);
		if (feed(h, side, (struct span){copy, n}, ret) < 0) {
			free(copy);
			return;
		}
		free(copy);
	}
	if (!eof)
		return;
	ret->r = http1_eof(h, &m, &ret->e);
	if (ret->r > 0)
		record(&ret->log, side, &m);
}

static void same_in_parts(enum http1_side side, struct span text, bool eof, const char *log,
			  int refusal)
{
	for (size_t first = 1; first <= text.n; first++) {
		for (int i = 0; i < 2; i++) {
			struct heard x;

			if (text.n > 2000 && first % 997 != 1)
				continue;
			hear(side, text, first, i ? 1 : text.n, eof, &x);
			if (strcmp(x.log.len ? x.log.p : "", log) != 0 || x.refusal != refusal)
				fail_msg("first %zu, step %d: '%s' %d '%s', not '%s' %d of\n%.*s",
					 first, i, x.log.len ? x.log.p : "", x.refusal, x.e.text,
					 log, refusal, (int)text.n, text.p);
			buf_done(&x.log);
		}
	}
}

static void request(const char *text, const char *log, int refusal)
{
	same_in_parts(HTTP1_REQUESTS, span_of(text), false, log, refusal);
}

static void response(const char *text, const char *log, int refusal)
{
	same_in_parts(HTTP1_RESPONSES, span_of(text), true, log, refusal);
}

static void test_valid_requests_divided_at_any_byte_are_parsed(void **state)
{
	(void)state;
	request(GET "\r\n", "GET / 0:\n", 0);
	request("GET /v1/x?a=b HTTP/1.1\r\nhOsT: \t x \t\r\nConnection: a, CLOSE\r\n\r\n",
		"GET /v1/x?a=b 0: close\n", 0);
	request("DELETE / HTTP/1.1\r\nHost:\r\nContent-Length: 5\r\n\r\nhello",
		"DELETE / 5:hello\n", 0);
	request(GET "Content-Length: 2\r\n\r\n{}", "GET / 2:{}\n", 0);
	request(GET "Content-Length: 0\r\n\r\n", "GET / 0:\n", 0);
	request(GET "Content-Length: 0000000002\r\n\r\n{}", "GET / 2:{}\n", 0);
	request("GET / HTTP/1.0\r\n\r\n", "GET / 0: close\n", 0);
	request("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", "GET / 0:\n", 0);
	request("GET / HTTP/1.7\r\n" HOST "\r\n", "GET / 0:\n", 0);
	request("M-SEARCH * HTTP/1.1\r\n" HOST "X:\r\n\r\n", "M-SEARCH * 0:\n", 0);
	/* old clients send a line break after a body */
	request("\r\n\r\n" GET "\r\n", "GET / 0:\n", 0);
}

static void test_pipelined_requests_are_parsed_in_order(void **state)
{
	(void)state;
	request(GET "\r\nPOST /a HTTP/1.1\r\n" HOST
		    "Content-Length: 3\r\n\r\nabcGET /b HTTP/1.1\r\n" HOST "\r\n" CHUNKED
		    "2\r\nhi\r\n0\r\n\r\n\r\nGET /c HTTP/1.1\r\n" HOST "\r\n",
		"GET / 0:\nPOST /a 3:abc\nGET /b 0:\nPOST / 2:hi\nGET /c 0:\n", 0);
	/* a valid request, then invalid bytes */
	request(GET "\r\nrubbish\r\n\r\n", "GET / 0:\n", 400);
}

static void test_invalid_request_heads_are_refused(void **state)
{
	static const struct {
		const char *text;
		int refusal;
	} bad[] = {
		{"GET / HTTP/1.1\nHost: x\n\n", 400},
		{"GET / HTTP/1.1\r\nHost: x\n\r\n", 400},
		{"GET / HTTP/1.1\r\nHost: x\r\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\nHost: x\rX: y\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\n\r\n", 400},
		{GET HOST "\r\n", 400},
		{"GET  / HTTP/1.1\r\n" HOST "\r\n", 400},
		{"GET /  HTTP/1.1\r\n" HOST "\r\n", 400},
		{"GET / HTTP/1.1 \r\n" HOST "\r\n", 400},
		{" GET / HTTP/1.1\r\n" HOST "\r\n", 400},
		{"GET\t/ HTTP/1.1\r\n" HOST "\r\n", 400},
		{"G(T / HTTP/1.1\r\n" HOST "\r\n", 400},
		{" / HTTP/1.1\r\n" HOST "\r\n", 400},
		{"GET /\x80 HTTP/1.1\r\n" HOST "\r\n", 400},
		{"GET /a\tb HTTP/1.1\r\n" HOST "\r\n", 400},
		{"GET /\x7f HTTP/1.1\r\n" HOST "\r\n", 400},
		{"GET /\r\n\r\n", 400},
		{"GET / HTTP/2.0\r\n" HOST "\r\n", 505},
		{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
		{"GET / HTTP/11\r\n" HOST "\r\n", 505},
		{"GET / HTTP/1.12\r\n" HOST "\r\n", 400},
		{"GET / http/1.1\r\n" HOST "\r\n", 400},
		{GET " folded\r\n\r\n", 400},
		{GET "A: b\r\n\tfolded\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\n X: y\r\n" HOST "\r\n", 400},
		{GET "Content-Length : 3\r\n\r\nabc", 400},
		{GET ": 3\r\n\r\n", 400},
		{GET "no colon\r\n\r\n", 400},
		{GET "A(b): 3\r\n\r\n", 400},
		{GET "A\x80: 3\r\n\r\n", 400},
		{GET "A: \x01\r\n\r\n", 400},
		{GET "A: \x7f\r\n\r\n", 400},
		{GET "Expect: 200-maybe\r\n\r\n", 417},
		{"HTTP/1.1 200 OK\r\n\r\n", 400},
		{"\x16\x03\x01\x02\x05", 400}, /* TLS */
		{"\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n" GET "\r\n", 400},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		request(bad[i].text, "", bad[i].refusal);
}

/*
 * The end of a message must be unambiguous: otherwise a part of its body could be parsed as the
 * next request.
 */
static void test_ambiguous_or_excessive_body_lengths_are_refused(void **state)
{
	static const struct {
		const char *fields;
		int refusal;
	} bad[] = {
		{"Content-Length: 3\r\nContent-Length: 3\r\n", 400},
		{"Content-Length: 3\r\nContent-Length: 4\r\n", 400},
		{"Content-Length: 3, 3\r\n", 400},
		{"Content-Length: 3\r\ncontent-LENGTH: 3\r\n", 400},
		{"Content-Length: +3\r\n", 400},
		{"Content-Length: -3\r\n", 400},
		{"Content-Length: 0x3\r\n", 400},
		{"Content-Length: 3 3\r\n", 400},
		{"Content-Length: 3;\r\n", 400},
		{"Content-Length:\r\n", 400},
		{"Content-Length: 1001\r\n", 413},
		{"Content-Length: 18446744073709551619\r\n", 413},
		{"Content-Length: 99999999999999999999999999\r\n", 413},
		{"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", 400},
		{"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", 400},
		{"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", 400},
		{"Transfer-Encoding: chunked, chunked\r\n", 501},
		{"Transfer-Encoding: gzip, chunked\r\n", 501},
		{"Transfer-Encoding: identity\r\n", 501},
		{"Transfer-Encoding: xchunked\r\n", 501},
		{"Transfer-Encoding: chunked;q=1\r\n", 501},
		{"Transfer-Encoding: \"chunked\"\r\n", 501},
		{"Transfer-Encoding: \x0b"
		 "chunked\r\n",
		 400},
		{"Transfer-Encoding:\r\n chunked\r\n", 400},
		{"Transfer-Encoding:\r\n", 501},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		auto_free char *text = xasprintf(GET "%s\r\n", bad[i].fields);

		request(text, "", bad[i].refusal);
	}
	request("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "", 400);
	/* a field with a similar name has no effect */
	request(GET "X-Content-Length: 3\r\nTransfer_Encoding: chunked\r\n\r\n", "GET / 0:\n", 0);
}

static void test_invalid_chunks_are_refused(void **state)
{
	static const char *const bad[] = {
		"\r\n",		"g\r\n",       "-1\r\n",
		"+1\r\n",	" 1\r\n",      "0x1\r\n",
		"1\na",		"1\r",	       "1 \r\n",
		"1 1\r\n",	"1\r\nab\r\n", "1\r\na\n",
		"1\r\na\rb",	"1;\x01\r\n",  "1;a\n",
		"0\r\n\n",	"0\r\n a: b",  "0\r\n: b",
		"0\r\nab\r\n",	"0\r\na:b\n",  "00000000000000001\r\n",
		"0\r\na: \x01",
	};

	(void)state;
	request(CHUNKED "0\r\n\r\n", "POST / 0:\n", 0);
	request(CHUNKED "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", "POST / 11:hello world\n", 0);
	request(CHUNKED "A\r\n0123456789\r\n00a\r\n0123456789\r\n000\r\n\r\n",
		"POST / 20:01234567890123456789\n", 0);
	request(CHUNKED "1;a=b;c=\"d\"\r\nx\r\n0;e\r\nA: b\r\nC:\r\n\r\n", "POST / 1:x\n", 0);
	request(CHUNKED "1 \t ;a\r\nx\r\n0\r\n\r\n", "POST / 1:x\n", 0);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		auto_free char *text = xasprintf(CHUNKED "%sGET / HTTP/1.1\r\n", bad[i]);

		request(text, "", 400);
	}
	request(CHUNKED "3e9\r\n", "", 413);
	request(CHUNKED "ffffffffffffffff\r\n", "", 413);
	request(CHUNKED "1\r\na\r\nfffffffffffffffe\r\n", "", 413);
}

static void repeat(struct buf *b, const char *text, size_t n)
{
	while (n-- > 0)
		buf_str(b, text);
}

static void test_heads_and_bodies_beyond_their_limits_are_refused(void **state)
{
	auto_buf struct buf b;

	(void)state;
	buf_init(&b, LOG_BYTES);
	buf_str(&b, GET);
	repeat(&b, "a: b\r\n", HTTP1_FIELDS_MAX - 1);
	buf_str(&b, "\r\n");
	request(b.p, "GET / 0:\n", 0);
	buf_reset(&b);
	buf_str(&b, GET);
	repeat(&b, "a: b\r\n", HTTP1_FIELDS_MAX);
	buf_str(&b, "\r\n");
	request(b.p, "", 431);
	/* a head of exactly the maximum size */
	buf_reset(&b);
	buf_str(&b, GET "a: ");
	repeat(&b, "x", HTTP1_HEAD_MAX - b.len - 4);
	buf_str(&b, "\r\n\r\n");
	ASSERT_EQ(b.len, HTTP1_HEAD_MAX);
	request(b.p, "GET / 0:\n", 0);
	b.p[b.len - 4] = '\0';
	b.len -= 4;
	buf_str(&b, "x\r\n\r\n");
	request(b.p, "", 431);
	buf_reset(&b);
	buf_str(&b, "GET /");
	repeat(&b, "x", HTTP1_HEAD_MAX);
	request(b.p, "", 414);
	/* a chunk extension and trailers that are too long */
	buf_reset(&b);
	buf_str(&b, CHUNKED "1;");
	repeat(&b, "x", 5000);
	request(b.p, "", 431);
	buf_reset(&b);
	buf_str(&b, CHUNKED "0\r\n");
	repeat(&b, "a: b\r\n", 1000);
	request(b.p, "", 431);
	/* a body of exactly the maximum size */
	buf_reset(&b);
	buf_str(&b, CHUNKED "3e8\r\n");
	repeat(&b, "x", 1000);
	buf_str(&b, "\r\n0\r\n\r\n");
	request(b.p, "POST / 1000:\n", 0);
}

static void test_head_with_any_changed_byte_neither_crashes_nor_hangs_the_parser(void **state)
{
	static const char good[] = GET "Abc: d e\r\nContent-Length: 1\r\n\r\nX";

	(void)state;
	/* A NUL byte is refused at every position of the head. */
	for (size_t at = 0; at < sizeof(good) - 2; at++)
		for (int c = 0; c < 256; c++) {
			char text[sizeof(good)];
			struct heard x;

			memcpy(text, good, sizeof(good));
			text[at] = (char)c;
			hear(HTTP1_REQUESTS, (struct span){text, sizeof(good) - 1}, sizeof(good), 1,
			     false, &x);
			if (x.r == 0 && x.log.len > 0)
				assert_non_null(strstr(x.log.p, ":"));
			if (c == '\0')
				assert_true(x.r < 0);
			buf_done(&x.log);
		}
}

static void test_random_input_is_parsed_without_crash(void **state)
{
	static const char *const parts[] = {"GET ",
					    "/",
					    " HTTP/1.1",
					    "\r\n",
					    "\r\n\r\n",
					    "Host:",
					    "x",
					    "Transfer-Encoding: chunked",
					    "0",
					    "5",
					    "Content-Length: ",
					    ";",
					    "\r",
					    "\n",
					    ":",
					    " ",
					    "a"};

	(void)state;
	srand(4711);
	for (int i = 0; i < 20000; i++) {
		auto_buf struct buf b;
		struct heard x;

		buf_init(&b, LOG_BYTES);
		buf_str(&b, rand() % 2 ? GET : "");
		for (int k = rand() % 30; k > 0; k--)
			buf_str(&b, parts[(size_t)rand() % ARRAY_LEN(parts)]);
		hear(rand() % 2 ? HTTP1_REQUESTS : HTTP1_RESPONSES, buf_span(&b),
		     1 + (size_t)rand() % 20, 1 + (size_t)rand() % 20, true, &x);
		buf_done(&x.log);
	}
}

static void test_parser_reports_its_phase_and_repeats_its_failure(void **state)
{
	auto_http1 struct http1 *h = http1_new(HTTP1_REQUESTS, 1000);
	struct span in = span_of("POST / HTTP/1.1\r\n");
	struct err e = ERR_INIT, again = ERR_INIT;
	struct http1_msg m;

	(void)state;
	ASSERT_EQ(http1_phase(h), HTTP1_NOTHING);
	ASSERT_EQ(http1_eof(h, &m, &e), 0);
	ASSERT_EQ(http1_in(h, &in, &m, &e), 0);
	ASSERT_EQ(http1_phase(h), HTTP1_IN_HEAD);
	ASSERT_EQ(http1_eof(h, &m, &e), -EPROTO);
	in = span_of(HOST "Content-Length: 2\r\n\r\n{");
	ASSERT_EQ(http1_in(h, &in, &m, &e), 0);
	ASSERT_EQ(http1_phase(h), HTTP1_IN_BODY);
	in = span_of("}");
	ASSERT_EQ(http1_in(h, &in, &m, &e), 1);
	ASSERT_EQ(http1_phase(h), HTTP1_NOTHING);
	in = span_of("bad\n");
	ASSERT_EQ(http1_in(h, &in, &m, &e), -EPROTO);
	in = span_of(GET "\r\n");
	ASSERT_EQ(http1_in(h, &in, &m, &again), -EPROTO);
	ASSERT_STR_EQ(e.text, again.text);
	ASSERT_EQ(http1_eof(h, &m, &e), -EPROTO);
}

static void test_expectation_of_100_continue_is_reported_once(void **state)
{
	auto_http1 struct http1 *h = http1_new(HTTP1_REQUESTS, 1000);
	struct span in = span_of(GET "Expect: 100-Continue\r\nContent-Length: 2\r\n\r\n");
	struct http1_msg m;

	(void)state;
	assert_false(http1_wants_continue(h));
	ASSERT_EQ(http1_in(h, &in, &m, NULL), 0);
	assert_true(http1_wants_continue(h));
	assert_false(http1_wants_continue(h));
	in = span_of("{}");
	ASSERT_EQ(http1_in(h, &in, &m, NULL), 1);
	/* The client does not want 100 Continue if a part of the body has arrived already, if
	 * the request has no body, or in HTTP/1.0. */
	in = span_of(GET "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{");
	ASSERT_EQ(http1_in(h, &in, &m, NULL), 0);
	assert_false(http1_wants_continue(h));
	in = span_of("}" GET "Expect: 100-continue\r\n\r\n");
	ASSERT_EQ(http1_in(h, &in, &m, NULL), 1);
	ASSERT_EQ(http1_in(h, &in, &m, NULL), 1);
	assert_false(http1_wants_continue(h));
	in = span_of("POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
	ASSERT_EQ(http1_in(h, &in, &m, NULL), 0);
	assert_false(http1_wants_continue(h));
}

static void test_valid_responses_are_parsed(void **state)
{
	(void)state;
	response("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", "200 OK 2:hi\n", 0);
	response(
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nA: b\r\n\r\n",
		"200 OK 2:hi\n", 0);
	response("HTTP/1.1 200 OK\r\n\r\nuntil the end", "200 OK 13:until the end close\n", 0);
	response("HTTP/1.0 500 \r\n\r\n", "500  0: close\n", 0);
	response("HTTP/1.1 204 No Content\r\n\r\n", "204 No Content 0:\n", 0);
	response("HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n", "304 Not Modified 0:\n",
		 0);
	response("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Wait\r\nContent-Length: 3\r\n\r\n"
		 "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		 "200 OK 0:\n", 0);
	response("HTTP/1.1 522 status code 522\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx",
		 "522 status code 522 1:x close\n", 0);
}

static void test_invalid_responses_are_refused(void **state)
{
	static const char *const bad[] = {
		"\r\nHTTP/1.1 200 OK\r\n\r\n",
		"HTTP/1.1 200 OK\n\n",
		"HTTP/2 200 OK\r\n\r\n",
		"HTTP/1.1 2x0 OK\r\n\r\n",
		"HTTP/1.1 099 OK\r\n\r\n",
		"HTTP/1.1 600 OK\r\n\r\n",
		"HTTP/1.1 101 Switching Protocols\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
		"SSH-2.0-OpenSSH_9.2\r\n\r\n",
	};
	struct heard x;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		response(bad[i], "", 400);
	/* truncated responses */
	hear(HTTP1_RESPONSES, span_of("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi"), 1, 1, true,
	     &x);
	ASSERT_EQ(x.r, -EPROTO);
	buf_done(&x.log);
	hear(HTTP1_RESPONSES,
	     span_of("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n"), 1, 1,
	     true, &x);
	ASSERT_EQ(x.r, -EPROTO);
	ASSERT_EQ(x.log.len, 0);
	buf_done(&x.log);
}

/*
 * The message is refused when its head is complete: otherwise a client could hold the
 * connection open by not sending the body.
 */
static void test_body_is_refused_after_its_head_if_the_limit_is_zero(void **state)
{
	static const struct {
		const char *field;
		int r, refusal;
	} cases[] = {
		{"Content-Length: 0\r\n", 1, 0},
		{"", 1, 0},
		{"Content-Length: 1\r\n", -EPROTO, 413},
		{"Transfer-Encoding: chunked\r\n", -EPROTO, 413},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_http1 struct http1 *h = http1_new(HTTP1_REQUESTS, 0);
		auto_free char *text =
			xasprintf("POST / HTTP/1.1\r\nHost: x\r\n%s\r\n", cases[i].field);
		struct span in = span_of(text);
		struct http1_msg m;

		ASSERT_EQ_MSG(http1_held(h), 0, "cases[%zu]", i);
		ASSERT_EQ_MSG(http1_in(h, &in, &m, NULL), cases[i].r, "cases[%zu]", i);
		if (cases[i].r < 0)
			ASSERT_EQ_MSG(http1_refusal(h), cases[i].refusal, "cases[%zu]", i);
		assert_true(http1_held(h) > 0);
		http1_done(h);
		assert_true(cases[i].r < 0 || http1_held(h) == 0);
	}
}

static void test_endless_responses_are_refused(void **state)
{
	auto_buf struct buf b;

	(void)state;
	buf_init(&b, LOG_BYTES);
	repeat(&b, "HTTP/1.1 100 Continue\r\n\r\n", 9);
	response(b.p, "", 400);
	buf_reset(&b);
	buf_str(&b, "HTTP/1.1 200 OK\r\n\r\n");
	repeat(&b, "x", 1001);
	response(b.p, "", 413);
}

static void test_requests_and_responses_are_written(void **state)
{
	const struct http1_response no = {.status = 405,
					  .type = "application/json",
					  .allow = "GET,POST",
					  .body = {"no", 2},
					  .close = true};
	const struct http1_request make_request = {
		"DELETE", "/v1/ipam/ip", "application/json", {"{}", 2}};
	const struct http1_response busy = {
		.status = 503, .retry_after = 2, .body = {"x", 1}, .head = true};
	auto_buf struct buf b;

	(void)state;
	buf_init(&b, 10000);
	http1_put_response(&b, &no);
	ASSERT_STR_EQ(b.p, "HTTP/1.1 405 Method Not Allowed\r\nAllow: GET,POST\r\n"
			   "Content-Type: application/json\r\nContent-Length: 2\r\n"
			   "Connection: close\r\n\r\nno");
	response(b.p, "405 Method Not Allowed 2:no close\n", 0);
	buf_reset(&b);
	http1_put_response(&b, &busy);
	ASSERT_STR_EQ(b.p, "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\n"
			   "Content-Length: 1\r\n\r\n");
	buf_reset(&b);
	http1_put_continue(&b);
	http1_put_response(&b, &(struct http1_response){.status = 521});
	response(b.p, "521 Other 0:\n", 0);
	buf_reset(&b);
	http1_put_request(&b, &make_request);
	request(b.p, "DELETE /v1/ipam/ip 2:{} close\n", 0);
	buf_reset(&b);
	http1_put_request(&b, &(struct http1_request){"GET", "/", NULL, {0}});
	request(b.p, "GET / 0: close\n", 0);
}

static void target(const char *text, int r, const char *path, const char *query)
{
	struct span p, q;

	ASSERT_EQ(http1_target(span_of(text), &p, &q), r);
	if (r < 0)
		return;
	assert_true(span_eq(p, path));
	assert_true(span_eq(q, query));
}

static void query(const char *text, int r, const char *value)
{
	char ret[8] = "";

	ASSERT_EQ(http1_query(span_of(text), "key", ret, sizeof(ret)), r);
	ASSERT_STR_EQ(ret, value);
}

static void test_targets_are_split_and_query_values_are_unescaped(void **state)
{
	(void)state;
	target("/", 0, "/", "");
	target("/a?b?c", 0, "/a", "b?c");
	target("/a?", 0, "/a", "");
	target("http://h:1/a?b", 0, "/a", "b");
	target("HTTP://h/", 0, "/", "");
	target("http://h", -EINVAL, "", "");
	target("*", -EINVAL, "", "");
	target("h:443", -EINVAL, "", "");
	query("key=abc", 1, "abc");
	query("a=b&key=%41+%2b&c", 1, "A +");
	query("key=1&key=2", 1, "2");
	query("key", 1, "");
	query("", 0, "");
	query("keys=1&ke=2", 0, "");
	ASSERT_EQ(http1_query(span_of("key=%4"), "key", (char[8]){0}, 8), -EINVAL);
	ASSERT_EQ(http1_query(span_of("key=%4g"), "key", (char[8]){0}, 8), -EINVAL);
	ASSERT_EQ(http1_query(span_of("key=%0x"), "key", (char[8]){0}, 8), -EINVAL);
	ASSERT_EQ(http1_query(span_of("key=a%00b"), "key", (char[8]){0}, 8), -EINVAL);
	ASSERT_EQ(http1_query(span_of("key=12345678"), "key", (char[8]){0}, 8), -ENAMETOOLONG);
}

/* --- the client, with a server in a thread --- */

struct server {
	char path[64];
	int fd;
	const char *answer;
	bool hangs, in_parts;
	pthread_t thread;
};

static void *serve(void *arg)
{
	struct server *s = arg;
	int c = accept(s->fd, NULL, NULL);
	char in[4096];

	if (recv(c, in, sizeof(in), 0) < 0)
		abort();
	for (size_t i = 0, n = s->in_parts ? 1 : strlen(s->answer); i < strlen(s->answer); i += n)
		if (send(c, s->answer + i, n, MSG_NOSIGNAL) < 0)
			break; /* the client's 50 ms had expired before this thread ran */
	if (s->hangs)
		recv(c, in, sizeof(in), 0); /* until the client disconnects */
	close(c);
	return NULL;
}

static int call(const char *answer, bool in_parts, bool hangs, struct buf *body, struct err *e)
{
	struct server s = {.answer = answer, .hangs = hangs, .in_parts = in_parts};
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	struct http1_call c = {.request = {"GET", "/", NULL, {0}}, .timeout_ms = hangs ? 50 : 5000};
	int r;

	snprintf(s.path, sizeof(s.path), "/tmp/unirail-test-http1-%d", (int)getpid());
	unlink(s.path);
	str_copy(a.sun_path, sizeof(a.sun_path), s.path);
	s.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ASSERT_EQ(bind(s.fd, (struct sockaddr *)&a, sizeof(a)), 0);
	ASSERT_EQ(listen(s.fd, 1), 0);
	ASSERT_EQ(pthread_create(&s.thread, NULL, serve, &s), 0);
	c.socket = s.path;
	r = http1_call(&c, body, e);
	pthread_join(s.thread, NULL);
	close(s.fd);
	unlink(s.path);
	return r;
}

static void test_client_reads_responses_of_every_framing(void **state)
{
	static const char *const same[] = {
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\n\r\nhi",
	};

	(void)state;
	for (size_t i = 0; i < 2 * ARRAY_LEN(same); i++) {
		auto_buf struct buf b;

		ASSERT_EQ(call(same[i / 2], i % 2, false, &b, NULL), 200);
		ASSERT_STR_EQ(b.p, "hi");
	}
}

static void test_client_reports_failures_of_the_server(void **state)
{
	static const struct {
		const char *answer;
		bool hangs;
		int r;
		const char *parts;
	} bad[] = {
		{"", false, -ECONNRESET, "closed the connection without an answer"},
		{"", true, -ETIMEDOUT, "no answer from"},
		{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nh", true, -ETIMEDOUT, "within 50 ms"},
		{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nh", false, -EPROTO,
		 "middle of a body"},
		{"220 smtp\r\n\r\n", false, -EPROTO, "not HTTP/1.1"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct err e = ERR_INIT;
		auto_buf struct buf b;

		ASSERT_EQ_MSG(call(bad[i].answer, false, bad[i].hangs, &b, &e), bad[i].r,
			      "bad[%zu]", i);
		assert_non_null(strstr(e.text, bad[i].parts));
	}
}

/* A server that reads later still gets all data, although the client has disconnected. */
static void test_sent_request_arrives_after_the_client_disconnected(void **state)
{
	struct server s = {0};
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	auto_buf struct buf body, want, got;
	struct http1_call c = {.timeout_ms = 5000};
	struct err e = ERR_INIT;
	int conn;

	(void)state;
	buf_init(&body, 1 << 20);
	buf_init(&want, 1 << 20);
	buf_init(&got, 1 << 20);
	for (size_t i = 0; i < 64 << 10; i++)
		buf_char(&body, 'x');
	c.request = (struct http1_request){"POST", "/told", "text/plain", buf_span(&body)};
	http1_put_request(&want, &c.request);
	snprintf(s.path, sizeof(s.path), "/tmp/unirail-test-http1-%d", (int)getpid());
	c.socket = s.path;
	ASSERT_EQ(http1_send(&c, &e), -ENOENT);
	str_copy(a.sun_path, sizeof(a.sun_path), s.path);
	s.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ASSERT_EQ(bind(s.fd, (struct sockaddr *)&a, sizeof(a)), 0);
	ASSERT_EQ(listen(s.fd, 1), 0);
	ASSERT_EQ(http1_send(&c, &e), 0);
	conn = accept(s.fd, NULL, NULL);
	ASSERT_EQ(fd_read_all(conn, 1 << 20, &got, &e), 0);
	ASSERT_EQ(got.len, want.len);
	assert_memory_equal(got.p, want.p, want.len);
	close(conn);
	/* Sending to a peer that does not read fails after timeout_ms. */
	for (size_t i = 0; i < 900 << 10; i++)
		buf_char(&body, 'x');
	c.request.body = buf_span(&body);
	c.timeout_ms = 50;
	ASSERT_EQ(http1_send(&c, &e), -ETIMEDOUT);
	ASSERT_EQ(e.kind, ERR_AGAIN);
	close(s.fd);
	unlink(s.path);
}

static void *serve_late(void *arg)
{
	struct server *s = arg;
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	poll(NULL, 0, 100);
	str_copy(a.sun_path, sizeof(a.sun_path), s->path);
	s->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(s->fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		abort();
	/* the socket is bound, but refuses connections, since it does not listen yet */
	poll(NULL, 0, 100);
	if (listen(s->fd, 1) < 0)
		abort();
	return serve(s);
}

static void test_client_waits_for_a_server_that_restarts(void **state)
{
	struct server s = {.answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"};
	struct http1_call c = {
		.request = {"GET", "/", NULL, {0}}, .timeout_ms = 20000, .restart_ms = 20000};
	auto_buf struct buf b;

	(void)state;
	snprintf(s.path, sizeof(s.path), "/tmp/unirail-test-http1-%d", (int)getpid());
	unlink(s.path);
	c.socket = s.path;
	ASSERT_EQ(pthread_create(&s.thread, NULL, serve_late, &s), 0);
	ASSERT_EQ(http1_call(&c, &b, NULL), 200);
	ASSERT_STR_EQ(b.p, "hi");
	pthread_join(s.thread, NULL);
	close(s.fd);
	unlink(s.path);
}

static void test_call_without_a_server_fails_as_unavailable(void **state)
{
	struct http1_call c = {.socket = "/nowhere/socket",
			       .timeout_ms = 1000,
			       .request = {"GET", "/", NULL, {0}}};
	char name[200];
	struct err e = ERR_INIT;
	struct buf b;

	(void)state;
	ASSERT_EQ(http1_call(&c, &b, &e), -ENOENT);
	ASSERT_EQ(e.kind, ERR_UNAVAILABLE);
	ASSERT_STR_EQ(e.text, "connect to '/nowhere/socket': No such file or directory (ENOENT)");
	buf_done(&b);
	c.restart_ms = 50;
	ASSERT_EQ(http1_call(&c, &b, &e), -ENOENT);
	buf_done(&b);
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	c.socket = name;
	ASSERT_EQ(http1_call(&c, &b, &e), -ENAMETOOLONG);
	ASSERT_EQ(e.kind, ERR_CONF);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_valid_requests_divided_at_any_byte_are_parsed),
		cmocka_unit_test(test_pipelined_requests_are_parsed_in_order),
		cmocka_unit_test(test_invalid_request_heads_are_refused),
		cmocka_unit_test(test_ambiguous_or_excessive_body_lengths_are_refused),
		cmocka_unit_test(test_invalid_chunks_are_refused),
		cmocka_unit_test(test_heads_and_bodies_beyond_their_limits_are_refused),
		cmocka_unit_test(
			test_head_with_any_changed_byte_neither_crashes_nor_hangs_the_parser),
		cmocka_unit_test(test_random_input_is_parsed_without_crash),
		cmocka_unit_test(test_parser_reports_its_phase_and_repeats_its_failure),
		cmocka_unit_test(test_expectation_of_100_continue_is_reported_once),
		cmocka_unit_test(test_valid_responses_are_parsed),
		cmocka_unit_test(test_invalid_responses_are_refused),
		cmocka_unit_test(test_body_is_refused_after_its_head_if_the_limit_is_zero),
		cmocka_unit_test(test_endless_responses_are_refused),
		cmocka_unit_test(test_requests_and_responses_are_written),
		cmocka_unit_test(test_targets_are_split_and_query_values_are_unescaped),
		cmocka_unit_test(test_client_reads_responses_of_every_framing),
		cmocka_unit_test(test_client_reports_failures_of_the_server),
		cmocka_unit_test(test_sent_request_arrives_after_the_client_disconnected),
		cmocka_unit_test(test_client_waits_for_a_server_that_restarts),
		cmocka_unit_test(test_call_without_a_server_fails_as_unavailable),
	};

	return T_RUN(tests, NULL, NULL);
}
