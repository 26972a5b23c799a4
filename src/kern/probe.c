/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/probe_priv.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"

enum {
	RETRY_MS = 10,	   /* while a link has no carrier, or takes no packet yet */
	HEAR_AT_ONCE = 64, /* packets before the other rails get their turn */
};

bool probe_asks_gateway(const struct probe *p)
{
	return p->want_gateway && p->gateway.family;
}

static void finish(struct job *j, enum probe_state state)
{
	if (j->stage == DONE)
		return;
	j->stage = DONE;
	j->p->state = state;
	loop_del_timer(j->timer);
	j->timer = NULL;
	if (--j->run->open == 0)
		loop_stop(j->run->loop, 0);
}

static void step(void *arg);

static void again(struct job *j, int64_t ms)
{
	j->timer = loop_add_timer(j->run->loop, ms, step, j);
}

static void enter(struct job *j, enum stage stage)
{
	j->stage = stage;
	j->left = j->run->limits->tries;
	j->since_us = 0;
}

/* All rails ask in the same millisecond mostly: one dump answers them. */
static void refresh_links(struct run *run)
{
	int64_t now = loop_now_ms(run->loop);
	struct packet_link *links;
	size_t n;

	if (now - run->links_ms < RETRY_MS / 2 || packet_links(run->wire, &links, &n, NULL) < 0)
		return;
	free(run->links);
	run->links = links;
	run->n_links = n;
	run->links_ms = now;
}

static bool has_carrier(struct job *j)
{
	const struct packet_link *l;

	refresh_links(j->run);
	l = packet_link_find(j->run->links, j->run->n_links, j->p->index);
	return l && packet_link_running(l);
}

/* Sends the stage's next packet. A link may refuse packets for a moment after it came up. */
static void send_next(struct job *j)
{
	int fd = j->p->ip.family == 4 ? j->run->v4.fd : j->run->v6.fd;
	int r = packet_ask(fd, &j->link, &j->mine, &j->ears, j->stage == ASKING);

	j->blocked = r;
	if (r < 0) {
		again(j, RETRY_MS);
		return;
	}
	j->p->sent++;
	j->left--;
	if (!j->since_us)
		j->since_us = now_mono_us();
	again(j, j->run->limits->interval_ms);
}

static void wait_for_carrier(struct job *j)
{
	enter(j, WAITING);
	j->blocked = -ENETDOWN;
	again(j, RETRY_MS);
}

/* Nothing was heard in the whole of the conflict test. */
static void quiet(struct job *j)
{
	/* A link without carrier drops what is sent and says nothing: that silence means nothing. */
	if (!has_carrier(j)) {
		wait_for_carrier(j);
		return;
	}
	j->p->conflict_us = now_mono_us() - j->since_us;
	if (!probe_asks_gateway(j->p)) {
		finish(j, PROBE_OK);
		return;
	}
	enter(j, ASKING);
	send_next(j);
}

static void step(void *arg)
{
	struct job *j = arg;

	j->timer = NULL;
	if (j->stage == WAITING) {
		if (!has_carrier(j)) {
			wait_for_carrier(j);
			return;
		}
		enter(j, j->p->want_conflict ? PROBING : ASKING);
	}
	if (j->left > 0)
		send_next(j);
	else if (j->stage == PROBING)
		quiet(j);
	/* else all was asked of the gateway: its answer may be late, until the limit */
}

static void heard(struct job *j, enum probe_saw saw, const struct mac *other)
{
	struct probe *p = j->p;

	if (saw == SAW_CONFLICT && p->want_conflict) {
		p->other = *other;
		if (j->stage == PROBING)
			p->conflict_us = j->since_us ? now_mono_us() - j->since_us : 0;
		finish(j, PROBE_CONFLICT);
	} else if (saw == SAW_GATEWAY && j->stage == ASKING && j->since_us) {
		p->other = *other;
		p->gateway_us = now_mono_us() - j->since_us;
		finish(j, PROBE_OK);
	}
}

void probe_hear(void *arg, uint32_t events)
{
	struct ears *ears = arg;
	struct run *run = ears->run;
	struct packet_in in;
	struct mac other;

	(void)events;
	/* An error is told once and is no reason to stop: the timers go on. */
	for (int k = 0; k < HEAR_AT_ONCE && packet_hear(ears->fd, &in) > 0; k++) {
		for (size_t i = 0; i < run->n_jobs; i++) {
			struct job *j = &run->jobs[i];

			if (j->stage != DONE && j->p->ip.family == ears->family)
				heard(j, packet_judge(&in, &j->watch, &other), &other);
		}
	}
}

static int why_not_done(struct job *j)
{
	struct probe *p = j->p;
	int ms = j->run->limits->total_ms;

	if (j->blocked == -ENETDOWN)
		return err_kind(
			&p->why, ERR_AGAIN, j->blocked,
			"probe on '%s': no carrier within %d ms (cable, switch port, or the "
			"lower link is down)",
			p->ifname, ms);
	if (j->blocked < 0)
		return err_sys(&p->why, j->blocked, "probe on '%s': send a packet", p->ifname);
	return err_kind(
		&p->why, ERR_AGAIN, -ETIMEDOUT,
		"probe on '%s': the limit of %d ms ended before the test did: give it more time",
		p->ifname, ms);
}

static void time_is_up(void *arg)
{
	struct run *run = arg;

	for (size_t i = 0; i < run->n_jobs; i++) {
		struct job *j = &run->jobs[i];

		if (j->stage == DONE)
			continue;
		if (j->stage == ASKING && j->since_us) {
			j->p->gateway_us = now_mono_us() - j->since_us;
			finish(j, PROBE_UNREACHABLE);
			continue;
		}
		why_not_done(j);
		finish(j, PROBE_FAILED);
	}
}

static void run_done(struct run *run)
{
	loop_free(run->loop);
	cleanup_fd(&run->v4.fd);
	cleanup_fd(&run->v6.fd);
	cleanup_fd(&run->groups_fd);
	free(run->jobs);
	free(run->macs);
	free(run->links);
	nl_wire_close(run->wire);
}

static int check_limits(const struct probe_limits *l, struct err *e)
{
	if (l->tries < 1 || l->interval_ms < 1 || l->total_ms < 1)
		return err_kind(
			e, ERR_CONF, -EINVAL,
			"probe limits: %d tries, %d ms apart, %d ms in all, want at least 1 each",
			l->tries, l->interval_ms, l->total_ms);
	if ((int64_t)l->tries * l->interval_ms > l->total_ms)
		return err_kind(e, ERR_CONF, -EINVAL,
				"probe limits: %d tries %d ms apart do not fit into %d ms",
				l->tries, l->interval_ms, l->total_ms);
	return 0;
}

static void forget_answers(struct probe *p)
{
	p->state = PROBE_NONE;
	p->other = (struct mac){0};
	p->conflict_us = p->gateway_us = 0;
	p->sent = 0;
	err_clear(&p->why);
}

int probe_run(int netns_fd, struct probe *p, size_t n, const struct probe_limits *l, struct err *e)
{
	struct run run = {.limits = l, .v4.fd = -1, .v6.fd = -1, .groups_fd = -1};
	int r = check_limits(l, e);

	for (size_t i = 0; i < n; i++)
		forget_answers(&p[i]);
	if (!r)
		r = loop_new(&run.loop, e);
	if (!r)
		r = probe_start(&run, netns_fd, p, n, e);
	if (!r && run.open) {
		loop_add_timer(run.loop, l->total_ms, time_is_up, &run);
		for (size_t i = 0; i < run.n_jobs; i++)
			if (run.jobs[i].stage == WAITING)
				step(&run.jobs[i]);
		loop_run(run.loop);
	}
	run_done(&run);
	return r < 0 ? err_wrap(e, r, "probe addresses") : 0;
}
