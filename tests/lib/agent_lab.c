/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/api/api.h"
#include "agent_lab.h"
#include "base/alloc.h"
#include "base/log.h"

enum { ANSWER_MAX = 4 << 20, WAIT_S = 10 };

static struct sockaddr_un address(const struct ipam_lab *l)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	snprintf(a.sun_path, sizeof(a.sun_path), "%s/sock", l->dir);
	return a;
}

int al_listen(const struct ipam_lab *l)
{
	struct sockaddr_un a = address(l);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	unlink(a.sun_path);
	ASSERT_EQ(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	ASSERT_EQ(listen(fd, 128), 0);
	return fd;
}

static void run(int fd, struct loop *loop, const struct http_limits *limits, http_handler handle,
		void *arg, void (*start)(struct http_server *s, struct loop *loop))
{
	struct http_server *s;

	if (http_server_new(&s, loop, fd, limits, handle, arg, NULL) < 0)
		_exit(1);
	if (start)
		start(s, loop);
	loop_run(loop);
	_exit(0);
}

static const struct http_limits *limits_or(const struct http_limits *l)
{
	static const struct http_limits defaults = HTTP_LIMITS_INIT;

	return l ? l : &defaults;
}

pid_t al_serve(const struct ipam_lab *l, const struct http_limits *limits, http_handler handle,
	       void (*start)(struct http_server *s, struct loop *loop))
{
	int fd = al_listen(l);
	pid_t pid = fork();
	struct loop *loop;

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		log_threshold = LOG_NONE;
		if (loop_new(&loop, NULL) == 0)
			run(fd, loop, limits_or(limits), handle, NULL, start);
		_exit(1);
	}
	close(fd);
	return pid;
}

pid_t al_serve_ipam(const struct ipam_lab *l, const struct http_limits *limits,
		    void (*more)(struct ipam_api_conf *c))
{
	struct ipam_api_conf c = {
		.root = &l->root, .paths = l->paths, .settings = "/etc/agent.conf"};
	int fd = al_listen(l);
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		log_threshold = LOG_NONE;
		if (loop_new(&c.loop, NULL) < 0)
			_exit(1);
		if (more)
			more(&c);
		run(fd, c.loop, limits_or(limits), ipam_api_handle, ipam_api_new(&c), NULL);
	}
	close(fd);
	return pid;
}

/* --- fake of Spiderpool's agent --- */

static int original_status;
static const char *original_add, *original_log;

static void original_record(const struct http1_msg *m)
{
	int fd = open(original_log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

	dprintf(fd, "%.*s %.*s %.*s\n", (int)m->method.n, m->method.p, (int)m->target.n,
		m->target.p, (int)m->body.n, m->body.p);
	close(fd);
}

static void original(void *arg, struct http_request *q)
{
	const struct http1_msg *m = http_request_msg(q);
	struct http1_response r = {.status = 200, .type = "application/json"};

	(void)arg;
	original_record(m);
	if (span_has_prefix(m->target, "/v1/unirail")) {
		http_answer_error(q, 404, 404, "path /v1/unirail/pods/plan was not found");
		return;
	}
	if (span_eq(m->target, "/v1/ipam/ip") && span_eq(m->method, "POST")) {
		r.status = original_status;
		r.body = span_of(original_add);
	} else if (span_has_prefix(m->target, "/v1/ipam/ip") && original_status == 599) {
		r.status = 500;
		r.body = span_of("\"failed to release\"\n");
	}
	http_answer(q, &r);
}

pid_t al_serve_original(const struct ipam_lab *l, int status, const char *add)
{
	char log[100];

	snprintf(log, sizeof(log), "%s/asked", l->dir);
	unlink(log);
	original_status = status;
	original_add = add;
	original_log = log;
	return al_serve(l, NULL, original, NULL);
}

void al_stop(pid_t pid)
{
	int status;

	kill(pid, SIGKILL);
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	/* SIGKILL ended the child: it had not exited before */
	assert_true(WIFSIGNALED(status));
}

pid_t al_server;

int al_teardown(void **state)
{
	if (al_server)
		al_stop(al_server);
	al_server = 0;
	return il_teardown(state);
}

/* --- client --- */

int al_connect(const struct ipam_lab *l)
{
	const struct timeval wait = {.tv_sec = WAIT_S};
	struct sockaddr_un a = address(l);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ASSERT_EQ(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	return fd;
}

void al_send(int fd, const char *text)
{
	size_t n = strlen(text);

	while (n > 0) {
		ssize_t done = send(fd, text, n, MSG_NOSIGNAL);

		if (done <= 0)
			/* the server closed its reading end; its response can still be read */
			return;
		text += done;
		n -= (size_t)done;
	}
}

char *al_read(int fd, const char *until)
{
	struct buf b;
	char in[4096];
	ssize_t n;

	buf_init(&b, ANSWER_MAX);
	buf_str(&b, "");
	while (!(until && b.len && strstr(b.p, until))) {
		n = recv(fd, in, sizeof(in), 0);
		if (n < 0 && errno == EAGAIN)
			fail_msg("no complete answer in time; received: %s", b.len ? b.p : "");
		if (n <= 0)
			break;
		buf_add(&b, in, (size_t)n);
	}
	if (!b.len)
		buf_add(&b, "", 1);
	return buf_take(&b);
}

void al_send_request(int fd, const char *method, const char *target, const char *body)
{
	struct http1_request r = {method, target, body ? "application/json" : NULL, span_of(body)};
	struct buf b;

	buf_init(&b, ANSWER_MAX);
	http1_put_request(&b, &r);
	al_send(fd, b.p);
	buf_done(&b);
}

char *al_request(const struct ipam_lab *l, const char *method, const char *target, const char *body)
{
	int fd = al_connect(l);
	char *answer;

	al_send_request(fd, method, target, body);
	answer = al_read(fd, NULL);
	close(fd);
	return answer;
}

void al_expect(const struct ipam_lab *l, const char *method, const char *target, const char *body,
	       int status, const char *answer)
{
	auto_free char *got = al_request(l, method, target, body);
	const char *text = strstr(got, "\r\n\r\n");

	if (strlen(got) < 12 || atoi(got + 9) != status || !text || strcmp(text + 4, answer) != 0)
		fail_msg("%s %s %s:\n%s\ninstead of %d\n%s", method, target, body ? body : "", got,
			 status, answer);
}
