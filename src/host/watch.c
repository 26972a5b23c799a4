/* SPDX-License-Identifier: Apache-2.0 */
#include "host/watch.h"

#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/loop.h"
#include "host/dropin.h"
#include "kern/net/watch.h"

struct watch {
	const struct host_watch_conf *c;
	struct loop *loop;
	struct loop_alarm timer;
	int events, signals;
	int64_t delay_ms; /* minimum time between the last round and a round after an event */
	int64_t last_ms;  /* end of the last round */
};

/* Runs one round; returns 1 if the plan had steps, 0 if it had none. */
static int reconcile(struct watch *w, struct host *h, struct host_plan *p, struct err *e)
{
	const struct host_watch_conf *c = w->c;
	auto_host_journal struct host_journal j = HOST_JOURNAL_INIT;
	auto_host_conf struct host_conf conf;
	struct host_outcome outcome;
	int r;

	host_conf_init(&conf);
	r = host_dropin_read(&conf, &h->root, c->conf, c->conf_given, e);
	if (r >= 0)
		r = host_plan_make(h, &conf, c->select, p, e);
	if (r < 0 || p->n == 0)
		return r;
	for (size_t i = 0; i < p->n; i++)
		c->drift(c->arg, &p->v[i], false);
	/* Plans again under the lock, since another command may have changed the host. */
	r = host_journal_open(&j, &h->root, c->state_dir, true, e);
	if (r < 0)
		return r;
	host_plan_done(p);
	host_net_forget(h);
	r = host_plan_make(h, &conf, c->select, p, e);
	if (r >= 0)
		r = host_apply_check(h, p, e);
	if (r >= 0)
		r = host_apply(h, p, &j, NULL, &outcome, e);
	for (size_t i = 0; r >= 0 && i < p->n; i++)
		if (!p->v[i].blocked)
			c->drift(c->arg, &p->v[i], true);
	return r < 0 ? r : 1;
}

void host_watch_report(const struct host_plan *p, const struct err *failure, struct buf *b)
{
	enum { STEPS_MAX = 64 };
	size_t left = 0, blocked = 0;
	struct json_out o;

	for (size_t i = 0; i < p->n; i++) {
		left += failure || p->v[i].blocked;
		blocked += p->v[i].blocked != NULL;
	}
	jo_init(&o, b, 0);
	jo_obj(&o);
	jo_kint(&o, "steps", (int64_t)left);
	jo_kint(&o, "blocked", (int64_t)blocked);
	jo_kstr(&o, "error", failure ? failure->text : "");
	jo_key(&o, "drift");
	jo_arr(&o);
	for (size_t i = 0, n = 0; i < p->n && n < STEPS_MAX; i++) {
		const struct host_step *s = &p->v[i];

		if (!failure && !s->blocked)
			continue;
		n++;
		jo_obj(&o);
		jo_kstr(&o, "kind", s->kind);
		jo_kstr(&o, "subject", s->subject);
		jo_kstr(&o, "current", s->current);
		jo_kstr(&o, "desired", s->desired);
		jo_kstr(&o, "blocked", s->blocked);
		jo_end_obj(&o);
	}
	jo_end_arr(&o);
	jo_end_obj(&o);
	buf_char(b, '\n');
}

int64_t host_watch_delay(int64_t delay_ms, int64_t interval_ms, bool in_sync)
{
	if (in_sync)
		return HOST_WATCH_DELAY_MIN_MS;
	return delay_ms * 2 > interval_ms ? interval_ms : delay_ms * 2;
}

int64_t host_watch_due(int64_t delay_ms, int64_t interval_ms, int64_t since_ms)
{
	int64_t wait_ms = delay_ms < interval_ms ? delay_ms : interval_ms;

	return since_ms >= wait_ms ? 0 : wait_ms - since_ms;
}

static int round_once(struct watch *w, struct host_plan *p, struct err *e)
{
	struct host h;
	int r = host_open(&h, w->c->root, e);

	if (r < 0)
		return r;
	r = reconcile(w, &h, p, e);
	host_close(&h);
	return r;
}

static void on_timer(void *arg)
{
	struct watch *w = arg;
	auto_host_plan struct host_plan p = {0};
	struct err e = ERR_INIT;
	int r;

	net_watch_drain(w->events);
	r = round_once(w, &p, &e);
	if (r < 0)
		w->c->failed(w->c->arg, &e);
	if (w->c->ended)
		w->c->ended(w->c->arg, &p, r < 0 ? &e : NULL);
	w->last_ms = loop_now_ms(w->loop);
	w->delay_ms = host_watch_delay(w->delay_ms, w->c->interval_ms, r == 0);
	loop_alarm_set(&w->timer, w->c->interval_ms);
}

/* Discards the notifications at once, since the round, which follows after the delay, reads the
 * whole state. */
static void on_event(void *arg, uint32_t events)
{
	struct watch *w = arg;
	(void)events;
	net_watch_drain(w->events);
	loop_alarm_set(&w->timer, host_watch_due(w->delay_ms, w->c->interval_ms,
						 loop_now_ms(w->loop) - w->last_ms));
}

static void on_signal(void *arg, uint32_t events)
{
	struct watch *w = arg;

	(void)events;
	loop_stop(w->loop, 0);
}

static int open_signals(int *fd, struct err *e)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	*fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	return *fd < 0 ? err_sys(e, -errno, "open a descriptor for signals") : 0;
}

int host_watch(const struct host_watch_conf *c, struct err *e)
{
	struct watch w = {.c = c, .events = -1, .signals = -1, .delay_ms = HOST_WATCH_DELAY_MIN_MS};
	struct loop_fd *a = NULL, *b = NULL;
	int r = loop_new(&w.loop, e);

	if (r >= 0)
		r = net_watch_open(&w.events, NET_WATCH_CONFIG, e);
	if (r >= 0)
		r = open_signals(&w.signals, e);
	if (r >= 0)
		r = loop_add_fd(w.loop, w.events, EPOLLIN, on_event, &w, &a, e);
	if (r >= 0)
		r = loop_add_fd(w.loop, w.signals, EPOLLIN, on_signal, &w, &b, e);
	if (r >= 0) {
		w.timer = LOOP_ALARM(w.loop, on_timer, &w);
		loop_alarm_set(&w.timer, 0);
		r = loop_run(w.loop);
	}
	if (w.loop)
		loop_free(w.loop);
	cleanup_fd(&w.events);
	cleanup_fd(&w.signals);
	return r;
}
