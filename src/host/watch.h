/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_HOST_WATCH_H
#define UNIRAIL_HOST_WATCH_H

/*
 * Reconciles until it is stopped: reads the requested state, plans, reports each step as drift and
 * carries it out with the journal. A round begins after notifications of the kernel (links,
 * addresses, routes, rules), and every `interval_ms`, since changes of files and sysfs are not
 * notified. While plans have steps or rounds fail, the delay between two rounds doubles from 1 s up
 * to the interval, so that no busy loop results if another program sets the opposite each time.
 */

#include "host/apply.h"

struct host_watch_conf {
	const char *root, *conf, *state_dir;
	bool conf_given; /* `conf` must exist */
	int64_t interval_ms;
	const struct host_select *select;
	/* Called with `done` false for each step of a plan, since each step is drift; and again
	 * with `done` true for the steps that are not blocked, after all of them were carried
	 * out. */
	void (*drift)(void *arg, const struct host_step *s, bool done);
	/* Called when a round fails; the watch continues. */
	void (*failed)(void *arg, const struct err *e);
	/* Called at the end of a round with its plan and its failure, which is NULL if all steps
	 * except blocked ones were carried out. May be NULL. */
	void (*ended)(void *arg, const struct host_plan *p, const struct err *failure);
	void *arg;
};

enum { HOST_WATCH_DELAY_MIN_MS = 1000 };

/*
 * The state after a round, for the agent and for users: {"steps": 2, "blocked": 1, "error": "",
 * "drift": [{"kind", "subject", "current", "desired", "blocked"}]}. `steps` is the number of steps
 * and `drift` lists them, at most 64: only the blocked steps after a successful round (failure
 * NULL), all steps after a failed round.
 */
#define HOST_WATCH_REPORT "drift.json" /* in the state directory */
/* A running watch holds this lock. If a report exists and no process holds the lock, the report is
 * stale: its watch was killed. */
#define HOST_WATCH_LOCK HOST_WATCH_REPORT ".lock"
void host_watch_report(const struct host_plan *p, const struct err *failure, struct buf *b);

/* Returns the delay after a round: the shortest one if the round succeeded and had no steps
 * (`in_sync`), else twice the previous delay, at most the interval. */
int64_t host_watch_delay(int64_t delay_ms, int64_t interval_ms, bool in_sync);
/* Returns how long after an event the next round begins. The event occurs `since_ms` after the
 * end of the last round; the next round begins min(delay_ms, interval_ms) after that end, or at
 * once if that moment has passed. */
int64_t host_watch_due(int64_t delay_ms, int64_t interval_ms, int64_t since_ms);

/* Runs until SIGTERM, SIGINT or SIGHUP, then returns 0. */
int host_watch(const struct host_watch_conf *c, struct err *e);

#endif
