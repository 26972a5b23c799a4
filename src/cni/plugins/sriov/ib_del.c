/* SPDX-License-Identifier: Apache-2.0 */
/* ib-sriov: DEL, GC, and VFs that a dead pod left behind. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "cni/attach/attach.h"
#include "cni/device/rdma_move.h"
#include "cni/device/vf_claim.h"
#include "cni/device/vf_home.h"
#include "cni/device/vf_place.h"
#include "kern/sys/netns.h"

/* The namespace that a record names, for who does not know better. */
static int open_netns(const struct vf_record *r)
{
	int fd = -1;

	return r->netns && *r->netns && netns_open(r->netns, &fd, NULL) >= 0 ? fd : -1;
}

/* 1: not all of it is as it was (ib_home_bring()), and the record stays. */
static int release(struct attach *a, int pod, const struct vf_record *r, unsigned int flags,
		   struct err *e)
{
	int code = ib_home_bring(a, pod, r, flags, e);

	if (code || !r->file)
		return code;
	return vf_record_remove(&a->call->root, &ib_sriov_store, r->file, e);
}

/* --- DEL --- */

/* Another attachment has it, by this plugin or by sriov. */
static bool is_others(const struct attach *a, const struct rail *rail, const char *bdf)
{
	auto_free char *netns = NULL;

	return vf_owner_read(&a->call->root, bdf, &netns, NULL) >= 0 ||
	       vf_record_is_others(&a->call->root, bdf, a->call->container_id, rail->ifname);
}

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
	    (l && !ib_guid_of_link(&l->mac)) || is_others(a, rail, id))
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

/* The VF's lock, then that of all of them, as ADD has it. */
static int lock_vf(struct attach *a, const struct rail *rail, const struct vf_record *r, int *vf,
		   int *all, struct err *e)
{
	const char *bdf = *r->device ? r->device : rail->conf.ib_sriov.device_id;
	int code = bdf ? vf_lock(&a->call->root, &bdf, 1, vf, e) : 0;

	return code < 0 ? code : ib_home_lock(&a->call->root, all, e);
}

/* What a kill left of a file that was being written. */
static int drop_broken(struct attach *a, const struct rail *rail, struct err *e)
{
	auto_free char *file = vf_record_file(a->call->container_id, rail->ifname);

	return vf_record_remove(&a->call->root, &ib_sriov_store, file, e);
}

static int del_locked(struct attach *a, const struct rail *rail, struct err *e)
{
	auto_vf_record struct vf_record r = {0};
	auto_fd int other = -1;
	int code = load(a, rail, &r, e);

	if (code == -ENOENT && guess(a, rail, &r) < 0 && !r.file)
		return drop_broken(a, rail, e);
	if (code < 0 && code != -ENOENT)
		return code;
	/* CNI_NETNS is empty: the record knows where it was. */
	if (a->netns < 0 && !*a->call->netns)
		other = open_netns(&r);
	code = release(a, a->netns < 0 ? other : a->netns, &r, 0, e);
	/* Nobody is helped by a DEL that fails for ever: GC, and the next pod that gets the VF,
	 * find the record. */
	return code > 0 ? 0 : code;
}

int ib_sriov_del(struct attach *a, const struct rail *rail, struct err *e)
{
	auto_vf_record struct vf_record r = {0};
	auto_fd int vf = -1, all = -1;
	int code = load(a, rail, &r, e);

	if (code < 0 && code != -ENOENT)
		return code;
	/* What it waits for may have changed the record. */
	code = lock_vf(a, rail, &r, &vf, &all, e);
	return code < 0 ? code : del_locked(a, rail, e);
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
	code = release(g->a, netns, r, 0, g->first < 0 ? NULL : e);
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
		vf_record_sweep(&a->call->root, &ib_sriov_store);
	if (code >= 0)
		code = vf_record_each(&a->call->root, &ib_sriov_store, collect, &g, e);
	return code < 0 ? code : g.first < 0 ? g.first : 0;
}

/* --- in the way of an ADD --- */

static bool is_same(const struct cni_call *c, const struct vf_record *r, const char *ifname)
{
	return ifname && r->container && r->ifname && strcmp(r->container, c->container_id) == 0 &&
	       strcmp(r->ifname, ifname) == 0;
}

/* A dead pod's only, or this one's, which comes again. 1: it is a living one's, and *netns (free() it) tells which. */
static int put_right(struct attach *a, const char *bdf, const char *ifname, char **living,
		     struct err *e)
{
	const struct root *root = &a->call->root;
	auto_vf_record struct vf_record r = {0};
	auto_fd int netns = -1;
	struct vf_place p;
	int code;

	if (!vf_record_of(root, &ib_sriov_store, bdf, NULL, &r))
		return 0;
	/* The original's does not tell the namespace: what is on the node is nobody's. */
	if (!r.netns && (vf_place_read(root, a->host, bdf, &p, NULL) < 0 || !*p.netdev))
		return 0;
	if (r.netns && vf_owner_lives(r.netns) && !is_same(a->call, &r, ifname)) {
		*living = xstrdup(r.netns);
		return 1;
	}
	log_info("a pod that is gone still had the VF", LOG_S("vf", bdf), LOG_S("record", r.file));
	netns = open_netns(&r);
	code = release(a, netns, &r, VF_HOME_STRICT, e);
	return code < 0 ? err_wrap(e, code, "put VF '%s' back as it was before a pod that is gone",
				   bdf)
			: 0;
}

int ib_home_free_up(struct attach *a, const char *bdf, const char *ifname, struct err *e)
{
	const struct root *root = &a->call->root;
	auto_vf_record struct vf_record r = {0};
	auto_free char *living = NULL;
	auto_fd int lock = -1;
	int code;

	if (!vf_record_of(root, &ib_sriov_store, bdf, NULL, &r))
		return 0;
	code = ib_home_lock(root, &lock, e);
	if (code >= 0)
		code = put_right(a, bdf, ifname, &living, e);
	return code > 0 ? vf_in_use(root, bdf, living, e) : code;
}
