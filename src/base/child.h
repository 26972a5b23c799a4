/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BASE_CHILD_H
#define UNIRAIL_BASE_CHILD_H

/*
 * A child process managed by the loop, for work that may block (a program, a name lookup). Its
 * stdout is collected up to a limit, stdin is /dev/null, stderr is inherited. It is killed at its
 * timeout. Requires pidfd_open (Linux 5.3).
 *
 * A killed child that waits in the kernel without being interruptible, for instance for a kernel
 * lock, ends only after that wait. The loop does not wait for the child: it calls `done` at the
 * timeout, and reaps the child when the child ends.
 */

#include "base/loop.h"
#include "base/buf.h"

/*
 * e is NULL if the child exited by itself and its output fits into `max` bytes; `status` is then
 * its exit status. Errors: -ETIMEDOUT (killed at the timeout), -EFBIG (the child wrote more than
 * `max` bytes), -EINTR (another signal ended the child). `out` is valid during the call.
 */
typedef void (*child_done_fn)(void *arg, int status, struct span out, const struct err *e);

struct child_conf {
	int (*run)(void *arg); /* runs in the child; its result is the exit status */
	void *run_arg;
	int timeout_ms;
	size_t max;
	/*
	 * Called, with the `arg` of child_start(), when a child has ended whose `done` was called
	 * with -ETIMEDOUT. Until then the struct child is valid, and child_cancel() may be called.
	 * If `ended` is NULL, or if `done` was called without -ETIMEDOUT, the struct child must not
	 * be used after that call.
	 */
	void (*ended)(void *arg);
};

struct child;

int child_start(struct child **ret, struct loop *l, const struct child_conf *c, child_done_fn done,
		void *arg, struct err *e);
/* Kills the child; neither `done` nor `ended` is called. Waits at most 100 ms for the child's
 * end; a child that ends later is a zombie until this process ends. c may be NULL. */
void child_cancel(struct child *c);

/* ---- functions for run() in the child process ---- */

/* Closes all descriptors but stdin, stdout and stderr, and stops after 256 consecutive numbers
 * that are not open. A child that waits in the kernel may outlive its parent, so it must not
 * keep the parent's sockets and locked files open. */
void child_close_others(void);
/* Writes all of the buffer to stdout; returns false on an error. If the reader has closed the pipe,
 * SIGPIPE ends the child. */
bool child_put(const void *p, size_t n);

#endif
