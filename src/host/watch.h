/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_HOST_WATCH_H
#define UNIRAIL_HOST_WATCH_H

/*
 * Reconciles for ever: reads the requested state, plans, reports each step as drift and carries it out with the journal. Woken by
 * notifications of the kernel (links, addresses, routes, rules), and every `interval_ms` for what has none (files, sysfs). A
 * program that sets the opposite each time does not make a busy loop: while plans have steps, the delay between two doubles from 1 s
 * up to the interval.
 */

#include "host/apply.h"

struct host_watch_conf {
	const char *root, *conf, *state_dir;
	bool conf_given; /* `conf` must exist */
	int64_t interval_ms;
	const struct host_select *select;
	/* A step that is wanted: drift. `done`: it was carried out. */
	void (*drift)(void *arg, const struct host_step *s, bool done);
	/* Failure of a round; the next is tried after the delay. */
	void (*failed)(void *arg, const struct err *e);
	/* The end of a round: its plan, and whether it was carried out but for blocked steps. May be NULL. */
	void (*ended)(void *arg, const struct host_plan *p, const struct err *failure);
	void *arg;
};

enum { HOST_WATCH_DELAY_MIN_MS = 1000 };

/*
 * The state after a round, for the agent and for people: {"steps": 2, "blocked": 1, "error": "", "drift": [{"kind",
 * "subject", "now", "want", "blocked"}]}. Only steps that are left: blocked ones, or all of a round that failed
 * (failure not NULL).
 */
#define HOST_WATCH_REPORT "drift.json" /* in the state directory */
/* Locked as long as the watch lives: a report without a lock is one that a killed watch left. */
#define HOST_WATCH_LOCK HOST_WATCH_REPORT ".lock"
void host_watch_report(const struct host_plan *p, const struct err *failure, struct buf *b);

/* The delay after a round: the shortest one if it had no steps, else twice the last one, at most the interval. */
int64_t host_watch_delay(int64_t delay_ms, int64_t interval_ms, bool in_sync);
/* How long after an event the next round begins, `since_ms` after the last one: never later than the interval. */
int64_t host_watch_due(int64_t delay_ms, int64_t interval_ms, int64_t since_ms);

/* Until SIGTERM, SIGINT or SIGHUP: then 0. */
int host_watch(const struct host_watch_conf *c, struct err *e);

#endif
