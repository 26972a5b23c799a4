/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/webhook/trials.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/child.h"

enum { TRIALS_MAX = 2, OUT_MAX = 64 };

struct trial {
	struct trials *t;
	void (*run)(void *arg);
	void (*done)(void *arg, const struct err *cause);
	void *arg;
	struct child *child; /* NULL: waiting */
	struct loop_timer *timer;
	int64_t until_ms;
	struct trial *prev, *next;
};

struct trials {
	struct loop *loop;
	struct trial *first, *last; /* in order of arrival */
	int running;
	/* descriptor of /proc/self/statm; opened at start, because the sandbox hides /proc */
	int statm;
};

static void next(struct trials *t);

/* --- functions of the child process --- */

/* Limits the address space to the current size plus TRIAL_MEMORY. */
static void limit_memory(const struct trials *t)
{
#ifndef __SANITIZE_ADDRESS__
	char text[64] = "";
	struct rlimit r;
	long pages = 0;

	if (pread(t->statm, text, sizeof(text) - 1, 0) > 0 && sscanf(text, "%ld", &pages) == 1) {
		r.rlim_cur = r.rlim_max =
			(rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + TRIAL_MEMORY;
		setrlimit(RLIMIT_AS, &r);
	}
#else
	(void)t;
#endif
}

static int run_in_child(void *arg)
{
	const struct trial *x = arg;
	const struct itimerval budget = {
		.it_value = {TRIAL_CPU_MS / 1000, TRIAL_CPU_MS % 1000 * 1000}};
	const struct rlimit none = {0, 0};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_DUMPABLE, 0);
	setrlimit(RLIMIT_CORE, &none);
	limit_memory(x->t);
	/* SIGPROF kills the child when its CPU time is used up. */
	signal(SIGPROF, SIG_DFL);
	setitimer(ITIMER_PROF, &budget, NULL);
	x->run(x->arg);
	return 0;
}

/* --- functions of the controller's process --- */

static void trial_cancel(struct trial *x);

static void end(struct trial *x, const struct err *cause)
{
	void (*done)(void *arg, const struct err *cause) = x->done;
	struct trials *t = x->t;
	void *arg = x->arg;

	x->child = NULL;
	trial_cancel(x);
	done(arg, cause);
	next(t);
}

static void on_child(void *arg, int status, struct span out, const struct err *e)
{
	struct trial *x = arg;
	struct err cause = ERR_INIT;

	(void)out;
	x->t->running--;
	if (!e && status == 0) {
		end(x, NULL);
		return;
	}
	if (e && e->code == -ETIMEDOUT)
		err_kind(&cause, ERR_AGAIN, -ETIMEDOUT,
			 "the review took more than %d ms: try again", TRIAL_MS);
	else
		err_set(&cause, -EFBIG,
			"the review takes more than %d ms of processor time or %d MiB of memory: "
			"make the object smaller",
			TRIAL_CPU_MS, TRIAL_MEMORY >> 20);
	end(x, &cause);
}

static void on_late(void *arg)
{
	struct trial *x = arg;
	struct err cause = ERR_INIT;

	x->timer = NULL;
	err_kind(&cause, ERR_AGAIN, -ETIMEDOUT,
		 "the review was queued for more than %d ms: try again", TRIAL_MS);
	end(x, &cause);
}

static void on_failed(void *arg)
{
	struct trial *x = arg;
	struct err cause = ERR_INIT;

	x->timer = NULL;
	err_kind(&cause, ERR_AGAIN, -EAGAIN, "cannot start a process for the review: try again");
	end(x, &cause);
}

static void start(struct trial *x)
{
	struct trials *t = x->t;
	int64_t left = x->until_ms - loop_now_ms(t->loop);
	const struct child_conf c = {.run = run_in_child,
				     .run_arg = x,
				     .timeout_ms = left > 1 ? (int)left : 1,
				     .max = OUT_MAX};

	loop_del_timer(x->timer);
	x->timer = NULL;
	if (child_start(&x->child, t->loop, &c, on_child, x, NULL) < 0)
		x->timer = loop_add_timer(t->loop, 0, on_failed, x);
	else
		t->running++;
}

static void next(struct trials *t)
{
	for (struct trial *x = t->first; x && t->running < TRIALS_MAX; x = x->next)
		if (!x->child)
			start(x);
}

struct trial *trials_start(struct trials *t, void (*run)(void *arg),
			   void (*done)(void *arg, const struct err *cause), void *arg)
{
	struct trial *x = xcalloc(1, sizeof(*x));

	*x = (struct trial){.t = t,
			    .run = run,
			    .done = done,
			    .arg = arg,
			    .until_ms = loop_now_ms(t->loop) + TRIAL_MS,
			    .prev = t->last};
	*(t->last ? &t->last->next : &t->first) = x;
	t->last = x;
	x->timer = loop_add_timer(t->loop, TRIAL_MS, on_late, x);
	next(t);
	return x;
}

/* Accepts NULL. */
static void trial_cancel(struct trial *x)
{
	if (!x)
		return;
	*(x->prev ? &x->prev->next : &x->t->first) = x->next;
	*(x->next ? &x->next->prev : &x->t->last) = x->prev;
	x->t->running -= x->child != NULL;
	child_cancel(x->child);
	loop_del_timer(x->timer);
	free(x);
}

struct trials *trials_new(struct loop *l)
{
	struct trials *t = xcalloc(1, sizeof(*t));

	t->loop = l;
	t->statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	return t;
}

void trials_free(struct trials *t)
{
	if (!t)
		return;
	while (t->first)
		trial_cancel(t->first);
	cleanup_fd(&t->statm);
	free(t);
}
