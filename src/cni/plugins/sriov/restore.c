/* SPDX-License-Identifier: Apache-2.0 */
/* sriov: restores a VF to the node, at DEL, at GC, after a failed ADD, and when an ADD finds the
 * VF in use by a deleted pod. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "cni/device/vf_claim.h"
#include "cni/device/vf_stores.h"
#include "cni/plugins/sriov/internal.h"
#include "kern/sys/netns.h"

/* Sockets for a restore. The pod's socket is a->pod; without a->pod it is opened here, in the
 * namespace that the record names. */
struct way {
	struct vf_restore_state restore;
	struct nl_wire *own; /* opened here */
};

static void way_done(struct way *w)
{
	nl_cleanup(&w->own);
}
#define auto_way __attribute__((cleanup(way_done)))

static void way_to(struct attach *a, const char *netns, struct way *ret)
{
	auto_fd int fd = -1;

	*ret = (struct way){{&a->call->root, a->host, a->pod}, NULL};
	if (a->pod || !netns || !*netns || netns_open(netns, &fd, NULL) < 0)
		return;
	if (nl_open(&ret->own, NL_ROUTE, fd, NULL) >= 0)
		ret->restore.pod = ret->own;
}

/* The allocation file is removed first: the record alone still describes what must be restored. */
static int forget(const struct root *root, const struct vf_record *r, struct err *e)
{
	int code = vf_owner_remove(root, r->device, e);

	if (code >= 0 && r->file)
		code = vf_record_remove(root, &sriov_store, r->file, e);
	return code;
}

int sriov_release(struct attach *a, const struct vf_record *r, unsigned int flags, struct err *e)
{
	auto_way struct way w;
	int code;

	way_to(a, r->netns, &w);
	code = vf_restore(&w.restore, r, flags, e);
	return code ? code : forget(&a->call->root, r, e);
}

/* --- VFs that an ADD finds in use --- */

static int not_restored(const char *bdf, struct err *e)
{
	return err_kind(
		e, ERR_AGAIN, -EBUSY,
		"VF '%s' is still in the network namespace of a deleted pod: some process keeps the namespace",
		bdf);
}

/* Restores a VF of a pod that no longer runs. Finds it in the namespace that the record names,
 * not in that of the pod that is added. */
static int restore_from_deleted_pod(struct attach *a, const struct vf_record *r, struct err *e)
{
	struct attach node = {.call = a->call, .netns = -1, .host = a->host};
	int code = sriov_release(&node, r, VF_RESTORE_STRICT, e);

	if (code > 0)
		return not_restored(r->device, e);
	if (code < 0)
		return err_wrap(e, code, "restore VF '%s' after a deleted pod", r->device);
	log_warn("restored a VF of a deleted pod", LOG_S("vf", r->device),
		 LOG_S("record", r->file ? r->file : "none"));
	return 0;
}

/* For a VF that has no record and belonged to a deleted pod: restores the VF if the device
 * itself shows its former state, otherwise only removes the allocation file. */
static int restore_unrecorded(struct attach *a, const char *bdf, struct err *e)
{
	const struct vf_restore_state h = {&a->call->root, a->host, NULL};
	auto_vf_record struct vf_record r = {0};

	if (vf_restore_guess(&h, bdf, "", &(struct mac){0}, &r, NULL) < 0)
		return vf_owner_remove(&a->call->root, bdf, e);
	return restore_from_deleted_pod(a, &r, e);
}

int sriov_free_up(struct attach *a, const char *bdf, struct err *e)
{
	const struct root *root = &a->call->root;
	auto_vf_record struct vf_record r = {0};
	auto_free char *netns = NULL;
	int code = vf_owner_read(root, bdf, &netns, e);
	bool owned = code >= 0;

	if (code < 0 && code != -ENOENT)
		return code;
	err_clear(e);
	if (owned && vf_owner_lives(netns))
		return vf_in_use(root, bdf, netns, e);
	code = 0;
	while (code >= 0 && vf_record_of(root, &sriov_store, bdf, netns, &r)) {
		code = restore_from_deleted_pod(a, &r, e);
		owned = false;
		vf_record_done(&r);
	}
	return code >= 0 && owned ? restore_unrecorded(a, bdf, e) : code;
}

/* --- DEL --- */

/* Returns whether the VF is in another pod now, so that the record is outdated. */
static bool has_moved_on(const struct attach *a, const struct vf_record *r, const char *owner)
{
	const char *mine = r->netns ? r->netns : a->call->netns;

	return owner && *mine && strcmp(owner, mine) != 0;
}

static int del_recorded(struct attach *a, const struct vf_record *r, struct err *e)
{
	const struct root *root = &a->call->root;
	auto_free char *owner = NULL;
	int code;

	(void)vf_owner_read(root, r->device, &owner, NULL);
	if (has_moved_on(a, r, owner)) {
		log_info("not restoring a VF: another pod has it", LOG_S("vf", r->device));
		return vf_record_remove(root, &sriov_store, r->file, e);
	}
	if (r->netns || !owner)
		code = sriov_release(a, r, 0, e);
	else {
		/* Reads the namespace from the allocation file, because a record of the original
		 * plugin does not have it. */
		struct vf_record with = *r;

		with.netns = owner;
		code = sriov_release(a, &with, 0, e);
	}
	/* If the VF is not completely restored (1), DEL succeeds, because a retry would fail as
	 * well. The record stays for GC and for the ADD of the next pod that gets the VF. */
	return code > 0 ? 0 : code;
}

/* Returns whether a VF without a record belongs to this pod. If there is an allocation file:
 * whether it names the pod. Otherwise: whether the VF is in the pod, or is on the node and not yet
 * restored. */
static bool is_of_pod(struct attach *a, const char *bdf, const char *owner, const char *ifname)
{
	const struct vf_restore_state h = {&a->call->root, a->host, a->pod};
	struct vf_record r = {.ifname = (char *)(uintptr_t)ifname};
	struct vf_found f;

	if (owner)
		return *a->call->netns && strcmp(owner, a->call->netns) == 0;
	str_copy(r.device, sizeof(r.device), bdf);
	if (vf_restore_find(&h, &r, &f, NULL) < 0)
		return false;
	return f.where == VF_IN_POD || (f.where == VF_ON_NODE && f.leftover);
}

static int del_unrecorded(struct attach *a, const char *bdf, const struct rail *rail, struct err *e)
{
	const struct root *root = &a->call->root;
	const struct vf_restore_state h = {root, a->host, a->pod};
	auto_vf_record struct vf_record r = {0};
	auto_free char *owner = NULL;
	struct err reason = ERR_INIT;
	int code;

	/* Another attachment has a record of the VF, for instance because another pod has the VF
	 * and the ADD of this attachment was refused. */
	if (vf_record_is_others(root, bdf, a->call->container_id, rail->ifname))
		return 0;
	(void)vf_owner_read(root, bdf, &owner, NULL);
	if (!is_of_pod(a, bdf, owner, rail->ifname))
		return 0;
	code = vf_restore_guess(&h, bdf, rail->ifname, &rail->conf.mac, &r, &reason);
	code = vf_restore_found(bdf, code, &reason, e);
	if (code <= 0)
		return code < 0 ? code : vf_owner_remove(root, bdf, e);
	log_warn("no record of the VF's former state: restoring what the device itself reports",
		 LOG_S("vf", bdf));
	r.requested = rail->conf.sriov.want.set;
	code = sriov_release(a, &r, 0, e);
	return code > 0 ? 0 : code;
}

/* Removes temporary files of killed processes and, if this attachment has an invalid record,
 * that record, which is useless once the VF is restored. */
static int drop_broken(struct attach *a, const struct rail *rail, struct err *e)
{
	auto_free char *file = vf_record_file(a->call->container_id, rail->ifname);

	return vf_record_remove(&a->call->root, &sriov_store, file, e);
}

/* Holds the lock of one VF only, so that an ADD that has locked other VFs and waits for this one
 * cannot deadlock with this DEL. */
int sriov_del(struct attach *a, const struct rail *rail, struct err *e)
{
	const struct root *root = &a->call->root;
	auto_vf_record struct vf_record r = {0};
	struct err reason = ERR_INIT;
	auto_fd int lock = -1;
	const char *bdf;
	int loaded, code;

	loaded = vf_record_load(root, &sriov_store, a->call->container_id, rail->ifname, &r,
				&reason);
	if (loaded < 0 && loaded != -ENOENT && reason.kind != ERR_DECODE) {
		if (e)
			*e = reason;
		return loaded;
	}
	if (loaded < 0 && loaded != -ENOENT)
		log_warn("the record of a VF is invalid, restoring what the netconf names",
			 LOG_S("error", reason.text));
	bdf = loaded >= 0 ? r.device : rail->conf.sriov.device_id;
	if (!bdf || !pci_bdf_ok(bdf))
		return 0;
	code = vf_lock(root, &bdf, 1, &lock, e);
	if (code < 0)
		return code;
	/* Reads the record again, because the process that had the lock may have written one. */
	if (loaded == -ENOENT)
		loaded = vf_record_load(root, &sriov_store, a->call->container_id, rail->ifname, &r,
					NULL);
	if (loaded >= 0)
		return del_recorded(a, &r, e);
	code = del_unrecorded(a, bdf, rail, e);
	return code < 0 ? code : drop_broken(a, rail, e);
}

/* --- GC --- */

struct collecting {
	struct attach *a;
	const char *network;
	struct vf_record *list;
	size_t n;
};

static bool is_valid(const struct cni_call *c, const char *file)
{
	bool found = false;

	for (size_t i = 0; i < c->n_valid && !found; i++) {
		auto_free char *name = vf_record_file(c->valid[i].container_id, c->valid[i].ifname);

		found = strcmp(name, file) == 0;
	}
	return found;
}

static int collect(void *arg, struct vf_record *r, struct err *e)
{
	struct collecting *g = arg;

	(void)e;
	if (strcmp(r->network, g->network) != 0 || is_valid(g->a->call, r->file))
		return 0;
	VEC_PUSH(g->list, g->n) = *r;
	*r = (struct vf_record){0};
	return 0;
}

static int collect_one(struct attach *a, struct vf_record *r, struct err *e)
{
	const char *bdf = r->device;
	auto_fd int lock = -1;
	int code = vf_lock(&a->call->root, &bdf, 1, &lock, e);
	auto_free char *path = xasprintf("%s/%s", sriov_store.dir, r->file);

	if (code < 0)
		return code;
	/* Checks that the record still exists, because a DEL may have restored the VF in the
	 * meantime. */
	return file_exists(&a->call->root, path) ? del_recorded(a, r, e) : 0;
}

/* Continues after an error and returns the first error. */
int sriov_gc(struct attach *a, const struct rail *rail, struct err *e)
{
	struct collecting g = {.a = a, .network = rail->ipam.name ? rail->ipam.name : ""};
	int first, code;

	if (!a->call->has_valid)
		return 0;
	vf_record_sweep(&a->call->root, &sriov_store);
	first = vf_record_each(&a->call->root, &sriov_store, collect, &g, e);
	for (size_t i = 0; i < g.n; i++) {
		code = collect_one(a, &g.list[i], first < 0 ? NULL : e);
		first = first < 0 ? first : code;
		vf_record_done(&g.list[i]);
	}
	free(g.list);
	return first < 0 ? first : 0;
}
