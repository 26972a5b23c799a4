/* SPDX-License-Identifier: Apache-2.0 */
#include "base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"

struct child {
	struct loop *loop;
	pid_t pid;
	int out, pidfd;
	struct loop_fd *watch_out, *watch_end;
	struct loop_timer *timer;
	struct buf b;
	child_done_fn
		/* callback; NULL after the timeout, when it has been called and the child was
		 * killed */
		done;
	void (*ended)(void *arg);
	void *arg;
};

enum { CANCEL_MS = 100 };

static int reap(struct child *c)
{
	int status = 0;

	while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

static void child_free(struct child *c)
{
	loop_del_fd(c->watch_out);
	loop_del_fd(c->watch_end);
	loop_del_timer(c->timer);
	cleanup_fd(&c->out);
	cleanup_fd(&c->pidfd);
	buf_done(&c->b);
	free(c);
}

/* Reads the available output; returns false at its end. */
static bool drain(struct child *c)
{
	char chunk[4096];
	ssize_t n;

	while ((n = read(c->out, chunk, sizeof(chunk))) > 0 || (n < 0 && errno == EINTR))
		if (n > 0)
			buf_add(&c->b, chunk, (size_t)n);
	return n < 0;
}

static void finish(struct child *c)
{
	struct err e = ERR_INIT;
	int status = reap(c);

	if (c->b.over)
		err_set(&e, -EFBIG, "the child process wrote more than %zu bytes", c->b.max);
	else if (WIFSIGNALED(status))
		err_set(&e, -EINTR, "signal %d ended the child process", WTERMSIG(status));
	c->done(c->arg, WEXITSTATUS(status), buf_span(&c->b), e.code ? &e : NULL);
	child_free(c);
}

static void on_out(void *arg, uint32_t events)
{
	struct child *c = arg;

	(void)events;
	if (drain(c))
		return;
	/* the output has ended, so the loop only waits for the end of the child */
	loop_del_fd(c->watch_out);
	c->watch_out = NULL;
}

static void on_end(void *arg, uint32_t events)
{
	struct child *c = arg;

	(void)events;
	if (c->done) {
		drain(c);
		finish(c);
		return;
	}
	reap(c);
	if (c->ended)
		c->ended(c->arg);
	child_free(c);
}

static void on_timer(void *arg)
{
	struct child *c = arg;
	struct err e = ERR_INIT;

	child_done_fn done = c->done;

	c->timer = NULL;
	kill(c->pid, SIGKILL);
	loop_del_fd(c->watch_out);
	c->watch_out = NULL;
	c->done = NULL;
	err_kind(&e, ERR_AGAIN, -ETIMEDOUT,
		 "the child process exceeded its timeout and was killed");
	/* done() may cancel the child, so c is not used afterwards */
	done(c->arg, 0, buf_span(&c->b), &e);
}

void child_close_others(void)
{
	enum { GAP = 256 };

	for (int fd = STDERR_FILENO + 1, gap = 0; gap < GAP; fd++)
		gap = close(fd) < 0 ? gap + 1 : 0;
}

bool child_put(const void *p, size_t n)
{
	for (size_t done = 0; done < n;) {
		ssize_t r = write(STDOUT_FILENO, (const char *)p + done, n - done);

		if (r < 0 && errno != EINTR)
			return false;
		done += r > 0 ? (size_t)r : 0;
	}
	return true;
}

static void become(const struct child_conf *conf, int out)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	if (null >= 0)
		dup2(null, STDIN_FILENO);
	dup2(out, STDOUT_FILENO);
	_exit(conf->run(conf->run_arg));
}

static int watch(struct child *c, struct err *e)
{
	int r;

	c->pidfd = (int)syscall(SYS_pidfd_open, c->pid, 0);
	if (c->pidfd < 0)
		return err_sys(e, -errno, "pidfd_open");
	r = loop_add_fd(c->loop, c->out, EPOLLIN, on_out, c, &c->watch_out, e);
	if (r == 0)
		r = loop_add_fd(c->loop, c->pidfd, EPOLLIN, on_end, c, &c->watch_end, e);
	return r;
}

int child_start(struct child **ret, struct loop *l, const struct child_conf *conf,
		child_done_fn done, void *arg, struct err *e)
{
	auto_fd int in = -1;
	struct child *c;
	int p[2], r;
	pid_t pid;

	if (pipe2(p, O_CLOEXEC | O_NONBLOCK) < 0)
		return err_sys(e, -errno, "pipe2");
	in = p[1];
	fcntl(in, F_SETFL, 0);
	pid = fork();
	if (pid == 0)
		become(conf, in);
	c = xcalloc(1, sizeof(*c));
	*c = (struct child){.loop = l,
			    .pid = pid,
			    .out = p[0],
			    .pidfd = -1,
			    .done = done,
			    .ended = conf->ended,
			    .arg = arg};
	buf_init(&c->b, conf->max);
	r = pid < 0 ? err_sys(e, -errno, "fork") : watch(c, e);
	if (r < 0) {
		if (pid > 0)
			child_cancel(c);
		else
			child_free(c);
		return r;
	}
	c->timer = loop_add_timer(l, conf->timeout_ms, on_timer, c);
	*ret = c;
	return 0;
}

void child_cancel(struct child *c)
{
	struct pollfd end;
	int n = 1;

	if (!c)
		return;
	kill(c->pid, SIGKILL);
	end = (struct pollfd){.fd = c->pidfd, .events = POLLIN};
	if (c->pidfd >= 0)
		do
			n = poll(&end, 1, CANCEL_MS);
		while (n < 0 && errno == EINTR);
	if (n > 0)
		reap(c);
	child_free(c);
}
