/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BASE_LOOP_H
#define UNIRAIL_BASE_LOOP_H

/*
 * One event loop on epoll: descriptors and timers with callbacks, one thread. The loop provides the
 * time, so that a test can set it: loop_now_ms() is CLOCK_MONOTONIC or the test's clock.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct loop;
struct loop_fd;
struct loop_timer;

typedef void (*loop_fd_fn)(void *arg, uint32_t events); /* events: EPOLLIN ... */
typedef void (*loop_timer_fn)(void *arg);

int loop_new(struct loop **ret, struct err *e);
void loop_free(struct loop *l); /* frees its timers and watches, but closes no watched descriptor */
int64_t loop_now_ms(const struct loop *l);
/* Sets the time to `ms` and stops the clock, except that an idle loop jumps to its next timer
 * instead of sleeping. For tests. */
void loop_set_now(struct loop *l, int64_t ms);

/* Callbacks may add and delete any watch or timer, including their own. Delete a watch before you
 * close its descriptor. A descriptor can have one watch (-EEXIST); regular files cannot be watched
 * (-EPERM). */
int loop_add_fd(struct loop *l, int fd, uint32_t events, loop_fd_fn fn, void *arg,
		struct loop_fd **ret, struct err *e);
int loop_set_events(struct loop_fd *f, uint32_t events, struct err *e);
void loop_del_fd(struct loop_fd *f); /* f may be NULL */

/* Calls fn once, after `ms`. Add the timer again from the callback to repeat it. */
struct loop_timer *loop_add_timer(struct loop *l, int64_t ms, loop_timer_fn fn, void *arg);
/* t may be NULL. No effect while the timer's callback runs: the loop frees t after the callback. */
void loop_del_timer(struct loop_timer *t);

/*
 * A timer that an object arms again and again. The struct is a member of the object:
 *
 *	x->reconcile = LOOP_ALARM(loop, reconcile, x);
 *	loop_alarm_within(&x->reconcile, 200);	// an event: reconcile in 200 ms
 *	loop_alarm_within(&x->reconcile, 0);	// a more urgent one: in the next turn of the loop
 *	loop_alarm_within(&x->reconcile, 200);	// armed already: no effect
 *	loop_alarm_cancel(&x->reconcile);	// before x or the loop is freed
 *
 * The alarm is not armed any more when fn runs, so fn may arm it again, cancel it and free the
 * object. loop_alarm_cancel() and loop_alarm_armed() accept {0}.
 */
struct loop_alarm {
	struct loop *loop;
	loop_timer_fn fn;
	void *arg;
	struct loop_timer *timer; /* NULL: not armed */
};
#define LOOP_ALARM(l, f, a) ((struct loop_alarm){.loop = (l), .fn = (f), .arg = (a)})
/* Calls fn once, in `ms` at the latest: an armed alarm becomes earlier, never later. */
void loop_alarm_within(struct loop_alarm *a, int64_t ms);
/* Calls fn once, in `ms`, instead of at the time for which the alarm was armed. */
void loop_alarm_set(struct loop_alarm *a, int64_t ms);
void loop_alarm_cancel(struct loop_alarm *a);
bool loop_alarm_armed(const struct loop_alarm *a);

/* Runs until loop_stop(), or until there are no watches and timers. Returns the value passed to
 * loop_stop(), otherwise 0. */
int loop_run(struct loop *l);
void loop_stop(struct loop *l, int value);

int64_t now_mono_ms(void);
/* Waits until the descriptor has one of `events` (as in poll(2)), or until now_mono_ms() reaches
 * deadline_ms. Returns 1 if the descriptor is ready, 0 if the deadline has passed, or -errno. */
int fd_wait(int fd, int64_t deadline_ms, short events);
/* Writes `out` to a socket until the socket's buffer is full, and removes the written bytes from
 * `out`. Returns 0 or -errno. If the peer has closed the connection, drops the rest of `out` and
 * returns 0: the caller's next read returns the peer's answer or the end of the connection. */
int fd_send(int fd, struct span *out);
int64_t now_mono_us(void);
int64_t now_real_ms(void); /* since the epoch */

#endif
