/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP server over TLS: slow and hostile clients, and clients connected while certificates
 * change.
 */
#include "testlib.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <linux/sockios.h>

#include "agent_lab.h"
#include "base/alloc.h"
#include "tls_certs.h"

enum { ANSWER_MAX = 8 << 20, BODY_MAX = 3 << 20, WAIT_MS = 30000 };

static struct http_server *served; /* the server, in its own process */

static const struct http_limits quick = {.max_conns = 4,
					 .first_ms = 1000,
					 .body_ms = 60000,
					 .body_rate = 1000,
					 .idle_ms = 2000,
					 .send_ms = 5000,
					 .body_max = BODY_MAX,
					 .bodies_max = BODY_MAX + (64 << 10)};

/* strict: the server requires a client certificate */
static struct tls_conf *server_conf(bool strict)
{
	const struct tls_material m = {.ca = span_of(strict ? TLS_TEST_CA : NULL),
				       .cert = span_of(TLS_TEST_SERVER),
				       .key = span_of(TLS_TEST_SERVER_KEY)};
	struct tls_conf *c = NULL;

	if (tls_conf_new(&c, TLS_SERVER, &m, NULL) < 0)
		_exit(3);
	return c;
}

static void use(struct http_server *s, bool strict)
{
	struct tls_conf *c = server_conf(strict);

	http_server_use_tls(s, c);
	tls_conf_put(c);
}

/* Responds with the length of the body; /big returns 4 MB; from a request for /strict until a
 * request for /open the server requires client certificates on new connections. */
static void handle(void *arg, struct http_request *q)
{
	const struct http1_msg *m = http_request_msg(q);
	auto_free char *text = xasprintf("%zu\n", m->body.n);
	struct http1_response r = {.status = 200, .type = "text/plain", .body = span_of(text)};
	auto_free char *big = NULL;

	(void)arg;
	if (span_eq(m->target, "/strict") || span_eq(m->target, "/open"))
		use(served, span_eq(m->target, "/strict"));
	if (span_eq(m->target, "/big")) {
		big = xcalloc(1, 4000000);
		memset(big, 'x', 4000000);
		r.body = (struct span){big, 4000000};
	}
	http_answer(q, &r);
}

/* The head of a request for "/never" is refused with 404; the connection is closed after the
 * response to "/once". */
static int check(void *arg, const struct http1_msg *head)
{
	(void)arg;
	if (span_eq(head->target, "/never"))
		return 404;
	return span_eq(head->target, "/once") ? HTTP_TAKE_ONE : HTTP_TAKE;
}

static void start(struct http_server *s, struct loop *loop)
{
	(void)loop;
	served = s;
	http_server_check(s, check);
	use(s, false);
}

static int setup(void **state)
{
	il_setup(state);
	al_server = al_serve(&il_lab, &quick, handle, start);
	return 0;
}

/* --- a client --- */

struct client {
	int fd;
	struct tls *tls;
};

static bool wait_for(struct client *c)
{
	struct pollfd p = {c->fd, tls_events(c->tls) == EPOLLOUT ? POLLOUT : POLLIN, 0};

	return poll(&p, 1, WAIT_MS) == 1;
}

/* Returns 0, or the error of the handshake. */
static int shake(struct client *c)
{
	const struct tls_material m = {.ca = span_of(TLS_TEST_CA)};
	struct tls_conf *conf = NULL;
	int r;

	ASSERT_EQ(tls_conf_new(&conf, TLS_CLIENT, &m, NULL), 0);
	c->fd = al_connect(&il_lab);
	/* al_connect() returns a blocking socket, tls.h requires one that does not block. */
	ASSERT_EQ(fcntl(c->fd, F_SETFL, O_NONBLOCK), 0);
	c->tls = tls_new(conf, c->fd, "localhost");
	tls_conf_put(conf);
	while ((r = tls_handshake(c->tls, NULL)) == -EAGAIN)
		assert_true(wait_for(c));
	return r;
}

static struct client connected(void)
{
	struct client c;

	ASSERT_EQ(shake(&c), 0);
	return c;
}

static void hang_up(struct client *c)
{
	tls_free(c->tls);
	close(c->fd);
}

/* Returns false if the server has closed the connection, if a write fails, or if the socket
 * stays full for WAIT_MS. */
static bool put(struct client *c, const char *p, size_t n)
{
	while (n > 0) {
		ssize_t r = tls_write(c->tls, p, n, NULL);

		if (r == -EAGAIN && wait_for(c))
			continue;
		if (r < 0)
			return false;
		p += r;
		n -= (size_t)r;
	}
	return true;
}

/* Reads until `until` or the end of the connection; the caller frees the result. */
static char *hear(struct client *c, const char *until)
{
	char in[16384];
	struct buf b;

	buf_init(&b, ANSWER_MAX);
	buf_str(&b, "");
	while (!(until && b.len && strstr(b.p, until))) {
		ssize_t n = tls_read(c->tls, in, sizeof(in), NULL);

		if (n == -EAGAIN) {
			assert_true(wait_for(c));
			continue;
		}
		if (n <= 0)
			break;
		buf_add(&b, in, (size_t)n);
	}
	if (!b.len)
		buf_add(&b, "", 1);
	return buf_take(&b);
}

/*
 * Sends the body of a request until the server responds. Returns the bytes of the response that
 * were read; the caller frees them. Returns "" if the connection ended instead, and NULL if no
 * response arrived before everything was sent or a write failed. The server does not read a refused
 * body to its end: a client that continues to send for more than one second, or sends more than 2
 * MB, after the refusal gets a reset instead of the response.
 */
static char *put_until_answered(struct client *c, const char *p, size_t n)
{
	char in[16384];
	const size_t piece = 64 << 10;

	for (; n > 0; p += piece, n -= piece) {
		ssize_t r = tls_read(c->tls, in, sizeof(in), NULL);

		if (r != -EAGAIN)
			return xasprintf("%.*s", r < 0 ? 0 : (int)r, in);
		if (!put(c, p, n < piece ? n : piece) || n <= piece)
			break;
	}
	return NULL;
}

static void expect_answer(struct client *c, const char *target, size_t body, const char *part)
{
	auto_free char *head = xasprintf(
		"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n", target, body);
	auto_free char *text = xcalloc(1, body + 1), *got = NULL;

	memset(text, 'b', body);
	put(c, head, strlen(head));
	got = put_until_answered(c, text, body);
	if (!got || !strstr(got, part)) {
		free(take(got));
		got = hear(c, part);
	}
	if (!strstr(got, part))
		fail_msg("%s: '%.200s' instead of '%s'", target, got, part);
}

static void still_well(void)
{
	struct client c = connected();

	expect_answer(&c, "/", 0, "\r\n\r\n0\n");
	hang_up(&c);
}

static void test_tls_connection_is_reused(void **state)
{
	struct client c = connected();

	(void)state;
	for (int i = 0; i < 3; i++)
		expect_answer(&c, "/", 5,
			      "200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n5\n");
	hang_up(&c);
}

static void test_long_bodies_and_responses_pass_over_tls(void **state)
{
	struct client c = connected();
	auto_free char *got = NULL;

	(void)state;
	/* A body in many TLS records, then a body of the maximum length. */
	expect_answer(&c, "/", 2 << 20, "\r\n\r\n2097152\n");
	expect_answer(&c, "/", BODY_MAX, "\r\n\r\n3145728\n");
	put(&c, "GET /big HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 50);
	got = hear(&c, NULL);
	assert_non_null(strstr(got, "Content-Length: 4000000\r\n"));
	ASSERT_EQ(strlen(strstr(got, "\r\n\r\n") + 4), 4000000);
	hang_up(&c);
}

static void test_too_long_body_gets_413(void **state)
{
	struct client c = connected();

	(void)state;
	expect_answer(&c, "/", BODY_MAX + 1, "413 ");
	hang_up(&c);
	still_well();
}

/* Waits until the server has read all bytes that the client sent (the socket's send queue is
 * empty), so that the server has counted them before it reads another client's request. */
static void wait_until_read(const struct client *c)
{
	int unread = 1;

	for (int ms = 0; ms < WAIT_MS; ms++) {
		ASSERT_EQ(ioctl(c->fd, SIOCOUTQ, &unread), 0);
		if (unread == 0)
			return;
		usleep(1000);
	}
	fail_msg("%d bytes unread", unread);
}

/* Sends a request with a body of n bytes without the last `missing` ones. */
static void half_a_body(struct client *c, size_t n, size_t missing)
{
	auto_free char *head =
		xasprintf("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n", n);
	auto_free char *half = xcalloc(1, n);

	memset(half, 'b', n);
	put(c, head, strlen(head));
	put(c, half, n - missing);
	wait_until_read(c);
}

/* An incomplete body counts against the limit of all bodies: a longer body gets 503, and shorter
 * ones are served. */
static void test_body_beyond_the_budget_of_all_bodies_gets_503(void **state)
{
	struct client one = connected(), other = connected();
	auto_free char *got = NULL;

	(void)state;
	half_a_body(&one, BODY_MAX / 2, 1);
	/* Both bodies together exceed bodies_max. */
	expect_answer(&other, "/", BODY_MAX, "503 ");
	hang_up(&other);
	/* Small requests are still served. */
	still_well();
	put(&one, "b", 1);
	got = hear(&one, "1572864\n");
	assert_non_null(strstr(got, "200 OK"));
	hang_up(&one);
	other = connected();
	expect_answer(&other, "/", 1 << 20, "\r\n\r\n1048576\n");
	hang_up(&other);
}

/* One client that withholds the end of a long body must not block the bodies of all other clients.
 */
static void test_longest_incomplete_body_is_dropped_when_the_budget_is_exhausted(void **state)
{
	struct client one = connected(), other = connected();
	auto_free char *got = NULL;

	(void)state;
	half_a_body(&one, BODY_MAX, 1);
	expect_answer(&other, "/", 1 << 20, "\r\n\r\n1048576\n");
	hang_up(&other);
	put(&one, "b", 1);
	got = hear(&one, "\r\n\r\n");
	ASSERT_STR_EQ(got, "");
	hang_up(&one);
	still_well();
}

static void closes(int fd)
{
	auto_free char *got = al_read(fd, NULL);

	/* the server sent at most a TLS alert */
	assert_true(strlen(got) < 8);
	close(fd);
}

static void test_clients_without_tls_are_disconnected(void **state)
{
	int plain = al_connect(&il_lab), rubbish = al_connect(&il_lab),
	    silent = al_connect(&il_lab);

	(void)state;
	al_send(plain, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
	/* The header of a TLS record and the first byte of its content. */
	al_send(rubbish, "\x16\x03\x01\x02\x01\x01");
	closes(plain);
	closes(rubbish);
	closes(silent);
	still_well();
}

/* More connections than the limit stop in the middle of the handshake: the server evicts them,
 * or closes them after first_ms. */
static void test_connections_in_the_handshake_are_limited(void **state)
{
	int fds[12];
	struct client idle = connected();

	(void)state;
	expect_answer(&idle, "/", 1, "\r\n\r\n1\n");
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		fds[i] = al_connect(&il_lab);
		al_send(fds[i], "\x16\x03\x01");
	}
	still_well();
	/* A connection whose request the server has accepted before stays open. */
	expect_answer(&idle, "/", 1, "\r\n\r\n1\n");
	hang_up(&idle);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		closes(fds[i]);
}

/* Connections that break in the middle of a request and of a response. */
static void test_broken_tls_connections_do_not_affect_other_connections(void **state)
{
	(void)state;
	for (int i = 0; i < 6; i++) {
		struct client c = connected();

		put(&c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n", 47);
		close(c.fd);
		c.fd = open("/dev/null", O_RDWR | O_CLOEXEC);
		hang_up(&c);
		c = connected();
		put(&c, "GET /big HTTP/1.1\r\nHost: x\r\n\r\n", 30);
		hang_up(&c);
	}
	still_well();
}

/* /never is refused after its head: the server does not wait for the body, and the response has
 * no details. After the response to /once the server closes the connection. */
static void test_body_of_a_request_refused_by_its_head_is_not_read(void **state)
{
	struct client c = connected(), once = connected();
	auto_free char *got = NULL, *last = NULL;
	const char *head = "POST /never HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n";
	const char *one = "POST /once HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc";

	(void)state;
	put(&c, head, strlen(head));
	got = hear(&c, NULL);
	ASSERT_STR_EQ(got,
		      "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
	hang_up(&c);
	put(&once, one, strlen(one));
	last = hear(&once, NULL);
	assert_non_null(strstr(last, "Connection: close\r\n\r\n3\n"));
	hang_up(&once);
}

/* The client sends most of the body at once and then nothing: fast progress does not extend the
 * time limit of a pause. */
static void test_body_that_pauses_after_fast_progress_expires(void **state)
{
	static const char head[] = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2900000\r\n\r\n";
	struct client c = connected();
	auto_free char *text = xcalloc(1, 2800000), *got = NULL;

	(void)state;
	memset(text, 'b', 2800000);
	put(&c, head, sizeof(head) - 1);
	put(&c, text, 2800000);
	/* The response arrives long before body_ms (60 s), which exceeds the 30 s (WAIT_MS) that
	 * hear() waits for bytes. */
	got = hear(&c, NULL);
	assert_non_null(strstr(got, "408 "));
	hang_up(&c);
}

static void test_slow_request_over_tls_expires(void **state)
{
	struct client c = connected();
	auto_free char *got = NULL;

	(void)state;
	put(&c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc", 50);
	got = hear(&c, NULL);
	assert_non_null(strstr(got, "408 "));
	hang_up(&c);
}

/* Existing connections continue with their TLS configuration; new connections get the new one. */
static void test_changed_tls_configuration_applies_to_new_connections_only(void **state)
{
	struct client c = connected(), other;
	auto_free char *got = NULL;

	(void)state;
	expect_answer(&c, "/strict", 0, "\r\n\r\n0\n");
	/*
	 * In TLS 1.3 the client's handshake completes before the server verifies the client's
	 * certificate.
	 */
	if (shake(&other) == 0) {
		put(&other, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27);
		got = hear(&other, NULL);
		ASSERT_STR_EQ(got, "");
	}
	hang_up(&other);
	for (int i = 0; i < 10; i++)
		expect_answer(&c, i ? "/" : "/open", 3, "\r\n\r\n3\n");
	still_well();
	hang_up(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tls_connection_is_reused),
		cmocka_unit_test(test_long_bodies_and_responses_pass_over_tls),
		cmocka_unit_test(test_too_long_body_gets_413),
		cmocka_unit_test(test_body_beyond_the_budget_of_all_bodies_gets_503),
		cmocka_unit_test(
			test_longest_incomplete_body_is_dropped_when_the_budget_is_exhausted),
		cmocka_unit_test(test_clients_without_tls_are_disconnected),
		cmocka_unit_test(test_connections_in_the_handshake_are_limited),
		cmocka_unit_test(test_body_of_a_request_refused_by_its_head_is_not_read),
		cmocka_unit_test(test_body_that_pauses_after_fast_progress_expires),
		cmocka_unit_test(test_broken_tls_connections_do_not_affect_other_connections),
		cmocka_unit_test(test_slow_request_over_tls_expires),
		cmocka_unit_test(test_changed_tls_configuration_applies_to_new_connections_only),
	};

	return T_RUN(tests, setup, al_teardown);
}
