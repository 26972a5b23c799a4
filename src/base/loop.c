/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loop.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/log.h"

struct loop_fd {
	struct loop *l;
	int fd; /* -1: deleted, freed after the present batch of events */
	loop_fd_fn fn;
	void *arg;
	struct loop_fd *prev, *next;
};

struct loop_timer {
	struct loop *l;
	int64_t due;
	uint64_t seq;
	loop_timer_fn fn;
	void *arg;
	struct loop_timer *prev, *next;
};

struct loop {
	int epoll;
	struct loop_fd *fds, *dead;
	struct loop_timer *first, *last; /* sorted by due time, then in order of addition */
	struct loop_timer *running;
	uint64_t seq;
	int64_t test_now;
	bool test_clock, stopped;
	int value;
};

int loop_new(struct loop **ret, struct err *e)
{
	int fd = epoll_create1(EPOLL_CLOEXEC);
	struct loop *l;

	if (fd < 0)
		return err_sys(e, -errno, "create an epoll descriptor");
	l = xcalloc(1, sizeof(*l));
	l->epoll = fd;
	*ret = l;
	return 0;
}

static void free_removed(struct loop *l)
{
	while (l->dead) {
		struct loop_fd *f = l->dead;

		l->dead = f->next;
		free(f);
	}
}

void loop_free(struct loop *l)
{
	if (!l)
		return;
	while (l->fds)
		loop_del_fd(l->fds);
	free_removed(l);
	while (l->first)
		loop_del_timer(l->first);
	cleanup_fd(&l->epoll);
	free(l);
}

int64_t loop_now_ms(const struct loop *l)
{
	return l->test_clock ? l->test_now : now_mono_ms();
}

void loop_set_now(struct loop *l, int64_t ms)
{
	l->test_clock = true;
	l->test_now = ms;
}

int loop_add_fd(struct loop *l, int fd, uint32_t events, loop_fd_fn fn, void *arg,
		struct loop_fd **ret, struct err *e)
{
	struct loop_fd *f = xcalloc(1, sizeof(*f));
	struct epoll_event ev = {.events = events, .data.ptr = f};

	if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &ev) < 0) {
		int code = -errno;

		free(f);
		return err_sys(e, code, "add file descriptor %d to epoll", fd);
	}
	*f = (struct loop_fd){.l = l, .fd = fd, .fn = fn, .arg = arg, .next = l->fds};
	if (f->next)
		f->next->prev = f;
	l->fds = f;
	*ret = f;
	return 0;
}

int loop_set_events(struct loop_fd *f, uint32_t events, struct err *e)
{
	struct epoll_event ev = {.events = events, .data.ptr = f};

	if (epoll_ctl(f->l->epoll, EPOLL_CTL_MOD, f->fd, &ev) < 0)
		return err_sys(e, -errno, "change the events of file descriptor %d", f->fd);
	return 0;
}

void loop_del_fd(struct loop_fd *f)
{
	if (!f || f->fd < 0)
		return;
	epoll_ctl(f->l->epoll, EPOLL_CTL_DEL, f->fd, NULL);
	if (f->prev)
		f->prev->next = f->next;
	else
		f->l->fds = f->next;
	if (f->next)
		f->next->prev = f->prev;
	/* f is freed after the present batch of events, which may contain an event for f */
	f->fd = -1;
	f->prev = NULL;
	f->next = f->l->dead;
	f->l->dead = f;
}

static int64_t due_in(const struct loop *l, int64_t ms)
{
	int64_t due;

	return __builtin_add_overflow(loop_now_ms(l), ms > 0 ? ms : 0, &due) ? INT64_MAX : due;
}

struct loop_timer *loop_add_timer(struct loop *l, int64_t ms, loop_timer_fn fn, void *arg)
{
	struct loop_timer *t = xmalloc(sizeof(*t)), *after = l->last;
	int64_t due = due_in(l, ms);

	while (after && after->due > due)
		after = after->prev;
	*t = (struct loop_timer){.l = l, .due = due, .seq = l->seq++, .fn = fn, .arg = arg};
	t->prev = after;
	t->next = after ? after->next : l->first;
	*(after ? &after->next : &l->first) = t;
	*(t->next ? &t->next->prev : &l->last) = t;
	return t;
}

static void unlink_timer(struct loop_timer *t)
{
	*(t->prev ? &t->prev->next : &t->l->first) = t->next;
	*(t->next ? &t->next->prev : &t->l->last) = t->prev;
}

void loop_del_timer(struct loop_timer *t)
{
	/* the timer whose callback runs is not in the list any more, and is freed after the
	 * callback */
	if (!t || t == t->l->running)
		return;
	unlink_timer(t);
	free(t);
}

static void on_alarm(void *arg)
{
	struct loop_alarm *a = arg;

	a->timer = NULL;
	a->fn(a->arg);
}

void loop_alarm_within(struct loop_alarm *a, int64_t ms)
{
	if (!a->timer || a->timer->due > due_in(a->loop, ms))
		loop_alarm_set(a, ms);
}

void loop_alarm_set(struct loop_alarm *a, int64_t ms)
{
	loop_del_timer(a->timer);
	a->timer = loop_add_timer(a->loop, ms, on_alarm, a);
}

void loop_alarm_cancel(struct loop_alarm *a)
{
	loop_del_timer(take(a->timer));
}

bool loop_alarm_armed(const struct loop_alarm *a)
{
	return a->timer;
}

static void run_timers(struct loop *l)
{
	int64_t now = loop_now_ms(l);
	/* timers added by callbacks wait for the next round, so that descriptors are served */
	uint64_t end_seq = l->seq;

	while (!l->stopped && l->first && l->first->due <= now && l->first->seq < end_seq) {
		struct loop_timer *t = l->first;

		unlink_timer(t);
		l->running = t;
		t->fn(t->arg);
		l->running = NULL;
		free(t);
	}
}

static int wait_ms(const struct loop *l)
{
	/* the loop also wakes to log counts of suppressed lines, for which no timer is in the
	 * list */
	int64_t log = l->test_clock ? -1 : log_limit_flush(now_mono_ms());
	int64_t left = log;

	if (l->first) {
		left = l->test_clock ? 0 : l->first->due - loop_now_ms(l);
		left = log >= 0 && log < left ? log : left < 0 ? 0 : left;
	}
	return left > INT_MAX ? INT_MAX : (int)left;
}

static void run_once(struct loop *l)
{
	struct epoll_event ev[64];
	int n = epoll_wait(l->epoll, ev, ARRAY_LEN(ev), wait_ms(l));

	for (int i = 0; i < n && !l->stopped; i++) {
		struct loop_fd *f = ev[i].data.ptr;

		if (f->fd >= 0)
			f->fn(f->arg, ev[i].events);
	}
	free_removed(l);
	if (n == 0 && l->test_clock && l->first && l->first->due > l->test_now)
		l->test_now = l->first->due;
	run_timers(l);
}

int loop_run(struct loop *l)
{
	int value;

	while (!l->stopped && (l->fds || l->first))
		run_once(l);
	value = l->stopped ? l->value : 0;
	l->stopped = false;
	return value;
}

void loop_stop(struct loop *l, int value)
{
	l->stopped = true;
	l->value = value;
}

int64_t now_mono_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

int64_t now_mono_ms(void)
{
	return now_mono_us() / 1000;
}

int64_t now_real_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int fd_wait(int fd, int64_t deadline_ms, short events)
{
	for (;;) {
		struct pollfd p = {fd, events, 0};
		int64_t left = deadline_ms - now_mono_ms();
		int r = left > 0 ? poll(&p, 1, (int)left) : 0;

		if (r >= 0)
			return r;
		if (errno != EINTR)
			return -errno;
	}
}

int fd_send(int fd, struct span *out)
{
	while (out->n > 0) {
		ssize_t n = send(fd, out->p, out->n, MSG_NOSIGNAL);

		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
			n = (ssize_t)out->n;
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0)
			*out = (struct span){out->p + n, out->n - (size_t)n};
	}
	return 0;
}
