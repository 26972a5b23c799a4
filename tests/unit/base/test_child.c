/* SPDX-License-Identifier: Apache-2.0 */
/* Child processes supervised by the loop. */
#include "testlib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child.h"

/* true: kill() below, which replaces that of libc, sends no signal. The child then behaves like
 * one in uninterruptible sleep, which SIGKILL does not end. */
static bool is_unkillable;

int kill(pid_t pid, int sig)
{
	return is_unkillable ? 0 : (int)syscall(SYS_kill, pid, sig);
}

struct seen {
	int times, status, code;
	char out[256], error[256];
};

static void done(void *arg, int status, struct span out, const struct err *e)
{
	struct seen *s = arg;

	s->times++;
	s->status = status;
	s->code = e ? e->code : 0;
	snprintf(s->out, sizeof(s->out), "%.*s", (int)out.n, out.p ? out.p : "");
	str_copy(s->error, sizeof(s->error), e ? e->text : "");
}

/* --- a child that SIGKILL does not end --- */

struct unkillable {
	struct loop *l;
	struct child *c;
	struct seen seen;
	int release[2];
	int64_t began, ended;
	bool is_cancelled;
};

static int wait_for_release(void *arg)
{
	const struct unkillable *u = arg;
	char c;

	close(u->release[1]);
	return read(u->release[0], &c, 1) < 0;
}

static void on_released(void *arg)
{
	struct unkillable *u = arg;

	/* The loop continued, and the child still runs. */
	ASSERT_EQ(u->seen.times, 1);
	ASSERT_EQ(waitpid(-1, NULL, WNOHANG), 0);
	if (u->is_cancelled) {
		int64_t began = now_mono_ms();

		child_cancel(u->c);
		assert_true(now_mono_ms() - began < 5000);
	}
	close(u->release[1]);
}

static void done_late(void *arg, int status, struct span out, const struct err *e)
{
	struct unkillable *u = arg;

	done(&u->seen, status, out, e);
	loop_add_timer(u->l, 50, on_released, u);
}

static void on_ended(void *arg)
{
	((struct unkillable *)arg)->ended++;
}

static void run_unkillable(struct unkillable *u, bool is_cancelled)
{
	const struct child_conf c = {wait_for_release, u, 20, 16, on_ended};

	*u = (struct unkillable){.is_cancelled = is_cancelled};
	is_unkillable = true;
	ASSERT_EQ(pipe(u->release), 0);
	ASSERT_EQ(loop_new(&u->l, NULL), 0);
	ASSERT_EQ(child_start(&u->c, u->l, &c, done_late, u, NULL), 0);
	loop_run(u->l);
	loop_free(u->l);
	close(u->release[0]);
	is_unkillable = false;
	ASSERT_EQ(u->seen.times, 1);
	ASSERT_EQ(u->seen.code, -ETIMEDOUT);
}

/* The timeout is reported in time, the loop continues, and the child is reaped when it ends. */
static void test_timeout_of_an_unkillable_child_is_reported_in_time(void **state)
{
	struct unkillable u;

	(void)state;
	run_unkillable(&u, false);
	ASSERT_EQ(u.ended, 1);
	ASSERT_EQ(waitpid(-1, NULL, WNOHANG), -1);
}

static void test_end_of_a_cancelled_unkillable_child_is_not_reported(void **state)
{
	struct unkillable u;

	(void)state;
	run_unkillable(&u, true);
	ASSERT_EQ(u.ended, 0);
	assert_true(waitpid(-1, NULL, 0) > 0);
}

static struct seen run(int (*fn)(void *), void *arg, int timeout_ms, size_t max)
{
	struct seen s = {0};
	struct child *c;
	struct loop *l;

	ASSERT_EQ(loop_new(&l, NULL), 0);
	ASSERT_EQ(child_start(&c, l, &(struct child_conf){fn, arg, timeout_ms, max, NULL}, done, &s,
			      NULL),
		  0);
	loop_run(l);
	loop_free(l);
	ASSERT_EQ(s.times, 1);
	/* No child is left to wait for. */
	ASSERT_EQ(waitpid(-1, NULL, WNOHANG), -1);
	return s;
}

static int say(void *arg)
{
	size_t n = strlen(arg);

	return write(STDOUT_FILENO, arg, n) == (ssize_t)n ? 3 : 4;
}

static int sleep_long(void *arg)
{
	(void)arg;
	say("before ");
	sleep(60);
	return 0;
}

static int die(void *arg)
{
	(void)arg;
	signal(SIGTERM, SIG_DFL);
	raise(SIGTERM);
	return 0;
}

static int read_input(void *arg)
{
	char c;

	(void)arg;
	return read(STDIN_FILENO, &c, 1) == 0 ? 0 : 1;
}

static void test_output_and_exit_status_of_a_child_are_returned(void **state)
{
	struct seen s = run(say, "hello", 10000, 100);

	(void)state;
	ASSERT_STR_EQ(s.out, "hello");
	ASSERT_EQ(s.status, 3);
	ASSERT_EQ(s.code, 0);
	ASSERT_EQ(run(read_input, NULL, 10000, 100).status, 0);
}

static void test_timeout_and_fatal_signal_and_excess_output_of_a_child_are_errors(void **state)
{
	struct seen s = run(sleep_long, NULL, 50, 100);

	(void)state;
	ASSERT_EQ(s.code, -ETIMEDOUT);
	s = run(die, NULL, 10000, 100);
	ASSERT_EQ(s.code, -EINTR);
	ASSERT_STR_EQ(s.error, "signal 15 ended the child process");
	s = run(say, "longer than that", 10000, 4);
	ASSERT_EQ(s.code, -EFBIG);
}

static void test_cancelled_child_is_reaped_without_a_callback(void **state)
{
	struct seen s = {0};
	struct child *c;
	struct loop *l;

	(void)state;
	ASSERT_EQ(loop_new(&l, NULL), 0);
	ASSERT_EQ(child_start(&c, l, &(struct child_conf){sleep_long, NULL, 60000, 100, NULL}, done,
			      &s, NULL),
		  0);
	child_cancel(c);
	ASSERT_EQ(loop_run(l), 0);
	ASSERT_EQ(s.times, 0);
	ASSERT_EQ(waitpid(-1, NULL, WNOHANG), -1);
	loop_free(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_output_and_exit_status_of_a_child_are_returned),
		cmocka_unit_test(
			test_timeout_and_fatal_signal_and_excess_output_of_a_child_are_errors),
		cmocka_unit_test(test_cancelled_child_is_reaped_without_a_callback),
		cmocka_unit_test(test_timeout_of_an_unkillable_child_is_reported_in_time),
		cmocka_unit_test(test_end_of_a_cancelled_unkillable_child_is_not_reported),
	};

	return T_RUN(tests, NULL, NULL);
}
