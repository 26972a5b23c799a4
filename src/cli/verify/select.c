/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verify/select.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "kern/rdma/rdma.h"

enum { LIST_MAX = 700, IPOIB_MAC_LEN = 20 };

/* Bytes that the kernel's iboe_get_mtu() subtracts: GRH, UDP, BTH, extensions, ICRC. */
enum { ROCE_OVERHEAD = 96 };

uint32_t verify_roce_mtu(uint32_t link_mtu)
{
	uint32_t mtu = 4096;

	while (mtu > 256 && mtu + ROCE_OVERHEAD > link_mtu)
		mtu /= 2;
	return mtu;
}

static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

static bool verify_gid_is_ip(const uint8_t *gid, const struct ipaddr *a)
{
	if (a->family == 6)
		return memcmp(gid, a->b, 16) == 0;
	return a->family == 4 && memcmp(gid, mapped, 12) == 0 && memcmp(gid + 12, a->b, 4) == 0;
}

/* "172.16.1.10" for an IPv4-mapped GID, otherwise IPv6 text */
static const char *verify_gid_str(const uint8_t *gid, char buf[static IP_TEXT_MAX])
{
	struct ipaddr a = {.family = 6};

	if (memcmp(gid, mapped, 12) == 0) {
		a.family = 4;
		memcpy(a.b, gid + 12, 4);
	} else {
		memcpy(a.b, gid, 16);
	}
	return ip_str(&a, buf);
}

static const struct verbs_port *port_of(const struct verify_dev *d, uint32_t port)
{
	for (size_t i = 0; i < d->n_ports; i++)
		if (d->ports[i].port == port)
			return &d->ports[i];
	return NULL;
}

static bool is_behind(const struct verbs_gid *g, const struct verbs_port *p, const struct link *l,
		      const struct ipaddr *a)
{
	if (p->ethernet)
		return g->type == VERBS_GID_ROCE_V2 && verify_gid_is_ip(g->raw, a) &&
		       (g->ifindex == 0 || g->ifindex == l->index);
	return l->mac.len == IPOIB_MAC_LEN && memcmp(l->mac.b + 4, g->raw, 16) == 0;
}

static void fill(struct verify_rail *ret, const struct verify_dev *d, const struct verbs_port *p,
		 const struct verbs_gid *g)
{
	ret->dev = d;
	ret->port = p;
	ret->mtu = p->mtu;
	ret->gid_index = g && p->ethernet ? (int)g->index : -1;
	if (g)
		memcpy(ret->gid, g->raw, sizeof(ret->gid));
}

static bool find_behind(const struct verify_dev *d, const struct link *l, const struct addr *a,
			struct verify_rail *ret)
{
	for (size_t i = 0; i < d->n_gids; i++) {
		const struct verbs_port *p = port_of(d, d->gids[i].port);

		if (!p || !is_behind(&d->gids[i], p, l, &a->net.ip))
			continue;
		*ret = (struct verify_rail){.net = a->net};
		str_copy(ret->ifname, sizeof(ret->ifname), l->name);
		fill(ret, d, p, &d->gids[i]);
		ret->link_mtu = l->mtu;
		if (p->ethernet && verify_roce_mtu(l->mtu) < ret->mtu)
			ret->mtu = verify_roce_mtu(l->mtu);
		return true;
	}
	return false;
}

static bool is_rail_address(const struct ipaddr *a)
{
	return !ip_is_link_local(a) && !ip_is_loopback(a);
}

static int by_name(const void *a, const void *b)
{
	const struct verify_rail *x = a, *y = b;
	int r = strverscmp(x->ifname, y->ifname);

	return r ? r : ip_cmp(&x->net.ip, &y->net.ip);
}

void verify_rails(const struct verify_facts *f, struct verify_rail **ret, size_t *n)
{
	struct verify_rail *list = NULL, rail;
	size_t count = 0;

	for (size_t i = 0; i < f->n_addrs; i++) {
		const struct addr *a = &f->addrs[i];
		const struct link *l = link_find_index(f->links, f->n_links, a->index);

		for (size_t d = 0; l && is_rail_address(&a->net.ip) && d < f->n_devs; d++)
			if (find_behind(&f->devs[d], l, a, &rail)) {
				VEC_PUSH(list, count) = rail;
				break;
			}
	}
	if (count)
		qsort(list, count, sizeof(*list), by_name);
	*ret = list;
	*n = count;
}

/* --- the user's choice, and errors that list the possible devices, rails and GIDs --- */

static int no_devices(const struct verify_facts *f, struct err *e)
{
	if (!f->supported)
		return err_kind(e, ERR_UNAVAILABLE, -ENODEV,
				"the kernel has no RDMA: module ib_core is not loaded, or the "
				"kernel was built without it");
	if (f->reason[0])
		return err_kind(e, ERR_UNAVAILABLE, -ENODEV, "no usable RDMA device: %s",
				f->reason);
	return err_kind(
		e, ERR_UNAVAILABLE, -ENODEV,
		"no RDMA devices in this network namespace: in exclusive mode a device must be "
		"moved into it; see 'unirail rdma mode'");
}

static void list_devices(const struct verify_facts *f, struct buf *b)
{
	for (size_t i = 0; i < f->n_devs; i++)
		buf_printf(b, "%s%s", i ? ", " : "", f->devs[i].name);
	if (f->reason[0])
		buf_printf(b, "; not usable: %s", f->reason);
}

static void list_rails(const struct verify_facts *f, struct buf *b)
{
	auto_free struct verify_rail *v = NULL;
	char text[IP_TEXT_MAX];
	size_t n;

	verify_rails(f, &v, &n);
	for (size_t i = 0; i < n; i++)
		buf_printf(b, "%s%s (%s, %s)", i ? ", " : "", ip_str(&v[i].net.ip, text),
			   v[i].ifname, v[i].dev->name);
	if (!n)
		buf_str(b, "none");
}

static void list_gids(const struct verify_dev *d, uint32_t port, struct buf *b)
{
	char text[IP_TEXT_MAX];
	bool any = false;

	for (size_t i = 0; i < d->n_gids; i++) {
		const struct verbs_gid *g = &d->gids[i];

		if (g->port != port)
			continue;
		buf_printf(b, "%s%u %s (%s)", any ? ", " : "", g->index,
			   verify_gid_str(g->raw, text), verbs_gid_type_name(g->type));
		any = true;
	}
	if (!any)
		buf_str(b, "none");
}

static const char *cut(struct buf *b)
{
	if (b->over && b->len > 3)
		memcpy(b->p + b->len - 3, "...", 3);
	return b->p ? b->p : "";
}

static int find_device(const struct verify_facts *f, const struct verify_choice *c,
		       struct verify_rail *ret, struct err *e)
{
	auto_buf struct buf b;
	uint32_t port = c->port ? c->port : 1;

	buf_init(&b, LIST_MAX);
	for (size_t i = 0; i < f->n_devs; i++) {
		const struct verify_dev *d = &f->devs[i];
		const struct verbs_port *p = port_of(d, port);

		if (strcmp(d->name, c->device))
			continue;
		if (!p)
			return err_set(e, -ENODEV,
				       "RDMA device '%s' has no port %u; it has %zu port(s)",
				       d->name, port, d->n_ports);
		*ret = (struct verify_rail){0};
		fill(ret, d, p, NULL);
		return 0;
	}
	list_devices(f, &b);
	return err_kind(e, ERR_UNAVAILABLE, -ENODEV, "no usable RDMA device '%s'; usable are: %s",
			c->device, cut(&b));
}

static int no_rail(const struct verify_facts *f, const struct ipaddr *local, struct err *e)
{
	auto_buf struct buf b;
	char text[IP_TEXT_MAX];

	buf_init(&b, LIST_MAX);
	list_rails(f, &b);
	return err_kind(e, ERR_UNAVAILABLE, -ENODEV,
			"no RDMA device has a port for address %s (with --port: the port of that "
			"number); addresses with an RDMA device: %s; use an address of the peer "
			"that is in the subnet of an address with an RDMA device, or select a "
			"device by --device and --gid-index",
			ip_str(local, text), cut(&b));
}

static int no_gid(const struct verify_rail *rail, int index, const struct ipaddr *local,
		  struct err *e)
{
	auto_buf struct buf b;
	char text[IP_TEXT_MAX];

	buf_init(&b, LIST_MAX);
	list_gids(rail->dev, rail->port->port, &b);
	if (index >= 0)
		return err_set(e, -ENOENT,
			       "RDMA device '%s' has no GID with index %d on port %u; it has: %s",
			       rail->dev->name, index, rail->port->port, cut(&b));
	return err_set(e, -ENOENT,
		       "RDMA device '%s' has no RoCE v2 GID for %s on port %u; it has: %s; select "
		       "one by --gid-index",
		       rail->dev->name, ip_str(local, text), rail->port->port, cut(&b));
}

static int take_index(const struct verify_rail *rail, int index, struct verify_rail *ret,
		      struct err *e)
{
	for (size_t i = 0; i < rail->dev->n_gids; i++) {
		const struct verbs_gid *g = &rail->dev->gids[i];

		if (g->port != rail->port->port || g->index != (uint32_t)index)
			continue;
		ret->gid_index = index;
		memcpy(ret->gid, g->raw, sizeof(ret->gid));
		return 0;
	}
	return no_gid(rail, index, NULL, e);
}

/*
 * Takes GID 0 of the port, for InfiniBand without an IPoIB address: packets are then addressed by
 * LID.
 */
static void first_gid(struct verify_rail *r)
{
	for (size_t i = 0; i < r->dev->n_gids; i++)
		if (r->dev->gids[i].port == r->port->port && r->dev->gids[i].index == 0)
			memcpy(r->gid, r->dev->gids[i].raw, sizeof(r->gid));
}

static bool fits(const struct verify_rail *r, const struct verify_choice *c,
		 const struct ipaddr *local)
{
	return ip_eq(&r->net.ip, local) && (!c->device || !strcmp(r->dev->name, c->device)) &&
	       (!c->port || r->port->port == c->port);
}

static bool find_rail(const struct verify_facts *f, const struct ipaddr *local,
		      const struct verify_choice *c, struct verify_rail *ret)
{
	auto_free struct verify_rail *v = NULL;
	size_t n;

	verify_rails(f, &v, &n);
	for (size_t i = 0; i < n; i++)
		if (fits(&v[i], c, local)) {
			*ret = v[i];
			return true;
		}
	return false;
}

int verify_pick(const struct verify_facts *f, const struct ipaddr *local,
		const struct verify_choice *c, struct verify_rail *ret, struct err *e)
{
	struct verify_rail rail;
	int r;

	if (!f->n_devs)
		return no_devices(f, e);
	if (!find_rail(f, local, c, &rail)) {
		if (!c->device)
			return no_rail(f, local, e);
		r = find_device(f, c, &rail, e);
		if (r < 0)
			return r;
		if (!rail.port->ethernet)
			first_gid(&rail);
		else if (c->gid_index < 0)
			return no_gid(&rail, -1, local, e);
	}
	r = c->gid_index >= 0 ? take_index(&rail, c->gid_index, &rail, e) : 0;
	if (r == 0)
		*ret = rail;
	return r;
}

enum { REASON_MAX = 600 };

static int read_dev(const struct rdma_dev *from, struct verify_dev *d, struct err *e)
{
	auto_verbs struct verbs_dev *v = NULL;
	int r = verbs_open(&v, from->name, e);

	if (r < 0)
		return r;
	str_copy(d->name, sizeof(d->name), from->name);
	for (size_t i = 0; r == 0 && i < RDMA_PORTS_MAX; i++) {
		struct verbs_port port;

		if (!from->ports[i].port)
			continue;
		r = verbs_port_get(v, from->ports[i].port, &port, e);
		if (r == 0)
			VEC_PUSH(d->ports, d->n_ports) = port;
	}
	return r < 0 ? r : verbs_gids(v, &d->gids, &d->n_gids, e);
}

/*
 * An unusable device is not an error: the error of verify_pick() has the reason if no usable device
 * is found.
 */
static void read_devs(struct verify_facts *f, const struct rdma_dev *list, size_t n)
{
	auto_buf struct buf reason;
	struct err e = ERR_INIT;

	buf_init(&reason, REASON_MAX);
	for (size_t i = 0; i < n; i++) {
		struct verify_dev d = {0};

		if (!list[i].reason[0] && read_dev(&list[i], &d, &e) == 0) {
			VEC_PUSH(f->devs, f->n_devs) = d;
			continue;
		}
		free(d.ports);
		free(d.gids);
		buf_printf(&reason, "%s%s: %s", reason.len ? "; " : "", list[i].name,
			   list[i].reason[0] ? list[i].reason : e.text);
	}
	f->reason = xstrdup(reason.p ? reason.p : "");
}

int verify_facts_read(struct verify_facts *f, struct err *e)
{
	auto_free struct rdma_dev *list = NULL;
	auto_nl struct nl_wire *w = NULL;
	size_t n;
	int r = rdma_dev_list(&list, &n, &f->supported, e);

	if (r < 0)
		return r;
	read_devs(f, list, n);
	r = nl_open(&w, NL_ROUTE, -1, e);
	if (r == 0)
		r = link_list(w, &f->links, &f->n_links, e);
	return r < 0 ? r : addr_list(w, 0, 0, &f->addrs, &f->n_addrs, e);
}

void verify_facts_done(struct verify_facts *f)
{
	for (size_t i = 0; i < f->n_devs; i++) {
		free(f->devs[i].ports);
		free(f->devs[i].gids);
	}
	free(f->devs);
	free(f->links);
	free(f->addrs);
	free(f->reason);
	*f = (struct verify_facts){0};
}
