/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carries out a plan: sets the sysctls during one switch to the pod's namespace, sends the
 * rtnetlink messages for the pod, then those for the host, and adds the nf_tables rules that mark
 * replies. Undo reverses the steps, newest first.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cni/plugins/coordinator/internal.h"
#include "kern/net/nft.h"
#include "kern/sys/netns.h"
#include "kern/sys/sysctl.h"

void coordinator_plan_free(struct coordinator_plan *p)
{
	if (!p)
		return;
	free(p->steps);
	free(p);
}

static struct route route_of(const struct coordinator_step *s)
{
	struct route r = s->route;

	r.dev = *s->ifname ? s->ifname : NULL;
	return r;
}

static void emit_step(const struct coordinator_step *s, struct nl_batch *b)
{
	struct link_change c = {0};
	struct route r;

	switch (s->what) {
	case COORD_LINK_UP:
		c.set = LINK_SET_UP;
		link_set(b, s->index, s->ifname, &c);
		break;
	case COORD_LINK_MAC:
		c.set = LINK_SET_MAC;
		c.mac = s->mac;
		link_set(b, s->index, s->ifname, &c);
		break;
	case COORD_LINK_TXQLEN:
		c.set = LINK_SET_TXQLEN;
		c.txqlen = s->num;
		link_set(b, s->index, s->ifname, &c);
		break;
	case COORD_ADDR_ADD: addr_add(b, s->index, s->ifname, &s->net, 0); break;
	case COORD_NEIGH_DEL: neigh_del(b, s->index, s->ifname, &s->net.ip); break;
	case COORD_NEIGH_ADD: neigh_add(b, s->index, s->ifname, &s->net.ip, &s->mac, true); break;
	case COORD_ROUTE_ADD:
		r = route_of(s);
		route_add(b, &r, ROUTE_EXCL_OK);
		break;
	case COORD_ROUTE_DEL:
		r = route_of(s);
		route_del(b, &r);
		break;
	case COORD_RULE_ADD:
		/* A rule with a priority may exist already: all pods share the host's rule, and
		 * an earlier NIC may have added the pod's rule for marked replies. */
		rule_add(b, &s->rule, s->rule.has_priority ? NL_OK_EXIST : 0);
		break;
	case COORD_SYSCTL:
	case COORD_MARKS: break;
	}
}

/* Adds the reverse of a step to the batch; returns false if the step has none. */
static bool emit_reverse(const struct coordinator_step *s, struct nl_batch *b)
{
	struct coordinator_step back = *s;
	struct route r;

	switch (s->what) {
	case COORD_LINK_MAC:
		back.mac = s->old_mac;
		emit_step(&back, b);
		return true;
	case COORD_LINK_TXQLEN:
		back.num = s->old_num;
		emit_step(&back, b);
		return true;
	case COORD_ADDR_ADD: addr_del(b, s->index, s->ifname, &s->net); return true;
	case COORD_NEIGH_ADD: neigh_del(b, s->index, s->ifname, &s->net.ip); return true;
	case COORD_ROUTE_ADD:
		r = route_of(s);
		route_del(b, &r);
		return true;
	case COORD_ROUTE_DEL:
		/* NLM_F_EXCL is not set, because an IPv6 route of another link with the same prefix
		 * would make the request fail. */
		r = route_of(s);
		route_add(b, &r, ROUTE_CREATE);
		return true;
	case COORD_RULE_ADD:
		/* The node's rule has no reverse, because all pods share it; release_rules()
		 * deletes an unused rule. */
		if (s->side == COORD_HOST)
			return false;
		rule_del(b, &s->rule);
		return true;
	case COORD_LINK_UP:
	case COORD_NEIGH_DEL:
	case COORD_SYSCTL:
	case COORD_MARKS: break;
	}
	return false;
}

static bool by_netlink(const struct coordinator_step *s)
{
	return s->what != COORD_SYSCTL && s->what != COORD_MARKS;
}

static int step_err(const struct coordinator_step *s, const struct coordinator_nic *nics, int code,
		    struct err *e)
{
	return nics[s->nic].label ? err_wrap(e, code, "%s", nics[s->nic].label) : code;
}

static int apply_batch(struct coordinator_plan *p, enum coordinator_side side, struct nl_wire *w,
		       const struct coordinator_nic *nics, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	auto_free struct coordinator_step **of = xcalloc(p->n, sizeof(struct coordinator_step *));
	struct coordinator_step *failed = NULL;
	size_t n = 0;
	int r;

	for (size_t i = 0; i < p->n; i++) {
		if (p->steps[i].side != side || !by_netlink(&p->steps[i]))
			continue;
		of[n++] = &p->steps[i];
		emit_step(&p->steps[i], b);
	}
	r = n ? nl_batch_commit(w, b, e) : 0;
	for (size_t i = 0; i < n; i++) {
		int one = nl_batch_result(b, i);

		/* A step that failed counts as done, too: the kernel may have carried it out and
		 * only its reply was lost. The undo of a step that had no effect is harmless. */
		of[i]->done = one != -EEXIST;
		if (one < 0 && !failed)
			failed = of[i];
	}
	return r < 0 && failed ? step_err(failed, nics, r, e) : r;
}

static int set_sysctl(struct coordinator_step *s, const struct root *root, struct err *e)
{
	int r = sysctl_get(root, s->key, s->old_value, sizeof(s->old_value), NULL);

	/* -ENOENT: a kernel without IPv6 has no IPv6 sysctls and does not need them. */
	if (r == -ENOENT || (r >= 0 && strcmp(s->old_value, s->value) == 0))
		return 0;
	r = sysctl_set(root, s->key, s->value, e);
	s->done = r >= 0 && s->old_value[0];
	return r;
}

static int apply_sysctls(struct coordinator_plan *p, const struct coordinator_nic *nics,
			 struct err *e)
{
	struct netns_visit v = NETNS_VISIT_INIT;
	int r = netns_enter(p->a->netns, &v, e);

	if (r < 0)
		return r;
	for (size_t i = 0; r >= 0 && i < p->n; i++) {
		if (p->steps[i].what != COORD_SYSCTL)
			continue;
		r = set_sysctl(&p->steps[i], &p->a->call->root, e);
		if (r < 0)
			step_err(&p->steps[i], nics, r, e);
	}
	netns_leave(&v);
	return r;
}

static int apply_marks(struct coordinator_plan *p, const struct coordinator_nic *nics,
		       struct err *e)
{
	for (size_t i = 0; i < p->n; i++) {
		struct coordinator_step *s = &p->steps[i];
		auto_nl struct nl_wire *w = NULL;
		int r;

		if (s->what != COORD_MARKS)
			continue;
		r = nl_open(&w, NL_NETFILTER, p->a->netns, e);
		s->done = r >= 0; /* set before the request, because its reply may be lost */
		if (r >= 0)
			r = nft_reply_marks_set(w, s->ifname, s->num, e);
		if (r < 0)
			return step_err(s, nics,
					err_wrap(e, r, "mark the replies that leave through '%s'",
						 s->ifname),
					e);
	}
	return 0;
}

/* --- undo of a plan --- */

static void undo_batch(const struct coordinator_plan *p, enum coordinator_side side,
		       struct nl_wire *w)
{
	auto_batch struct nl_batch *b = nl_batch_new();

	for (size_t i = p->n; i-- > 0;)
		if (p->steps[i].side == side && p->steps[i].done)
			emit_reverse(&p->steps[i], b);
	if (nl_batch_len(b))
		nl_batch_commit(w, b, NULL);
}

static int undo_inside(const struct coordinator_plan *p, struct err *e)
{
	struct netns_visit v = NETNS_VISIT_INIT;
	int r = netns_enter(p->a->netns, &v, e);

	if (r < 0)
		return r;
	for (size_t i = p->n; i-- > 0;)
		if (p->steps[i].what == COORD_SYSCTL && p->steps[i].done)
			sysctl_set(&p->a->call->root, p->steps[i].key, p->steps[i].old_value, NULL);
	netns_leave(&v);
	return 0;
}

static void release_rules(const struct coordinator_plan *p)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->steps[i].side == COORD_HOST && p->steps[i].what == COORD_RULE_ADD &&
		    p->steps[i].rule.family)
			coordinator_host_rule_release(p->a->host, p->steps[i].rule.table, NULL);
}

static int undo_plan(void *arg, struct err *e)
{
	const struct coordinator_plan *p = *(struct coordinator_plan **)arg;

	for (size_t i = 0; i < p->n; i++) {
		auto_nl struct nl_wire *w = NULL;

		if (p->steps[i].what == COORD_MARKS && p->steps[i].done &&
		    nl_open(&w, NL_NETFILTER, p->a->netns, NULL) >= 0)
			nft_reply_marks_del(w, NULL);
	}
	undo_batch(p, COORD_HOST, p->a->host);
	release_rules(p);
	undo_batch(p, COORD_POD, p->a->pod);
	return undo_inside(p, e);
}

int coordinator_apply(struct attach *a, struct coordinator_plan *p,
		      const struct coordinator_nic *nics, struct err *e)
{
	int r;

	p->a = a;
	undo_push(&a->undo, "reverse the coordinator's steps", undo_plan, &p, sizeof(p));
	r = apply_sysctls(p, nics, e);
	if (r >= 0)
		r = apply_batch(p, COORD_POD, a->pod, nics, e);
	if (r >= 0)
		r = apply_batch(p, COORD_HOST, a->host, nics, e);
	if (r >= 0)
		r = apply_marks(p, nics, e);
	return r;
}
