/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP server: ordinary, slow, hostile, too many and interrupted connections, and its
 * shutdown. */
#include "testlib.h"

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent_lab.h"
#include "base/alloc.h"

static const struct http_limits quick = {.max_conns = 4,
					 .first_ms = 100,
					 .body_ms = 150,
					 .idle_ms = 200,
					 .send_ms = 200};

/* Responds with "METHOD TARGET BODY-LENGTH", to a request for /busy after 400 ms. The response
 * to /big has 4 MB, that to /too-big more than a response may have. */
static void echo(void *arg, struct http_request *q)
{
	const struct http1_msg *m = http_request_msg(q);
	auto_free char *text = xasprintf("%.*s %.*s %zu\n", (int)m->method.n, m->method.p,
					 (int)m->target.n, m->target.p, m->body.n);
	struct http1_response r = {.status = 200, .type = "text/plain", .body = span_of(text)};
	auto_free char *big = NULL;

	(void)arg;
	if (span_eq(m->target, "/busy"))
		usleep(400 * 1000);
	if (span_eq(m->target, "/big") || span_eq(m->target, "/too-big")) {
		size_t n = span_eq(m->target, "/big") ? 4000000 : 6000000;

		big = xcalloc(1, n);
		memset(big, 'x', n);
		r.body = (struct span){big, n};
	}
	http_answer(q, &r);
}

static int setup(void **state)
{
	il_setup(state);
	al_server = al_serve(&il_lab, &quick, echo, NULL);
	return 0;
}

static void says(int fd, const char *until, const char *part)
{
	auto_free char *got = al_read(fd, until);

	ASSERT_HAS(got, part);
}

static void ends(int fd)
{
	auto_free char *got = al_read(fd, NULL);

	ASSERT_STR_EQ(got, "");
	close(fd);
}

static void still_well(void)
{
	al_expect(&il_lab, "GET", "/", NULL, 200, "GET / 0\n");
}

static void test_connection_is_reused_until_close(void **state)
{
	int fd = al_connect(&il_lab);

	(void)state;
	for (int i = 0; i < 3; i++) {
		al_send(fd, "DELETE /x HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
		says(fd, "3\n",
		     "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: "
		     "12\r\n\r\nDELETE /x 3\n");
	}
	al_send(fd, "GET /y HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
	says(fd, NULL, "Connection: close\r\n\r\nGET /y 0\n");
	close(fd);
}

static void test_head_request_and_http_1_0_client_are_answered(void **state)
{
	int fd = al_connect(&il_lab);

	(void)state;
	al_send(fd, "HEAD / HTTP/1.1\r\nHost: x\r\n\r\nGET /z HTTP/1.0\r\n\r\n");
	says(fd, NULL,
	     "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 9\r\n\r\n"
	     "HTTP/1.1 200 OK\r\n");
	close(fd);
}

/* A client may close its sending side and continue to read. */
static void test_half_closed_client_gets_its_responses(void **state)
{
	int fd = al_connect(&il_lab);

	(void)state;
	al_send(fd, "GET /a HTTP/1.1\r\nHost: x\r\n\r\nGET /b HTTP/1.1\r\nHost: x\r\n\r\n");
	shutdown(fd, SHUT_WR);
	says(fd, NULL, "GET /b 0\n");
	close(fd);
}

static void test_1000_pipelined_requests_do_not_starve_other_clients(void **state)
{
	int fd = al_connect(&il_lab), other = al_connect(&il_lab);
	struct buf b;
	char *got;
	size_t n = 0;

	(void)state;
	buf_init(&b, 1 << 20);
	for (int i = 0; i < 1000; i++)
		buf_printf(&b, "GET /%d HTTP/1.1\r\nHost: x\r\n%s\r\n", i,
			   i == 999 ? "Connection: close\r\n" : "");
	al_send(fd, b.p);
	/* Another client gets its response meanwhile; the time it takes is not asserted. */
	al_send(other, "GET /o HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
	says(other, NULL, "GET /o 0\n");
	close(other);
	got = al_read(fd, NULL);
	for (const char *p = got; (p = strstr(p, "HTTP/1.1 200 OK")); p++)
		n++;
	ASSERT_EQ(n, 1000);
	ASSERT_HAS(got, "GET /0 0\n");
	ASSERT_HAS(got, "GET /999 0\n");
	free(got);
	close(fd);
	buf_done(&b);
}

static void test_client_gets_100_continue(void **state)
{
	int fd = al_connect(&il_lab);

	(void)state;
	al_send(fd, "POST /c HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: "
		    "3\r\nConnection: close\r\n\r\n");
	says(fd, "\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n");
	al_send(fd, "abc");
	says(fd, NULL, "POST /c 3\n");
	close(fd);
}

/* --- slow clients --- */

static void test_slow_requests_expire(void **state)
{
	int silent = al_connect(&il_lab), slow = al_connect(&il_lab), body = al_connect(&il_lab);

	(void)state;
	al_send(body, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n");
	/* Single bytes do not extend the time limit. */
	for (int i = 0; i < 14; i++) {
		al_send(slow, i ? "x" : "G");
		al_send(body, "x");
		usleep(20000);
	}
	says(slow, NULL, "HTTP/1.1 408 Request Timeout\r\n");
	says(body, NULL, "{\"code\":408,\"message\":");
	ends(silent);
	close(slow);
	close(body);
	still_well();
}

/*
 * A head and a body that arrived in time are answered, although the server was busy with another
 * request until their time limit had passed.
 */
static void test_requests_that_arrived_in_time_are_answered_by_a_busy_server(void **state)
{
	int head = al_connect(&il_lab), body = al_connect(&il_lab), busy = al_connect(&il_lab);

	(void)state;
	al_send(head, "GET /head HTTP/1.1\r\n");
	al_send(body, "POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n");
	usleep(50 * 1000);
	al_send(busy, "GET /busy HTTP/1.1\r\nHost: x\r\n\r\n");
	usleep(20 * 1000);
	al_send(head, "Host: x\r\n\r\n");
	al_send(body, "abc");
	says(head, "0\n", "HTTP/1.1 200 OK\r\n");
	says(body, "3\n", "HTTP/1.1 200 OK\r\n");
	says(busy, "0\n", "HTTP/1.1 200 OK\r\n");
	close(head);
	close(body);
	close(busy);
}

static void test_idle_connection_is_closed_after_its_time_limit(void **state)
{
	int fd = al_connect(&il_lab);

	(void)state;
	al_send(fd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
	says(fd, "GET / 0\n", "200 OK");
	ends(fd);
}

/* The client requests megabytes and does not read. */
static void test_clients_that_do_not_read_are_disconnected(void **state)
{
	int fds[3];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		fds[i] = al_connect(&il_lab);
		al_send(fds[i], "GET /big HTTP/1.1\r\nHost: x\r\n\r\n");
	}
	still_well();
	usleep(400000);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		auto_free char *got = al_read(fds[i], NULL);

		assert_true(strlen(got) < 4000000);
		close(fds[i]);
	}
}

static void test_too_long_response_becomes_an_error(void **state)
{
	auto_free char *got = al_request(&il_lab, "GET", "/big", NULL);

	(void)state;
	assert_true(strlen(got) > 4000000);
	free(take(got));
	al_expect(&il_lab, "GET", "/too-big", NULL, 500,
		  "{\"code\":500,\"message\":\"the answer is too long\"}");
}

/* --- invalid requests, clients that disconnect in the middle of a request --- */

static void test_invalid_requests_get_an_error(void **state)
{
	static const char *const bad[] = {
		"\x16\x03\x01\x02\x00",
		"GET /\n\n",
		"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n"
		"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"GET / HTTP/2.0\r\n\r\n",
		"\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		int fd = al_connect(&il_lab);

		al_send(fd, bad[i]);
		says(fd, NULL, "Connection: close\r\n\r\n{\"code\":");
		close(fd);
	}
	still_well();
}

/* A refusal is sent even to a client that continues to write before it reads. */
static void test_client_that_still_writes_gets_its_refusal(void **state)
{
	int fd = al_connect(&il_lab);
	struct buf b;

	(void)state;
	buf_init(&b, 2 << 20);
	buf_str(&b, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1048577\r\n\r\n");
	while (b.len < 1 << 20)
		buf_str(&b, "0123456789abcdef0123456789abcdef");
	al_send(fd, b.p);
	buf_done(&b);
	says(fd, NULL, "HTTP/1.1 413 ");
	close(fd);
}

static void test_server_survives_a_client_that_disconnects_at_any_byte(void **state)
{
	static const char text[] = "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nabcd";

	(void)state;
	for (size_t n = 0; n < sizeof(text); n++) {
		int fd = al_connect(&il_lab);

		if (n > 0)
			ASSERT_EQ(send(fd, text, n, MSG_NOSIGNAL), n);
		if (n % 2)
			still_well();
		close(fd);
	}
	still_well();
}

/* --- more connections than the limit --- */

static void test_oldest_idle_connection_is_evicted(void **state)
{
	int fds[8];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		fds[i] = al_connect(&il_lab);
		al_send(fds[i], "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
		says(fds[i], "GET / 0\n", "200 OK");
	}
	for (size_t i = 0; i < 4; i++)
		ends(fds[i]);
	for (size_t i = 4; i < 8; i++) {
		al_send(fds[i], "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
		says(fds[i], "GET / 0\n", "200 OK");
		close(fds[i]);
	}
}

/* --- hostile clients that connect faster than grace periods end, on TCP; the test sets the
 * clock --- */

enum { QUEUE = 63, CROWD_MAX = 2000, CROWD_FOR_MS = 10 * 1000, WAIT_MAX_MS = 4000 };

static struct crowd {
	struct loop *loop;
	struct sockaddr_in at;
	int fds[CROWD_MAX], honest;
	size_t n;
	int64_t asked, answered;
} crowd;

static int crowd_connect(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	if (connect(fd, (const struct sockaddr *)&crowd.at, sizeof(crowd.at)) < 0)
		ASSERT_EQ(errno, EINPROGRESS);
	return fd;
}

/* Opens 20 connections a second. The server permits four open connections, each with a grace
 * period of a second. */
static void crowd_more(void *arg)
{
	(void)arg;
	assert_true(crowd.n < CROWD_MAX);
	crowd.fds[crowd.n++] = crowd_connect();
	loop_add_timer(crowd.loop, 50, crowd_more, NULL);
}

static void crowd_request(void *arg)
{
	static const char text[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

	(void)arg;
	crowd.honest = crowd_connect();
	crowd.asked = loop_now_ms(crowd.loop);
	ASSERT_EQ(send(crowd.honest, text, sizeof(text) - 1, MSG_NOSIGNAL), sizeof(text) - 1);
}

static void crowd_answer(void *arg, struct http_request *q)
{
	(void)arg;
	crowd.answered = loop_now_ms(crowd.loop);
	http_answer(q, &(struct http1_response){.status = 200, .type = "text/plain"});
	loop_stop(crowd.loop, 0);
}

static void crowd_stop(void *arg)
{
	(void)arg;
	loop_stop(crowd.loop, 0);
}

static void test_honest_client_is_served_beside_a_crowd_that_connects_fast(void **state)
{
	static const struct http_limits limits = {.max_conns = 4,
						  .first_ms = 100 * 1000,
						  .idle_ms = 100 * 1000,
						  .send_ms = 100 * 1000,
						  .grace_ms = 1000,
						  .anyone = true};
	socklen_t n = sizeof(crowd.at);
	struct http_server *s;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	(void)state;
	crowd = (struct crowd){.honest = -1};
	crowd.at = (struct sockaddr_in){.sin_family = AF_INET,
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	ASSERT_EQ(bind(fd, (const struct sockaddr *)&crowd.at, n), 0);
	ASSERT_EQ(getsockname(fd, (struct sockaddr *)&crowd.at, &n), 0);
	ASSERT_EQ(listen(fd, QUEUE), 0);
	ASSERT_EQ(loop_new(&crowd.loop, NULL), 0);
	loop_set_now(crowd.loop, 1000);
	ASSERT_EQ(http_server_new(&s, crowd.loop, fd, &limits, crowd_answer, NULL, NULL), 0);
	loop_add_timer(crowd.loop, 0, crowd_more, NULL);
	loop_add_timer(crowd.loop, CROWD_FOR_MS, crowd_request, NULL);
	loop_add_timer(crowd.loop, CROWD_FOR_MS + WAIT_MAX_MS, crowd_stop, NULL);
	loop_run(crowd.loop);
	assert_true(crowd.answered >= crowd.asked && crowd.asked > 0);
	http_server_free(s);
	loop_free(crowd.loop);
	for (size_t i = 0; i < crowd.n; i++)
		close(crowd.fds[i]);
	close(crowd.honest);
	close(fd);
}

/* A kubelet's probe can share its address with hostile clients: it connects before them and
 * sends its request after they have connected. */
static void test_new_connection_is_not_evicted_before_its_request(void **state)
{
	struct http_limits patient = quick;
	int first[3], more[50], probe;

	(void)state;
	patient.grace_ms = patient.first_ms = patient.idle_ms = 10 * 1000;
	al_stop(al_server);
	al_server = al_serve(&il_lab, &patient, echo, NULL);
	/* At the limit the server closes connections whose request was answered, even if an older
	 * connection (here the probe) has sent no request yet. */
	probe = al_connect(&il_lab);
	for (size_t i = 0; i < ARRAY_LEN(first); i++) {
		first[i] = al_connect(&il_lab);
		al_send(first[i], "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
		says(first[i], "GET / 0\n", "200 OK");
	}
	for (size_t i = 0; i < ARRAY_LEN(more); i++)
		more[i] = al_connect(&il_lab);
	for (size_t i = 0; i < ARRAY_LEN(first); i++)
		ends(first[i]);
	al_send(probe, "GET /probe HTTP/1.1\r\nHost: x\r\n\r\n");
	says(probe, "/probe 0\n", "200 OK");
	close(probe);
	for (size_t i = 0; i < ARRAY_LEN(more); i++)
		close(more[i]);
	still_well();
}

static void test_connection_beyond_the_limit_gets_503(void **state)
{
	int busy[4], more;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(busy); i++) {
		busy[i] = al_connect(&il_lab);
		al_send(busy[i], "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n");
	}
	more = al_connect(&il_lab);
	al_send(more, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
	says(more, NULL, "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n");
	close(more);
	for (size_t i = 0; i < ARRAY_LEN(busy); i++) {
		al_send(busy[i], "x");
		says(busy[i], "1\n", "POST / 1\n");
		close(busy[i]);
	}
	still_well();
}

static void test_server_survives_a_flood_of_connections(void **state)
{
	int fds[200];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		fds[i] = al_connect(&il_lab);
		send(fds[i], "GET", 3, MSG_NOSIGNAL);
	}
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		close(fds[i]);
	still_well();
}

static void test_server_without_descriptors_answers_503(void **state)
{
	struct rlimit few = {12, 12};
	struct http_limits many = HTTP_LIMITS_INIT;
	int fds[20];
	size_t refused = 0;

	(void)state;
	al_stop(al_server);
	al_server = al_serve(&il_lab, &many, echo, NULL);
	ASSERT_EQ(prlimit(al_server, RLIMIT_NOFILE, &few, NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		fds[i] = al_connect(&il_lab);
		al_send(fds[i], "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n");
	}
	/* Refused clients get 503, one after the other; accepted connections continue. */
	for (size_t i = ARRAY_LEN(fds); i-- > 0;) {
		auto_free char *got = NULL;

		al_send(fds[i], "x");
		got = al_read(fds[i], "\r\n\r\n");
		refused += strstr(got, "503 Service Unavailable") != NULL;
		assert_true(strstr(got, "503 ") || strstr(got, "200 OK"));
		close(fds[i]);
	}
	assert_true(refused > 0);
	still_well();
}

/* --- identity of the peer --- */

static void test_request_of_another_user_is_forbidden(void **state)
{
	char path[100];
	int status;
	pid_t pid;

	(void)state;
	snprintf(path, sizeof(path), "%s/sock", il_lab.dir);
	chmod(il_lab.dir, 0711);
	chmod(path, 0666);
	pid = fork();
	if (pid == 0) {
		auto_free char *got = NULL;

		if (setgid(65534) < 0 || setuid(65534) < 0)
			_exit(1);
		got = al_request(&il_lab, "GET", "/", NULL);
		_exit(strstr(got, "HTTP/1.1 403 Forbidden\r\n") &&
				      strstr(got, "{\"code\":403,\"message\":\"only root ")
			      ? 0
			      : 2);
	}
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	ASSERT_EQ(status, 0);
	still_well();
}

/* --- shutdown --- */

static struct http_server *drained;

static void on_drained(void *arg)
{
	loop_stop(arg, 7);
}

/* The request that answer_held() answers 100 ms after hold() has started the shutdown of the
 * server. */
static struct http_request *held;

static void answer_held(void *arg)
{
	(void)arg;
	http_answer(held, &(struct http1_response){.status = 200, .body = span_of("late")});
}

static void hold(void *arg, struct http_request *q)
{
	struct loop *l = arg;

	held = q;
	http_server_drain(drained, 2000, on_drained, l);
	loop_add_timer(l, 100, answer_held, l);
}

/* Starts a server in a child process, which exits with status 7 once the server is drained;
 * returns its pid. */
static pid_t start_to_end(http_handler handle)
{
	int at = al_listen(&il_lab);
	struct http_limits limits = HTTP_LIMITS_INIT;
	struct loop *l;
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (loop_new(&l, NULL) < 0 ||
		    http_server_new(&drained, l, at, &limits, handle, l, NULL) < 0)
			_exit(1);
		_exit(loop_run(l));
	}
	close(at);
	return pid;
}

static void ends_well(pid_t pid)
{
	int status;

	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	ASSERT_EQ(WEXITSTATUS(status), 7);
}

static void test_drain_completes_pending_requests(void **state)
{
	pid_t pid = start_to_end(hold);
	int idle, asking;

	(void)state;
	idle = al_connect(&il_lab);
	asking = al_connect(&il_lab);
	al_send(asking, "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n");
	says(asking, NULL, "Connection: close\r\n\r\nlate");
	close(asking);
	ends(idle);
	ends_well(pid);
}

/* --- requests during a shutdown --- */

static void handle_going(void *arg, struct http_request *q)
{
	struct span target = http_request_msg(q)->target;

	if (target.n == 5) { /* "/away" */
		http_server_reject(drained);
	} else if (target.n == 6) { /* "/drain" */
		/* a request that arrives during this pause was sent before the shutdown */
		usleep(300 * 1000);
		http_server_drain(drained, 2000, on_drained, arg);
	}
	http_answer(q, &(struct http1_response){.status = 200, .body = span_of("good")});
}

#define LAST "Connection: close\r\n\r\ngood"
#define MORE "Content-Length: 4\r\n\r\ngood"

static void test_requests_during_shutdown_are_answered_and_close_their_connection(void **state)
{
	int a, b, c, d;
	pid_t pid = start_to_end(handle_going);

	(void)state;
	a = al_connect(&il_lab);
	al_send(a, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
	says(a, "\r\n\r\ngood", MORE);
	b = al_connect(&il_lab);
	al_send(b, "GET /away HTTP/1.1\r\nHost: x\r\n\r\n");
	says(b, NULL, LAST);
	ends(b);
	c = al_connect(&il_lab);
	al_send(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
	says(c, NULL, LAST);
	ends(c);
	d = al_connect(&il_lab);
	al_send(d, "GET /drain HTTP/1.1\r\nHost: x\r\n\r\n");
	usleep(100 * 1000);
	al_send(a, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
	says(d, NULL, LAST);
	ends(d);
	says(a, NULL, LAST);
	ends(a);
	ends_well(pid);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, al_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_connection_is_reused_until_close),
		TEST(test_head_request_and_http_1_0_client_are_answered),
		TEST(test_half_closed_client_gets_its_responses),
		TEST(test_1000_pipelined_requests_do_not_starve_other_clients),
		TEST(test_client_gets_100_continue),
		TEST(test_slow_requests_expire),
		TEST(test_requests_that_arrived_in_time_are_answered_by_a_busy_server),
		TEST(test_idle_connection_is_closed_after_its_time_limit),
		TEST(test_clients_that_do_not_read_are_disconnected),
		TEST(test_too_long_response_becomes_an_error),
		TEST(test_invalid_requests_get_an_error),
		TEST(test_client_that_still_writes_gets_its_refusal),
		TEST(test_server_survives_a_client_that_disconnects_at_any_byte),
		TEST(test_oldest_idle_connection_is_evicted),
		TEST(test_new_connection_is_not_evicted_before_its_request),
		TEST(test_connection_beyond_the_limit_gets_503),
		TEST(test_server_survives_a_flood_of_connections),
		TEST(test_server_without_descriptors_answers_503),
		TEST(test_request_of_another_user_is_forbidden),
		TEST(test_drain_completes_pending_requests),
		TEST(test_requests_during_shutdown_are_answered_and_close_their_connection),
		TEST(test_honest_client_is_served_beside_a_crowd_that_connects_fast),
	};

	return T_RUN(tests, NULL, NULL);
}
