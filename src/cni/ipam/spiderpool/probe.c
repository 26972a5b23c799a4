/* SPDX-License-Identifier: Apache-2.0 */
/* For spiderpool that runs as its own process: checks on the pod's link that no other host uses the
 * address, and that the gateway answers. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cni/ipam/spiderpool/spiderpool.h"
#include "kern/net/addr.h"
#include "kern/net/link.h"
#include "kern/probe/probe.h"

enum { ROUNDS = 3 };

struct probing {
	const struct cni_ipam_call *call;
	int netns;
	struct link link;
	struct ipaddr *conflict_free; /* probed, no conflict found */
	size_t n_conflict_free;
};

/* Finds the link; with bring_up sets it up, since the calling plugin usually leaves it down. */
static int prepare(struct probing *p, bool bring_up, struct err *e)
{
	const struct link_change up = {.set = LINK_SET_UP | LINK_SET_ARP_NOTIFY};
	auto_nl struct nl_wire *w = NULL;
	auto_batch struct nl_batch *b = NULL;
	int r = nl_open(&w, NL_ROUTE, p->netns, e);

	if (r == 0)
		r = link_get(w, p->call->ifname, &p->link, e);
	if (r < 0)
		return err_wrap(e, r, ORIG("failed to get link"));
	if (!bring_up)
		return 0;
	b = nl_batch_new();
	link_set(b, p->link.index, p->call->ifname, &up);
	r = nl_batch_commit(w, b, e);
	return r < 0 ? err_wrap(e, r, ORIG("failed to set link up")) : 0;
}

static bool is_conflict_free(const struct probing *p, const struct ipaddr *a)
{
	for (size_t i = 0; i < p->n_conflict_free; i++)
		if (ip_eq(&p->conflict_free[i], a))
			return true;
	return false;
}

static size_t make_probes(const struct probing *p, struct probe **ret)
{
	struct probe *v = NULL;
	size_t n = 0;

	for (size_t i = 0; i < p->call->out->n_ips; i++) {
		const struct cni_ip *ip = &p->call->out->ips[i];

		if (is_conflict_free(p, &ip->address.ip))
			continue;
		VEC_PUSH(v, n) = (struct probe){
			.ifname = p->call->ifname,
			.index = p->link.index,
			.mac = p->link.mac,
			.arptype = p->link.arptype,
			.ip = ip->address.ip,
			.gateway = ip->gateway,
			.want_conflict = p->call->flags->conflict_detection,
			.want_gateway = p->call->flags->gateway_detection && ip->gateway.family,
		};
	}
	*ret = v;
	return n;
}

/* Returns 0 if there is no conflict, 1 if some addresses are in conflict; negative: a gateway is
 * unreachable, or a test could not be carried out. */
static int judge(struct probing *p, const struct probe *v, size_t n, struct err *e)
{
	int conflicts = 0;

	for (size_t i = 0; i < n; i++) {
		if (v[i].state == PROBE_CONFLICT) {
			conflicts = 1;
		} else if (v[i].state != PROBE_OK && v[i].state != PROBE_NONE) {
			probe_describe(&v[i], e);
			err_default_kind(e, ERR_AGAIN);
			return e && e->code ? e->code : -EHOSTUNREACH;
		} else {
			VEC_PUSH(p->conflict_free, p->n_conflict_free) = v[i].ip;
		}
	}
	return conflicts;
}

/* Quarantines the addresses in conflict, so that the next pod does not get them. If `last`, fails
 * after that with ERR_AGAIN, and e names the first such address. */
static int give_up(const struct probing *p, const struct probe *v, size_t n, bool last,
		   struct err *e)
{
	const struct probe *first = NULL;
	int r;

	for (size_t i = 0; i < n; i++) {
		if (v[i].state != PROBE_CONFLICT)
			continue;
		r = spiderpool_conflict(p->call, &v[i].ip, &v[i].other, e);
		if (r < 0)
			return r;
		log_warn("address in conflict", LOG_S("ifname", p->call->ifname),
			 LOG_S("ip", ip_str(&v[i].ip, (char[IP_TEXT_MAX]){0})),
			 LOG_S("conflict_mac", mac_str(&v[i].other, (char[MAC_TEXT_MAX]){0})));
		if (!first)
			first = &v[i];
	}
	if (!first || !last)
		return 0;
	probe_describe(first, e);
	if (e)
		e->kind = ERR_AGAIN;
	return -EADDRINUSE;
}

static int probe_again(struct probing *p, struct err *e)
{
	bool was_new = p->call->flags->is_new;
	int r;

	cni_result_done(p->call->out);
	r = spiderpool_add(&p->call, 1, e);
	p->call->flags->is_new |= was_new;
	return r;
}

/* Returns 0 if all addresses were probed, 1 if new addresses were requested, which must be
 * probed. */
static int one_round(struct probing *p, struct probe_rounds *rounds, struct err *e)
{
	auto_free struct probe *v = NULL;
	size_t n = make_probes(p, &v);
	int r;

	if (n == 0)
		return 0;
	r = probe_round(rounds, p->netns, v, n, e);
	if (r >= 0)
		r = judge(p, v, n, e);
	if (r <= 0)
		return r;
	r = give_up(p, v, n, !probe_round_left(rounds), e);
	if (r == 0)
		r = probe_again(p, e);
	return r < 0 ? r : 1;
}

static int detect(struct probing *p, struct err *e)
{
	const struct cni_ipam_flags *f = p->call->flags;
	struct probe_rounds rounds = {.limits = PROBE_LIMITS_INIT, .left = ROUNDS};
	struct probe_limits *l = &rounds.limits;
	int r = 1;

	l->tries = f->tries > 0 ? f->tries : l->tries;
	l->interval_ms = f->interval_ms > 0 ? f->interval_ms : l->interval_ms;
	l->total_ms = f->total_ms > 0 ? f->total_ms : l->total_ms;
	l->carrier_ms = f->carrier_ms > 0 ? f->carrier_ms : l->carrier_ms;
	while (r > 0)
		r = one_round(p, &rounds, e);
	return r;
}

/* Announces only the addresses of this attachment; the original announces those of all attachments
 * on each link. */
static void announce(const struct probing *p)
{
	auto_free struct announce *v = xcalloc(p->call->out->n_ips + 1, sizeof(*v));

	for (size_t i = 0; i < p->call->out->n_ips; i++)
		v[i] = (struct announce){p->call->ifname, p->link.index, p->link.mac,
					 p->call->out->ips[i].address.ip};
	announce_all(p->netns, v, p->call->out->n_ips);
}

int spiderpool_probe(const struct cni_ipam_call *call, int netns, struct err *e)
{
	struct probing p = {.call = call, .netns = netns};
	bool requested = call->flags->conflict_detection || call->flags->gateway_detection;
	struct err reason = ERR_INIT;
	int r = prepare(&p, requested, requested ? e : &reason);

	/* If the calling plugin creates its link later, nothing can be announced here. */
	if (r < 0 && !requested) {
		log_debug("cannot announce the addresses", LOG_S("error", reason.text));
		return 0;
	}
	if (r == 0 && requested)
		r = detect(&p, e);
	if (r == 0 && (requested || link_is_up(&p.link)))
		announce(&p);
	free(p.conflict_free);
	return r;
}
