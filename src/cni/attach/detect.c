/* SPDX-License-Identifier: Apache-2.0 */
/* Conflict and gateway detection on all attachments in parallel, before any address is set. An
 * address in conflict is reported to the IPAM, and another one is requested. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cni/attach/internal.h"

enum { ROUNDS = 3 };

static bool wanted(const struct rail *rail)
{
	return rail_has_addresses(rail) && !rail->conf.no_arp &&
	       (rail->flags.conflict_detection || rail->flags.gateway_detection);
}

struct round {
	struct probe *p;
	size_t *owner; /* index of each probe's attachment */
	size_t n;
};

static void round_done(struct round *r)
{
	free(r->p);
	free(r->owner);
}

static void add_probes(struct round *round, const struct rail *rail, size_t owner)
{
	for (size_t i = 0; i < rail->got.n_ips; i++) {
		const struct cni_ip *ip = &rail->got.ips[i];
		size_t n = round->n;

		if (rail_is_conflict_free(rail, &ip->address.ip))
			continue;
		VEC_PUSH(round->owner, n) = owner;
		VEC_PUSH(round->p, round->n) = (struct probe){
			.ifname = rail->ifname,
			.index = rail->index,
			.mac = rail->mac,
			.arptype = rail->arptype,
			.ip = ip->address.ip,
			.gateway = ip->gateway,
			.want_conflict = rail->flags.conflict_detection,
			.want_gateway = rail->flags.gateway_detection && ip->gateway.family,
		};
	}
}

/* All attachments share the limits: the longest total and carrier limits of any attachment, and the
 * tries and interval of the last attachment that sets them. a->detect_ms overrides the total. */
static struct probe_limits limits_of(const struct attach *a)
{
	struct probe_limits l = PROBE_LIMITS_INIT;
	int total = 0, carrier = 0;

	for (size_t i = 0; i < a->n_rails; i++) {
		const struct cni_ipam_flags *f = &a->rails[i].flags;

		if (!wanted(&a->rails[i]))
			continue;
		l.tries = f->tries > 0 ? f->tries : l.tries;
		l.interval_ms = f->interval_ms > 0 ? f->interval_ms : l.interval_ms;
		total = f->total_ms > total ? f->total_ms : total;
		carrier = f->carrier_ms > carrier ? f->carrier_ms : carrier;
	}
	l.carrier_ms = carrier > 0 ? carrier : l.carrier_ms;
	if (a->detect_ms > 0)
		l.total_ms = a->detect_ms;
	else if (total > 0)
		l.total_ms = total;
	return l;
}

/* Sets e to the text of probe_describe(). Omits the interface's name at the start of the text if
 * the attachment has a label, which rail_err() adds. */
static void describe_conflict(const struct rail *rail, const struct probe *p, struct err *e)
{
	struct err reason = ERR_INIT;
	size_t skip = strlen("rail : ") + strlen(rail->ifname);

	probe_describe(p, &reason);
	if (!rail->label || strncmp(reason.text, "rail ", 5) != 0 || strlen(reason.text) < skip)
		skip = 0;
	err_kind(e, reason.kind ? reason.kind : ERR_AGAIN, reason.code ? reason.code : -EIO, "%s",
		 reason.text + skip);
}

/* Returns 1 if there is no conflict, 0 if there is at least one conflict; negative: an error. */
static int judge(struct attach *a, const struct round *round, struct err *e)
{
	int well = 1;

	for (size_t i = 0; i < round->n; i++) {
		const struct probe *p = &round->p[i];
		struct rail *rail = &a->rails[round->owner[i]];

		if (p->state == PROBE_CONFLICT) {
			well = 0;
			continue;
		}
		if (p->state != PROBE_OK && p->state != PROBE_NONE) {
			describe_conflict(rail, p, e);
			return rail_err(rail, e && e->code ? e->code : -EHOSTUNREACH, e);
		}
		if (p->want_conflict)
			VEC_PUSH(rail->conflict_free, rail->n_conflict_free) = p->ip;
	}
	return well;
}

/* Reports each address in conflict to the IPAM of its attachment. */
static int give_up_addresses(struct attach *a, const struct round *round, struct err *e)
{
	for (size_t i = 0; i < round->n; i++) {
		const struct probe *p = &round->p[i];
		const struct rail *rail = &a->rails[round->owner[i]];
		int r;

		if (p->state != PROBE_CONFLICT)
			continue;
		r = cni_ipam_conflict(&rail->ipam, &p->ip, &p->other, e);
		if (r < 0)
			return rail_err(rail, r, e);
	}
	return 0;
}

/* Returns one of the attachment's probes that found a conflict in this round; NULL: none did. */
static const struct probe *conflict_of(const struct round *round, size_t rail)
{
	for (size_t i = 0; i < round->n; i++)
		if (round->owner[i] == rail && round->p[i].state == PROBE_CONFLICT)
			return &round->p[i];
	return NULL;
}

static int in_conflict(const struct attach *a, size_t rail, const struct probe *p, struct err *e)
{
	describe_conflict(&a->rails[rail], p, e);
	return rail_err(&a->rails[rail], -EADDRINUSE, e);
}

/* Sets the error of a failed request for another address: first the text of the conflict, then
 * the IPAM's error. */
static int no_other(const struct attach *a, size_t rail, const struct probe *p, int code,
		    struct err *e)
{
	struct err reason = ERR_INIT;

	describe_conflict(&a->rails[rail], p, &reason);
	err_wrap(e, code, "%s; the request for another address failed", reason.text);
	return rail_err(&a->rails[rail], code, e);
}

static int detect_rails_again(struct attach *a, const struct round *round, bool last, struct err *e)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < a->n_rails; i++) {
		const struct probe *p = conflict_of(round, i);

		if (!p)
			continue;
		if (last)
			return in_conflict(a, i, p, e);
		r = attach_detect_again(&a->rails[i], e);
		if (r < 0)
			return no_other(a, i, p, r, e);
	}
	return r;
}

/* Returns 1 if nothing is left to probe, 0 if some attachments have new addresses. */
static int one_round(struct attach *a, struct probe_rounds *rounds, struct err *e)
{
	__attribute__((cleanup(round_done))) struct round round = {0};
	int r;

	for (size_t i = 0; i < a->n_rails; i++)
		if (wanted(&a->rails[i]))
			add_probes(&round, &a->rails[i], i);
	if (!round.n)
		return 1;
	r = probe_round(rounds, a->netns, round.p, round.n, e);
	if (r >= 0)
		r = judge(a, &round, e);
	if (r != 0)
		return r < 0 ? r : 1;
	/* Reports the conflict after the last round as well, so that the next pod does not get the
	 * same address. */
	r = give_up_addresses(a, &round, e);
	return r < 0 ? r : detect_rails_again(a, &round, !probe_round_left(rounds), e);
}

static int bring_up(struct attach *a, struct err *e)
{
	const struct link_change up = {.set = LINK_SET_UP | LINK_SET_ARP_NOTIFY};
	auto_batch struct nl_batch *b = nl_batch_new();
	auto_free size_t *owner = xcalloc(a->n_rails, sizeof(*owner));
	size_t n = 0;

	for (size_t i = 0; i < a->n_rails; i++) {
		if (!wanted(&a->rails[i]))
			continue;
		link_set(b, a->rails[i].index, a->rails[i].ifname, &up);
		owner[n++] = i;
	}
	return attach_commit(a, a->pod, b, owner, e);
}

int attach_detect(struct attach *a, struct err *e)
{
	struct probe_rounds rounds = {.limits = limits_of(a), .left = ROUNDS};
	bool any = false;
	int r;

	for (size_t i = 0; i < a->n_rails; i++)
		any |= wanted(&a->rails[i]);
	if (!any)
		return 0;
	r = bring_up(a, e);
	while (r == 0)
		r = one_round(a, &rounds, e);
	return r < 0 ? r : 0;
}

/*
 * Detection sets a link up before the addresses are set, so the kernel does not announce these
 * addresses: this function does. The kernel announces the addresses of other links (arp_notify,
 * ndisc_notify), which saves the 10 to 20 ms that closing a packet socket takes.
 */
void attach_announce(const struct attach *a)
{
	struct announce *list = NULL;
	size_t n = 0;

	for (size_t i = 0; i < a->n_rails; i++) {
		const struct rail *rail = &a->rails[i];

		if (!wanted(rail))
			continue;
		for (size_t k = 0; k < rail->got.n_ips; k++)
			VEC_PUSH(list, n) = (struct announce){
				.ifname = rail->ifname,
				.index = rail->index,
				.mac = rail->mac,
				.ip = rail->got.ips[k].address.ip,
			};
	}
	if (n)
		announce_all(a->netns, list, n);
	free(list);
}
