/* SPDX-License-Identifier: Apache-2.0 */
/* Before the first packet of a probe: what is asked is checked, links found, sockets opened. */
#include "kern/probe/probe_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "kern/sys/netns.h"

static int check_probe(const struct probe *p, struct err *e)
{
	char a[IP_TEXT_MAX], b[IP_TEXT_MAX];

	if (!p->ip.family || ip_is_unspecified(&p->ip) || ip_is_multicast(&p->ip))
		return err_kind(e, ERR_CONF, -EINVAL, "probe on '%s': no address to ask for",
				p->ifname);
	if (probe_asks_gateway(p) && p->gateway.family != p->ip.family)
		return err_kind(e, ERR_CONF, -EINVAL,
				"probe on '%s': gateway '%s' is not of the family of '%s'",
				p->ifname, ip_str(&p->gateway, a), ip_str(&p->ip, b));
	return 0;
}

/* What was given wins over what the link says. */
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
			"probe on '%s': link addresses of %u, %u and %u bytes do not go together",
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
	if (probe_asks_gateway(p))
		j->ears.gateway = p->gateway;
	j->watch = (struct packet_watch){&j->link, &j->ears};
	if (getrandom(j->ears.nonce, PROBE_NONCE, 0) != PROBE_NONCE)
		return err_sys(e, -errno, "probe on '%s': get random bytes", p->ifname);
	if (p->ip.family == 6)
		r = packet_join(&j->link, &p->ip, &j->run->groups_fd, e);
	return r < 0 ? err_wrap(e, r, "probe on '%s'", p->ifname) : 0;
}

/* Every MAC that is ours, in a list that does not move any more. */
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

/* One socket for all of the family's jobs; a failure is told to each of them. */
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
		j->p->why = e;
		drop(j);
	}
}

static int start(struct run *run, struct probe *p, size_t n, struct err *e)
{
	list_macs(run, p, n);
	run->jobs = xcalloc(n, sizeof(*run->jobs));
	for (size_t i = 0; i < n; i++) {
		struct job *j = &run->jobs[run->n_jobs];

		if (!p[i].want_conflict && !probe_asks_gateway(&p[i]))
			continue;
		*j = (struct job){.run = run, .p = &p[i]};
		run->n_jobs++;
		run->open++;
		if (prepare(j, &p[i].why) < 0)
			drop(j);
	}
	listen_for(run, &run->v4, 4);
	listen_for(run, &run->v6, 6);
	if (!run->n_jobs || run->open)
		return 0;
	if (e)
		*e = run->jobs[0].p->why;
	return run->jobs[0].p->why.code;
}

int probe_start(struct run *run, int netns_fd, struct probe *p, size_t n, struct err *e)
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
