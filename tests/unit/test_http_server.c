/* SPDX-License-Identifier: Apache-2.0 */
/* Connections: slow, hostile, too many, cut off. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
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
#include "base/log.h"

static struct ipam_lab lab;
static pid_t server;

static const struct http_limits quick = {.max_conns = 4,
					 .first_ms = 100,
					 .body_ms = 150,
					 .idle_ms = 200,
					 .send_ms = 200};

/* "METHOD TARGET LENGTH"; /big has 4 MB. */
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
	(void)state;
	log_threshold = LOG_NONE;
	il_make(&lab);
	server = al_serve(&lab, &quick, echo);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	al_stop(server);
	il_drop(&lab);
	return 0;
}

static void says(int fd, const char *until, const char *part)
{
	auto_free char *got = al_read(fd, until);

	assert_has(got, part);
}

static void ends(int fd)
{
	auto_free char *got = al_read(fd, NULL);

	assert_string_equal(got, "");
	close(fd);
}

static void still_well(void)
{
	al_expect(&lab, "GET", "/", NULL, 200, "GET / 0\n");
}

static void test_keep_alive(void **state)
{
	int fd = al_connect(&lab);

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

static void test_head_and_old_clients(void **state)
{
	int fd = al_connect(&lab);

	(void)state;
	al_send(fd, "HEAD / HTTP/1.1\r\nHost: x\r\n\r\nGET /z HTTP/1.0\r\n\r\n");
	says(fd, NULL,
	     "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 9\r\n\r\n"
	     "HTTP/1.1 200 OK\r\n");
	close(fd);
}

/* A client may close its sending side and still read. */
static void test_half_closed(void **state)
{
	int fd = al_connect(&lab);

	(void)state;
	al_send(fd, "GET /a HTTP/1.1\r\nHost: x\r\n\r\nGET /b HTTP/1.1\r\nHost: x\r\n\r\n");
	shutdown(fd, SHUT_WR);
	says(fd, NULL, "GET /b 0\n");
	close(fd);
}

static void test_pipeline(void **state)
{
	int fd = al_connect(&lab), other = al_connect(&lab);
	struct buf b;
	char *got;
	size_t n = 0;

	(void)state;
	buf_init(&b, 1 << 20);
	for (int i = 0; i < 1000; i++)
		buf_printf(&b, "GET /%d HTTP/1.1\r\nHost: x\r\n%s\r\n", i,
			   i == 999 ? "Connection: close\r\n" : "");
	al_send(fd, b.p);
	/*
	 * Another client gets its response meanwhile; how soon is not asserted.
	 */
	al_send(other, "GET /o HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
	says(other, NULL, "GET /o 0\n");
	close(other);
	got = al_read(fd, NULL);
	for (const char *p = got; (p = strstr(p, "HTTP/1.1 200 OK")); p++)
		n++;
	assert_int_equal(n, 1000);
	assert_has(got, "GET /0 0\n");
	assert_has(got, "GET /999 0\n");
	free(got);
	close(fd);
	buf_done(&b);
}

static void test_continue(void **state)
{
	int fd = al_connect(&lab);

	(void)state;
	al_send(fd, "POST /c HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: "
		    "3\r\nConnection: close\r\n\r\n");
	says(fd, "\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n");
	al_send(fd, "abc");
	says(fd, NULL, "POST /c 3\n");
	close(fd);
}

/* --- slow --- */

static void test_slow_heads(void **state)
{
	int silent = al_connect(&lab), slow = al_connect(&lab), body = al_connect(&lab);

	(void)state;
	al_send(body, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n");
	/* A byte now and then does not extend the time limit. */
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

/* A head and a body that arrive in time are answered, although the server was busy with another
 * request until their time was over. */
static void test_server_is_late(void **state)
{
	int head = al_connect(&lab), body = al_connect(&lab), busy = al_connect(&lab);

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

static void test_idle_connection_ends(void **state)
{
	int fd = al_connect(&lab);

	(void)state;
	al_send(fd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
	says(fd, "GET / 0\n", "200 OK");
	ends(fd);
}

/* The client requests megabytes and reads none. */
static void test_reader_that_does_not_read(void **state)
{
	int fds[3];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		fds[i] = al_connect(&lab);
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

static void test_big_answers(void **state)
{
	auto_free char *got = al_ask(&lab, "GET", "/big", NULL);

	(void)state;
	assert_true(strlen(got) > 4000000);
	free(take(got));
	al_expect(&lab, "GET", "/too-big", NULL, 500,
		  "{\"code\":500,\"message\":\"the answer is too long\"}");
}

/* --- hostile --- */

static void test_rubbish(void **state)
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
		int fd = al_connect(&lab);

		al_send(fd, bad[i]);
		says(fd, NULL, "Connection: close\r\n\r\n{\"code\":");
		close(fd);
	}
	still_well();
}

/* A refusal is sent even to a client that writes on before it reads. */
static void test_refused_while_writing(void **state)
{
	int fd = al_connect(&lab);
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

static void test_client_disconnects_at_any_byte(void **state)
{
	static const char text[] = "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nabcd";

	(void)state;
	for (size_t n = 0; n < sizeof(text); n++) {
		int fd = al_connect(&lab);

		if (n > 0)
			assert_int_equal(send(fd, text, n, MSG_NOSIGNAL), n);
		if (n % 2)
			still_well();
		close(fd);
	}
	still_well();
}

/* --- too many --- */

static void test_oldest_idle_gives_way(void **state)
{
	int fds[8];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		fds[i] = al_connect(&lab);
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

/*
 * As a kubelet's probe from an address shared with strangers: connected before them, request sent
 * after them.
 */
static void test_a_new_connection_has_time_to_ask(void **state)
{
	struct http_limits patient = quick;
	int first[3], more[50], probe;

	(void)state;
	patient.grace_ms = patient.first_ms = patient.idle_ms = 10 * 1000;
	al_stop(server);
	server = al_serve(&lab, &patient, echo);
	/* Connections that have their response are closed first, in any order of connecting. */
	probe = al_connect(&lab);
	for (size_t i = 0; i < ARRAY_LEN(first); i++) {
		first[i] = al_connect(&lab);
		al_send(first[i], "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
		says(first[i], "GET / 0\n", "200 OK");
	}
	for (size_t i = 0; i < ARRAY_LEN(more); i++)
		more[i] = al_connect(&lab);
	for (size_t i = 0; i < ARRAY_LEN(first); i++)
		ends(first[i]);
	al_send(probe, "GET /probe HTTP/1.1\r\nHost: x\r\n\r\n");
	says(probe, "/probe 0\n", "200 OK");
	close(probe);
	for (size_t i = 0; i < ARRAY_LEN(more); i++)
		close(more[i]);
	still_well();
}

static void test_limit_of_busy_connections(void **state)
{
	int busy[4], more;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(busy); i++) {
		busy[i] = al_connect(&lab);
		al_send(busy[i], "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n");
	}
	more = al_connect(&lab);
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

static void test_flood(void **state)
{
	int fds[200];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		fds[i] = al_connect(&lab);
		send(fds[i], "GET", 3, MSG_NOSIGNAL);
	}
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		close(fds[i]);
	still_well();
}

static void test_no_descriptors(void **state)
{
	struct rlimit few = {12, 12};
	struct http_limits many = HTTP_LIMITS_INIT;
	int fds[20];
	size_t told = 0;

	(void)state;
	al_stop(server);
	server = al_serve(&lab, &many, echo);
	assert_int_equal(prlimit(server, RLIMIT_NOFILE, &few, NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		fds[i] = al_connect(&lab);
		al_send(fds[i], "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n");
	}
	/* Rejected clients get an error, one after the other; accepted ones continue. */
	for (size_t i = ARRAY_LEN(fds); i-- > 0;) {
		auto_free char *got = NULL;

		al_send(fds[i], "x");
		got = al_read(fds[i], "\r\n\r\n");
		told += strstr(got, "503 Service Unavailable") != NULL;
		assert_true(strstr(got, "503 ") || strstr(got, "200 OK"));
		close(fds[i]);
	}
	assert_true(told > 0);
	still_well();
}

/* --- identity of the peer --- */

static void test_other_user(void **state)
{
	char path[100];
	int status;
	pid_t pid;

	(void)state;
	snprintf(path, sizeof(path), "%s/sock", lab.dir);
	chmod(lab.dir, 0711);
	chmod(path, 0666);
	pid = fork();
	if (pid == 0) {
		auto_free char *got = NULL;

		if (setgid(65534) < 0 || setuid(65534) < 0)
			_exit(1);
		got = al_ask(&lab, "GET", "/", NULL);
		_exit(strstr(got, "HTTP/1.1 403 Forbidden\r\n") &&
				      strstr(got, "{\"code\":403,\"message\":\"only root ")
			      ? 0
			      : 2);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	still_well();
}

/* --- the end --- */

static struct http_server *drained;

static void on_drained(void *arg)
{
	loop_stop(arg, 7);
}

/* A request starts the shutdown and is answered 100 ms later. */
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

/* A server that exits with status 7 once it is drained. */
static pid_t start_to_end(http_handler handle)
{
	int at = al_listen(&lab);
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

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WEXITSTATUS(status), 7);
}

static void test_drain(void **state)
{
	pid_t pid = start_to_end(hold);
	int idle, asking;

	(void)state;
	idle = al_connect(&lab);
	asking = al_connect(&lab);
	al_send(asking, "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n");
	says(asking, NULL, "Connection: close\r\n\r\nlate");
	close(asking);
	ends(idle);
	ends_well(pid);
}

/* --- an unnoticed disconnect --- */

static void handle_going(void *arg, struct http_request *q)
{
	struct span target = http_request_msg(q)->target;

	if (target.n == 5) { /* "/away" */
		http_server_reject(drained);
	} else if (target.n == 6) { /* "/drain" */
		usleep(300 *
		       1000); /* a request that arrives meanwhile was sent to a running server */
		http_server_drain(drained, 2000, on_drained, arg);
	}
	http_answer(q, &(struct http1_response){.status = 200, .body = span_of("good")});
}

#define LAST "Connection: close\r\n\r\ngood"
#define MORE "Content-Length: 4\r\n\r\ngood"

static void test_rejected_during_shutdown(void **state)
{
	int a, b, c, d;
	pid_t pid = start_to_end(handle_going);

	(void)state;
	a = al_connect(&lab);
	al_send(a, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
	says(a, "\r\n\r\ngood", MORE);
	b = al_connect(&lab);
	al_send(b, "GET /away HTTP/1.1\r\nHost: x\r\n\r\n");
	says(b, NULL, LAST);
	ends(b);
	c = al_connect(&lab);
	al_send(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
	says(c, NULL, LAST);
	ends(c);
	d = al_connect(&lab);
	al_send(d, "GET /drain HTTP/1.1\r\nHost: x\r\n\r\n");
	usleep(100 * 1000);
	al_send(a, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
	says(d, NULL, LAST);
	ends(d);
	says(a, NULL, LAST);
	ends(a);
	ends_well(pid);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_keep_alive),
		TEST(test_head_and_old_clients),
		TEST(test_half_closed),
		TEST(test_pipeline),
		TEST(test_continue),
		TEST(test_slow_heads),
		TEST(test_server_is_late),
		TEST(test_idle_connection_ends),
		TEST(test_reader_that_does_not_read),
		TEST(test_big_answers),
		TEST(test_rubbish),
		TEST(test_refused_while_writing),
		TEST(test_client_disconnects_at_any_byte),
		TEST(test_oldest_idle_gives_way),
		TEST(test_a_new_connection_has_time_to_ask),
		TEST(test_limit_of_busy_connections),
		TEST(test_flood),
		TEST(test_no_descriptors),
		TEST(test_other_user),
		TEST(test_drain),
		TEST(test_rejected_during_shutdown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
