/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/plugins/ifacer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
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

	/* Bonding takes only what is down. */
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

/* --- the reverse --- */

struct made {
	struct nl_wire *w;
	int index; /* 0: by name */
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

/* Out of the bond a port is left down; one that could not go in is up. */
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

/* --- carrying a plan out --- */

static int commit(const struct meta_call *m, struct nl_batch *b, struct err *e)
{
	int r = nl_batch_len(b) ? nl_batch_commit(m->host, b, e) : 0;

	/* Another program made it between our look and now. */
	if (r == -EEXIST)
		err_default_kind(e, ERR_AGAIN);
	/* "option not supported in mode", "invalid option value" */
	if (r == -EACCES || r == -EINVAL)
		err_default_kind(e, ERR_CONF);
	return r;
}

static int make_bond(const struct meta_call *m, const struct ifacer_plan *p, int *index,
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
 * Only a port whose link is up can be the active one, and that may take a while: then the driver's
 * choice stands. (The original asks for it when the bond is made, which is always refused.)
 */
static void choose_active(const struct meta_call *m, const struct ifacer_plan *p, int bond)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct err why = ERR_INIT;

	ifacer_put_active(p, bond, b);
	if (nl_batch_commit(m->host, b, &why) < 0)
		log_warn("active_slave is the driver's choice", LOG_S("error", why.text));
}

static int do_bond(const struct meta_call *m, const struct ifacer_plan *p, int *index,
		   struct undo *u, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	int r = 0;

	*index = p->bond_index;
	if (p->makes_bond)
		r = make_bond(m, p, index, u, e);
	if (r < 0)
		return r;
	/* Before: some ports may go in and others be refused. */
	if (p->bond_index && p->sets_bond_up)
		push(u, "set the bond down", undo_up,
		     made_of(m->host, *index, p->bond_name, false));
	for (size_t i = 0; i < p->n_ports; i++)
		push(u, "take a port out of the bond", undo_port,
		     made_of(m->host, p->ports[i].index, p->ports[i].name, p->ports[i].was_up));
	ifacer_put_ports(p, *index, b);
	r = commit(m, b, e);
	if (r >= 0 && p->active_slave)
		choose_active(m, p, *index);
	return r;
}

static int do_vlan(const struct meta_call *m, const struct ifacer_plan *p, int bond, struct undo *u,
		   struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	int parent = p->parent_index ? p->parent_index : bond, r;

	ifacer_put_vlan(p, parent, b);
	r = commit(m, b, e);
	if (p->sets_parent_up)
		push(u, "set the parent down", undo_up, made_of(m->host, parent, p->parent, false));
	/* The link's message is the last one. */
	if (nl_batch_len(b) && nl_batch_result(b, nl_batch_len(b) - 1) == 0)
		push(u, "take the VLAN interface back", p->makes_vlan ? undo_link : undo_up,
		     made_of(m->host, p->vlan_index, p->vlan_name, false));
	return r;
}

static int carry_out(const struct meta_call *m, const struct ifacer_conf *c,
		     const struct ifacer_plan *p, struct undo *u, struct err *e)
{
	int bond = 0, r = 0;

	if (ifacer_wants_bond(c)) {
		r = do_bond(m, p, &bond, u, e);
		if (r < 0)
			return err_wrap(e, r, "failed to createBondDevice");
	}
	if (ifacer_wants_vlan(c)) {
		r = do_vlan(m, p, bond, u, e);
		if (r < 0)
			return err_wrap(e, r, "failed to createVlanDevice");
	}
	return r;
}

/* Pods start side by side: one makes the links, the others find them whole. */
static int lock(const struct meta_call *m, int *fd, struct err *e)
{
	int r = dir_make(&m->call->root, "/run/unirail", 0755, e);

	if (r >= 0)
		r = lock_take(&m->call->root, IFACER_LOCK, LOCK_MS, fd, e);
	if (r < 0)
		err_default_kind(e, ERR_IO);
	return r < 0 ? r : 0;
}

static int make_links(const struct meta_call *m, const struct ifacer_conf *c, struct undo *u,
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
	r = carry_out(m, c, &p, u, e);
	ifacer_plan_done(&p);
	return r;
}

static bool wants_any(const struct ifacer_conf *c)
{
	return ifacer_wants_bond(c) || ifacer_wants_vlan(c);
}

/* prevResult goes through: the original prints an empty result instead. */
static int add(const struct meta_call *m, struct cni_result *prev, struct undo *u, struct err *e)
{
	struct ifacer_conf c;
	int r = ifacer_conf_read(m->doc, m->conf, &c, e);

	if (r < 0)
		return r;
	/* Said before links are made for a result that cannot be printed. */
	if (m->version < CNI_0_3_0 && !prev->n_ips)
		return err_kind(
			e, ERR_CONF, -EINVAL,
			"cannot convert: no valid IP addresses (cniVersion %s has no result "
			"without one, wants 0.3.0 or later)",
			cni_version_str(m->version));
	return wants_any(&c) ? make_links(m, &c, u, e) : 0;
}

static int del(const struct meta_call *m, const struct cni_result *prev, struct err *e)
{
	(void)m, (void)prev, (void)e;
	return 0;
}

static int check(const struct meta_call *m, const struct cni_result *prev, struct err *e)
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

/* The interfaces are there, nothing stands in the way, and the kernel knows what is missing. */
static int status(const struct meta_call *m, struct err *e)
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

const struct cni_meta meta_ifacer = {
	.type = "ifacer",
	.flags = META_HOST,
	.add = add,
	.del = del,
	.check = check,
	.status = status,
};
const struct cni_plugin cni_ifacer = META_PLUGIN(ifacer);
