/* SPDX-License-Identifier: Apache-2.0 */
#include "host/steps/netop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "host/steps/bond.h"

enum { TEXT_MAX = 512 };

/* --- addresses --- */

static void addr_op(struct host_op *op, const char *verb, const char *dev, const char *cidr)
{
	host_op_begin(op, verb);
	host_op_add(op, "dev", "%s", dev);
	host_op_add(op, "cidr", "%s", cidr);
}

static void plan_addr(struct host_plan *p, const char *kind, const char *dev,
		      const struct ipnet *net, bool add)
{
	struct host_step *s = host_plan_add(p, kind, dev);
	char text[IP_TEXT_MAX];
	auto_free char *is = NULL, *is_not = NULL;

	ipnet_str(net, text);
	is = xasprintf("address %s", text);
	is_not = xasprintf("no address %s", text);
	host_step_text(s, add ? is_not : is, add ? is : is_not);
	host_step_command(s, "ip address %s %s dev %s", add ? "add" : "del", text, dev);
	addr_op(&s->action, add ? "addr-add" : "addr-del", dev, text);
	addr_op(&s->undo, add ? "addr-del" : "addr-add", dev, text);
	s->interrupts = !add;
}

void host_plan_addr_add(struct host_plan *p, const char *kind, const char *dev,
			const struct ipnet *net)
{
	plan_addr(p, kind, dev, net, true);
}

void host_plan_addr_del(struct host_plan *p, const char *kind, const char *dev,
			const struct ipnet *net)
{
	plan_addr(p, kind, dev, net, false);
}

/* --- routes --- */

char *host_route_describe(const struct route *r, const char *dev)
{
	char text[IP_TEXT_MAX];
	struct buf b;

	buf_init(&b, TEXT_MAX);
	buf_str(&b, ipnet_is_default(&r->dst) ? "default" : ipnet_str(&r->dst, text));
	if (r->gw.family)
		buf_printf(&b, " via %s", ip_str(&r->gw, text));
	if (dev)
		buf_printf(&b, " dev %s", dev);
	if (r->table != TABLE_MAIN)
		buf_printf(&b, " table %s", host_table_name(r->table));
	if (r->priority)
		buf_printf(&b, " metric %u", r->priority);
	if (r->onlink)
		buf_str(&b, " onlink");
	return buf_take(&b);
}

static void route_op(struct host_op *op, const char *verb, const struct route *r)
{
	char text[IP_TEXT_MAX];

	host_op_begin(op, verb);
	host_op_add(op, "dst", "%s", ipnet_str(&r->dst, text));
	if (r->gw.family)
		host_op_add(op, "gw", "%s", ip_str(&r->gw, text));
	host_op_add(op, "dev", "%s", r->dev);
	host_op_add(op, "table", "%u", r->table);
	host_op_add(op, "metric", "%u", r->priority);
	if (r->onlink)
		host_op_add(op, "onlink", "yes");
}

static void plan_route(struct host_plan *p, const char *kind, const struct route *r, bool add)
{
	struct host_step *s = host_plan_add(p, kind, r->dev);
	auto_free char *desc = host_route_describe(r, r->dev);
	auto_free char *is = xasprintf("route %s", desc), *is_not = xasprintf("no route %s", desc);

	host_step_text(s, add ? is_not : is, add ? is : is_not);
	host_step_command(s, "ip %sroute %s %s", r->family == 6 ? "-6 " : "", add ? "add" : "del",
			  desc);
	route_op(&s->action, add ? "route-add" : "route-del", r);
	route_op(&s->undo, add ? "route-del" : "route-add", r);
	s->interrupts = !add;
}

void host_plan_route_add(struct host_plan *p, const char *kind, const struct route *r)
{
	plan_route(p, kind, r, true);
}

void host_plan_route_del(struct host_plan *p, const char *kind, const struct route *r)
{
	plan_route(p, kind, r, false);
}

/* --- links --- */

static void dev_op(struct host_op *op, const char *verb, const char *dev)
{
	host_op_begin(op, verb);
	host_op_add(op, "dev", "%s", dev);
}

void host_plan_mtu(struct host_plan *p, const char *kind, const struct link *l, uint32_t mtu)
{
	struct host_step *s = host_plan_add(p, kind, l->name);

	s->current = xasprintf("mtu %u", l->mtu);
	s->desired = xasprintf("mtu %u", mtu);
	host_step_command(s, "ip link set dev %s mtu %u", l->name, mtu);
	dev_op(&s->action, "link-mtu", l->name);
	host_op_add(&s->action, "mtu", "%u", mtu);
	dev_op(&s->undo, "link-mtu", l->name);
	host_op_add(&s->undo, "mtu", "%u", l->mtu);
	s->interrupts = link_is_up(l);
}

void host_plan_up(struct host_plan *p, const char *kind, const char *dev)
{
	struct host_step *s = host_plan_add(p, kind, dev);

	host_step_text(s, "down", "up");
	host_step_command(s, "ip link set dev %s up", dev);
	dev_op(&s->action, "link-up", dev);
	dev_op(&s->undo, "link-down", dev);
}

/* --- execution of operations on addresses, routes and links --- */

static int wanted_cidr(const struct host_op *op, const char *key, struct ipnet *ret, struct err *e)
{
	const char *text = host_op_get(op, key);

	if (!text || ipnet_parse(span_of(text), ret) < 0)
		return err_kind(e, ERR_CONF, -EINVAL, "operation '%s': %s '%s' is not a CIDR",
				op->verb, key, text ? text : "");
	return 0;
}

static int put_addr(struct nl_batch *b, const struct host_op *op, const struct link *l,
		    struct err *e)
{
	struct ipnet net;
	int r = wanted_cidr(op, "cidr", &net, e);

	if (r < 0)
		return r;
	if (strcmp(op->verb, "addr-del") == 0) {
		addr_del(b, l->index, l->name, &net);
		return 0;
	}
	addr_add(b, l->index, l->name, &net, 0);
	return 0;
}

static int put_route(struct nl_batch *b, const struct host_op *op, const struct link *l,
		     struct err *e)
{
	const char *gw = host_op_get(op, "gw");
	struct route route = {.index = l->index, .dev = l->name};
	uint64_t table, metric;
	int r = wanted_cidr(op, "dst", &route.dst, e);

	if (r >= 0)
		r = host_op_number(op, "table", 1, UINT32_MAX, &table, e);
	if (r >= 0)
		r = host_op_number(op, "metric", 0, UINT32_MAX, &metric, e);
	if (r >= 0 && gw && ip_parse(span_of(gw), &route.gw) < 0)
		r = err_kind(e, ERR_CONF, -EINVAL, "operation '%s': gw '%s' is not an address",
			     op->verb, gw);
	if (r < 0)
		return r;
	route.family = route.dst.ip.family;
	route.table = (uint32_t)table;
	route.priority = (uint32_t)metric;
	route.onlink = host_op_get(op, "onlink") != NULL;
	if (strcmp(op->verb, "route-del") == 0)
		route_del(b, &route);
	else
		route_add(b, &route, ROUTE_EXCL_OK);
	return 0;
}

static int put_link(struct nl_batch *b, const struct host_op *op, const struct link *l,
		    struct err *e)
{
	struct link_change c = {.set = strcmp(op->verb, "link-up") == 0	   ? LINK_SET_UP
				       : strcmp(op->verb, "link-mtu") == 0 ? LINK_SET_MTU
									   : LINK_SET_DOWN};
	uint64_t mtu = 0;
	int r = c.set == LINK_SET_MTU ? host_op_number(op, "mtu", 0, UINT32_MAX, &mtu, e) : 0;

	if (r < 0)
		return r;
	c.mtu = (uint32_t)mtu;
	link_set(b, l->index, l->name, &c);
	return 0;
}

static const struct {
	const char *verb;
	int (*put)(struct nl_batch *b, const struct host_op *op, const struct link *l,
		   struct err *e);
	bool deletes; /* deletes something or sets the link down: success if the link is missing */
} verbs[] = {
	{"addr-add", put_addr, false},	 {"addr-del", put_addr, true},
	{"route-add", put_route, false}, {"route-del", put_route, true},
	{"link-mtu", put_link, false},	 {"link-up", put_link, false},
	{"link-down", put_link, true},
};

/* An address that exists is success: the operation may have been carried out before a kill. */
static int commit(struct nl_wire *w, struct nl_batch *b, const char *verb, struct err *e)
{
	int r = nl_batch_commit(w, b, e);

	if (r == -EEXIST && strcmp(verb, "addr-add") == 0) {
		err_clear(e);
		return 0;
	}
	return r;
}

int host_net_act(struct host *h, const struct host_op *op, struct err *e)
{
	const char *dev = host_op_get(op, "dev");
	auto_batch struct nl_batch *b = nl_batch_new();
	struct nl_wire *w;
	struct link l;
	int r = host_rule_act(h, op, e);

	if (r == 0)
		r = host_bond_act(h, op, e);
	if (r != 0)
		return r < 0 ? r : 0;
	for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
		if (strcmp(op->verb, verbs[i].verb) != 0 || !dev)
			continue;
		r = host_route_wire(h, &w, e);
		if (r >= 0)
			r = link_get(w, dev, &l, e);
		if (r == -ENODEV && verbs[i].deletes) {
			err_clear(e);
			return 0;
		}
		if (r < 0)
			return err_wrap(e, r, "interface '%s'", dev);
		r = verbs[i].put(b, op, &l, e);
		return r < 0 ? r : commit(w, b, op->verb, e);
	}
	return err_kind(e, ERR_UNSUPPORTED, -EOPNOTSUPP,
			"operation '%s' is unknown, or its argument 'dev' is missing", op->verb);
}

int host_net_in_effect(struct host *h, const struct host_op *op, struct err *e)
{
	const char *dev = host_op_get(op, "dev");
	const struct host_net *n;
	const struct link *l;
	uint64_t mtu;
	int r;

	r = host_bond_in_effect(h, op, e);
	if (r != -EOPNOTSUPP)
		return r;
	if (strcmp(op->verb, "link-mtu") != 0 || !dev)
		return 1;
	r = host_op_number(op, "mtu", 0, UINT32_MAX, &mtu, e);
	if (r >= 0)
		r = host_net_read(h, &n, e);
	if (r < 0)
		return r;
	l = host_link(n, dev);
	return l && l->mtu == mtu;
}
