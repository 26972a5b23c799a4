/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/plugins/ifacer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"

enum { LOCK_MS = 30000 };

static void set_up(struct nl_batch *b, int index, const char *name)
{
	const struct link_change up = {.set = LINK_SET_UP};

	link_set(b, index, name, &up);
}

void ifacer_put_ports(const struct ifacer_plan *p, int bond, struct nl_batch *b)
{
	const struct link_change down = {.set = LINK_SET_DOWN};
	const struct link_change into = {.set = LINK_SET_MASTER, .master = bond};

	/* The bonding driver accepts only ports that are down. */
	for (size_t i = 0; i < p->n_ports; i++) {
		link_set(b, p->ports[i].index, p->ports[i].name, &down);
		link_set(b, p->ports[i].index, p->ports[i].name, &into);
		set_up(b, p->ports[i].index, p->ports[i].name);
	}
	if (p->sets_bond_up)
		set_up(b, bond, p->bond_name);
}

void ifacer_put_active(const struct ifacer_plan *p, int bond, struct nl_batch *b)
{
	struct link_bond active = {0};

	link_bond_set(&active, LINK_BOND_ACTIVE_SLAVE, (uint32_t)p->active_slave);
	link_bond_change(b, bond, p->bond_name, &active);
}

void ifacer_put_vlan(const struct ifacer_plan *p, int parent, struct nl_batch *b)
{
	struct link_spec s = LINK_SPEC_INIT;

	if (p->sets_parent_up)
		set_up(b, parent, p->parent);
	s.name = p->vlan_name;
	s.kind = "vlan";
	s.parent = parent;
	s.vlan_id = p->vlan;
	s.up = true;
	if (p->makes_vlan)
		link_add(b, &s);
	else if (p->sets_vlan_up)
		set_up(b, p->vlan_index, p->vlan_name);
}

/* --- undo of links and ports --- */

struct made {
	struct nl_wire *w;
	int index; /* index of the link; 0: the link is identified by its name */
	char name[LINK_NAME_MAX];
	bool was_up;
};

static struct made made_of(struct nl_wire *w, int index, const char *name, bool was_up)
{
	struct made m = {.w = w, .index = index, .was_up = was_up};

	str_copy(m.name, sizeof(m.name), name);
	return m;
}

static int undo_link(void *arg, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	const struct made *m = arg;

	link_del(b, m->index, m->name);
	return nl_batch_commit(m->w, b, e);
}

static int undo_up(void *arg, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	const struct made *m = arg;

	link_set(b, m->index, m->name, &(struct link_change){.set = LINK_SET_DOWN});
	return nl_batch_commit(m->w, b, e);
}

/* Takes a port out of the bond; the driver then sets the port down. Sets the port up again if it
 * was up before. */
static int undo_port(void *arg, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	const struct made *m = arg;
	const struct link_change out = {.set = LINK_SET_MASTER};
	const struct link_change as_it_was = {.set = m->was_up ? LINK_SET_UP : LINK_SET_DOWN};

	link_set(b, m->index, m->name, &out);
	link_set(b, m->index, m->name, &as_it_was);
	return nl_batch_commit(m->w, b, e);
}

static void push(struct undo *u, const char *what, undo_fn fn, struct made m)
{
	undo_push(u, what, fn, &m, sizeof(m));
}

/* --- execution of the plan --- */

static int commit(const struct chained_call *m, struct nl_batch *b, struct err *e)
{
	int r = nl_batch_len(b) ? nl_batch_commit(m->host, b, e) : 0;

	/* Another program created the link after this process listed the links; a retry may
	 * succeed. */
	if (r == -EEXIST)
		err_default_kind(e, ERR_AGAIN);
	/* The driver refuses an option: "option not supported in mode", "invalid option value". */
	if (r == -EACCES || r == -EINVAL)
		err_default_kind(e, ERR_CONF);
	return r;
}

static int make_bond(const struct chained_call *m, const struct ifacer_plan *p, int *index,
		     struct undo *u, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct link_spec s = LINK_SPEC_INIT;
	struct link l;
	int r;

	s.name = p->bond_name;
	s.kind = "bond";
	s.bond = &p->bond;
	link_add(b, &s);
	r = commit(m, b, e);
	if (r < 0)
		return r;
	push(u, "delete the bond", undo_link, made_of(m->host, 0, p->bond_name, false));
	r = link_get(m->host, p->bond_name, &l, e);
	if (r >= 0)
		*index = l.index;
	return r;
}

/*
 * Sets the active port. The driver refuses a port whose link is not up yet; the driver's choice
 * then stays. (The original sets the active port when it creates the bond, which always fails.)
 */
static void choose_active(const struct chained_call *m, const struct ifacer_plan *p, int bond)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct err reason = ERR_INIT;

	ifacer_put_active(p, bond, b);
	if (nl_batch_commit(m->host, b, &reason) < 0)
		log_warn("cannot set active_slave: the driver's choice stays",
			 LOG_S("error", reason.text));
}

static int do_bond(const struct chained_call *m, const struct ifacer_plan *p, int *index,
		   struct undo *u, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	int r = 0;

	*index = p->bond_index;
	if (p->makes_bond)
		r = make_bond(m, p, index, u, e);
	if (r < 0)
		return r;
	/* The undo is pushed before the batch, because some ports may be enslaved and others
	 * refused. */
	if (p->bond_index && p->sets_bond_up)
		push(u, "set the bond down", undo_up,
		     made_of(m->host, *index, p->bond_name, false));
	for (size_t i = 0; i < p->n_ports; i++)
		push(u, "remove a port from the bond", undo_port,
		     made_of(m->host, p->ports[i].index, p->ports[i].name, p->ports[i].was_up));
	ifacer_put_ports(p, *index, b);
	r = commit(m, b, e);
	if (r >= 0 && p->active_slave)
		choose_active(m, p, *index);
	return r;
}

static int do_vlan(const struct chained_call *m, const struct ifacer_plan *p, int bond,
		   struct undo *u, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	int parent = p->parent_index ? p->parent_index : bond, r;

	ifacer_put_vlan(p, parent, b);
	r = commit(m, b, e);
	if (p->sets_parent_up)
		push(u, "set the parent down", undo_up, made_of(m->host, parent, p->parent, false));
	/* If p->sets_vlan_up, the last message concerns the VLAN interface. Otherwise the batch is
	 * empty or only sets the parent up: a VLAN interface with loose_binding is up while its
	 * parent is down. */
	if (p->sets_vlan_up && nl_batch_result(b, nl_batch_len(b) - 1) == 0)
		push(u, "remove the VLAN interface or set it down",
		     p->makes_vlan ? undo_link : undo_up,
		     made_of(m->host, p->vlan_index, p->vlan_name, false));
	return r;
}

static int create_bond_and_vlan(const struct chained_call *m, const struct ifacer_conf *c,
				const struct ifacer_plan *p, struct undo *u, struct err *e)
{
	int bond = 0, r = 0;

	if (ifacer_wants_bond(c)) {
		r = do_bond(m, p, &bond, u, e);
		if (r < 0)
			return err_wrap(e, r, ORIG("failed to createBondDevice"));
	}
	if (ifacer_wants_vlan(c)) {
		r = do_vlan(m, p, bond, u, e);
		if (r < 0)
			return err_wrap(e, r, ORIG("failed to createVlanDevice"));
	}
	return r;
}

/* Pods start concurrently: one ADD creates the links under this lock, the others find them
 * complete. */
static int lock(const struct chained_call *m, int *fd, struct err *e)
{
	int r = dir_make(&m->call->root, "/run/unirail", 0755, e);

	if (r >= 0)
		r = lock_take(&m->call->root, IFACER_LOCK, LOCK_MS, fd, e);
	if (r < 0)
		err_default_kind(e, ERR_IO);
	return r < 0 ? r : 0;
}

static int make_links(const struct chained_call *m, const struct ifacer_conf *c, struct undo *u,
		      struct err *e)
{
	auto_free struct link *links = NULL;
	auto_fd int locked = -1;
	struct ifacer_plan p;
	size_t n = 0;
	int r = lock(m, &locked, e);

	if (r >= 0)
		r = link_list(m->host, &links, &n, e);
	if (r >= 0)
		r = ifacer_plan(c, links, n, &p, e);
	if (r < 0)
		return r;
	r = create_bond_and_vlan(m, c, &p, u, e);
	ifacer_plan_done(&p);
	return r;
}

static bool wants_any(const struct ifacer_conf *c)
{
	return ifacer_wants_bond(c) || ifacer_wants_vlan(c);
}

/* The result is prevResult unchanged; that of the original is empty. */
static int add(const struct chained_call *m, struct cni_result *prev, struct undo *u, struct err *e)
{
	struct ifacer_conf c;
	int r = ifacer_conf_read(m->doc, m->conf, &c, e);

	if (r < 0)
		return r;
	/* A result that this cniVersion cannot express is an error before any link is created. */
	if (m->version < CNI_0_3_0 && !prev->n_ips)
		return err_kind(
			e, ERR_CONF, -EINVAL,
			ORIG("cannot convert: no valid IP addresses (cniVersion %s has no result "
			     "without one, expected 0.3.0 or later)"),
			cni_version_str(m->version));
	return wants_any(&c) ? make_links(m, &c, u, e) : 0;
}

static int del(const struct chained_call *m, const struct cni_result *prev, struct err *e)
{
	(void)m, (void)prev, (void)e;
	return 0;
}

static int check(const struct chained_call *m, const struct cni_result *prev, struct err *e)
{
	auto_free struct link *links = NULL;
	struct ifacer_conf c;
	size_t n = 0;
	int r = ifacer_conf_read(m->doc, m->conf, &c, e);

	(void)prev;
	if (r >= 0)
		r = link_list(m->host, &links, &n, e);
	return r < 0 ? r : ifacer_check(&c, links, n, e);
}

static int status_kind(struct nl_wire *w, const char *kind, const char *module, struct err *e)
{
	int r = link_kind_known(w, kind, e);

	if (r != 0)
		return r;
	return err_kind(e, ERR_UNAVAILABLE, -EOPNOTSUPP,
			"this kernel makes no links of kind '%s': modprobe %s", kind, module);
}

/* STATUS succeeds if the interfaces exist, no other link conflicts, and the kernel supports the
 * kinds of the links that ADD would create. */
static int status(const struct chained_call *m, struct err *e)
{
	auto_free struct link *links = NULL;
	auto_nl struct nl_wire *w = NULL;
	struct ifacer_plan p = {0};
	struct ifacer_conf c;
	size_t n = 0;
	int r = ifacer_conf_read(m->doc, m->conf, &c, e);

	if (r < 0)
		return r;
	r = nl_open(&w, NL_ROUTE, -1, e);
	if (r >= 0)
		r = link_list(w, &links, &n, e);
	if (r >= 0)
		r = ifacer_plan(&c, links, n, &p, e);
	if (r >= 0 && p.makes_bond)
		r = status_kind(w, "bond", "bonding", e);
	if (r >= 0 && p.makes_vlan)
		r = status_kind(w, "vlan", "8021q", e);
	if (r < 0)
		err_default_kind(e, ERR_UNAVAILABLE);
	ifacer_plan_done(&p);
	return r < 0 ? r : 0;
}

const struct cni_meta chained_ifacer = {
	.type = "ifacer",
	.flags = META_HOST,
	.add = add,
	.del = del,
	.check = check,
	.status = status,
};
const struct cni_plugin cni_ifacer = META_PLUGIN(ifacer, &ifacer_table);

/* --- plan: the links that the node lacks --- */

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
		return err_kind(e, ERR_CONF, -EINVAL,
				"interface '%s' is the loopback, which cannot be a port of a bond",
				name);
	if (l->master && l->master != p->bond_index) {
		master = link_find_index(links, n, l->master);
		return err_kind(
			e, ERR_CONF, -EBUSY,
			"interface '%s' is already a port of '%s': remove it from there first",
			name, master ? master->name : "another link");
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
		return err_set(e, -EINVAL, "link '%s' is not a bond", bond->name);
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

/* ADD changes neither ports nor options of a bond that has ports. Logs the bond's first difference
 * from the configuration; CHECK fails for the same difference. */
static void warn_if_other(const struct ifacer_conf *c, const struct link *bond,
			  const struct link *links, size_t n)
{
	struct err reason = ERR_INIT;

	if (check_members(c, bond, links, n, &reason) < 0)
		log_warn("an existing bond differs from the configuration",
			 LOG_S("reason", reason.text));
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

/* Refuses a VLAN id that a VLAN interface of another name already has, whatever its parent, as
 * the original does. */
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
				"is requested)",
				p->vlan, links[i].name, p->vlan_name);
	return 0;
}

static int check_existing(const struct link *l, const struct ifacer_plan *p, struct err *e)
{
	if (strcmp(l->kind, "vlan") == 0 && l->vlan_id == p->vlan && p->parent_index &&
	    l->parent == p->parent_index)
		return 0;
	return err_kind(e, ERR_CONF, -EEXIST,
			"'%s' exists and is not VLAN %u of '%s': remove or rename it", p->vlan_name,
			p->vlan, p->parent);
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
			err_wrap(e, r, ORIG("failed to createBondDevice"));
	}
	if (r >= 0 && ifacer_wants_vlan(c)) {
		r = plan_vlan(c, links, n, &p, e);
		if (r < 0)
			err_wrap(e, r, ORIG("failed to createVlanDevice"));
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
