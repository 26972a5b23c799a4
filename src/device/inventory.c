/* SPDX-License-Identifier: Apache-2.0 */
#include "device/inventory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/num.h"

enum { NETWORK_CLASS = 0x02 };

/* --- netdevs --- */

/* Reads an attribute; "" if it is missing or cannot be read, for example in the device's current
 * state (EINVAL). */
static void inventory_line(const struct root *r, char *ret, size_t size, const char *path)
{
	if (file_read_line(r, path, ret, size, NULL) < 0)
		*ret = '\0';
}

static void net_line(const struct root *r, const char *name, const char *what, char *ret,
		     size_t size)
{
	char path[96];

	snprintf(path, sizeof(path), "/sys/class/net/%.15s/%s", name, what);
	inventory_line(r, ret, size, path);
}

static uint64_t net_number(const struct root *r, const char *name, const char *what)
{
	char line[32];
	uint64_t n = 0;

	net_line(r, name, what, line, sizeof(line));
	if (num_u64(span_of(line), 0, UINT32_MAX, &n) < 0)
		(void)num_hex(span_of(line), UINT32_MAX, &n);
	return n;
}

/* Returns the VF number of a representor, from its port name ("pf0vf3", on a DPU "c1pf0vf3"); -1:
 * none. */
static int64_t represented(const struct root *r, const char *name)
{
	char port[32];
	const char *at;
	uint64_t vf;

	net_line(r, name, "phys_port_name", port, sizeof(port));
	at = strstr(port, "vf");
	return at && num_u64(span_of(at + 2), 0, UINT16_MAX, &vf) >= 0 ? (int64_t)vf : -1;
}

static bool is_representor(const struct root *r, const char *name)
{
	char port[32];

	net_line(r, name, "phys_port_name", port, sizeof(port));
	return strstr(port, "vf") || strstr(port, "sf");
}

static void take_netdev(const struct root *r, const char *name, struct inventory_function *f)
{
	struct inventory_netdev d = {.mtu = (uint32_t)net_number(r, name, "mtu"),
				     .up = net_number(r, name, "flags") & 1 /* IFF_UP */};

	str_copy(d.name, sizeof(d.name), name);
	net_line(r, name, "address", d.mac, sizeof(d.mac));
	net_line(r, name, "operstate", d.operstate, sizeof(d.operstate));
	net_line(r, name, "ifalias", d.alias, sizeof(d.alias));
	VEC_PUSH(f->netdevs, f->n_netdevs) = d;
}

static int read_netdevs(const struct root *r, struct inventory_function *f, struct err *e)
{
	char **names = NULL;
	size_t n = 0;
	int code = pci_children(r, f->pci.bdf, PCI_NETDEV, &names, &n, e);

	for (size_t i = 0; code >= 0 && i < n; i++)
		if (!is_representor(r, names[i]))
			take_netdev(r, names[i], f);
	str_list_free(names, n);
	return code;
}

static struct inventory_function *find_vf(struct inventory *inv, const char *pf, int64_t vf)
{
	for (size_t i = 0; i < inv->n; i++)
		if (inv->v[i].vf == vf && strcmp(inv->v[i].pci.physfn, pf) == 0)
			return &inv->v[i];
	return NULL;
}

/* Representors are netdevs of the PF, and their port names have the number of the VF. */
static void read_representors(const struct root *r, const char *pf, struct inventory *inv)
{
	char **names = NULL;
	size_t n = 0;

	if (pci_children(r, pf, PCI_NETDEV, &names, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		int64_t vf = represented(r, names[i]);
		struct inventory_function *f = vf >= 0 ? find_vf(inv, pf, vf) : NULL;

		if (f)
			str_copy(f->representor, sizeof(f->representor), names[i]);
	}
	str_list_free(names, n);
}

/* --- attributes from netlink --- */

static void read_attrs(struct nl_wire *w, const struct inventory_function *pf,
		       struct inventory *inv)
{
	auto_free struct vf_info *list = NULL;
	struct inventory_function *f;
	struct link l;
	size_t n = 0;

	/*
	 * The attributes are optional: a driver without them does not prevent the rest of the
	 * inventory.
	 */
	if (!pf->n_netdevs || link_get(w, pf->netdevs[0].name, &l, NULL) < 0 ||
	    vf_list(w, l.index, l.name, &list, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		f = find_vf(inv, pf->pci.bdf, list[i].vf);
		if (!f)
			continue;
		f->attrs = list[i];
		f->has_attrs = true;
	}
}

static void read_eswitch(struct devlink *d, struct inventory_function *f)
{
	f->has_eswitch = devlink_eswitch_get(d, f->pci.bdf, &f->eswitch, NULL) >= 0;
}

static void read_pfs(const struct root *r, struct nl_wire *route, struct nl_wire *generic,
		     struct inventory *inv)
{
	auto_devlink struct devlink *d = NULL;

	if (generic)
		(void)devlink_open(&d, generic, NULL);
	for (size_t i = 0; i < inv->n; i++) {
		struct inventory_function *f = &inv->v[i];

		if (!f->pci.is_pf)
			continue;
		if (d)
			read_eswitch(d, f);
		if (!f->pci.num_vfs)
			continue;
		read_representors(r, f->pci.bdf, inv);
		if (route)
			read_attrs(route, f, inv);
	}
}

/* --- the inventory --- */

static int inventory_rdma_read(const struct root *r, struct inventory_function *f, struct err *e);

static int read_function(const struct root *r, const struct pci_dev *p,
			 struct inventory_function *ret, struct err *e)
{
	char pf[PCI_BDF_MAX];
	uint32_t vf;
	int code;

	*ret = (struct inventory_function){.pci = *p, .vf = -1};
	if (*p->physfn && pci_vf_number(r, p->bdf, pf, &vf, NULL) >= 0)
		ret->vf = vf;
	code = read_netdevs(r, ret, e);
	return code < 0 ? code : inventory_rdma_read(r, ret, e);
}

int inventory_read(const struct root *r, struct nl_wire *route, struct nl_wire *generic,
		   struct inventory *ret, struct err *e)
{
	auto_inventory struct inventory inv = {0};
	auto_free struct pci_dev *list = NULL;
	size_t n = 0;
	int code = file_exists(r, "/sys/bus/pci/devices") ? pci_list(r, &list, &n, e) : 0;

	for (size_t i = 0; code >= 0 && i < n; i++)
		if (list[i].class >> 16 == NETWORK_CLASS)
			code = read_function(r, &list[i], &VEC_PUSH(inv.v, inv.n), e);
	if (code < 0)
		return code;
	read_pfs(r, route, generic, &inv);
	*ret = inv;
	inv = (struct inventory){0};
	return 0;
}

static void function_done(struct inventory_function *f)
{
	for (size_t i = 0; i < f->n_rdma; i++) {
		for (size_t k = 0; k < f->rdma[i].n_ports; k++)
			free(f->rdma[i].ports[k].gids);
		free(f->rdma[i].ports);
	}
	free(f->rdma);
	free(f->netdevs);
}

void inventory_done(struct inventory *inv)
{
	for (size_t i = 0; i < inv->n; i++)
		function_done(&inv->v[i]);
	free(inv->v);
	*inv = (struct inventory){0};
}

bool inventory_is_in_other_netns(const struct inventory_function *f)
{
	return f->vf >= 0 && *f->pci.driver && !pci_driver_is_dpdk(f->pci.driver) &&
	       !f->n_netdevs && !f->n_rdma;
}

/* --- RDMA devices of a function, with their ports and GIDs --- */

enum { PATH_SIZE = 192 };

/* Returns whether the last half of the GID is zero: the entry is unused, or (InfiniBand) the
 * port has no GUID. Also true for a GID that could not be read. */
static bool is_unused(const char *gid)
{
	static const char none[] = "0000:0000:0000:0000";
	size_t n = strlen(gid);

	return n < sizeof(none) - 1 || strcmp(gid + n - (sizeof(none) - 1), none) == 0;
}

static void port_line(const struct root *r, const char *port, const char *what, char *ret,
		      size_t size)
{
	char path[PATH_SIZE];

	snprintf(path, sizeof(path), "%s/%s", port, what);
	inventory_line(r, ret, size, path);
}

static void take_gid(const struct root *r, const char *port, const char *index,
		     struct inventory_port *p)
{
	struct inventory_gid g = {.index = atoi(index)};
	char what[48];

	snprintf(what, sizeof(what), "gids/%.15s", index);
	port_line(r, port, what, g.gid, sizeof(g.gid));
	if (is_unused(g.gid))
		return;
	snprintf(what, sizeof(what), "gid_attrs/types/%.15s", index);
	port_line(r, port, what, g.type, sizeof(g.type));
	snprintf(what, sizeof(what), "gid_attrs/ndevs/%.15s", index);
	port_line(r, port, what, g.netdev, sizeof(g.netdev));
	VEC_PUSH(p->gids, p->n_gids) = g;
}

static int by_index(const void *a, const void *b)
{
	const struct inventory_gid *x = a, *y = b;

	return x->index < y->index ? -1 : x->index > y->index;
}

static void read_gids(const struct root *r, const char *port, struct inventory_port *p)
{
	char path[PATH_SIZE], **names = NULL;
	size_t n = 0;

	snprintf(path, sizeof(path), "%s/gids", port);
	if (dir_list(r, path, &names, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++)
		take_gid(r, port, names[i], p);
	str_list_free(names, n);
	if (p->n_gids)
		qsort(p->gids, p->n_gids, sizeof(*p->gids), by_index);
}

/* Removes the number from a state such as "4: ACTIVE". */
static void cut_number(char *state)
{
	char *name = strstr(state, ": ");

	if (name)
		memmove(state, name + 2, strlen(name + 2) + 1);
}

static void read_port(const struct root *r, const char *device, const char *number,
		      struct inventory_rdma *d)
{
	struct inventory_port p = {0};
	char port[PATH_SIZE / 2 + 48];
	uint64_t n;

	if (num_u64(span_of(number), 1, UINT32_MAX, &n) < 0)
		return;
	p.port = (uint32_t)n;
	snprintf(port, sizeof(port), "/sys/class/infiniband/%.63s/ports/%.15s", device, number);
	port_line(r, port, "state", p.state, sizeof(p.state));
	cut_number(p.state);
	port_line(r, port, "link_layer", p.link_layer, sizeof(p.link_layer));
	port_line(r, port, "rate", p.rate, sizeof(p.rate));
	read_gids(r, port, &p);
	VEC_PUSH(d->ports, d->n_ports) = p;
}

static void read_device(const struct root *r, const char *name, struct inventory_function *f)
{
	struct inventory_rdma d = {0};
	char path[PATH_SIZE], **ports = NULL;
	size_t n = 0;

	str_copy(d.name, sizeof(d.name), name);
	snprintf(path, sizeof(path), "/sys/class/infiniband/%.63s/node_guid", name);
	inventory_line(r, d.node_guid, sizeof(d.node_guid), path);
	snprintf(path, sizeof(path), "/sys/class/infiniband/%.63s/ports", name);
	if (dir_list(r, path, &ports, &n, NULL) >= 0)
		for (size_t i = 0; i < n; i++)
			read_port(r, name, ports[i], &d);
	str_list_free(ports, n);
	VEC_PUSH(f->rdma, f->n_rdma) = d;
}

static int inventory_rdma_read(const struct root *r, struct inventory_function *f, struct err *e)
{
	char **names = NULL;
	size_t n = 0;
	int code = pci_children(r, f->pci.bdf, PCI_RDMA, &names, &n, e);

	for (size_t i = 0; code >= 0 && i < n; i++)
		read_device(r, names[i], f);
	str_list_free(names, n);
	return code < 0 ? code : 0;
}
