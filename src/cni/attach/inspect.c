/* SPDX-License-Identifier: Apache-2.0 */
/* Looks up masters, devices and names before any change, and runs all checks that are possible on
 * them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cni/attach/internal.h"
#include "kern/net/link.h"
#include "kern/sys/caps.h"

bool rail_has_ipam(const struct rail *rail)
{
	return rail->ipam.conf && *rail->ipam.type;
}

bool rail_has_addresses(const struct rail *rail)
{
	return rail->got.n_ips && !rail->no_link;
}

static int name_taken(const struct rail *rail, const char *by, struct err *e)
{
	return err_set(e, -EEXIST, "%s %s '%s' in the pod: File exists (EEXIST) (%s)",
		       link_driver_moves(rail->kind) ? "attach" : "create", rail->kind->type,
		       rail->ifname, by);
}

int attach_check_names(const struct rail *rails, size_t n, const struct link *pod, size_t n_pod,
		       struct err *e)
{
	for (size_t i = 0; i < n; i++) {
		if (!link_name_ok(rails[i].ifname)) {
			err_kind(e, ERR_CONF, -EINVAL,
				 "'%s' is not an interface name (1 to 15 bytes without '/', ':' "
				 "or white space, not '.' or '..')",
				 rails[i].ifname);
			return rail_err(&rails[i], -EINVAL, e);
		}
		for (size_t k = 0; k < i; k++)
			if (strcmp(rails[i].ifname, rails[k].ifname) == 0)
				return rail_err(
					&rails[i],
					name_taken(&rails[i],
						   "another network of the pod uses this name", e),
					e);
		if (!rails[i].no_link && link_find(pod, n_pod, rails[i].ifname))
			return rail_err(
				&rails[i],
				name_taken(
					&rails[i],
					"the pod has a link of that name: delete that link, or set another interface name",
					e),
				e);
	}
	return 0;
}

static bool same_device(const struct rail *a, const struct rail *b)
{
	return !a->no_link && !b->no_link && a->master.index == b->master.index &&
	       a->conf.in_container == b->conf.in_container;
}

static int device_taken(const struct rail *rail, const struct rail *by, const char *reason,
			struct err *e)
{
	err_kind(e, ERR_CONF, -EEXIST, "'%s' is already used by '%s' of this pod: %s",
		 rail->master.name, by->ifname, reason);
	return rail_err(rail, -EEXIST, e);
}

int attach_check_devices(const struct rail *rails, size_t n, struct err *e)
{
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < i; k++) {
			const struct rail *a = &rails[k], *b = &rails[i];

			if (!same_device(a, b))
				continue;
			if (link_driver_moves(a->kind) || link_driver_moves(b->kind))
				return device_taken(
					b, a,
					"a device that moves into the pod can serve only one network",
					e);
			if (a->kind == b->kind && a->kind->same_link &&
			    a->kind->same_link(&a->conf, &b->conf))
				return device_taken(
					b, a,
					"a device can have only one interface per VLAN (conf.vlanId)",
					e);
		}
	return 0;
}

static bool leads_out(const struct route *rt)
{
	return rt->table == TABLE_MAIN && ipnet_is_default(&rt->dst);
}

static int route_link(const struct route *rt)
{
	return rt->n_hops ? rt->hops[0].index : rt->index;
}

/* Finds the device of the first default route in the main table. */
static int attach_default_master(struct nl_wire *w, struct link *ret, struct err *e)
{
	struct route *list;
	size_t n;
	int r = route_list(w, 0, TABLE_MAIN, &list, &n, e), index = 0;

	if (r < 0)
		return r;
	for (size_t i = 0; i < n && !index; i++)
		if (leads_out(&list[i]))
			index = route_link(&list[i]);
	route_list_free(list, n);
	if (!index)
		return err_kind(
			e, ERR_CONF, -ENODEV,
			"conf.master is not set, and no default route names a device: set conf.master");
	return link_get_index(w, index, ret, e);
}

/* Returns whether an error message may suggest this link as master: not loopback, and no link
 * that link_is_nodes_own() excludes by its name, such as docker0 or the host end of a veth pair. */
static bool may_be_master(const struct link *l)
{
	return !link_is_loopback(l) && link_is_nodes_own(l->name);
}

static int no_such_master(struct nl_wire *w, const char *name, int code, struct err *e)
{
	enum { MAX_NAMES = 12 };
	auto_free struct link *links = NULL;
	auto_buf struct buf names;
	size_t n, shown = 0;

	buf_init(&names, ERR_DETAILS_MAX);
	if (link_list(w, &links, &n, NULL) < 0)
		n = 0;
	for (size_t i = 0; i < n && shown < MAX_NAMES; i++)
		if (may_be_master(&links[i]))
			buf_printf(&names, "%s'%s'", shown++ ? ", " : "", links[i].name);
	err_default_kind(e, ERR_UNAVAILABLE);
	return err_wrap(e, code,
			"conf.master is '%s', but the node (with linkInContainer: the pod) has %s",
			name, names.len ? names.p : "no suitable device");
}

int attach_master(struct nl_wire *w, const struct rail_conf *c, struct link *ret, struct err *e)
{
	int r;

	if (!c->master)
		return attach_default_master(w, ret, e);
	r = link_get(w, c->master, ret, e);
	if (r == -ENODEV)
		return no_such_master(w, c->master, r, e);
	return r < 0 ? err_wrap(e, r, "conf.master") : 0;
}

struct nl_wire *attach_wire(const struct attach *a, const struct rail *rail)
{
	return rail->conf.in_container ? a->pod : a->host;
}

/* Checks kernel support once per driver; the check loads the module. */
static int query_kernel(const struct attach *a, size_t i, struct err *e)
{
	const struct link_driver *k = a->rails[i].kind;

	if (!(k->flags & RAIL_QUERIES_KERNEL))
		return 0;
	for (size_t j = 0; j < i; j++)
		if (a->rails[j].kind == k)
			return 0;
	return attach_kind_known(a->host, k, e);
}

/* A master that several attachments name is looked up once. */
static int find_master(struct attach *a, size_t i, struct err *e)
{
	struct rail *rail = &a->rails[i];

	for (size_t k = 0; k < i; k++) {
		const struct rail *other = &a->rails[k];

		if (!link_driver_moves(other->kind) &&
		    other->conf.in_container == rail->conf.in_container && rail->conf.master &&
		    other->conf.master && strcmp(rail->conf.master, other->conf.master) == 0) {
			rail->master = other->master;
			return 0;
		}
	}
	return attach_master(attach_wire(a, rail), &rail->conf, &rail->master, e);
}

/* Returns the link whose networks are passed to the IPAM. */
static const struct link *uplink(const struct rail *rail)
{
	if (rail->uplink)
		return rail->uplink;
	return rail->no_link ? NULL : &rail->master;
}

static void take_nets(struct rail *rail, const struct addr *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (list[i].index == uplink(rail)->index && !ip_is_link_local(&list[i].net.ip))
			VEC_PUSH(rail->nets, rail->n_nets) = list[i].net;
}

/* Reads the networks of the uplink. Only the IPAM spiderpool needs them, for its key
 * match_master_subnet. */
static int find_nets(struct attach *a, struct rail *rail, struct err *e)
{
	auto_free struct addr *list = NULL;
	size_t n;
	int r;

	if (!uplink(rail) || !rail_has_ipam(rail) || strcmp(rail->ipam.type, "spiderpool") != 0)
		return 0;
	if (rail->conf.in_container) {
		r = addr_list(a->pod, 0, rail->master.index, &list, &n, e);
		if (r >= 0)
			take_nets(rail, list, n);
		return r < 0 ? r : 0;
	}
	r = attach_host_addrs(a, e);
	if (r >= 0)
		take_nets(rail, a->host_addrs, a->n_host_addrs);
	return r;
}

static int inspect_below(struct attach *a, size_t i, struct err *e)
{
	struct rail *rail = &a->rails[i];
	int r;

	if (link_driver_moves(rail->kind))
		return rail->kind->inspect(a, rail, e);
	r = query_kernel(a, i, e);
	if (r >= 0)
		r = find_master(a, i, e);
	if (r >= 0 && rail->kind->fits)
		r = rail->kind->fits(&rail->conf, &rail->master, e);
	return r;
}

static int inspect_at(struct attach *a, size_t i, struct err *e)
{
	struct rail *rail = &a->rails[i];
	int r = inspect_below(a, i, e);

	if (r >= 0)
		r = find_nets(a, rail, e);
	if (r < 0)
		return rail_err(rail, r, e);
	if (!rail->ipam.call)
		rail->ipam.call = a->call;
	rail->ipam.master = uplink(rail) ? uplink(rail)->name : NULL;
	rail->ipam.nets = rail->nets;
	rail->ipam.n_nets = rail->n_nets;
	return 0;
}

static int claim(struct attach *a, const struct link_driver *k, struct err *e)
{
	return k->claim ? k->claim(a, e) : 0;
}

int attach_facts(struct attach *a, struct err *e)
{
	int r = caps_net_admin(e);

	if (r < 0)
		return err_wrap(e, r, "attach interfaces to the pod");
	r = attach_list_pod(a, e);
	if (r >= 0)
		r = attach_each_kind(a, claim, e);
	for (size_t i = 0; r >= 0 && i < a->n_rails; i++)
		r = inspect_at(a, i, e);
	if (r >= 0)
		r = attach_check_names(a->rails, a->n_rails, a->pod_links, a->n_pod_links, e);
	if (r >= 0)
		r = attach_check_devices(a->rails, a->n_rails, e);
	return r;
}
