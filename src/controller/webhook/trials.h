/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_WEBHOOK_TRIALS_H
#define UNIRAIL_CONTROLLER_WEBHOOK_TRIALS_H

/*
 * A computation whose cost a stranger chooses runs in a child process first, with a budget of processor time and memory. Only
 * what keeps within it is then computed here, so the loop (the Lease, /healthz, other reviews) is never held up for longer
 * than the budget, and memory that a parser takes is not this process's.
 *
 * `run` is called in the child: it reads this process's memory as it was, and must write to no descriptor. Two run at a
 * time; others wait in the order they came.
 */

#include "base/loop.h"

enum {
	TRIAL_CPU_MS = 500,
	TRIAL_MEMORY = 128 << 20,
	TRIAL_MS = 8000, /* with waiting: the API server waits 10 s */
};

struct trials;
struct trial;

struct trials *trials_new(struct loop *l);
/* Those under way end without a callback. NULL is fine. */
void trials_free(struct trials *t);

/*
 * done(arg, NULL): it kept within its budget. Else why not: -EFBIG, it took too much; -ETIMEDOUT, its turn did not come or it
 * had no processor; -EAGAIN, no process could be started. Not from within.
 */
struct trial *trials_start(struct trials *t, void (*run)(void *arg),
			   void (*done)(void *arg, const struct err *why), void *arg);
void trial_cancel(struct trial *x); /* NULL is fine */

#endif
