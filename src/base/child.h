/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BASE_CHILD_H
#define UNIRAIL_BASE_CHILD_H

/*
 * A child process beside the loop: for what may take long (a program, a name service) while the
 * loop must go on. Its stdout is collected up to a ceiling, stdin is /dev/null, stderr ours. It is
 * killed when its time is up. Wants pidfd_open (Linux 5.3).
 */

#include "base/loop.h"
#include "base/buf.h"

/*
 * e is NULL when the child has exited by itself with `status`. Errors: -ETIMEDOUT (killed), -EFBIG
 * (it wrote more than `max`), -EINTR (a signal ended it). `out` is valid during the call.
 */
typedef void (*child_done_fn)(void *arg, int status, struct span out, const struct err *e);

struct child_conf {
	int (*run)(void *arg); /* in the child; its result is the exit status */
	void *run_arg;
	int timeout_ms;
	size_t max;
};

struct child;

int child_start(struct child **ret, struct loop *l, const struct child_conf *c, child_done_fn done,
		void *arg, struct err *e);
void child_cancel(struct child *c); /* killed, no callback; NULL is fine */

#endif
