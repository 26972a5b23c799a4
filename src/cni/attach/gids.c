/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/attach/gids.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/loop.h"
#include "cni/device/rdma_move.h"
#include "kern/rdma/gid.h"
#include "kern/pci/pci.h"

enum { FIRST_PAUSE_MS = 2, LONGEST_PAUSE_MS = 40, CHAIN_MAX = 4 };

#define CLASS "/sys/class/infiniband"

/* What one ADD finds out once. */
struct finder {
	struct attach *a;
	struct link *links; /* the node's */
	size_t n_links;
	bool have_links;
	char **soft; /* RDMA devices without hardware below: soft-RoCE */
	size_t n_soft;
	bool have_soft;
	struct root pod; /* the pod's sysfs; fd -1: not opened */
};

/* A rail's RDMA device, and where its GIDs are read. */
struct wanted {
	struct rail *rail;
	const struct root *sys;
	const char *dir;
	char device[RDMA_NAME_MAX];
	struct ipaddr address;
	bool found;
};

static void finder_done(struct finder *f)
{
	free(f->links);
	str_list_free(f->soft, f->n_soft);
	if (f->pod.fd >= 0)
		root_close(&f->pod);
}

static const struct link *node_link(struct finder *f, int index)
{
	if (!f->have_links && link_list(f->a->host, &f->links, &f->n_links, NULL) < 0)
		f->n_links = 0;
	f->have_links = true;
	return link_find_index(f->links, f->n_links, index);
}

/* Only one is told apart: a function with two RDMA devices is nobody's known hardware. */
static bool rdma_of(const struct root *root, const char *device, char ret[static RDMA_NAME_MAX])
{
	char **names = NULL;
	size_t n = 0;
	bool one;

	if (!*device || pci_children(root, device, PCI_RDMA, &names, &n, NULL) < 0)
		return false;
	one = n == 1 && str_copy(ret, RDMA_NAME_MAX, names[0]);
	str_list_free(names, n);
	return one;
}

static void list_soft(struct finder *f)
{
	const struct root *root = &f->a->call->root;
	char **names = NULL, path[RDMA_NAME_MAX + 64];
	size_t n = 0;

	f->have_soft = true;
	if (dir_list(root, CLASS, &names, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		snprintf(path, sizeof(path), CLASS "/%.63s/device", names[i]);
		if (!file_exists(root, path))
			VEC_PUSH(f->soft, f->n_soft) = xstrdup(names[i]);
	}
	str_list_free(names, n);
}

static bool soft_of(struct finder *f, const char *netdev, char ret[static RDMA_NAME_MAX])
{
	char name[GID_NDEV_MAX];

	if (!f->have_soft)
		list_soft(f);
	for (size_t i = 0; i < f->n_soft; i++)
		if (gid_netdev(&f->a->call->root, "/sys", f->soft[i], name) &&
		    strcmp(name, netdev) == 0)
			return str_copy(ret, RDMA_NAME_MAX, f->soft[i]);
	return false;
}

/* A bond's RDMA device hangs on one of its ports. */
static bool rdma_of_ports(struct finder *f, const struct link *bond, char ret[static RDMA_NAME_MAX])
{
	for (size_t i = 0; i < f->n_links; i++)
		if (f->links[i].master == bond->index &&
		    rdma_of(&f->a->call->root, f->links[i].device, ret))
			return true;
	return false;
}

static bool rdma_of_link(struct finder *f, const struct link *l, char ret[static RDMA_NAME_MAX])
{
	if (rdma_of(&f->a->call->root, l->device, ret) || soft_of(f, l->name, ret))
		return true;
	if (strcmp(l->kind, "bond") != 0)
		return false;
	(void)node_link(f, l->index);
	return rdma_of_ports(f, l, ret);
}

/* The master, or what a VLAN or macvlan of the node lies on. */
static bool device_below(struct finder *f, const struct link *master,
			 char ret[static RDMA_NAME_MAX])
{
	const struct link *l = master;

	for (int i = 0; i < CHAIN_MAX && l; i++) {
		if (rdma_of_link(f, l, ret))
			return true;
		l = l->parent && l->parent_netnsid < 0 ? node_link(f, l->parent) : NULL;
	}
	return false;
}

static bool made_device(struct finder *f, struct wanted *w)
{
	w->sys = &f->a->call->root;
	w->dir = "/sys";
	return !w->rail->conf.in_container && device_below(f, &w->rail->master, w->device);
}

/* The RDMA device of one that moved is in the pod too, or stayed on the node. */
static bool moved_device(struct finder *f, struct wanted *w)
{
	const struct root *root = &f->a->call->root;
	const struct link *l = link_find_index(f->a->pod_links, f->a->n_pod_links, w->rail->index);
	const char *device = l && *l->device ? l->device : w->rail->master.device;
	struct err why = ERR_INIT;

	w->sys = root;
	w->dir = "/sys";
	if (!*device)
		return false;
	if (rdma_of(root, device, w->device))
		return true;
	if (!rdma_move_name(root, device, w->device))
		return false;
	if (f->pod.fd < 0 && netns_sysfs(f->a->netns, &f->pod, &why) < 0) {
		log_debug("GIDs", LOG_S("rail", w->rail->ifname), LOG_S("error", why.text));
		return false;
	}
	w->sys = &f->pod;
	w->dir = "";
	return true;
}

/* IPv4 before IPv6, as NCCL and its users have it. */
static bool pick_address(const struct rail *rail, struct ipaddr *ret)
{
	ret->family = 0;
	for (size_t i = 0; i < rail->got.n_ips; i++) {
		const struct ipaddr *ip = &rail->got.ips[i].address.ip;

		if (!ret->family || (ret->family == 6 && ip->family == 4))
			*ret = *ip;
	}
	return ret->family != 0;
}

/* A device that stays on the node is no use in the pod when namespaces do not share. */
static bool is_shared(struct err *e)
{
	enum rdma_netns_mode mode = RDMA_NETNS_SHARED;

	return rdma_netns_mode_get(&mode, NULL) < 0 ||
	       rdma_move_mode_fits(mode, RDMA_NETNS_SHARED, "RDMA by this rail", e) >= 0;
}

/* No key of a netconf says whether RDMA is wanted, so it is no error. A NIC that is moved alone may
 * have the rdma plugin behind it. */
static void warn_not_shared(const struct rail *rail, const char *device, const struct err *why)
{
	bool moved = rail_kind_moves(rail->kind);

	if (moved && !rail->label)
		return;
	log_warn("no RDMA for the pod: the RDMA device stays on the node",
		 LOG_S("rail", rail->ifname ? rail->ifname : ""), LOG_S("device", device),
		 LOG_S("why", moved ? "exclusive mode, and no plugin 'rdma' behind it (ib-sriov: "
				      "conf.rdmaIsolation) moves it"
				    : why->text));
}

static size_t choose(struct finder *f, struct wanted *list)
{
	struct err why = ERR_INIT;
	int shared = -1;
	size_t n = 0;

	for (size_t i = 0; i < f->a->n_rails; i++) {
		struct wanted w = {.rail = &f->a->rails[i]};
		bool moves = rail_kind_moves(w.rail->kind), stays;

		if (w.rail->no_link || !pick_address(w.rail, &w.address) ||
		    !(moves ? moved_device(f, &w) : made_device(f, &w)))
			continue;
		stays = w.sys == &f->a->call->root;
		if (stays && shared < 0)
			shared = is_shared(&why);
		if (!stays || shared > 0)
			list[n++] = w;
		else
			warn_not_shared(w.rail, w.device, &why);
	}
	return n;
}

static void take_gid(struct wanted *w, const struct gid *g)
{
	struct cni_rdma *r = &w->rail->rdma;
	char text[IP_TEXT_MAX];

	str_copy(r->device, sizeof(r->device), g->device);
	str_copy(r->gid, sizeof(r->gid), gid_str(&g->address, text));
	r->port = g->port;
	r->gid_index = g->index;
	w->found = true;
}

/* Those that are not there yet. */
static size_t look(struct wanted *list, size_t n)
{
	size_t missing = 0;
	struct gid g;

	for (size_t i = 0; i < n; i++) {
		struct wanted *w = &list[i];

		if (w->found)
			continue;
		if (gid_find(w->sys, w->dir, w->device, &w->address, w->rail->ifname, &g, NULL) > 0)
			take_gid(w, &g);
		else
			missing++;
	}
	return missing;
}

static void wait_for_gids(struct wanted *list, size_t n)
{
	int64_t end = now_mono_ms() + GIDS_LIMIT_MS;
	int pause = FIRST_PAUSE_MS;

	while (look(list, n) && now_mono_ms() < end) {
		const struct timespec t = {.tv_nsec = pause * 1000000L};

		nanosleep(&t, NULL);
		pause = pause * 2 < LONGEST_PAUSE_MS ? pause * 2 : LONGEST_PAUSE_MS;
	}
}

void attach_gids(struct attach *a)
{
	__attribute__((cleanup(finder_done))) struct finder f = {.a = a, .pod.fd = -1};
	auto_free struct wanted *list = NULL;
	char text[IP_TEXT_MAX];
	size_t n;

	if (!a->n_rails || !file_exists(&a->call->root, CLASS))
		return;
	list = xcalloc(a->n_rails, sizeof(*list));
	n = choose(&f, list);
	if (n)
		wait_for_gids(list, n);
	for (size_t i = 0; i < n; i++)
		if (!list[i].found)
			log_warn("the RDMA device has no GID of the rail's address: RDMA will not "
				 "work there (is its GID table full?)",
				 LOG_S("rail", list[i].rail->ifname),
				 LOG_S("device", list[i].device),
				 LOG_S("address", ip_str(&list[i].address, text)));
}

void attach_gids_status(struct nl_wire *host, const struct root *root, struct rail *rail)
{
	const struct cni_call call = {.root = *root};
	struct attach a = {.call = &call, .netns = -1, .host = host};
	__attribute__((cleanup(finder_done))) struct finder f = {.a = &a, .pod.fd = -1};
	struct wanted w = {.rail = rail};
	struct err why = ERR_INIT;

	if (file_exists(root, CLASS) && made_device(&f, &w) && !is_shared(&why))
		warn_not_shared(rail, w.device, &why);
}

void attach_put_rdma(const struct rail *rail, struct cni_result *r)
{
	int i = attach_prev_iface(r, rail->ifname);

	if (i >= 0)
		r->ifaces[i].rdma = rail->rdma;
}
