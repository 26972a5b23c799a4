/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One NIC's plan. The order of steps and what each does is the original's; where it ignores that
 * something exists already, the step is left out instead, so that undo never takes away what was
 * there before.
 */
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cni/plugins/coordinator/coordinator_private.h"

static int find_nic(struct planning *pl, struct err *e)
{
	pl->link = co_link(pl->f, pl->nic->ifname);
	if (!pl->link)
		return err_set(e, -ENODEV, "the pod has no interface '%s': Link not found",
			       pl->nic->ifname);
	pl->n_ips = co_link_ips(pl->f, pl->link->index, CO_V4 | CO_V6, &pl->ips);
	for (size_t i = 0; i < pl->n_ips; i++)
		pl->families |= co_family_bit(&pl->ips[i]);
	if (!pl->families)
		return err_kind(
			e, ERR_CONF, -EADDRNOTAVAIL,
			"no usable IP addresses on \"%s\" (give the network an IPAM, or leave "
			"the coordinator out)",
			pl->nic->ifname);
	return 0;
}

static void bring_up(struct planning *pl)
{
	struct link *l = (struct link *)pl->link;

	if (link_is_up(l))
		return;
	co_emit(pl, CO_POD, CO_LINK_UP, l->name, l->index);
	l->flags |= IFF_UP;
}

static int find_exit(struct planning *pl, struct err *e)
{
	bool underlay = pl->stage.mode == CO_UNDERLAY;
	const char *name = underlay ? CO_VETH : pl->c->default_nic;

	pl->exit = co_link(pl->f, name);
	if (!pl->exit)
		return err_set(e, -ENODEV, "the pod has no interface '%s': Link not found", name);
	if (!pl->f->host_veth.index)
		return err_set(
			e, -ENODEV,
			"'%s' of the pod has no end on this node (%s mode wants a veth pair)", name,
			underlay ? "underlay" : "overlay");
	return 0;
}

static void find_src(struct planning *pl)
{
	const struct link *eth0 = co_link(pl->f, pl->c->default_nic);
	struct ipaddr *ips = NULL;

	/* IPv4 only: the kernel loses IPv6 routes with a source (its bug 107071). */
	if (eth0 && co_link_ips(pl->f, eth0->index, CO_V4, &ips))
		pl->src4 = ips[0];
	free(ips);
}

static struct mac mac_from_ip(const struct co_conf *c, const struct ipaddr *ip)
{
	struct mac m = {.len = 6, .b = {c->mac_prefix[0], c->mac_prefix[1]}};

	memcpy(&m.b[2], &ip->b[ip_size(ip) - 4], 4);
	return m;
}

static void change_nic(struct planning *pl)
{
	struct link *l = (struct link *)pl->link;
	struct co_step *s;

	if (pl->c->has_mac_prefix) {
		struct mac m = mac_from_ip(pl->c, &pl->ips[0]);

		if (!mac_eq(&m, &l->mac)) {
			s = co_emit(pl, CO_POD, CO_LINK_MAC, l->name, l->index);
			s->old_mac = l->mac;
			s->mac = l->mac = m;
		}
		pl->nic->mac = m;
	}
	if (pl->c->txqlen && pl->c->txqlen != l->txqlen) {
		s = co_emit(pl, CO_POD, CO_LINK_TXQLEN, l->name, l->index);
		s->old_num = l->txqlen;
		s->num = l->txqlen = pl->c->txqlen;
	}
}

static void emit_sysctl(struct planning *pl, enum co_side side, const char *key, int value)
{
	struct co_step *s;

	for (size_t i = 0; i < pl->p->n; i++) {
		s = &pl->p->steps[i];
		if (s->what == CO_SYSCTL && s->side == side && strcmp(s->key, key) == 0 &&
		    atoi(s->value) == value)
			return;
	}
	s = co_emit(pl, side, CO_SYSCTL, "", 0);
	str_copy(s->key, sizeof(s->key), key);
	snprintf(s->value, sizeof(s->value), "%d", value);
}

static void sysctls(struct planning *pl)
{
	if (pl->families & CO_V6)
		emit_sysctl(pl, CO_POD, "net/ipv6/conf/all/disable_ipv6", 0);
	if (pl->c->rp_filter >= 0)
		emit_sysctl(pl, CO_POD, "net/ipv4/conf/all/rp_filter", pl->c->rp_filter);
}

static void veth_address(struct planning *pl)
{
	struct co_step *s;

	if (pl->stage.mode != CO_UNDERLAY || !pl->stage.first || !pl->c->veth_addr.family ||
	    !(pl->families & CO_V4))
		return;
	s = co_emit(pl, CO_POD, CO_ADDR_ADD, pl->exit->name, pl->exit->index);
	s->net = ipnet_host(&pl->c->veth_addr);
}

static void policy_routes(struct planning *pl)
{
	bool main = pl->stage.mode == CO_UNDERLAY && pl->stage.first;

	for (size_t i = 0; i < pl->c->n_policy; i++) {
		const struct co_policy *p = &pl->c->policy[i];
		struct route r = {.dst = p->dst,
				  .gw = p->gw,
				  .family = p->dst.ip.family,
				  .index = pl->link->index,
				  .table = main ? TABLE_MAIN : pl->stage.table};

		if (pl->families & co_family_bit(&p->gw))
			co_emit_route(pl, CO_POD, &r);
	}
}

static int plan(struct planning *pl, struct err *e)
{
	int r = find_nic(pl, e);

	if (r < 0)
		return r;
	bring_up(pl);
	r = co_stage(pl->c, pl->f, pl->nic->ifname, &pl->stage, e);
	if (r >= 0)
		r = find_exit(pl, e);
	if (r < 0)
		return r;
	find_src(pl);
	co_host_ips(pl);
	veth_address(pl);
	change_nic(pl);
	sysctls(pl);
	co_node_steps(pl);
	r = co_tune_routes(pl, e);
	if (r >= 0)
		policy_routes(pl);
	return r;
}

int co_plan_nic(struct co_nic *nic, size_t at, struct co_facts *f, struct co_plan *p, struct err *e)
{
	struct planning pl = {.nic = nic, .c = nic->conf, .f = f, .p = p, .at = at};
	int r = plan(&pl, e);

	free(pl.ips);
	free(pl.host);
	co_ways_done(&pl);
	if (r < 0 && nic->label)
		err_wrap(e, r, "%s", nic->label);
	return r;
}
