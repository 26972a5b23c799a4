/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BASE_CHILD_H
#define UNIRAIL_BASE_CHILD_H

/*
 * A child process managed by the loop, for work that may block (a program, a name lookup). Its
 * stdout is collected up to a limit, stdin is /dev/null, stderr is inherited. It is killed at its
 * timeout. Requires pidfd_open (Linux 5.3).
 *
 * A child that waits for a lock of the kernel ends only when it gets the lock, even if it was killed. The loop does not
 * wait for it: `done` is called at the timeout, and the child is reaped when it ends.
 */

#include "base/loop.h"
#include "base/buf.h"

/*
 * e is NULL if the child exited with `status`. Errors: -ETIMEDOUT (killed), -EFBIG (it wrote more than `max` bytes),
 * -EINTR (killed by a signal). `out` is valid during the call.
 */
typedef void (*child_done_fn)(void *arg, int status, struct span out, const struct err *e);

struct child_conf {
	int (*run)(void *arg); /* runs in the child; its result is the exit status */
	void *run_arg;
	int timeout_ms;
	size_t max;
	/*
	 * Called with done's arg when a child whose `done` got -ETIMEDOUT has ended. Until then the child is valid and
	 * may be cancelled. If `ended` is NULL, the child is invalid after `done`, as in all other cases.
	 */
	void (*ended)(void *arg);
};

struct child;

int child_start(struct child **ret, struct loop *l, const struct child_conf *c, child_done_fn done,
		void *arg, struct err *e);
/* Kills the child without calling `done`. Waits at most 100 ms for its end; a child that ends later is a zombie until
 * this process ends. c may be NULL. */
void child_cancel(struct child *c);

/* ---- functions for run() in the child process ---- */

/* Closes all descriptors but stdin, stdout and stderr: a child that waits for a lock of the kernel may outlive this process, and
 * must not retain its sockets and locked files. */
void child_close_others(void);
/* Writes all of the buffer to stdout; returns false on an error. If the reader has closed the pipe,
 * SIGPIPE ends the child. */
bool child_put(const void *p, size_t n);

#endif
