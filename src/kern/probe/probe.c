/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/probe/probe.h"
#include "kern/probe/classify.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/loop.h"
#include "kern/probe/packet.h"
#include "kern/sys/netns.h"

/* Stages of a probe. WAITING: waits for the carrier; PROBING: tests for a conflict; ASKING:
 * sends requests to the gateway; DONE: the probe's .state is final. */
enum stage { WAITING, PROBING, ASKING, DONE };

struct job {
	struct run *run;
	struct probe *p;
	struct packet_link link;
	struct mac mine;
	struct probe_ears ears;
	struct packet_watch watch; /* addresses to filter for: the probed address and the gateway */
	enum stage stage;
	int left; /* number of packets left to send in this stage */
	int64_t since_us;
	int blocked; /* -errno of the last send if the link refused the packet; 0: it did not */
	int64_t waits_ms; /* monotonic ms at which WAITING began */
	uint32_t changes; /* the link's count of carrier changes when the test began */
	struct loop_timer *timer, *limit;
};

/* The socket of one family, shared by all rails. */
struct ears {
	struct run *run;
	int family, fd;
};

struct run {
	struct loop *loop;
	struct nl_wire *wire;
	const struct probe_limits *limits;
	struct packet_link *links;
	struct mac *macs; /* MACs of all links in the namespace, and of all probes */
	struct job *jobs;
	struct ears v4, v6;
	int groups_fd;
	size_t n_links, n_macs, n_jobs, open;
	int64_t links_ms; /* monotonic ms at which the links were listed */
	int64_t begun_ms;
};

enum {
	/* retry interval while a link refuses packets, or has had no carrier for less than
	 * LONG_MS */
	RETRY_MS = 10,
	LONG_MS = 1000,	   /* time without carrier after which the link is polled less often */
	HEAR_AT_ONCE = 64, /* packets read from a socket before other events are handled */
};

static bool probe_has_gateway(const struct probe *p)
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
	loop_del_timer(j->limit);
	j->timer = j->limit = NULL;
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

/* Lists the links at most once per RETRY_MS / 2, since all rails usually need them at the same
 * time. */
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

/* Returns the link of the job; NULL: it is missing, or has no carrier. */
static const struct packet_link *running_link(struct job *j)
{
	const struct packet_link *l;

	refresh_links(j->run);
	l = packet_link_find(j->run->links, j->run->n_links, j->p->index);
	return l && packet_link_running(l) ? l : NULL;
}

/* Returns whether the link had its carrier throughout the test. */
static bool is_carrier_unchanged(struct job *j)
{
	const struct packet_link *l = running_link(j);

	return l && l->changes == j->changes;
}

/* --- time limits of a probe --- */

static int64_t elapsed(const struct job *j)
{
	return loop_now_ms(j->run->loop) - j->run->begun_ms;
}

static int no_carrier(struct job *j)
{
	struct probe *p = j->p;

	if (j->stage == WAITING && !p->sent)
		return err_kind(&p->reason, ERR_AGAIN, -ENETDOWN,
				"no carrier on '%s' after %d ms (cable, switch port, or the lower "
				"link is down)",
				p->ifname, j->run->limits->carrier_ms);
	return err_kind(&p->reason, ERR_AGAIN, -ENETDOWN,
			"no carrier on '%s' any more: it was lost during the test (cable, switch "
			"port, or the lower link)",
			p->ifname);
}

static int reason_not_done(struct job *j)
{
	struct probe *p = j->p;

	if (j->stage == WAITING || !running_link(j))
		return no_carrier(j);
	if (j->blocked < 0)
		return err_sys(&p->reason, j->blocked, "probe on '%s': send a packet", p->ifname);
	return err_kind(
		&p->reason, ERR_AGAIN, -ETIMEDOUT,
		"probe on '%s': the limit of %d ms expired before the test ended: set a longer "
		"limit",
		p->ifname, j->run->limits->total_ms);
}

static void time_is_up(void *arg)
{
	struct job *j = arg;

	j->limit = NULL;
	if (j->stage == ASKING && j->since_us && running_link(j)) {
		j->p->gateway_us = now_mono_us() - j->since_us;
		finish(j, PROBE_UNREACHABLE);
		return;
	}
	reason_not_done(j);
	finish(j, PROBE_FAILED);
}

static void set_limit(struct job *j, int64_t ms)
{
	loop_del_timer(j->limit);
	j->limit = loop_add_timer(j->run->loop, ms, time_is_up, j);
}

/* --- carrier of the link --- */

static void wait_for_carrier(struct job *j)
{
	int64_t now = loop_now_ms(j->run->loop);

	if (j->stage != WAITING || !j->limit) {
		enter(j, WAITING);
		j->waits_ms = now;
		set_limit(j, j->run->limits->carrier_ms - elapsed(j));
	}
	again(j, now - j->waits_ms < LONG_MS ? RETRY_MS : 5 * RETRY_MS);
}

/* Starts the test, which may last total_ms. Even if the carrier changes repeatedly, the test ends
 * at the latest carrier_ms + total_ms after the start of the probes. */
static void carrier_is_there(struct job *j, const struct packet_link *link)
{
	const struct probe_limits *l = j->run->limits;
	int64_t last = (int64_t)l->carrier_ms + l->total_ms - elapsed(j);

	if (j->limit)
		j->p->carrier_us += (loop_now_ms(j->run->loop) - j->waits_ms) * 1000;
	j->changes = link->changes;
	set_limit(j, last < l->total_ms ? last : l->total_ms);
	enter(j, j->p->want_conflict ? PROBING : ASKING);
}

/* --- tests of addresses and gateways --- */

/* Sends the next packet of the stage. A link may refuse packets for a moment after it got its
 * carrier: the packet is sent again after RETRY_MS. */
static void send_next(struct job *j)
{
	int fd = j->p->ip.family == 4 ? j->run->v4.fd : j->run->v6.fd;
	int r = packet_send_request(fd, &j->link, &j->mine, &j->ears, j->stage == ASKING);

	j->blocked = r;
	if (r == -ENETDOWN) {
		wait_for_carrier(j);
		return;
	}
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

/* Ends a conflict test without conflict: no packet of another host with the address was
 * received. */
static void finish_conflict_free(struct job *j)
{
	/* a link without carrier silently drops packets, so the missing response proves nothing */
	if (!is_carrier_unchanged(j)) {
		wait_for_carrier(j);
		return;
	}
	j->p->conflict_us = now_mono_us() - j->since_us;
	if (!probe_has_gateway(j->p)) {
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
		const struct packet_link *l = running_link(j);

		if (!l) {
			wait_for_carrier(j);
			return;
		}
		carrier_is_there(j, l);
	}
	if (j->left > 0)
		send_next(j);
	else if (j->stage == PROBING)
		finish_conflict_free(j);
	/* ASKING, and all requests are sent: a late reply or the time limit ends the probe */
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

/* Callback of the event loop: reads the packets that wait on the socket of `arg`, a struct ears. */
static void probe_hear(void *arg, uint32_t events)
{
	struct ears *ears = arg;
	struct run *run = ears->run;
	struct packet_in in;
	struct mac other;

	(void)events;
	/* An error of the socket ends only this callback: the timers of the probes continue. */
	for (int k = 0; k < HEAR_AT_ONCE && packet_recv(ears->fd, &in) > 0; k++) {
		for (size_t i = 0; i < run->n_jobs; i++) {
			struct job *j = &run->jobs[i];

			if (j->stage != DONE && j->p->ip.family == ears->family)
				heard(j, packet_judge(&in, &j->watch, &other), &other);
		}
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
			"probe limits: %d tries, %d ms apart, %d ms in all: expected at least 1 "
			"each",
			l->tries, l->interval_ms, l->total_ms);
	if (l->carrier_ms < 0)
		return err_kind(e, ERR_CONF, -EINVAL,
				"probe limits: %d ms for the carrier: expected at least 0",
				l->carrier_ms);
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
	p->carrier_us = p->conflict_us = p->gateway_us = 0;
	p->sent = 0;
	err_clear(&p->reason);
}

static int probe_start(struct run *run, int netns_fd, struct probe *p, size_t n, struct err *e);

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
		run.begun_ms = loop_now_ms(run.loop);
		for (size_t i = 0; i < run.n_jobs; i++)
			if (run.jobs[i].stage == WAITING)
				step(&run.jobs[i]);
		loop_run(run.loop);
	}
	run_done(&run);
	return r < 0 ? err_wrap(e, r, "probe addresses") : 0;
}

static int64_t longest_wait_ms(const struct probe *p, size_t n)
{
	int64_t us = 0;

	for (size_t i = 0; i < n; i++)
		us = p[i].carrier_us > us ? p[i].carrier_us : us;
	return us / 1000;
}

int probe_round(struct probe_rounds *r, int netns_fd, struct probe *p, size_t n, struct err *e)
{
	struct probe_limits l = r->limits;
	int64_t now = now_mono_ms(), waited;
	int ret;

	if (!r->end_ms)
		r->end_ms = now + l.total_ms;
	l.total_ms = r->end_ms > now ? (int)(r->end_ms - now) : 1;
	r->left--;
	ret = probe_run(netns_fd, p, n, &l, e);
	waited = longest_wait_ms(p, n);
	r->end_ms += waited;
	r->limits.carrier_ms = r->limits.carrier_ms > waited ? r->limits.carrier_ms - (int)waited
							     : 0;
	return ret;
}

/* Returns whether a round is left, and the time suffices to send all its tries and to wait for a
 * reply to the last one: a round with less time could fail. */
bool probe_round_left(const struct probe_rounds *r)
{
	const struct probe_limits *l = &r->limits;

	return r->left > 0 && r->end_ms - now_mono_ms() >= (l->tries + 1) * l->interval_ms;
}

enum { IPOIB_LEN = 20 };

bool probe_mac_same(const struct mac *a, const struct mac *b)
{
	size_t skip = a->len == IPOIB_LEN;

	return a->len && a->len == b->len && !memcmp(a->b + skip, b->b + skip, a->len - skip);
}

bool probe_is_mine(const struct probe_ears *q, const struct mac *m)
{
	for (size_t i = 0; i < q->n_mine; i++)
		if (probe_mac_same(&q->mine[i], m))
			return true;
	return false;
}

/* --- setup of a probe: checks the request, finds the links, opens the sockets --- */

static int check_probe(const struct probe *p, struct err *e)
{
	char a[IP_TEXT_MAX], b[IP_TEXT_MAX];

	if (!p->ip.family || ip_is_unspecified(&p->ip) || ip_is_multicast(&p->ip))
		return err_kind(
			e, ERR_CONF, -EINVAL,
			"probe on '%s': the address is missing, unspecified or a multicast address",
			p->ifname);
	if (probe_has_gateway(p) && p->gateway.family != p->ip.family)
		return err_kind(e, ERR_CONF, -EINVAL,
				"probe on '%s': gateway '%s' and address '%s' are of different "
				"families",
				p->ifname, ip_str(&p->gateway, a), ip_str(&p->ip, b));
	return 0;
}

/* Finds the link of the job. Values given by the caller take precedence over those of the link. */
static int find_link(struct job *j, struct err *e)
{
	const struct probe *p = j->p;
	const struct packet_link *l = packet_link_find(j->run->links, j->run->n_links, p->index);
	int r;

	if (!l)
		return err_kind(e, ERR_UNAVAILABLE, -ENODEV,
				"probe on '%s': Link not found (index %d)", p->ifname, p->index);
	j->link = *l;
	if (p->arptype)
		j->link.arptype = p->arptype;
	r = packet_link_usable(&j->link, p->ifname, e);
	if (r < 0)
		return r;
	j->mine = p->mac.len ? p->mac : l->mac;
	if (!l->mac.len || j->mine.len != l->mac.len || l->broadcast.len != l->mac.len)
		return err_set(
			e, -EINVAL,
			"probe on '%s': the probe's MAC address has %u bytes, that of the link "
			"%u, the link's broadcast address %u: expected the same length",
			p->ifname, j->mine.len, l->mac.len, l->broadcast.len);
	return 0;
}

static int prepare(struct job *j, struct err *e)
{
	const struct probe *p = j->p;
	int r = check_probe(p, e);

	if (!r)
		r = find_link(j, e);
	if (r < 0)
		return r;
	j->ears = (struct probe_ears){.ip = p->ip, .mine = j->run->macs, .n_mine = j->run->n_macs};
	if (probe_has_gateway(p))
		j->ears.gateway = p->gateway;
	j->watch = (struct packet_watch){&j->link, &j->ears};
	if (getrandom(j->ears.nonce, PROBE_NONCE, 0) != PROBE_NONCE)
		return err_sys(e, -errno, "probe on '%s': get random bytes", p->ifname);
	if (p->ip.family == 6)
		r = packet_join(&j->link, &p->ip, &j->run->groups_fd, e);
	return r < 0 ? err_wrap(e, r, "probe on '%s'", p->ifname) : 0;
}

/* Lists the MACs of all links and probes once, so that pointers to the list stay valid. */
static void list_macs(struct run *run, const struct probe *p, size_t n)
{
	run->macs = xcalloc(run->n_links + n, sizeof(*run->macs));
	for (size_t i = 0; i < run->n_links; i++)
		run->macs[run->n_macs++] = run->links[i].mac;
	for (size_t i = 0; i < n; i++)
		if (p[i].mac.len)
			run->macs[run->n_macs++] = p[i].mac;
}

static void drop(struct job *j)
{
	j->stage = DONE;
	j->p->state = PROBE_FAILED;
	j->run->open--;
}

/* Opens one socket for all jobs of the family. If that fails, all these jobs fail. */
static void listen_for(struct run *run, struct ears *ears, int family)
{
	auto_free struct packet_watch *w = xcalloc(run->n_jobs, sizeof(*w));
	struct err e = ERR_INIT;
	struct loop_fd *watch;
	size_t n = 0;
	int r;

	*ears = (struct ears){.run = run, .family = family, .fd = -1};
	for (size_t i = 0; i < run->n_jobs; i++)
		if (run->jobs[i].stage != DONE && run->jobs[i].p->ip.family == family)
			w[n++] = run->jobs[i].watch;
	if (!n)
		return;
	r = packet_open_probe(family, w, n, &ears->fd, &e);
	if (!r)
		r = loop_add_fd(run->loop, ears->fd, EPOLLIN, probe_hear, ears, &watch, &e);
	for (size_t i = 0; r < 0 && i < run->n_jobs; i++) {
		struct job *j = &run->jobs[i];

		if (j->stage == DONE || j->p->ip.family != family)
			continue;
		j->p->reason = e;
		drop(j);
	}
}

static int start(struct run *run, struct probe *p, size_t n, struct err *e)
{
	list_macs(run, p, n);
	run->jobs = xcalloc(n, sizeof(*run->jobs));
	for (size_t i = 0; i < n; i++) {
		struct job *j = &run->jobs[run->n_jobs];

		if (!p[i].want_conflict && !probe_has_gateway(&p[i]))
			continue;
		*j = (struct job){.run = run, .p = &p[i]};
		run->n_jobs++;
		run->open++;
		if (prepare(j, &p[i].reason) < 0)
			drop(j);
	}
	listen_for(run, &run->v4, 4);
	listen_for(run, &run->v6, 6);
	if (!run->n_jobs || run->open)
		return 0;
	if (e)
		*e = run->jobs[0].p->reason;
	return run->jobs[0].p->reason.code;
}

/*
 * Creates the jobs in the namespace. A probe that cannot be started becomes PROBE_FAILED at once,
 * with the reason in .reason. Returns the code of the first probe if all have failed. Sockets and
 * wire stay in the namespace; the thread returns to its own.
 */
static int probe_start(struct run *run, int netns_fd, struct probe *p, size_t n, struct err *e)
{
	struct netns_visit v = NETNS_VISIT_INIT;
	int r = nl_open(&run->wire, NL_ROUTE, netns_fd, e);

	if (!r)
		r = packet_links(run->wire, &run->links, &run->n_links, e);
	run->links_ms = loop_now_ms(run->loop);
	if (!r && netns_fd >= 0)
		r = netns_enter(netns_fd, &v, e);
	if (r < 0)
		return r;
	r = start(run, p, n, e);
	netns_leave(&v);
	return r;
}

void probe_describe(const struct probe *p, struct err *e)
{
	char ip[IP_TEXT_MAX], gw[IP_TEXT_MAX], mac[MAC_TEXT_MAX];

	switch (p->state) {
	case PROBE_CONFLICT:
		ip_str(&p->ip, ip);
		err_kind(
			e, ERR_AGAIN, -EADDRINUSE,
			"rail %s: ip conflict: pod's interface %s with an conflicting ip %s, %s is "
			"located at %s",
			p->ifname, p->ifname, ip, ip,
			p->other.len ? mac_str(&p->other, mac) : "an unknown link address");
		break;
	case PROBE_UNREACHABLE:
		err_kind(e, ERR_AGAIN, -EHOSTUNREACH, "rail %s: gateway %s is unreachable",
			 p->ifname, ip_str(&p->gateway, gw));
		break;
	case PROBE_FAILED:
		if (e)
			*e = p->reason;
		err_wrap(e, p->reason.code, "rail %s", p->ifname);
		break;
	case PROBE_NONE:
	case PROBE_OK: break;
	}
}
