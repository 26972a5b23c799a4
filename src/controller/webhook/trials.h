/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_WEBHOOK_TRIALS_H
#define UNIRAIL_CONTROLLER_WEBHOOK_TRIALS_H

/*
 * Trial runs: a computation whose cost is controlled by untrusted input runs in a child process
 * first, limited in CPU time and memory. The controller's process repeats the computation only if
 * the child stayed within the limits. So the computation cannot delay the loop (Lease renewal,
 * /healthz, other reviews) for longer than the CPU limit, nor use more memory than the memory
 * limit.
 *
 * `run` is called in the child: it sees a copy of this process's memory and must not write to any
 * file descriptor. At most two children run; others wait in order of arrival.
 */

#include "base/loop.h"

enum {
	TRIAL_CPU_MS = 500,
	TRIAL_MEMORY = 128 << 20,
	TRIAL_MS = 8000, /* time limit of a trial, including its wait; the API server waits 10 s */
};

struct trials;
struct trial;

struct trials *trials_new(struct loop *l);
/* Frees the trials and cancels pending ones without calling their callbacks. Accepts NULL. */
void trials_free(struct trials *t);

/*
 * Calls done(arg, NULL) if the run stayed within its limits. Otherwise `cause` is -EFBIG (a signal
 * ended the child or its exit status is not 0, presumably because it exceeded a limit), -ETIMEDOUT
 * (not started or not finished within TRIAL_MS) or -EAGAIN (the child could not be started). `done`
 * is never called before trials_start() returns.
 */
struct trial *trials_start(struct trials *t, void (*run)(void *arg),
			   void (*done)(void *arg, const struct err *cause), void *arg);

#endif
