/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "kern/sys/netns.h"
#include "kern/sys/sysctl.h"
#include "cli/demo/demo.h"

/*
 * Fabric and node, for each NIC one bridge with the gateway's address, and a veth from the bridge
 * to the node whose far end plays the physical NIC:
 *
 *	fabric: br-rail0 (172.16.1.1) --- sw-rail0 =====veth===== rail0 (172.16.1.2) :node
 */

enum { NODE_HOST = 2, GATEWAY_HOST = 1, SHARED_BITS = 24, EXCLUSIVE_BITS = 27 };

static struct ipaddr address(size_t nic, unsigned int host)
{
	return (struct ipaddr){.family = 4, .b = {172, 16, (uint8_t)nic, (uint8_t)host}};
}

static void plan_nic(struct demo *d, size_t i)
{
	struct demo_nic *n = &d->nics[i];
	bool exclusive = i > 0 && strcmp(d->opt.plan, "exclusive") == 0;
	int rail = (int)i - 1;

	if (i == 0)
		snprintf(n->name, sizeof(n->name), "eth0");
	else
		snprintf(n->name, sizeof(n->name), "rail%d", rail);
	snprintf(n->pod_if, sizeof(n->pod_if), i == 0 ? "eth0" : "net%zu", i);
	snprintf(n->pool, sizeof(n->pool), exclusive ? "%s-*" : "%s", n->name);
	n->mtu = i == 0 ? 1500 : 9000;
	n->gateway = address(i, GATEWAY_HOST);
	n->node.ip = address(i, NODE_HOST);
	n->node.len = exclusive ? EXCLUSIVE_BITS : SHARED_BITS;
}

void demo_plan(struct demo *d)
{
	d->n_nics = (size_t)d->opt.rails + 1;
	for (size_t i = 0; i < d->n_nics; i++)
		plan_nic(d, i);
}

static const char *bridge_name(const struct demo_nic *n, char buf[static LINK_NAME_MAX])
{
	snprintf(buf, LINK_NAME_MAX, "br-%.12s", n->name);
	return buf;
}

static int add_bridges(struct demo *d, struct nl_wire *w, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	char name[LINK_NAME_MAX];

	for (size_t i = 0; i < d->n_nics; i++) {
		struct link_spec s = LINK_SPEC_INIT;

		s.name = bridge_name(&d->nics[i], name);
		s.kind = "bridge";
		s.up = true;
		link_add(b, &s);
	}
	return nl_batch_commit(w, b, e);
}

static void add_cable(struct demo *d, struct nl_batch *b, const struct demo_nic *n, int bridge)
{
	struct link_spec s = LINK_SPEC_INIT;
	char port[LINK_NAME_MAX];

	snprintf(port, sizeof(port), "sw-%.12s", n->name);
	s.name = port;
	s.kind = "veth";
	s.mtu = n->mtu;
	s.master = bridge;
	s.up = true;
	s.peer_name = n->name;
	s.peer_netns_fd = d->ns[NS_NODE];
	link_add(b, &s);
}

static int add_cables(struct demo *d, struct nl_wire *w, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	auto_free struct link *links = NULL;
	char name[LINK_NAME_MAX], ip[IP_TEXT_MAX];
	size_t n;
	int r = link_list(w, &links, &n, e);

	for (size_t i = 0; r == 0 && i < d->n_nics; i++) {
		const struct demo_nic *nic = &d->nics[i];
		const struct link *br = link_find(links, n, bridge_name(nic, name));
		struct ipnet gw = {nic->gateway, nic->node.len};

		if (!br)
			return err_set(e, -ENODEV, "find the bridge of gateway '%s'",
				       ip_str(&nic->gateway, ip));
		add_cable(d, b, nic, br->index);
		addr_add(b, br->index, br->name, &gw, 0);
	}
	return r < 0 ? r : nl_batch_commit(w, b, e);
}

static int set_up_masters(struct demo *d, struct nl_wire *w, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	auto_free struct link *links = NULL;
	struct route def = {.family = 4, .dst.ip.family = 4};
	size_t n;
	int r = link_list(w, &links, &n, e);

	for (size_t i = 0; r == 0 && i < d->n_nics; i++) {
		const struct demo_nic *nic = &d->nics[i];
		const struct link *l = link_find(links, n, nic->name);
		struct link_change c = {.set = LINK_SET_MTU | LINK_SET_UP, .mtu = nic->mtu};

		if (!l)
			return err_set(e, -ENODEV, "find '%s' on the node", nic->name);
		link_set(b, l->index, l->name, &c);
		addr_add(b, l->index, l->name, &nic->node, 0);
		if (i > 0)
			continue;
		def.index = l->index;
		def.dev = nic->name;
	}
	def.gw = d->nics[0].gateway;
	route_add(b, &def, ROUTE_CREATE);
	return r < 0 ? r : nl_batch_commit(w, b, e);
}

static int without(int r, const char *kind, const char *option, struct err *e)
{
	if (r != -EOPNOTSUPP)
		return r;
	err_clear(e);
	return err_kind(e, ERR_UNAVAILABLE, r,
			"make a %s link: this kernel has none: load its module (modprobe %s) or "
			"build it with %s",
			kind, kind, option);
}

/* Whether the kernel has macvlan is best learnt before a pod needs it. */
static int try_macvlan(struct nl_wire *w, struct err *e)
{
	auto_batch struct nl_batch *add = nl_batch_new(), *del = nl_batch_new();
	struct link_spec s = LINK_SPEC_INIT;
	struct link master, made;
	int r = link_get(w, "eth0", &master, e);

	if (r < 0)
		return r;
	s.name = "try0";
	s.kind = "macvlan";
	s.parent = master.index;
	s.macvlan_mode = MACVLAN_BRIDGE;
	link_add(add, &s);
	r = nl_batch_commit(w, add, e);
	if (r < 0)
		return without(r, "macvlan", "CONFIG_MACVLAN", e);
	r = link_get(w, "try0", &made, e);
	if (r < 0)
		return r;
	link_del(del, made.index, made.name);
	return nl_batch_commit(w, del, e);
}

/* The fabric carries IPv4 only; link-local addresses that come and go would only disturb the
 * comparison of before and after. */
static int no_ipv6(struct demo *d, int ns, struct err *e)
{
	struct netns_visit v = NETNS_VISIT_INIT;
	int r = netns_enter(ns, &v, e);

	if (r < 0)
		return r;
	r = sysctl_ensure(&d->root, "net/ipv6/conf/all/disable_ipv6", "1", NULL, e);
	if (r == 0)
		r = sysctl_ensure(&d->root, "net/ipv6/conf/default/disable_ipv6", "1", NULL, e);
	netns_leave(&v);
	return r;
}

int demo_fabric_build(struct demo *d, struct err *e)
{
	auto_nl struct nl_wire *fabric = NULL, *node = NULL;
	int r = no_ipv6(d, d->ns[NS_FABRIC], e);

	if (r == 0)
		r = no_ipv6(d, d->ns[NS_NODE], e);
	if (r == 0)
		r = nl_open(&fabric, NL_ROUTE, d->ns[NS_FABRIC], e);
	if (r == 0)
		r = nl_open(&node, NL_ROUTE, d->ns[NS_NODE], e);
	if (r == 0)
		r = without(add_bridges(d, fabric, e), "bridge", "CONFIG_BRIDGE", e);
	if (r == 0)
		r = without(add_cables(d, fabric, e), "veth", "CONFIG_VETH", e);
	if (r == 0)
		r = set_up_masters(d, node, e);
	return r < 0 ? r : try_macvlan(node, e);
}
