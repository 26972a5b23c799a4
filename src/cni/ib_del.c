/* SPDX-License-Identifier: Apache-2.0 */
/* ib-sriov: DEL, GC, and VFs that a dead pod left behind. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "cni/attach.h"
#include "cni/rdma_move.h"
#include "cni/vf_claim.h"
#include "cni/vf_place.h"
#include "kern/netns.h"

static const struct vf_store *const stores[] = {&ib_sriov_store};

/* The namespace that a record names, for who does not know better. */
static int open_netns(const struct vf_record *r)
{
	int fd = -1;

	return r->netns && *r->netns && netns_open(r->netns, &fd, NULL) >= 0 ? fd : -1;
}

static int release(struct attach *a, int pod, const struct vf_record *r, struct err *e)
{
	int code = ib_home_bring(a, pod, r, false, e);

	if (code < 0 || !r->file)
		return code;
	return vf_record_remove(&a->call->root, &ib_sriov_store, r->file, e);
}

/* --- DEL --- */

/* No record: the pod's own devices, under the names they have. */
static int guess(struct attach *a, const struct rail *rail, struct vf_record *r)
{
	const char *id = rail->conf.ib_sriov.device_id;
	const struct link *l;
	struct pci_dev d;

	if (!a->pod || attach_list_pod(a, NULL) < 0)
		return -ENOENT;
	l = link_find(a->pod_links, a->n_pod_links, rail->ifname);
	if (l && *l->device)
		id = l->device;
	/* Of host-device, or of a function that is no VF: not ours. */
	if (!id || pci_read(&a->call->root, id, &d, NULL) < 0 || !*d.physfn ||
	    (l && !ib_guid_of_link(&l->mac)))
		return -ENOENT;
	str_copy(r->device, sizeof(r->device), id);
	if (l && link_name_ok(l->alias))
		str_copy(r->name, sizeof(r->name), l->alias);
	if (!rdma_move_name(&a->call->root, id, r->rdma) ||
	    rdma_move_is_in(a->netns, r->rdma, NULL) <= 0)
		r->rdma[0] = '\0';
	return *r->rdma || l ? 0 : -ENOENT;
}

static int load(struct attach *a, const struct rail *rail, struct vf_record *r, struct err *e)
{
	struct err why = ERR_INIT;
	int code = vf_record_load(&a->call->root, &ib_sriov_store, a->call->container_id,
				  rail->ifname, r, &why);

	if (code >= 0 || code == -ENOENT)
		return code;
	if (why.kind != ERR_DECODE) {
		if (e)
			*e = why;
		return code;
	}
	log_warn("the record of a VF makes no sense", LOG_S("error", why.text));
	r->file = vf_record_file(a->call->container_id, rail->ifname);
	return -ENOENT;
}

int ib_sriov_del(struct attach *a, const struct rail *rail, struct err *e)
{
	auto_vf_record struct vf_record r = {0};
	auto_fd int lock = -1, other = -1;
	int code = ib_home_lock(&a->call->root, &lock, e);

	if (code < 0)
		return code;
	code = load(a, rail, &r, e);
	if (code == -ENOENT && guess(a, rail, &r) < 0 && !r.file)
		return 0;
	if (code < 0 && code != -ENOENT)
		return code;
	/* CNI_NETNS is empty: the record knows where it was. */
	if (a->netns < 0 && !*a->call->netns)
		other = open_netns(&r);
	return release(a, a->netns < 0 ? other : a->netns, &r, e);
}

/* --- GC --- */

struct collecting {
	struct attach *a;
	int first;
};

static int collect(void *arg, struct vf_record *r, struct err *e)
{
	struct collecting *g = arg;
	const struct cni_call *c = g->a->call;
	auto_fd int netns = -1;
	bool stale;
	int code;

	if (!r->network || strcmp(r->network, c->name) != 0)
		return 0;
	stale = r->container ? !cni_is_valid(c, r->container, r->ifname)
			     : cni_file_is_stale(c, r->file);
	if (!stale)
		return 0;
	netns = open_netns(r);
	code = release(g->a, netns, r, g->first < 0 ? NULL : e);
	g->first = g->first < 0 ? g->first : code;
	return 0;
}

int ib_sriov_gc(struct attach *a, const struct rail *rail, struct err *e)
{
	struct collecting g = {.a = a};
	auto_fd int lock = -1;
	int code;

	(void)rail;
	if (!a->call->has_valid || !file_exists(&a->call->root, ib_sriov_store.dir))
		return 0;
	code = ib_home_lock(&a->call->root, &lock, e);
	if (code >= 0)
		code = vf_record_each(&a->call->root, &ib_sriov_store, collect, &g, e);
	return code < 0 ? code : g.first < 0 ? g.first : 0;
}

/* --- in the way of an ADD --- */

static bool is_same(const struct cni_call *c, const struct vf_record *r, const char *ifname)
{
	return r->container && r->ifname && strcmp(r->container, c->container_id) == 0 &&
	       strcmp(r->ifname, ifname) == 0;
}

int ib_home_free_up(struct attach *a, const char *bdf, const char *ifname, struct err *e)
{
	const struct root *root = &a->call->root;
	auto_vf_record struct vf_record r = {0};
	auto_fd int netns = -1;
	struct vf_place p;

	if (!vf_record_of(root, stores, ARRAY_LEN(stores), bdf, NULL, &r, NULL))
		return 0;
	/* The original's does not tell the namespace: what is on the node is nobody's. */
	if (!r.netns && (vf_place_read(root, a->host, bdf, &p, NULL) < 0 || !*p.netdev))
		return 0;
	if (r.netns && vf_owner_lives(r.netns) && !is_same(a->call, &r, ifname))
		return vf_in_use(root, stores, ARRAY_LEN(stores), bdf, r.netns, e);
	netns = open_netns(&r);
	log_info("a pod that is gone still had the VF", LOG_S("vf", bdf), LOG_S("record", r.file));
	return release(a, netns, &r, e);
}
