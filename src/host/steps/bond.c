/* SPDX-License-Identifier: Apache-2.0 */
#include "host/steps/bond.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/num.h"
#include "kern/net/link_bond.h"

enum { MTU_DEFAULT = 1500, ARP_INFINIBAND = 32, HASH_LAYER34 = 1 };

static const char *const modes[] = {"balance-rr", "active-backup", "balance-xor", "broadcast",
				    "802.3ad",	  "balance-tlb",   "balance-alb"};
enum { ACTIVE_BACKUP = 1, BALANCE_XOR = 2, MODE_802_3AD = 4 };

/* Returns the number of a bonding mode; -1: no mode has this name. */
static int mode_of(const char *name)
{
	for (size_t i = 0; name && i < ARRAY_LEN(modes); i++)
		if (strcmp(modes[i], name) == 0)
			return (int)i;
	return -1;
}

static const char *mode_name(unsigned int mode)
{
	return mode < ARRAY_LEN(modes) ? modes[mode] : "unknown";
}

bool host_bond_hashes(const struct host_bond *b)
{
	int mode = mode_of(b->mode);

	return mode == BALANCE_XOR || mode == MODE_802_3AD;
}

int host_bond_parse(const char *dev, const char *ports, const char *mode, struct host_bond *ret,
		    struct err *e)
{
	struct span rest = span_of(ports), one;

	*ret = (struct host_bond){.mode = mode ? mode : modes[MODE_802_3AD]};
	while (ports && span_cut(&rest, ',', &one)) {
		auto_free char *name = span_dup(span_trim(one));

		if (!link_name_ok(name))
			return err_kind(
				e, ERR_CONF, -EINVAL,
				"bond-ports is '%s', expected names of interfaces separated by "
				"commas",
				ports);
		if (strcmp(name, dev) == 0)
			return err_kind(e, ERR_CONF, -EINVAL,
					"bond-ports contains '%s', which is the bond itself", name);
		for (size_t i = 0; i < ret->n; i++)
			if (strcmp(ret->ports[i], name) == 0)
				return err_kind(e, ERR_CONF, -EINVAL,
						"bond-ports contains '%s' twice", name);
		if (ret->n == HOST_BOND_PORTS_MAX)
			return err_kind(e, ERR_CONF, -E2BIG, "bond-ports has more than %d ports",
					HOST_BOND_PORTS_MAX);
		str_copy(ret->ports[ret->n++], LINK_NAME_MAX, name);
	}
	if (mode && !ports)
		return err_kind(e, ERR_CONF, -EINVAL, "bond-mode is set without bond-ports");
	return 0;
}

/* --- plan of the bond and its ports --- */

static void op_of(struct host_op *op, const char *verb, const char *dev)
{
	host_op_begin(op, verb);
	host_op_add(op, "dev", "%s", dev);
}

static void plan_add(const char *dev, const struct host_bond *b, struct host_plan *p)
{
	struct host_step *s = host_plan_add(p, "addr", dev);
	auto_free char *want = xasprintf("bond %s", b->mode);

	host_step_text(s, "no interface", want);
	host_step_command(s, "ip link add %s type bond mode %s miimon %d%s", dev, b->mode,
			  HOST_BOND_MIIMON_MS,
			  host_bond_hashes(b) ? " xmit_hash_policy layer3+4" : "");
	op_of(&s->action, "bond-add", dev);
	host_op_add(&s->action, "mode", "%s", b->mode);
	op_of(&s->undo, "bond-del", dev);
}

static bool has_ports(const struct host_net *n, const struct link *bond)
{
	for (size_t i = 0; i < n->n_links; i++)
		if (n->links[i].master == bond->index)
			return true;
	return false;
}

static int plan_mode(const struct host_net *n, const struct link *l, const struct host_bond *b,
		     struct host_plan *p, struct err *e)
{
	auto_free char *now = xasprintf("bond %s", mode_name(l->bond_mode));
	auto_free char *want = xasprintf("bond %s", b->mode);
	struct host_step *s;

	if (strcmp(l->kind, "bond") != 0)
		return err_kind(
			e, ERR_CONF, -EEXIST,
			"interface '%s' exists and is not a bond: choose another name for the bond",
			l->name);
	if (l->bond_mode == mode_of(b->mode))
		return 0;
	if (has_ports(n, l) || link_is_up(l))
		return err_kind(
			e, ERR_CONF, -EBUSY,
			"bond '%s' has mode %s, which can change to %s only while the bond is "
			"down and without ports: run 'ip link del %s' first",
			l->name, mode_name(l->bond_mode), b->mode, l->name);
	s = host_plan_add(p, "addr", l->name);
	host_step_text(s, now, want);
	host_step_command(s, "ip link set %s type bond mode %s", l->name, b->mode);
	op_of(&s->action, "bond-mode", l->name);
	host_op_add(&s->action, "mode", "%s", b->mode);
	op_of(&s->undo, "bond-mode", l->name);
	host_op_add(&s->undo, "mode", "%s", mode_name(l->bond_mode));
	return 0;
}

static int check_port(const struct host_net *n, const struct link *port, const struct host_bond *b,
		      struct err *e)
{
	const struct link *master =
		port->master ? link_find_index(n->links, n->n_links, port->master) : NULL;
	char text[IP_TEXT_MAX];

	if (port->master)
		return err_kind(e, ERR_CONF, -EBUSY, "interface '%s' is already a port of '%s'",
				port->name, master ? master->name : "another interface");
	if (port->arptype == ARP_INFINIBAND && mode_of(b->mode) != ACTIVE_BACKUP)
		return err_kind(e, ERR_CONF, -EINVAL,
				"interface '%s' is InfiniBand, which supports only bond-mode "
				"active-backup",
				port->name);
	for (size_t i = 0; i < n->n_addrs; i++)
		if (n->addrs[i].index == port->index && !ip_is_link_local(&n->addrs[i].net.ip))
			return err_kind(
				e, ERR_CONF, -EBUSY,
				"interface '%s' has address %s, which a port of a bond cannot "
				"use: run 'unirail host addr %s --mode clean' first",
				port->name, ipnet_str(&n->addrs[i].net, text), port->name);
	return 0;
}

static int plan_port(const struct host_net *n, const char *dev, const struct link *bond,
		     const struct host_bond *b, const char *name, struct host_plan *p,
		     struct err *e)
{
	const struct link *port = host_link(n, name);
	auto_free char *want = xasprintf("port of %s", dev);
	struct host_step *s;
	int r;

	if (!port)
		return host_no_link(n, name, e);
	if (bond && port->master == bond->index)
		return 0;
	r = check_port(n, port, b, e);
	if (r < 0)
		return r;
	s = host_plan_add(p, "addr", dev);
	{
		auto_free char *is = xasprintf("%s %s", name, want);
		auto_free char *is_not = xasprintf("%s no port", name);

		host_step_text(s, is_not, is);
	}
	host_step_command(s, "ip link set %s down; ip link set %s master %s", name, name, dev);
	op_of(&s->action, "bond-join", name);
	host_op_add(&s->action, "bond", "%s", dev);
	op_of(&s->undo, "bond-leave", name);
	host_op_add(&s->undo, "bond", "%s", dev);
	host_op_add(&s->undo, "up", "%s", link_is_up(port) ? "yes" : "no");
	s->interrupts = link_is_up(port);
	return 0;
}

int host_bond_plan(const struct host_net *n, const char *dev, const struct host_bond *b,
		   struct link *made, const struct link **ret, struct host_plan *p, struct err *e)
{
	const struct link *l = host_link(n, dev);
	int r = 0;

	if (l) {
		r = plan_mode(n, l, b, p, e);
	} else {
		plan_add(dev, b, p);
		*made = (struct link){.index = -1, .mtu = MTU_DEFAULT};
		str_copy(made->name, sizeof(made->name), dev);
	}
	for (size_t i = 0; i < b->n && r >= 0; i++)
		r = plan_port(n, dev, l, b, b->ports[i], p, e);
	*ret = l ? l : made;
	return r;
}

/* --- execution of the operations on a bond --- */

static int absent_is_success(int r, struct err *e)
{
	if (r != -ENODEV)
		return r;
	err_clear(e);
	return 0;
}

static int act_add(struct nl_wire *w, const char *dev, int mode, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct host_bond want = {.mode = modes[mode]};
	struct link_bond options = {.set = 0};
	struct link_spec s = LINK_SPEC_INIT;
	struct link l;
	int r = link_get(w, dev, &l, e);

	if (r == 0 || r != -ENODEV)
		return r;
	err_clear(e);
	link_bond_set(&options, LINK_BOND_MODE, (uint32_t)mode);
	link_bond_set(&options, LINK_BOND_MIIMON, HOST_BOND_MIIMON_MS);
	if (host_bond_hashes(&want))
		link_bond_set(&options, LINK_BOND_XMIT_HASH_POLICY, HASH_LAYER34);
	s.name = dev;
	s.kind = "bond";
	s.bond = &options;
	link_add(b, &s);
	r = nl_batch_commit(w, b, e);
	return r == -EOPNOTSUPP ? err_wrap(e, r, "this kernel has no module 'bonding'") : r;
}

static int act_mode(struct nl_wire *w, const char *dev, int mode, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct link_bond options = {.set = 0};
	struct link l;
	int r = link_get(w, dev, &l, e);

	if (r < 0 || l.bond_mode == mode)
		return r;
	link_bond_set(&options, LINK_BOND_MODE, (uint32_t)mode);
	link_bond_change(b, l.index, dev, &options);
	return nl_batch_commit(w, b, e);
}

/* Brings up the link of a port that could not join the bond. act_join() brings the link down
 * before, and the kernel brings it up only if the port joins. */
static void set_up_again(struct nl_wire *w, const struct link *port)
{
	auto_batch struct nl_batch *b = nl_batch_new();

	link_set(b, port->index, port->name, &(struct link_change){.set = LINK_SET_UP});
	(void)nl_batch_commit(w, b, NULL);
}

static int act_join(struct nl_wire *w, const char *dev, const char *bond, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct link port, master;
	int r = link_get(w, bond, &master, e);

	if (r >= 0)
		r = link_get(w, dev, &port, e);
	if (r < 0 || port.master == master.index)
		return r;
	link_set(b, port.index, dev, &(struct link_change){.set = LINK_SET_DOWN});
	link_set(b, port.index, dev,
		 &(struct link_change){.set = LINK_SET_MASTER, .master = master.index});
	r = nl_batch_commit(w, b, e);
	if (r < 0 && link_is_up(&port))
		set_up_again(w, &port);
	return r;
}

static int act_leave(struct nl_wire *w, const char *dev, const char *bond, bool up, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct link port, master = {0};
	int r = link_get(w, dev, &port, e);

	if (r < 0)
		return absent_is_success(r, e);
	r = absent_is_success(link_get(w, bond, &master, e), e);
	if (r < 0)
		return r;
	/* Does nothing if another program has added the port to another bond. */
	if (port.master && port.master != master.index)
		return 0;
	if (port.master)
		link_set(b, port.index, dev,
			 &(struct link_change){.set = LINK_SET_MASTER, .master = 0});
	link_set(b, port.index, dev,
		 &(struct link_change){.set = up ? LINK_SET_UP : LINK_SET_DOWN});
	return nl_batch_commit(w, b, e);
}

static bool is_verb(const struct host_op *op)
{
	return strncmp(op->verb, "bond-", strlen("bond-")) == 0;
}

static int act_del(struct nl_wire *w, const char *dev, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();

	link_del(b, 0, dev);
	return nl_batch_commit(w, b, e);
}

int host_bond_act(struct host *h, const struct host_op *op, struct err *e)
{
	const char *dev = host_op_get(op, "dev"), *bond = host_op_get(op, "bond");
	const char *up = host_op_get(op, "up");
	int mode = mode_of(host_op_get(op, "mode")), r;
	struct nl_wire *w;

	if (!is_verb(op))
		return 0;
	if (!dev || !link_name_ok(dev))
		return err_kind(e, ERR_CONF, -EINVAL,
				"operation '%s': argument 'dev' is missing "
				"or is not an interface name",
				op->verb);
	r = host_route_wire(h, &w, e);
	if (r < 0)
		return r;
	if (strcmp(op->verb, "bond-add") == 0 && mode >= 0)
		r = act_add(w, dev, mode, e);
	else if (strcmp(op->verb, "bond-mode") == 0 && mode >= 0)
		r = act_mode(w, dev, mode, e);
	else if (strcmp(op->verb, "bond-join") == 0 && bond)
		r = act_join(w, dev, bond, e);
	else if (strcmp(op->verb, "bond-leave") == 0 && bond)
		r = act_leave(w, dev, bond, up && strcmp(up, "yes") == 0, e);
	else if (strcmp(op->verb, "bond-del") == 0)
		r = act_del(w, dev, e);
	else
		return err_kind(e, ERR_CONF, -EINVAL,
				"operation '%s': unknown verb, or the argument 'mode' or 'bond' is "
				"missing or invalid",
				op->verb);
	return r < 0 ? r : 1;
}

int host_bond_in_effect(struct host *h, const struct host_op *op, struct err *e)
{
	const char *dev = host_op_get(op, "dev"), *bond = host_op_get(op, "bond");
	const struct link *l, *master;
	const struct host_net *n;
	int r;

	if (!is_verb(op) || !dev)
		return -EOPNOTSUPP;
	r = host_net_read(h, &n, e);
	if (r < 0)
		return r;
	l = host_link(n, dev);
	master = bond ? host_link(n, bond) : NULL;
	if (strcmp(op->verb, "bond-join") == 0)
		/* Returns 1 for a port that is down, because the operation sets the port down
		 * before it joins. */
		return l && ((master && l->master == master->index) || !link_is_up(l));
	if (strcmp(op->verb, "bond-mode") == 0)
		return l && l->bond_mode == mode_of(host_op_get(op, "mode"));
	return l != NULL;
}
