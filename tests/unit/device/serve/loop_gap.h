/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_TESTS_LOOP_GAP_H
#define UNIRAIL_TESTS_LOOP_GAP_H

/*
 * Runs a loop for a number of timer ticks, and measures the longest time between two ticks. No
 * callback delayed the loop for longer than this. The time that the process waited for a CPU is not
 * counted, so that the load of the machine does not matter.
 */

#include <stdio.h>
#include <sys/wait.h>

#include "base/loop.h"

enum { LOOP_GAP_TICK_MS = 5 };

struct loop_gap {
	struct loop *loop;
	void (*each)(void *arg); /* called at each tick; NULL: nothing */
	void *arg;
	int ticks, stop_at;
	int64_t last, gap_ms; /* last: loop_gap_now_ms() at the previous tick; 0: none yet */
};

/* Monotonic time without the time that this process waited for a CPU, if the kernel reports it. */
static inline int64_t loop_gap_now_ms(void)
{
	unsigned long long waited_ns = 0;
	FILE *f = fopen("/proc/self/schedstat", "re");

	if (f) {
		if (fscanf(f, "%*u %llu", &waited_ns) != 1)
			waited_ns = 0;
		fclose(f);
	}
	return now_mono_ms() - (int64_t)(waited_ns / 1000000);
}

/* Waits until all killed children have ended and reaps them, since a killed child that waits for
 * a CPU may outlive child_cancel(). */
static inline void loop_gap_reap(void)
{
	while (waitpid(-1, NULL, 0) > 0)
		;
}

static inline void loop_gap_tick(void *arg)
{
	struct loop_gap *g = arg;
	int64_t now = loop_gap_now_ms();

	if (g->last && now - g->last > g->gap_ms)
		g->gap_ms = now - g->last;
	g->last = now;
	if (g->each)
		g->each(g->arg);
	if (++g->ticks < g->stop_at)
		loop_add_timer(g->loop, LOOP_GAP_TICK_MS, loop_gap_tick, g);
	else
		loop_stop(g->loop, 0);
}

/* Runs the loop for n ticks. The time between two calls of this function is not counted. */
static inline void loop_gap_run(struct loop_gap *g, int n)
{
	g->stop_at = g->ticks + n;
	g->last = 0;
	loop_gap_tick(g);
	loop_run(g->loop);
}

#endif
