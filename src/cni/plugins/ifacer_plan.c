/* SPDX-License-Identifier: Apache-2.0 */
/* ifacer's decisions: which links a node lacks. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "cni/plugins/ifacer.h"

bool ifacer_wants_bond(const struct ifacer_conf *c)
{
	return c->n_interfaces > 1 && c->has_bond;
}

bool ifacer_wants_vlan(const struct ifacer_conf *c)
{
	return c->vlan && (c->n_interfaces == 1 || c->has_bond);
}

void ifacer_plan_done(struct ifacer_plan *p)
{
	free(p->ports);
	*p = (struct ifacer_plan){0};
}

static int find(const struct link *links, size_t n, const char *name, const char *what,
		const struct link **ret, struct err *e)
{
	*ret = link_find(links, n, name);
	if (*ret)
		return 0;
	return err_kind(e, ERR_UNAVAILABLE, -ENODEV, "%s '%s': Link not found on this node", what,
			name);
}

/* --- the bond --- */

static int add_port(const struct link *links, size_t n, const char *name, struct ifacer_plan *p,
		    struct err *e)
{
	const struct link *l, *master;
	int r = find(links, n, name, "interface", &l, e);

	if (r < 0)
		return r;
	if (link_is_loopback(l))
		return err_kind(e, ERR_CONF, -EINVAL, "interface '%s' is the loopback", name);
	if (l->master && l->master != p->bond_index) {
		master = link_find_index(links, n, l->master);
		return err_kind(e, ERR_CONF, -EBUSY,
				"interface '%s' belongs to '%s' already: take it out first", name,
				master ? master->name : "another link");
	}
	VEC_PUSH(p->ports, p->n_ports) = (struct ifacer_port){name, l->index, link_is_up(l)};
	return 0;
}

static int index_of(const struct ifacer_plan *p, const char *name)
{
	for (size_t i = 0; i < p->n_ports; i++)
		if (strcmp(p->ports[i].name, name) == 0)
			return p->ports[i].index;
	return 0;
}

static int plan_ports(const struct ifacer_conf *c, const struct link *links, size_t n,
		      struct ifacer_plan *p, struct err *e)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < c->n_interfaces; i++)
		r = add_port(links, n, c->interfaces[i], p, e);
	if (r < 0)
		return r;
	p->active_slave = index_of(p, c->active_slave);
	if (*c->primary)
		link_bond_set(&p->bond, LINK_BOND_PRIMARY, (uint32_t)index_of(p, c->primary));
	return 0;
}

static size_t ports_of(const struct link *links, size_t n, int bond)
{
	size_t ports = 0;

	for (size_t i = 0; i < n; i++)
		ports += links[i].master == bond;
	return ports;
}

static int check_members(const struct ifacer_conf *c, const struct link *bond,
			 const struct link *links, size_t n, struct err *e)
{
	const struct link *port;

	if (strcmp(bond->kind, "bond") != 0)
		return err_set(e, -EINVAL, "link '%s' is no bond", bond->name);
	if (bond->bond_mode != c->bond.value[LINK_BOND_MODE])
		return err_set(e, -EINVAL, "bond '%s' has mode %u, conf.bond.mode is %u",
			       bond->name, bond->bond_mode, c->bond.value[LINK_BOND_MODE]);
	for (size_t i = 0; i < c->n_interfaces; i++) {
		int r = find(links, n, c->interfaces[i], "interface", &port, e);

		if (r < 0)
			return r;
		if (port->master != bond->index)
			return err_set(e, -EINVAL, "interface '%s' is not a port of bond '%s'",
				       port->name, bond->name);
	}
	return 0;
}

/* Somebody's bond is used as it is; what differs is said, and CHECK fails for it. */
static void warn_if_other(const struct ifacer_conf *c, const struct link *bond,
			  const struct link *links, size_t n)
{
	struct err why = ERR_INIT;

	if (check_members(c, bond, links, n, &why) < 0)
		log_warn("bond is there and not as configured", LOG_S("why", why.text));
}

static int plan_bond(const struct ifacer_conf *c, const struct link *links, size_t n,
		     struct ifacer_plan *p, struct err *e)
{
	const struct link *l = link_find(links, n, c->bond_name);

	p->bond_name = c->bond_name;
	p->bond = c->bond;
	p->makes_bond = !l;
	p->sets_bond_up = !l || !link_is_up(l);
	if (!l)
		return plan_ports(c, links, n, p, e);
	if (strcmp(l->kind, "bond") != 0)
		return err_kind(e, ERR_CONF, -EEXIST,
				"createBondDevice failure: a non-bond type interface named %s "
				"already exists on the host (conf.bond.name)",
				c->bond_name);
	p->bond_index = l->index;
	if (!ports_of(links, n, l->index))
		return plan_ports(c, links, n, p, e);
	warn_if_other(c, l, links, n);
	return 0;
}

/* --- the VLAN interface --- */

/* An id names one network on a node: the original's rule. */
static int check_unique(const struct ifacer_plan *p, const struct link *links, size_t n,
			struct err *e)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(links[i].kind, "vlan") == 0 && links[i].vlan_id == p->vlan &&
		    strcmp(links[i].name, p->vlan_name) != 0)
			return err_kind(
				e, ERR_CONF, -EEXIST,
				"cannot have multiple different vlan interfaces with the "
				"same vlanId %u on node at the same time ('%s' has it, '%s' "
				"is wanted)",
				p->vlan, links[i].name, p->vlan_name);
	return 0;
}

static int check_existing(const struct link *l, const struct ifacer_plan *p, struct err *e)
{
	if (strcmp(l->kind, "vlan") == 0 && l->vlan_id == p->vlan && p->parent_index &&
	    l->parent == p->parent_index)
		return 0;
	return err_kind(e, ERR_CONF, -EEXIST,
			"'%s' is there and is not VLAN %u of '%s': remove or rename it",
			p->vlan_name, p->vlan, p->parent);
}

static int plan_vlan(const struct ifacer_conf *c, const struct link *links, size_t n,
		     struct ifacer_plan *p, struct err *e)
{
	bool bond = ifacer_wants_bond(c);
	const char *on = bond ? c->bond_name : c->interfaces[0];
	auto_free char *name = xasprintf("%s.%u", on, c->vlan);
	const struct link *parent = NULL, *l;
	int r = 0;

	p->parent = on;
	p->vlan = c->vlan;
	str_copy(p->vlan_name, sizeof(p->vlan_name), name);
	if (!bond)
		r = find(links, n, p->parent, "interface", &parent, e);
	if (r >= 0)
		r = check_unique(p, links, n, e);
	if (r < 0)
		return r;
	p->parent_index = bond ? p->bond_index : parent->index;
	p->sets_parent_up = parent && !link_is_up(parent);
	l = link_find(links, n, p->vlan_name);
	p->makes_vlan = !l;
	p->sets_vlan_up = !l || !link_is_up(l);
	p->vlan_index = l ? l->index : 0;
	return l ? check_existing(l, p, e) : 0;
}

int ifacer_plan(const struct ifacer_conf *c, const struct link *links, size_t n,
		struct ifacer_plan *ret, struct err *e)
{
	struct ifacer_plan p = {0};
	int r = 0;

	if (ifacer_wants_bond(c)) {
		r = plan_bond(c, links, n, &p, e);
		if (r < 0)
			err_wrap(e, r, "failed to createBondDevice");
	}
	if (r >= 0 && ifacer_wants_vlan(c)) {
		r = plan_vlan(c, links, n, &p, e);
		if (r < 0)
			err_wrap(e, r, "failed to createVlanDevice");
	}
	if (r < 0)
		ifacer_plan_done(&p);
	else
		*ret = p;
	return r < 0 ? r : 0;
}

/* --- CHECK --- */

static int not_up(const char *name, struct err *e)
{
	return err_set(e, -ENETDOWN, "link '%s' is down", name);
}

static int check_bond(const struct ifacer_conf *c, const struct link *links, size_t n,
		      struct err *e)
{
	const struct link *l;
	int r = find(links, n, c->bond_name, "bond", &l, e);

	if (r >= 0)
		r = check_members(c, l, links, n, e);
	return r < 0 || link_is_up(l) ? r : not_up(l->name, e);
}

static int check_vlan(const struct ifacer_conf *c, const struct link *links, size_t n,
		      struct err *e)
{
	const struct link *bond = ifacer_wants_bond(c) ? link_find(links, n, c->bond_name) : NULL;
	struct ifacer_plan p = {.bond_index = bond ? bond->index : 0};
	int r = plan_vlan(c, links, n, &p, e);

	if (r >= 0 && p.makes_vlan)
		return err_kind(e, ERR_UNAVAILABLE, -ENODEV,
				"interface '%s': Link not found on this node", p.vlan_name);
	return r < 0 || !p.sets_vlan_up ? r : not_up(p.vlan_name, e);
}

int ifacer_check(const struct ifacer_conf *c, const struct link *links, size_t n, struct err *e)
{
	int r = ifacer_wants_bond(c) ? check_bond(c, links, n, e) : 0;

	if (r >= 0 && ifacer_wants_vlan(c))
		r = check_vlan(c, links, n, e);
	return r;
}
